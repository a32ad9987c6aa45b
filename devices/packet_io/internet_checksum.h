// The Internet checksum (RFC 1071), as an interface completes it for a sender.
#ifndef CARILLON_DEVICES_PACKET_IO_INTERNET_CHECKSUM_H_
#define CARILLON_DEVICES_PACKET_IO_INTERNET_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace carillon::packet_io {

// The sum of 16-bit words in one's complement, folded, in the order in which the
// words' bytes stand. Of an odd number of bytes the last has a zero behind it.
inline uint16_t OnesSum(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  while (bytes.size() >= sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    sum += word;
    bytes = bytes.subspan(sizeof(word));
  }
  uint32_t last = 0;
  if (!bytes.empty()) std::memcpy(&last, bytes.data(), bytes.size());
  sum += last;
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

// Stores the checksum of frame[start, end) at frame[start + offset], which holds
// the sum of the pseudo-header. Does nothing if that is outside of the frame.
inline void CompleteChecksum(std::span<std::byte> frame, size_t start,
                             size_t offset) {
  if (start + offset + sizeof(uint16_t) > frame.size()) return;
  const auto sum = static_cast<uint16_t>(~OnesSum(frame.subspan(start)));
  // UDP: 0 says that there is none.
  const uint16_t stored = sum == 0 ? 0xffff : sum;
  std::memcpy(frame.data() + start + offset, &stored, sizeof(stored));
}

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_INTERNET_CHECKSUM_H_
