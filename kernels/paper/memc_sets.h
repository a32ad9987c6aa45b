// Fills the table that fig_memc looks keys up in.
#ifndef CARILLON_KERNELS_PAPER_MEMC_SETS_H_
#define CARILLON_KERNELS_PAPER_MEMC_SETS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/paper/fig_memc.cuh"

namespace carillon::kernels {

// A new key takes the place of the one in its set that was used least recently.
class MemcSets {
 public:
  // `sets`: a power of two; EDGE's 16k entries are 2048.
  explicit MemcSets(uint32_t sets) : entries_(sets * kFigMemcWays) {}

  // False when key or value are longer than there can be, or the key is empty.
  bool Set(std::string_view key, std::string_view value, uint32_t now);

  std::vector<FigMemcEntry>& entries() { return entries_; }

 private:
  std::vector<FigMemcEntry> entries_;
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_PAPER_MEMC_SETS_H_
