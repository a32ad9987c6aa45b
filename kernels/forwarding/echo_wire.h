// What a NIC and the kernel echo_reply say to each other, beside the packets
// themselves: those of descriptors (wire.h) that lie kEthernetRoom bytes into the
// buffer at least, behind their Ethernet headers.
#ifndef CARILLON_KERNELS_FORWARDING_ECHO_WIRE_H_
#define CARILLON_KERNELS_FORWARDING_ECHO_WIRE_H_

#include <cstddef>
#include <cstdint>

namespace carillon::forwarding {

// What becomes of a packet.
enum class EchoVerdict : uint8_t {
  kNone = 0,           // the kernel did not get to it
  kReply = 1,          // send it
  kBadDescriptor = 2,  // leaves the packet buffer, is not aligned, has no room
  kTruncated = 3,      // shorter than its headers, or than the length in them
  kBadVersion = 4,     // neither IPv4 nor IPv6
  kBadLength = 5,      // its lengths contradict each other
  kBadChecksum = 6,    // of the IPv4 header, of ICMP or of UDP
  kOptions = 7,        // has IPv4 options
  kFragment = 8,
  // Nobody can be answered there: RFC 1122 3.2.2, RFC 4443 2.4.
  kBadSource = 9,
  // Neither an ICMP or ICMPv6 echo request nor a UDP datagram from a port above
  // 1023, of which no other echo service answers.
  kNotEcho = 10,
};
inline constexpr uint32_t kEchoVerdicts = 11;

// 2 bytes and an Ethernet header stand before each packet.
inline constexpr uint32_t kEthernetRoom = 16;

// The beginning of a reply. Writer: the kernel (output buffer). Reader: the
// device, which sends it from byte 2 on to Result::head, and behind it what
// follows as many bytes of the request.
//
//   0      2           8           14          16            36 or 56    + 4
//   +------+-----------+-----------+-----------+-------------+-----------+
//   | 0    | to (MAC)  | from (MAC)| EtherType | IP header   | ICMP, UDP |
//   +------+-----------+-----------+-----------+-------------+-----------+
struct alignas(16) EchoHeader {
  uint8_t bytes[64];
};

// Writer: the kernel (output buffer). Reader: the device.
struct alignas(16) EchoResult {
  uint32_t head;    // where the header ends; with kReply: 40 or 60
  uint32_t length;  // of the IP packet; with kReply
  EchoVerdict verdict;
  uint8_t reserved[7];
};
static_assert(sizeof(EchoResult) == 16);
static_assert(offsetof(EchoResult, verdict) == 8);

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_ECHO_WIRE_H_
