#include "kernels/background/sgemm.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{32, 32, 1};

TEST(Sgemm, MultipliesMatricesOfAnyShape) {
  std::mt19937 random(9);
  for (const auto& [rows, columns, depth] :
       {std::tuple{1u, 1u, 1u}, std::tuple{32u, 64u, 32u},
        std::tuple{33u, 20u, 70u}, std::tuple{65u, 31u, 5u}}) {
    std::vector<float> a(rows * depth), b(depth * columns), c(rows * columns);
    for (std::vector<float>* matrix : {&a, &b, &c}) {
      for (float& x : *matrix) {
        x = static_cast<float>(random() % 2001) / 1000 - 1;
      }
    }
    const std::vector<double> expected =
        reference::Gemm(a, b, c, columns, 1.5, -0.5);
    const SgemmArgs args{ReadOnly(a), ReadOnly(b), Writable(c), rows,
                         columns,     depth,       1.5f,        -0.5f};
    const Dim3 grid{(columns + 31) / 32, (rows + 31) / 32, 1};
    EXPECT_EQ(sgemm_info.validate({grid, kBlock}, &args), nullptr);
    ASSERT_EQ(RunGrid(sgemm_info, grid, kBlock, args, {.workers = 2}).status,
              simt::kFailNone);
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_NEAR(c[i], expected[i], 1e-4) << rows << ": " << i;
    }
  }
}

TEST(Sgemm, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> a(40 * 20), b(20 * 50), c(40 * 50, -1.0f);
  const SgemmArgs good{ReadOnly(a), ReadOnly(b), Writable(c), 40, 50, 20, 1, 0};
  std::vector<SgemmArgs> bad(6, good);
  bad[0].a.size -= 1;
  bad[1].b.size -= 1;
  bad[2].c.size -= 1;
  bad[3].rows = 0xffffffff;
  bad[4].columns = 0xffffffff;
  bad[5].depth = 0xffffffff;
  const Dim3 grid{2, 2, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(sgemm_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(sgemm_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(sgemm_info, grid, {16, 16, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(sgemm_info.check_shape({grid, {16, 16, 1}}), nullptr);
  EXPECT_NE(sgemm_info.validate({{1, 2, 1}, kBlock}, &good), nullptr);
  EXPECT_NE(sgemm_info.validate({{2, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(sgemm_info.validate({grid, kBlock}, &good), nullptr);
  EXPECT_EQ(c, std::vector<float>(40 * 50, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels
