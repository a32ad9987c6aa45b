// ipv4_forward: forwards IPv4 packets as RFC 1812 has it, one a thread: checks
// the header, looks up the next hop, takes one from the time to live, corrects
// the checksum (RFC 1624). See wire.h for what a NIC writes and reads, and
// docs/workloads.md for where it differs from a whole router.
#ifndef CARILLON_KERNELS_FORWARDING_IPV4_FORWARD_CUH_
#define CARILLON_KERNELS_FORWARDING_IPV4_FORWARD_CUH_

#include "kernels/forwarding/forward.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace forward {

CARILLON_HOST_DEVICE constexpr bool InNetwork(uint32_t address,
                                              uint32_t network, uint32_t bits) {
  return (address ^ network) >> (32 - bits) == 0;
}

// "This network", loopback, link-local, and what was class E.
CARILLON_HOST_DEVICE constexpr bool IsMartian4(uint32_t address) {
  return InNetwork(address, 0x00000000, 8) ||
         InNetwork(address, 0x7f000000, 8) ||
         InNetwork(address, 0xa9fe0000, 16) ||
         InNetwork(address, 0xf0000000, 4);
}
CARILLON_HOST_DEVICE constexpr bool IsMulticast4(uint32_t address) {
  return InNetwork(address, 0xe0000000, 4);
}
inline constexpr uint32_t kBroadcast4 = 0xffffffff;

struct Ipv4 {
  static constexpr uint32_t kDestination = 16;  // in the header

  CARILLON_DEVICE Verdict operator()(const ForwardArgs& args,
                                     Span<const uint32_t> half,
                                     const uint8_t* bytes, uint32_t length,
                                     forwarding::Header* header,
                                     forwarding::Result* result) const {
    if (length < forwarding::kIpv4HeaderBytes) return Verdict::kTruncated;
    uint32_t words[forwarding::kIpv4HeaderBytes / 4];
    LoadHeader(bytes, words);
    if ((words[0] & 0xf0) != 0x40) return Verdict::kBadVersion;
    const uint32_t header_words = words[0] & 0x0f;
    const uint32_t total = Swap16(words[0] >> 16);
    if (header_words < 5 || total < header_words * 4) {
      return Verdict::kBadLength;
    }
    if (length < total) return Verdict::kTruncated;
    uint32_t sum = 0;
    CARILLON_UNROLL
    for (uint32_t i = 0; i < 5; ++i) sum += HalvesOf(words[i]);
    for (uint32_t i = 5; i < header_words; ++i) {
      sum += HalvesOf(
          simt::LoadRelaxed(reinterpret_cast<const uint32_t*>(bytes) + i));
    }
    if (Fold(sum) != 0xffff) return Verdict::kBadChecksum;
    const uint32_t from = Swap32(words[3]);
    const uint32_t to = Swap32(words[4]);
    if (to == kBroadcast4) return Verdict::kNotUnicast;
    if (IsMartian4(from) || IsMulticast4(from) || IsMartian4(to)) {
      return Verdict::kMartian;
    }
    if (IsMulticast4(to)) return Verdict::kNotUnicast;
    if (header_words > 5) return Verdict::kOptions;

    const uint32_t entry =
        Lookup<32>(half, args.first_bits, {uint64_t{to} << 32, 0});
    const forwarding::NextHop* hop;
    const Verdict verdict =
        Route(args, entry, words[2] & 0xff, total, result, &hop);
    if (verdict != Verdict::kForward) return verdict;
    // RFC 1624: HC' = ~(~HC + ~m + m'), m: time to live and protocol.
    const uint32_t old_half = words[2] & 0xffff;
    const uint32_t new_half = old_half - 1;
    const uint32_t checksum =
        Fold((~words[2] >> 16) + (~old_half & 0xffff) + new_half);
    words[2] = (~checksum & 0xffff) << 16 | new_half;
    StoreHeader(header, *hop, 0x0008, words);
    return Verdict::kForward;
  }
};

}  // namespace forward

CARILLON_KERNEL(ipv4_forward, ForwardArgs, args, self) {
  forward::ForwardBatch(args, self, forward::Ipv4{});
}

CARILLON_KERNEL_INFO(ipv4_forward, ForwardArgs,
                     "forwards IPv4 packets by a routing table, one a thread",
                     simt::Registers(40)
                         .From("RFC 1812, DIR-24-8 (EDGE: IPv4)")
                         .Oracle("Linux' router, DPDK")
                         .LaunchedOnly()
                         .Validate<&forward::CheckLaunch>(),
                     CARILLON_FORWARD_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_FORWARDING_IPV4_FORWARD_CUH_
