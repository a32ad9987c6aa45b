#include "shm/testing/ring_pingpong.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace carillon::shm {
namespace {

class RingYardstickTest : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(OtherEnd, RingYardstickTest, testing::Bool(),
                         [](const auto& child_process) {
                           return child_process.param ? "Process" : "Thread";
                         });

TEST_P(RingYardstickTest, MeasurementsInAnyOrderCountEverySample) {
  auto yardstick =
      RingYardstick::Start({.child_process = GetParam(), .entries = 8});
  ASSERT_TRUE(yardstick.ok()) << yardstick.status();
  for (int round = 0; round < 2; ++round) {
    const auto spinning = (*yardstick)->RoundTrips(200);
    ASSERT_TRUE(spinning.ok()) << spinning.status();
    EXPECT_EQ(spinning->count(), 200u);
    EXPECT_GT(spinning->Percentile(0.5), 0u);
    const auto sleeping = (*yardstick)->SleepingRoundTrips(100);
    ASSERT_TRUE(sleeping.ok()) << sleeping.status();
    EXPECT_EQ(sleeping->count(), 100u);
    const auto futex = (*yardstick)->FutexRoundTrips(100);
    ASSERT_TRUE(futex.ok()) << futex.status();
    EXPECT_EQ(futex->count(), 100u);
    for (const uint32_t batch : {1u, 3u, 8u}) {
      const auto rate = (*yardstick)->EventsPerSecond(1001, batch);
      ASSERT_TRUE(rate.ok()) << rate.status();
      EXPECT_GT(*rate, 0);
    }
  }
}

TEST_P(RingYardstickTest, WhatCannotBeMeasuredIsRefused) {
  auto yardstick =
      RingYardstick::Start({.child_process = GetParam(), .entries = 8});
  ASSERT_TRUE(yardstick.ok()) << yardstick.status();
  for (const uint32_t batch : {0u, 9u}) {
    EXPECT_EQ((*yardstick)->EventsPerSecond(10, batch).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const int core : {-2, CPU_SETSIZE - 1, CPU_SETSIZE}) {
    EXPECT_EQ(
        RingYardstick::Start({.child_process = GetParam(), .device_core = core})
            .status()
            .code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(RingYardstickPinningTest, TheCallersCoresComeBackAfterAMeasurement) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  auto yardstick = RingYardstick::Start(
      {.entries = 8, .device_core = core, .gpud_core = core});
  ASSERT_TRUE(yardstick.ok()) << yardstick.status();
  EXPECT_TRUE((*yardstick)->RoundTrips(10).ok());
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace carillon::shm
