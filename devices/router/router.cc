#include "devices/router/router.h"

#include <fmt/format.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "devices/packet_io/toeplitz.h"
#include "devices/router/ip_packet.h"
#include "shm/waiting.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using forwarding::NextHop;
using forwarding::Verdict;
using packet_io::Frame;

// epoll's data says which part an event is for.
enum Tag : uint8_t {
  kPortsTag,
  kRoutesTag,
  kCompletionTag,
  kGpudTag,
  kStopTag
};

constexpr uint64_t kSlack = 64 << 10;
// Under load, descriptors that are not polled in every turn wait for at most so
// many turns.
constexpr uint32_t kTurnsPerPoll = 16;
constexpr Nanoseconds kMaxSpinNs = 50'000;
// How long a stop may wait for events.
constexpr std::chrono::milliseconds kLook{50};

constexpr uint8_t kEchoPort = 7;  // RFC 862

constexpr uint32_t IndexOf(Verdict verdict) {
  return static_cast<uint32_t>(verdict);
}

// Whether an answer could be an answer's request: that of another echo at the
// same UDP port.
bool MayLoop(std::span<const std::byte> ip) {
  const auto packet = ReadIpPacket(ip);
  return packet && packet->protocol == IPPROTO_UDP &&
         packet->payload.size() >= 4 &&
         std::ranges::equal(packet->payload.first(2),
                            packet->payload.subspan(2, 2));
}

std::vector<std::string> CounterNames(const std::vector<std::string>& ports,
                                      bool tunnels, bool echo) {
  std::vector<std::string> names = {"lost",
                                    "forwarded",
                                    "drops_descriptor",
                                    "drops_truncated",
                                    "drops_version",
                                    "drops_length",
                                    "drops_checksum",
                                    "drops_martian",
                                    "drops_not_unicast",
                                    "drops_options",
                                    "drops_no_route",
                                    "drops_expired",
                                    "drops_too_large",
                                    "drops_bad_table",
                                    "packets",
                                    "not_ip",
                                    "batches",
                                    "events_failed",
                                    "reloads",
                                    "reloads_failed",
                                    "waits"};
  std::vector<std::string> more = PortCounterNames(ports);
  names.insert(names.end(), more.begin(), more.end());
  if (echo) names.insert(names.end(), {"pings", "drops_ping"});
  if (!tunnels) return names;
  more = Tunnels::CounterNames();
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

}  // namespace

Router::Router(const RouterOptions& options)
    : options_(options), spin_(kMaxSpinNs) {}

absl::StatusOr<std::unique_ptr<Router>> Router::Start(
    const edge::DeviceContext& context, const RouterOptions& options) {
  RETURN_IF_ERROR(Check(options));
  for (const std::string& read :
       {options.routes, options.from, options.tunnels}) {
    std::error_code not_there;
    if (std::filesystem::equivalent(read, options.to, not_there)) {
      return absl::InvalidArgumentError(fmt::format(
          "--to {} would overwrite the file that is read", options.to));
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, PortNames(options));
  ASSIGN_OR_RETURN(const Routes routes, ReadRoutes(options.routes, names));
  std::unique_ptr<Router> router(new Router(options));
  ASSIGN_OR_RETURN(router->store_, RouteStore::Make(routes));
  std::optional<SaTable> sas;
  if (!options.tunnels.empty()) {
    ASSIGN_OR_RETURN(sas, ReadSas(options.tunnels));
  }
  ASSIGN_OR_RETURN(router->addresses_, ParseAddresses(options.addresses));
  RETURN_IF_ERROR(router->Attach(context, sas ? &*sas : nullptr));
  ASSIGN_OR_RETURN(router->ports_, Ports::Open(options, router->pool_.get()));
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    RETURN_IF_ERROR(router->OpenForwarding(family));
  }
  if (sas) RETURN_IF_ERROR(router->OpenTunnels(*std::move(sas)));
  if (!router->addresses_.empty()) RETURN_IF_ERROR(router->OpenEcho());
  RETURN_IF_ERROR(router->PublishRoutes());
  ASSIGN_OR_RETURN(
      router->reloader_,
      RouteReloader::Watch(options.routes, names, &*router->store_));
  RETURN_IF_ERROR(router->Watch(router->ports_->fd(), kPortsTag));
  RETURN_IF_ERROR(router->Watch(router->reloader_->fd(), kRoutesTag));
  RETURN_IF_ERROR(router->Watch(context.stop.fd(), kStopTag));
  RETURN_IF_ERROR(router->WatchGpud());
  std::string note =
      fmt::format("{}; {} IPv4 and {} IPv6 routes", router->ports_->Describe(),
                  routes.ipv4.size(), routes.ipv6.size());
  if (router->tunnels_) note += "; " + router->tunnels_->Describe();
  RETURN_IF_ERROR(router->device_->ReportReady(note));
  spdlog::info("forwarding at {}", note);
  return router;
}

absl::Status Router::Attach(const edge::DeviceContext& context,
                            const SaTable* sas) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) {
    return absl::ResourceExhaustedError(
        fmt::format("epoll: {}", std::strerror(errno)));
  }
  const uint64_t frame_bytes =
      packet_io::FramePool::BytesFor(options_.frame_buffers);
  const uint64_t hop_bytes = store_->next_hops().size_bytes();
  edge::AttachOptions attach;
  attach.testbed_directory = context.directory;
  attach.name = context.name;
  attach.kind = "router";
  attach.submission_bytes =
      frame_bytes + hop_bytes + kSlack +
      2 * (ForwardingTable::kSubmissionBytes +
           options_.queues *
               ForwardChannel::SubmissionBytes(options_.batch, options_.ring));
  attach.completion_bytes = kSlack + 2 * options_.queues *
                                         ForwardChannel::CompletionBytes(
                                             options_.batch, options_.ring);
  if (!addresses_.empty()) {
    attach.submission_bytes +=
        EchoChannel::SubmissionBytes(options_.batch, options_.ring);
    attach.completion_bytes +=
        EchoChannel::CompletionBytes(options_.batch, options_.ring);
  }
  if (sas != nullptr) {
    attach.submission_bytes +=
        Tunnels::SubmissionBytes(*sas, options_.batch, options_.ring);
    attach.completion_bytes +=
        Tunnels::CompletionBytes(options_.batch, options_.ring);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> ports, PortNames(options_));
  attach.counter_names =
      CounterNames(ports, sas != nullptr, !addresses_.empty());
  attach.histogram_names = {"packet_latency"};
  ASSIGN_OR_RETURN(device_, edge::Device::Attach(attach));
  ASSIGN_OR_RETURN(frames_,
                   device_->AllocateBuffer(edge::Place::kInput, frame_bytes));
  ASSIGN_OR_RETURN(next_hops_,
                   device_->AllocateBuffer(edge::Place::kInput, hop_bytes));
  pool_ = std::make_unique<packet_io::FramePool>(frames_.bytes);
  return absl::OkStatus();
}

absl::Status Router::OpenForwarding(Family family) {
  const auto index = static_cast<size_t>(family);
  const uint32_t first_bits = store_->fib(family).first_bits();
  ASSIGN_OR_RETURN(
      tables_[index],
      ForwardingTable::Make(device_.get(), store_->groups(family), first_bits));
  for (size_t i = 0; i < options_.queues; ++i) {
    const size_t lane = index * kMaxQueues + i;
    ASSIGN_OR_RETURN(
        forwarders_[lane],
        ForwardChannel::Make(device_.get(), {.family = family,
                                             .batch = options_.batch,
                                             .ring = options_.ring,
                                             .priority = options_.priority,
                                             .first_bits = first_bits,
                                             .frames = &frames_,
                                             .table = &tables_[index]->buffer(),
                                             .next_hops = &next_hops_}));
    AddLane(lane, &forwarders_[lane]->events());
  }
  return absl::OkStatus();
}

void Router::EnqueueForward(Family family, const Packet& packet) {
  const uint32_t queue =
      options_.queues == 1
          ? 0
          : packet_io::FlowHash(IpOf(packet.frame)) % options_.queues;
  Enqueue(static_cast<size_t>(family) * kMaxQueues + queue, packet);
}

