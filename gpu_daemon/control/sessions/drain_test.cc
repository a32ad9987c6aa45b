#include "gpu_daemon/control/sessions/drain.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace carillon::gpud {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

bool Never() { return false; }

TEST(Drain, ACallerGetsTheTimeThatItAsksForWithinTheLimits) {
  EXPECT_EQ(DrainLimit(0), kDefaultDrain);
  EXPECT_EQ(DrainLimit(1), milliseconds(1));
  EXPECT_EQ(DrainLimit(60'000), milliseconds(60'000));
  EXPECT_EQ(DrainLimit(60'001), kMaxDrain);
  EXPECT_EQ(DrainLimit(UINT32_MAX), kMaxDrain);
}

TEST(Drain, EndsAsSoonAsNothingIsInFlight) {
  int looks = 0;
  EXPECT_EQ(WaitUntilDrained([&] { return ++looks == 3; }, hours(1), Never),
            DrainOutcome::kDrained);
  EXPECT_EQ(looks, 3);
}

TEST(Drain, WhatHasEndedCountsHoweverLateTheLook) {
  EXPECT_EQ(WaitUntilDrained([] { return true; }, milliseconds(0),
                             [] { return true; }),
            DrainOutcome::kDrained);
}

TEST(Drain, EndsWithItsTime) {
  EXPECT_EQ(WaitUntilDrained(Never, milliseconds(1), Never),
            DrainOutcome::kTimedOut);
}

TEST(Drain, EndsWithItsCaller) {
  int looks = 0;
  EXPECT_EQ(WaitUntilDrained(Never, hours(1), [&] { return ++looks == 3; }),
            DrainOutcome::kGivenUp);
}

}  // namespace
}  // namespace carillon::gpud
