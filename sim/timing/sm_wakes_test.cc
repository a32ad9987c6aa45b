#include "sim/timing/sm_wakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The SMs that are ticked at `now`; none has anything to do afterwards.
std::vector<uint32_t> TickedAt(SmWakes& wakes, Cycle now) {
  std::vector<uint32_t> ticked;
  wakes.Advance(now, [&](uint32_t sm) {
    ticked.push_back(sm);
    wakes.Sleep(sm, kNever);
  });
  return ticked;
}

TEST(SmWakes, TicksInTheOrderOfTheirNumbers) {
  SmWakes wakes(200);
  EXPECT_EQ(wakes.next(0), kNever);
  for (const uint32_t sm : {130u, 3u, 64u, 63u}) wakes.Wake(sm);
  EXPECT_EQ(wakes.next(0), 1u);
  EXPECT_THAT(TickedAt(wakes, 1), ElementsAre(3, 63, 64, 130));
  EXPECT_EQ(wakes.next(1), kNever);
}

TEST(SmWakes, OneThatHasHadItsTurnWaitsForTheNextCycle) {
  SmWakes wakes(3);
  wakes.Wake(1);
  std::vector<uint32_t> ticked;
  wakes.Advance(5, [&](uint32_t sm) {
    ticked.push_back(sm);
    wakes.Sleep(sm, kNever);
    if (sm == 1) {
      wakes.Wake(0);
      wakes.Wake(2);
    }
  });
  EXPECT_THAT(ticked, ElementsAre(1, 2));
  EXPECT_EQ(wakes.next(5), 6u);
  EXPECT_THAT(TickedAt(wakes, 6), ElementsAre(0));
}

TEST(SmWakes, OneThatIsWokenEarlierForgetsItsPlan) {
  SmWakes wakes(2);
  wakes.Wake(0);
  wakes.Wake(1);
  wakes.Advance(1, [&](uint32_t sm) { wakes.Sleep(sm, sm == 0 ? 10 : 20); });
  EXPECT_EQ(wakes.next(1), 10u);
  wakes.Wake(0);
  EXPECT_THAT(TickedAt(wakes, 4), ElementsAre(0));
  EXPECT_EQ(wakes.next(4), 20u);
  EXPECT_THAT(TickedAt(wakes, 20), ElementsAre(1));
  EXPECT_THAT(TickedAt(wakes, 21), IsEmpty());
}

// Beside a list of each SM's cycle that is searched each time.
TEST(SmWakes, TicksAsASearchOfAllWould) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t end) { return random() % end; };
  for (const uint32_t sms : {1u, 16u, 64u, 65u, 256u}) {
    SmWakes wakes(sms);
    std::vector<Cycle> at(sms, kNever);
    Cycle now = 0;
    for (int step = 0; step < 2000; ++step) {
      for (uint32_t n = below(3); n != 0; --n) {
        const uint32_t sm = below(sms);
        wakes.Wake(sm);
        at[sm] = now;
      }
      std::vector<uint32_t> ticked;
      uint32_t last = 0;
      wakes.Advance(now, [&](uint32_t sm) {
        for (uint32_t i = last; i < sm; ++i) EXPECT_GT(at[i], now);
        EXPECT_LE(at[sm], now);
        last = sm + 1;
        if (below(4) == 0) {
          const uint32_t other = below(sms);
          wakes.Wake(other);
          at[other] = now;
          if (other < sm) at[other] = now + 1;
        }
        at[sm] = below(5) == 0 ? kNever : now + 1 + below(30);
        wakes.Sleep(sm, at[sm]);
      });
      for (uint32_t i = last; i < sms; ++i) EXPECT_GT(at[i], now);
      const Cycle next = *std::ranges::min_element(at);
      ASSERT_EQ(wakes.next(now), next) << sms << " SMs, cycle " << now;
      now = next == kNever ? now + 1 : next;
    }
  }
}

}  // namespace
}  // namespace carillon::sim::timing
