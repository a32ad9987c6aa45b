#include "gpu_daemon/backends/cuda/paths/launch_gate.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

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

  LaunchGate gate_{[] { return now_ns; }};
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

}  // namespace
}  // namespace carillon::gpud::cuda
