#include "gpu_daemon/backends/cuda/driver/grid_slice.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace carillon::gpud::cuda {
namespace {

// Counts how often each block is in a slice; `most` is asked for each one.
template <class Most>
std::vector<int> TimesInSlices(const simt::Dim3& grid, Most most) {
  std::vector<int> times(grid.count());
  for (uint64_t from = 0; from < grid.count();) {
    const uint64_t at_most = most();
    const GridSlice slice = NextSlice(grid, from, at_most);
    EXPECT_TRUE(IsSliceOf(grid, slice));
    EXPECT_GE(slice.blocks(), 1u);
    EXPECT_LE(slice.blocks(), at_most);
    // The box is the range [from, from + blocks).
    uint64_t lowest = grid.count();
    for (uint32_t z = 0; z < slice.size.z; ++z) {
      for (uint32_t y = 0; y < slice.size.y; ++y) {
        for (uint32_t x = 0; x < slice.size.x; ++x) {
          const uint64_t block =
              ((uint64_t{slice.first.z} + z) * grid.y + slice.first.y + y) *
                  grid.x +
              slice.first.x + x;
          lowest = std::min(lowest, block);
          EXPECT_LT(block, from + slice.blocks());
          ++times.at(block);
        }
      }
    }
    EXPECT_EQ(lowest, from);
    from += slice.blocks();
  }
  return times;
}

TEST(GridSliceTest, EachBlockIsInOneSliceForEverySliceSize) {
  const simt::Dim3 grids[] = {{1, 1, 1}, {13, 1, 1}, {1, 13, 1}, {1, 1, 13},
                              {5, 4, 1}, {5, 4, 3},  {1, 4, 3},  {7, 1, 2}};
  for (const simt::Dim3& grid : grids) {
    for (uint64_t most = 1; most <= grid.count() + 1; ++most) {
      EXPECT_EQ(TimesInSlices(grid, [=] { return most; }),
                std::vector<int>(grid.count(), 1))
          << grid.x << "x" << grid.y << "x" << grid.z << " by " << most;
    }
  }
}

TEST(GridSliceTest, SlicesOfAOneBlockGridAreOneAndTheWholeGrid) {
  const simt::Dim3 grid = {1, 1, 1};
  for (const uint64_t most : {uint64_t{1}, uint64_t{2}, ~uint64_t{0}}) {
    const GridSlice slice = NextSlice(grid, 0, most);
    EXPECT_TRUE(IsSliceOf(grid, slice)) << most;
    EXPECT_EQ(slice.blocks(), 1u) << most;
  }
  EXPECT_FALSE(IsSliceOf(grid, {{0, 0, 0}, {2, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{1, 0, 0}, {1, 1, 1}}));
}

TEST(GridSliceTest, EachBlockIsInOneSliceWhenTheSizeChangesBetweenSlices) {
  std::mt19937 random(1);
  const auto upto = [&](uint64_t most) {
    return static_cast<uint32_t>(1 + random() % most);
  };
  for (int round = 0; round < 300; ++round) {
    const simt::Dim3 grid = {upto(9), upto(9), upto(9)};
    EXPECT_EQ(
        TimesInSlices(grid, [&] { return uint64_t{upto(2 * grid.count())}; }),
        std::vector<int>(grid.count(), 1));
  }
}

TEST(GridSliceTest, AllThatIsLeftTakesFewSlices) {
  const simt::Dim3 grid = {11, 7, 5};
  for (uint64_t from = 0; from < grid.count(); ++from) {
    int slices = 0;
    for (uint64_t at = from; at < grid.count(); ++slices) {
      at += NextSlice(grid, at, grid.count()).blocks();
    }
    EXPECT_LE(slices, 3) << from;
  }
}

TEST(GridSliceTest, WhatEndsBeforeItBeginsOrLeavesTheGridIsNoSlice) {
  const simt::Dim3 grid = {8, 2, 1};
  EXPECT_TRUE(IsSliceOf(grid, {{7, 1, 0}, {1, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{4, 0, 0}, {0, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{4, 0, 0}, {~0u, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{4, 0, 0}, {5, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{8, 0, 0}, {1, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{0, 2, 0}, {1, 1, 1}}));
  EXPECT_FALSE(IsSliceOf(grid, {{0, 0, 1}, {1, 1, 1}}));
}

}  // namespace
}  // namespace carillon::gpud::cuda
