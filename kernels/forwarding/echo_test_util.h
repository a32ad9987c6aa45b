// What a reply to a ping is by its definition, with nothing of the kernel's code.
#ifndef CARILLON_KERNELS_FORWARDING_ECHO_TEST_UTIL_H_
#define CARILLON_KERNELS_FORWARDING_ECHO_TEST_UTIL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {

inline constexpr size_t kEthernetBytes = 14;

inline uint32_t Half(std::span<const uint8_t> bytes, size_t at) {
  return bytes[at] * 256u + bytes[at + 1];
}
inline void SetHalf(Bytes& bytes, size_t at, uint32_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

// Of a message with its pseudo-header (RFC 768, RFC 8200 8.1); 0: it is right.
// The packet has no options, and is as long as it says.
inline uint16_t MessageChecksum(std::span<const uint8_t> packet) {
  const bool four = packet[0] >> 4 == 4;
  const uint8_t protocol = packet[four ? 9 : 6];
  const size_t at = four ? 20 : 40;
  const size_t bytes =
      protocol == 17 ? Half(packet, at + 4)
                     : (four ? Half(packet, 2) : Half(packet, 4) + 40) - at;
  Bytes all;
  if (protocol != 1) {
    all.assign(packet.begin() + (four ? 12 : 8),
               packet.begin() + static_cast<ptrdiff_t>(at));
    for (const uint32_t byte : {0u, 0u, static_cast<uint32_t>(bytes >> 8),
                                static_cast<uint32_t>(bytes & 0xff), 0u, 0u, 0u,
                                uint32_t{protocol}}) {
      all.push_back(static_cast<uint8_t>(byte));
    }
  }
  all.insert(all.end(), packet.begin() + static_cast<ptrdiff_t>(at),
             packet.begin() + static_cast<ptrdiff_t>(at + bytes));
  return Checksum(all);
}

inline void SetMessageChecksum(Bytes& packet) {
  const bool four = packet[0] >> 4 == 4;
  const bool udp = packet[four ? 9 : 6] == 17;
  const size_t at = (four ? 20 : 40) + (udp ? 6 : 2);
  SetHalf(packet, at, 0);
  const uint16_t sum = MessageChecksum(packet);
  SetHalf(packet, at, sum == 0 && udp ? 0xffff : sum);
}

// The frame that answers a good request, which came with these 14 bytes of
// Ethernet.
inline Bytes ExpectedReply(std::span<const uint8_t> ethernet,
                           const Bytes& request) {
  const bool four = request[0] >> 4 == 4;
  Bytes reply = request;
  reply.resize(four ? Half(request, 2) : Half(request, 4) + 40);
  const size_t size = four ? 4 : 16;
  const size_t source = four ? 12 : 8;
  for (size_t i = 0; i < size; ++i) {
    std::swap(reply[source + i], reply[source + size + i]);
  }
  const size_t at = four ? 20 : 40;
  if (request[four ? 9 : 6] == 17) {
    std::swap(reply[at], reply[at + 2]);
    std::swap(reply[at + 1], reply[at + 3]);
  } else {
    reply[at] = four ? 0 : 129;
    SetMessageChecksum(reply);
    // The kernel's one of the two zeros of one's complement.
    if (Half(reply, at + 2) == 0) SetHalf(reply, at + 2, 0xffff);
  }
  if (four) {
    reply[8] = 64;
    SetChecksum(reply);
  } else {
    reply[7] = 64;
    reply[1] &= 0xf0;
    reply[2] = reply[3] = 0;
  }
  Bytes frame(ethernet.begin() + 6, ethernet.begin() + 12);
  frame.insert(frame.end(), ethernet.begin(), ethernet.begin() + 6);
  frame.insert(frame.end(), ethernet.begin() + 12, ethernet.end());
  frame.insert(frame.end(), reply.begin(), reply.end());
  return frame;
}

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_ECHO_TEST_UTIL_H_
