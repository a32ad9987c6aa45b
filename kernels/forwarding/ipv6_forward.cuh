// ipv6_forward: forwards IPv6 packets as RFC 8200 has it, one a thread: checks
// the header, looks up the next hop by all 128 bits, takes one from the hop
// limit. Extension headers are not looked at. See wire.h for what a NIC writes
// and reads, and docs/workloads.md for where it differs from a whole router.
#ifndef CARILLON_KERNELS_FORWARDING_IPV6_FORWARD_CUH_
#define CARILLON_KERNELS_FORWARDING_IPV6_FORWARD_CUH_

#include "kernels/forwarding/forward.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace forward {

// Unspecified, loopback, IPv4-mapped, and link-local.
CARILLON_HOST_DEVICE constexpr bool IsMartian6(const Address& address) {
  return (address.high == 0 &&
          (address.low <= 1 || address.low >> 32 == 0xffff)) ||
         address.high >> 54 == 0xfe80 >> 6;
}
CARILLON_HOST_DEVICE constexpr bool IsMulticast6(const Address& address) {
  return address.high >> 56 == 0xff;
}

struct Ipv6 {
  static constexpr uint32_t kDestination = 24;  // in the header

  CARILLON_DEVICE Verdict operator()(const ForwardArgs& args,
                                     Span<const uint32_t> half,
                                     const uint8_t* bytes, uint32_t length,
                                     forwarding::Header* header,
                                     forwarding::Result* result) const {
    if (length < forwarding::kIpv6HeaderBytes) return Verdict::kTruncated;
    uint32_t words[forwarding::kIpv6HeaderBytes / 4];
    LoadHeader(bytes, words);
    if ((words[0] & 0xf0) != 0x60) return Verdict::kBadVersion;
    const uint32_t payload = Swap16(words[1] & 0xffff);
    const uint32_t next_header = words[1] >> 16 & 0xff;
    // Hop-by-hop options without room for them: a jumbogram, or nonsense.
    if (payload == 0 && next_header == 0) return Verdict::kBadLength;
    const uint32_t total = forwarding::kIpv6HeaderBytes + payload;
    if (length < total) return Verdict::kTruncated;
    const Address from = MakeAddress6(words + 2);
    const Address to = MakeAddress6(words + 6);
    if (IsMartian6(from) || IsMulticast6(from) || IsMartian6(to)) {
      return Verdict::kMartian;
    }
    if (IsMulticast6(to)) return Verdict::kNotUnicast;

    const uint32_t entry = Lookup<128>(half, args.first_bits, to);
    const forwarding::NextHop* hop;
    const Verdict verdict =
        Route(args, entry, words[1] >> 24, total, result, &hop);
    if (verdict != Verdict::kForward) return verdict;
    words[1] -= 1u << 24;  // the hop limit
    StoreHeader(header, *hop, 0xdd86, words);
    return Verdict::kForward;
  }
};

}  // namespace forward

CARILLON_KERNEL(ipv6_forward, ForwardArgs, args, self) {
  forward::ForwardBatch(args, self, forward::Ipv6{});
}

CARILLON_KERNEL_INFO(ipv6_forward, ForwardArgs,
                     "forwards IPv6 packets by a routing table, one a thread",
                     simt::Registers(32)
                         .From("RFC 8200, DIR-24-8 (EDGE: IPv6)")
                         .Oracle("Linux' router, DPDK")
                         .LaunchedOnly()
                         .Validate<&forward::CheckLaunch>(),
                     CARILLON_FORWARD_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_FORWARDING_IPV6_FORWARD_CUH_
