// The router: packets of a pcap file in, batches to the GPU, frames to another
// pcap file out. One thread.
//
//   pcap file -> ForwardChannel (IPv4, IPv6) --doorbell--> gpud: ipv4_forward,
//                                                          ipv6_forward
//   pcap file <- new header + rest of packet <--completion--
#ifndef CARILLON_DEVICES_ROUTER_ROUTER_H_
#define CARILLON_DEVICES_ROUTER_ROUTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/router/forward_channel.h"
#include "devices/router/forwarding_table.h"
#include "devices/router/pcap_files.h"
#include "devices/router/route_file.h"
#include "devices/router/router_options.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"

namespace carillon::router {

// Not thread safe.
class Router {
 public:
  // Attaches, fills the tables, opens the files, and reports ready. Errors:
  // InvalidArgument (options, files), ResourceExhausted, and those of
  // edge::Device.
  static absl::StatusOr<std::unique_ptr<Router>> Start(
      const edge::DeviceContext& context, const RouterOptions& options);

  // Forwards until the end of the file or a stop, and then waits for the events
  // in flight. Errors: Unavailable (the testbed is gone), DataLoss (events
  // failed, a file is broken), DeadlineExceeded (no event ends within 10 s).
  absl::Status Run(const edge::StopRequest& stop);

 private:
  // Counters from kPackets on; the verdicts' stand before, by their numbers.
  enum Counter : uint32_t {
    kPackets = forwarding::kVerdicts,
    kNotIp,
    kOversized,
    kEventsFailed,
    kCounters
  };
  static std::vector<std::string> CounterNames();

  Router(const edge::DeviceContext& context, const RouterOptions& options)
      : context_(context), options_(options) {}

  absl::Status Attach(uint64_t next_hops);
  absl::Status AddTable(forwarding::Family family,
                        const std::vector<forwarding::Route>& routes);
  absl::Status Forward(const edge::StopRequest& stop);
  absl::Status PlacePacket(const CapturedPacket& packet);
  absl::Status Drain();
  void TakeResults();
  void Finish(const Forwarded& packet);
  void PublishCounters();

  const edge::DeviceContext& context_;
  const RouterOptions options_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer next_hops_;
  // By Family.
  std::array<std::unique_ptr<ForwardingTable>, 2> tables_;
  std::array<std::unique_ptr<ForwardChannel>, 2> channels_;
  std::unique_ptr<PcapReader> reader_;
  std::unique_ptr<PcapWriter> writer_;
  std::array<uint64_t, kCounters> counts_{};
  std::vector<std::byte> frame_;  // kept to avoid allocations
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_ROUTER_H_
