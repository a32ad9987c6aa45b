#include "devices/router/router_options.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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
       .help = "where packets come from and go to: NAME=af_packet:INTERFACE, "
               "NAME=af_xdp:INTERFACE[:QUEUE], NAME=tap:INTERFACE or "
               "NAME=udp:ADDRESS:PORT, and more behind commas"},
      {.flag = "--addresses",
       .key = "addresses",
       .type = OptionType::kText,
       .field = &options.addresses,
       .max = 4096,
       .default_means = "none",
       .help = "the router's own IPv4 and IPv6 addresses, behind commas, at "
               "which an event kernel answers pings: ICMP's, and UDP's at port "
               "7"},
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
      IntegerOption("--queues", "queues", &options.queues, 1, kMaxQueues,
                    "rings for each version of IP; each flow has one, by the "
                    "Toeplitz hash of receive side scaling, and stays in "
                    "order"),
      edge::PriorityOption(options.priority,
                           "of the device's event kernels; 7 is the highest"),
      IntegerOption("--frame-buffers", "frame_buffers", &options.frame_buffers,
                    1, 16384, "frames that can be in flight, 9280 bytes each"),
  };
}

absl::StatusOr<std::set<std::vector<std::byte>>> ParseAddresses(
    std::string_view text) {
  std::set<std::vector<std::byte>> addresses;
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(text.data(), text.size()),
                     absl::ByAnyChar(", "), absl::SkipEmpty());
  for (const std::string& part : parts) {
    std::vector<std::byte> bytes(16);
    if (inet_pton(AF_INET6, part.c_str(), bytes.data()) != 1) {
      bytes.resize(4);
      if (inet_pton(AF_INET, part.c_str(), bytes.data()) != 1) {
        return absl::InvalidArgumentError(
            fmt::format("--addresses: '{}' is no IPv4 or IPv6 address", part));
      }
    }
    addresses.insert(std::move(bytes));
  }
  return addresses;
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
  RETURN_IF_ERROR(ParseAddresses(options.addresses).status());
  if (options.ports.empty()) return absl::OkStatus();
  const auto ports = packet_io::ParsePorts(options.ports);
  if (ports.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--ports: {}", ports.status().message()));
}

}  // namespace carillon::router
