// esp_encrypt: puts IP packets into ESP tunnels (RFC 4303, RFC 4301 5.1). The SA
// is the one that the policy for the packet's destination names. See wire.h for
// what a NIC writes and reads, and docs/workloads.md for where it differs from a
// whole gateway.
#ifndef CARILLON_KERNELS_IPSEC_ESP_ENCRYPT_CUH_
#define CARILLON_KERNELS_IPSEC_ESP_ENCRYPT_CUH_

#include "kernels/ipsec/esp.cuh"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

namespace esp {

inline constexpr uint32_t kOuterHops = 64;

// Word i of the payload: the inner packet, padding 1, 2, 3, ..., its length, and
// the next header.
CARILLON_DEVICE uint32_t PayloadWord(const EspArgs& args, const Job& job,
                                     uint32_t i) {
  if (i == job.changed_at) return job.changed;
  const uint32_t* const inner = InWords(args) + job.in;
  if (4 * i + 4 <= job.length) return inner[i];
  const auto* const bytes = reinterpret_cast<const uint8_t*>(inner);
  uint32_t word = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t at = 4 * i + k;
    uint32_t byte;
    if (at < job.length) {
      byte = bytes[at];
    } else if (at + 2 < job.bytes) {
      byte = at - job.length + 1;
    } else if (at + 2 == job.bytes) {
      byte = job.bytes - 2 - job.length;
    } else {
      byte = job.next_header;
    }
    word |= byte << 8 * k;
  }
  return word;
}

// Writes the outer header and ESP's, up to the IV. Returns the payload's place.
CARILLON_DEVICE uint32_t WriteHeaders(const Sa& sa, const Header& inner,
                                      uint32_t total, uint32_t sequence,
                                      uint32_t* to) {
  const auto* const local = reinterpret_cast<const uint32_t*>(sa.local);
  const auto* const peer = reinterpret_cast<const uint32_t*>(sa.peer);
  const uint32_t traffic_class = inner.version == 4
                                     ? inner.words[0] >> 8 & 0xff
                                     : SwapBytes(inner.words[0]) >> 20 & 0xff;
  uint32_t at;
  if (sa.family == 4) {
    // An IPv6 packet must not be fragmented on its way.
    const bool stays_whole =
        inner.version == 6 || (inner.words[1] >> 16 & 0x40) != 0;
    uint32_t words[5];
    words[0] = SwapBytes(0x45000000 | traffic_class << 16 | total);
    words[1] =
        SwapBytes((sequence & 0xffff) << 16 | (stays_whole ? 0x4000u : 0u));
    words[2] = kOuterHops | uint32_t{ipsec::kProtocolEsp} << 8;
    words[3] = local[0];
    words[4] = peer[0];
    uint32_t sum = 0;
    for (const uint32_t word : words) sum += forward::HalvesOf(word);
    words[2] |= (~forward::Fold(sum) & 0xffff) << 16;
    for (at = 0; at < 5; ++at) to[at] = words[at];
  } else {
    to[0] = SwapBytes(0x60000000 | traffic_class << 20);
    to[1] = SwapBytes((total - ipsec::kIpv6HeaderBytes) << 16 |
                      uint32_t{ipsec::kProtocolEsp} << 8 | kOuterHops);
    for (at = 0; at < 4; ++at) {
      to[2 + at] = local[at];
      to[6 + at] = peer[at];
    }
    at = 10;
  }
  to[at] = SwapBytes(sa.spi);
  to[at + 1] = SwapBytes(sequence);
  // 3DES makes an IV of its own.
  to[at + 2] = 0;
  to[at + 3] = SwapBytes(sequence);
  return at + 4;
}

