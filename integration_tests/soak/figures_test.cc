#include "integration_tests/soak/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "integration_tests/soak/death_watch.h"
#include "integration_tests/soak/resource_use.h"
#include "tools/testbed/ledger/test_timeline.h"

namespace carillon::soak {
namespace {

using ledger::TestTimeline;
using shm::Step;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Nanoseconds kMs = 1'000'000;

class FiguresTest : public ::testing::Test {
 protected:
  FiguresTest()
      : device_(timeline_.AddDevice("nic0", 200)),
        ring_(timeline_.Register(device_, 3)) {}

  // Adds `events` every 10 ms, from `from` to `to`.
  void LiveThrough(Nanoseconds from, Nanoseconds to, int events) {
    for (Nanoseconds time = from; time < to; time += 10 * kMs) {
      timeline_.now = time;
      for (int i = 0; i < events; ++i) timeline_.Live(ring_);
    }
  }

  TestTimeline timeline_;
  size_t device_;
  TestTimeline::Ring ring_;
};

TEST_F(FiguresTest, GpudClosesTheSessionOfTheDead) {
  const Death death{200, timeline_.now + 500};
  EXPECT_EQ(UntilGpudClosed(timeline_.recordings, death), std::nullopt);
  timeline_.now = death.time_ns + 6000;
  timeline_.Tell(TestTimeline::kGpud,
                 {.sequence = 201, .step = Step::kSessionEnded});
  timeline_.Tell(TestTimeline::kGpud,
                 {.sequence = 200, .step = Step::kSessionEnded});
  EXPECT_EQ(UntilGpudClosed(timeline_.recordings, death), 8000u);
}

TEST_F(FiguresTest, DevicesKnowOfTheirOwnGpudsDeath) {
  const size_t other = timeline_.AddDevice("nic1", 300);
  const Death death{TestTimeline::kGpudPid, timeline_.now};
  EXPECT_THAT(UntilDevicesKnew(timeline_.recordings, death), IsEmpty());
  timeline_.Tell(device_, {.sequence = death.pid, .step = Step::kClosed});
  timeline_.Tell(other, {.sequence = death.pid + 1, .step = Step::kClosed});
  timeline_.Tell(other, {.sequence = death.pid, .step = Step::kClosed});
  EXPECT_THAT(UntilDevicesKnew(timeline_.recordings, death),
              ElementsAre(1000u, 3000u));
}

TEST_F(FiguresTest, TheFirstEndIsTheNextGpuds) {
  const Death death{TestTimeline::kGpudPid, timeline_.now};
  timeline_.Live(ring_);
  EXPECT_EQ(UntilFirstEnd(timeline_.recordings, death), std::nullopt);
  const size_t next = timeline_.Add("gpud", 101);
  timeline_.now = death.time_ns + 150 * kMs;
  TestTimeline::Ring again = ring_;
  again.gpud = next;
  timeline_.End(again, 2);
  timeline_.End(again, 3);
  EXPECT_EQ(UntilFirstEnd(timeline_.recordings, death), 150 * kMs + 1000);
}

TEST_F(FiguresTest, TheFirstSessionIsTheNextGpuds) {
  const Death death{TestTimeline::kGpudPid, timeline_.now};
  timeline_.AddDevice("nic1", 300);
  EXPECT_EQ(UntilFirstSession(timeline_.recordings, death), std::nullopt);
  const size_t next = timeline_.Add("gpud", 101);
  timeline_.now = death.time_ns + 120 * kMs;
  timeline_.AddDevice("nic2", 400, next);
  EXPECT_EQ(UntilFirstSession(timeline_.recordings, death), 120 * kMs + 1000);
}

TEST_F(FiguresTest, FullRateIsNineTenthsOfTheMedianBefore) {
  constexpr Nanoseconds kDeath = 1000 * kMs;
  LiveThrough(400 * kMs, kDeath, 10);
  const Death death{TestTimeline::kGpudPid, kDeath};
  EXPECT_EQ(UntilFullRate(timeline_.recordings, death, 6), std::nullopt);
  // A low rate does not count as recovery.
  LiveThrough(kDeath + 100 * kMs, kDeath + 300 * kMs, 8);
  EXPECT_EQ(UntilFullRate(timeline_.recordings, death, 6), std::nullopt);
  LiveThrough(kDeath + 300 * kMs, kDeath + 700 * kMs, 10);
  const auto full = UntilFullRate(timeline_.recordings, death, 6);
  ASSERT_TRUE(full.has_value());
  EXPECT_GE(*full, 330 * kMs);
  EXPECT_LE(*full, 400 * kMs);
}

TEST(SampleTest, PercentilesAreValues) {
  Sample sample;
  EXPECT_EQ(sample.median(), 0);
  for (const double value : {5, 1, 4, 2, 3}) sample.Add(value);
  EXPECT_EQ(sample.median(), 3);
  EXPECT_EQ(sample.Percentile(0), 1);
  EXPECT_EQ(sample.Percentile(0.99), 5);
  EXPECT_EQ(sample.Percentile(1), 5);
}

TEST(TrendTest, ALeakOfOneAKillShowsAsAHundred) {
  Trend level;
  Trend leaking;
  for (int i = 0; i < 50; ++i) {
    level.Add(7);
    leaking.Add(7 + i);
  }
  EXPECT_DOUBLE_EQ(level.SlopePer100(), 0);
  EXPECT_DOUBLE_EQ(leaking.SlopePer100(), 100);
  EXPECT_EQ(leaking.least(), 7);
  EXPECT_EQ(leaking.most(), 56);
}

TEST(ResourceUseTest, ADescriptorMoreIsSeen) {
  const ResourceUse before = ResourceUseOf(getpid());
  const UniqueFd one(dup(0));
  ASSERT_TRUE(one);
  EXPECT_EQ(ResourceUseOf(getpid()).descriptors, before.descriptors + 1);
  EXPECT_GT(before.threads, 0u);
  EXPECT_GT(before.resident_kb, 0u);
}

TEST(DeathWatchTest, IsToldOfADeathAndOfNothingElse) {
  DeathWatch own(getpid());
  EXPECT_EQ(own.Told(milliseconds(1)), std::nullopt);
  const auto wake = BareWake();
  ASSERT_TRUE(wake.has_value());
  EXPECT_GT(*wake, 0u);
}

}  // namespace
}  // namespace carillon::soak
