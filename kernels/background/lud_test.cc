#include "kernels/background/lud.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::RunGrid;
using simt::Writable;

TEST(FigLud, LTimesUIsTheMatrix) {
  std::mt19937 random(13);
  for (const uint32_t n : {16u, 32u, 80u}) {
    std::vector<float> before(n * n);
    for (float& x : before) {
      x = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    }
    // A strong diagonal makes elimination without pivoting possible.
    for (uint32_t i = 0; i < n; ++i) before[i * n + i] += n;
    std::vector<float> matrix = before;
    for (uint32_t offset = 0; offset < n; offset += 16) {
      const LudArgs args{Writable(matrix), n, offset};
      const uint32_t k = (n - offset) / 16 - 1;
      ASSERT_EQ(RunGrid(lud_diagonal_info, {1, 1, 1}, {16, 1, 1}, args).status,
                simt::kFailNone);
      if (k == 0) continue;
      // One block more than needed does no harm.
      ASSERT_EQ(RunGrid(lud_perimeter_info, {k + 1, 1, 1}, {32, 1, 1}, args,
                        {.workers = 2})
                    .status,
                simt::kFailNone);
      ASSERT_EQ(RunGrid(lud_internal_info, {k + 1, k + 1, 1}, {16, 16, 1}, args,
                        {.workers = 2})
                    .status,
                simt::kFailNone);
    }
    const std::vector<double> product = reference::LudProduct(matrix, n);
    for (uint32_t i = 0; i < n * n; ++i) {
      ASSERT_NEAR(product[i], before[i], 1e-4 * n)
          << n << ": " << i / n << "," << i % n;
    }
  }
}

TEST(FigLud, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> matrix(48 * 48, 1.0f);
  const LudArgs good{Writable(matrix), 48, 16};
  std::vector<LudArgs> bad(6, good);
  bad[0].matrix.size -= 1;
  bad[1].n = 47;
  bad[2].n = 0xfffffff0;
  bad[3].offset = 8;
  bad[4].offset = 48;
  bad[5].offset = 0xfffffff0;
  const std::pair<const simt::KernelInfo*, simt::LaunchShape> kernels[] = {
      {&lud_diagonal_info, {{1, 1, 1}, {16, 1, 1}}},
      {&lud_perimeter_info, {{1, 1, 1}, {32, 1, 1}}},
      {&lud_internal_info, {{1, 1, 1}, {16, 16, 1}}}};
  for (const auto& [kernel, shape] : kernels) {
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(RunGrid(*kernel, shape.grid, shape.block, bad[i]).status,
                simt::kFailBadArguments)
          << kernel->name << i;
      EXPECT_NE(kernel->validate(shape, &bad[i]), nullptr) << kernel->name << i;
    }
    EXPECT_EQ(kernel->validate(shape, &good), nullptr);
    for (const simt::LaunchShape& wrong :
         {simt::LaunchShape{shape.grid, {8, 8, 1}},
          simt::LaunchShape{{1, 1, 2}, shape.block}}) {
      EXPECT_EQ(RunGrid(*kernel, wrong.grid, wrong.block, good).status,
                simt::kFailBadShape);
      EXPECT_NE(kernel->check_shape(wrong), nullptr);
    }
    if (kernel == &lud_diagonal_info) continue;
    LudArgs first = good;
    first.offset = 0;
    EXPECT_NE(kernel->validate(shape, &first), nullptr)
        << "needs two blocks in each direction";
  }
  EXPECT_EQ(matrix, std::vector<float>(48 * 48, 1.0f));
}

}  // namespace
}  // namespace carillon::kernels
