// esp_decrypt: takes IP packets out of ESP tunnels (RFC 4303, RFC 4301 5.2). Of a
// packet, no byte leaves the kernel before its ICV is right and its number new.
// See wire.h for what a NIC writes and reads, and docs/workloads.md for where it
// differs from a whole gateway.
#ifndef CARILLON_KERNELS_IPSEC_ESP_DECRYPT_CUH_
#define CARILLON_KERNELS_IPSEC_ESP_DECRYPT_CUH_

#include "kernels/ipsec/esp.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace esp {

// --- The replay window (RFC 4303 3.4.3)
//
// Whether a number is new is decided by a compare-and-swap of the word that has
// its bit, so of several packets with it one is accepted. A word that holds a
// higher block of numbers than the packet's has moved on: then the number is
// older than the window, as the blocks of one word are wider apart than that.
// `highest` moves after the bit is set, so it is at most as high as it should be;
// the words never take a number back.

CARILLON_DEVICE bool IsBehindWindow(const Sa& sa, uint32_t sequence) {
  const uint32_t highest = simt::LoadRelaxed(&sa.highest);
  return highest >= ipsec::kReplayWindow &&
         sequence <= highest - ipsec::kReplayWindow;
}
// What `word` is with the number's bit, or `word` if the number is not new.
CARILLON_DEVICE uint64_t WithNumber(uint64_t word, uint32_t sequence) {
  const uint64_t block = sequence / ipsec::kNumbersOfWord;
  const uint64_t bit = uint64_t{1} << sequence % ipsec::kNumbersOfWord;
  if (word >> 32 > block) return word;
  if (word >> 32 == block) return word | bit;
  return block << 32 | bit;
}
CARILLON_DEVICE uint64_t* WordOf(Sa& sa, uint32_t sequence) {
  return &sa.seen[sequence / ipsec::kNumbersOfWord % ipsec::kReplayWords];
}

CARILLON_DEVICE bool MayBeNew(Sa& sa, uint32_t sequence) {
  if (sequence == 0 || IsBehindWindow(sa, sequence)) return false;
  const uint64_t word = simt::LoadRelaxed(WordOf(sa, sequence));
  return WithNumber(word, sequence) != word;
}

// Takes the number; false if another packet has had it, or it is too old.
CARILLON_DEVICE bool TakeNumber(Sa& sa, uint32_t sequence) {
  if (IsBehindWindow(sa, sequence)) return false;
  uint64_t* const at = WordOf(sa, sequence);
  uint64_t seen = simt::LoadRelaxed(at);
  for (;;) {
    const uint64_t with = WithNumber(seen, sequence);
    if (with == seen) return false;
    const uint64_t before = simt::AtomicCas(at, seen, with);
    if (before == seen) break;
    seen = before;
  }
  simt::AtomicMax(&sa.highest, sequence);
  return true;
}

// What a lane remembers of its packet between the barriers.
struct Inbound {
  uint32_t congested;  // the outer header says "congestion experienced"
};

