#include "gpu_daemon/backends/cuda/paths/launch_gate.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "gpu_daemon/backends/cuda/paths/ptb_sizes.h"
#include "gpu_daemon/backends/cuda/paths/slice_sizes.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud::cuda {
namespace {

using Grant = LaunchGate::Grant;
using Places = std::vector<std::unique_ptr<LaunchGate::Place>>;

Nanoseconds now_ns = 0;

class LaunchGateTest : public testing::Test {
 protected:
  LaunchGateTest() { now_ns = 1'000'000'000; }
  std::unique_ptr<LaunchGate::Place> Enter(const TestDevice& device,
                                           uint32_t priority = 0) {
    return gate_.Enter(device.memory.get(), priority);
  }
  bool Begins(const std::unique_ptr<LaunchGate::Place>& place) {
    const bool chosen = gate_.Choose().Allows(*place);
    const bool begins = gate_.TryBegin(*place) != Grant::kNone;
    EXPECT_EQ(chosen, begins);
    return begins;
  }

  LaunchGate gate_{GpuModel(), 0, [] { return now_ns; }};
  TestDevice a_{"a"};
  TestDevice b_{"b"};
};

TEST_F(LaunchGateTest, PriorityIsTheGpusOwnAndHoldsNobodyBack) {
  const Places places = [&] {
    Places made;
    for (uint32_t priority = 0; priority < 8; ++priority) {
      made.push_back(Enter(priority % 2 == 0 ? a_ : b_, priority));
    }
    return made;
  }();
  for (const auto& place : places) EXPECT_TRUE(Begins(place));
}

TEST_F(LaunchGateTest, ATurnEndsWhenItIsSpentAndWhatHasBegunHasEnded) {
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  auto first = Enter(a_);
  EXPECT_TRUE(Begins(first));
  auto other = Enter(b_);
  EXPECT_FALSE(Begins(other)) << "it is a's turn";
  auto second = Enter(a_);
  EXPECT_TRUE(Begins(second)) << "a has its turn for a while";
  now_ns += kTurnNs;
  auto third = Enter(a_);
  EXPECT_FALSE(Begins(third)) << "the turn is spent";
  EXPECT_FALSE(Begins(other)) << "what a has begun has not ended";
  first.reset();
  EXPECT_FALSE(Begins(other));
  second.reset();
  EXPECT_TRUE(Begins(other));
  EXPECT_FALSE(Begins(third));
}

TEST_F(LaunchGateTest, ASliceIsQueuedWhileNobodyWaitsWhoWouldBeNext) {
  ASSERT_TRUE(gate_.SetPolicy("gpes").ok());
  auto runs = gate_.Enter(a_.memory.get(), 3);
  EXPECT_FALSE(gate_.MayQueue(*runs)) << "it waits itself";
  ASSERT_EQ(gate_.TryBegin(*runs), LaunchGate::Grant::kSlice);
  EXPECT_TRUE(gate_.MayQueue(*runs));
  const auto lower = gate_.Enter(b_.memory.get(), 2);
  const auto later = gate_.Enter(b_.memory.get(), 3);
  EXPECT_TRUE(gate_.MayQueue(*runs)) << "they come after it in any case";
  auto urgent = gate_.Enter(b_.memory.get(), 4);
  EXPECT_FALSE(gate_.MayQueue(*runs));
  urgent.reset();
  EXPECT_TRUE(gate_.MayQueue(*runs));
  ASSERT_TRUE(gate_.SetPolicy("priority").ok());
  EXPECT_FALSE(gate_.MayQueue(*runs));
}

TEST_F(LaunchGateTest, TimeInWhichTheGpuIsNobodysIsNotPaidBack) {
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  const TestDevice c("c");
  {
    auto first = Enter(a_);
    EXPECT_TRUE(Begins(first));
    auto other = Enter(b_);
    EXPECT_FALSE(Begins(other));
    other.reset();  // taken back
  }
  now_ns += 60'000'000'000;
  uint32_t begun = 0;
  for (int round = 0; round < 100; ++round) {
    auto of_c = Enter(c);
    auto of_a = Enter(a_);
    if (Begins(of_a)) ++begun;
    Begins(of_c);
    now_ns += kTurnNs;
  }
  EXPECT_GE(begun, 40u);
}

TEST_F(LaunchGateTest, SharesAreByWeight) {
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  a_.memory->share().set_weight(3);
  std::array<const TestDevice*, 2> devices = {&a_, &b_};
  std::array<Places, 2> waiting;
  std::array<Nanoseconds, 2> used{};
  for (int round = 0; round < 4'000; ++round) {
    for (size_t i = 0; i < 2; ++i) {
      while (waiting[i].size() < 2) waiting[i].push_back(Enter(*devices[i]));
    }
    bool begun = false;
    for (size_t i = 0; i < 2 && !begun; ++i) {
      if (!Begins(waiting[i].front())) continue;
      begun = true;
      now_ns += 100'000;
      used[i] += 100'000;
      waiting[i].erase(waiting[i].begin());
    }
    ASSERT_TRUE(begun) << "somebody may always begin";
  }
  const double share =
      static_cast<double>(used[0]) / static_cast<double>(used[0] + used[1]);
  EXPECT_NEAR(share, 0.75, 0.02);
}

TEST_F(LaunchGateTest, WhatLeavesWithoutHavingBegunHoldsUpNobody) {
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  auto runs = Enter(a_);
  ASSERT_TRUE(Begins(runs));
  auto waits = Enter(a_);
  auto other = Enter(b_);
  now_ns += kTurnNs;
  EXPECT_FALSE(Begins(waits));
  waits.reset();
  runs.reset();
  EXPECT_TRUE(Begins(other));
}

TEST_F(LaunchGateTest, WhatRunsWhenTheTurnsBeginEndsFirst) {
  auto of_a = Enter(a_);
  auto of_b = Enter(b_);
  ASSERT_TRUE(Begins(of_a));
  ASSERT_TRUE(Begins(of_b));
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  auto next = Enter(a_);
  EXPECT_FALSE(Begins(next));
  of_b.reset();
  EXPECT_FALSE(Begins(next));
  of_a.reset();
  EXPECT_TRUE(Begins(next));
  auto other = Enter(b_);
  EXPECT_FALSE(Begins(other));
  ASSERT_TRUE(gate_.SetPolicy("priority").ok());
  EXPECT_TRUE(Begins(other));
}

TEST_F(LaunchGateTest, OneSliceHasTheGpuAndTheMostUrgentIsNext) {
  ASSERT_TRUE(gate_.SetPolicy("gpes").ok());
  auto low = Enter(a_, 1);
  auto same = Enter(b_, 1);
  EXPECT_FALSE(Begins(same)) << "the other one came first";
  EXPECT_EQ(gate_.TryBegin(*low), Grant::kSlice);
  auto high = Enter(b_, 2);
  EXPECT_FALSE(Begins(high)) << "a slice has the GPU";
  gate_.EndSlice(*low);
  EXPECT_FALSE(Begins(low));
  EXPECT_TRUE(Begins(high));
  EXPECT_FALSE(Begins(low));
  high.reset();
  EXPECT_FALSE(Begins(same)) << "the oldest of equals";
  EXPECT_TRUE(Begins(low));
  low.reset();
  EXPECT_TRUE(Begins(same));
}

TEST_F(LaunchGateTest, WhatIsBetweenSlicesMayGetAllThatIsLeft) {
  ASSERT_TRUE(gate_.SetPolicy("gpes").ok());
  auto sliced = Enter(a_);
  ASSERT_EQ(gate_.TryBegin(*sliced), Grant::kSlice);
  gate_.EndSlice(*sliced);
  ASSERT_TRUE(gate_.SetPolicy("priority").ok());
  EXPECT_EQ(gate_.TryBegin(*sliced), Grant::kAll);
}

// Its owner's turn or not: it ends before the turns begin.
TEST_F(LaunchGateTest, WhatIsBetweenSlicesWhenTheTurnsBeginGoesOn) {
  ASSERT_TRUE(gate_.SetPolicy("gpes").ok());
  auto sliced = Enter(a_);
  ASSERT_EQ(gate_.TryBegin(*sliced), Grant::kSlice);
  gate_.EndSlice(*sliced);
  ASSERT_TRUE(gate_.SetPolicy("exclusive").ok());
  auto other = Enter(b_);
  EXPECT_FALSE(Begins(other));
  EXPECT_TRUE(Begins(sliced));
  EXPECT_FALSE(Begins(other));
  sliced.reset();
  EXPECT_TRUE(Begins(other));
}

TEST_F(LaunchGateTest, PersistentBlocksAreStoppedForSomebodyMoreUrgent) {
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  uint32_t stop = 7;  // of a launch before
  auto low = Enter(a_, 1);
  EXPECT_EQ(gate_.TryBegin(*low), Grant::kPtb);
  gate_.LetBeStopped(*low, &stop);
  EXPECT_EQ(stop, 0u);
  auto same = Enter(b_, 1);
  EXPECT_TRUE(Begins(same)) << "behind it, in its stream";
  auto lower = Enter(b_, 0);
  EXPECT_FALSE(Begins(lower));
  EXPECT_EQ(stop, 0u);
  auto high = Enter(b_, 2);
  EXPECT_EQ(stop, 1u);
  EXPECT_TRUE(Begins(high)) << "at once: its blocks are first in the GPU";
  gate_.EndSlice(*low);
  EXPECT_FALSE(Begins(low));
  high.reset();
  EXPECT_TRUE(Begins(low));
  low.reset();
  EXPECT_FALSE(Begins(lower));
  same.reset();
  EXPECT_TRUE(Begins(lower));
}

TEST_F(LaunchGateTest, ADeviceIsSuspendedWithAllItsLaunches) {
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  std::array<uint32_t, 3> stops{};
  Places places;
  for (uint32_t& stop : stops) {
    places.push_back(Enter(a_, 1));
    EXPECT_EQ(gate_.TryBegin(*places.back()), Grant::kPtb);
    gate_.LetBeStopped(*places.back(), &stop);
  }
  auto high = Enter(b_, 2);
  EXPECT_EQ(stops, (std::array<uint32_t, 3>{1, 1, 1}));
  for (const auto& place : places) {
    gate_.EndSlice(*place);
    EXPECT_FALSE(Begins(place));
  }
  high.reset();
  for (const auto& place : places) EXPECT_TRUE(Begins(place));
}

TEST_F(LaunchGateTest, WhoComesBetweenGrantAndLaunchStopsTheLaunchToo) {
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  uint32_t stop = 0;
  auto low = Enter(a_, 1);
  EXPECT_EQ(gate_.TryBegin(*low), Grant::kPtb);
  auto high = Enter(b_, 2);
  gate_.LetBeStopped(*low, &stop);
  EXPECT_EQ(stop, 1u);
}

TEST_F(LaunchGateTest, AnotherPolicyStopsPersistentBlocksAndTheOwnDoesNot) {
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  uint32_t stop = 0;
  uint32_t late = 0;
  auto first = Enter(a_, 7);
  auto second = Enter(a_, 7);
  EXPECT_EQ(gate_.TryBegin(*first), Grant::kPtb);
  EXPECT_EQ(gate_.TryBegin(*second), Grant::kPtb);
  gate_.LetBeStopped(*first, &stop);
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  EXPECT_EQ(stop, 0u);
  ASSERT_TRUE(gate_.SetPolicy("priority").ok());
  EXPECT_EQ(stop, 1u);
  gate_.LetBeStopped(*second, &late);
  EXPECT_EQ(late, 1u) << "granted before the change";
}

TEST_F(LaunchGateTest, AStopWordThatIsGoneIsNotWritten) {
  ASSERT_TRUE(gate_.SetPolicy("ptb").ok());
  std::array<uint32_t, 3> stops{};
  std::array<std::unique_ptr<LaunchGate::Place>, 3> places;
  for (size_t i = 0; i < 3; ++i) {
    places[i] = Enter(a_, 1);
    EXPECT_EQ(gate_.TryBegin(*places[i]), Grant::kPtb);
    gate_.LetBeStopped(*places[i], &stops[i]);
  }
  gate_.ForgetStop(*places[0]);  // its context is lost
  gate_.EndSlice(*places[1]);
  places[2].reset();
  auto high = Enter(b_, 2);
  gate_.Stop(*places[0]);
  gate_.Stop(*places[1]);
  EXPECT_EQ(stops, (std::array<uint32_t, 3>{}));
}

TEST(PtbSizesTest, ALaunchHasAsManyBlocksAsFitOrRunsWholeForAReason) {
  // 2 SMs, each 8 blocks of 256 threads.
  PtbSizes sizes({.sms = 2, .blocks_per_sm = 16});
  const simt::KernelInfo own = {.name = "own"};
  const simt::KernelInfo users = {.name = "users", .symbol = "theirs"};
  const auto first = [&](const simt::KernelInfo& kernel, uint32_t blocks,
                         uint32_t priority, bool has_form) {
    return sizes.First(
        {.kernel = &kernel, .grid = {blocks, 1, 1}, .block = {256, 1, 1}},
        priority, has_form);
  };
  EXPECT_EQ(first(own, 17, 0, true), 16u);
  EXPECT_EQ(first(own, 1000, 6, true), 16u);
  EXPECT_EQ(first(own, 16, 0, true), 0u);
  EXPECT_EQ(first(own, 1000, 7, true), 0u);
  EXPECT_EQ(first(own, 1000, 0, false), 0u);
  EXPECT_EQ(first(users, 1000, 0, false), 0u);
  const PtbFigures figures = sizes.figures();
  EXPECT_EQ(figures.persistent, 2u);
  EXPECT_EQ(figures.whole_all_fit, 1u);
  EXPECT_EQ(figures.whole_most_urgent, 1u);
  EXPECT_EQ(figures.whole_barriers, 1u);
  EXPECT_EQ(figures.whole_users_kernel, 1u);
}

class SliceSizesTest : public testing::Test {
 protected:
  // A wave of blocks of 256 threads: 2 SMs, each 8.
  static constexpr GpuModel kGpu = {.sms = 2, .blocks_per_sm = 16};
  static constexpr uint64_t kWave = 16;
  static KernelMetadata Kmd(const simt::KernelInfo& kernel, uint32_t blocks) {
    return {.kernel = &kernel, .grid = {blocks, 1, 1}, .block = {256, 1, 1}};
  }
  const simt::KernelInfo own_ = {.name = "own"};
  const simt::KernelInfo users_ = {.name = "users", .symbol = "theirs"};
};

TEST_F(SliceSizesTest, ASliceIsWhatTheGpuHoldsAtOnce) {
  SliceSizes sizes(kGpu, 0);
  EXPECT_EQ(sizes.WaveOf(CostOf(256, 32, 0)), kWave);
  EXPECT_EQ(sizes.WaveOf(CostOf(256, 64, 0)), kWave / 2);
  EXPECT_EQ(sizes.WaveOf(CostOf(256, 32, 1 << 30)), 1u);
  EXPECT_EQ(sizes.First(Kmd(own_, 1000), kWave), kWave);
  sizes.Ran(Kmd(own_, 1000), kWave, kWave, 1);
  EXPECT_EQ(sizes.Next(Kmd(own_, 1000), kWave), kWave)
      << "no bound asks for more";
}

TEST_F(SliceSizesTest, LaunchesThatRunWholeAreCountedWithTheReason) {
  SliceSizes sizes(kGpu, 0);
  EXPECT_EQ(sizes.First(Kmd(own_, 1), kWave), 0u);
  EXPECT_EQ(sizes.First(Kmd(own_, kWave), kWave), 0u);
  EXPECT_EQ(sizes.First(Kmd(users_, 1000), kWave, WholeReason::kNoPtx), 0u);
  EXPECT_EQ(sizes.First(Kmd(users_, 1), kWave, WholeReason::kNoPtx), 0u)
      << "it would be one slice";
  EXPECT_EQ(sizes.First(Kmd(users_, 1000), kWave), kWave);
  EXPECT_EQ(sizes.First(Kmd(own_, kWave + 1), kWave), kWave);
  const SliceFigures figures = sizes.figures();
  ASSERT_EQ(figures.whole.size(), 2u);
  EXPECT_EQ(figures.whole[0].name, "one_slice");
  EXPECT_EQ(figures.whole[0].value, 3u);
  EXPECT_EQ(figures.whole[1].name, "no_ptx");
  EXPECT_EQ(figures.whole[1].value, 1u);
  EXPECT_EQ(figures.sliced, 2u);
}

TEST_F(SliceSizesTest, WithABoundASliceIsAsManyWavesAsItsTimeAllows) {
  SliceSizes sizes(kGpu, 100'000);
  const KernelMetadata kmd = Kmd(own_, 1000);
  EXPECT_EQ(sizes.First(kmd, kWave), kWave) << "nothing is measured yet";
  // Less what is still there of the slice before it.
  sizes.Ran(kmd, kWave, kWave, 20'000);
  EXPECT_EQ(sizes.Next(kmd, kWave), 3 * kWave);
  sizes.Ran(kmd, kWave, 3 * kWave, 60'000);
  EXPECT_EQ(sizes.Next(kmd, kWave), 3 * kWave);
  // Now its blocks take longer.
  for (int i = 0; i < 40; ++i) sizes.Ran(kmd, kWave, kWave, 35'000);
  EXPECT_EQ(sizes.Next(kmd, kWave), 2 * kWave);
  EXPECT_EQ(sizes.figures().over_bound, 0u);
  sizes.Ran(kmd, kWave, 3 * kWave, 120'000);
  EXPECT_EQ(sizes.figures().over_bound, 1u) << "each of its waves is short";
}

TEST_F(SliceSizesTest, ASliceIsQueuedShortlyBeforeTheOneThatRunsEnds) {
  const KernelMetadata kmd = Kmd(own_, 1000);
  SliceSizes sizes(kGpu, 0);
  EXPECT_EQ(sizes.QueueAfter(kmd, kWave, kWave), std::nullopt)
      << "nothing is measured yet";
  sizes.Ran(kmd, kWave, kWave, std::nullopt);
  EXPECT_EQ(sizes.QueueAfter(kmd, kWave, kWave), std::nullopt);
  sizes.Ran(kmd, kWave, kWave, 1'000'000);
  EXPECT_EQ(sizes.QueueAfter(kmd, kWave, kWave),
            1'000'000 - SliceSizes::kAheadNs);
  EXPECT_EQ(sizes.figures().slices, 2u);
  SliceSizes shorter(kGpu, 0);
  shorter.Ran(kmd, kWave, kWave, 10'000);
  EXPECT_EQ(shorter.QueueAfter(kmd, kWave, kWave), 0u);
}

// What is left of the slice that runs and the queued one, for all lengths.
TEST_F(SliceSizesTest, TwoInFlightKeepTheBoundOrThereIsOne) {
  const KernelMetadata kmd = Kmd(own_, 1000);
  for (const Nanoseconds bound : {10'000, 50'000, 100'000, 2'000'000}) {
    for (Nanoseconds each = 1'000; each <= 2 * bound; each += 1'000) {
      SliceSizes sizes(kGpu, bound);
      sizes.Ran(kmd, kWave, kWave, each);
      const uint64_t blocks = sizes.Next(kmd, kWave);
      const Nanoseconds slice = blocks / kWave * each;
      const auto after = sizes.QueueAfter(kmd, kWave, blocks);
      EXPECT_EQ(after.has_value(),
                2 * each <= bound || each + SliceSizes::kAheadNs <= bound)
          << bound << " " << each;
      if (after) {
        EXPECT_LE(slice - *after + slice, bound) << bound << " " << each;
      } else {
        EXPECT_EQ(blocks, kWave);
        EXPECT_EQ(sizes.figures().over_bound, each > bound ? 1u : 0u);
      }
    }
  }
}

TEST_F(SliceSizesTest, ABoundBelowOneWaveIsNotKeptAndSaidSo) {
  SliceSizes sizes(kGpu, 100'000);
  const KernelMetadata kmd = Kmd(own_, 1000);
  sizes.Ran(kmd, kWave, kWave, 300'000);
  EXPECT_EQ(sizes.Next(kmd, kWave), kWave);
  EXPECT_EQ(sizes.figures().over_bound, 1u);
  EXPECT_EQ(sizes.figures().slices, 1u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
