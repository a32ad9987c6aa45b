#include "mesh/pulse.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace carillon::mesh {
namespace {

constexpr LinkTimes kTimes{.ping = 100};

// Two ends; the far one's clock is ahead. A ping is under way for `there` or
// `back`.
class Ends {
 public:
  explicit Ends(int64_t ahead) : ahead_(ahead) {}
  void Exchange(Nanoseconds there, Nanoseconds back) {
    now_ += 1000;
    const auto ping = near.TakeDue(now_);
    ASSERT_TRUE(ping.has_value());
    now_ += there;
    ASSERT_TRUE(far.Take(*ping, Far()));
    now_ += 300;  // held
    const auto answer = far.TakeDue(Far());
    ASSERT_TRUE(answer.has_value());
    now_ += back;
    ASSERT_TRUE(near.Take(*answer, now_));
  }
  Nanoseconds Far() const { return now_ + static_cast<Nanoseconds>(ahead_); }

  Pulse near{kTimes, 0};
  Pulse far{kTimes, 0};

 private:
  const int64_t ahead_;
  Nanoseconds now_ = 1'000'000'000;
};

TEST(Pulse, TellsTheOtherClockWithinHalfOfTheWayThereAndBack) {
  for (const int64_t ahead : {int64_t{0}, int64_t{5'000'000}, -int64_t{700}}) {
    for (const auto& [there, back] :
         {std::pair<Nanoseconds, Nanoseconds>{50, 50}, {90, 10}, {0, 100}}) {
      Ends ends(ahead);
      EXPECT_FALSE(ends.near.clock().has_value());
      ends.Exchange(there, back);
      ASSERT_TRUE(ends.near.clock().has_value());
      const ClockSample clock = *ends.near.clock();
      EXPECT_EQ(clock.error, 50u);
      EXPECT_LE(clock.offset, ahead + 50);
      EXPECT_GE(clock.offset, ahead - 50);
      if (there == back) {
        EXPECT_EQ(clock.offset, ahead);
      }
    }
  }
}

TEST(Pulse, KeepsTheBestSampleUntilClocksMayHaveDriftedFurther) {
  Ends ends(5000);
  ends.Exchange(20, 20);
  EXPECT_EQ(ends.near.clock()->error, 20u);
  ends.Exchange(100, 300);
  EXPECT_EQ(ends.near.clock()->error, 20u);
  EXPECT_EQ(ends.near.clock()->offset, 5000);
  ends.Exchange(10, 10);
  EXPECT_EQ(ends.near.clock()->error, 10u);
  // 10 s later a crystal may be a millisecond off.
  ends.Exchange(5'000'000'000, 5'000'000'000);
  EXPECT_EQ(ends.near.clock()->error, 10u);
  ends.Exchange(100'000, 100'000);
  EXPECT_EQ(ends.near.clock()->error, 100'000u);
}

TEST(Pulse, TellsTheMedianOfTheLastPings) {
  Ends ends(0);
  EXPECT_FALSE(ends.near.rtt().has_value());
  ends.Exchange(10, 10);
  EXPECT_EQ(ends.near.rtt(), 20u);
  ends.Exchange(500, 500);
  ends.Exchange(15, 15);
  EXPECT_EQ(ends.near.rtt(), 30u);
  // What was long ago counts no more.
  for (size_t i = 0; i < Pulse::kRtts; ++i) ends.Exchange(40, 60);
  EXPECT_EQ(ends.near.rtt(), 100u);
}

TEST(DownTime, CountsFromTheFirstCutOn) {
  DownTime down;
  down.ComeUp(100);
  EXPECT_EQ(down.times(), 0u);
  EXPECT_EQ(down.total(150), 0u);
  down.GoDown(200);
  down.GoDown(210);  // it was already
  EXPECT_EQ(down.times(), 1u);
  EXPECT_EQ(down.total(250), 50u);
  down.ComeUp(300);
  EXPECT_EQ(down.total(900), 100u);
  down.GoDown(1000);
  EXPECT_EQ(down.times(), 2u);
  EXPECT_EQ(down.total(1001), 101u);
}

}  // namespace
}  // namespace carillon::mesh
