#include "kernels/narrow/convolution.cuh"

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

std::vector<float> Noise(std::mt19937* random, size_t size) {
  std::vector<float> values(size);
  for (float& x : values) {
    x = static_cast<float>((*random)() % 2001) / 1000.0f - 1.0f;
  }
  return values;
}

struct Case {
  uint32_t width, height, radius, blocks, threads;
};

TEST(Convolution, TwoPassesAreTheConvolutionWithBothFilters) {
  std::mt19937 random(8);
  for (const Case& c : std::vector<Case>{{128, 128, 8, 1, 128},
                                         {31, 57, 8, 2, 32},
                                         {1, 1, 8, 1, 128},
                                         {3, 40, 5, 1, 256},
                                         {40, 3, 0, 1, 7},
                                         {10, 9, 30, 3, 33}}) {
    const std::vector<float> image = Noise(&random, c.width * c.height);
    const std::vector<float> by_row = Noise(&random, 2 * c.radius + 1);
    const std::vector<float> by_column = Noise(&random, 2 * c.radius + 1);
    std::vector<float> between(image.size(), 1e9f);
    std::vector<float> out(image.size(), 1e9f);
    const simt::Dim3 grid{c.blocks, 1, 1};
    const simt::Dim3 block{c.threads, 1, 1};
    ASSERT_EQ(
        RunGrid(conv_rows_info, grid, block,
                ConvPassArgs{ReadOnly(image), ReadOnly(by_row),
                             Writable(between), c.width, c.height, c.radius},
                {.workers = 2})
            .status,
        simt::kFailNone);
    ASSERT_EQ(RunGrid(conv_columns_info, grid, block,
                      ConvPassArgs{ReadOnly(between), ReadOnly(by_column),
                                   Writable(out), c.width, c.height, c.radius},
                      {.workers = 2})
                  .status,
              simt::kFailNone);
    for (uint32_t y = 0; y < c.height; ++y) {
      for (uint32_t x = 0; x < c.width; ++x) {
        ASSERT_NEAR(out[y * c.width + x],
                    reference::ConvolvedPixel(image, c.width, c.height, by_row,
                                              by_column, x, y),
                    1e-4)
            << c.width << "x" << c.height << " at " << x << "," << y;
      }
    }
  }
}

TEST(Convolution, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> image(9 * 7), taps(5), out(9 * 7, 5.0f);
  const ConvPassArgs good{
      ReadOnly(image), ReadOnly(taps), Writable(out), 9, 7, 2};
  std::vector<ConvPassArgs> bad(9, good);
  bad[0].image.size = 62;
  bad[1].taps.size = 4;
  bad[2].out.size = 62;
  bad[3].width = 0;
  bad[4].height = 0;
  bad[5].width = 0xffffffff;
  bad[6].height = 0xffffffff;
  bad[7].radius = 3;
  bad[8].radius = 0xffffffff;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (const simt::KernelInfo* kernel : {&conv_rows_info, &conv_columns_info}) {
    for (size_t i = 0; i < bad.size(); ++i) {
      EXPECT_EQ(RunGrid(*kernel, shape.grid, shape.block, bad[i]).status,
                simt::kFailBadArguments)
          << kernel->name << i;
      EXPECT_NE(kernel->validate(shape, &bad[i]), nullptr) << kernel->name << i;
    }
    EXPECT_EQ(kernel->validate(shape, &good), nullptr);
  }
  EXPECT_EQ(out, std::vector<float>(63, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
