// What esp_encrypt and esp_decrypt share: their arguments, a warp's list of
// packets, and the ciphers on it.
//
// A block is one warp. It takes its packets 32 at a time, one a lane, and puts
// what is to be done into its list; then follow, with a barrier between each:
//   - what is serial inside a packet (headers, CBC encryption, HMAC): a packet a
//     lane;
//   - what is not (CBC decryption, counter mode, GHASH): one packet after the
//     other, each by all lanes.
#ifndef CARILLON_KERNELS_IPSEC_ESP_CUH_
#define CARILLON_KERNELS_IPSEC_ESP_CUH_

#include <cstdint>

#include "kernels/forwarding/forward.cuh"
#include "kernels/forwarding/wire.h"
#include "kernels/ipsec/aes.cuh"
#include "kernels/ipsec/des.cuh"
#include "kernels/ipsec/ghash.cuh"
#include "kernels/ipsec/sha1.cuh"
#include "kernels/ipsec/wire.h"
#include "kernels/ipsec/words.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One event: `count` packets. Blocks are 32x1x1 and share the packets evenly; the
// grid may have any size.
struct EspArgs {
  simt::Span<const uint8_t> packets;
  simt::Span<const forwarding::Packet> descriptors;
  simt::Span<ipsec::Sa> sas;
  simt::Span<const uint32_t> policies4;  // may be empty
  simt::Span<const uint32_t> policies6;  // may be empty
  simt::Span<ipsec::Unit> out;
  simt::Span<ipsec::Result> results;
  simt::Span<uint64_t> counts;
  uint32_t count;
  uint32_t stride;      // bytes of a packet's slot in `out`
  uint32_t first_bits;  // of an address, for both policies' first level
};

