#include "gpu_daemon/event/doorbell_cursor.h"

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace carillon::gpud
