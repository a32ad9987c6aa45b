#include "kernels/images/conv5x5.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{16, 16, 1};

Dim3 GridFor(uint32_t width, uint32_t height) {
  return {(width + 15) / 16, (height + 15) / 16, 1};
}

uint8_t Reference(const std::vector<uint8_t>& image, int64_t width,
                  int64_t height, const std::vector<int32_t>& weights,
                  uint32_t shift, int64_t x, int64_t y) {
  int64_t sum = 0;
  for (int64_t dy = -2; dy <= 2; ++dy) {
    for (int64_t dx = -2; dx <= 2; ++dx) {
      const int64_t column = std::clamp<int64_t>(x + dx, 0, width - 1);
      const int64_t row = std::clamp<int64_t>(y + dy, 0, height - 1);
      sum += int64_t{image[row * width + column]} *
             weights[(dy + 2) * 5 + (dx + 2)];
    }
  }
  if (shift > 0) sum += int64_t{1} << (shift - 1);
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> shift, 0, 255));
}

TEST(Conv5x5, EqualsTheExactSumForEverySizeAndBorder) {
  std::mt19937 random(1);
  for (const auto& [width, height] :
       std::vector<std::pair<uint32_t, uint32_t>>{{1, 1},
                                                  {1, 7},
                                                  {2, 2},
                                                  {5, 1},
                                                  {15, 17},
                                                  {16, 16},
                                                  {17, 33},
                                                  {31, 16},
                                                  {32, 48},
                                                  {40, 3},
                                                  {100, 61}}) {
    std::vector<uint8_t> image(width * height);
    for (uint8_t& pixel : image) pixel = static_cast<uint8_t>(random());
    std::vector<int32_t> weights(25);
    for (int32_t& weight : weights) {
      weight = static_cast<int32_t>(random() % 41) - 15;
    }
    const uint32_t shift = random() % 9;
    std::vector<uint8_t> out(image.size(), 0xee);
    const simt::GridResult result =
        RunGrid(conv5x5_info, GridFor(width, height), kBlock,
                ConvArgs{ReadOnly(image), ReadOnly(weights), Writable(out),
                         width, height, shift},
                {.workers = 2});
    ASSERT_EQ(result.status, simt::kFailNone) << result.message;
    for (uint32_t y = 0; y < height; ++y) {
      for (uint32_t x = 0; x < width; ++x) {
        ASSERT_EQ(out[y * width + x],
                  Reference(image, width, height, weights, shift, x, y))
            << width << "x" << height << " at " << x << "," << y;
      }
    }
  }
}

TEST(Conv5x5, AGridLargerThanTheImageIsFine) {
  std::vector<uint8_t> image(20 * 20, 9);
  std::vector<int32_t> weights(25, 0);
  weights[12] = 1;
  std::vector<uint8_t> out(image.size());
  EXPECT_EQ(RunGrid(conv5x5_info, {4, 3, 1}, kBlock,
                    ConvArgs{ReadOnly(image), ReadOnly(weights), Writable(out),
                             20, 20, 0})
                .status,
            simt::kFailNone);
  EXPECT_EQ(out, image);
}

TEST(Conv5x5, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint8_t> image(16 * 16);
  std::vector<int32_t> weights(25);
  std::vector<uint8_t> out(16 * 16, 0xee);
  const ConvArgs good{
      ReadOnly(image), ReadOnly(weights), Writable(out), 16, 16, 0};
  std::vector<ConvArgs> bad(6, good);
  bad[0].image.size = 255;
  bad[1].out.size = 255;
  bad[2].weights.size = 24;
  bad[3].shift = 32;
  bad[4].width = 0xffffffff;
  bad[5].height = 17;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(conv5x5_info, {1, 1, 1}, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(conv5x5_info.validate({{1, 1, 1}, kBlock}, &bad[i]), nullptr);
  }
  EXPECT_EQ(RunGrid(conv5x5_info, {1, 1, 1}, {32, 1, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(conv5x5_info.check_shape({{1, 1, 1}, {32, 1, 1}}), nullptr);
  EXPECT_EQ(out, std::vector<uint8_t>(256, 0xee));
  EXPECT_EQ(conv5x5_info.validate({{1, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_NE(conv5x5_info.validate({{0, 1, 1}, kBlock}, &good), nullptr);
}

TEST(Conv5x5, HugeWeightsWrapWithoutHarm) {
  std::vector<uint8_t> image(16 * 16, 255);
  std::vector<int32_t> weights(25, INT32_MIN + 1);
  std::vector<uint8_t> out(16 * 16);
  EXPECT_EQ(RunGrid(conv5x5_info, {1, 1, 1}, kBlock,
                    ConvArgs{ReadOnly(image), ReadOnly(weights), Writable(out),
                             16, 16, 31})
                .status,
            simt::kFailNone);
}

}  // namespace
}  // namespace carillon::kernels
