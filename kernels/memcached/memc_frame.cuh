// What memc_gnom_get's helper threads do: check the headers of a request's
// frame, and write those of its reply (GNoM, thesis 4.1.3). gnom_wire.h draws
// both; a row is the first words of a GRXB, or of a reply, in shared memory.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_FRAME_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_FRAME_CUH_

#include <cstdint>

#include "kernels/forwarding/forward.cuh"
#include "kernels/memcached/gnom_wire.h"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

using forward::Fold;
using forward::HalvesOf;
using forward::Swap16;
using memcached::GnomVerdict;

// Words of a row, by what begins in them. Halves and bytes stand in the order of
// the network.
enum FrameWord : uint32_t {
  kLengthWord = 0,  // and the receiver's Ethernet address
  kSenderWord = 2,  // Ethernet address
  kTypeWord = 3,    // in its upper half
  kIpWord = 4,      // version, header length, total length
  kFragmentWord = 5,
  kProtocolWord = 6,  // time to live, protocol, checksum
  kFromWord = 7,
  kToWord = 8,
  kPortsWord = 9,
  kUdpWord = 10,  // length and checksum
  kIdWord = 11,   // memcached's frame: id and sequence
  kTotalWord = 12,
  kTextWord = 13,
};
static_assert(kTextWord * 4 == memcached::kGrxbText);
static_assert(kIpWord * 4 == memcached::kGrxbIp);
static_assert(kPortsWord * 4 == memcached::kGrxbUdp);

inline constexpr uint32_t kEthernetBytes = 14;
inline constexpr uint32_t kIpBytes = 20;
inline constexpr uint32_t kUdpBytes = 8;
inline constexpr uint32_t kIpv4Type = 0x0008;    // as a word's half
inline constexpr uint32_t kTotalOfOne = 0x0100;  // the same

// The words of a frame: those of its row, and behind them those in memory.
struct FrameWords {
  const uint32_t* row;
  uint32_t row_words;
  const uint32_t* memory;

  CARILLON_DEVICE uint32_t operator[](uint32_t i) const {
    return i < row_words ? row[i] : simt::LoadRelaxed(memory + i);
  }
};

// The sum of `bytes` from a frame's word `from` on, folded.
CARILLON_DEVICE uint32_t SumBytes(const FrameWords& frame, uint32_t from,
                                  uint32_t bytes) {
  uint32_t sum = 0;
  for (; bytes >= 4; bytes -= 4) sum += HalvesOf(frame[from++]);
  if (bytes != 0) sum += HalvesOf(frame[from] & ((1u << 8 * bytes) - 1));
  return Fold(sum);
}

// The sum of UDP's pseudo-header.
CARILLON_DEVICE uint32_t PseudoHeaderSum(const uint32_t* row,
                                         uint32_t udp_bytes) {
  constexpr uint32_t kUdpProtocol = 0x1100;
  return HalvesOf(row[kFromWord]) + HalvesOf(row[kToWord]) + kUdpProtocol +
         Swap16(udp_bytes);
}

// What a server has to know to be the one that is meant.
struct ServerAddress {
  uint32_t address;  // IPv4, as a number; 0: any
  uint32_t port;
};

CARILLON_DEVICE bool IsGroup4(uint32_t address) { return address >> 29 == 7; }

