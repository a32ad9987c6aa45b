// A prefix of IPv4 or IPv6 addresses, as a routing table names it.
#ifndef CARILLON_KERNELS_FORWARDING_PREFIX_H_
#define CARILLON_KERNELS_FORWARDING_PREFIX_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon::forwarding {

enum class Family : uint8_t { kIpv4, kIpv6 };

constexpr uint32_t AddressBits(Family family) {
  return family == Family::kIpv4 ? 32 : 128;
}

// In the order of the network; an IPv4 address has the first four bytes, and
// zeros behind them.
using AddressBytes = std::array<uint8_t, 16>;

struct Prefix {
  Family family = Family::kIpv4;
  uint8_t length = 0;  // bits
  AddressBytes address{};

  friend bool operator==(const Prefix&, const Prefix&) = default;
};

// The address with zeros behind its first `length` bits.
AddressBytes Masked(const AddressBytes& address, uint32_t length);

// Reads "10.0.0.0/8" or "2001:db8::/32". Error: InvalidArgument, which says what
// is wrong: no address, no length or too long a one, bits set behind the length.
absl::StatusOr<Prefix> ParsePrefix(std::string_view text);

// Checks a prefix that was not read by ParsePrefix. Error: InvalidArgument.
absl::Status CheckPrefix(const Prefix& prefix);

std::string ToString(const Prefix& prefix);

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_PREFIX_H_
