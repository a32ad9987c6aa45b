// Buffers for Ethernet frames. They are inside an input buffer of the submission
// aperture, so an event kernel reads a packet where it arrived.
#ifndef CARILLON_DEVICES_PACKET_IO_FRAME_POOL_H_
#define CARILLON_DEVICES_PACKET_IO_FRAME_POOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace carillon::packet_io {

using BufferIndex = uint32_t;

// A frame begins 2 bytes into its buffer, so that the IP header behind its
// Ethernet header is aligned.
inline constexpr uint32_t kFrameOffset = 2;
inline constexpr uint32_t kEthernetBytes = 14;
inline constexpr uint32_t kIpOffset = kFrameOffset + kEthernetBytes;
// Frames of 9216 bytes fit, the usual limit of jumbo frames.
inline constexpr uint32_t kBufferBytes = 9280;
inline constexpr uint32_t kMaxFrameBytes = kBufferBytes - kFrameOffset;

// Not thread safe.
class FramePool {
 public:
  // Before the first buffer: so much Linux wants before a frame (AF_XDP).
  static constexpr uint64_t kLead = 256;
  // The memory that a pool of so many buffers takes.
  static constexpr uint64_t BytesFor(uint64_t buffers) {
    return kLead + buffers * kBufferBytes;
  }

  // Has as many buffers as fit into `memory`, which must outlive the pool.
  explicit FramePool(std::span<std::byte> memory)
      : memory_(memory),
        taken_(memory.size() < kLead ? 0
                                     : (memory.size() - kLead) / kBufferBytes) {
    // Give the lowest index first.
    for (size_t i = taken_.size(); i > 0; --i) {
      free_.push_back(static_cast<BufferIndex>(i - 1));
    }
  }

  size_t size() const { return taken_.size(); }
  size_t free() const { return free_.size(); }
  std::span<std::byte> memory() const { return memory_; }

  // Takes a buffer; nothing if all are in use. The one given back last comes
  // first, because it is in the cache.
  std::optional<BufferIndex> Take() {
    if (free_.empty()) return std::nullopt;
    const BufferIndex buffer = free_.back();
    free_.pop_back();
    taken_[buffer] = true;
    return buffer;
  }

  // Gives a buffer back. Returns false, and changes nothing, if it is not in
  // use.
  bool Give(BufferIndex buffer) {
    if (buffer >= taken_.size() || !taken_[buffer]) return false;
    taken_[buffer] = false;
    free_.push_back(buffer);
    return true;
  }

  // Where a frame lies; kMaxFrameBytes. Requires a buffer of this pool.
  std::span<std::byte> frame(BufferIndex buffer) const {
    return memory_.subspan(OffsetOf(buffer) + kFrameOffset, kMaxFrameBytes);
  }
  static uint64_t OffsetOf(BufferIndex buffer) {
    return kLead + uint64_t{buffer} * kBufferBytes;
  }

 private:
  const std::span<std::byte> memory_;
  std::vector<bool> taken_;
  std::vector<BufferIndex> free_;
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_FRAME_POOL_H_
