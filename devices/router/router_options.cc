#include "devices/router/router_options.h"

#include <fmt/format.h>

#include "base/status.h"
#include "devices/packet_io/port_spec.h"
#include "devices/sdk/device_options.h"

namespace carillon::router {

std::vector<Option> OptionTable(RouterOptions& options) {
  return {
      PathOption("--routes", "routes", &options.routes,
                 "file of routes, read again when it changes: on each line a "
                 "prefix, the next hop's Ethernet address, the interface's, "
                 "perhaps an MTU, and `dev PORT`"),
      PathOption(
          "--tunnels", "tunnels", &options.tunnels,
          "file of IPsec tunnels, with their keys: on each line `out` or "
          "`in`, an SPI, the tunnel's ends, aes-gcm or 3des-sha1, keys, "
          "and for `out` the networks behind the peer"),
      {.flag = "--ports",
       .key = "ports",
       .type = OptionType::kText,
       .field = &options.ports,
       .max = 4096,
       .default_means = "none",
       .help = "where packets come from and go to: NAME=af_packet:INTERFACE or "
               "NAME=tap:INTERFACE, and more behind commas"},
      PathOption("--from", "from", &options.from,
                 "a port more, `file`: pcap file of the packets that arrive"),
      PathOption("--to", "to", &options.to,
                 "pcap file that receives the frames that go out of `file`"),
      ChoiceOption("--pace", "pace", &options.pace, {"flat", kFilePace},
                   "when the packets of `from` arrive: as soon as there is "
                   "room, or with the file's times"),
      IntegerOption("--batch", "batch", &options.batch, 1, 1024,
                    "packets of one event"),
      edge::RingOption(options.ring, 4096),
      edge::PriorityOption(options.priority,
                           "of the device's event kernels; 7 is the highest"),
      IntegerOption("--frame-buffers", "frame_buffers", &options.frame_buffers,
                    1, 16384, "frames that can be in flight, 9280 bytes each"),
  };
}

absl::Status Check(const RouterOptions& options) {
  if (options.routes.empty()) {
    return absl::InvalidArgumentError("--routes (routes) must name a file");
  }
  if (options.ports.empty() && options.from.empty() && options.to.empty()) {
    return absl::InvalidArgumentError(
        "no packet could come: give --ports (ports), or --from (from) and --to "
        "(to)");
  }
  if (options.ports.empty()) return absl::OkStatus();
  const auto ports = packet_io::ParsePorts(options.ports);
  if (ports.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--ports: {}", ports.status().message()));
}

}  // namespace carillon::router
