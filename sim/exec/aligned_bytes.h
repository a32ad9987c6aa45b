// Zeroed bytes that are aligned for the lanes of a warp.
#ifndef CARILLON_SIM_EXEC_ALIGNED_BYTES_H_
#define CARILLON_SIM_EXEC_ALIGNED_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace carillon::sim {

// The alignment of lanes' values, for the vector instructions of x86-64-v3. It
// is no larger because gcc's ASan misaligns locals that want more (GCC bug
// 110027).
inline constexpr size_t kLaneAlignment = 32;

class AlignedBytes {
 public:
  AlignedBytes() = default;

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

  // Keeps the present bytes and zeroes the new ones; may move all of them.
  void Grow(size_t size) {
    if (size <= size_) return;
    if (size > capacity_) {
      const size_t capacity = std::max(size, 2 * capacity_);
      std::unique_ptr<std::byte[], Delete> bytes(
          new (std::align_val_t{kLaneAlignment}) std::byte[capacity]);
      if (size_ != 0) std::memcpy(bytes.get(), bytes_.get(), size_);
      bytes_ = std::move(bytes);
      capacity_ = capacity;
    }
    std::memset(bytes_.get() + size_, 0, size - size_);
    size_ = size;
  }
  // Makes all `size` bytes zero.
  void Reset(size_t size) {
    size_ = 0;
    Grow(size);
  }

 private:
  struct Delete {
    void operator()(std::byte* bytes) const {
      operator delete[](bytes, std::align_val_t{kLaneAlignment});
    }
  };
  std::unique_ptr<std::byte[], Delete> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_ALIGNED_BYTES_H_
