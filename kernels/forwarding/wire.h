// What a NIC and the forwarding event kernels (ipv4_forward, ipv6_forward,
// fib_write) say to each other, beside the packets themselves.
//
// Concepts
//   next hop   where packets of a route go: a number, the place in next_hops.
//   table      a forwarding table in GPU memory, IPv4's or IPv6's: two halves,
//              one of which the forwarders use while fib_write writes the other.
//   batch      packets that one event forwards. Of each, the kernel writes the
//              new headers; the device sends them with the rest of the packet.
//
// The kernels copy every descriptor and header once, and bound every access by
// the buffers' sizes: whatever a device writes there costs only its own packets.
#ifndef CARILLON_KERNELS_FORWARDING_WIRE_H_
#define CARILLON_KERNELS_FORWARDING_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace carillon::forwarding {

// Writer: the device (input buffer). Reader: the kernel. The IP packet lies at
// [offset, offset + length) of the packet buffer, aligned to kPacketAlignment;
// it may end before (Ethernet pads short frames).
struct Packet {
  uint32_t offset;
  uint32_t length;
};
static_assert(sizeof(Packet) == 8);
inline constexpr uint32_t kPacketAlignment = 8;

// What becomes of a packet. The first finding counts, in this order.
enum class Verdict : uint8_t {
  kNone = 0,     // the kernel did not get to it
  kForward = 1,  // send it
  // The descriptor leaves the packet buffer or is not aligned.
  kBadDescriptor = 2,
  kTruncated = 3,   // shorter than its header or than the length in it
  kBadVersion = 4,  // not this kernel's version of IP
  // A header length under 20 bytes, a total length under the header's, or an
  // IPv6 jumbogram (RFC 2675).
  kBadLength = 5,
  kBadChecksum = 6,
  // An address that no router forwards: RFC 1812 5.3.7, RFC 3927 7, RFC 4291
  // 2.5.
  kMartian = 7,
  kNotUnicast = 8,  // to a multicast group, or to 255.255.255.255
  kOptions = 9,     // has IPv4 options, which these kernels do not process
  kNoRoute = 10,
  kExpired = 11,   // has no hop left: due is an ICMP "time exceeded"
  kTooLarge = 12,  // for the next hop's MTU: due is a fragmentation, or ICMP
  // The table leads out of itself, or to no next hop; the event fails, too.
  kBadTable = 13,
};
inline constexpr uint32_t kVerdicts = 14;

// A next hop's interface and Ethernet addresses, as they stand in a Header.
// Writer: the device (input buffer). Reader: the kernel.
struct alignas(16) NextHop {
  uint8_t port[2];  // the device's own number; not read
  uint8_t to[6];
  uint8_t from[6];
  uint16_t mtu;  // bytes of the largest IP packet; 0: no limit
};
static_assert(sizeof(NextHop) == 16);
static_assert(offsetof(NextHop, mtu) == 14);

// The new headers of a forwarded packet. Writer: the kernel (output buffer).
// Reader: the device, which sends them from byte 2 on, and behind them what
// follows the first 20 (IPv4) or 40 bytes of the packet.
//
//   0      2           8           14          16                    64
//   +------+-----------+-----------+-----------+---------------------+
//   | port | to (MAC)  | from (MAC)| EtherType | IP header, 20 or 40 |
//   +------+-----------+-----------+-----------+---------------------+
struct alignas(16) Header {
  uint8_t bytes[64];
};
inline constexpr uint32_t kEthernetOffset = 2;
inline constexpr uint32_t kIpOffset = 16;
inline constexpr uint32_t kIpv4HeaderBytes = 20;
inline constexpr uint32_t kIpv6HeaderBytes = 40;

// Writer: the kernel (output buffer). Reader: the device. results[i] and
// headers[i] belong to descriptors[i].
struct alignas(16) Result {
  uint32_t next_hop;  // with kForward, kExpired and kTooLarge
  uint32_t length;    // of the IP packet by its header; with kForward
  Verdict verdict;
  uint8_t reserved[7];
};
static_assert(sizeof(Result) == 16);
static_assert(offsetof(Result, verdict) == 8);

// A table, in 32-bit words. All zeros is a table without routes.
//
//   0      1          16        16 + n       16 + 2 n
//   +------+----------+---------+------------+   n = (size - 16) / 2
//   | half | reserved | half 0  | half 1     |
//   +------+----------+---------+------------+
//
// Word 0 says in which half the forwarders look. A half has an entry for each
// value of an address's first bits, and then groups of 256 entries, each for the
// next 8 bits. With 24 first bits this is DIR-24-8 (Gupta et al. 1998), for IPv6
// up to 13 groups deep; with 16 or 8 it is smaller and deeper.
//
//   31      30      29      24 23                        0
//   +-------+-------+----------+-------------------------+
//   | route | group |    0     | next hop, or group      |
//   +-------+-------+----------+-------------------------+
inline constexpr uint32_t kTableHeaderWords = 16;
inline constexpr uint32_t kMostFirstBits = 24;
inline constexpr uint32_t kGroupEntries = 256;
inline constexpr uint32_t kEntryRoute = 1u << 31;
inline constexpr uint32_t kEntryGroup = 1u << 30;
inline constexpr uint32_t kEntryValue = (1u << 24) - 1;
inline constexpr uint32_t kMaxNextHop = kEntryValue;
inline constexpr uint32_t kMaxGroups = kEntryValue + 1;

constexpr uint64_t HalfWords(uint64_t table_words) {
  return table_words < kTableHeaderWords
             ? 0
             : (table_words - kTableHeaderWords) / 2;
}
// Where half 0 or 1 begins.
constexpr uint64_t HalfBegin(uint64_t table_words, uint32_t half) {
  return kTableHeaderWords + half * HalfWords(table_words);
}
// The size of a table whose halves have room for `groups` groups each.
constexpr uint64_t TableBytes(uint32_t groups, uint32_t first_bits) {
  return sizeof(uint32_t) *
         (kTableHeaderWords +
          2 * ((uint64_t{1} << first_bits) + uint64_t{groups} * kGroupEntries));
}

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_WIRE_H_
