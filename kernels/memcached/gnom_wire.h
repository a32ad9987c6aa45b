// What a NIC and the event kernel memc_gnom_get say to each other: GNoM's
// batches of raw frames (thesis 4.1).
//
// Concepts
//   GRXB     a receive buffer of kGrxbBytes in memory that the GPU reads: the
//            frame's length, and the frame, Ethernet header and all.
//   batch    consecutive GRXBs. An event names it by where the first one lies
//            and how many there are, 8 + 4 bytes; behind the last GRXB of the
//            memory comes the first one again.
//   pair     the two threads that a packet has: a main thread, which looks the
//            key up, and a helper, which checks the headers and writes the
//            reply's.
//
// The kernel reads each word of a GRXB's first kGnomRequestWords once and judges
// the copy; whatever a device writes there costs only its own packets.
#ifndef CARILLON_KERNELS_MEMCACHED_GNOM_WIRE_H_
#define CARILLON_KERNELS_MEMCACHED_GNOM_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace carillon::memcached {

// A GRXB: writer: the device (input buffer), reader: the kernel. The length
// stands where an aligned IP header leaves 2 bytes free.
//
//   0        2                 16      36       44       52
//   +--------+-----------------+-------+--------+--------+------------+-- -
//   | length | Ethernet header | IPv4  | UDP    | frame  | "get <key>\r\n"
//   +--------+-----------------+-------+--------+--------+------------+-- -
inline constexpr uint32_t kGrxbBytes = 2048;
inline constexpr uint32_t kGrxbFrame = 2;  // where the frame begins
inline constexpr uint32_t kMaxGrxbFrame = kGrxbBytes - kGrxbFrame;
inline constexpr uint32_t kGrxbIp = 16;
inline constexpr uint32_t kGrxbUdp = 36;
inline constexpr uint32_t kGrxbText = 52;

// A block has up to so many pairs; half of its threads are helpers.
inline constexpr uint32_t kGnomPairs = 256;
// Of a GRXB and of a reply, what a block loads and stores by way of shared
// memory. The words are odd in number, so that lanes that look at the same word
// of 32 packets meet in no bank.
inline constexpr uint32_t kGnomRequestWords = 21;
inline constexpr uint32_t kGnomReplyWords = 23;

// The room of one reply, which lies in it as a frame does in a GRXB. A longer
// one is the ordinary kernel's.
inline constexpr uint32_t kGnomReplyBytes = 512;

enum class GnomVerdict : uint8_t {
  kNone = 0,      // the kernel did not get to it
  kAnswered = 1,  // send the reply
  // Nothing is wrong, but the kernel leaves the request to memc_get:
  kOptions = 2,       // behind the IPv4 header
  kOtherCommand = 3,  // no "get" of one key, or a key of more than 250 bytes
  kTooLarge = 4,      // the reply does not fit kGnomReplyBytes
  // Dropped:
  kTruncated = 5,    // shorter than its headers say
  kNotIpv4 = 6,      // another protocol than IPv4, or another than UDP in it
  kBadLength = 7,    // lengths that contradict each other
  kBadChecksum = 8,  // of the IPv4 header
  kFragment = 9,     // a part of a datagram
  kNotForUs = 10,    // another address, or a group's
  kBadSource = 11,   // no address or port that could be answered
  kWrongPort = 12,   //
  kBadUdpChecksum = 13,  // there is one, and it is wrong
  kMalformed = 14,       // no whole request: as Outcome::kDropped (wire.h)
  // The table or store does not hold what these kernels wrote; the event fails,
  // too.
  kCorrupt = 15,
};
inline constexpr uint32_t kGnomVerdicts = 16;

// Writer: the kernel (output buffer). Reader: the device. results[i] belongs to
// the batch's GRXB i.
//
//   0        2         3     4
//   +--------+---------+-----+
//   | length | verdict | hit |
//   +--------+---------+-----+
struct alignas(4) GnomResult {
  uint16_t length;  // of the reply's frame; 0 unless kAnswered
  GnomVerdict verdict;
  uint8_t hit;  // the key was found
};
static_assert(sizeof(GnomResult) == 4);
static_assert(offsetof(GnomResult, verdict) == 2);

}  // namespace carillon::memcached

#endif  // CARILLON_KERNELS_MEMCACHED_GNOM_WIRE_H_