namespace esp {

using ipsec::Direction;
using ipsec::Result;
using ipsec::Sa;
using ipsec::Suite;
using ipsec::SwapBytes;
using ipsec::Verdict;
using simt::Span;

// The event's status when a policy leads nowhere.
inline constexpr uint32_t kFailBadTable = 16;

// How many blocks of DES a thread works on at once. A CPU, whose threads run in
// turn, would wait for each lookup of a single one; a GPU has other warps.
#if defined(__CUDACC__)
inline constexpr uint32_t kDesBlocksAtOnce = 1;
#else
inline constexpr uint32_t kDesBlocksAtOnce = 4;
#endif

CARILLON_HOST_DEVICE uint32_t IcvBytes(Suite suite) {
  return suite == Suite::kAesGcm ? 16 : 12;
}
// The ciphertext is a multiple of it.
CARILLON_HOST_DEVICE uint32_t PadTo(Suite suite) {
  return suite == Suite::kAesGcm ? 4 : 8;
}

CARILLON_HOST_DEVICE bool IsPolicyTable(uint64_t words, uint32_t first_bits) {
  return words == 0 ||
         words >= forwarding::kTableHeaderWords + (uint64_t{2} << first_bits);
}

// Returns nullptr, or what is wrong with the arguments.
CARILLON_HOST_DEVICE const char* CheckArgs(const EspArgs& args) {
  if (args.descriptors.size < args.count || args.results.size < args.count) {
    return "descriptors and results must have an element a packet";
  }
  if (args.counts.size < ipsec::kVerdicts) {
    return "counts must have an element a verdict (21)";
  }
  if (args.stride == 0 || args.stride % sizeof(ipsec::Unit) != 0 ||
      args.out.size / (args.stride / sizeof(ipsec::Unit)) < args.count) {
    return "stride must be a multiple of 16, and out have a stride a packet";
  }
  if (args.first_bits == 0 || args.first_bits > forwarding::kMostFirstBits ||
      args.first_bits % 8 != 0) {
    return "first_bits must be 8, 16 or 24";
  }
  if (!IsPolicyTable(args.policies4.size, args.first_bits) ||
      !IsPolicyTable(args.policies6.size, args.first_bits)) {
    return "policies must be empty, or have 16 words and two halves of at "
           "least "
           "2^first_bits";
  }
  return nullptr;
}

CARILLON_HOST_DEVICE const char* CheckBlock(const simt::Dim3& block) {
  return block.x == simt::kWarpSize && block.y == 1 && block.z == 1
             ? nullptr
             : "blocks must have 32x1x1 threads";
}

// For KernelTraits: a sentence for each mistake that the kernels themselves
// report only as a status.
inline const char* CheckShape(const simt::LaunchShape& shape) {
  return CheckBlock(shape.block);
}
inline const char* CheckLaunch(const simt::LaunchShape& shape,
                               const EspArgs& args) {
  const char* const wrong = CheckBlock(shape.block);
  return wrong != nullptr ? wrong : CheckArgs(args);
}

// What is to be done with a packet's payload, which is what ESP encrypts: the
// inner packet, its padding, and two bytes. Words count in the packet buffer, or
// in the packet's slot.
struct Job {
  Suite suite;       // kNone: nothing
  uint32_t sa;       // its place
  uint64_t in;       // the first word of the inner packet, or of the ciphertext
  uint64_t slot;     // the first word of the slot
  uint32_t payload;  // outbound: where it begins in the slot
  uint32_t bytes;    // of the payload
  uint32_t sequence;
  // Outbound: of the inner packet, and a word of its header that is another in
  // the payload.
  uint32_t length;
  uint32_t changed_at;
  uint32_t changed;
  uint32_t next_header;
  uint32_t spi;
};
inline constexpr uint32_t kJobsBytes = simt::kWarpSize * sizeof(Job);
// What each lane adds to each packet's GHASH.
inline constexpr uint32_t kSums = simt::kWarpSize * simt::kWarpSize;
inline constexpr uint32_t kSharedBytes =
    kJobsBytes + kSums * sizeof(ghash::Element);

CARILLON_DEVICE const uint32_t* InWords(const EspArgs& args) {
  return reinterpret_cast<const uint32_t*>(args.packets.data);
}
CARILLON_DEVICE uint32_t* OutWords(const EspArgs& args, uint64_t at) {
  return reinterpret_cast<uint32_t*>(args.out.data) + at;
}
CARILLON_DEVICE uint64_t SlotOf(const EspArgs& args, uint64_t packet) {
  return packet * (args.stride / sizeof(uint32_t));
}

// The outbound SA that packets to or from an address take.
struct Policy {
  Verdict verdict;  // kDone, kNoSa or kBadTable
  uint32_t sa;
};
template <uint32_t kBits>
CARILLON_DEVICE Policy FindPolicy(const EspArgs& args,
                                  const forward::Address& address) {
  const Span<const uint32_t> table =
      kBits == 32 ? args.policies4 : args.policies6;
  if (table.empty()) return {Verdict::kNoSa, 0};
  const Span<const uint32_t> half = forward::ActiveHalf(table);
  if (half.empty()) return {Verdict::kBadTable, 0};
  const uint32_t entry = forward::Lookup<kBits>(half, args.first_bits, address);
  if ((entry & forwarding::kEntryGroup) != 0) return {Verdict::kBadTable, 0};
  if ((entry & forwarding::kEntryRoute) == 0) return {Verdict::kNoSa, 0};
  const uint32_t sa = entry & forwarding::kEntryValue;
  if (sa >= args.sas.size) return {Verdict::kBadTable, 0};
  return {Verdict::kDone, sa};
}

CARILLON_DEVICE bool IsUsable(const Sa& sa, Direction direction) {
  return sa.direction == direction &&
         (sa.suite == Suite::kTripleDesSha1 || sa.suite == Suite::kAesGcm);
}

// An IPv4 or IPv6 header, copied and checked.
struct Header {
  uint32_t words[10];
  uint32_t version;
  uint32_t bytes;  // of the header, with IPv4's options
  uint32_t total;  // of the packet
};

// Sets *header and returns kDone, or returns what is wrong.
CARILLON_DEVICE Verdict ReadHeader(const uint8_t* bytes, uint32_t length,
                                   Header* header) {
  if (length < ipsec::kIpv4HeaderBytes) return Verdict::kTruncated;
  const uint32_t first =
      simt::LoadRelaxed(reinterpret_cast<const uint32_t*>(bytes));
  const auto read = [&](uint32_t words) {
    header->words[0] = first;
    for (uint32_t i = 1; i < words; ++i) {
      header->words[i] =
          simt::LoadRelaxed(reinterpret_cast<const uint32_t*>(bytes) + i);
    }
  };
  header->version = first >> 4 & 0xf;
  if (header->version == 4) {
    read(ipsec::kIpv4HeaderBytes / 4);
    header->bytes = (first & 0x0f) * 4;
    header->total = forward::Swap16(first >> 16);
    if (header->bytes < ipsec::kIpv4HeaderBytes ||
        header->total < header->bytes) {
      return Verdict::kBadLength;
    }
    if (length < header->total) return Verdict::kTruncated;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 5; ++i) sum += forward::HalvesOf(header->words[i]);
    for (uint32_t i = 5; i < header->bytes / 4; ++i) {
      sum += forward::HalvesOf(
          simt::LoadRelaxed(reinterpret_cast<const uint32_t*>(bytes) + i));
    }
    return forward::Fold(sum) == 0xffff ? Verdict::kDone
                                        : Verdict::kBadChecksum;
  }
  if (header->version != 6) return Verdict::kBadVersion;
  if (length < ipsec::kIpv6HeaderBytes) return Verdict::kTruncated;
  read(ipsec::kIpv6HeaderBytes / 4);
  const uint32_t payload = forward::Swap16(header->words[1] & 0xffff);
  // Hop-by-hop options without room for them: a jumbogram, or nonsense.
  if (payload == 0 && (header->words[1] >> 16 & 0xff) == 0) {
    return Verdict::kBadLength;
  }
  header->bytes = ipsec::kIpv6HeaderBytes;
  header->total = ipsec::kIpv6HeaderBytes + payload;
  return length < header->total ? Verdict::kTruncated : Verdict::kDone;
}

