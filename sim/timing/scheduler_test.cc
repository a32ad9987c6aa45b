#include "sim/timing/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;

// Warps in slots 0 to 3. By age: slot 2, then 0, 3, 1.
SmWarps FourWarps() {
  SmWarps warps;
  const uint64_t ages[] = {20, 40, 10, 30};
  for (uint32_t slot = 0; slot < 4; ++slot) {
    warps.slots[slot].age = ages[slot];
    warps.of_class[static_cast<size_t>(WarpClass::kNormal)] |= BitOf(slot);
  }
  return warps;
}

std::vector<uint32_t> Choices(Scheduler& scheduler, const SmWarps& warps,
                              const std::vector<WarpMask>& ready) {
  std::vector<uint32_t> choices;
  for (const WarpMask mask : ready) {
    choices.push_back(scheduler.Choose(mask, warps));
  }
  return choices;
}

TEST(Scheduler, LrrTakesEachInTurn) {
  Scheduler scheduler(SchedulerPolicy::kLrr, 0xf);
  EXPECT_THAT(Choices(scheduler, FourWarps(), {0xf, 0xf, 0xf, 0xf, 0xf}),
              ElementsAre(0, 1, 2, 3, 0));
  EXPECT_THAT(Choices(scheduler, FourWarps(), {0xd, 0x1, 0xf}),
              ElementsAre(2, 0, 1));
}

TEST(Scheduler, LrrGoesAroundTheLastSlot) {
  Scheduler scheduler(SchedulerPolicy::kLrr, ~WarpMask{0});
  EXPECT_THAT(Choices(scheduler, FourWarps(), {BitOf(63), BitOf(63) | 1}),
              ElementsAre(63, 0));
}

TEST(Scheduler, GtoStaysWithOneThenTakesTheOldest) {
  Scheduler scheduler(SchedulerPolicy::kGto, 0xf);
  EXPECT_THAT(
      Choices(scheduler, FourWarps(), {0xb, 0xf, 0xf, 0xe, 0xf, 0xb, 0x2, 0xf}),
      ElementsAre(0, 0, 0, 2, 2, 0, 1, 1));
}

TEST(Scheduler, GtoIsNotGreedyForASlotsNextWarp) {
  SmWarps warps = FourWarps();
  Scheduler scheduler(SchedulerPolicy::kGto, 0xf);
  EXPECT_EQ(scheduler.Choose(0x2, warps), 1u);
  warps.Clear(1);
  warps.slots[1].age = 50;
  EXPECT_EQ(scheduler.Choose(0xf, warps), 2u);
}

TEST(Scheduler, ClassesGoBeforeAgeAndTurn) {
  SmWarps warps = FourWarps();
  const auto move = [&](uint32_t slot, WarpClass to) {
    for (WarpMask& mask : warps.of_class) mask &= ~BitOf(slot);
    warps.of_class[static_cast<size_t>(to)] |= BitOf(slot);
  };
  move(1, WarpClass::kEvent);
  move(3, WarpClass::kVictim);
  for (const auto policy : {SchedulerPolicy::kGto, SchedulerPolicy::kLrr}) {
    Scheduler scheduler(policy, 0xf);
    EXPECT_EQ(scheduler.Choose(0x5, warps) & ~2u, 0u);  // 0 or 2
    EXPECT_EQ(scheduler.Choose(0xf, warps), 3u);
    EXPECT_EQ(scheduler.Choose(0x7, warps), 1u);
    EXPECT_EQ(scheduler.Choose(0xf, warps), 3u);
  }
}

TEST(Scoreboard, SaysWhetherMemoryOrArithmeticIsAwaited) {
  const OpTiming add{.writes = 1, .places_used = 2, .places = {1, 2}};
  const OpTiming load{.writes = 1, .places_used = 2, .places = {3, 4}};
  const OpTiming uses_both{.writes = 1, .places_used = 3, .places = {5, 1, 3}};
  const OpTiming overwrites{.writes = 1, .places_used = 1, .places = {1}};
  Scoreboard board;
  EXPECT_EQ(board.Check(uses_both), Hazard::kNone);
  board.Reserve(add, false);
  EXPECT_EQ(board.Check(uses_both), Hazard::kRegister);
  EXPECT_EQ(board.Check(overwrites), Hazard::kRegister);
  EXPECT_EQ(board.Check(load), Hazard::kNone);
  board.Reserve(load, true);
  EXPECT_EQ(board.Check(uses_both), Hazard::kLoad);
  board.Release(load);
  EXPECT_EQ(board.Check(uses_both), Hazard::kRegister);
  board.Release(add);
  EXPECT_EQ(board.Check(uses_both), Hazard::kNone);
  EXPECT_TRUE(board.empty());
}

TEST(Scoreboard, PredicatesAreApartFromRegisters) {
  EXPECT_NE(Scoreboard::Place(0), Scoreboard::Place(kPredicateRegisters));
  EXPECT_NE(Scoreboard::Place(447), Scoreboard::Place(kPredicateRegisters + 1));
  EXPECT_EQ(Scoreboard::Place(448), Scoreboard::Place(0));
  EXPECT_LT(Scoreboard::Place(kPredicateRegisters + 63), 512);
}

}  // namespace
}  // namespace carillon::sim::timing
