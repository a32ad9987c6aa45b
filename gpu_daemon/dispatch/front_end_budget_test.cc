#include "gpu_daemon/dispatch/front_end_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

namespace carillon::gpud {
namespace {

// The budget takes a device for its address only.
const DeviceMemory* Device(uintptr_t number) {
  return reinterpret_cast<const DeviceMemory*>(number * 64);
}

// Serves one event of each device that may go on.
struct Backlog {
  FrontEndBudget::Share* share;
  Ticks event;
  Ticks used = 0;
};
bool Look(FrontEndBudget& budget, std::vector<Backlog>& backlogs) {
  budget.BeginLook();
  bool served = false;
  for (Backlog& one : backlogs) {
    if (!budget.MayGoOn(*one.share)) continue;
    budget.Charge(*one.share, one.event);
    one.used += one.event;
    served = true;
  }
  return served;
}

TEST(FrontEndBudget, DevicesThatAlwaysHaveWorkGetTheSameTime) {
  FrontEndBudget budget;
  std::vector<Backlog> backlogs;
  uintptr_t device = 0;
  for (const Ticks event : {700u, 3'000u, 40'000u, 90'000u, 4'000'000u}) {
    backlogs.push_back({budget.ShareOf(Device(++device)), event});
  }
  for (int i = 0; i < 1'000'000; ++i) {
    ASSERT_TRUE(Look(budget, backlogs) || budget.BeginRound());
    const auto [least, most] = std::minmax_element(
        backlogs.begin(), backlogs.end(),
        [](const Backlog& a, const Backlog& b) { return a.used < b.used; });
    // The longest event may just have run, or be about to.
    ASSERT_LE(most->used - least->used, 4'000'000 + 2 * FrontEndBudget::kRound);
  }
  EXPECT_GT(backlogs.back().used, 100'000'000u);
}

TEST(FrontEndBudget, ADeviceThatIsAloneNeverWaitsForLongerThanALook) {
  FrontEndBudget budget;
  std::vector<Backlog> alone = {{budget.ShareOf(Device(1)), 900'000}};
  budget.ShareOf(Device(2));  // is there, and rings never
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(Look(budget, alone));
    EXPECT_FALSE(Look(budget, alone));
    EXPECT_TRUE(budget.BeginRound());
  }
}

TEST(FrontEndBudget, ADeviceThatWasIdleHasSavedNothing) {
  FrontEndBudget budget;
  std::vector<Backlog> busy = {{budget.ShareOf(Device(1)), 10'000}};
  FrontEndBudget::Share* const idle = budget.ShareOf(Device(2));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Look(budget, busy) || budget.BeginRound());
  }
  EXPECT_TRUE(budget.Charge(*idle, FrontEndBudget::kRound - 1));
  EXPECT_FALSE(budget.Charge(*idle, 1));
}

TEST(FrontEndBudget, NoRoundBeginsWhereNobodyWasHeldBack) {
  FrontEndBudget budget;
  FrontEndBudget::Share* const share = budget.ShareOf(Device(1));
  budget.BeginLook();
  EXPECT_FALSE(budget.BeginRound());
  EXPECT_TRUE(budget.MayGoOn(*share));
  EXPECT_FALSE(budget.BeginRound());
  budget.Charge(*share, FrontEndBudget::kRound);
  EXPECT_FALSE(budget.MayGoOn(*share));
  budget.BeginLook();
  EXPECT_FALSE(budget.BeginRound()) << "that was in another look";
}

TEST(FrontEndBudget, ADeviceThatComesAgainHasNoDebt) {
  FrontEndBudget budget;
  budget.Charge(*budget.ShareOf(Device(1)), 10 * FrontEndBudget::kRound);
  EXPECT_FALSE(budget.MayGoOn(*budget.ShareOf(Device(1))));
  budget.Forget(Device(1));
  EXPECT_TRUE(budget.MayGoOn(*budget.ShareOf(Device(1))));
}

}  // namespace
}  // namespace carillon::gpud
