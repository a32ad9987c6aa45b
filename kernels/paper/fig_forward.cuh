// What fig_ipv4 and fig_ipv6 have in common: where packets lie, and the next
// hops.
//
// A slot has 64 bytes and starts with 2 that are not used, so that the IP
// header lies at a multiple of 4 (`|`: words):
//
//   0    2           8           14          16                        64
//   +----+-----------+-----------+-----------+-------------------------+
//   | -- | to (MAC)  | from (MAC)| EtherType | IP header, and the rest |
//   +----+-----------+-----------+-----------+-------------------------+
#ifndef CARILLON_KERNELS_PAPER_FIG_FORWARD_CUH_
#define CARILLON_KERNELS_PAPER_FIG_FORWARD_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigSlotWords = 16;
inline constexpr uint32_t kFigIpWord = 4;
// The result for a packet that is not forwarded and stays unchanged: it has no
// route or no hop left, or is no such packet.
inline constexpr uint32_t kFigNoHop = 0xffffffff;
// The event's status when a table leads outside of the tables.
inline constexpr uint32_t kFigBadTable = 16;

// The first 16 bytes of a slot, without the first 2 and the last 2.
struct alignas(16) FigNextHop {
  uint32_t words[4];
};

// Converts a word of the network to a number.
CARILLON_HOST_DEVICE uint32_t FigSwap(uint32_t word) {
  return word >> 24 | (word >> 8 & 0xff00) | (word & 0xff00) << 8 | word << 24;
}

// Writes the new Ethernet addresses; the EtherType stays.
CARILLON_DEVICE void FigRewriteMac(uint32_t* slot, const FigNextHop& hop) {
  slot[0] = hop.words[0];
  slot[1] = hop.words[1];
  slot[2] = hop.words[2];
  slot[3] = (hop.words[3] & 0xffff) | (slot[3] & 0xffff0000);
}

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_FORWARD_CUH_
