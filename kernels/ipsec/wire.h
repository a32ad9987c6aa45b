// What a NIC and the kernels of IPsec's ESP (esp_encrypt, esp_decrypt, sa_write)
// say to each other, beside the packets themselves. RFC 4303, tunnel mode.
//
// Concepts
//   SA        a security association: the keys, addresses and counters of one
//             direction of a tunnel. They lie in GPU memory; sa.h makes them on
//             the host, and sa_write writes them there.
//   SPI       its number in packets. An inbound SA stands in the table at
//             SPI % table size, so the receiver, who chooses SPIs, chooses
//             those that do not meet.
//   policies  which SA packets to an address take: a forwarding table
//             (kernels/forwarding/wire.h), IPv4's and IPv6's, whose next hops
//             are the places of outbound SAs.
//   batch     packets that one event encrypts or decrypts.
//
// The kernels copy every descriptor and header once, and bound every access by
// the buffers' sizes: whatever a device writes there costs only its own packets.
#ifndef CARILLON_KERNELS_IPSEC_WIRE_H_
#define CARILLON_KERNELS_IPSEC_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace carillon::ipsec {

enum class Suite : uint32_t {
  kNone = 0,
  kTripleDesSha1 = 1,  // 3DES-CBC (RFC 2451), HMAC-SHA1-96 (RFC 2404)
  kAesGcm = 2,         // AES-128-GCM with an ICV of 16 bytes (RFC 4106)
};

enum class Direction : uint32_t { kNone = 0, kOutbound = 1, kInbound = 2 };

// The window of RFC 4303 3.4.3: a packet whose number is lower than the highest
// received by so many or more is dropped.
inline constexpr uint32_t kReplayWindow = 128;
// A word has a bit for each of 32 numbers; as many words as a window needs, and
// as many again, so that a number in the window never meets a higher one's word.
inline constexpr uint32_t kReplayWords = 8;
inline constexpr uint32_t kNumbersOfWord = 32;
static_assert((kReplayWords - 1) * kNumbersOfWord >= kReplayWindow + 31);

// Keys as the kernels use them, expanded by the host.
struct TripleDesSha1Keys {
  uint32_t rounds[96];  // outbound: to encrypt, inbound: to decrypt
  uint32_t inner[5];    // HMAC
  uint32_t outer[5];
};
struct AesGcmKeys {
  uint64_t powers[32][2];  // of GHASH's H
  uint32_t rounds[44];
  uint32_t salt;  // as a big-endian number
};
union Keys {
  AesGcmKeys aes_gcm;
  TripleDesSha1Keys triple_des_sha1;
};

// Writers: sa_write of all of it; esp_encrypt of sequence; esp_decrypt of
// highest and seen, by atomics. Readers: esp_encrypt and esp_decrypt.
//
//   0     4       8           12       16      32     48     744
//   +-----+-------+-----------+--------+-------+------+------+----------+---
//   | SPI | suite | direction | family | local | peer | keys | sequence | ...
//   +-----+-------+-----------+--------+-------+------+------+----------+---
struct alignas(16) Sa {
  uint32_t spi;  // 0: none
  Suite suite;
  Direction direction;
  uint32_t family;    // of the outer header: 4 or 6
  uint8_t local[16];  // the tunnel's ends; IPv4 addresses have 4 bytes
  uint8_t peer[16];
  Keys keys;
  uint64_t sequence;  // the last that was sent
  uint32_t highest;   // that was received
  uint32_t reserved;
  // Word i of kReplayWords: in the low half a bit for each number received of
  // the 32 that begin at 32 * the high half, which is i modulo kReplayWords.
  uint64_t seen[kReplayWords];
};
static_assert(sizeof(Keys) == 696);
static_assert(offsetof(Sa, keys) == 48);
static_assert(offsetof(Sa, sequence) == 744);
static_assert(sizeof(Sa) == 832);

// What becomes of a packet. The first finding counts, in this order but for
// kReplayed, which is looked for before kBadIcv and after it.
enum class Verdict : uint8_t {
  kNone = 0,  // the kernel did not get to it
  kDone = 1,  // encrypted, or decrypted and authentic
  // The descriptor leaves the packet buffer or is not aligned.
  kBadDescriptor = 2,
  kTruncated = 3,   // shorter than its headers, or than the length in them
  kBadVersion = 4,  // neither IPv4 nor IPv6
  // An IPv4 header under 20 bytes, a total length under the header's, an IPv6
  // jumbogram, or a ciphertext that is no multiple of the cipher's block.
  kBadLength = 5,
  kBadChecksum = 6,  // of the IPv4 header
  kFragment = 7,     // of an ESP packet; it must be put together before
  kNotEsp = 8,
  kUnknownSpi = 9,
  kExpired = 10,   // has no hop left: due is an ICMP "time exceeded"
  kNoSa = 11,      // no policy for its address, or no SA where that leads
  kTooLarge = 12,  // for its slot of the output, or for IP
  kSequenceExhausted = 13,  // 2^32 - 1 packets were sent: a new SA is due
  kReplayed = 14,           // received before, or too old to tell
  kBadIcv = 15,
  kBadPadding = 16,
  kDummy = 17,        // next header 59: to be dropped (RFC 4303 2.6)
  kBadInner = 18,     // holds no whole IP packet
  kWrongSource = 19,  // comes from an address behind another peer
  // A policy leads out of its table or out of the SAs; the event fails, too.
  kBadTable = 20,
};
inline constexpr uint32_t kVerdicts = 21;

// The unit of the output buffer.
struct alignas(16) Unit {
  uint8_t bytes[16];
};

// Writer: the kernel (output buffer). Reader: the device. results[i] belongs to
// descriptors[i] and to the slot of `stride` bytes at i * stride of the output,
// where the packet begins.
struct alignas(16) Result {
  uint32_t spi;       // 0 unless an SA was found
  uint32_t sequence;  // 0 unless the packet has got that far
  uint32_t length;    // bytes in the slot; with kDone
  Verdict verdict;
  uint8_t reserved[3];
};
static_assert(sizeof(Result) == 16);
static_assert(offsetof(Result, verdict) == 12);

inline constexpr uint32_t kIpv4HeaderBytes = 20;
inline constexpr uint32_t kIpv6HeaderBytes = 40;
inline constexpr uint32_t kEspHeaderBytes = 8;
inline constexpr uint32_t kIvBytes = 8;  // of both suites
inline constexpr uint32_t kMostIpBytes = 65535;
inline constexpr uint8_t kProtocolIpv4 = 4;
inline constexpr uint8_t kProtocolIpv6 = 41;
inline constexpr uint8_t kProtocolFragment = 44;
inline constexpr uint8_t kProtocolEsp = 50;
inline constexpr uint8_t kProtocolNone = 59;

}  // namespace carillon::ipsec

#endif  // CARILLON_KERNELS_IPSEC_WIRE_H_
