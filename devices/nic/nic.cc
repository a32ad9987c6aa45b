#include "devices/nic/nic.h"

#include <fmt/format.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "devices/nic/stream_framer.h"
#include "devices/nic/verb.h"
#include "shm/clock.h"
#include "shm/waiting.h"

namespace carillon::nic {
namespace {

using shm::MemcOutcome;

// Upper byte of epoll's data: whose event it is.
enum Tag : uint8_t {
  kSourceTag,
  kStreamTag,
  kCompletionTag,
  kGpudTag,
  kStopTag
};
uint64_t TagData(uint8_t tag) { return uint64_t{tag} << 56; }

constexpr int kEpollEvents = 256;
// Under load, descriptors that are not polled all the time wait for at most so
// many turns.
constexpr uint32_t kTurnsPerPoll = 16;
constexpr shm::Nanoseconds kMostSpinNs = 50'000;

// Slots of the registrations with large buffers.
constexpr uint32_t kLargeRing = 4;
constexpr uint32_t kLargePacketBytes = shm::AlignUp(
    std::max<uint64_t>(kMaxGetLine, kMaxLine + shm::kMemcMaxValueBytes + 2),
    shm::kCacheLine);

// Datagrams that wait for a large reply keep their packet buffers: at most one
// of so many buffers is theirs.
constexpr size_t kLargeShare = 4;

constexpr size_t Index(RequestType type) { return static_cast<size_t>(type); }
constexpr const char* KernelOf(RequestType type) {
  return type == RequestType::kGet ? "memc_get" : "memc_set";
}

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

MemcChannel::Options SmallChannel(const NicOptions& options, RequestType type) {
  return {.kernel = KernelOf(type),
          .label = type == RequestType::kGet ? "get" : "set",
          .batch = options.batch,
          .ring = options.ring,
          .priority = options.priority};
}

MemcChannel::Options LargeChannel(const NicOptions& options, RequestType type) {
  const bool get = type == RequestType::kGet;
  return {.kernel = KernelOf(type),
          .label = get ? "get-large" : "set-large",
          .batch = 1,
          .ring = kLargeRing,
          .priority = options.priority,
          .reply_stride = shm::kMemcLargeReplyStride,
          .largest = true,
          // A get line that is longer is asked in pieces.
          .slot_packet_bytes = get ? kPacketBytes : kLargePacketBytes};
}

absl::Status Check(const NicOptions& options) {
  const auto out_of_range = [](std::string_view what, uint64_t value,
                               std::string_view limit) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}: must be {}", what, value, limit));
  };
  if (options.batch < 1 || options.batch > shm::kMemcMaxBatch) {
    return out_of_range("--batch", options.batch,
                        fmt::format("1..{}", shm::kMemcMaxBatch));
  }
  if (!std::has_single_bit(options.ring) || options.ring > 4096) {
    return out_of_range("--ring", options.ring, "a power of two, 1..4096");
  }
  if (options.packet_buffers < options.batch ||
      options.packet_buffers > 1u << 20) {
    return out_of_range(
        "--packet-buffers", options.packet_buffers,
        fmt::format("{} (--batch)..{}", options.batch, 1 << 20));
  }
  if (options.max_connections < 1 || options.max_connections > 65536) {
    return out_of_range("--max-connections", options.max_connections,
                        "1..65536");
  }
  if (options.table_entries < shm::kMemcTableWays) {
    return out_of_range("--table-entries", options.table_entries,
                        fmt::format("at least {}", shm::kMemcTableWays));
  }
  return absl::OkStatus();
}

}  // namespace

Nic::Nic(const NicOptions& options) : options_(options), spin_(kMostSpinNs) {}

Nic::~Nic() = default;

absl::StatusOr<std::unique_ptr<Nic>> Nic::Start(
    const edge::DeviceContext& context, const NicOptions& options) {
  if (auto status = Check(options); !status.ok()) return status;
  std::unique_ptr<Nic> nic(new Nic(options));
  auto status = nic->Attach(context);
  if (status.ok()) status = nic->OpenChannels();
  if (status.ok()) status = nic->Listen();
  if (status.ok()) status = nic->Watch(context.stop.fd(), kStopTag);
  if (!status.ok()) return status;
  const std::string note = fmt::format("{} tcp {}", nic->source_->Describe(),
                                       nic->streams_->address().ToString());
  status = nic->device_->ReportReady(note);
  if (!status.ok()) return status;
  spdlog::info("serving memcached at {}", note);
  return nic;
}

