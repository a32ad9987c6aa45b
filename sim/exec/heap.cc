#include "sim/exec/heap.h"

#include <sys/mman.h>

#include <algorithm>

#include "fmt/format.h"

namespace carillon::sim {
namespace {

uint64_t AlignUp(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

Heap::Pages::Pages(uint64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin != MAP_FAILED) begin_ = static_cast<std::byte*>(begin);
}

Heap::Pages::~Pages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

Heap::Heap(uint64_t bytes)
    : bytes_(std::min(bytes, kMaxHeapBytes) / kStep * kStep),
      memory_(bytes_),
      states_(bytes_ / kStep) {
  MutexLock lock(mutex_);
  if (bytes_ != 0) free_.emplace(0, bytes_ / kStep);
}

uint64_t Heap::Allocate(uint64_t bytes, uint64_t align) {
  if (bytes == 0) return 0;
  MutexLock lock(mutex_);
  const uint64_t steps = bytes / kStep + (bytes % kStep != 0);
  const uint64_t multiple = std::max(align / kStep, uint64_t{1});
  // From next_ on, and once round.
  size_t from = next_;
  auto range = free_.upper_bound(next_);
  if (range != free_.begin()) --range;
  const bool possible = align <= kHeapBegin && !free_.empty();
  const size_t tries = possible ? free_.size() + 1 : 0;
  for (size_t left = tries; left != 0; --left, ++range, from = 0) {
    if (range == free_.end()) range = free_.begin();
    const auto [begin, count] = *range;
    const size_t at = AlignUp(std::max(begin, from), multiple);
    if (at - begin > count || steps > count - (at - begin)) continue;
    free_.erase(range);
    if (at != begin) free_.emplace(begin, at - begin);
    if (at + steps != begin + count) {
      free_.emplace(at + steps, begin + count - at - steps);
    }
    for (size_t step = at; step < at + steps; ++step) SetState(step, kStep);
    SetState(at + steps - 1, static_cast<int>(bytes - (steps - 1) * kStep));
    SetState(at, StateOf(at) | kFirst);
    next_ = at + steps;
    used_ += steps * kStep;
    return kHeapBegin + at * kStep;
  }
  ++failures_;
  return 0;
}

std::string Heap::Free(uint64_t address) {
  if (address == 0) return "";
  MutexLock lock(mutex_);
  const size_t first = (address - kHeapBegin) / kStep;
  const uint8_t state = Holds(address) ? StateOf(first) : 0;
  if ((state & kFreed) != 0) {
    return fmt::format("free({:#x}): it is freed already", address);
  }
  if ((state & kFirst) == 0 || address % kStep != 0) {
    return fmt::format("free({:#x}): malloc() has not given it", address);
  }
  size_t end = first;
  do {
    SetState(end++, kFreed);
  } while (end < bytes_ / kStep && (StateOf(end) & kBytes) != 0 &&
           (StateOf(end) & kFirst) == 0);
  used_ -= (end - first) * kStep;
  const auto range = free_.emplace(first, end - first).first;
  if (const auto after = std::next(range);
      after != free_.end() && after->first == end) {
    range->second += after->second;
    free_.erase(after);
  }
  if (range != free_.begin()) {
    const auto before = std::prev(range);
    if (before->first + before->second == first) {
      before->second += range->second;
      free_.erase(range);
    }
  }
  return "";
}

std::byte* Heap::Find(uint64_t address, uint64_t bytes) const {
  const uint64_t begin = address - kHeapBegin;
  if (begin >= bytes_ || bytes > bytes_ - begin) return nullptr;
  const uint64_t end = begin + bytes;
  for (size_t step = begin / kStep; step * kStep < end; ++step) {
    const uint8_t state = StateOf(step);
    const uint64_t from_step = std::min(end - step * kStep, kStep);
    if ((state & kBytes) < from_step) return nullptr;
    if ((state & kFirst) != 0 && step * kStep > begin) return nullptr;
  }
  return memory_.begin() + begin;
}

std::string Heap::Describe(uint64_t address) const {
  const uint64_t begin = address - kHeapBegin;
  size_t step = std::min(begin, bytes_ - 1) / kStep;
  if ((StateOf(step) & kFreed) != 0) return "memory that free() was called for";
  // It may be behind an allocation.
  const size_t last = step;
  while (step != 0 && (StateOf(step) & kBytes) == 0) {
    if ((StateOf(step) & kFreed) != 0 || last - step > 64) break;
    --step;
  }
  if ((StateOf(step) & kBytes) == 0) {
    return "memory of the heap that malloc() has not given";
  }
  const uint64_t end = step * kStep + (StateOf(step) & kBytes);
  while ((StateOf(step) & kFirst) == 0) --step;
  const std::string what =
      fmt::format("what malloc() has given at {:#x} ({} bytes)",
                  kHeapBegin + step * kStep, end - step * kStep);
  return begin >= end
             ? fmt::format("{} bytes past the end of {}", begin - end, what)
             : fmt::format("{} bytes before the end of {}", end - begin, what);
}

uint64_t Heap::used() const {
  MutexLock lock(mutex_);
  return used_;
}

uint64_t Heap::failures() const {
  MutexLock lock(mutex_);
  return failures_;
}

}  // namespace carillon::sim
