#include "devices/nic/nic.h"

#include <fmt/format.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "shm/waiting.h"

namespace carillon::nic {
namespace {

// The upper byte of epoll's data says which part an event is for.
enum Tag : uint8_t {
  kSourceTag,
  kStreamTag,
  kCompletionTag,
  kFramesTag,
  kGpudTag,
  kStopTag
};
uint64_t TagData(uint8_t tag) { return uint64_t{tag} << 56; }

constexpr int kEpollEvents = 256;
// Under load, descriptors that are not polled in every turn wait for at most so
// many turns.
constexpr uint32_t kTurnsPerPoll = 16;
constexpr Nanoseconds kMaxSpinNs = 50'000;
constexpr uint32_t kRecoverThreads = 256;
constexpr Nanoseconds kRecoverWithinNs = 60'000'000'000;
constexpr std::chrono::milliseconds kBetweenLaunches{10};
// Durable buffers also take input room, and pages of their own.
constexpr uint64_t kDurableInputBytes = (64 << 10) + 4096;

}  // namespace

Nic::Nic(const NicOptions& options)
    : options_(options),
      pid_(static_cast<uint64_t>(getpid())),
      started_s_(static_cast<uint64_t>(time(nullptr))),
      spin_(kMaxSpinNs) {}

Nic::~Nic() = default;

absl::StatusOr<std::unique_ptr<Nic>> Nic::Start(
    const edge::DeviceContext& context, const NicOptions& options) {
  RETURN_IF_ERROR(Check(options));
  std::unique_ptr<Nic> nic(new Nic(options));
  RETURN_IF_ERROR(nic->Attach(context));
  RETURN_IF_ERROR(nic->OpenLanes());
  RETURN_IF_ERROR(nic->Listen());
  RETURN_IF_ERROR(nic->Watch(context.stop.fd(), kStopTag));
  std::string note = fmt::format("{} tcp {}", nic->source_->Describe(),
                                 nic->streams_->address().ToString());
  if (nic->gnom_ != nullptr) {
    note += fmt::format(" {} {}", options.gnom_copies ? "ngd" : "gnom",
                        options.gnom);
  }
  RETURN_IF_ERROR(nic->device_->ReportReady(note));
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
  const bool gnom = !options_.gnom.empty();
  attach.submission_bytes = packet_bytes + 2 * 4096 +
                            RequestChannels::SubmissionBytes(options_) +
                            (gnom ? GnomPath::SubmissionBytes(options_) : 0);
  attach.completion_bytes = 4096 + RequestChannels::CompletionBytes(options_) +
                            (gnom ? GnomPath::CompletionBytes(options_) : 0);
  if (options_.durable) {
    attach.submission_bytes += kDurableInputBytes;
    attach.completion_bytes += memcached::TableBytes(options_.table_entries) +
                               options_.store_bytes + 3 * 4096;
  }
  attach.counter_names = CounterNames(gnom);
  attach.histogram_names = HistogramNames();
  ASSIGN_OR_RETURN(device_, edge::Device::Attach(attach));

  ASSIGN_OR_RETURN(packets_,
                   device_->AllocateBuffer(edge::Place::kInput, packet_bytes));
  pool_ = std::make_unique<PacketPool>(
      packets_.bytes.first(uint64_t{options_.packet_buffers} * kPacketBytes));
  return WatchGpud();
}

absl::Status Nic::WatchGpud() {
  RETURN_IF_ERROR(Watch(device_->connection_fd(), kGpudTag));
  return Watch(device_->completion_fd(), kCompletionTag);
}

absl::Status Nic::OpenLanes() {
  const edge::Place place =
      options_.durable ? edge::Place::kDurable : edge::Place::kGpuMemory;
  ASSIGN_OR_RETURN(table_,
                   device_->AllocateBuffer(
                       place, memcached::TableBytes(options_.table_entries)));
  ASSIGN_OR_RETURN(store_,
                   device_->AllocateBuffer(place, options_.store_bytes));
  ASSIGN_OR_RETURN(server_,
                   device_->AllocateBuffer(edge::Place::kInput,
                                           sizeof(memcached::ServerStats)));
  if (options_.durable) {
    ASSIGN_OR_RETURN(marks_,
                     device_->AllocateBuffer(
                         edge::Place::kGpuMemory,
                         memcached::RecoveryMarkBytes(options_.store_bytes)));
    ASSIGN_OR_RETURN(recovered_,
                     device_->AllocateBuffer(edge::Place::kOutput,
                                             sizeof(memcached::Recovered)));
    // Nothing is in it so far.
    RETURN_IF_ERROR(RecoverStore().status());
  }
  return channels_.Open(device_.get(), options_,
                        {.packets = packets_,
                         .table = table_,
                         .store = store_,
                         .server = server_});
}

absl::StatusOr<bool> Nic::RecoverStore() {
  const edge::Device::LaunchSpec spec = {
      .kernel = "memc_recover",
      .block = {kRecoverThreads, 1, 1},
      .parameters = {edge::Fixed("table", table_), edge::Fixed("store", store_),
                     edge::Fixed("marks", marks_),
                     edge::Fixed("recovered", recovered_)}};
  auto launched = device_->LaunchKernel(spec);
  // All devices of a testbed may be launching now.
  const Nanoseconds deadline = NowNs() + kRecoverWithinNs;
  while (absl::IsResourceExhausted(launched.status()) && NowNs() < deadline) {
    std::this_thread::sleep_for(kBetweenLaunches);
    launched = device_->LaunchKernel(spec);
  }
  RETURN_IF_ERROR(launched.status());
  memcached::Recovered found;
  std::memcpy(&found, recovered_.bytes.data(), sizeof(found));
  if (found.kept == 0) return false;
  spdlog::info(
      "the store is as it was: {} items, {} bytes; {} locks released, {} "
      "references dropped",
      found.items, found.bytes, found.locks, found.dropped);
  return true;
}

absl::Status Nic::TakeStoreOver() {
  ASSIGN_OR_RETURN(const bool trusted, RecoverStore());
  if (!trusted) {
    spdlog::warn(
        "the durable store was not trusted and is empty: a kernel had found it "
        "broken, or it lacks the stamp of these kernels");
  }
  return absl::OkStatus();
}

absl::Status Nic::Listen() {
  ASSIGN_OR_RETURN(auto udp,
                   SocketAddress::Parse(options_.listen, options_.udp_port));
  ASSIGN_OR_RETURN(source_, UdpSource::Open(udp, pool_.get(), {}));
  RETURN_IF_ERROR(Watch(source_->fd(), kSourceTag));
  ASSIGN_OR_RETURN(auto tcp,
                   SocketAddress::Parse(options_.listen, options_.tcp_port));
  ASSIGN_OR_RETURN(streams_, StreamServer::Listen(
                                 tcp, epoll_.get(), kStreamTag,
                                 {.max_connections = options_.max_connections,
                                  .max_value = memcached::kMaxValueBytes},
                                 this));
  responder_ =
      std::make_unique<Responder>(Responder::Parts{.device = device_.get(),
                                                   .pool = pool_.get(),
                                                   .source = source_.get(),
                                                   .streams = streams_.get(),
                                                   .channels = &channels_,
                                                   .counters = &counters_});
  return options_.gnom.empty() ? absl::OkStatus() : OpenGnom();
}

absl::Status Nic::OpenGnom() {
  const auto pass_on = [this](std::span<const std::byte> datagram,
                              uint32_t address, uint16_t port) {
    const auto packet = source_->Adopt(datagram, address, port);
    if (packet) Sort(*packet, NowNs());
    return packet.has_value();
  };
  ASSIGN_OR_RETURN(gnom_, GnomPath::Open(options_, source_->address(),
                                         {.device = device_.get(),
                                          .table = table_,
                                          .store = store_,
                                          .counters = &counters_,
                                          .pass_on = pass_on}));
  RETURN_IF_ERROR(LeaveGetsToFrames(source_->fd(), options_.gnom));
  return Watch(gnom_->fd(), kFramesTag);
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

absl::Status Nic::Run(const edge::DeviceContext& context) {
  while (true) {
    const absl::Status halted = Serve(context.stop);
    if (halted.ok()) return halted;
    FinishEvents();
    // Requests wait in the sockets meanwhile.
    std::function<absl::Status()> prepare;
    if (options_.durable) prepare = [this] { return TakeStoreOver(); };
    RETURN_IF_ERROR(edge::GoOnAfter(halted, *device_, context, prepare));
    if (const absl::Status lost = device_->status(store_); !lost.ok()) {
      spdlog::warn("the store is empty: {}", lost.message());
    }
    RETURN_IF_ERROR(WatchGpud());
  }
}

absl::Status Nic::Serve(const edge::StopRequest& stop) {
  absl::Status status;
  while (status.ok() && !stopping_ && !stop.requested()) {
    const bool received = Receive();
    const bool submitted = SubmitBatches(NowNs());
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

bool Nic::Receive() {
  const bool frames = gnom_ != nullptr && gnom_->Receive();
  return ReceivePackets() || frames;
}

bool Nic::ReceivePackets() {
  received_.clear();
  drained_ = !source_->Receive(&received_);
  if (received_.empty()) return false;
  const Nanoseconds now = NowNs();
  for (const Packet& packet : received_) Sort(packet, now);
  return true;
}

void Nic::Sort(const Packet& packet, Nanoseconds now) {
  if (packet.length < memcached::kFrameBytes) {
    counters_.Count(Counter::kDropsMalformed);
    pool_->Give(packet.buffer);
    return;
  }
  counters_.Count(Counter::kUdpRequests);
  // memc_set answers every command, and has room for a long one.
  const bool large = packet.length > kPacketBytes;
  const RequestType type =
      large ? RequestType::kSet
            : TypeOfRequest(pool_->Whole(packet.buffer, packet.length)
                                .substr(memcached::kFrameBytes));
  channels_.of(type, large)
      .queue.Push({.origin = Request::Origin::kDatagram,
                   .index = packet.buffer,
                   .length = packet.length,
                   .type = type,
                   .received_ns = now});
}

void Nic::OnStreamRequest(ConnectionIndex connection,
                          std::string_view request) {
  const Request entry = {.origin = Request::Origin::kStream,
                         .index = connection,
                         .length = static_cast<uint32_t>(request.size()),
                         .type = TypeOfRequest(request),
                         .received_ns = NowNs()};
  if (request.size() > kPacketBytes) {
    // memc_set answers every command, and has room for the reply.
    channels_.of(RequestType::kSet, /*large=*/true).queue.Push(entry);
    return;
  }
  std::memcpy(packets_.bytes.data() + OffsetOf(entry), request.data(),
              request.size());
  channels_.of(entry.type).queue.Push(entry);
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
  return pool_->Whole(request.index, request.length);
}

bool Nic::SubmitBatches(Nanoseconds now) {
  bool submitted = gnom_ != nullptr && gnom_->Submit(now);
  for (RequestChannel& lane : channels_) {
    while (lane.channel->CanSubmit()) {
      const uint32_t count =
          lane.queue.Ready(now, drained_, lane.channel->in_flight());
      if (count == 0) break;
      batch_.resize(count);
      lane.queue.Pop(batch_);
      Submit(lane, now);
      submitted = true;
    }
  }
  return submitted;
}

void Nic::Submit(RequestChannel& lane, Nanoseconds now) {
  counters_.Count(Counter::kBatches);
  counters_.Count(Counter::kBatchRequests, batch_.size());
  if (lane.type == RequestType::kSet) PublishServerStats();
  if (lane.large) {
    lane.channel->SubmitCopy(batch_.front(), BytesOf(batch_.front()), now);
    return;
  }
  placed_.clear();
  for (const Request& request : batch_) {
    placed_.push_back({request, OffsetOf(request)});
  }
  lane.channel->Submit(placed_, now);
}

bool Nic::FinishEvents() {
  bool finished = gnom_ != nullptr && gnom_->Finish();
  for (RequestChannel& lane : channels_) {
    while (const auto batch = lane.channel->Poll()) {
      responder_->Finish(lane, *batch);
      finished = true;
    }
  }
  return finished;
}

bool Nic::EventsInFlight() const {
  if (gnom_ != nullptr && gnom_->in_flight() > 0) return true;
  return std::any_of(
      channels_.begin(), channels_.end(),
      [](const RequestChannel& lane) { return lane.channel->in_flight() > 0; });
}

bool Nic::CompletionWaits() const {
  if (gnom_ != nullptr && gnom_->CompletionWaits()) return true;
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const RequestChannel& lane) {
                       return lane.channel->Poll().has_value();
                     });
}

absl::Status Nic::WaitForWork() {
  counters_.Count(Counter::kWaits);
  const Nanoseconds start = NowNs();
  std::optional<Nanoseconds> deadline;
  for (const RequestChannel& lane : channels_) {
    // A full ring waits for a completion, whatever the time.
    if (!lane.channel->CanSubmit()) continue;
    const auto closes = lane.queue.Deadline();
    if (closes && (!deadline || *closes < *deadline)) deadline = closes;
  }
  if (gnom_ != nullptr) {
    const auto closes = gnom_->Deadline();
    if (closes && (!deadline || *closes < *deadline)) deadline = closes;
  }
  const bool in_flight = EventsInFlight();
  while (NowNs() - start < spin_.budget()) {
    if (in_flight) {
      for (int i = 0; i < 16; ++i) {
        if (CompletionWaits()) return absl::OkStatus();
        shm::CpuRelax();
      }
    }
    if (Receive()) return absl::OkStatus();
    sched_yield();
  }
  PublishCounters();
  if (in_flight) {
    device_->ArmCompletionFd();
    armed_ = true;
    if (CompletionWaits()) {
      Disarm();
      return absl::OkStatus();
    }
  }
  int64_t timeout_ns = -1;
  if (deadline) {
    const Nanoseconds now = NowNs();
    timeout_ns = *deadline > now ? static_cast<int64_t>(*deadline - now) : 0;
  }
  const absl::Status status = PollDescriptors(timeout_ns);
  if (armed_) Disarm();
  spin_.Slept(NowNs() - start);
  return status;
}

void Nic::Disarm() {
  device_->DisarmCompletionFd();
  armed_ = false;
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
      case kCompletionTag:
        // Disarm even if it is not armed: gpud's write may arrive later.
        Disarm();
        break;
      case kStreamTag:
        streams_->OnEvent(event.data.u64, event.events);
        break;
      case kGpudTag:
        RETURN_IF_ERROR(device_->WaitForEnd(std::chrono::seconds(1)));
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

void Nic::PublishServerStats() {
  const SourceCounts& source = source_->counts();
  const StreamCounts& streams = streams_->counts();
  const memcached::ServerStats stats = {
      .pid = pid_,
      .started_s = started_s_,
      .threads = 1,
      .max_connections = options_.max_connections,
      .curr_connections = streams.open,
      .total_connections = streams.accepted,
      .rejected_connections = streams.refused,
      .bytes_read = source.bytes_received + streams.bytes_received,
      .bytes_written = source.bytes_sent + streams.bytes_sent,
      .reserved = {}};
  constexpr size_t kWords = sizeof(stats) / sizeof(uint64_t);
  const auto words = std::bit_cast<std::array<uint64_t, kWords>>(stats);
  auto* const shared = reinterpret_cast<uint64_t*>(server_.bytes.data());
  // A kernel of an earlier event may be reading it.
  for (size_t i = 0; i < kWords; ++i) {
    std::atomic_ref(shared[i]).store(words[i], std::memory_order_relaxed);
  }
}

void Nic::PublishCounters() {
  const SourceCounts& source = source_->counts();
  counters_.Set(Counter::kDropsNoBuffer, source.no_buffer);
  counters_.Set(Counter::kDropsOversized, source.oversized);
  counters_.Set(Counter::kDropsSend, source.send_failed);
  counters_.Set(Counter::kUdpDatagramsOut, source.datagrams_sent);
  counters_.Set(Counter::kTcpCommands, streams_->counts().commands);
  counters_.Set(Counter::kTcpConnections, streams_->counts().open);
  counters_.Set(Counter::kTcpRefused, streams_->counts().refused);
  if (gnom_ != nullptr) gnom_->Count();
  const uint32_t count = gnom_ != nullptr ? kCounters : kOrdinaryCounters;
  for (uint32_t i = 0; i < count; ++i) {
    device_->SetCounter(i, counters_.values()[i]);
  }
}

}  // namespace carillon::nic