// Checks a packet up to its ICV, and HMAC-SHA1-96's, too.
CARILLON_DEVICE Verdict Open(const EspArgs& args, uint64_t packet, Job* job,
                             Inbound* inbound, Result* result) {
  const uint64_t offset = simt::LoadRelaxed(&args.descriptors[packet].offset);
  const uint32_t length = simt::LoadRelaxed(&args.descriptors[packet].length);
  if (!args.packets.InBounds(offset, length) ||
      !forward::IsAligned(args.packets.data + offset)) {
    return Verdict::kBadDescriptor;
  }
  Header outer;
  const Verdict read = ReadHeader(args.packets.data + offset, length, &outer);
  if (read != Verdict::kDone) return read;
  uint32_t protocol;
  uint32_t traffic_class;
  if (outer.version == 4) {
    protocol = outer.words[2] >> 8 & 0xff;
    traffic_class = outer.words[0] >> 8 & 0xff;
    // More fragments, or an offset.
    if ((SwapBytes(outer.words[1]) & 0x3fff) != 0) return Verdict::kFragment;
  } else {
    protocol = outer.words[1] >> 16 & 0xff;
    traffic_class = SwapBytes(outer.words[0]) >> 20 & 0xff;
    if (protocol == ipsec::kProtocolFragment) return Verdict::kFragment;
  }
  if (protocol != ipsec::kProtocolEsp) return Verdict::kNotEsp;
  inbound->congested = (traffic_class & 3) == 3;
  const uint32_t esp_bytes = outer.total - outer.bytes;
  if (esp_bytes < ipsec::kEspHeaderBytes) return Verdict::kTruncated;

  const uint64_t esp = (offset + outer.bytes) / sizeof(uint32_t);
  const uint32_t* const words = InWords(args) + esp;
  const uint32_t spi = SwapBytes(simt::LoadRelaxed(words));
  const uint32_t sequence = SwapBytes(simt::LoadRelaxed(words + 1));
  if (spi == 0 || args.sas.empty()) return Verdict::kUnknownSpi;
  const uint32_t place = static_cast<uint32_t>(spi % args.sas.size);
  Sa& sa = args.sas[place];
  // Pairs with the release store of sa_write: the rest of the SA is there.
  if (simt::LoadAcquire(&sa.spi) != spi || !IsUsable(sa, Direction::kInbound)) {
    return Verdict::kUnknownSpi;
  }
  result->spi = spi;
  result->sequence = sequence;
  const Suite suite = sa.suite;
  const uint32_t others =
      ipsec::kEspHeaderBytes + ipsec::kIvBytes + IcvBytes(suite);
  if (esp_bytes < others + PadTo(suite)) return Verdict::kTruncated;
  job->bytes = esp_bytes - others;
  if (job->bytes % PadTo(suite) != 0) return Verdict::kBadLength;
  if (job->bytes > args.stride) return Verdict::kTooLarge;
  if (!MayBeNew(sa, sequence)) return Verdict::kReplayed;

  job->sa = place;
  job->spi = spi;
  job->sequence = sequence;
  job->slot = SlotOf(args, packet);
  job->in = esp + (ipsec::kEspHeaderBytes + ipsec::kIvBytes) / sizeof(uint32_t);
  if (suite == Suite::kTripleDesSha1) {
    const sha1::State icv =
        HmacOf(sa.keys.triple_des_sha1, words,
               ipsec::kEspHeaderBytes + ipsec::kIvBytes + job->bytes);
    const uint32_t* const found = InWords(args) + job->in + job->bytes / 4;
    uint32_t differ = 0;
    for (uint32_t i = 0; i < 3; ++i)
      differ |= SwapBytes(icv.words[i]) ^ found[i];
    if (differ != 0) return Verdict::kBadIcv;
    if (!TakeNumber(sa, sequence)) return Verdict::kReplayed;
  }
  job->suite = suite;
  return Verdict::kDone;
}

// The same for AES-GCM's ICV, when its sums are there.
CARILLON_DEVICE Verdict CheckGcm(const EspArgs& args, const Job& job,
                                 uint32_t lane, const ghash::Element* sums) {
  const aes::Block icv = GcmIcv(args, job, Direction::kInbound, lane, sums);
  const uint32_t* const found = InWords(args) + job.in + job.bytes / 4;
  uint32_t differ = 0;
  for (uint32_t i = 0; i < 4; ++i) differ |= SwapBytes(icv.words[i]) ^ found[i];
  if (differ != 0) return Verdict::kBadIcv;
  return TakeNumber(args.sas[job.sa], job.sequence) ? Verdict::kDone
                                                    : Verdict::kReplayed;
}

