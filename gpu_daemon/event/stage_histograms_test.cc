#include "gpu_daemon/event/stage_histograms.h"

#include <gtest/gtest.h>

namespace carillon::gpud {
namespace {

uint64_t Count(const StageHistograms& stages, Stage stage) {
  return stages.Snapshot(stage).count();
}

TEST(StageHistogramsTest, AStageIsCountedOnlyIfBothItsEndsAreKnownAndInOrder) {
  StageHistograms stages;
  // The device did not say when it rang.
  stages.Add({.seen_ns = 20, .dispatched_ns = 30, .finished_ns = 40});
  EXPECT_EQ(Count(stages, Stage::kRungToSeen), 0u);
  EXPECT_EQ(Count(stages, Stage::kSeenToDispatched), 1u);
  EXPECT_EQ(Count(stages, Stage::kDispatchedToFinished), 1u);
  EXPECT_EQ(Count(stages, Stage::kRungToFinished), 0u);
  // The device's clock is ahead of ours.
  stages.Add(
      {.rung_ns = 25, .seen_ns = 20, .dispatched_ns = 30, .finished_ns = 40});
  EXPECT_EQ(Count(stages, Stage::kRungToSeen), 0u);
  EXPECT_EQ(Count(stages, Stage::kRungToFinished), 1u);
}

TEST(StageHistogramsTest, AResetForgetsEveryStage) {
  StageHistograms stages;
  stages.Add(
      {.rung_ns = 10, .seen_ns = 20, .dispatched_ns = 30, .finished_ns = 40});
  for (uint32_t i = 0; i < kStages; ++i) {
    EXPECT_EQ(Count(stages, static_cast<Stage>(i)), 1u);
  }
  EXPECT_EQ(stages.Snapshot(Stage::kRungToFinished).sum(), 30u);
  EXPECT_EQ(stages.Snapshot(Stage::kRungToSeen).sum(), 10u);
  stages.Reset();
  for (uint32_t i = 0; i < kStages; ++i) {
    EXPECT_EQ(Count(stages, static_cast<Stage>(i)), 0u);
    EXPECT_EQ(stages.Snapshot(static_cast<Stage>(i)).sum(), 0u);
  }
}

}  // namespace
}  // namespace carillon::gpud
