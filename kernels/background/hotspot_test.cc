#include "kernels/background/hotspot.cuh"

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

Dim3 GridFor(uint32_t rows, uint32_t columns) {
  return {(columns + 11) / 12, (rows + 11) / 12, 1};
}

TEST(Hotspot, StepsAsTheWholeChipDoes) {
  std::mt19937 random(21);
  for (const auto& [rows, columns] :
       {std::pair{1u, 1u}, std::pair{12u, 12u}, std::pair{13u, 11u},
        std::pair{16u, 25u}, std::pair{50u, 37u}}) {
    for (const uint32_t steps : {1u, 2u}) {
      const uint32_t cells = rows * columns;
      std::vector<float> power(cells), from(cells), to(cells, -1.0f);
      for (float& p : power) p = static_cast<float>(random() % 100) / 50;
      for (float& t : from) t = 320 + static_cast<float>(random() % 1000) / 50;
      const HotspotCoefficients by{0.1f, 1.1f, 0.7f, 0.01f};
      const HotspotArgs args{
          ReadOnly(power), ReadOnly(from), Writable(to),        rows,
          columns,         steps,          by.step_by_capacity, by.by_rx,
          by.by_ry,        by.by_rz};
      const Dim3 grid = GridFor(rows, columns);
      EXPECT_EQ(hotspot_info.validate({grid, kBlock}, &args), nullptr);
      ASSERT_EQ(
          RunGrid(hotspot_info, grid, kBlock, args, {.workers = 2}).status,
          simt::kFailNone);
      std::vector<double> expected(from.begin(), from.end());
      for (uint32_t step = 0; step < steps; ++step) {
        expected = reference::HotspotStep(power, expected, rows, columns, by);
      }
      for (uint32_t i = 0; i < cells; ++i) {
        ASSERT_NEAR(to[i], expected[i], 1e-3)
            << rows << "x" << columns << ", " << steps << ": " << i;
      }
    }
  }
}

TEST(Hotspot, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> power(20 * 30), from(20 * 30), to(20 * 30, -1.0f);
  const HotspotArgs good{ReadOnly(power),
                         ReadOnly(from),
                         Writable(to),
                         20,
                         30,
                         2,
                         0.1f,
                         1.0f,
                         1.0f,
                         0.1f};
  std::vector<HotspotArgs> bad(8, good);
  bad[0].power.size -= 1;
  bad[1].from.size -= 1;
  bad[2].to.size -= 1;
  bad[3].rows = 21;
  bad[4].columns = 0xffffffff;
  bad[5].steps = 0;
  bad[6].steps = 3;
  // Rows that an int cannot count, of no columns.
  bad[7].columns = 0;
  bad[7].rows = 0xffffffff;
  const Dim3 grid{3, 2, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(hotspot_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(hotspot_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(hotspot_info, grid, {16, 8, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(hotspot_info.check_shape({grid, {16, 8, 1}}), nullptr);
  EXPECT_NE(hotspot_info.validate({{2, 2, 1}, kBlock}, &good), nullptr);
  EXPECT_NE(hotspot_info.validate({{3, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(hotspot_info.validate({grid, kBlock}, &good), nullptr);
  EXPECT_EQ(to, std::vector<float>(20 * 30, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels
