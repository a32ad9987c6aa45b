#include "devices/nic/gnom_path.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "kernels/memcached/gnom_wire.h"

namespace carillon::nic {
namespace {

using memcached::GnomVerdict;
using memcached::kGnomReplyBytes;
using memcached::kGrxbBytes;
using memcached::kGrxbFrame;
using memcached::kGrxbIp;

// So many GRXBs are registered and empty, if so many are free.
constexpr uint32_t kRegistered = 1024;

// The counter of a verdict by which the kernel drops a packet.
Counter CounterOf(GnomVerdict verdict) {
  switch (verdict) {
    case GnomVerdict::kTruncated:
    case GnomVerdict::kBadLength:
      return Counter::kGnomDropsLength;
    case GnomVerdict::kBadChecksum:
    case GnomVerdict::kBadUdpChecksum:
      return Counter::kGnomDropsChecksum;
    case GnomVerdict::kFragment:
      return Counter::kGnomDropsFragment;
    case GnomVerdict::kNotIpv4:
    case GnomVerdict::kNotForUs:
    case GnomVerdict::kWrongPort:
      return Counter::kGnomDropsNotForUs;
    case GnomVerdict::kBadSource:
      return Counter::kGnomDropsSource;
    case GnomVerdict::kMalformed:
      return Counter::kGnomDropsMalformed;
    default:
      return Counter::kGnomLost;
  }
}

uint32_t Big16(std::span<const std::byte> bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]) << 8 |
         std::to_integer<uint32_t>(bytes[at + 1]);
}

uint64_t GrxbMemory(const NicOptions& options) {
  return uint64_t{options.grxbs} * kGrxbBytes;
}

}  // namespace

uint64_t GnomPath::SubmissionBytes(const NicOptions& options) {
  return GrxbMemory(options) + uint64_t{options.ring} * 256 + 4096;
}

uint64_t GnomPath::CompletionBytes(const NicOptions& options) {
  return GnomChannel::CompletionBytes(options.batch, options.ring);
}

GnomPath::GnomPath(const NicOptions& options, const Parts& parts)
    : copies_(options.gnom_copies),
      parts_(parts),
      ring_(options.grxbs),
      queue_(options.batch, uint64_t{options.batch_timeout_us} * 1000),
      received_ns_(options.grxbs) {
  if (!copies_) return;
  host_frames_.resize(GrxbMemory(options));
  host_replies_.resize(uint64_t{options.batch} * kGnomReplyBytes);
}

absl::StatusOr<std::unique_ptr<GnomPath>> GnomPath::Open(
    const NicOptions& options, const SocketAddress& server,
    const Parts& parts) {
  std::unique_ptr<GnomPath> path(new GnomPath(options, parts));
  ASSIGN_OR_RETURN(path->grxbs_, parts.device->AllocateBuffer(
                                     edge::Place::kInput, GrxbMemory(options)));
  ASSIGN_OR_RETURN(
      path->socket_,
      FrameSocket::Open({.interface = options.gnom,
                         .port = server.port(),
                         .memory = path->copies_ ? std::span(path->host_frames_)
                                                 : path->grxbs_.bytes},
                        &path->ring_));
  ASSIGN_OR_RETURN(
      path->channel_,
      GnomChannel::Open(parts.device, {.batch = options.batch,
                                       .ring = options.ring,
                                       .priority = options.priority,
                                       .address = server.Ipv4(),
                                       .port = server.port(),
                                       .grxbs = path->grxbs_,
                                       .table = parts.table,
                                       .store = parts.store}));
  return path;
}

std::span<std::byte> GnomPath::grxb(GrxbIndex index) const {
  return grxbs_.bytes.subspan(uint64_t{index} * kGrxbBytes, kGrxbBytes);
}

bool GnomPath::Receive() {
  ring_.Register(kRegistered);
  const uint32_t before = ring_.filled();
  const GrxbIndex first = ring_.empty() == 0 ? 0 : ring_.Next(0);
  drained_ = !socket_->Receive();
  const uint32_t received = ring_.filled() - before;
  if (received == 0) return false;
  const Nanoseconds now = NowNs();
  for (uint32_t i = 0; i < received; ++i) {
    const GrxbIndex index = (first + i) % ring_.size();
    received_ns_[index] = now;
    queue_.Push({.origin = Request::Origin::kDatagram,
                 .index = index,
                 .type = RequestType::kGet,
                 .received_ns = now});
  }
  parts_.counters->Count(Counter::kGnomFrames, received);
  return true;
}

bool GnomPath::Submit(Nanoseconds now) {
  bool submitted = false;
  while (channel_->CanSubmit()) {
    const uint32_t count = queue_.Ready(now, drained_, channel_->in_flight());
    if (count == 0) break;
    batch_.resize(count);
    queue_.Pop(batch_);
    const GrxbBatch batch = ring_.Submit(count);
    if (copies_) {
      for (const Request& request : batch_) {
        const std::byte* const from =
            host_frames_.data() + uint64_t{request.index} * kGrxbBytes;
        uint16_t length;
        std::memcpy(&length, from, sizeof(length));
        std::memcpy(grxb(request.index).data(), from,
                    std::min<size_t>(kGrxbFrame + size_t{length}, kGrxbBytes));
      }
    }
    channel_->Submit(batch, now);
    parts_.counters->Count(Counter::kGnomBatches);
    submitted = true;
  }
  return submitted;
}

