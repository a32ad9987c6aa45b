// What a user says of a device's ports: "lan=af_packet:eth1, wan=af_xdp:eth2:0,
// vm=tap:tap0, echo=udp:192.0.2.1:7".
#ifndef CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_
#define CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::packet_io {

inline constexpr size_t kMaxPorts = 8;

struct PortSpec {
  enum class Kind { kAfPacket, kAfXdp, kTap, kUdp };
  std::string name;
  Kind kind;
  std::string interface;  // of kUdp: the address
  uint32_t queue = 0;     // of kAfXdp

  friend bool operator==(const PortSpec&, const PortSpec&) = default;
};

// Error: InvalidArgument (the form, a name twice, an interface twice, more than
// kMaxPorts).
absl::StatusOr<std::vector<PortSpec>> ParsePorts(std::string_view text);

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_
