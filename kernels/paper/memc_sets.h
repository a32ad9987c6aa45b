// Fills the table that fig_memc looks keys up in.
#ifndef CARILLON_KERNELS_PAPER_MEMC_SETS_H_
#define CARILLON_KERNELS_PAPER_MEMC_SETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/paper/fig_memc.cuh"

namespace carillon::kernels {

// A new key replaces the least recently used one of its set.
class MemcSets {
 public:
  // `sets` must be a power of two; EDGE's 16k entries are 2048 sets.
  explicit MemcSets(uint32_t sets) : entries_(sets * kFigMemcWays) {}

  // Returns false if the key or the value is too long, or the key is empty.
  bool Set(std::string_view key, std::string_view value, uint32_t now);

  std::vector<FigMemcEntry>& entries() { return entries_; }

 private:
  std::vector<FigMemcEntry> entries_;
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_MEMC_SETS_H_