// --- AES-128-GCM (RFC 4106)

// The first word of the ciphertext, in either direction.
CARILLON_DEVICE const uint32_t* Ciphertext(const EspArgs& args, const Job& job,
                                           Direction direction) {
  return direction == Direction::kOutbound
             ? OutWords(args, job.slot + job.payload)
             : InWords(args) + job.in;
}

// The key stream's block `counter`; the IV stands before the ciphertext.
CARILLON_DEVICE aes::Block KeyStream(const ipsec::AesGcmKeys& keys,
                                     const uint32_t* ciphertext,
                                     uint32_t counter) {
  return aes::Encrypt(aes::Tables(), keys.rounds,
                      {{keys.salt, SwapBytes(ciphertext[-2]),
                        SwapBytes(ciphertext[-1]), counter}});
}

// What lane `lane` adds to the hash of a packet: its additional data are SPI and
// sequence number.
CARILLON_DEVICE ghash::Element GcmSum(const EspArgs& args, const Job& job,
                                      Direction direction, uint32_t lane) {
  const ipsec::AesGcmKeys& keys = args.sas[job.sa].keys.aes_gcm;
  const uint32_t* const text = Ciphertext(args, job, direction);
  const uint32_t words = job.bytes / 4;
  const uint32_t count = 2 + (words + 3) / 4;
  return ghash::LaneSum(
      reinterpret_cast<const ghash::Element*>(keys.powers), lane, count,
      [&](uint32_t i) -> ghash::Element {
        if (i == 0) return {uint64_t{job.spi} << 32 | job.sequence, 0};
        if (i == count - 1) return {64, uint64_t{job.bytes} * 8};
        const uint32_t at = 4 * (i - 1);
        const auto word = [&](uint32_t k) -> uint64_t {
          return at + k < words ? SwapBytes(text[at + k]) : 0u;
        };
        return {word(0) << 32 | word(1), word(2) << 32 | word(3)};
      });
}

