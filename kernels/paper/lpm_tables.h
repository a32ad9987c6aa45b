// Builds the tables that fig_ipv4 and fig_ipv6 look addresses up in.
#ifndef CARILLON_KERNELS_PAPER_LPM_TABLES_H_
#define CARILLON_KERNELS_PAPER_LPM_TABLES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/paper/fig_forward.cuh"

namespace carillon::kernels {

struct Prefix4 {
  uint32_t address;  // a number: 10.0.0.0 is 0x0a000000
  uint8_t length;    // 0..32; bits of the address behind it do not count
  uint8_t next_hop;
};
struct Prefix6 {
  std::array<uint8_t, 16> address;
  uint8_t length;     // 0..128
  uint32_t next_hop;  // fewer than 2^21
};

struct Lpm4Tables {
  std::vector<uint16_t> tbl24;
  std::vector<uint16_t> tbl8;
};
struct Lpm6Tables {
  std::vector<uint32_t> tbl24;
  std::vector<uint32_t> tbl8;
};

// Among equal prefixes the last one counts. Errors: InvalidArgument for an
// impossible prefix or next hop; ResourceExhausted when tbl8 would need more
// groups than an entry can name (256 and 2^21).
absl::StatusOr<Lpm4Tables> BuildLpm4(std::vector<Prefix4> prefixes);
absl::StatusOr<Lpm6Tables> BuildLpm6(std::vector<Prefix6> prefixes);

FigNextHop MakeNextHop(const std::array<uint8_t, 6>& to,
                       const std::array<uint8_t, 6>& from);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_LPM_TABLES_H_
