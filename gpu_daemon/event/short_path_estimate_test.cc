#include "gpu_daemon/event/short_path_estimate.h"

#include <gtest/gtest.h>

namespace carillon::gpud {
namespace {

constexpr Nanoseconds kLong = ShortPathEstimate::kMaxDuration + 1;

class ShortPathEstimateTest : public testing::Test {
 protected:
  bool Takes() const {
    return estimate_.Takes(
        {.kernel = &kernel_, .grid = {1, 1, 1}, .block = {32, 1, 1}});
  }

  simt::KernelInfo kernel_{.name = "any", .summary = "", .params = {}};
  ShortPathEstimate estimate_;
};

TEST_F(ShortPathEstimateTest, TheFirstLongRunIsTheLastAndToldOnce) {
  EXPECT_TRUE(Takes());
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(estimate_.Add(ShortPathEstimate::kMaxDuration));
  }
  EXPECT_TRUE(Takes());
  EXPECT_TRUE(estimate_.Add(kLong));
  EXPECT_FALSE(Takes());
  EXPECT_FALSE(estimate_.Add(kLong));
  EXPECT_FALSE(estimate_.Add(1));
  EXPECT_FALSE(Takes());
}

TEST_F(ShortPathEstimateTest, AKernelThatNothingBoundsIsNeverShort) {
  kernel_.unbounded = true;
  EXPECT_FALSE(Takes());
}

}  // namespace
}  // namespace carillon::gpud
