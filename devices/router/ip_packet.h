// What a router looks at in an IP packet before a kernel does.
#ifndef CARILLON_DEVICES_ROUTER_IP_PACKET_H_
#define CARILLON_DEVICES_ROUTER_IP_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/forwarding/prefix.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

struct IpPacket {
  forwarding::Family family;
  uint32_t protocol;  // IPv6: the first next header
  std::span<const std::byte> source;
  std::span<const std::byte> destination;
  std::span<const std::byte> payload;  // behind a header without options
};

// Nothing: it is too short, and a kernel will say so.
inline std::optional<IpPacket> ReadIpPacket(std::span<const std::byte> ip) {
  using forwarding::Family;
  if (ip.empty()) return std::nullopt;
  const auto byte = [&](size_t at) {
    return std::to_integer<uint32_t>(ip[at]);
  };
  const uint32_t version = byte(0) >> 4;
  if (version == 4 && ip.size() >= forwarding::kIpv4HeaderBytes) {
    return IpPacket{Family::kIpv4, byte(9), ip.subspan(12, 4),
                    ip.subspan(16, 4),
                    ip.subspan(forwarding::kIpv4HeaderBytes)};
  }
  if (version == 6 && ip.size() >= forwarding::kIpv6HeaderBytes) {
    return IpPacket{Family::kIpv6, byte(6), ip.subspan(8, 16),
                    ip.subspan(24, 16),
                    ip.subspan(forwarding::kIpv6HeaderBytes)};
  }
  return std::nullopt;
}

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_IP_PACKET_H_
