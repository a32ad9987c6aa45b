#include "base/log_limit.h"

#include <gtest/gtest.h>

namespace carillon {
namespace {

TEST(LogLimit, PassesAFewLinesThenOneASecondThatCountsTheRest) {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  LogLimit limit;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(limit.Take(kSecond), 1u);
  for (int i = 0; i < 99; ++i) EXPECT_EQ(limit.Take(kSecond * 2 - 1), 0u);
  EXPECT_EQ(limit.Take(kSecond * 2), 100u);
  EXPECT_EQ(limit.Take(kSecond * 2 + 1), 0u);
  EXPECT_EQ(limit.Take(kSecond * 9), 2u);
}

}  // namespace
}  // namespace carillon
