// What a user says of a device's ports: "lan=af_packet:eth1, wan=tap:tap0".
#ifndef CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_
#define CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::packet_io {

inline constexpr size_t kMaxPorts = 8;

struct PortSpec {
  enum class Kind { kAfPacket, kTap };
  std::string name;
  Kind kind;
  std::string interface;

  friend bool operator==(const PortSpec&, const PortSpec&) = default;
};

// Error: InvalidArgument (the form, a name twice, an interface twice, more than
// kMaxPorts).
absl::StatusOr<std::vector<PortSpec>> ParsePorts(std::string_view text);

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_PORT_SPEC_H_
