#include "kernels/background/lbm.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
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

constexpr float kOmega = 1.25f;

struct Fluid {
  // One of `walls` cells is solid; 0: none.
  Fluid(const Dim3& box, uint32_t walls)
      : size(box),
        from(19 * box.count()),
        to(19 * box.count(), -1.0f),
        solid(box.count()) {
    std::mt19937 random(box.x);
    for (size_t i = 0; i < from.size(); ++i) {
      const float weight = i < solid.size() ? 12 : i < 7 * solid.size() ? 2 : 1;
      from[i] =
          weight * (0.9f + static_cast<float>(random() % 200) / 1000) / 36;
    }
    for (uint8_t& cell : solid) {
      cell = static_cast<uint8_t>(walls != 0 && random() % walls == 0);
    }
  }
  LbmArgs args() {
    return {ReadOnly(from), Writable(to), ReadOnly(solid), size.x,
            size.y,         size.z,       kOmega};
  }
  simt::GridResult Step(uint32_t block) {
    const Dim3 grid{(size.x + block - 1) / block, size.y, size.z};
    const LbmArgs given = args();
    EXPECT_EQ(lbm_info.validate({grid, {block, 1, 1}}, &given), nullptr);
    return RunGrid(lbm_info, grid, {block, 1, 1}, given, {.workers = 2});
  }

  Dim3 size;
  std::vector<float> from, to;
  std::vector<uint8_t> solid;
};

double Sum(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Lbm, StepsAsTheDefinitionDoes) {
  for (const Dim3& size :
       {Dim3{1, 1, 1}, Dim3{5, 4, 3}, Dim3{33, 2, 7}, Dim3{40, 6, 1}}) {
    for (const uint32_t walls : {0u, 4u}) {
      Fluid fluid(size, walls);
      ASSERT_EQ(fluid.Step(32).status, simt::kFailNone);
      const std::vector<double> expected = reference::LbmStep(
          fluid.from, fluid.solid, size.x, size.y, size.z, kOmega);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(fluid.to[i], expected[i], 1e-6) << size.x << ": " << i;
      }
    }
  }
}

TEST(Lbm, KeepsMassBetweenWalls) {
  Fluid fluid({24, 10, 6}, 5);
  const double mass = Sum(fluid.from);
  for (int step = 0; step < 20; ++step) {
    ASSERT_EQ(fluid.Step(24).status, simt::kFailNone);
    fluid.from.swap(fluid.to);
  }
  EXPECT_NEAR(Sum(fluid.from), mass, 1e-6 * mass);
}

TEST(Lbm, KeepsMomentumWithoutWalls) {
  Fluid fluid({20, 8, 5}, 0);
  const auto momentum_x = [&fluid] {
    double sum = 0;
    const size_t cells = fluid.solid.size();
    for (const size_t i : {1, 7, 9, 11, 13}) {
      for (size_t cell = 0; cell < cells; ++cell) {
        sum += fluid.from[i * cells + cell];
        sum -= fluid.from[(i + 1) * cells + cell];
      }
    }
    return sum;
  };
  const double before = momentum_x();
  for (int step = 0; step < 10; ++step) {
    ASSERT_EQ(fluid.Step(32).status, simt::kFailNone);
    fluid.from.swap(fluid.to);
  }
  EXPECT_NE(before, 0.0);
  EXPECT_NEAR(momentum_x(), before, 1e-3);
}

TEST(Lbm, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Fluid fluid({8, 4, 2}, 3);
  const LbmArgs good = fluid.args();
  std::vector<LbmArgs> bad(7, good);
  bad[0].from.size -= 1;
  bad[1].to.size -= 1;
  bad[2].solid.size -= 1;
  bad[3].width = 9;
  bad[4].height = 0xffffffff;
  bad[5].depth = 1u << 20;
  // Cells that 32 bits cannot count.
  bad[6].width = bad[6].height = bad[6].depth = 1u << 16;
  const Dim3 grid{1, 4, 2};
  const Dim3 block{32, 1, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(lbm_info, grid, block, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(lbm_info.validate({grid, block}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(lbm_info, grid, {8, 2, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(lbm_info.check_shape({grid, {8, 2, 1}}), nullptr);
  EXPECT_NE(lbm_info.validate({grid, {7, 1, 1}}, &good), nullptr);
  EXPECT_NE(lbm_info.validate({{1, 3, 2}, block}, &good), nullptr);
  EXPECT_NE(lbm_info.validate({{1, 4, 1}, block}, &good), nullptr);
  EXPECT_EQ(lbm_info.validate({grid, block}, &good), nullptr);
  EXPECT_EQ(fluid.to, std::vector<float>(19 * 64, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels
