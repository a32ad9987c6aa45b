// The NIC's packet buffers (thesis 4.1.2: free, registered, busy). They are
// inside an input buffer of the submission aperture, so an event kernel reads a
// datagram where the operating system stored it.
#ifndef CARILLON_DEVICES_NIC_PACKET_POOL_H_
#define CARILLON_DEVICES_NIC_PACKET_POOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devices/nic/request.h"

namespace carillon::nic {

// A fixed number of buffers of kPacketBytes. Not thread safe.
class PacketPool {
 public:
  // Has as many buffers as fit into `memory`, which must outlive the pool.
  explicit PacketPool(std::span<std::byte> memory) : memory_(memory) {
    const auto count = static_cast<uint32_t>(memory.size() / kPacketBytes);
    taken_.resize(count);
    // Give the lowest index first.
    for (uint32_t i = count; i > 0; --i) free_.push_back(i - 1);
  }

  uint32_t size() const { return static_cast<uint32_t>(taken_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }

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
    if (!long_.empty()) long_.erase(buffer);
    return true;
  }

  // Keeps a whole long packet, of which the buffer, which must be taken, has the
  // beginning, until Give(). Returns false if there are kMaxLong already.
  static constexpr size_t kMaxLong = 64;
  bool HasRoomForLong() const { return long_.size() < kMaxLong; }
  bool KeepLong(BufferIndex buffer, std::string bytes) {
    if (!HasRoomForLong()) return false;
    long_[buffer] = std::move(bytes);
    return true;
  }
  // All of the packet of `length` bytes in a buffer. Valid until Give().
  std::string_view Whole(BufferIndex buffer, uint32_t length) const {
    if (length > kPacketBytes) return long_.at(buffer);
    return TextOf(bytes(buffer).first(length));
  }

  // The same, to be written to, of a packet longer than its buffer.
  std::span<std::byte> Long(BufferIndex buffer) {
    return std::as_writable_bytes(std::span(long_.at(buffer)));
  }

  // Requires buffer < size().
  std::span<std::byte> bytes(BufferIndex buffer) const {
    return memory_.subspan(OffsetOf(buffer), kPacketBytes);
  }
  static uint32_t OffsetOf(BufferIndex buffer) { return buffer * kPacketBytes; }

 private:
  const std::span<std::byte> memory_;
  std::vector<BufferIndex> free_;
  std::vector<bool> taken_;
  std::unordered_map<BufferIndex, std::string> long_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_PACKET_POOL_H_
