#include "kernels/background/srad_v2.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kernels/background/edge_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{16, 16, 1};

struct Planes {
  explicit Planes(size_t pixels)
      : image(pixels), c(pixels), n(pixels), s(pixels), w(pixels), e(pixels) {
    std::mt19937 random(15);
    for (float& x : image) x = 0.5f + static_cast<float>(random() % 1000) / 500;
  }
  SradV2FirstArgs first(uint32_t rows, uint32_t columns) {
    return {ReadOnly(image), Writable(c), Writable(n), Writable(s), Writable(w),
            Writable(e),     rows,        columns,     0.3f};
  }
  SradV2SecondArgs second(uint32_t rows, uint32_t columns) {
    return {Writable(image), ReadOnly(c), ReadOnly(n), ReadOnly(s), ReadOnly(w),
            ReadOnly(e),     rows,        columns,     0.5f};
  }
  std::vector<float> image, c, n, s, w, e;
};

TEST(SradV2, DiffusesAsTheDefinitionDoes) {
  for (const auto& [rows, columns] :
       {std::pair{16u, 16u}, std::pair{32u, 48u}, std::pair{64u, 16u}}) {
    Planes planes(rows * columns);
    std::vector<double> expected(planes.image.begin(), planes.image.end());
    // One block more than needed does no harm.
    const Dim3 grid{columns / 16 + 1, rows / 16, 1};
    for (int iteration = 0; iteration < 3; ++iteration) {
      const SradV2FirstArgs first = planes.first(rows, columns);
      const SradV2SecondArgs second = planes.second(rows, columns);
      EXPECT_EQ(srad_v2_1_info.validate({grid, kBlock}, &first), nullptr);
      EXPECT_EQ(srad_v2_2_info.validate({grid, kBlock}, &second), nullptr);
      ASSERT_EQ(
          RunGrid(srad_v2_1_info, grid, kBlock, first, {.workers = 2}).status,
          simt::kFailNone);
      ASSERT_EQ(
          RunGrid(srad_v2_2_info, grid, kBlock, second, {.workers = 2}).status,
          simt::kFailNone);
      expected = reference::SradDiffused(expected, rows, columns, 0.3f, 0.5f);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(planes.image[i], expected[i], 1e-3)
            << rows << "x" << columns << ", " << iteration << ": " << i;
      }
    }
  }
}

template <class Args>
void ExpectRefused(const simt::KernelInfo& kernel, const Args& good) {
  std::vector<Args> bad(9, good);
  bad[0].image.size -= 1;
  bad[1].coefficients.size -= 1;
  bad[2].north.size -= 1;
  bad[3].south.size -= 1;
  bad[4].west.size -= 1;
  bad[5].east.size -= 1;
  bad[6].rows = 15;
  bad[7].columns = 24;
  bad[8].rows = bad[8].columns = 0xfffffff0;
  const Dim3 grid{2, 1, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(kernel, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(kernel.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(kernel, grid, {16, 8, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(kernel.check_shape({grid, {16, 8, 1}}), nullptr);
  EXPECT_NE(kernel.validate({{1, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(kernel.validate({grid, kBlock}, &good), nullptr);
}

TEST(SradV2, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Planes planes(16 * 32);
  const Planes before = planes;
  ExpectRefused(srad_v2_1_info, planes.first(16, 32));
  ExpectRefused(srad_v2_2_info, planes.second(16, 32));
  EXPECT_EQ(planes.image, before.image);
  EXPECT_EQ(planes.c, before.c);
  EXPECT_EQ(planes.e, before.e);
}

}  // namespace
}  // namespace carillon::kernels
