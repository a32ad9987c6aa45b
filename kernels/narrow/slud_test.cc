#include "kernels/narrow/slud.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/narrow/types.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

using Block = std::vector<float>;

// A matrix of 3x3 blocks, all of them there.
struct BlockMatrix {
  static constexpr uint32_t kBlocks = 3;
  uint32_t n;
  std::vector<Block> blocks;

  BlockMatrix(uint32_t n, std::mt19937* random)
      : n(n), blocks(kBlocks * kBlocks, Block(n * n)) {
    for (Block& block : blocks) {
      for (float& x : block) {
        x = static_cast<float>((*random)() % 2001) / 1000.0f - 1.0f;
      }
    }
    // A strong diagonal makes elimination without pivoting possible.
    for (uint32_t k = 0; k < kBlocks; ++k) {
      for (uint32_t i = 0; i < n; ++i) at(k, k)[i * n + i] += kBlocks * n;
    }
  }

  Block& at(uint32_t row, uint32_t column) {
    return blocks[row * kBlocks + column];
  }
  std::vector<double> Dense() {
    const uint32_t side = kBlocks * n;
    std::vector<double> dense(side * side);
    for (uint32_t i = 0; i < side * side; ++i) {
      const uint32_t row = i / side;
      const uint32_t column = i % side;
      dense[i] = at(row / n, column / n)[row % n * n + column % n];
    }
    return dense;
  }
};

struct Case {
  uint32_t n, threads, blocks;
};

TEST(Slud, ItsTasksDecomposeTheMatrix) {
  std::mt19937 random(9);
  for (const Case& c : std::vector<Case>{
           {32, 128, 1}, {32, 32, 2}, {1, 128, 1}, {13, 256, 1}, {45, 33, 3}}) {
    BlockMatrix matrix(c.n, &random);
    std::vector<double> expected = matrix.Dense();
    reference::Decompose(&expected, BlockMatrix::kBlocks * c.n);
    const auto run = [&](const simt::KernelInfo& kernel, uint32_t blocks,
                         const auto& args) {
      ASSERT_EQ(RunGrid(kernel, {blocks, 1, 1}, {c.threads, 1, 1}, args,
                        {.workers = 2})
                    .status,
                simt::kFailNone);
    };
    for (uint32_t k = 0; k < BlockMatrix::kBlocks; ++k) {
      Block& diagonal = matrix.at(k, k);
      run(slud_lu0_info, 1, SludLu0Args{Writable(diagonal), c.n});
      for (uint32_t i = k + 1; i < BlockMatrix::kBlocks; ++i) {
        run(slud_fwd_info, c.blocks,
            SludSolveArgs{ReadOnly(diagonal), Writable(matrix.at(k, i)), c.n});
        run(slud_bdiv_info, c.blocks,
            SludSolveArgs{ReadOnly(diagonal), Writable(matrix.at(i, k)), c.n});
      }
      for (uint32_t i = k + 1; i < BlockMatrix::kBlocks; ++i) {
        for (uint32_t j = k + 1; j < BlockMatrix::kBlocks; ++j) {
          run(slud_bmod_info, c.blocks,
              SludBmodArgs{ReadOnly(matrix.at(i, k)), ReadOnly(matrix.at(k, j)),
                           Writable(matrix.at(i, j)), c.n});
        }
      }
    }
    const std::vector<double> found = matrix.Dense();
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-4) << c.n << ": " << i;
    }
  }
}

TEST(Slud, ABlockWithoutAPivotFailsAsSingular) {
  constexpr uint32_t kN = 4;
  Block singular(kN * kN, 1.0f);  // the second pivot is 1 - 1
  EXPECT_EQ(RunGrid(slud_lu0_info, {1, 1, 1}, {32, 1, 1},
                    SludLu0Args{Writable(singular), kN})
                .status,
            kFailSingular);
  for (const float pivot : {0.0f, -0.0f, std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    Block diagonal(kN * kN, 0.0f);
    for (uint32_t i = 0; i < kN; ++i) diagonal[i * kN + i] = 2.0f;
    diagonal[2 * kN + 2] = pivot;
    Block block(kN * kN, 1.0f);
    EXPECT_EQ(RunGrid(slud_bdiv_info, {1, 1, 1}, {32, 1, 1},
                      SludSolveArgs{ReadOnly(diagonal), Writable(block), kN})
                  .status,
              kFailSingular)
        << pivot;
    EXPECT_EQ(RunGrid(slud_lu0_info, {1, 1, 1}, {32, 1, 1},
                      SludLu0Args{Writable(diagonal), kN})
                  .status,
              kFailSingular)
        << pivot;
  }
  // The smallest pivots that there are divide.
  Block tiny(1, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(RunGrid(slud_lu0_info, {1, 1, 1}, {32, 1, 1},
                    SludLu0Args{Writable(tiny), 1})
                .status,
            simt::kFailNone);
}

template <class Args>
void ExpectRefused(const simt::KernelInfo& kernel, const Args& good,
                   const std::vector<Args>& bad) {
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(kernel, shape.grid, shape.block, bad[i]).status,
              simt::kFailBadArguments)
        << kernel.name << i;
    EXPECT_NE(kernel.validate(shape, &bad[i]), nullptr) << kernel.name << i;
  }
  EXPECT_EQ(kernel.validate(shape, &good), nullptr) << kernel.name;
}

TEST(Slud, ArgumentsThatDoNotFitFailAndTouchNothing) {
  const Block left(100, 2.0f);
  const Block upper(100, 2.0f);
  Block block(100, 5.0f);

  const SludLu0Args lu0{Writable(block), 10};
  std::vector<SludLu0Args> bad_lu0(4, lu0);
  bad_lu0[0].block.size = 99;
  bad_lu0[1].n = 0;
  bad_lu0[2].n = kSludMostRows + 1;
  bad_lu0[3].n = 0xffffffff;
  ExpectRefused(slud_lu0_info, lu0, bad_lu0);
  const simt::LaunchShape two{{2, 1, 1}, {32, 1, 1}};
  EXPECT_EQ(RunGrid(slud_lu0_info, two.grid, two.block, lu0).status,
            simt::kFailBadShape);
  EXPECT_NE(slud_lu0_info.check_shape(two), nullptr);
  EXPECT_NE(slud_lu0_info.validate(two, &lu0), nullptr);

  const SludSolveArgs solve{ReadOnly(left), Writable(block), 10};
  std::vector<SludSolveArgs> bad_solve(4, solve);
  bad_solve[0].block.size = 99;
  bad_solve[1].diagonal.size = 99;
  bad_solve[2].n = 0;
  bad_solve[3].n = 0xffffffff;
  ExpectRefused(slud_fwd_info, solve, bad_solve);
  ExpectRefused(slud_bdiv_info, solve, bad_solve);

  const SludBmodArgs bmod{ReadOnly(left), ReadOnly(upper), Writable(block), 10};
  std::vector<SludBmodArgs> bad_bmod(5, bmod);
  bad_bmod[0].left.size = 99;
  bad_bmod[1].upper.size = 99;
  bad_bmod[2].block.size = 99;
  bad_bmod[3].n = 0;
  bad_bmod[4].n = 0xffffffff;
  ExpectRefused(slud_bmod_info, bmod, bad_bmod);
  EXPECT_EQ(block, Block(100, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
