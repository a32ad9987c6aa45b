#include "kernels/background/sc.cuh"

#include <gtest/gtest.h>

#include <algorithm>
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

struct Stream {
  Stream(uint32_t count, uint32_t of_dimensions, uint32_t of_centres)
      : dimensions(of_dimensions),
        centres(of_centres),
        coordinates(count * of_dimensions),
        table(count, 0xffffffff),
        gains(count * (of_centres + 1)),
        switches(count) {
    std::mt19937 random(count);
    // Small integers: every distance and sum is exact.
    for (float& x : coordinates) x = static_cast<float>(random() % 8);
    // The centres lie anywhere, in no order.
    std::vector<uint32_t> open;
    while (open.size() < of_centres) {
      const uint32_t point = random() % count;
      if (table[point] != 0xffffffff) continue;
      table[point] = static_cast<uint32_t>(open.size());
      open.push_back(point);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t centre = open[random() % of_centres];
      const float weight = static_cast<float>(1 + random() % 3);
      points.push_back({weight, weight * Distance(i, centre), centre});
    }
    for (float& x : gains) x = static_cast<float>(random() % 16);
  }
  float Distance(uint32_t a, uint32_t b) const {
    return reference::ScDistance(coordinates, dimensions, a, b);
  }
  ScArgs args(uint32_t candidate) {
    return {ReadOnly(points),
            ReadOnly(coordinates),
            ReadOnly(table),
            Writable(gains),
            Writable(switches),
            dimensions,
            centres,
            candidate};
  }

  uint32_t dimensions, centres;
  std::vector<ScPoint> points;
  std::vector<float> coordinates;
  std::vector<uint32_t> table;
  std::vector<float> gains;
  std::vector<uint8_t> switches;
};

TEST(Sc, EveryPointWeighsTheCandidateAgainstItsCentre) {
  for (const uint32_t count : {4u, 512u, 1100u}) {
    Stream stream(count, 6, 3);
    const Stream before = stream;
    const uint32_t candidate = count / 2;
    const Dim3 grid{2, 2, 1};
    const ScArgs args = stream.args(candidate);
    EXPECT_EQ(sc_info.validate({grid, kBlock}, &args), nullptr);
    ASSERT_EQ(RunGrid(sc_info, grid, kBlock, args, {.workers = 2}).status,
              simt::kFailNone);
    const reference::ScResult expected =
        reference::ScGains(before.points, before.coordinates, before.table,
                           before.gains, 6, 3, candidate);
    EXPECT_EQ(stream.switches, expected.switches) << count;
    EXPECT_EQ(stream.gains, expected.gains) << count;
    EXPECT_TRUE(std::ranges::count(stream.switches, 0) > 0);
    EXPECT_TRUE(std::ranges::count(stream.switches, 1) > 0);
  }
}

TEST(Sc, APointThatNamesWhatIsNotThereFails) {
  for (int wrong = 0; wrong < 3; ++wrong) {
    Stream stream(20, 2, 2);
    // The candidate is the farthest of all: nothing switches.
    for (ScPoint& point : stream.points) point.cost = 0;
    if (wrong == 0) stream.points[7].centre = 20;
    if (wrong == 1) stream.table[stream.points[7].centre] = 2;
    if (wrong == 2) stream.table[stream.points[7].centre] = 0xffffffff;
    EXPECT_EQ(RunGrid(sc_info, {1, 1, 1}, kBlock, stream.args(0)).status,
              kScBadPoint)
        << wrong;
  }
}

TEST(Sc, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Stream stream(600, 5, 4);
  const Stream before = stream;
  const ScArgs good = stream.args(1);
  std::vector<ScArgs> bad(8, good);
  bad[0].points.size += 1;
  bad[1].coordinates.size -= 1;
  bad[2].centre_table.size -= 1;
  bad[3].gains.size -= 1;
  bad[4].switches.size -= 1;
  bad[5].dimensions = 0xffffffff;
  bad[6].centres = 0xffffffff;
  bad[7].candidate = 600;
  const Dim3 grid{2, 1, 1};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(sc_info, grid, kBlock, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(sc_info.validate({grid, kBlock}, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(RunGrid(sc_info, grid, {256, 1, 1}, good).status,
            simt::kFailBadShape);
  EXPECT_NE(sc_info.check_shape({grid, {256, 1, 1}}), nullptr);
  EXPECT_NE(sc_info.validate({{1, 1, 1}, kBlock}, &good), nullptr);
  EXPECT_EQ(sc_info.validate({grid, kBlock}, &good), nullptr);
  EXPECT_EQ(stream.gains, before.gains);
  EXPECT_EQ(stream.switches, before.switches);
}

}  // namespace
}  // namespace carillon::kernels
