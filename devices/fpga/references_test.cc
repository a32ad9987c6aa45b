#include "devices/fpga/references.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

namespace carillon::fpga {
namespace {

GreyImage Noise(uint32_t width, uint32_t height) {
  GreyImage image{.width = width, .height = height, .pixels = {}};
  std::mt19937 random(width * 1000 + height);
  for (uint64_t i = 0; i < uint64_t{width} * height; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(random()));
  }
  return image;
}

TEST(ReferencesTest, TheDctIsItsDefinition) {
  const GreyImage image = Noise(8, 8);
  const std::vector<double> found = Dct8x8(image);
  ASSERT_EQ(found.size(), 64u);
  for (int v = 0; v < 8; ++v) {
    for (int u = 0; u < 8; ++u) {
      double sum = 0;
      for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 8; ++x) {
          sum += (image.pixels[y * 8 + x] - 128.0) *
                 std::cos((2 * x + 1) * u * std::numbers::pi / 16) *
                 std::cos((2 * y + 1) * v * std::numbers::pi / 16);
        }
      }
      const double scale =
          (u == 0 ? std::sqrt(0.5) : 1) * (v == 0 ? std::sqrt(0.5) : 1) / 4;
      EXPECT_NEAR(found[v * 8 + u], sum * scale, 1e-9) << v << ", " << u;
    }
  }
}

TEST(ReferencesTest, AFlatImageHasOnlyItsMean) {
  const GreyImage image{
      .width = 8, .height = 8, .pixels = std::vector<uint8_t>(64, 160)};
  const std::vector<double> found = Dct8x8(image);
  EXPECT_NEAR(found[0], (160 - 128) * 8, 1e-9);
  for (int i = 1; i < 64; ++i) EXPECT_NEAR(found[i], 0, 1e-9);
}

TEST(ReferencesTest, BlocksLieRowByRowAndBorderBlocksRepeatTheOutermostPixels) {
  GreyImage image = Noise(11, 9);
  const std::vector<double> found = Dct8x8(image);
  ASSERT_EQ(found.size(), DctBlocks(11, 9) * 64);
  ASSERT_EQ(DctBlocks(11, 9), 4u);
  // The last block contains columns 8..10 of row 8, extended.
  GreyImage last{.width = 8, .height = 8, .pixels = {}};
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x)
      last.pixels.push_back(image.pixels[8 * 11 + std::min(8 + x, 10)]);
  }
  const std::vector<double> expected = Dct8x8(last);
  for (int i = 0; i < 64; ++i)
    EXPECT_NEAR(found[3 * 64 + i], expected[i], 1e-9);
}

TEST(ReferencesTest, TheInverseGivesTheImageBack) {
  for (const auto& [width, height] :
       {std::pair(16u, 8u), std::pair(13u, 21u), std::pair(1u, 1u)}) {
    const GreyImage image = Noise(width, height);
    const std::vector<double> exact = Dct8x8(image);
    const std::vector<float> coefficients(exact.begin(), exact.end());
    EXPECT_EQ(InverseDct8x8(width, height, coefficients.data()), image);
  }
}

TEST(ReferencesTest, TheInverseOfGarbageIsAnImageAllTheSame) {
  std::vector<float> coefficients(64, std::nanf(""));
  EXPECT_EQ(InverseDct8x8(8, 8, coefficients.data()).pixels,
            std::vector<uint8_t>(64, 0));
  coefficients.assign(64, 0);
  coefficients[0] = 1e30f;
  EXPECT_EQ(InverseDct8x8(8, 8, coefficients.data()).pixels,
            std::vector<uint8_t>(64, 255));
}

TEST(ReferencesTest, ConvolutionIsNotFlippedAndRepeatsTheBorder) {
  const GreyImage image = Noise(6, 5);
  for (int j = 0; j < 5; ++j) {
    for (int i = 0; i < 5; ++i) {
      std::array<int32_t, 25> weights{};
      weights[5 * j + i] = 1;
      const GreyImage moved = Conv5x5(image, weights, 0);
      for (int y = 0; y < 5; ++y) {
        for (int x = 0; x < 6; ++x) {
          const int from_x = std::clamp(x + i - 2, 0, 5);
          const int from_y = std::clamp(y + j - 2, 0, 4);
          EXPECT_EQ(moved.pixels[y * 6 + x], image.pixels[from_y * 6 + from_x]);
        }
      }
    }
  }
}

TEST(ReferencesTest, ConvolutionRoundsToNearestAndClamps) {
  const GreyImage image{.width = 1, .height = 1, .pixels = {100}};
  std::array<int32_t, 25> weights{};
  weights[12] = 3;
  EXPECT_EQ(Conv5x5(image, weights, 3).pixels[0], 38);  // 37.5
  weights[12] = 4;
  EXPECT_EQ(Conv5x5(image, weights, 0).pixels[0], 255);
  weights[12] = -1;
  EXPECT_EQ(Conv5x5(image, weights, 0).pixels[0], 0);
}

}  // namespace
}  // namespace carillon::fpga
