#include "kernels/matmul.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/matmul_reference.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{16, 16, 1};

TEST(Matmul, EqualsTheProductForEverySize) {
  std::mt19937 random(3);
  for (const uint32_t n : {1u, 2u, 15u, 16u, 17u, 32u, 50u}) {
    // With small integers every partial sum is exact in a float, in any order.
    std::vector<float> a(n * n), b(n * n), c(n * n, -1.0f);
    for (float& x : a) x = static_cast<float>(random() % 201) - 100;
    for (float& x : b) x = static_cast<float>(random() % 201) - 100;
    const uint32_t blocks = (n + 15) / 16;
    const simt::GridResult result = RunGrid(
        matmul_info, {blocks, blocks, 1}, kBlock,
        MatmulArgs{ReadOnly(a), ReadOnly(b), Writable(c), n}, {.workers = 2});
    ASSERT_EQ(result.status, simt::kFailNone) << result.message;
    EXPECT_EQ(c, reference::Product(a, b, n)) << n;
  }
}

TEST(Matmul, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> a(256), b(256), c(256, -1.0f);
  const MatmulArgs good{ReadOnly(a), ReadOnly(b), Writable(c), 16};
  std::vector<MatmulArgs> bad(4, good);
  bad[0].a.size = 255;
  bad[1].b.size = 255;
  bad[2].c.size = 255;
  bad[3].n = 0xffffffff;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(matmul_info, {1, 1, 1}, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(matmul_info.validate({{1, 1, 1}, kBlock}, &bad[i]), nullptr);
  }
  EXPECT_EQ(RunGrid(matmul_info, {1, 1, 1}, {16, 8, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(matmul_info.check_shape({{1, 1, 1}, {16, 8, 1}}), nullptr);
  EXPECT_EQ(c, std::vector<float>(256, -1.0f));
  EXPECT_EQ(matmul_info.validate({{1, 1, 1}, kBlock}, &good), nullptr);
}

}  // namespace
}  // namespace carillon::kernels
