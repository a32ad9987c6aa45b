#include "kernels/background/kmn.cuh"

#include <gtest/gtest.h>

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

const Dim3 kBlock{256, 1, 1};

TEST(FigKmn, EveryPointGetsItsNearestCentre) {
  std::mt19937 random(11);
  struct Case {
    uint32_t points, features, clusters;
    Dim3 grid;
  };
  for (const auto& [points, features, clusters, grid] :
       {Case{1, 1, 1, {1, 1, 1}}, Case{255, 3, 2, {1, 1, 1}},
        Case{1000, 34, 5, {2, 2, 1}}, Case{700, 7, 9, {5, 3, 1}}}) {
    // Small integers: distances are exact, and ties happen.
    std::vector<float> by_point(points * features);
    std::vector<float> centres(clusters * features);
    for (float& x : by_point) x = static_cast<float>(random() % 4);
    for (float& x : centres) x = static_cast<float>(random() % 4);
    std::vector<float> by_feature(points * features, -1.0f);
    std::vector<uint32_t> membership(points, 77);
    ASSERT_EQ(RunGrid(kmn_invert_info, grid, kBlock,
                      KmnInvertArgs{ReadOnly(by_point), Writable(by_feature),
                                    points, features},
                      {.workers = 2})
                  .status,
              simt::kFailNone);
    for (uint32_t p = 0; p < points; ++p) {
      for (uint32_t f = 0; f < features; ++f) {
        ASSERT_EQ(by_feature[f * points + p], by_point[p * features + f]);
      }
    }
    const KmnPointArgs args{ReadOnly(by_feature),
                            ReadOnly(centres),
                            Writable(membership),
                            points,
                            features,
                            clusters};
    EXPECT_EQ(kmn_point_info.validate({grid, kBlock}, &args), nullptr);
    ASSERT_EQ(
        RunGrid(kmn_point_info, grid, kBlock, args, {.workers = 2}).status,
        simt::kFailNone);
    EXPECT_EQ(membership, reference::KmnNearest(by_point, centres, features));
  }
}

TEST(FigKmn, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<float> in(300 * 4), out(300 * 4, -1.0f), centres(5 * 4);
  std::vector<uint32_t> membership(300, 77);
  const KmnInvertArgs invert{ReadOnly(in), Writable(out), 300, 4};
  const KmnPointArgs point{
      ReadOnly(in), ReadOnly(centres), Writable(membership), 300, 4, 5};
  std::vector<KmnInvertArgs> bad_invert(4, invert);
  bad_invert[0].by_point.size -= 1;
  bad_invert[1].by_feature.size -= 1;
  bad_invert[2].points = 301;
  bad_invert[3].points = bad_invert[3].features = 0xffffffff;
  std::vector<KmnPointArgs> bad_point(5, point);
  bad_point[0].by_feature.size -= 1;
  bad_point[1].centres.size -= 1;
  bad_point[2].membership.size -= 1;
  bad_point[3].features = 5;
  bad_point[4].clusters = 0xffffffff;
  const Dim3 grid{2, 1, 1};
  for (const KmnInvertArgs& bad : bad_invert) {
    EXPECT_EQ(RunGrid(kmn_invert_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(kmn_invert_info.validate({grid, kBlock}, &bad), nullptr);
  }
  for (const KmnPointArgs& bad : bad_point) {
    EXPECT_EQ(RunGrid(kmn_point_info, grid, kBlock, bad).status,
              simt::kFailBadArguments);
    EXPECT_NE(kmn_point_info.validate({grid, kBlock}, &bad), nullptr);
  }
  const Dim3 narrow{128, 1, 1};
  EXPECT_EQ(RunGrid(kmn_invert_info, grid, narrow, invert).status,
            simt::kFailBadShape);
  EXPECT_EQ(RunGrid(kmn_point_info, grid, narrow, point).status,
            simt::kFailBadShape);
  EXPECT_NE(kmn_point_info.check_shape({grid, narrow}), nullptr);
  EXPECT_NE(kmn_point_info.validate({{1, 1, 1}, kBlock}, &point), nullptr);
  EXPECT_NE(kmn_invert_info.validate({{1, 1, 1}, kBlock}, &invert), nullptr);
  EXPECT_EQ(kmn_point_info.validate({grid, kBlock}, &point), nullptr);
  EXPECT_EQ(kmn_invert_info.validate({grid, kBlock}, &invert), nullptr);
  EXPECT_EQ(out, std::vector<float>(300 * 4, -1.0f));
  EXPECT_EQ(membership, std::vector<uint32_t>(300, 77));
}

}  // namespace
}  // namespace carillon::kernels