// All lanes' sums of all packets in the list.
CARILLON_DEVICE void GcmSums(const EspArgs& args, const Job* jobs,
                             Direction direction, uint32_t lane,
                             ghash::Element* sums) {
  for (uint32_t i = 0; i < simt::kWarpSize; ++i) {
    if (jobs[i].suite != Suite::kAesGcm) continue;
    sums[i * simt::kWarpSize + lane] = GcmSum(args, jobs[i], direction, lane);
  }
}

// The ICV of lane `lane`'s own packet, when all sums are there.
CARILLON_DEVICE aes::Block GcmIcv(const EspArgs& args, const Job& job,
                                  Direction direction, uint32_t lane,
                                  const ghash::Element* sums) {
  ghash::Element hash{0, 0};
  for (uint32_t i = 0; i < simt::kWarpSize; ++i) {
    // Each lane begins elsewhere, so that they do not all want the same bank.
    const uint32_t from = (lane + i) % simt::kWarpSize;
    hash = ghash::Add(hash, sums[lane * simt::kWarpSize + from]);
  }
  aes::Block icv = KeyStream(args.sas[job.sa].keys.aes_gcm,
                             Ciphertext(args, job, direction), 1);
  icv.words[0] ^= static_cast<uint32_t>(hash.high >> 32);
  icv.words[1] ^= static_cast<uint32_t>(hash.high);
  icv.words[2] ^= static_cast<uint32_t>(hash.low >> 32);
  icv.words[3] ^= static_cast<uint32_t>(hash.low);
  return icv;
}

// --- HMAC-SHA1-96 (RFC 2404)

// Of an ESP packet of `bytes` bytes without its ICV.
CARILLON_DEVICE sha1::State HmacOf(const ipsec::TripleDesSha1Keys& keys,
                                   const uint32_t* packet, uint32_t bytes) {
  sha1::HmacKey key;
  for (uint32_t i = 0; i < sha1::kDigestWords; ++i) {
    key.inner.words[i] = keys.inner[i];
    key.outer.words[i] = keys.outer[i];
  }
  return sha1::Hmac(key, packet, bytes);
}

// Ends a packet: counts the verdict and writes the result.
CARILLON_DEVICE void Finish(const EspArgs& args, uint64_t packet,
                            const Result& result) {
  simt::AtomicAdd(&args.counts[static_cast<uint32_t>(result.verdict)],
                  uint64_t{1});
  args.results[packet] = result;
}

}  // namespace esp
}  // namespace carillon::kernels

// The parameters of EspArgs, for CARILLON_KERNEL_INFO.
#define CARILLON_ESP_PARAMS                                                  \
  CARILLON_PARAM(EspArgs, packets, "where the packets' bytes are"),          \
      CARILLON_PARAM(EspArgs, descriptors, "one forwarding::Packet each"),   \
      CARILLON_PARAM(EspArgs, sas, "table of SAs, zeros at first"),          \
      CARILLON_PARAM(EspArgs, policies4,                                     \
                     "forwarding table of IPv4 addresses, to outbound SAs"), \
      CARILLON_PARAM(EspArgs, policies6,                                     \
                     "forwarding table of IPv6 addresses, to outbound SAs"), \
      CARILLON_PARAM(EspArgs, out, "receives the packets, a slot each"),     \
      CARILLON_PARAM(EspArgs, results, "receives one ipsec::Result each"),   \
      CARILLON_PARAM(EspArgs, counts,                                        \
                     "adds 1 a packet to its verdict's number, of 21"),      \
      CARILLON_PARAM(EspArgs, count, "packets in this batch"),               \
      CARILLON_PARAM(EspArgs, stride, "bytes of a slot, a multiple of 16"),  \
      CARILLON_PARAM(EspArgs, first_bits,                                    \
                     "bits of an address for the policies' first level")

#endif  // CARILLON_KERNELS_IPSEC_ESP_CUH_