// Checks a packet, takes a sequence number for it and writes its headers.
CARILLON_DEVICE Verdict Seal(const EspArgs& args, uint64_t packet, Job* job,
                             Result* result) {
  const uint64_t offset = simt::LoadRelaxed(&args.descriptors[packet].offset);
  const uint32_t length = simt::LoadRelaxed(&args.descriptors[packet].length);
  if (!args.packets.InBounds(offset, length) ||
      !forward::IsAligned(args.packets.data + offset)) {
    return Verdict::kBadDescriptor;
  }
  Header inner;
  const Verdict read = ReadHeader(args.packets.data + offset, length, &inner);
  if (read != Verdict::kDone) return read;
  const uint32_t* const words = inner.words;
  Policy policy;
  if (inner.version == 4) {
    if ((words[2] & 0xff) <= 1) return Verdict::kExpired;
    // RFC 1624: HC' = ~(~HC + ~m + m'), m: time to live and protocol.
    const uint32_t old_half = words[2] & 0xffff;
    const uint32_t new_half = old_half - 1;
    const uint32_t checksum =
        forward::Fold((~words[2] >> 16) + (~old_half & 0xffff) + new_half);
    job->changed_at = 2;
    job->changed = (~checksum & 0xffff) << 16 | new_half;
    job->next_header = ipsec::kProtocolIpv4;
    policy = FindPolicy<32>(args, {uint64_t{SwapBytes(words[4])} << 32, 0});
  } else {
    if (words[1] >> 24 <= 1) return Verdict::kExpired;
    job->changed_at = 1;
    job->changed = words[1] - (1u << 24);
    job->next_header = ipsec::kProtocolIpv6;
    policy = FindPolicy<128>(args, forward::MakeAddress6(words + 6));
  }
  if (policy.verdict != Verdict::kDone) return policy.verdict;
  Sa& sa = args.sas[policy.sa];
  // Pairs with the release store of sa_write: the rest of the SA is there.
  const uint32_t spi = simt::LoadAcquire(&sa.spi);
  if (spi == 0 || !IsUsable(sa, Direction::kOutbound)) return Verdict::kNoSa;
  result->spi = spi;
  const uint32_t pad_to = PadTo(sa.suite);
  job->bytes = (inner.total + 2 + pad_to - 1) / pad_to * pad_to;
  const uint32_t total =
      (sa.family == 4 ? ipsec::kIpv4HeaderBytes : ipsec::kIpv6HeaderBytes) +
      ipsec::kEspHeaderBytes + ipsec::kIvBytes + job->bytes +
      IcvBytes(sa.suite);
  if (total > args.stride || total > ipsec::kMostIpBytes) {
    return Verdict::kTooLarge;
  }
  // 64 bits do not wrap, so a number is never taken twice (RFC 4303 3.3.3).
  const uint64_t sequence = simt::AtomicAdd(&sa.sequence, 1) + 1;
  if (sequence > 0xffffffff) return Verdict::kSequenceExhausted;
  result->sequence = job->sequence = static_cast<uint32_t>(sequence);
  result->length = total;
  job->sa = policy.sa;
  job->spi = spi;
  job->in = offset / sizeof(uint32_t);
  job->slot = SlotOf(args, packet);
  job->length = inner.total;
  job->payload =
      WriteHeaders(sa, inner, total, job->sequence, OutWords(args, job->slot));
  job->suite = sa.suite;
  return Verdict::kDone;
}

// Encrypts up to kCount packets by 3DES in CBC mode, each of whose blocks needs
// the one before, and writes their ICVs. Their IV is a block before the payload's
// first: the sequence number, encrypted with the same key (NIST SP 800-38A,
// appendix C).
template <uint32_t kCount>
CARILLON_DEVICE void CbcEncrypt(const EspArgs& args, const Job* const* jobs,
                                uint32_t count) {
  const uint32_t* keys[kCount];
  uint32_t* to[kCount];
  des::Block chain[kCount];
  uint32_t most = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    // The places of packets that are not there compute, and store nothing.
    const Job& job = *jobs[i < count ? i : 0];
    keys[i] = args.sas[job.sa].keys.triple_des_sha1.rounds;
    to[i] = OutWords(args, job.slot + job.payload);
    chain[i] = {0, job.sequence};
    if (job.bytes > most) most = job.bytes;
  }
  const uint32_t* const tables = des::Tables();
  des::Crypt(tables, keys, chain);
  for (uint32_t i = 0; i < count; ++i) des::StoreBlock(chain[i], to[i] - 2);
  for (uint32_t at = 0; at < most; at += des::kBlockBytes) {
    for (uint32_t i = 0; i < count; ++i) {
      if (at >= jobs[i]->bytes) continue;
      chain[i].left ^= SwapBytes(PayloadWord(args, *jobs[i], at / 4));
      chain[i].right ^= SwapBytes(PayloadWord(args, *jobs[i], at / 4 + 1));
    }
    des::Crypt(tables, keys, chain);
    for (uint32_t i = 0; i < count; ++i) {
      if (at < jobs[i]->bytes) des::StoreBlock(chain[i], to[i] + at / 4);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    constexpr uint32_t kBefore = ipsec::kEspHeaderBytes + ipsec::kIvBytes;
    const sha1::State icv =
        HmacOf(args.sas[jobs[i]->sa].keys.triple_des_sha1, to[i] - kBefore / 4,
               kBefore + jobs[i]->bytes);
    for (uint32_t k = 0; k < 3; ++k) {
      to[i][jobs[i]->bytes / 4 + k] = SwapBytes(icv.words[k]);
    }
  }
}

