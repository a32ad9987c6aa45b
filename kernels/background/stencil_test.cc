#include "kernels/background/stencil.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kBlock{32, 4, 1};

Dim3 GridFor(const Dim3& size) {
  return {(size.x + 63) / 64, (size.y + 3) / 4, 1};
}

TEST(Stencil, StepsAsTheDefinitionDoes) {
  std::mt19937 random(4);
  for (const Dim3& size : {Dim3{1, 1, 1}, Dim3{3, 3, 3}, Dim3{64, 4, 2},
                           Dim3{65, 5, 4}, Dim3{130, 11, 6}}) {
    std::vector<float> in(size.count()), out(size.count(), -1.0f);
    for (float& x : in) x = static_cast<float>(random() % 1000) / 100;
    const StencilArgs args{ReadOnly(in), Writable(out), size.x, size.y,
                           size.z,       0.5f,          0.25f};
    EXPECT_EQ(stencil_info.validate({GridFor(size), kBlock}, &args), nullptr);
    ASSERT_EQ(RunGrid(stencil_info, GridFor(size), kBlock, args, {.workers = 2})
                  .status,
              simt::kFailNone);
    const std::vector<double> expected =
        reference::StencilStep(in, size.x, size.y, size.z, 0.5, 0.25);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-4) << size.x << ": " << i;
    }
  }
}

// Six neighbours are on either side of each cell, so their mean is its value.
TEST(Stencil, AFieldThatGrowsEvenlyStaysAsItIs) {
  const Dim3 size{70, 9, 5};
  std::vector<float> in, out(size.count());
  for (uint32_t z = 0; z < size.z; ++z) {
    for (uint32_t y = 0; y < size.y; ++y) {
      for (uint32_t x = 0; x < size.x; ++x) {
        in.push_back(static_cast<float>(2 * x) - static_cast<float>(3 * y) +
                     static_cast<float>(5 * z));
      }
    }
  }
  const StencilArgs args{ReadOnly(in), Writable(out), size.x, size.y,
                         size.z,       -0.25f,        0.125f};
  ASSERT_EQ(RunGrid(stencil_info, GridFor(size), kBlock, args).status,
            simt::kFailNone);
  EXPECT_EQ(out, in);
}

TEST(Stencil, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> in(70 * 6 * 3), out(70 * 6 * 3, -1.0f);
  const StencilArgs good{ReadOnly(in), Writable(out), 70, 6, 3, 1.0f, 1.0f};
  std::vector<StencilArgs> bad(5, good);
  bad[0].in.size -= 1;
  bad[1].out.size -= 1;
  bad[2].width = 0xffffffff;
  bad[3].height = 7;
  bad[4].depth = 0xffffffff;
  const Dim3 grid{2, 2, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(stencil_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(stencil_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(stencil_info, grid, {32, 8, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(stencil_info.check_shape({grid, {32, 8, 1}}), nullptr);
  EXPECT_NE(stencil_info.validate({{1, 2, 1}, kBlock}, &good), nullptr);
  EXPECT_NE(stencil_info.validate({{2, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(stencil_info.validate({grid, kBlock}, &good), nullptr);
  EXPECT_EQ(out, std::vector<float>(70 * 6 * 3, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels
