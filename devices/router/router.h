// The router: frames in, batches to the GPU, frames out. One thread, one epoll
// loop, and a thread that reads routes when their file changes.
//
//   ports --> frame buffers --> ForwardChannel (IPv4, IPv6)
//                                     | doorbell
//                                     v
//   ports <-- new header + rest <--completion-- gpud: ipv4_forward, ipv6_forward
//
// With tunnels, packets to and from them pass an EspChannel first.
#ifndef CARILLON_DEVICES_ROUTER_ROUTER_H_
#define CARILLON_DEVICES_ROUTER_ROUTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "devices/packet_io/frame_pool.h"
#include "devices/router/echo_channel.h"
#include "devices/router/forward_channel.h"
#include "devices/router/forwarding_table.h"
#include "devices/router/ipsec/tunnels.h"
#include "devices/router/packet_events.h"
#include "devices/router/ports.h"
#include "devices/router/route_reloader.h"
#include "devices/router/route_store.h"
#include "devices/router/router_options.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "shm/spin_budget.h"

namespace carillon::router {

// Not thread safe.
class Router {
 public:
  // Opens the ports, attaches, fills the tables, and reports ready. Errors:
  // InvalidArgument (options, files), those of the ports (PermissionDenied names
  // the capability), ResourceExhausted, and those of edge::Device.
  static absl::StatusOr<std::unique_ptr<Router>> Start(
      const edge::DeviceContext& context, const RouterOptions& options);

  // Forwards until a stop, or until the file ends that is its only port. Goes on
  // with another gpud: what was in flight is forwarded then. Errors: Unavailable
  // (gpud is gone and no other one comes in time), DataLoss (events failed, or a
  // file is broken).
  absl::Status Run(const edge::DeviceContext& context);

 private:
  // Of the device's counters; before them stand the verdicts, by their numbers,
  // and behind them those of the ports.
  enum Counter : uint32_t {
    kPackets = forwarding::kVerdicts,
    kNotIp,
    kEvents,
    kEventsFailed,
    kReloads,
    kReloadsFailed,
    kWaits,  // times that there was nothing to do
    kCounters
  };

  // The packets of one event kernel. The first lanes are the queues of
  // forwarding, by family.
  enum LaneIndex : size_t {
    kEncryptLane = 2 * kMaxQueues,
    kDecryptLane,
    kEchoLane,
    kLanes
  };
  struct Lane {
    PacketEvents* events;
    std::deque<Packet> waiting;  // for an event
    // Those of events that a new gpud has run without tables.
    std::vector<Packet> again;
  };

  explicit Router(const RouterOptions& options);

  // `sas`: or null.
  absl::Status Attach(const edge::DeviceContext& context, const SaTable* sas);
  absl::Status OpenForwarding(forwarding::Family family);
  absl::Status OpenTunnels(SaTable table);
  absl::Status OpenEcho();
  void AddLane(size_t lane, PacketEvents* events) {
    lanes_.push_back({events, {}, {}});
    lane_of_[lane] = lanes_.size() - 1;
  }
  Lane& LaneAt(size_t lane) { return lanes_[lane_of_[lane]]; }
  absl::Status PublishRoutes();
  absl::Status Watch(int fd, uint8_t tag);
  absl::Status WatchGpud();
  absl::Status Serve();
  // After another gpud has taken over.
  absl::Status Recover();

  // Each returns whether there was anything to do.
  bool ReceiveFrames();
  bool RingBatches();
  bool FinishEvents();
  void Sort(const Ports::Arrival& arrival, Nanoseconds now);
  void Finish(const Forwarded& packet, Nanoseconds now);
  // Puts the packet that a tunnel's kernel has made in the place of its own.
  void FinishEsp(const EspResult& result, ipsec::Direction direction);
  // To the forwarder of its flow.
  void EnqueueForward(forwarding::Family family, const Packet& packet);
  bool FinishTunnels();
  bool FinishPings(Nanoseconds now);
  // Whether it is one for the router itself, which echo_reply shall look at.
  bool IsPing(std::span<const std::byte> ip, uint32_t port) const;
  // The IP packet in a frame.
  std::span<std::byte> IpOf(const packet_io::Frame& frame) const;
  void Enqueue(size_t lane, const Packet& packet) {
    LaneAt(lane).waiting.push_back(packet);
  }

  // Waits until no event is in flight. Errors: Unavailable (gpud is gone),
  // Cancelled (a stop).
  absl::Status Drain();
  absl::Status RunToEnd(const edge::DeviceContext& context);
  absl::Status TakeNewRoutes();
  bool EventsInFlight() const;
  bool ResultsWait() const;
  bool Idle() const;
  absl::Status WaitForWork();
  void Disarm();
  absl::Status PollDescriptors(bool block);
  // Frames that find no buffer shall not wake this thread again and again.
  void WatchPorts(bool watch);
  void PublishCounters();

  const RouterOptions options_;
  UniqueFd epoll_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer frames_;
  edge::Buffer next_hops_;
  std::unique_ptr<packet_io::FramePool> pool_;
  std::optional<Ports> ports_;
  std::optional<RouteStore> store_;
  std::array<std::unique_ptr<ForwardingTable>, 2> tables_;  // by Family
  // By family and queue: as many as there are queues for each.
  std::array<std::unique_ptr<ForwardChannel>, size_t{2} * kMaxQueues>
      forwarders_;
  std::unique_ptr<Tunnels> tunnels_;  // or null
  absl::Status tunnels_broken_;
  std::set<std::vector<std::byte>> addresses_;  // the router's own
  std::unique_ptr<EchoChannel> echo_;           // or null
  std::vector<Lane> lanes_;                     // those that are in use
  std::array<size_t, kLanes> lane_of_{};        // their places
  uint64_t pings_ = 0;                          // answered
  uint64_t no_pings_ = 0;                       // not answered
  std::unique_ptr<RouteReloader> reloader_;
  std::array<uint64_t, kCounters> counts_{};

  bool drained_ = true;  // the ports had no more frames
  bool watching_ports_ = true;
  bool armed_ = false;  // the completion event
  bool stopping_ = false;
  const edge::StopRequest* stop_ = nullptr;
  bool without_tables_ = false;  // since another gpud has taken over
  shm::SpinBudget spin_;
  uint32_t turns_ = 0;
  // Scratch space, kept to avoid allocations.
  std::vector<Ports::Arrival> received_;
  std::vector<Packet> batch_;
  std::vector<packet_io::BufferIndex> sent_;
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTER_H_