// The lane's share of the list: kDesBlocksAtOnce packets.
CARILLON_DEVICE void CbcEncryptList(const EspArgs& args, const Job* jobs,
                                    uint32_t lane) {
  const uint32_t first = lane * kDesBlocksAtOnce;
  const Job* mine[kDesBlocksAtOnce] = {};
  uint32_t count = 0;
  for (uint32_t i = first; i < first + kDesBlocksAtOnce && i < simt::kWarpSize;
       ++i) {
    if (jobs[i].suite == Suite::kTripleDesSha1) mine[count++] = &jobs[i];
  }
  if (count == 1) {
    CbcEncrypt<1>(args, mine, 1);
  } else if (count > 1) {
    CbcEncrypt<kDesBlocksAtOnce>(args, mine, count);
  }
}

// The lane's share of a packet by AES in counter mode.
CARILLON_DEVICE void GcmEncrypt(const EspArgs& args, const Job& job,
                                uint32_t lane) {
  const ipsec::AesGcmKeys& keys = args.sas[job.sa].keys.aes_gcm;
  uint32_t* const to = OutWords(args, job.slot + job.payload);
  const uint32_t words = job.bytes / 4;
  for (uint32_t i = lane; 4 * i < words; i += simt::kWarpSize) {
    const aes::Block stream = KeyStream(keys, to, 2 + i);
    CARILLON_UNROLL
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t at = 4 * i + k;
      if (at < words) {
        to[at] = PayloadWord(args, job, at) ^ SwapBytes(stream.words[k]);
      }
    }
  }
}

}  // namespace esp

CARILLON_BARRIER_KERNEL(esp_encrypt, EspArgs, args, self) {
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
    esp::Result result{};
    if (mine < args.count) {
      result.verdict = esp::Seal(args, mine, &job, &result);
    }
    jobs[lane] = job;
    CARILLON_SYNC_THREADS(self);
    esp::CbcEncryptList(args, jobs, lane);
    for (uint32_t i = 0; i < simt::kWarpSize; ++i) {
      if (jobs[i].suite == esp::Suite::kAesGcm) {
        esp::GcmEncrypt(args, jobs[i], lane);
      }
    }
    CARILLON_SYNC_THREADS(self);
    esp::GcmSums(args, jobs, esp::Direction::kOutbound, lane, sums);
    CARILLON_SYNC_THREADS(self);
    if (job.suite == esp::Suite::kAesGcm) {
      const aes::Block icv =
          esp::GcmIcv(args, job, esp::Direction::kOutbound, lane, sums);
      uint32_t* const to = esp::OutWords(
          args, job.slot + job.payload + job.bytes / sizeof(uint32_t));
      for (uint32_t i = 0; i < 4; ++i) {
        to[i] = ipsec::SwapBytes(icv.words[i]);
      }
    }
    if (result.verdict == esp::Verdict::kBadTable) {
      self.Fail(esp::kFailBadTable);
    }
    if (mine < args.count) esp::Finish(args, mine, result);
  }
}

CARILLON_KERNEL_INFO(esp_encrypt, EspArgs,
                     "puts IP packets into IPsec's ESP tunnels",
                     simt::Registers(128)
                         .From("RFC 4303, 2451, 2404, 4106 (EDGE: IPSec)")
                         .Oracle("OpenSSL, NIST")
                         .Shared(esp::kSharedBytes)
                         .LeavesTogether()
                         .Shape<&esp::CheckShape>()
                         .Validate<&esp::CheckLaunch>(),
                     CARILLON_ESP_PARAMS);

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IPSEC_ESP_ENCRYPT_CUH_