absl::Status Router::OpenTunnels(SaTable table) {
  ASSIGN_OR_RETURN(tunnels_, Tunnels::Make(device_.get(),
                                           {.batch = options_.batch,
                                            .ring = options_.ring,
                                            .priority = options_.priority,
                                            .frames = &frames_},
                                           std::move(table), options_.tunnels));
  AddLane(kEncryptLane, &tunnels_->encrypt().events());
  AddLane(kDecryptLane, &tunnels_->decrypt().events());
  return absl::OkStatus();
}

absl::Status Router::OpenEcho() {
  ASSIGN_OR_RETURN(
      echo_, EchoChannel::Make(device_.get(), {.batch = options_.batch,
                                               .ring = options_.ring,
                                               .priority = options_.priority,
                                               .frames = &frames_}));
  AddLane(kEchoLane, &echo_->events());
  return absl::OkStatus();
}

bool Router::IsPing(std::span<const std::byte> ip, uint32_t port) const {
  const auto packet = ReadIpPacket(ip);
  if (!packet || !addresses_.contains({packet->destination.begin(),
                                       packet->destination.end()})) {
    return false;
  }
  if (packet->protocol == IPPROTO_UDP) {
    // Without options: the kernel answers no others.
    return ports_->is_udp(port) ||
           (packet->payload.size() >= 4 && packet->payload[2] == std::byte{0} &&
            packet->payload[3] == std::byte{kEchoPort});
  }
  return packet->protocol == (packet->family == Family::kIpv4
                                  ? uint32_t{IPPROTO_ICMP}
                                  : uint32_t{IPPROTO_ICMPV6});
}

absl::Status Router::PublishRoutes() {
  std::memcpy(next_hops_.bytes.data(), store_->next_hops().data(),
              store_->next_hops().size_bytes());
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    RETURN_IF_ERROR(
        tables_[static_cast<size_t>(family)]->Publish(store_->fib(family)));
  }
  if (tunnels_) tunnels_->UseRoutes(*store_);
  return absl::OkStatus();
}

absl::Status Router::Watch(int fd, uint8_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(fmt::format("epoll: {}", std::strerror(errno)));
}

absl::Status Router::WatchGpud() {
  RETURN_IF_ERROR(Watch(device_->connection_fd(), kGpudTag));
  return Watch(device_->completion_fd(), kCompletionTag);
}

absl::Status Router::Run(const edge::DeviceContext& context) {
  absl::Status status = RunToEnd(context);
  PublishCounters();
  spdlog::info("{} packets, {} forwarded", counts_[kPackets],
               counts_[IndexOf(Verdict::kForward)]);
  if (tunnels_) status.Update(tunnels_->Settle());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(ports_->Finish());
  if (!ports_->ended() || counts_[kEventsFailed] == 0) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("{} events failed", counts_[kEventsFailed]));
}

absl::Status Router::RunToEnd(const edge::DeviceContext& context) {
  stop_ = &context.stop;
  absl::Status halted = Serve();
  while (!halted.ok()) {
    FinishEvents();
    for (const auto& table : tables_) table->TakeCompletions();
    if (tunnels_) tunnels_->TakeCompletions();
    // Frames wait at the ports meanwhile.
    RETURN_IF_ERROR(edge::GoOnAfter(halted, *device_, context));
    halted = Recover();
    if (halted.ok()) halted = Serve();
  }
  return absl::OkStatus();
}

absl::Status Router::Recover() {
  without_tables_ = true;
  RETURN_IF_ERROR(WatchGpud());
  RETURN_IF_ERROR(Drain());
  reloader_->Settle();
  for (const auto& table : tables_) RETURN_IF_ERROR(table->StartAnew());
  RETURN_IF_ERROR(PublishRoutes());
  if (tunnels_) RETURN_IF_ERROR(tunnels_->StartAnew());
  without_tables_ = false;
  for (Lane& lane : lanes_) {
    lane.waiting.insert(lane.waiting.begin(), lane.again.begin(),
                        lane.again.end());
    lane.again.clear();
  }
  return absl::OkStatus();
}

