// fig_ipv4: forwards IPv4 packets, one a thread: longest prefix match in
// DIR-24-8 tables as DPDK's LPM library describes them, new Ethernet addresses,
// time to live less 1. An event kernel of EDGE's figures, of one warp. As in
// DPDK's l3fwd the checksum is kept right but not verified, which is the NIC's.
//
// An entry of both tables, 16 bits:
//
//   15     10   9     8    7        0
//   +--------+-----+-------+----------+
//   | depth  | ext | valid | next hop |
//   +--------+-----+-------+----------+
//
// tbl24 has one for every value of an address's first 24 bits; where ext is set
// there, the "next hop" is a group of 256 entries of tbl8, one for every value
// of the last 8 bits.
#ifndef CARILLON_KERNELS_PAPER_FIG_IPV4_CUH_
#define CARILLON_KERNELS_PAPER_FIG_IPV4_CUH_

#include "kernels/paper/fig_forward.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

inline constexpr uint32_t kFigLpm4Tbl24 = 1u << 24;
inline constexpr uint16_t kFigLpm4Valid = 0x0100;
inline constexpr uint16_t kFigLpm4Ext = 0x0200;
inline constexpr uint32_t kFigLpm4DepthShift = 10;

struct FigIpv4Args {
  simt::Span<uint32_t> packets;  // slots of fig_forward.cuh
  simt::Span<const uint16_t> tbl24;
  simt::Span<const uint16_t> tbl8;
  simt::Span<const FigNextHop> hops;
  simt::Span<uint32_t> results;
  uint32_t count;
};

CARILLON_HOST_DEVICE bool FigIpv4Fits(const FigIpv4Args& args) {
  return args.packets.size / kFigSlotWords >= args.count &&
         args.tbl24.size >= kFigLpm4Tbl24 && args.results.size >= args.count;
}

CARILLON_KERNEL(fig_ipv4, FigIpv4Args, args, self) {
  if (!FigIpv4Fits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t i = self.global_x();
  if (i >= args.count) return;
  uint32_t* slot = args.packets.data + i * kFigSlotWords;
  const uint32_t address = FigSwap(slot[kFigIpWord + 4]);
  const uint32_t life = FigSwap(slot[kFigIpWord + 2]);  // TTL, protocol, sum
  uint32_t entry = args.tbl24[address >> 8];
  if ((entry & (kFigLpm4Valid | kFigLpm4Ext)) ==
      (kFigLpm4Valid | kFigLpm4Ext)) {
    const uint32_t at = (entry & 0xff) << 8 | (address & 0xff);
    if (at >= args.tbl8.size) {
      self.Fail(kFigBadTable);
      return;
    }
    entry = args.tbl8[at];
  }
  const uint32_t hop = entry & 0xff;
  // EtherType 0x0800, version 4, a header of at least 5 words.
  const bool is_ipv4 = slot[3] >> 16 == 0x0008 &&
                       (slot[kFigIpWord] & 0xf0) == 0x40 &&
                       (slot[kFigIpWord] & 0x0f) >= 5;
  if (!is_ipv4 || (entry & kFigLpm4Valid) == 0 || life >> 24 <= 1) {
    args.results[i] = kFigNoHop;
    return;
  }
  if (hop >= args.hops.size) {
    self.Fail(kFigBadTable);
    return;
  }
  FigRewriteMac(slot, args.hops[hop]);
  // RFC 1624: HC' = ~(~HC + ~m + m'), m: TTL and protocol.
  const uint32_t old_half = life >> 16;
  const uint32_t new_half = old_half - 0x100;
  uint32_t sum = (~life & 0xffff) + (~old_half & 0xffff) + new_half;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  slot[kFigIpWord + 2] = FigSwap(new_half << 16 | (~sum & 0xffff));
  args.results[i] = hop;
}

inline const char* CheckFigIpv4(const simt::LaunchShape& shape,
                                const FigIpv4Args& args) {
  if (!FigIpv4Fits(args)) {
    return "packets must have 16 words a packet, tbl24 2^24 entries, results "
           "an element a packet";
  }
  return static_cast<uint64_t>(shape.grid.x) * shape.block.x >= args.count
             ? nullptr
             : "the launch must have a thread a packet in x";
}

CARILLON_KERNEL_INFO(
    fig_ipv4, FigIpv4Args, "forwards IPv4 packets by DIR-24-8 tables",
    simt::Registers(20).Validate<&CheckFigIpv4>(),
    CARILLON_PARAM(FigIpv4Args, packets,
                   "16 words each, frames from byte 2 on"),
    CARILLON_PARAM(FigIpv4Args, tbl24, "2^24 entries"),
    CARILLON_PARAM(FigIpv4Args, tbl8, "groups of 256 entries"),
    CARILLON_PARAM(FigIpv4Args, hops, "Ethernet addresses of the next hops"),
    CARILLON_PARAM(FigIpv4Args, results,
                   "receives each packet's next hop, or 0xffffffff"),
    CARILLON_PARAM(FigIpv4Args, count, "packets"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_FIG_IPV4_CUH_
