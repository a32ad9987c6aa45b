#include "shm/region_heap.h"

#include <algorithm>
#include <iterator>

#include "shm/layout.h"

namespace carillon::shm {

RegionHeap::RegionHeap(uint64_t offset, uint64_t size) {
  const uint64_t begin = AlignUp(offset, kAlignment);
  const uint64_t end = (offset + size) & ~(kAlignment - 1);
  if (begin >= end) return;
  free_[begin] = end - begin;
  free_bytes_ = end - begin;
}

std::optional<uint64_t> RegionHeap::Allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > free_bytes_) return std::nullopt;
  const uint64_t wanted = AlignUp(bytes, kAlignment);
  const auto range =
      std::find_if(free_.begin(), free_.end(),
                   [&](const auto& entry) { return entry.second >= wanted; });
  if (range == free_.end()) return std::nullopt;
  const uint64_t offset = range->first;
  Take(range, offset, wanted);
  return offset;
}

bool RegionHeap::AllocateAt(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || bytes > free_bytes_ || offset % kAlignment != 0) {
    return false;
  }
  const uint64_t wanted = AlignUp(bytes, kAlignment);
  auto range = free_.upper_bound(offset);
  if (range == free_.begin()) return false;
  --range;
  const uint64_t into = offset - range->first;
  if (into > range->second || wanted > range->second - into) return false;
  Take(range, offset, wanted);
  return true;
}

void RegionHeap::Take(std::map<uint64_t, uint64_t>::iterator from,
                      uint64_t offset, uint64_t bytes) {
  const auto [begin, size] = *from;
  const uint64_t before = offset - begin;
  const uint64_t behind = size - before - bytes;
  free_.erase(from);
  if (before > 0) free_[begin] = before;
  if (behind > 0) free_[offset + bytes] = behind;
  used_[offset] = bytes;
  free_bytes_ -= bytes;
}

bool RegionHeap::Free(uint64_t offset) {
  const auto range = used_.find(offset);
  if (range == used_.end()) return false;
  const uint64_t size = range->second;
  used_.erase(range);
  free_bytes_ += size;
  auto inserted = free_.emplace(offset, size).first;
  if (const auto next = std::next(inserted);
      next != free_.end() &&
      inserted->first + inserted->second == next->first) {
    inserted->second += next->second;
    free_.erase(next);
  }
  if (inserted != free_.begin()) {
    const auto previous = std::prev(inserted);
    if (previous->first + previous->second == inserted->first) {
      previous->second += inserted->second;
      free_.erase(inserted);
    }
  }
  return true;
}

uint64_t RegionHeap::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

}  // namespace carillon::shm
