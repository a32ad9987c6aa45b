// Miss status holding registers: the lines on their way into a cache, and the
// requests that wait for them.
#ifndef CARILLON_SIM_TIMING_MEMORY_MSHR_H_
#define CARILLON_SIM_TIMING_MEMORY_MSHR_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/timing/memory/cache.h"

namespace carillon::sim::timing {

template <class Waiter>
class MshrTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Entry {
    uint64_t line = 0;
    uint32_t waiters = 0;
    uint32_t next = kNone;  // in a hash chain, or free
    Sectors asked = 0;
    Sectors filled = 0;
    bool bypass = false;  // is not to stay in the cache
  };

  MshrTable(uint32_t entries, uint32_t merges)
      : merges_(merges),
        entries_(entries),
        waiters_(size_t{entries} * merges),
        heads_(std::bit_ceil(2 * entries), kNone) {
    for (uint32_t i = 0; i < entries; ++i) entries_[i].next = i + 1;
    entries_.back().next = kNone;
  }

  Entry& entry(uint32_t index) { return entries_[index]; }
  bool full() const { return free_ == kNone; }
  uint32_t used() const { return used_; }

  uint32_t Find(uint64_t line) const {
    uint32_t index = heads_[Bucket(line)];
    while (index != kNone && entries_[index].line != line) {
      index = entries_[index].next;
    }
    return index;
  }

  // Allocates an entry; the table must not be full.
  uint32_t Allocate(uint64_t line) {
    const uint32_t index = free_;
    free_ = entries_[index].next;
    uint32_t& head = heads_[Bucket(line)];
    entries_[index] = {.line = line, .next = head};
    head = index;
    ++used_;
    return index;
  }

  bool CanWait(uint32_t index) const {
    return entries_[index].waiters < merges_;
  }
  void Wait(uint32_t index, const Waiter& waiter) {
    waiters_[size_t{index} * merges_ + entries_[index].waiters++] = waiter;
  }

  // Sectors have arrived. Calls woken(waiter), in order, for those that have
  // all of their sectors (Waiter::sectors). Frees the entry once nothing is on
  // its way.
  template <class Woken>
  void Fill(uint32_t index, Sectors sectors, Woken woken) {
    Entry& entry = entries_[index];
    entry.filled |= sectors;
    Waiter* const waiters = &waiters_[size_t{index} * merges_];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < entry.waiters; ++i) {
      if ((waiters[i].sectors & ~entry.filled) == 0) {
        woken(waiters[i]);
      } else {
        waiters[kept++] = waiters[i];
      }
    }
    entry.waiters = kept;
    if (entry.filled == entry.asked) Free(index);
  }

 private:
  size_t Bucket(uint64_t line) const {
    return (line * 0x9e3779b97f4a7c15u >> 32) & (heads_.size() - 1);
  }
  void Free(uint32_t index) {
    uint32_t* at = &heads_[Bucket(entries_[index].line)];
    while (*at != index) at = &entries_[*at].next;
    *at = entries_[index].next;
    entries_[index].next = free_;
    free_ = index;
    --used_;
  }

  uint32_t merges_;
  uint32_t used_ = 0;
  uint32_t free_ = 0;
  std::vector<Entry> entries_;
  std::vector<Waiter> waiters_;
  std::vector<uint32_t> heads_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_MSHR_H_
