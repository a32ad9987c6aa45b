// What a cache holds: tags, no data. Lines in sets, each line in sectors that
// are valid and dirty by themselves, least recently used first out.
#ifndef CARILLON_SIM_TIMING_MEMORY_CACHE_H_
#define CARILLON_SIM_TIMING_MEMORY_CACHE_H_

#include <cstdint>
#include <vector>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

// Of a line, a bit each; of the L2's size, the smallest there is.
using Sectors = uint8_t;

class Cache {
 public:
  // `bytes`: of config's, or of a slice.
  Cache(const CacheConfig& config, uint32_t bytes);

  // The sectors that are there, none if the line is not; it is now the most
  // recently used. `line`: the address of its first byte.
  Sectors Touch(uint64_t line);

  struct Victim {
    uint64_t line = 0;
    Sectors dirty = 0;  // none: nobody needs to write it
  };
  // Adds these sectors, in another line's place if the line is not there.
  Victim Insert(uint64_t line, Sectors valid, Sectors dirty);
  void Invalidate(uint64_t line);
  void Clear();  // but for what is reserved
  // Adds the line for good, if others keep a way of its set. False: they
  // would not.
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

  // Upper bits of the address are mixed in: strides of a power of two are
  // usual, and hardware does the same.
  Way* Set(uint64_t line) {
    const uint64_t index = line >> line_shift_;
    return &ways_[((index ^ (index >> set_bits_) ^ (index >> 2 * set_bits_)) &
                   set_mask_) *
                  associativity_];
  }
  // Which goes first.
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
