#include "gpu_daemon/event/doorbell_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/testing/eventually.h"
#include "gpu_daemon/event/event_fixture.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::EventState;

using DoorbellCursorTest = EventFixture;

TEST_F(DoorbellCursorTest, SlotsAreFreeAgainOnlyInOrder) {
  RingDoorbell(4);
  ASSERT_EQ(Pending(), 4u);
  for (int i = 0; i < 4; ++i) event_.kernel->cursor().TakeRing();
  // The second ends first: its slot stays taken until the first ends.
  event_.kernel->ledger().Finish(shm::Sequence(2),
                                 {.state = EventState::kDone});
  EXPECT_FALSE(event_.ring->Poll().has_value());
  // One ring too early.
  std::atomic_ref<uint32_t>(device_.memory->submission().doorbells()[0])
      .fetch_add(1);
  EXPECT_TRUE(event_.kernel->cursor().PendingRings().violation);
  event_.kernel->ledger().Finish(shm::Sequence(1),
                                 {.state = EventState::kDone});
  EXPECT_FALSE(event_.kernel->cursor().PendingRings().violation);
  EXPECT_EQ(event_.kernel->cursor().completed_in_order(), 2u);
}

TEST_F(DoorbellCursorTest, ADoorbellWrapsAround) {
  // An earlier ring has left it two short of that.
  device_.memory->submission().doorbells()[device_.next_doorbell] = 0u - 2;
  event_ = device_.Register({.kernel = simt::FindKernel("null_event"),
                             .bindings = {{.constant_bits = 0}},
                             .entries = 4});
  for (uint64_t sequence = 1; sequence <= 8; ++sequence) {
    RingDoorbell(1);
    ASSERT_EQ(Pending(), 1u) << sequence;
    ASSERT_EQ(event_.kernel->cursor().TakeRing().value(), sequence);
    ASSERT_TRUE(event_.kernel->ledger().Finish(shm::Sequence(sequence), {}));
    ASSERT_TRUE(event_.ring->Poll());
    event_.ring->Consume();
    ASSERT_EQ(Pending(), 0u) << sequence;
  }
}

TEST_F(DoorbellCursorTest,
       ADoorbellUsedBeforeRegistrationDoesNotLaunchAnything) {
  // The next registration gets doorbell 1, whose counter an earlier life left
  // at 5.
  device_.memory->submission().doorbells()[1] = 5;
  auto reused = device_.Register({.kernel = simt::FindKernel("null_event"),
                                  .bindings = {{.constant_bits = 0}}});
  EXPECT_EQ(reused.kernel->cursor().PendingRings().rings, 0u);
  reused.ring->Commit();
  reused.ring->RingDoorbell();
  const DoorbellCursor::Pending pending =
      reused.kernel->cursor().PendingRings();
  EXPECT_EQ(pending.rings, 1u);
  EXPECT_FALSE(pending.violation);
}

TEST_F(DoorbellCursorTest, ADoorbellThatGoesBackIsAViolationUnlessScheduled) {
  RingDoorbell(2);
  ASSERT_EQ(Pending(), 2u);
  for (int i = 0; i < 2; ++i) event_.kernel->cursor().TakeRing();
  std::atomic_ref<uint32_t>(
      device_.memory->submission().doorbells()[event_.kernel->event_id()])
      .fetch_sub(1);
  const DoorbellCursor::Pending pending =
      event_.kernel->cursor().PendingRings();
  EXPECT_TRUE(pending.violation);
  EXPECT_TRUE(pending.went_back);
  EXPECT_EQ(pending.rings, 1u);
  // edgeScheduleEvent launches before the doorbell says so.
  ASSERT_TRUE(event_.kernel->ScheduleThrough(2));
  EXPECT_EQ(Pending(), 0u);
}

TEST_F(DoorbellCursorTest, WhatIsScheduledAndRungIsLaunchedOnce) {
  ASSERT_TRUE(event_.kernel->ScheduleThrough(3));
  EXPECT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->cursor().TakeRing();
  RingDoorbell(3);
  EXPECT_EQ(Pending(), 0u);
  EXPECT_FALSE(event_.kernel->ScheduleThrough(8)) << "4 slots, 3 launched";
  EXPECT_EQ(Pending(), 0u);
}

TEST_F(DoorbellCursorTest, APeakIsTakenOnceAndCountsWhatHasNotEnded) {
  DoorbellCursor& cursor = event_.kernel->cursor();
  EXPECT_EQ(cursor.TakePeak(), 0u);
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 2; ++i) cursor.TakeRing();
  event_.kernel->ledger().Finish(shm::Sequence(1), {});
  ASSERT_EQ(Pending(), 1u);
  EXPECT_EQ(cursor.TakePeak(), 3u);
  EXPECT_EQ(cursor.TakePeak(), 0u);
  // The second runs, the third waits, and two more come.
  ASSERT_TRUE(event_.ring->Poll());
  event_.ring->Consume();
  RingDoorbell(2);
  ASSERT_EQ(Pending(), 3u);
  EXPECT_EQ(cursor.TakePeak(), 4u);
}

TEST_F(DoorbellCursorTest, ADoorbellThatJumpsIsNoPeak) {
  std::atomic_ref<uint32_t>(
      device_.memory->submission().doorbells()[event_.kernel->event_id()])
      .fetch_add(1'000'000);
  EXPECT_TRUE(event_.kernel->cursor().PendingRings().violation);
  EXPECT_EQ(event_.kernel->cursor().TakePeak(), 0u);
}

// The sum of what is taken may count a peak twice, and lacks none: whatever the
// front-end has seen is in what is taken after it.
TEST_F(DoorbellCursorTest, NoPeakIsLostToWhoTakesIt) {
  DoorbellCursor& cursor = event_.kernel->cursor();
  std::atomic<bool> ended{false};
  std::atomic<uint32_t> largest{0};  // writer: the taker
  std::jthread taker([&] {
    while (!ended.load()) {
      largest.store(std::max(largest.load(), cursor.TakePeak()));
    }
  });
  for (int round = 0; round < 2'000; ++round) {
    const int rings = 1 + round % 4;
    largest.store(0);
    RingDoorbell(rings);
    ASSERT_EQ(Pending(), static_cast<uint32_t>(rings));
    for (int i = 0; i < rings; ++i) {
      event_.kernel->ledger().Finish(cursor.TakeRing(), {});
      ASSERT_TRUE(event_.ring->Poll());
      event_.ring->Consume();
    }
    ASSERT_TRUE(Eventually([&] {
      return largest.load() >= static_cast<uint32_t>(rings);
    })) << round;
  }
  ended.store(true);
}

}  // namespace
}  // namespace carillon::gpud
