// fig_ipv6: forwards IPv6 packets, one a thread: longest prefix match over all
// 128 bits in tables as DPDK's LPM6 library describes them, new Ethernet
// addresses, hop limit less 1. An event kernel of EDGE's figures, of one warp.
//
// An entry of both tables, 32 bits:
//
//   31    30     29     28   21 20        0
//   +-----+-------+-------+-------+----------+
//   | ext | group | valid | depth | next hop |
//   +-----+-------+-------+-------+----------+
//
// tbl24 has one for every value of an address's first 24 bits; where ext is
// set, the "next hop" is a group of 256 entries of tbl8 for the next 8 bits,
// and so on.
#ifndef CARILLON_KERNELS_PAPER_FIG_IPV6_CUH_
#define CARILLON_KERNELS_PAPER_FIG_IPV6_CUH_

#include "kernels/paper/fig_forward.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigLpm6Tbl24 = 1u << 24;
inline constexpr uint32_t kFigLpm6HopMask = 0x001fffff;
inline constexpr uint32_t kFigLpm6DepthShift = 21;
inline constexpr uint32_t kFigLpm6Valid = 1u << 29;
inline constexpr uint32_t kFigLpm6ValidGroup = 1u << 30;
inline constexpr uint32_t kFigLpm6Ext = 1u << 31;

struct FigIpv6Args {
  simt::Span<uint32_t> packets;  // slots of fig_forward.cuh
  simt::Span<const uint32_t> tbl24;
  simt::Span<const uint32_t> tbl8;
  simt::Span<const FigNextHop> hops;
  simt::Span<uint32_t> results;
  uint32_t count;
};

CARILLON_HOST_DEVICE bool FigIpv6Fits(const FigIpv6Args& args) {
  return args.packets.size / kFigSlotWords >= args.count &&
         args.tbl24.size >= kFigLpm6Tbl24 && args.results.size >= args.count;
}

CARILLON_KERNEL(fig_ipv6, FigIpv6Args, args, self) {
  if (!FigIpv6Fits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t i = self.global_x();
  if (i >= args.count) return;
  uint32_t* slot = args.packets.data + i * kFigSlotWords;
  const uint32_t* destination = slot + kFigIpWord + 6;
  uint32_t word = FigSwap(destination[0]);
  uint32_t entry = args.tbl24[word >> 8];
  // The address has 13 more bytes, so a chain of groups ends with them,
  // whatever the tables hold.
  for (uint32_t byte = 3; byte < 16; ++byte) {
    if ((entry & (kFigLpm6Valid | kFigLpm6Ext)) !=
        (kFigLpm6Valid | kFigLpm6Ext)) {
      break;
    }
    if (byte % 4 == 0) word = FigSwap(destination[byte / 4]);
    const uint32_t at =
        (entry & kFigLpm6HopMask) << 8 | (word >> (24 - byte % 4 * 8) & 0xff);
    if (at >= args.tbl8.size) {
      self.Fail(kFigBadTable);
      return;
    }
    entry = args.tbl8[at];
  }
  const uint32_t hop = entry & kFigLpm6HopMask;
  const uint32_t life = slot[kFigIpWord + 1];  // the hop limit is the last byte
  // EtherType 0x86dd, version 6.
  const bool is_ipv6 =
      slot[3] >> 16 == 0xdd86 && (slot[kFigIpWord] & 0xf0) == 0x60;
  if (!is_ipv6 || (entry & kFigLpm6Valid) == 0 || life >> 24 <= 1) {
    args.results[i] = kFigNoHop;
    return;
  }
  if (hop >= args.hops.size || (entry & kFigLpm6Ext) != 0) {
    self.Fail(kFigBadTable);
    return;
  }
  FigRewriteMac(slot, args.hops[hop]);
  slot[kFigIpWord + 1] = life - (1u << 24);
  args.results[i] = hop;
}

inline const char* CheckFigIpv6(const simt::LaunchShape& shape,
                                const FigIpv6Args& args) {
  if (!FigIpv6Fits(args)) {
    return "packets must have 16 words a packet, tbl24 2^24 entries, results "
           "an element a packet";
  }
  return static_cast<uint64_t>(shape.grid.x) * shape.block.x >= args.count
             ? nullptr
             : "the launch must have a thread a packet in x";
}

CARILLON_KERNEL_INFO(
    fig_ipv6, FigIpv6Args, "forwards IPv6 packets by LPM6 tables",
    simt::Registers(22).Validate<&CheckFigIpv6>(),
    CARILLON_PARAM(FigIpv6Args, packets,
                   "16 words each, frames from byte 2 on"),
    CARILLON_PARAM(FigIpv6Args, tbl24, "2^24 entries"),
    CARILLON_PARAM(FigIpv6Args, tbl8, "groups of 256 entries"),
    CARILLON_PARAM(FigIpv6Args, hops, "Ethernet addresses of the next hops"),
    CARILLON_PARAM(FigIpv6Args, results,
                   "receives each packet's next hop, or 0xffffffff"),
    CARILLON_PARAM(FigIpv6Args, count, "packets"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_IPV6_CUH_
