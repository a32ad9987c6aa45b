#include "tools/testbed/supervisor/restart_backoff.h"

#include <gtest/gtest.h>

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;

TEST(RestartBackoff, DoublesAndThenGivesUp) {
  RestartBackoff backoff({.first = milliseconds(100), .in_a_row = 5});
  for (const int wait : {100, 200, 400, 800, 1600}) {
    EXPECT_EQ(backoff.AfterFailure(milliseconds(0)), milliseconds(wait));
  }
  EXPECT_EQ(backoff.in_a_row(), 5);
  EXPECT_EQ(backoff.AfterFailure(milliseconds(0)), std::nullopt);
  EXPECT_EQ(backoff.AfterFailure(milliseconds(0)), std::nullopt);
}

TEST(RestartBackoff, StaysBelowItsLongestWait) {
  RestartBackoff backoff({.first = milliseconds(100),
                          .longest = milliseconds(5000),
                          .in_a_row = 1000});
  for (int i = 0; i < 6; ++i) backoff.AfterFailure(milliseconds(0));
  for (int i = 6; i < 1000; ++i) {
    EXPECT_EQ(backoff.AfterFailure(milliseconds(0)), milliseconds(5000));
  }
}

TEST(RestartBackoff, BeginsAnewAfterAProvenRun) {
  RestartBackoff backoff({.proven = milliseconds(10'000)});
  for (int i = 0; i < 5; ++i) backoff.AfterFailure(milliseconds(9'999));
  EXPECT_EQ(backoff.AfterFailure(milliseconds(9'999)), std::nullopt);
  EXPECT_EQ(backoff.AfterFailure(milliseconds(10'000)), milliseconds(100));
  EXPECT_EQ(backoff.in_a_row(), 1);
  EXPECT_EQ(backoff.AfterFailure(milliseconds(0)), milliseconds(200));
}

}  // namespace
}  // namespace carillon::testbed