absl::Status Nic::Attach(const edge::DeviceContext& context) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) {
    return absl::ResourceExhaustedError(
        fmt::format("epoll: {}", strerror(errno)));
  }
  const uint64_t packet_bytes =
      uint64_t{options_.packet_buffers + options_.max_connections} *
      kPacketBytes;
  edge::AttachOptions attach;
  attach.testbed_directory = context.directory;
  attach.name = context.name;
  attach.kind = "nic";
  attach.submission_bytes = packet_bytes + 4096;
  attach.completion_bytes = 4096;
  for (const RequestType type : {RequestType::kGet, RequestType::kSet}) {
    for (const auto& channel :
         {SmallChannel(options_, type), LargeChannel(options_, type)}) {
      attach.submission_bytes += MemcChannel::SubmissionBytes(channel);
      attach.completion_bytes += MemcChannel::CompletionBytes(channel);
    }
  }
  attach.counter_names = CounterNames();
  attach.histogram_names = HistogramNames();
  auto device = edge::Device::Attach(attach);
  if (!device.ok()) return device.status();
  device_ = std::move(*device);

  auto packets = device_->AllocateBuffer(edge::Place::kInput, packet_bytes);
  if (!packets.ok()) return packets.status();
  packets_ = *packets;
  pool_ = std::make_unique<PacketPool>(
      packets_.bytes.first(uint64_t{options_.packet_buffers} * kPacketBytes));
  if (auto status = Watch(device_->connection_fd(), kGpudTag); !status.ok()) {
    return status;
  }
  return Watch(device_->completion_fd(), kCompletionTag);
}

absl::Status Nic::OpenChannels() {
  auto table = device_->AllocateBuffer(
      edge::Place::kGpuMemory, shm::MemcTableBytes(options_.table_entries));
  if (!table.ok()) return table.status();
  table_ = *table;
  auto store =
      device_->AllocateBuffer(edge::Place::kGpuMemory, options_.store_bytes);
  if (!store.ok()) return store.status();
  store_ = *store;
  for (const RequestType type : {RequestType::kGet, RequestType::kSet}) {
    for (const bool large : {false, true}) {
      MemcChannel::Options options =
          large ? LargeChannel(options_, type) : SmallChannel(options_, type);
      options.packets = large ? nullptr : &packets_;
      options.table = &table_;
      options.store = &store_;
      auto channel = MemcChannel::Open(device_.get(), options);
      if (!channel.ok()) return channel.status();
      (large ? large_channels_ : channels_)[Index(type)] = std::move(*channel);
    }
    queues_.emplace_back(options_.batch,
                         uint64_t{options_.batch_timeout_us} * 1000);
  }
  return absl::OkStatus();
}

absl::Status Nic::Listen() {
  auto udp = SocketAddress::Parse(options_.listen, options_.udp_port);
  if (!udp.ok()) return udp.status();
  auto source = UdpSource::Open(*udp, pool_.get(), {});
  if (!source.ok()) return source.status();
  source_ = std::move(*source);
  if (auto status = Watch(source_->fd(), kSourceTag); !status.ok()) {
    return status;
  }
  auto tcp = SocketAddress::Parse(options_.listen, options_.tcp_port);
  if (!tcp.ok()) return tcp.status();
  auto streams =
      StreamServer::Listen(*tcp, epoll_.get(), kStreamTag,
                           {.max_connections = options_.max_connections,
                            .max_value = shm::kMemcMaxValueBytes},
                           this);
  if (!streams.ok()) return streams.status();
  streams_ = std::move(*streams);
  return absl::OkStatus();
}

absl::Status Nic::Watch(int fd, uint8_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = TagData(tag);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(fmt::format("epoll: {}", strerror(errno)));
}

