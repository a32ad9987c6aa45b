// A grid in slices (GPES IV-A), each a launch of its own. Blocks are counted with
// x fastest. A slice is a half-open range of them that is also a box of the grid,
// so that a block finds its place by adding where the box begins.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GRID_SLICE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GRID_SLICE_H_

#include <algorithm>
#include <cstdint>

#include "kernels/simt/types.h"

namespace carillon::gpud::cuda {

struct GridSlice {
  simt::Dim3 first{0, 0, 0};
  simt::Dim3 size;
  uint64_t blocks() const { return size.count(); }
};

// Of one grid.
inline bool IsSliceOf(const simt::Dim3& grid, const GridSlice& slice) {
  const auto fits = [](uint32_t first, uint32_t size, uint32_t whole) {
    return size != 0 && first < whole && size <= whole - first;
  };
  return fits(slice.first.x, slice.size.x, grid.x) &&
         fits(slice.first.y, slice.size.y, grid.y) &&
         fits(slice.first.z, slice.size.z, grid.z);
}

// The slice that begins at block `from`, of at most `most` blocks and as many of
// them as make a box: a part of a row, rows, or planes. Those that follow each
// other from block 0 on have each block once, whatever `most` each is given.
// `from` is a block of the grid, and `most` 1 or more.
inline GridSlice NextSlice(const simt::Dim3& grid, uint64_t from,
                           uint64_t most) {
  const auto x = static_cast<uint32_t>(from % grid.x);
  const uint64_t row = from / grid.x;
  const auto y = static_cast<uint32_t>(row % grid.y);
  const auto z = static_cast<uint32_t>(row / grid.y);
  const auto least = [](uint64_t a, uint32_t b) {
    return static_cast<uint32_t>(std::min<uint64_t>(a, b));
  };
  if (x != 0 || most < grid.x) {
    return {{x, y, z}, {least(most, grid.x - x), 1, 1}};
  }
  const uint64_t rows = most / grid.x;
  if (y != 0 || rows < grid.y) {
    return {{0, y, z}, {grid.x, least(rows, grid.y - y), 1}};
  }
  return {{0, 0, z}, {grid.x, grid.y, least(rows / grid.y, grid.z - z)}};
}

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_GRID_SLICE_H_