// The lane's share of a packet by 3DES in CBC mode.
CARILLON_DEVICE void CbcDecrypt(const EspArgs& args, const Job& job,
                                uint32_t lane) {
  const uint32_t* const keys = args.sas[job.sa].keys.triple_des_sha1.rounds;
  const uint32_t* const from = InWords(args) + job.in;
  uint32_t* const to = OutWords(args, job.slot);
  const uint32_t count = job.bytes / des::kBlockBytes;
  for (uint32_t first = lane * kDesBlocksAtOnce; first < count;
       first += simt::kWarpSize * kDesBlocksAtOnce) {
    des::Block blocks[kDesBlocksAtOnce];
    CARILLON_UNROLL
    for (uint32_t i = 0; i < kDesBlocksAtOnce; ++i) {
      const uint32_t at = first + i < count ? first + i : first;
      blocks[i] = des::LoadBlock(from + 2 * at);
    }
    des::Crypt(des::Tables(), keys, blocks);
    CARILLON_UNROLL
    for (uint32_t i = 0; i < kDesBlocksAtOnce; ++i) {
      const uint32_t at = first + i;
      if (at >= count) break;
      // The first one's is the IV.
      const des::Block before = des::LoadBlock(from + 2 * at - 2);
      des::StoreBlock(
          {blocks[i].left ^ before.left, blocks[i].right ^ before.right},
          to + 2 * at);
    }
  }
}

// The lane's share of a packet by AES in counter mode.
CARILLON_DEVICE void GcmDecrypt(const EspArgs& args, const Job& job,
                                uint32_t lane) {
  const ipsec::AesGcmKeys& keys = args.sas[job.sa].keys.aes_gcm;
  const uint32_t* const from = InWords(args) + job.in;
  uint32_t* const to = OutWords(args, job.slot);
  const uint32_t words = job.bytes / 4;
  for (uint32_t i = lane; 4 * i < words; i += simt::kWarpSize) {
    const aes::Block stream = KeyStream(keys, from, 2 + i);
    CARILLON_UNROLL
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t at = 4 * i + k;
      if (at < words) to[at] = from[at] ^ SwapBytes(stream.words[k]);
    }
  }
}

// Whether packets from the inner source would go back to this SA's peer
// (RFC 4301 5.2, step 4).
CARILLON_DEVICE Verdict CheckSource(const EspArgs& args, const Sa& sa,
                                    const Policy& policy) {
  if (policy.verdict == Verdict::kNoSa) return Verdict::kWrongSource;
  if (policy.verdict != Verdict::kDone) return policy.verdict;
  const Sa& back = args.sas[policy.sa];
  uint32_t differ = back.family ^ sa.family;
  for (uint32_t i = 0; i < 4; ++i) {
    differ |= reinterpret_cast<const uint32_t*>(back.peer)[i] ^
              reinterpret_cast<const uint32_t*>(sa.peer)[i];
  }
  return differ == 0 ? Verdict::kDone : Verdict::kWrongSource;
}

// Checks what was decrypted into the slot: padding and inner header. Marks the
// inner packet if it met congestion on its way (RFC 4301 5.1.2).
CARILLON_DEVICE Verdict CheckInner(const EspArgs& args, const Job& job,
                                   const Inbound& inbound, Result* result) {
  uint32_t* const words = OutWords(args, job.slot);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(words);
  const uint32_t padding = bytes[job.bytes - 2];
  const uint32_t next_header = bytes[job.bytes - 1];
  if (padding + 2 > job.bytes) return Verdict::kBadPadding;
  const uint32_t length = job.bytes - 2 - padding;
  for (uint32_t i = 0; i < padding; ++i) {
    if (bytes[length + i] != i + 1) return Verdict::kBadPadding;
  }
  if (next_header == ipsec::kProtocolNone) return Verdict::kDummy;
  const Sa& sa = args.sas[job.sa];
  const uint32_t version = bytes[0] >> 4;
  if (next_header == ipsec::kProtocolIpv4) {
    if (length < ipsec::kIpv4HeaderBytes || version != 4) {
      return Verdict::kBadInner;
    }
    const uint32_t header = (words[0] & 0xf) * 4;
    const uint32_t total = forward::Swap16(words[0] >> 16);
    // It may be followed by padding against traffic analysis (RFC 4303 2.7).
    if (header < ipsec::kIpv4HeaderBytes || total < header || total > length) {
      return Verdict::kBadInner;
    }
    const Verdict source = CheckSource(
        args, sa,
        FindPolicy<32>(args, {uint64_t{SwapBytes(words[3])} << 32, 0}));
    if (source != Verdict::kDone) return source;
    const uint32_t ecn = words[0] >> 8 & 3;
    if (inbound.congested != 0 && (ecn == 1 || ecn == 2)) {
      const uint32_t old_half = words[0] & 0xffff;
      const uint32_t new_half = old_half | 3u << 8;
      const uint32_t checksum =
          forward::Fold((~words[2] >> 16) + (~old_half & 0xffff) + new_half);
      words[0] |= 3u << 8;
      words[2] = (words[2] & 0xffff) | (~checksum & 0xffff) << 16;
    }
    result->length = total;
    return Verdict::kDone;
  }
  if (next_header != ipsec::kProtocolIpv6 || length < ipsec::kIpv6HeaderBytes ||
      version != 6) {
    return Verdict::kBadInner;
  }
  const uint32_t total =
      ipsec::kIpv6HeaderBytes + forward::Swap16(words[1] & 0xffff);
  if (total > length) return Verdict::kBadInner;
  const Verdict source = CheckSource(
      args, sa, FindPolicy<128>(args, forward::MakeAddress6(words + 2)));
  if (source != Verdict::kDone) return source;
  const uint32_t ecn = SwapBytes(words[0]) >> 20 & 3;
  if (inbound.congested != 0 && (ecn == 1 || ecn == 2)) {
    words[0] |= SwapBytes(3u << 20);
  }
  result->length = total;
  return Verdict::kDone;
}

}  // namespace esp

