#include "devices/nic/batch_queue.h"

#include <gtest/gtest.h>

namespace carillon::nic {
namespace {

Request At(Nanoseconds received_ns, uint32_t index = 0) {
  return {.index = index, .received_ns = received_ns};
}

TEST(BatchQueue, ALoneRequestLeavesAtOnceWhenTheMachineIsIdle) {
  BatchQueue queue(32, 1000);
  EXPECT_EQ(queue.Ready(0, true, 0), 0u);
  queue.Push(At(100));
  EXPECT_EQ(queue.Ready(100, true, 0), 1u);
}

TEST(BatchQueue, WaitsWhileMorePacketsCanBeRead) {
  BatchQueue queue(32, 1000);
  queue.Push(At(100));
  EXPECT_EQ(queue.Ready(100, false, 0), 0u);
}

TEST(BatchQueue, GrowsWhileAnEventIsInFlightUntilTheTimeOut) {
  BatchQueue queue(32, 1000);
  queue.Push(At(100));
  queue.Push(At(900));
  EXPECT_EQ(queue.Ready(1000, true, 1), 0u);
  ASSERT_TRUE(queue.Deadline().has_value());
  EXPECT_EQ(*queue.Deadline(), 1100u);
  EXPECT_EQ(queue.Ready(1099, true, 1), 0u);
  EXPECT_EQ(queue.Ready(1100, false, 1), 2u);
}

TEST(BatchQueue, ClosesFullBatchesWhateverIsInFlight) {
  BatchQueue queue(3, 1000);
  for (uint32_t i = 0; i < 7; ++i) queue.Push(At(0, i));
  EXPECT_EQ(queue.Ready(0, false, 5), 3u);
}

TEST(BatchQueue, LimitOneNeverWaits) {
  BatchQueue queue(1, 1000);
  queue.Push(At(0));
  EXPECT_EQ(queue.Ready(0, false, 9), 1u);
}

TEST(BatchQueue, KeepsTheOrderOfArrival) {
  BatchQueue queue(4, 1000);
  for (uint32_t i = 0; i < 6; ++i) queue.Push(At(i * 10, i));
  std::vector<Request> batch(4);
  queue.Pop(batch);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(batch[i].index, i);
  EXPECT_EQ(queue.size(), 2u);
  // The time-out counts from the oldest remaining request.
  EXPECT_EQ(*queue.Deadline(), 1040u);
  batch.resize(2);
  queue.Pop(batch);
  EXPECT_EQ(batch[0].index, 4u);
  EXPECT_FALSE(queue.Deadline().has_value());
}

}  // namespace
}  // namespace carillon::nic
