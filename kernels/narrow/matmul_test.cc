#include "kernels/narrow/matmul.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const simt::KernelInfo* const kKernels[] = {&matmul_plain_info,
                                            &matmul_shared_info};

struct Case {
  uint32_t n, blocks, threads;
};

TEST(NarrowMatmul, IsTheExactProductForEverySizeAndShape) {
  std::mt19937 random(3);
  for (const Case& c : std::vector<Case>{{64, 1, 128},
                                         {64, 1, 32},
                                         {20, 2, 1},
                                         {64, 4, 256},
                                         {1, 1, 128},
                                         {17, 1, 96},
                                         {50, 3, 33},
                                         {33, 1, 1024}}) {
    std::vector<float> a(c.n * c.n), b(c.n * c.n);
    for (float& x : a) x = static_cast<float>(random() % 41) - 20;
    for (float& x : b) x = static_cast<float>(random() % 41) - 20;
    const std::vector<float> expected = reference::Product(a, b, c.n);
    for (const simt::KernelInfo* kernel : kKernels) {
      std::vector<float> product(c.n * c.n, 1e9f);
      ASSERT_EQ(RunGrid(*kernel, {c.blocks, 1, 1}, {c.threads, 1, 1},
                        NarrowMatmulArgs{ReadOnly(a), ReadOnly(b),
                                         Writable(product), c.n},
                        {.workers = 2})
                    .status,
                simt::kFailNone);
      EXPECT_EQ(product, expected) << kernel->name << " " << c.n;
    }
  }
}

TEST(NarrowMatmul, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> a(100), b(100), c(100, 5.0f);
  const NarrowMatmulArgs good{ReadOnly(a), ReadOnly(b), Writable(c), 10};
  std::vector<NarrowMatmulArgs> bad(5, good);
  bad[0].a.size = 99;
  bad[1].b.size = 99;
  bad[2].c.size = 99;
  bad[3].n = 0;
  bad[4].n = 0xffffffff;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (const simt::KernelInfo* kernel : kKernels) {
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(RunGrid(*kernel, shape.grid, shape.block, bad[i]).status,
                simt::kFailBadArguments)
          << kernel->name << i;
      EXPECT_NE(kernel->validate(shape, &bad[i]), nullptr) << kernel->name << i;
    }
    EXPECT_EQ(kernel->validate(shape, &good), nullptr);
  }
  EXPECT_EQ(c, std::vector<float>(100, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
