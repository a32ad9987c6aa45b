#include "devices/router/router_options.h"

#include "devices/sdk/device_options.h"

namespace carillon::router {

std::vector<Option> OptionTable(RouterOptions& options) {
  return {
      PathOption(
          "--routes", "routes", &options.routes,
          "file of routes: on each line a prefix, the next hop's Ethernet "
          "address, the interface's, and perhaps an MTU"),
      PathOption("--from", "from", &options.from,
                 "pcap file of the packets that arrive"),
      PathOption("--to", "to", &options.to,
                 "pcap file that receives the frames that go out"),
      IntegerOption("--batch", "batch", &options.batch, 1, 1024,
                    "packets of one event"),
      edge::RingOption(options.ring, 4096),
      edge::PriorityOption(options.priority,
                           "of the device's event kernels; 7 is the highest"),
  };
}

absl::Status Check(const RouterOptions& options) {
  if (options.routes.empty() || options.from.empty() || options.to.empty()) {
    return absl::InvalidArgumentError(
        "--routes (routes), --from (from) and --to (to) must all name a file");
  }
  return absl::OkStatus();
}

}  // namespace carillon::router
