// The tags of a cache, without data. Lines are in sets, and the sectors of a
// line are valid and dirty separately. The least recently used line leaves
// first.
#ifndef CARILLON_SIM_TIMING_MEMORY_CACHE_H_
#define CARILLON_SIM_TIMING_MEMORY_CACHE_H_

#include <cstddef>
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
  bool Holds(uint64_t line) const { return Find(line) != kNowhere; }

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
    uint64_t used = 0;  // kReserved: it stays
    Sectors valid = 0;
    Sectors dirty = 0;
  };
  static constexpr uint64_t kNoLine = ~uint64_t{0};
  static constexpr uint64_t kReserved = ~uint64_t{0};

  // The first way of the line's set. Mixes in upper bits of the address, because
  // strides of a power of two are common and hardware does the same.
  size_t SetOf(uint64_t line) const {
    const uint64_t index = line >> line_shift_;
    return ((index ^ (index >> set_bits_) ^ (index >> 2 * set_bits_)) &
            set_mask_) *
           associativity_;
  }
  // The line's way; kNowhere if it is not there.
  static constexpr size_t kNowhere = ~size_t{0};
  size_t Find(uint64_t line) const {
    const size_t set = SetOf(line);
#pragma GCC unroll 4
    for (size_t way = set; way < set + associativity_; ++way) {
      if (lines_[way] == line) return way;
    }
    return kNowhere;
  }
  void Use(Way& way) {
    if (way.used != kReserved) way.used = ++uses_;
  }

  uint32_t line_shift_;
  uint32_t set_bits_;
  uint64_t set_mask_;
  uint32_t associativity_;
  uint64_t uses_ = 0;
  // Of each way. The lines are apart because a search looks at nothing else.
  std::vector<uint64_t> lines_;
  std::vector<Way> ways_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_CACHE_H_