absl::Status Nic::Run(const edge::StopRequest& stop) {
  absl::Status status;
  while (status.ok() && !stopping_ && !stop.requested()) {
    const bool received = ReceivePackets();
    const bool submitted = SubmitBatches(shm::NowNs());
    const bool finished = FinishEvents();
    if (!received && !submitted && !finished) {
      status = WaitForWork();
    } else if (++turns_ % kTurnsPerPoll == 0) {
      PublishCounters();
      status = PollDescriptors(0);
    }
  }
  PublishCounters();
  return status;
}

bool Nic::ReceivePackets() {
  received_.clear();
  drained_ = !source_->Receive(&received_);
  if (received_.empty()) return false;
  const shm::Nanoseconds now = shm::NowNs();
  for (const Packet& packet : received_) {
    if (packet.length < shm::kMemcFrameBytes) {
      Count(Counter::kDropsMalformed);
      pool_->Give(packet.buffer);
      continue;
    }
    Count(Counter::kUdpRequests);
    const std::string_view text =
        TextOf(pool_->bytes(packet.buffer)
                   .subspan(shm::kMemcFrameBytes,
                            packet.length - shm::kMemcFrameBytes));
    Enqueue({.origin = Request::Origin::kDatagram,
             .index = packet.buffer,
             .length = packet.length,
             .type = TypeOfRequest(text),
             .received_ns = now});
  }
  return true;
}

void Nic::OnStreamRequest(ConnectionIndex connection,
                          std::string_view request) {
  const Request entry = {.origin = Request::Origin::kStream,
                         .index = connection,
                         .length = static_cast<uint32_t>(request.size()),
                         .type = TypeOfRequest(request),
                         .received_ns = shm::NowNs()};
  if (request.size() > kPacketBytes) {
    // memc_set answers everything, and has room for it.
    large_queues_[Index(RequestType::kSet)].push_back(entry);
    return;
  }
  std::memcpy(packets_.bytes.data() + OffsetOf(entry), request.data(),
              request.size());
  Enqueue(entry);
}

void Nic::Enqueue(const Request& request) {
  queues_[Index(request.type)].Push(request);
}

uint32_t Nic::OffsetOf(const Request& request) const {
  return PacketPool::OffsetOf(request.origin == Request::Origin::kDatagram
                                  ? request.index
                                  : options_.packet_buffers + request.index);
}

std::string_view Nic::BytesOf(const Request& request) const {
  if (request.origin == Request::Origin::kStream) {
    return streams_->request(request.index);
  }
  return TextOf(pool_->bytes(request.index).first(request.length));
}

bool Nic::SubmitBatches(shm::Nanoseconds now) {
  bool submitted = SubmitLarge(now);
  for (size_t type = 0; type < kRequestTypes; ++type) {
    MemcChannel& channel = *channels_[type];
    while (channel.CanSubmit()) {
      const uint32_t count =
          queues_[type].Ready(now, drained_, channel.in_flight());
      if (count == 0) break;
      batch_.resize(count);
      queues_[type].Pop(batch_);
      placed_.clear();
      for (const Request& request : batch_) {
        placed_.push_back({request, OffsetOf(request)});
      }
      channel.Submit(placed_, now);
      Count(Counter::kBatches);
      Count(Counter::kBatchRequests, count);
      submitted = true;
    }
  }
  return submitted;
}

bool Nic::SubmitLarge(shm::Nanoseconds now) {
  bool submitted = false;
  for (size_t type = 0; type < kRequestTypes; ++type) {
    std::deque<Request>& queue = large_queues_[type];
    while (!queue.empty() && large_channels_[type]->CanSubmit()) {
      large_channels_[type]->SubmitCopy(queue.front(), BytesOf(queue.front()),
                                        now);
      queue.pop_front();
      Count(Counter::kBatches);
      Count(Counter::kBatchRequests);
      submitted = true;
    }
  }
  return submitted;
}

bool Nic::FinishEvents() {
  bool finished = false;
  for (const RequestType type : {RequestType::kGet, RequestType::kSet}) {
    for (const bool large : {false, true}) {
      MemcChannel* channel =
          (large ? large_channels_ : channels_)[Index(type)].get();
      while (const auto batch = channel->Poll()) {
        FinishBatch(channel, type, large, *batch);
        finished = true;
      }
    }
  }
  return finished;
}

