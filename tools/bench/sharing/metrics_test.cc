// Each number is worked out by hand.
#include "tools/bench/sharing/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carillon::bench {
namespace {

using ::testing::ElementsAre;

// They came at 0, 100 and 200, waited 10, 0 and 50, and ended after 30, 20, 90.
constexpr Served kEvents[] = {{0, 10, 30}, {100, 100, 120}, {200, 250, 290}};

TEST(Metrics, ResponsesAndPreemptionsCountFromTheArrival) {
  EXPECT_THAT(ResponsesOf(kEvents), ElementsAre(30, 20, 90));
  EXPECT_THAT(PreemptionsOf(kEvents), ElementsAre(10, 0, 50));
}

TEST(Metrics, PendingIsTheResponseLessWhatItTakesAlone) {
  EXPECT_THAT(PendingOf(kEvents, 25), ElementsAre(5, 0, 65));
}

TEST(Metrics, TardinessIsWhatIsBeyondTheDeadlineAndNeverNegative) {
  EXPECT_THAT(TardinessOf(kEvents, 40), ElementsAre(0, 0, 50));
  EXPECT_THAT(TardinessOf(kEvents, 90), ElementsAre(0, 0, 0));
}

TEST(Metrics, JitterIsHowFarEndsAreFromAPeriodBehindTheLastOne) {
  // Ends at 30, 120 and 290: 90 and 170 apart instead of 100.
  EXPECT_THAT(JitterOf(kEvents, 100), ElementsAre(10, 70));
  EXPECT_TRUE(JitterOf({}, 100).empty());
}

TEST(Metrics, AnttIsTheMeanSlowdownAndStpTheSumOfProgress) {
  // Events take 4 times as long, the background 1.25 times.
  constexpr Program kPrograms[] = {{10, 40}, {1000, 1250}};
  EXPECT_DOUBLE_EQ(Antt(kPrograms), 2.625);
  EXPECT_DOUBLE_EQ(Stp(kPrograms), 1.05);
  // Nobody disturbs anybody.
  constexpr Program kAlone[] = {{10, 10}, {7, 7}, {3, 3}};
  EXPECT_DOUBLE_EQ(Antt(kAlone), 1);
  EXPECT_DOUBLE_EQ(Stp(kAlone), 3);
}

}  // namespace
}  // namespace carillon::bench
