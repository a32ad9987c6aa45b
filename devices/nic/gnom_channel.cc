#include "devices/nic/gnom_channel.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace carillon::nic {
namespace {

constexpr uint32_t kWarp = 32;
// An ESQ or ECQ entry with everything that belongs to it takes less.
constexpr uint64_t kRingBytesPerSlot = 256;
// Room for the alignment of allocations.
constexpr uint64_t kSlack = 4096;

uint64_t SecondsSinceEpoch() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec);
}

constexpr uint64_t kResultBytes = sizeof(memcached::GnomResult);

}  // namespace

uint64_t GnomChannel::CompletionBytes(uint32_t batch, uint32_t ring) {
  return ring * (uint64_t{batch} * (memcached::kGnomReplyBytes + kResultBytes) +
                 kRingBytesPerSlot) +
         kSlack;
}

absl::StatusOr<std::unique_ptr<GnomChannel>> GnomChannel::Open(
    edge::Device* device, const Options& options) {
  std::unique_ptr<GnomChannel> channel(new GnomChannel(options));
  RETURN_IF_ERROR(channel->Register(device));
  return channel;
}

absl::Status GnomChannel::Register(edge::Device* device) {
  using edge::Place;
  const uint32_t batch = options_.batch;
  const uint64_t replies = uint64_t{batch} * memcached::kGnomReplyBytes;
  const uint64_t results = batch * kResultBytes;
  ASSIGN_OR_RETURN(replies_, device->AllocateBuffer(Place::kOutput,
                                                    options_.ring * replies));
  ASSIGN_OR_RETURN(results_, device->AllocateBuffer(Place::kOutput,
                                                    options_.ring * results));
  const auto by_slot = [](uint64_t bytes) {
    return edge::BufferPart{.offset = 0, .length = bytes, .slot_stride = bytes};
  };
  // As many pairs of a main thread and its helper as fit a block.
  const uint32_t pairs =
      std::min((batch + kWarp - 1) / kWarp * kWarp, memcached::kGnomPairs);
  const edge::EventSpec spec = {
      .kernel = "memc_gnom_get",
      .grid = {(batch + pairs - 1) / pairs, 1, 1},
      .block = {2 * pairs, 1, 1},
      .max_in_flight = options_.ring,
      .priority = options_.priority,
      .label = "gnom-get",
      .parameters = {edge::Fixed("grxbs", options_.grxbs),
                     edge::Fixed("replies", replies_, by_slot(replies)),
                     edge::Fixed("results", results_, by_slot(results)),
                     edge::Fixed("table", options_.table),
                     edge::Fixed("store", options_.store),
                     edge::Writable("first"), edge::Writable("now_s"),
                     edge::Writable("count"),
                     edge::Constant("address", options_.address),
                     edge::Constant("port", options_.port)}};
  ASSIGN_OR_RETURN(queue_, edge::edgeRegisterEvent(*device, spec));
  for (const auto& [name, offset] :
       {std::pair("first", &first_offset_), std::pair("count", &count_offset_),
        std::pair("now_s", &now_offset_)}) {
    ASSIGN_OR_RETURN(*offset, queue_->ParameterOffset(name));
  }
  slots_.resize(options_.ring);
  return absl::OkStatus();
}

void GnomChannel::Submit(const GrxbBatch& batch, Nanoseconds now) {
  slots_[queue_->next_slot()] = {batch, now};
  queue_->Set<uint64_t>(first_offset_,
                        uint64_t{batch.first} * memcached::kGrxbBytes);
  queue_->Set<uint32_t>(count_offset_, batch.count);
  queue_->Set<uint64_t>(now_offset_, SecondsSinceEpoch());
  queue_->RingDoorbell();
}

std::optional<FinishedGrxbs> GnomChannel::Poll() const {
  const std::optional<edge::Completion> done = queue_->Poll();
  if (!done) return std::nullopt;
  const uint32_t slot = queue_->SlotOf(done->sequence);
  return FinishedGrxbs{.state = done->state,
                       .status = done->status,
                       .batch = slots_[slot].batch,
                       .rung_ns = slots_[slot].rung_ns,
                       .slot = slot};
}

GnomResult GnomChannel::ResultOf(const FinishedGrxbs& finished,
                                 uint32_t i) const {
  const uint64_t at = uint64_t{finished.slot} * options_.batch + i;
  memcached::GnomResult result;
  std::memcpy(&result, results_.bytes.data() + at * kResultBytes, kResultBytes);
  GnomResult checked = {
      .verdict = result.verdict, .hit = result.hit != 0, .reply = {}};
  if (result.verdict != memcached::GnomVerdict::kAnswered) return checked;
  if (result.length > memcached::kGnomReplyBytes - memcached::kGrxbFrame) {
    checked.verdict = memcached::GnomVerdict::kCorrupt;
    return checked;
  }
  checked.reply = replies_.bytes.subspan(
      at * memcached::kGnomReplyBytes + memcached::kGrxbFrame, result.length);
  return checked;
}

}  // namespace carillon::nic