void Nic::FinishBatch(MemcChannel* channel, RequestType type, bool large,
                      const FinishedBatch& batch) {
  const shm::Nanoseconds seen = shm::NowNs();
  const auto histogram = [this](Histogram which) {
    return device_->histogram(static_cast<uint32_t>(which));
  };
  histogram(Histogram::kEventLatency).Add(seen - batch.rung_ns);
  if (batch.finished_ns != 0 && batch.finished_ns <= seen) {
    histogram(Histogram::kCompletionLatency).Add(seen - batch.finished_ns);
  }
  const bool failed = batch.state != edge::EventState::kDone;
  if (failed) {
    Count(Counter::kEventsFailed);
    if (const uint64_t events = failures_.Take(seen)) {
      spdlog::warn(
          "{} event(s) of {} failed, the last with {} requests and "
          "status {}",
          events, KernelOf(type), batch.requests.size(), batch.status);
    }
  }
  replies_.clear();
  answered_.clear();
  batch_.clear();  // datagrams that are done with
  for (uint32_t i = 0; i < batch.requests.size(); ++i) {
    const Request& request = batch.requests[i];
    bool done = true;
    if (failed) {
      FailRequest(request, batch.status);
    } else {
      done = FinishRequest(request, type, large, channel->ResultOf(batch, i));
    }
    if (done && request.origin == Request::Origin::kDatagram) {
      batch_.push_back(request);
    }
  }
  if (!replies_.empty()) {
    source_->Send(replies_);
    const shm::Nanoseconds sent = shm::NowNs();
    shm::HistogramWriter latency = histogram(Histogram::kRequestLatency);
    for (const shm::Nanoseconds received : answered_) {
      latency.Add(sent - received);
    }
  }
  for (const Request& request : batch_) pool_->Give(request.index);
  channel->Free();
}

bool Nic::FinishRequest(const Request& request, RequestType type, bool large,
                        const RequestResult& result) {
  const bool stream = request.origin == Request::Origin::kStream;
  switch (result.outcome) {
    case MemcOutcome::kAnswered:
    case MemcOutcome::kSilent:
      Count(Counter::kGetHits, result.hits);
      Count(Counter::kGetMisses, result.misses);
      if (type == RequestType::kSet) Count(Counter::kSets);
      if (stream) {
        ReplyToStream(request, TextOf(result.reply), result.quit);
        return true;
      }
      if (result.reply.empty()) return true;
      Count(Counter::kUdpReplies);
      answered_.push_back(request.received_ns);
      for (size_t at = 0; at < result.reply.size();
           at += shm::kMemcDatagramBytes) {
        const size_t bytes =
            std::min<size_t>(shm::kMemcDatagramBytes, result.reply.size() - at);
        replies_.push_back({request.index, result.reply.data() + at,
                            static_cast<uint32_t>(bytes)});
      }
      return true;
    case MemcOutcome::kTooLarge:
      if (!large) {
        if (!stream && large_queues_[Index(type)].size() >=
                           options_.packet_buffers / kLargeShare) {
          Count(Counter::kDropsLarge);
          return true;
        }
        Count(Counter::kLargeReplies);
        large_queues_[Index(type)].push_back(request);
        return false;
      }
      if (!stream) break;
      if (!streams_->ReplyTooLarge(request.index)) {
        ReplyToStream(request,
                      "SERVER_ERROR out of memory writing get response\r\n",
                      false);
      }
      return true;
    case MemcOutcome::kWrongKernel:
      if (type == RequestType::kSet) break;
      Count(Counter::kReroutes);
      if (large) {
        large_queues_[Index(RequestType::kSet)].push_back(request);
      } else {
        Request other = request;
        other.type = RequestType::kSet;
        Enqueue(other);
      }
      return false;
    case MemcOutcome::kDropped:
      Count(Counter::kDropsMalformed);
      if (stream) ReplyToStream(request, "ERROR\r\n", false);
      return true;
    default:
      break;
  }
  // A kernel that keeps to memc_wire.h does not get here.
  spdlog::warn("{} answered outcome {}", KernelOf(type),
               static_cast<uint32_t>(result.outcome));
  if (stream) {
    ReplyToStream(request, "SERVER_ERROR internal error\r\n", false);
  } else {
    Count(Counter::kDropsMalformed);
  }
  return true;
}

