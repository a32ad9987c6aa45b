#include "kernels/narrow/mandelbrot.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/narrow/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::RunGrid;
using simt::Writable;

constexpr uint32_t kMost = 400;

std::complex<double> PointOf(const MandelbrotArgs& args, uint32_t x,
                             uint32_t y) {
  return {double{args.first_real} + double{args.step} * x,
          double{args.first_imaginary} + double{args.step} * y};
}

struct Case {
  uint32_t width, height, blocks, threads;
};

// A float's rounding moves z as if c were elsewhere. Wherever another c within
// 1e-6 has the same count, the pixel must have it, too.
TEST(Mandelbrot, CountsAsTheDefinitionDoesWhereAFloatCanTell) {
  for (const Case& c : std::vector<Case>{{64, 64, 1, 128},
                                         {64, 64, 1, 32},
                                         {64, 64, 3, 256},
                                         {1, 1, 1, 128},
                                         {33, 17, 1, 96},
                                         {7, 90, 1, 1}}) {
    std::vector<uint32_t> counts(c.width * c.height, 0xffffffff);
    const MandelbrotArgs args{Writable(counts), c.width, c.height, kMost,
                              -2.25f,           -1.75f,  3.5f / 63};
    ASSERT_EQ(RunGrid(mandelbrot_info, {c.blocks, 1, 1}, {c.threads, 1, 1},
                      args, {.workers = 2})
                  .status,
              simt::kFailNone);
    uint32_t told_apart = 0;
    for (uint32_t y = 0; y < c.height; ++y) {
      for (uint32_t x = 0; x < c.width; ++x) {
        const std::complex<double> point = PointOf(args, x, y);
        uint32_t least = kMost;
        uint32_t most = 0;
        for (const auto& [dx, dy] :
             {std::pair{0, 0}, std::pair{1, 0}, std::pair{-1, 0},
              std::pair{0, 1}, std::pair{0, -1}, std::pair{1, 1},
              std::pair{-1, -1}, std::pair{1, -1}, std::pair{-1, 1}}) {
          const uint32_t count = reference::MandelbrotCount(
              point + 1e-6 * std::complex<double>(dx, dy), kMost);
          least = std::min(least, count);
          most = std::max(most, count);
        }
        if (least == most) {
          ++told_apart;
          ASSERT_EQ(counts[y * c.width + x], least) << x << "," << y;
        }
      }
    }
    EXPECT_GE(told_apart * 100, 99 * c.width * c.height)
        << c.width << "x" << c.height;
  }
}

// What the set is known by: its two largest parts have equations of their own.
TEST(Mandelbrot, TheCardioidAndTheDiscBesideItAreInside) {
  constexpr uint32_t kSide = 128;
  std::vector<uint32_t> counts(kSide * kSide);
  const MandelbrotArgs args{Writable(counts), kSide,       kSide, kMost, -2.0f,
                            -1.25f,           2.5f / kSide};
  ASSERT_EQ(RunGrid(mandelbrot_info, {1, 1, 1}, {128, 1, 1}, args).status,
            simt::kFailNone);
  uint32_t inside = 0;
  for (uint32_t y = 0; y < kSide; ++y) {
    for (uint32_t x = 0; x < kSide; ++x) {
      const std::complex<double> c = PointOf(args, x, y);
      const uint32_t count = counts[y * kSide + x];
      // The multiplier of the point to which z would go.
      const double cardioid = std::abs(1.0 - std::sqrt(1.0 - 4.0 * c));
      if (cardioid < 0.999 || std::abs(c + 1.0) < 0.249) {
        ++inside;
        EXPECT_EQ(count, kMost) << c;
      }
      if (std::abs(c) > 2.001) {
        EXPECT_EQ(count, 1u) << c;
      }
    }
  }
  EXPECT_GT(inside, 3000u);
}

TEST(Mandelbrot, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint32_t> counts(64, 5);
  const MandelbrotArgs good{Writable(counts), 8, 8, 10, -2, -2, 0.5f};
  std::vector<MandelbrotArgs> bad(7, good);
  bad[0].counts.size = 63;
  bad[1].width = 0;
  bad[2].height = 0;
  bad[3].width = 0xffffffff;
  bad[4].height = 0xffffffff;
  bad[5].most = 0;
  bad[6].most = kMandelbrotMost + 1;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(mandelbrot_info, {}, {32, 1, 1}, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(mandelbrot_info.validate({{}, {32, 1, 1}}, &bad[i]), nullptr)
        << i;
  }
  EXPECT_EQ(counts, std::vector<uint32_t>(64, 5));
  EXPECT_EQ(mandelbrot_info.validate({{}, {32, 1, 1}}, &good), nullptr);
}

}  // namespace
}  // namespace carillon::kernels