// kAnswered: a request for this server, whole and undamaged.
CARILLON_DEVICE GnomVerdict CheckFrame(const FrameWords& frame,
                                       const ServerAddress& server) {
  const uint32_t* row = frame.row;
  const uint32_t length = row[kLengthWord] & 0xffff;
  if (length > memcached::kMaxGrxbFrame || length < kEthernetBytes) {
    return GnomVerdict::kTruncated;
  }
  if (row[kTypeWord] >> 16 != kIpv4Type) return GnomVerdict::kNotIpv4;
  if (length < kEthernetBytes + kIpBytes) return GnomVerdict::kTruncated;
  const uint32_t first = row[kIpWord];
  if ((first & 0xf0) != 0x40) return GnomVerdict::kNotIpv4;
  const uint32_t header_words = first & 0x0f;
  const uint32_t total = Swap16(first >> 16);
  if (header_words < 5 || total < header_words * 4) {
    return GnomVerdict::kBadLength;
  }
  if (length - kEthernetBytes < total) return GnomVerdict::kTruncated;
  // The longest header has 15 words, and the row has them all.
  static_assert(kIpWord + 15 <= memcached::kGnomRequestWords);
  if (SumBytes(frame, kIpWord, header_words * 4) != 0xffff) {
    return GnomVerdict::kBadChecksum;
  }
  // "More fragments", or an offset.
  if ((Swap16(row[kFragmentWord] >> 16) & 0x3fff) != 0) {
    return GnomVerdict::kFragment;
  }
  if ((row[kProtocolWord] >> 8 & 0xff) != 17) return GnomVerdict::kNotIpv4;
  const uint32_t to = forward::Swap32(row[kToWord]);
  const uint32_t from = forward::Swap32(row[kFromWord]);
  // The reply comes from where the request went, so that must not be a group.
  if ((row[kLengthWord] >> 16 & 1) != 0 || IsGroup4(to) ||
      (server.address != 0 && to != server.address)) {
    return GnomVerdict::kNotForUs;
  }
  if ((row[kSenderWord] & 1) != 0 || IsGroup4(from) || from == 0) {
    return GnomVerdict::kBadSource;
  }

  if (total < header_words * 4 + kUdpBytes) return GnomVerdict::kBadLength;
  const uint32_t ports_word = kIpWord + header_words;
  const uint32_t ports = frame[ports_word];
  if (Swap16(ports >> 16) != server.port) return GnomVerdict::kWrongPort;
  if ((ports & 0xffff) == 0) return GnomVerdict::kBadSource;
  const uint32_t udp = frame[ports_word + 1];
  const uint32_t udp_bytes = Swap16(udp & 0xffff);
  if (udp_bytes < kUdpBytes || udp_bytes > total - header_words * 4) {
    return GnomVerdict::kBadLength;
  }
  // RFC 768: without a checksum it is zero.
  if (udp >> 16 != 0 &&
      Fold(PseudoHeaderSum(row, udp_bytes) +
           SumBytes(frame, ports_word, udp_bytes)) != 0xffff) {
    return GnomVerdict::kBadUdpChecksum;
  }
  if (header_words > 5) return GnomVerdict::kOptions;
  if (udp_bytes < kUdpBytes + memcached::kFrameBytes ||
      (row[kTotalWord] & 0xffff) != kTotalOfOne) {
    return GnomVerdict::kMalformed;
  }
  return GnomVerdict::kAnswered;
}

// Writes the headers of the reply to that request: all but lengths and
// checksums, which are zero.
CARILLON_DEVICE void WriteReplyHead(const uint32_t* request, uint32_t* reply) {
  const uint32_t* in = request;
  reply[0] = in[2] << 16;
  reply[1] = in[2] >> 16 | in[3] << 16;
  reply[2] = in[0] >> 16 | in[1] << 16;
  reply[kTypeWord] = in[1] >> 16 | kIpv4Type << 16;
  reply[kIpWord] = 0x45;
  reply[kFragmentWord] = 0x00400000;  // "don't fragment"
  reply[kProtocolWord] = 17 << 8 | 64;
  reply[kFromWord] = in[kToWord];
  reply[kToWord] = in[kFromWord];
  reply[kPortsWord] = in[kPortsWord] >> 16 | in[kPortsWord] << 16;
  reply[kUdpWord] = 0;
  reply[kIdWord] = in[kIdWord] & 0xffff;
  reply[kTotalWord] = kTotalOfOne;
}

// Completes it when the length of the reply's text is known. `text` has the
// text, from kTextWord on. Returns the frame's length.
CARILLON_DEVICE uint32_t CompleteReplyHead(uint32_t* row,
                                           const FrameWords& text,
                                           uint32_t text_bytes) {
  const uint32_t udp_bytes = kUdpBytes + memcached::kFrameBytes + text_bytes;
  row[kIpWord] |= Swap16(kIpBytes + udp_bytes) << 16;
  uint32_t sum = 0;
  CARILLON_UNROLL
  for (uint32_t i = 0; i < 5; ++i) sum += HalvesOf(row[kIpWord + i]);
  row[kProtocolWord] |= (~Fold(sum) & 0xffff) << 16;
  row[kUdpWord] = Swap16(udp_bytes);
  sum = PseudoHeaderSum(row, udp_bytes);
  CARILLON_UNROLL
  for (uint32_t i = kPortsWord; i < kTextWord; ++i) sum += HalvesOf(row[i]);
  const uint32_t checksum =
      ~Fold(sum + SumBytes(text, kTextWord, text_bytes)) & 0xffff;
  // Zero would say that there is none.
  row[kUdpWord] |= (checksum == 0 ? 0xffff : checksum) << 16;
  return kEthernetBytes + kIpBytes + udp_bytes;
}

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_FRAME_CUH_
