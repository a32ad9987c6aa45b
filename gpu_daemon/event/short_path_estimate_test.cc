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

TEST_F(ShortPathEstimateTest, AKernelIsShortUntilEverySampleWasLong) {
  EXPECT_TRUE(Takes());
  for (int i = 0; i < 3; ++i) estimate_.Add(kLong);
  EXPECT_TRUE(Takes());
  estimate_.Add(kLong);
  EXPECT_FALSE(Takes());
}

TEST_F(ShortPathEstimateTest, BeingDescheduledOnceDoesNotCount) {
  estimate_.Add(1000);
  for (int i = 0; i < 3; ++i) estimate_.Add(kLong);
  EXPECT_TRUE(Takes());
  estimate_.Add(kLong);  // the short one is forgotten
  EXPECT_FALSE(Takes());
  estimate_.Add(ShortPathEstimate::kMaxDuration);
  EXPECT_TRUE(Takes());
}

TEST_F(ShortPathEstimateTest, AKernelThatNothingBoundsIsNeverShort) {
  kernel_.unbounded = true;
  EXPECT_FALSE(Takes());
}

TEST_F(ShortPathEstimateTest, TheFirstLaunchesAreTimedAndThenOneInSixteen) {
  for (uint64_t nth = 1; nth <= 64; ++nth) {
    EXPECT_EQ(estimate_.WantsSample(nth), nth <= 4 || nth % 16 == 1) << nth;
  }
}

}  // namespace
}  // namespace carillon::gpud