absl::Status Router::Serve() {
  absl::Status status;
  while (status.ok() && !stopping_ && !stop_->requested()) {
    const bool received = ReceiveFrames();
    const bool rung = RingBatches();
    const bool finished = FinishEvents();
    if (!tunnels_broken_.ok()) {
      status = tunnels_broken_;
    } else if (!received && !rung && !finished) {
      if (Idle()) break;
      status = WaitForWork();
    } else if (++turns_ % kTurnsPerPoll == 0) {
      PublishCounters();
      status = PollDescriptors(/*block=*/false);
    }
  }
  PublishCounters();
  return status;
}

bool Router::ReceiveFrames() {
  received_.clear();
  drained_ = !ports_->Receive(&received_);
  if (received_.empty()) return false;
  const Nanoseconds now = NowNs();
  for (const Ports::Arrival& arrival : received_) Sort(arrival, now);
  return true;
}

std::span<std::byte> Router::IpOf(const Frame& frame) const {
  return pool_->frame(frame.buffer)
      .first(frame.length)
      .subspan(packet_io::kEthernetBytes);
}

void Router::Sort(const Ports::Arrival& arrival, Nanoseconds now) {
  ++counts_[kPackets];
  const Frame& frame = arrival.frame;
  const auto bytes = pool_->frame(frame.buffer).first(frame.length);
  const auto byte = [&](size_t at) {
    return std::to_integer<uint32_t>(bytes[at]);
  };
  const uint32_t type =
      bytes.size() < packet_io::kEthernetBytes ? 0 : byte(12) << 8 | byte(13);
  if (type != ETHERTYPE_IP && type != ETHERTYPE_IPV6) {
    ++counts_[kNotIp];
    pool_->Give(frame.buffer);
    return;
  }
  // RFC 1812 5.3.4: what came to all or to a group is not forwarded.
  if ((byte(0) & 1) != 0) {
    ++counts_[IndexOf(Verdict::kNotUnicast)];
    pool_->Give(frame.buffer);
    return;
  }
  Packet packet{.frame = frame, .arrived_ns = now, .port = arrival.port};
  const Family family = type == ETHERTYPE_IP ? Family::kIpv4 : Family::kIpv6;
  if (echo_ && IsPing(IpOf(frame), arrival.port)) {
    if (tunnels_ && !tunnels_->MayAnswer(IpOf(frame))) {
      pool_->Give(frame.buffer);
    } else if (MayLoop(IpOf(frame))) {
      ++no_pings_;
      pool_->Give(frame.buffer);
    } else {
      Enqueue(kEchoLane, packet);
    }
    return;
  }
  if (!tunnels_) {
    EnqueueForward(family, packet);
    return;
  }
  switch (tunnels_->Classify(IpOf(frame), &packet)) {
    case Tunnels::Way::kForward:
      EnqueueForward(family, packet);
      break;
    case Tunnels::Way::kEncrypt:
      Enqueue(kEncryptLane, packet);
      break;
    case Tunnels::Way::kDecrypt:
      Enqueue(kDecryptLane, packet);
      break;
    case Tunnels::Way::kRefuse:
      pool_->Give(frame.buffer);
      break;
  }
}

bool Router::RingBatches() {
  bool rung = false;
  for (Lane& lane : lanes_) {
    while (lane.events->CanSubmit() && !lane.waiting.empty()) {
      const size_t count =
          std::min<size_t>(lane.waiting.size(), options_.batch);
      // A lone packet does not wait; under load a batch grows for as long as the
      // GPU is busy with the one before.
      if (count < options_.batch &&
          (!drained_ || lane.events->in_flight() > 0)) {
        break;
      }
      const auto end =
          lane.waiting.begin() + static_cast<std::ptrdiff_t>(count);
      batch_.assign(lane.waiting.begin(), end);
      lane.waiting.erase(lane.waiting.begin(), end);
      lane.events->Submit(batch_);
      ++counts_[kEvents];
      rung = true;
    }
  }
  return rung;
}

