// What ipv4_forward and ipv6_forward share: their arguments, the lookup in a
// table, and how one thread reads a header and writes the new one.
#ifndef CARILLON_KERNELS_FORWARDING_FORWARD_CUH_
#define CARILLON_KERNELS_FORWARDING_FORWARD_CUH_

#include <cstdint>

#include "kernels/forwarding/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One event: `count` packets, one a thread; with fewer threads each takes
// several. The grid and block may have any size (a warp event has 32 threads).
struct ForwardArgs {
  simt::Span<const uint8_t> packets;
  simt::Span<const forwarding::Packet> descriptors;
  simt::Span<const uint32_t> table;
  simt::Span<const forwarding::NextHop> next_hops;
  simt::Span<forwarding::Header> headers;
  simt::Span<forwarding::Result> results;
  uint32_t count;
  uint32_t first_bits;  // of an address, for a table's first level
};

namespace forward {

using forwarding::Verdict;
using simt::Span;

// The event's status when the table holds what no Fib makes.
inline constexpr uint32_t kFailBadTable = 16;

// Returns nullptr, or what is wrong with the arguments.
CARILLON_HOST_DEVICE const char* CheckArgs(const ForwardArgs& args) {
  if (args.descriptors.size < args.count || args.headers.size < args.count ||
      args.results.size < args.count) {
    return "descriptors, headers and results must have an element a packet";
  }
  if (args.first_bits == 0 || args.first_bits > forwarding::kMostFirstBits ||
      args.first_bits % 8 != 0) {
    return "first_bits must be 8, 16 or 24";
  }
  if (args.table.size <
      forwarding::kTableHeaderWords + (uint64_t{2} << args.first_bits)) {
    return "table must have 16 words and two halves of at least 2^first_bits";
  }
  return nullptr;
}

// For KernelTraits: a sentence for each mistake that the kernel itself reports
// only as a status.
inline const char* CheckLaunch(const simt::LaunchShape&,
                               const ForwardArgs& args) {
  return CheckArgs(args);
}

// A word of the network as a number, and back.
CARILLON_HOST_DEVICE constexpr uint32_t Swap32(uint32_t word) {
  return word >> 24 | (word >> 8 & 0xff00) | (word & 0xff00) << 8 | word << 24;
}
CARILLON_HOST_DEVICE constexpr uint32_t Swap16(uint32_t half) {
  return (half >> 8 & 0xff) | (half & 0xff) << 8;
}

// The sum of 16-bit halves in one's complement. Its bytes stand in the order of
// the network, as those of the words do.
CARILLON_DEVICE uint32_t Fold(uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  return (sum & 0xffff) + (sum >> 16);
}
CARILLON_DEVICE uint32_t HalvesOf(uint32_t word) {
  return (word & 0xffff) + (word >> 16);
}

// An address as a number; IPv4's are the first 32 bits of `high`.
struct Address {
  uint64_t high;
  uint64_t low;
};

CARILLON_HOST_DEVICE constexpr Address MakeAddress6(const uint32_t* words) {
  return {uint64_t{Swap32(words[0])} << 32 | Swap32(words[1]),
          uint64_t{Swap32(words[2])} << 32 | Swap32(words[3])};
}

// The half in which to look; empty if word 0 is no half's.
CARILLON_DEVICE Span<const uint32_t> ActiveHalf(Span<const uint32_t> table) {
  // Pairs with the release store of fib_write: what was written to this half
  // before is seen.
  const uint32_t half = simt::LoadAcquire(&table[0]);
  if (half > 1) return {};
  const uint64_t words = (table.size - forwarding::kTableHeaderWords) / 2;
  return table.sub(forwarding::kTableHeaderWords + half * words, words);
}

// The entry of the longest prefix of an address of kBits bits: a route's, or 0.
// A broken table gives one that has kEntryGroup set.
template <uint32_t kBits>
CARILLON_DEVICE uint32_t Lookup(Span<const uint32_t> half, uint32_t first_bits,
                                Address address) {
  using namespace forwarding;
  uint32_t entry = half[address.high >> (64 - first_bits)];
  address.high = address.high << first_bits | address.low >> (64 - first_bits);
  address.low <<= first_bits;
  for (uint32_t bits = first_bits; (entry & kEntryGroup) != 0 && bits < kBits;
       bits += 8) {
    const uint64_t at = (uint64_t{1} << first_bits) +
                        uint64_t{entry & kEntryValue} * kGroupEntries +
                        (address.high >> 56);
    if (at >= half.size) return kEntryGroup;
    entry = half[at];
    address.high = address.high << 8 | address.low >> 56;
    address.low <<= 8;
  }
  return entry;
}

// Reads kWords words of a header, each once: the device may change it
// meanwhile. `from` is aligned to 8 bytes.
template <uint32_t kWords>
CARILLON_DEVICE void LoadHeader(const uint8_t* from,
                                uint32_t (&words)[kWords]) {
  uint64_t pairs[kWords / 2];
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kWords / 2; ++i) {
    pairs[i] = simt::LoadRelaxed(reinterpret_cast<const uint64_t*>(from) + i);
  }
  if constexpr (kWords % 2 != 0) {
    words[kWords - 1] = simt::LoadRelaxed(
        reinterpret_cast<const uint32_t*>(from) + (kWords - 1));
  }
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kWords / 2; ++i) {
    words[2 * i] = static_cast<uint32_t>(pairs[i]);
    words[2 * i + 1] = static_cast<uint32_t>(pairs[i] >> 32);
  }
}

