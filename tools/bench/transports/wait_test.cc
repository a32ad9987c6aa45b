#include "tools/bench/transports/wait.h"

#include <gtest/gtest.h>

namespace carillon::bench {
namespace {

using std::chrono::microseconds;

// Finds what it waits for at the `found_at`th look.
struct Waiter {
  int found_at;
  bool woken = true;
  int looks = 0;
  int sleeps = 0;

  bool Wait(bench::Wait wait) {
    return WaitUntil(
        wait, microseconds(1), [this] { return ++looks == found_at; },
        [this] {
          ++sleeps;
          return woken;
        });
  }
};

TEST(WaitUntil, ASpinningSideLooksAgainAndNeverSleeps) {
  Waiter waiter{.found_at = 1'000};
  EXPECT_TRUE(waiter.Wait(Wait::kSpins));
  EXPECT_EQ(waiter.looks, 1'000);
  EXPECT_EQ(waiter.sleeps, 0);
}

TEST(WaitUntil, ASleepingSideNeverSpins) {
  Waiter waiter{.found_at = 1};
  EXPECT_TRUE(waiter.Wait(Wait::kSleeps));
  EXPECT_EQ(waiter.looks, 0);
  EXPECT_EQ(waiter.sleeps, 1);
}

TEST(WaitUntil, TheThirdWaySleepsOnceItsSpinIsOver) {
  Waiter early{.found_at = 2};
  EXPECT_TRUE(early.Wait(Wait::kSpinsThenSleeps));
  EXPECT_EQ(early.sleeps, 0);
  Waiter late{.found_at = 1'000'000'000};
  EXPECT_TRUE(late.Wait(Wait::kSpinsThenSleeps));
  EXPECT_EQ(late.sleeps, 1);
}

TEST(WaitUntil, SaysWhenASleepHasFoundNothing) {
  for (const Wait wait : {Wait::kSleeps, Wait::kSpinsThenSleeps}) {
    Waiter waiter{.found_at = 0, .woken = false};
    EXPECT_FALSE(waiter.Wait(wait));
  }
}

TEST(Wait, NamesAreReadBack) {
  for (const Wait wait : kEveryWait) EXPECT_EQ(WaitOfName(NameOf(wait)), wait);
  EXPECT_EQ(WaitOfName("dozes"), std::nullopt);
}

}  // namespace
}  // namespace carillon::bench
