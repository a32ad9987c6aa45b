#include "devices/fpga/punctuality.h"

#include <gtest/gtest.h>

namespace carillon::fpga {
namespace {

constexpr Nanoseconds kMs = 1'000'000;
constexpr Nanoseconds kStart = 7 * kMs;

TEST(Punctuality, AResultIsLateOnceTheNextFrameIsDue) {
  Punctuality punctuality(kStart, 500);  // 2 ms a frame
  EXPECT_EQ(punctuality.Due(0), kStart);
  EXPECT_EQ(punctuality.Due(3), kStart + 6 * kMs);
  EXPECT_EQ(punctuality.Add(0, kStart + 1).tardiness, 0u);
  EXPECT_EQ(punctuality.Add(1, kStart + 4 * kMs).tardiness, 0u);
  EXPECT_EQ(punctuality.Add(2, kStart + 6 * kMs + 1).tardiness, 1u);
  EXPECT_EQ(punctuality.Add(3, kStart + 20 * kMs).tardiness, 12 * kMs);
  EXPECT_EQ(punctuality.Add(4, kStart + 20 * kMs).tardiness, 10 * kMs);
}

TEST(Punctuality, JitterIsHowFarResultsAreFromThePeriodEitherWay) {
  Punctuality punctuality(kStart, 500);
  EXPECT_FALSE(punctuality.Add(0, kStart + 30 * kMs).jitter.has_value());
  EXPECT_EQ(punctuality.Add(1, kStart + 32 * kMs).jitter, 0u);
  EXPECT_EQ(punctuality.Add(2, kStart + 35 * kMs).jitter, 1 * kMs);
  EXPECT_EQ(punctuality.Add(3, kStart + 35 * kMs).jitter, 2 * kMs);
  // Frames 4 and 5 were dropped: the next result is expected three periods on.
  EXPECT_EQ(punctuality.Add(6, kStart + 41 * kMs).jitter, 0u);
}

// Frames at 3 a second are due at thirds of a second, not at a sum of rounded
// periods.
TEST(Punctuality, RoundingDoesNotAddUp) {
  const Punctuality punctuality(0, 3);
  EXPECT_EQ(punctuality.Due(1), 333'333'333u);
  EXPECT_EQ(punctuality.Due(3'000'000), 1'000'000 * 1'000 * kMs);
}

}  // namespace
}  // namespace carillon::fpga
