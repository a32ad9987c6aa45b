// The tags of a cache, without data. Lines are in sets, and the sectors of a
// line are valid and dirty separately. The least recently used line leaves
// first.
#ifndef CARILLON_SIM_TIMING_MEMORY_CACHE_H_
#define CARILLON_SIM_TIMING_MEMORY_CACHE_H_

#include <cstdint>
#include <vector>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

// A bit for each sector of a line, in units of the L2's sectors, the smallest
// there are.
using Sectors = uint8_t;

class Cache {
 public:
  // `bytes` is the cache's size, or that of a slice.
  Cache(const CacheConfig& config, uint32_t bytes);

  // The valid sectors of the line, which becomes the most recently used; none
  // if it is not there. `line` is the address of its first byte.
  Sectors Touch(uint64_t line);

  // Whether it has any sector of the line; changes nothing.
  bool Holds(uint64_t line) { return Find(line) != nullptr; }

  struct Victim {
    uint64_t line = 0;
    Sectors dirty = 0;  // if empty, nothing needs to be written back
  };
  // Adds these sectors. If the line is not there, it takes another line's
  // place.
  Victim Insert(uint64_t line, Sectors valid, Sectors dirty);
  void Invalidate(uint64_t line);
  void Clear();  // keeps reserved lines
  // Adds the line for good. Returns false if no way of its set would be left
  // for other lines.
  bool Reserve(uint64_t line);

 private:
  struct Way {
    uint64_t line = kNoLine;
    uint64_t used = 0;
    Sectors valid = 0;
    Sectors dirty = 0;
    bool reserved = false;
  };
  static constexpr uint64_t kNoLine = ~uint64_t{0};

  // Mixes in upper bits of the address, because strides of a power of two are
  // common and hardware does the same.
  Way* Set(uint64_t line) {
    const uint64_t index = line >> line_shift_;
    return &ways_[((index ^ (index >> set_bits_) ^ (index >> 2 * set_bits_)) &
                   set_mask_) *
                  associativity_];
  }
  // Whether `a` is to be evicted before `b`.
  static bool Before(const Way& a, const Way& b) {
    return a.reserved != b.reserved ? b.reserved : a.used < b.used;
  }
  Way* Find(uint64_t line) {
    Way* const set = Set(line);
    for (uint32_t i = 0; i < associativity_; ++i) {
      if (set[i].line == line) return &set[i];
    }
    return nullptr;
  }

  uint32_t line_shift_;
  uint32_t set_bits_;
  uint64_t set_mask_;
  uint32_t associativity_;
  uint64_t uses_ = 0;
  std::vector<Way> ways_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_CACHE_H_
