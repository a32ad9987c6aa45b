// Places rings and buffers in an aperture's heap. The bookkeeping is gpud's
// private memory: nothing that a device writes can confuse it.
#ifndef CARILLON_SHM_REGION_HEAP_H_
#define CARILLON_SHM_REGION_HEAP_H_

#include <cstdint>
#include <map>
#include <optional>

namespace carillon::shm {

// First-fit allocator of byte ranges, page-independent, 128-byte aligned. Not
// thread safe.
class RegionHeap {
 public:
  static constexpr uint64_t kAlignment = 128;
  RegionHeap(uint64_t offset, uint64_t size);

  // Offset of `bytes` (> 0) free bytes, or nothing if there is no such range.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  // Takes [offset, offset + bytes) (> 0). False if that is not all free, or does
  // not begin where a range could.
  bool AllocateAt(uint64_t offset, uint64_t bytes);
  // Gives back a range that was allocated. False if it did not.
  bool Free(uint64_t offset);

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest_free() const;

 private:
  // Takes the range out of the free one that it lies in.
  void Take(std::map<uint64_t, uint64_t>::iterator from, uint64_t offset,
            uint64_t bytes);

  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never adjacent
  std::map<uint64_t, uint64_t> used_;
  uint64_t free_bytes_ = 0;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_REGION_HEAP_H_
