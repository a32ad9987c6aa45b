#include "kernels/images/dct8x8.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

// The definition (ITU T.81 A.3.3), in double precision.
double Reference(const std::vector<uint8_t>& image, uint32_t width,
                 uint32_t height, uint32_t left, uint32_t top, int u, int v) {
  double sum = 0;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      const uint32_t column = std::min(left + x, width - 1);
      const uint32_t row = std::min(top + y, height - 1);
      sum += (image[row * width + column] - 128.0) *
             std::cos((2 * x + 1) * u * std::numbers::pi / 16) *
             std::cos((2 * y + 1) * v * std::numbers::pi / 16);
    }
  }
  const auto scale = [](int k) { return k == 0 ? std::sqrt(0.5) : 1.0; };
  return sum * scale(u) * scale(v) / 4;
}

struct Case {
  uint32_t width, height, grid, block;
};

TEST(Dct8x8, EqualsTheDefinitionForEverySizeAndGrid) {
  std::mt19937 random(2);
  for (const Case& c : std::vector<Case>{{8, 8, 1, 32},
                                         {1, 1, 1, 1},
                                         {7, 9, 1, 32},
                                         {64, 64, 2, 32},
                                         {227, 149, 3, 32},
                                         {100, 8, 1, 5},
                                         {16, 33, 1, 128}}) {
    std::vector<uint8_t> image(c.width * c.height);
    for (uint8_t& pixel : image) pixel = static_cast<uint8_t>(random());
    const uint32_t blocks_x = (c.width + 7) / 8;
    const uint32_t blocks_y = (c.height + 7) / 8;
    std::vector<float> out(blocks_x * blocks_y * 64, 1e9f);
    const simt::GridResult result =
        RunGrid(dct8x8_info, {c.grid, 1, 1}, {c.block, 1, 1},
                Dct8x8Args{ReadOnly(image), Writable(out), c.width, c.height},
                {.workers = 2});
    ASSERT_EQ(result.status, simt::kFailNone) << result.message;
    for (uint32_t b = 0; b < blocks_x * blocks_y; ++b) {
      for (int v = 0; v < 8; ++v) {
        for (int u = 0; u < 8; ++u) {
          // A float holds a coefficient of up to 1024 with an error of about
          // 1e-4.
          ASSERT_NEAR(out[b * 64 + v * 8 + u],
                      Reference(image, c.width, c.height, b % blocks_x * 8,
                                b / blocks_x * 8, u, v),
                      1e-3)
              << c.width << "x" << c.height << " block " << b << " u" << u
              << " v" << v;
        }
      }
    }
  }
}

TEST(Dct8x8, BuffersThatAreTooSmallFailAndTouchNothing) {
  std::vector<uint8_t> image(9 * 8);
  std::vector<float> out(128, 5.0f);
  const Dct8x8Args good{ReadOnly(image), Writable(out), 9, 8};
  std::vector<Dct8x8Args> bad(4, good);
  bad[0].image.size = 71;
  bad[1].coefficients.size = 127;
  bad[2].width = 0xffffffff;
  bad[3].height = 0xffffffff;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(dct8x8_info, {}, {32, 1, 1}, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(dct8x8_info.validate({{}, {32, 1, 1}}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(out, std::vector<float>(128, 5.0f));
  EXPECT_EQ(dct8x8_info.validate({{}, {32, 1, 1}}, &good), nullptr);
}

TEST(Dct8x8, AnEmptyImageHasNoCoefficients) {
  std::vector<uint8_t> image(1);
  std::vector<float> out(64, 5.0f);
  EXPECT_EQ(RunGrid(dct8x8_info, {}, {32, 1, 1},
                    Dct8x8Args{ReadOnly(image), Writable(out), 0, 100})
                .status,
            simt::kFailNone);
  EXPECT_EQ(out, std::vector<float>(64, 5.0f));
}

}  // namespace
}  // namespace carillon::kernels
