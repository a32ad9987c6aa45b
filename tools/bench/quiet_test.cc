#include "tools/bench/quiet.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;

// The looks that it takes where others use these shares, one after another.
std::vector<milliseconds> Looks(double max_foreign,
                                const std::vector<double>& shares) {
  std::vector<milliseconds> looks;
  WaitForQuiet(max_foreign, std::chrono::hours(1), [&](milliseconds time) {
    looks.push_back(time);
    return shares.at(looks.size() - 1);
  });
  return looks;
}

TEST(WaitForQuietTest, AGlanceIsEnoughWhereNobodyElseIsThere) {
  EXPECT_EQ(Looks(0.1, {0}), (std::vector{milliseconds(20)}));
}

TEST(WaitForQuietTest, OthersAreMeasuredForLonger) {
  // Little in a glance is no measurement.
  EXPECT_EQ(Looks(0.1, {0.05, 0.05}),
            (std::vector{milliseconds(20), milliseconds(300)}));
  EXPECT_EQ(Looks(0.1, {0.5, 0.2, 0.1}).size(), 3u);
}

TEST(WaitForQuietTest, PatienceEnds) {
  int looks = 0;
  WaitForQuiet(0.1, milliseconds(0), [&](milliseconds) { return ++looks; });
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace carillon::bench
