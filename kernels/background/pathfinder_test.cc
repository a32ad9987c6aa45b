#include "kernels/background/pathfinder.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

Dim3 GridFor(uint32_t columns, uint32_t steps) {
  const uint32_t useful = 256 - 2 * steps;
  return {(columns + useful - 1) / useful, 1, 1};
}

TEST(Pathfinder, FindsTheCheapestWayToEveryColumn) {
  std::mt19937 random(3);
  for (const uint32_t columns : {1u, 2u, 255u, 256u, 257u, 1000u}) {
    for (const uint32_t steps : {0u, 1u, 7u, 100u}) {
      std::vector<int32_t> costs(columns * steps), from(columns), to(columns);
      for (int32_t& x : costs) x = static_cast<int32_t>(random() % 20) - 5;
      for (int32_t& x : from) x = static_cast<int32_t>(random() % 100);
      const PathfinderArgs args{ReadOnly(costs), ReadOnly(from), Writable(to),
                                columns, steps};
      const Dim3 grid = GridFor(columns, steps);
      EXPECT_EQ(pathfinder_info.validate({grid, {256, 1, 1}}, &args), nullptr);
      ASSERT_EQ(
          RunGrid(pathfinder_info, grid, {256, 1, 1}, args, {.workers = 2})
              .status,
          simt::kFailNone);
      EXPECT_EQ(to, reference::CheapestWays(costs, from))
          << columns << ", " << steps;
    }
  }
}

TEST(Pathfinder, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<int32_t> costs(300 * 4), from(300), to(300, -1);
  const PathfinderArgs good{ReadOnly(costs), ReadOnly(from), Writable(to), 300,
                            4};
  std::vector<PathfinderArgs> bad(6, good);
  bad[0].costs.size -= 1;
  bad[1].from.size -= 1;
  bad[2].to.size -= 1;
  bad[3].columns = 0xffffffff;
  bad[4].steps = 5;
  // More steps than a block has cells.
  bad[5].steps = 101;
  bad[5].columns = 1;
  const Dim3 grid = GridFor(300, 4);
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(pathfinder_info, grid, {256, 1, 1}, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(pathfinder_info.validate({grid, {256, 1, 1}}, &bad[i]), nullptr)
        << i;
  }
  EXPECT_EQ(RunGrid(pathfinder_info, grid, {128, 1, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(pathfinder_info.check_shape({grid, {128, 1, 1}}), nullptr);
  EXPECT_NE(pathfinder_info.validate({{1, 1, 1}, {256, 1, 1}}, &good), nullptr);
  EXPECT_EQ(pathfinder_info.validate({grid, {256, 1, 1}}, &good), nullptr);
  EXPECT_EQ(to, std::vector<int32_t>(300, -1));
}

}  // namespace
}  // namespace carillon::kernels