std::optional<Nanoseconds> GnomPath::Deadline() const {
  // A full ring waits for a completion, whatever the time.
  return channel_->CanSubmit() ? queue_.Deadline() : std::nullopt;
}

bool GnomPath::Finish() {
  bool finished = false;
  while (const auto batch = channel_->Poll()) {
    FinishBatch(*batch);
    finished = true;
  }
  return finished;
}

void GnomPath::FinishBatch(const FinishedGrxbs& finished) {
  const bool failed = finished.state != edge::EventState::kDone;
  if (failed) {
    parts_.counters->Count(Counter::kEventsFailed);
    if (const uint64_t events = failures_.Take(NowNs())) {
      spdlog::warn(
          "{} event(s) of memc_gnom_get failed, the last with {} packets and "
          "status {}",
          events, finished.batch.count, finished.status);
    }
  }
  for (uint32_t i = 0; i < finished.batch.count; ++i) {
    const GnomResult result =
        failed ? GnomResult{} : channel_->ResultOf(finished, i);
    FinishPacket(result, (finished.batch.first + i) % ring_.size());
  }
  socket_->Send(replies_);
  const Nanoseconds sent = NowNs();
  auto latency = parts_.device->histogram(
      static_cast<uint32_t>(Histogram::kRequestLatency));
  for (const Nanoseconds received : answered_) latency.Add(sent - received);
  parts_.device->histogram(static_cast<uint32_t>(Histogram::kEventLatency))
      .Add(sent - finished.rung_ns);
  replies_.clear();
  answered_.clear();
  if (!ring_.Recycle(finished.batch)) {
    spdlog::error("a batch of GRXBs has ended out of order: {} from {} on",
                  finished.batch.count, finished.batch.first);
  }
  channel_->Free();
}

void GnomPath::FinishPacket(const GnomResult& result, GrxbIndex index) {
  switch (result.verdict) {
    case GnomVerdict::kAnswered:
      parts_.counters->Count(Counter::kGnomReplies);
      parts_.counters->Count(result.hit ? Counter::kGetHits
                                        : Counter::kGetMisses);
      answered_.push_back(received_ns_[index]);
      Answer(result.reply);
      return;
    case GnomVerdict::kOptions:
    case GnomVerdict::kOtherCommand:
    case GnomVerdict::kTooLarge:
      PassOn(index);
      return;
    default:
      parts_.counters->Count(CounterOf(result.verdict));
      return;
  }
}

void GnomPath::Answer(std::span<const std::byte> frame) {
  if (copies_) {
    const std::span<std::byte> copy =
        std::span(host_replies_)
            .subspan(replies_.size() * kGnomReplyBytes, frame.size());
    std::memcpy(copy.data(), frame.data(), frame.size());
    frame = copy;
  }
  replies_.push_back(frame);
}

void GnomPath::PassOn(GrxbIndex index) {
  constexpr size_t kUdpHeader = 8;
  const std::span<const std::byte> bytes = grxb(index);
  const size_t header = (std::to_integer<size_t>(bytes[kGrxbIp]) & 0x0f) * 4;
  // The kernel has seen that the datagram lies in its frame.
  const size_t udp = kGrxbIp + header;
  const size_t length = Big16(bytes, udp + 4);
  if (length < kUdpHeader || udp + length > kGrxbBytes) {
    parts_.counters->Count(Counter::kGnomDropsLength);
    return;
  }
  const uint32_t address =
      Big16(bytes, kGrxbIp + 12) << 16 | Big16(bytes, kGrxbIp + 14);
  const bool passed =
      parts_.pass_on(bytes.subspan(udp + kUdpHeader, length - kUdpHeader),
                     address, static_cast<uint16_t>(Big16(bytes, udp)));
  parts_.counters->Count(passed ? Counter::kGnomPassedOn
                                : Counter::kGnomDropsNoBuffer);
}

void GnomPath::Count() {
  const FrameSocketCounts& counts = socket_->counts();
  parts_.counters->Set(Counter::kGnomDropsNoGrxb, counts.no_buffer);
  parts_.counters->Set(Counter::kGnomDropsOverrun, counts.overrun);
  parts_.counters->Set(Counter::kGnomDropsSend, counts.send_failed);
  parts_.counters->Set(Counter::kGrxbsFree, ring_.free());
  parts_.counters->Set(Counter::kGrxbsRegistered,
                       ring_.empty() + ring_.filled());
  parts_.counters->Set(Counter::kGrxbsBusy, ring_.busy());
}

}  // namespace carillon::nic