bool Router::FinishTunnels() {
  bool finished = false;
  for (const auto direction :
       {ipsec::Direction::kOutbound, ipsec::Direction::kInbound}) {
    const bool out = direction == ipsec::Direction::kOutbound;
    Lane& lane = LaneAt(out ? kEncryptLane : kDecryptLane);
    EspChannel& channel = out ? tunnels_->encrypt() : tunnels_->decrypt();
    finished |= channel.TakeResults([&](const EspResult& result) {
      if (without_tables_) {
        lane.again.push_back(result.packet);
      } else {
        FinishEsp(result, direction);
      }
    }) > 0;
  }
  return finished;
}

void Router::FinishEsp(const EspResult& result, ipsec::Direction direction) {
  Packet packet = result.packet;
  const auto pass = tunnels_->Pass(result, direction);
  if (!pass.ok()) tunnels_broken_ = pass.status();
  if (!pass.ok() || !*pass) {
    pool_->Give(packet.frame.buffer);
    return;
  }
  packet.frame.length =
      packet_io::kEthernetBytes + static_cast<uint32_t>(result.bytes.size());
  const std::span<std::byte> ip = IpOf(packet.frame);
  std::memcpy(ip.data(), result.bytes.data(), result.bytes.size());
  // What a tunnel made is not for another one, whatever its address is.
  if (direction == ipsec::Direction::kInbound &&
      tunnels_->ClassifyInner(ip, &packet) == Tunnels::Way::kEncrypt) {
    Enqueue(kEncryptLane, packet);
    return;
  }
  const bool four = std::to_integer<uint32_t>(ip[0]) >> 4 == 4;
  EnqueueForward(four ? Family::kIpv4 : Family::kIpv6, packet);
}

bool Router::FinishPings(Nanoseconds now) {
  return echo_->TakeResults([&](const Echoed& ping) {
    const Packet& packet = ping.packet;
    if (ping.verdict != forwarding::EchoVerdict::kReply) {
      ++no_pings_;
      pool_->Give(packet.frame.buffer);
      return;
    }
    ++pings_;
    ports_->Send(packet.port, {ping.head, ping.rest, packet.frame.time});
    sent_.push_back(packet.frame.buffer);
    device_->histogram(0).Add(now - packet.arrived_ns);
  }) > 0;
}

bool Router::FinishEvents() {
  bool finished = tunnels_ != nullptr && FinishTunnels();
  const Nanoseconds now = NowNs();
  // This kernel needs no table: its results are right after another gpud has
  // taken over, too.
  if (echo_) finished |= FinishPings(now);
  for (size_t i = 0; i < forwarders_.size(); ++i) {
    if (forwarders_[i] == nullptr) continue;
    const uint32_t ended =
        forwarders_[i]->TakeResults([&](const Forwarded& packet) {
          if (without_tables_) {
            LaneAt(i).again.push_back(packet.packet);
          } else {
            Finish(packet, now);
          }
        });
    finished |= ended > 0;
  }
  uint64_t failed = 0;
  for (const Lane& lane : lanes_) failed += lane.events->failed();
  counts_[kEventsFailed] = failed;
  if (!finished) return false;
  ports_->Flush();
  for (const packet_io::BufferIndex buffer : sent_) pool_->Give(buffer);
  sent_.clear();
  return true;
}

void Router::Finish(const Forwarded& packet, Nanoseconds now) {
  const uint32_t verdict = IndexOf(packet.verdict);
  const bool forward =
      packet.verdict == Verdict::kForward && packet.port < ports_->size();
  // Another verdict, or another port, no kernel gives.
  const bool known = verdict < forwarding::kVerdicts &&
                     (forward || packet.verdict != Verdict::kForward);
  ++counts_[known ? verdict : IndexOf(Verdict::kNone)];
  if (!forward) {
    pool_->Give(packet.packet.frame.buffer);
    return;
  }
  ports_->Send(packet.port,
               {packet.header, packet.rest, packet.packet.frame.time});
  sent_.push_back(packet.packet.frame.buffer);
  device_->histogram(0).Add(now - packet.packet.arrived_ns);
}