void Nic::FailRequest(const Request& request, uint32_t status) {
  if (request.origin == Request::Origin::kDatagram) return;
  ReplyToStream(
      request, fmt::format("SERVER_ERROR event failed (status {})\r\n", status),
      false);
}

void Nic::ReplyToStream(const Request& request, std::string_view text,
                        bool close) {
  streams_->Reply(request.index, text, close);
}

bool Nic::EventsInFlight() const {
  for (size_t type = 0; type < kRequestTypes; ++type) {
    if (channels_[type]->in_flight() + large_channels_[type]->in_flight() > 0) {
      return true;
    }
  }
  return false;
}

bool Nic::CompletionWaits() const {
  for (size_t type = 0; type < kRequestTypes; ++type) {
    if (channels_[type]->Poll() || large_channels_[type]->Poll()) return true;
  }
  return false;
}

absl::Status Nic::WaitForWork() {
  const shm::Nanoseconds start = shm::NowNs();
  std::optional<shm::Nanoseconds> deadline;
  for (size_t type = 0; type < kRequestTypes; ++type) {
    // A full ring waits for a completion, whatever the time.
    if (!channels_[type]->CanSubmit()) continue;
    const auto closes = queues_[type].Deadline();
    if (closes && (!deadline || *closes < *deadline)) deadline = closes;
  }
  const bool in_flight = EventsInFlight();
  while (shm::NowNs() - start < spin_.budget()) {
    if (in_flight) {
      for (int i = 0; i < 16; ++i) {
        if (CompletionWaits()) return absl::OkStatus();
        shm::CpuRelax();
      }
    }
    if (ReceivePackets()) return absl::OkStatus();
    sched_yield();
  }
  PublishCounters();
  if (in_flight) {
    device_->ArmCompletionFd();
    if (CompletionWaits()) {
      device_->DisarmCompletionFd();
      return absl::OkStatus();
    }
  }
  int64_t timeout_ns = -1;
  if (deadline) {
    const shm::Nanoseconds now = shm::NowNs();
    timeout_ns = *deadline > now ? static_cast<int64_t>(*deadline - now) : 0;
  }
  const absl::Status status = PollDescriptors(timeout_ns);
  if (in_flight) device_->DisarmCompletionFd();
  spin_.Slept(shm::NowNs() - start);
  return status;
}

absl::Status Nic::PollDescriptors(int64_t timeout_ns) {
  std::array<epoll_event, kEpollEvents> events;
  const timespec timeout = {.tv_sec = timeout_ns / 1'000'000'000,
                            .tv_nsec = timeout_ns % 1'000'000'000};
  const int count = epoll_pwait2(epoll_.get(), events.data(), kEpollEvents,
                                 timeout_ns < 0 ? nullptr : &timeout, nullptr);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    switch (event.data.u64 >> 56) {
      case kStreamTag:
        streams_->OnEvent(event.data.u64, event.events);
        break;
      case kGpudTag:
        if (auto status = device_->WaitForEnd(std::chrono::seconds(1));
            !status.ok()) {
          return status;
        }
        return absl::UnavailableError("gpud closed the connection");
      case kStopTag:
        stopping_ = true;
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

void Nic::PublishCounters() {
  const SourceCounts& source = source_->counts();
  const auto set = [this](Counter counter, uint64_t value) {
    counters_[static_cast<uint32_t>(counter)] = value;
  };
  set(Counter::kDropsNoBuffer, source.no_buffer);
  set(Counter::kDropsOversized, source.oversized);
  set(Counter::kDropsSend, source.send_failed);
  set(Counter::kUdpDatagramsOut, source.datagrams_sent);
  set(Counter::kTcpCommands, streams_->counts().commands);
  set(Counter::kTcpConnections, streams_->counts().open);
  for (uint32_t i = 0; i < kCounters; ++i) {
    device_->SetCounter(i, counters_[i]);
  }
}

}  // namespace carillon::nic
