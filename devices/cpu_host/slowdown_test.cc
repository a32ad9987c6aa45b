#include "devices/cpu_host/slowdown.h"

#include <gtest/gtest.h>

namespace carillon::cpu_host {
namespace {

TEST(SlowdownTest, NothingIsSaidBeforeTheTenthDuration) {
  Slowdown slowdown;
  for (int i = 0; i < 9; ++i) slowdown.Add(1000);
  EXPECT_EQ(slowdown.permille(), 0u);
  slowdown.Add(1000);
  EXPECT_EQ(slowdown.permille(), 1000u);
}

TEST(SlowdownTest, ThreeTimesAsLongIsThreeThousandPermilleAndGoesAwayAgain) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.Add(1'000'000);
  for (uint32_t i = 0; i < Slowdown::kRecent; ++i) slowdown.Add(3'000'000);
  EXPECT_NEAR(static_cast<double>(slowdown.permille()), 3000, 100);
  for (uint32_t i = 0; i < Slowdown::kRecent; ++i) slowdown.Add(1'000'000);
  EXPECT_EQ(slowdown.permille(), 1000u);
}

TEST(SlowdownTest, OneLongAndOneShortDurationChangeNothing) {
  Slowdown slowdown;
  for (int i = 0; i < 100; ++i) slowdown.Add(1'000'000);
  slowdown.Add(50'000'000);
  slowdown.Add(1'000);
  EXPECT_EQ(slowdown.permille(), 1000u);
}

TEST(SlowdownTest, AFasterTenthThatComesLaterCounts) {
  Slowdown slowdown;
  for (int i = 0; i < 90; ++i) slowdown.Add(2'000'000);
  for (int i = 0; i < 30; ++i) slowdown.Add(1'000'000);
  for (uint32_t i = 0; i < Slowdown::kRecent; ++i) slowdown.Add(2'000'000);
  EXPECT_NEAR(static_cast<double>(slowdown.permille()), 2000, 70);
}

}  // namespace
}  // namespace carillon::cpu_host