CARILLON_BARRIER_KERNEL(esp_decrypt, EspArgs, args, self) {
  if (esp::CheckBlock(self.block_dim()) != nullptr) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (esp::CheckArgs(args) != nullptr) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  auto* const jobs = self.shared<esp::Job>(0, simt::kWarpSize);
  auto* const sums = self.shared<ghash::Element>(esp::kJobsBytes, esp::kSums);
  const uint32_t lane = self.lane();
  const uint64_t blocks = self.grid_dim().count();
  for (uint64_t first = self.global_linear() / simt::kWarpSize;
       first < args.count; first += blocks * simt::kWarpSize) {
    const uint64_t mine = first + lane * blocks;
    esp::Job job{};
    esp::Inbound inbound{};
    esp::Result result{};
    if (mine < args.count) {
      result.verdict = esp::Open(args, mine, &job, &inbound, &result);
    }
    jobs[lane] = job;
    CARILLON_SYNC_THREADS(self);
    esp::GcmSums(args, jobs, esp::Direction::kInbound, lane, sums);
    CARILLON_SYNC_THREADS(self);
    if (job.suite == esp::Suite::kAesGcm) {
      result.verdict = esp::CheckGcm(args, job, lane, sums);
      if (result.verdict != esp::Verdict::kDone) {
        jobs[lane].suite = esp::Suite::kNone;
      }
    }
    CARILLON_SYNC_THREADS(self);
    for (uint32_t i = 0; i < simt::kWarpSize; ++i) {
      if (jobs[i].suite == esp::Suite::kTripleDesSha1) {
        esp::CbcDecrypt(args, jobs[i], lane);
      } else if (jobs[i].suite == esp::Suite::kAesGcm) {
        esp::GcmDecrypt(args, jobs[i], lane);
      }
    }
    CARILLON_SYNC_THREADS(self);
    if (result.verdict == esp::Verdict::kDone) {
      result.verdict = esp::CheckInner(args, job, inbound, &result);
    }
    if (result.verdict == esp::Verdict::kBadTable) {
      self.Fail(esp::kFailBadTable);
    }
    if (mine < args.count) esp::Finish(args, mine, result);
  }
}

CARILLON_KERNEL_INFO(esp_decrypt, EspArgs,
                     "takes IP packets out of IPsec's ESP tunnels",
                     simt::Registers(128)
                         .From("RFC 4303, 2451, 2404, 4106 (EDGE: IPSec)")
                         .Oracle("OpenSSL, NIST")
                         .Shared(esp::kSharedBytes)
                         .LeavesTogether()
                         .Shape<&esp::CheckShape>()
                         .Validate<&esp::CheckLaunch>(),
                     CARILLON_ESP_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IPSEC_ESP_DECRYPT_CUH_