absl::Status Router::Drain() {
  for (const Lane& lane : lanes_) {
    while (lane.events->in_flight() > 0) {
      if (stop_->requested()) {
        return absl::CancelledError("stopped while events were in flight");
      }
      const absl::Status waited = lane.events->Wait(kLook);
      if (!waited.ok() && !absl::IsDeadlineExceeded(waited)) return waited;
      FinishEvents();
    }
  }
  return absl::OkStatus();
}

absl::Status Router::TakeNewRoutes() {
  while (const std::optional<absl::Status> loaded = reloader_->Poll()) {
    if (!loaded->ok()) {
      ++counts_[kReloadsFailed];
      spdlog::warn("the routes stay as they were: {}", loaded->message());
      continue;
    }
    RETURN_IF_ERROR(Drain());
    RETURN_IF_ERROR(PublishRoutes());
    ++counts_[kReloads];
    spdlog::info("{} IPv4 and {} IPv6 routes",
                 store_->fib(Family::kIpv4).routes(),
                 store_->fib(Family::kIpv6).routes());
  }
  return absl::OkStatus();
}

bool Router::EventsInFlight() const {
  return std::ranges::any_of(
      lanes_, [](const Lane& lane) { return lane.events->in_flight() > 0; });
}

bool Router::ResultsWait() const {
  return std::ranges::any_of(
      lanes_, [](const Lane& lane) { return lane.events->HasResults(); });
}

bool Router::Idle() const {
  return ports_->ended() && !EventsInFlight() &&
         std::ranges::all_of(
             lanes_, [](const Lane& lane) { return lane.waiting.empty(); });
}

absl::Status Router::WaitForWork() {
  ++counts_[kWaits];
  const Nanoseconds start = NowNs();
  const bool in_flight = EventsInFlight();
  while (NowNs() - start < spin_.budget()) {
    if (in_flight) {
      for (int i = 0; i < 16; ++i) {
        if (ResultsWait()) return absl::OkStatus();
        shm::CpuRelax();
      }
    }
    if (ReceiveFrames()) return absl::OkStatus();
    sched_yield();
  }
  PublishCounters();
  WatchPorts(pool_->free() > 0);
  if (in_flight) {
    device_->ArmCompletionFd();
    armed_ = true;
    if (ResultsWait()) {
      Disarm();
      return absl::OkStatus();
    }
  }
  const absl::Status status = PollDescriptors(/*block=*/true);
  if (armed_) Disarm();
  spin_.Slept(NowNs() - start);
  return status;
}

void Router::Disarm() {
  device_->DisarmCompletionFd();
  armed_ = false;
}

void Router::WatchPorts(bool watch) {
  if (watch == watching_ports_) return;
  watching_ports_ = watch;
  epoll_event event{};
  event.events = watch ? uint32_t{EPOLLIN} : 0;
  event.data.u64 = kPortsTag;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, ports_->fd(), &event);
}

absl::Status Router::PollDescriptors(bool block) {
  std::array<epoll_event, 8> events;
  const int count = epoll_wait(epoll_.get(), events.data(),
                               static_cast<int>(events.size()), block ? -1 : 0);
  for (int i = 0; i < count; ++i) {
    switch (events[static_cast<size_t>(i)].data.u64) {
      case kCompletionTag:
        // Disarm even if it is not armed: gpud's write may arrive later.
        Disarm();
        break;
      case kRoutesTag:
        RETURN_IF_ERROR(TakeNewRoutes());
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

void Router::PublishCounters() {
  for (uint32_t i = 0; i < kCounters; ++i) device_->SetCounter(i, counts_[i]);
  std::vector<uint64_t> more = ports_->Counters();
  if (echo_) more.insert(more.end(), {pings_, no_pings_});
  if (tunnels_) {
    const auto tunnels = tunnels_->counters();
    more.insert(more.end(), tunnels.begin(), tunnels.end());
  }
  for (uint32_t i = 0; i < more.size(); ++i) {
    device_->SetCounter(kCounters + i, more[i]);
  }
}

}  // namespace carillon::router
