#include "shm/spin_budget.h"

#include <gtest/gtest.h>

namespace carillon::shm {
namespace {

TEST(SpinBudget, WhoIsIdleDoesNotSpin) {
  SpinBudget spin(50'000);
  EXPECT_EQ(spin.budget(), 0u);
  for (int i = 0; i < 10; ++i) spin.Slept(20'000);
  EXPECT_EQ(spin.budget(), 50'000u);
  for (int i = 0; i < 4; ++i) spin.Slept(1'000'000);
  EXPECT_EQ(spin.budget(), 0u);
}

TEST(SpinBudget, OfNoTimeNeverSpins) {
  SpinBudget spin(0);
  for (int i = 0; i < 4; ++i) {
    spin.Slept(i);
    EXPECT_EQ(spin.budget(), 0u);
  }
}

TEST(SpinBudget, GrowsWhileSleepsAreShort) {
  SpinBudget spin(50'000);
  Nanoseconds before = 0;
  for (int i = 0; i < 4; ++i) {
    spin.Slept(49'999);
    EXPECT_GT(spin.budget(), before);
    before = spin.budget();
  }
  spin.Slept(50'001);
  EXPECT_EQ(spin.budget(), before / 2);
}

}  // namespace
}  // namespace carillon::shm
