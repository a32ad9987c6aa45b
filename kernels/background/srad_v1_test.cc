#include "kernels/background/srad_v1.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{512, 1, 1};

// The number before each, and the one behind it; at the ends the same.
struct Neighbours {
  explicit Neighbours(uint32_t count) : before(count), behind(count) {
    for (uint32_t i = 0; i < count; ++i) {
      before[i] = i == 0 ? 0 : i - 1;
      behind[i] = i + 1 == count ? i : i + 1;
    }
  }
  std::vector<uint32_t> before, behind;
};

struct Diffusion {
  Diffusion(uint32_t row_count, uint32_t column_count)
      : rows(row_count),
        columns(column_count),
        image(row_count * column_count),
        results(5, std::vector<float>(image.size(), -9.0f)) {
    std::mt19937 random(row_count);
    for (float& x : image) x = 0.5f + static_cast<float>(random() % 1000) / 500;
  }
  SradV1Args args() {
    return {ReadOnly(image),
            Writable(results[0]),
            Writable(results[1]),
            Writable(results[2]),
            Writable(results[3]),
            Writable(results[4]),
            ReadOnly(rows.before),
            ReadOnly(rows.behind),
            ReadOnly(columns.before),
            ReadOnly(columns.behind),
            0.3f};
  }
  Dim3 grid() const {
    return {static_cast<uint32_t>(image.size() + 511) / 512, 1, 1};
  }

  Neighbours rows, columns;
  std::vector<float> image;
  // Coefficients, north, south, west, east.
  std::vector<std::vector<float>> results;
};

TEST(SradV1Extract, UndoesTheLogarithm) {
  for (const uint32_t pixels : {1u, 512u, 1300u}) {
    std::vector<float> image(pixels);
    for (uint32_t i = 0; i < pixels; ++i) {
      image[i] = static_cast<float>(i % 256);
    }
    const SradV1ExtractArgs args{Writable(image)};
    const Dim3 grid{(pixels + 511) / 512, 1, 1};
    EXPECT_EQ(srad_v1_extract_info.validate({grid, kBlock}, &args), nullptr);
    ASSERT_EQ(RunGrid(srad_v1_extract_info, grid, kBlock, args, {.workers = 2})
                  .status,
              simt::kFailNone);
    for (uint32_t i = 0; i < pixels; ++i) {
      ASSERT_NEAR(255 * std::log(image[i]), i % 256, 1e-3) << i;
    }
  }
}

TEST(SradV1Extract, ShapesThatDoNotFitFailAndTouchNothing) {
  std::vector<float> image(600, 7.0f);
  const SradV1ExtractArgs args{Writable(image)};
  EXPECT_EQ(RunGrid(srad_v1_extract_info, {2, 1, 1}, {256, 1, 1}, args).status,
            simt::kFailBadShape);
  EXPECT_NE(srad_v1_extract_info.check_shape({{2, 1, 1}, {256, 1, 1}}),
            nullptr);
  EXPECT_NE(srad_v1_extract_info.validate({{1, 1, 1}, kBlock}, &args), nullptr);
  EXPECT_EQ(image, std::vector<float>(600, 7.0f));
}

TEST(SradV1, TakesDifferencesAndCoefficients) {
  for (const auto& [rows, columns] :
       {std::pair{1u, 1u}, std::pair{16u, 32u}, std::pair{37u, 50u}}) {
    Diffusion diffusion(rows, columns);
    const SradV1Args args = diffusion.args();
    EXPECT_EQ(srad_v1_info.validate({diffusion.grid(), kBlock}, &args),
              nullptr);
    ASSERT_EQ(
        RunGrid(srad_v1_info, diffusion.grid(), kBlock, args, {.workers = 2})
            .status,
        simt::kFailNone);
    const std::vector<float>& image = diffusion.image;
    const std::vector<double> coefficients = reference::SradCoefficients(
        std::vector<double>(image.begin(), image.end()), columns, rows, 0.3);
    for (uint32_t i = 0; i < image.size(); ++i) {
      ASSERT_NEAR(diffusion.results[0][i], coefficients[i], 1e-5) << i;
      const uint32_t row = i % rows;
      const uint32_t column = i / rows;
      // A pixel at the border has no difference to itself.
      EXPECT_EQ(diffusion.results[1][i],
                row > 0 ? image[i - 1] - image[i] : 0.0f);
      EXPECT_EQ(diffusion.results[2][i],
                row + 1 < rows ? image[i + 1] - image[i] : 0.0f);
      EXPECT_EQ(diffusion.results[3][i],
                column > 0 ? image[i - rows] - image[i] : 0.0f);
      EXPECT_EQ(diffusion.results[4][i],
                column + 1 < columns ? image[i + rows] - image[i] : 0.0f);
    }
  }
}

TEST(SradV1, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Diffusion diffusion(20, 30);
  const SradV1Args good = diffusion.args();
  std::vector<SradV1Args> bad(10, good);
  bad[0].image.size -= 1;
  bad[1].coefficients.size -= 1;
  bad[2].north.size -= 1;
  bad[3].south.size -= 1;
  bad[4].west.size -= 1;
  bad[5].east.size -= 1;
  bad[6].row_below.size -= 1;
  bad[7].column_right.size -= 1;
  bad[8].row_above.size = bad[8].row_below.size = 21;
  bad[9].column_left.size = bad[9].column_right.size = uint64_t{1} << 60;
  const Dim3 grid = diffusion.grid();
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(srad_v1_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(srad_v1_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(srad_v1_info, grid, {256, 1, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(srad_v1_info.validate({{1, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(srad_v1_info.validate({grid, kBlock}, &good), nullptr);
  EXPECT_EQ(diffusion.results[0], std::vector<float>(600, -9.0f));
}

TEST(SradV1, ANeighbourOutsideOfTheImageFails) {
  for (const auto member : {&Diffusion::rows, &Diffusion::columns}) {
    for (const auto list : {&Neighbours::before, &Neighbours::behind}) {
      Diffusion diffusion(20, 30);
      (diffusion.*member.*list)[7] = 30;
      EXPECT_EQ(
          RunGrid(srad_v1_info, diffusion.grid(), kBlock, diffusion.args())
              .status,
          kSradV1BadNeighbour);
    }
  }
}

}  // namespace
}  // namespace carillon::kernels