// Writes the header of a packet to that next hop. ethertype: as a little-endian
// machine reads it.
template <uint32_t kWords>
CARILLON_DEVICE void StoreHeader(forwarding::Header* to,
                                 const forwarding::NextHop& hop,
                                 uint32_t ethertype,
                                 const uint32_t (&words)[kWords]) {
  const auto* ethernet = reinterpret_cast<const uint32_t*>(&hop);
  auto* out = reinterpret_cast<uint32_t*>(to->bytes);
  out[0] = ethernet[0];
  out[1] = ethernet[1];
  out[2] = ethernet[2];
  out[3] = (ethernet[3] & 0xffff) | ethertype << 16;
  CARILLON_UNROLL
  for (uint32_t i = 0; i < kWords; ++i) out[4 + i] = words[i];
}

CARILLON_DEVICE bool IsAligned(const uint8_t* packet) {
  return reinterpret_cast<uintptr_t>(packet) % forwarding::kPacketAlignment ==
         0;
}

// A CPU runs the threads in turn, so what one needs of memory can be fetched
// while those before it run: first its packet, then the entry that the first
// bits of its destination name, kDestination bytes from its begin.
template <uint32_t kDestination>
CARILLON_DEVICE void PrefetchForLater(
    [[maybe_unused]] const ForwardArgs& args,
    [[maybe_unused]] Span<const uint32_t> half, [[maybe_unused]] uint64_t i) {
#if !defined(__CUDACC__)
  constexpr uint64_t kPacketsAhead = 8;
  constexpr uint64_t kEntriesAhead = 4;
  const auto destination_of = [&](uint64_t at) -> const uint32_t* {
    if (at >= args.count) return nullptr;
    const uint64_t offset = simt::LoadRelaxed(&args.descriptors[at].offset);
    if (!args.packets.InBounds(offset, kDestination + sizeof(uint32_t)) ||
        !IsAligned(args.packets.data + offset)) {
      return nullptr;
    }
    return reinterpret_cast<const uint32_t*>(args.packets.data + offset +
                                             kDestination);
  };
  __builtin_prefetch(destination_of(i + kPacketsAhead));
  if (const uint32_t* const to = destination_of(i + kEntriesAhead)) {
    __builtin_prefetch(
        &half[Swap32(simt::LoadRelaxed(to)) >> (32 - args.first_bits)]);
  }
#endif
}

// Forwards the batch. `forward(args, half, bytes, length, header, result)`
// decides about one packet of `length` bytes.
template <class Thread, class Forward>
CARILLON_DEVICE void ForwardBatch(const ForwardArgs& args, const Thread& self,
                                  Forward forward) {
  if (CheckArgs(args) != nullptr) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const Span<const uint32_t> half = ActiveHalf(args.table);
  for (uint64_t i = self.global_linear(); i < args.count;
       i += self.grid_threads()) {
    forwarding::Result result{};
    const uint64_t offset = simt::LoadRelaxed(&args.descriptors[i].offset);
    const uint32_t length = simt::LoadRelaxed(&args.descriptors[i].length);
    if (half.empty()) {
      result.verdict = Verdict::kBadTable;
    } else if (!args.packets.InBounds(offset, length) ||
               !IsAligned(args.packets.data + offset)) {
      result.verdict = Verdict::kBadDescriptor;
    } else {
      PrefetchForLater<Forward::kDestination>(args, half, i);
      result.verdict = forward(args, half, args.packets.data + offset, length,
                               &args.headers[i], &result);
    }
    if (result.verdict == Verdict::kBadTable) self.Fail(kFailBadTable);
    args.results[i] = result;
  }
}

// The common end: the route, and whether the packet may take it. Sets
// result->next_hop and *hop.
CARILLON_DEVICE Verdict Route(const ForwardArgs& args, uint32_t entry,
                              uint32_t hops_left, uint32_t length,
                              forwarding::Result* result,
                              const forwarding::NextHop** hop) {
  if ((entry & forwarding::kEntryGroup) != 0) return Verdict::kBadTable;
  if ((entry & forwarding::kEntryRoute) == 0) return Verdict::kNoRoute;
  const uint32_t next_hop = entry & forwarding::kEntryValue;
  if (next_hop >= args.next_hops.size) return Verdict::kBadTable;
  result->next_hop = next_hop;
  if (hops_left <= 1) return Verdict::kExpired;
  *hop = &args.next_hops[next_hop];
  if ((*hop)->mtu != 0 && length > (*hop)->mtu) return Verdict::kTooLarge;
  result->length = length;
  return Verdict::kForward;
}

}  // namespace forward
}  // namespace carillon::kernels

// The parameters of ForwardArgs, for CARILLON_KERNEL_INFO.
#define CARILLON_FORWARD_PARAMS                                                \
  CARILLON_PARAM(ForwardArgs, packets, "where the packets' bytes are"),        \
      CARILLON_PARAM(ForwardArgs, descriptors, "one forwarding::Packet each"), \
      CARILLON_PARAM(ForwardArgs, table, "forwarding table, zeros at first"),  \
      CARILLON_PARAM(ForwardArgs, next_hops,                                   \
                     "one forwarding::NextHop for each that routes name"),     \
      CARILLON_PARAM(ForwardArgs, headers,                                     \
                     "receives one forwarding::Header each"),                  \
      CARILLON_PARAM(ForwardArgs, results,                                     \
                     "receives one forwarding::Result each"),                  \
      CARILLON_PARAM(ForwardArgs, count, "packets in this batch"),             \
      CARILLON_PARAM(ForwardArgs, first_bits,                                  \
                     "bits of an address for the table's first level")

#endif  // CARILLON_KERNELS_FORWARDING_FORWARD_CUH_
