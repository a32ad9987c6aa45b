// What malloc() and free() of kernels work on (CUDA C++ Programming Guide,
// "Dynamic Global Memory Allocation"): a range of addresses of its own, which is
// no segment. What is allocated stays over launches, until a kernel frees it.
#ifndef CARILLON_SIM_EXEC_HEAP_H_
#define CARILLON_SIM_EXEC_HEAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace carillon::sim {

// Where it begins; global memory begins above.
inline constexpr uint64_t kHeapBegin = uint64_t{1} << 39;
inline constexpr uint64_t kMaxHeapBytes = uint64_t{1} << 36;

// Thread safe.
class Heap {
 public:
  static constexpr uint64_t kDefaultBytes = 8 << 20;  // CUDA's
  // Allocations begin at a multiple of it and take whole ones.
  static constexpr uint64_t kStep = 16;

  // `bytes` is at most kMaxHeapBytes. What is never touched costs nothing.
  explicit Heap(uint64_t bytes);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // `align` is a power of two. Returns 0 if there is no room, and for no bytes.
  // It goes round the heap, so that what was freed is given out late, and who
  // still uses it is found.
  uint64_t Allocate(uint64_t bytes, uint64_t align);
  // Null is freed in vain. Returns what is wrong, or nothing.
  std::string Free(uint64_t address);

  bool Holds(uint64_t address) const { return address - kHeapBegin < bytes_; }
  // The host's view of bytes of one allocation; nullptr if any is not
  // allocated. They follow the host's address of kHeapBegin.
  std::byte* Find(uint64_t address, uint64_t bytes) const;
  // Describes an address in the heap that Find() refuses.
  std::string Describe(uint64_t address) const;

  uint64_t bytes() const { return bytes_; }
  uint64_t used() const;      // bytes that are allocated, in whole steps
  uint64_t failures() const;  // how often there was no room
  std::byte* host() const { return memory_.begin(); }
  // Whether this machine had room for it; nothing else may be done if not.
  bool ok() const {
    return bytes_ == 0 || (memory_.begin() && states_.begin());
  }

 private:
  // The state of a step: how many of its bytes are allocated (kBytes), whether
  // the allocation begins there, or whether it was freed.
  enum : uint8_t { kBytes = 31, kFirst = 32, kFreed = 64 };

  // A kernel that reads what another one allocates orders both by its own
  // means, and without them it is wrong: relaxed.
  std::atomic_ref<uint8_t> At(size_t step) const {
    return std::atomic_ref(reinterpret_cast<uint8_t*>(states_.begin())[step]);
  }
  uint8_t StateOf(size_t step) const {
    return At(step).load(std::memory_order_relaxed);
  }
  void SetState(size_t step, int state) {
    At(step).store(static_cast<uint8_t>(state), std::memory_order_relaxed);
  }

  // Zeroes of which only what is touched takes memory.
  class Pages {
   public:
    explicit Pages(uint64_t bytes);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::byte* begin() const { return begin_; }  // nullptr: there are none

   private:
    const uint64_t bytes_;
    std::byte* begin_ = nullptr;
  };

  const uint64_t bytes_;
  const Pages memory_;
  const Pages states_;  // a byte for each step
  mutable Mutex mutex_;
  // Ranges of free steps: where they begin, and how many there are.
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // where to look first
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_HEAP_H_
