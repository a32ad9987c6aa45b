#include "gpu_daemon/event/gpu_ledger.h"

#include <gtest/gtest.h>

#include <atomic>

#include "gpu_daemon/event/event_fixture.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

using GpuLedgerTest = EventFixture;

// Its device rang once more than it has slots: the GPU passes over event 1, and
// takes the others.
TEST_F(GpuLedgerTest, WhatAGpuPassedOverIsNotInFlightForEver) {
  RingDoorbell(4);
  std::atomic_ref<uint32_t>(
      device_.memory->submission().doorbells()[event_.kernel->event_id()])
      .fetch_add(1);
  for (const uint64_t ended : {2, 3, 4}) {
    event_.kernel->ring().Complete(shm::Sequence(ended), EventState::kDone, 0);
  }
  event_.kernel->TakeBack({.launched = 3, .done = 3});
  EXPECT_EQ(event_.kernel->in_flight(), 1u);
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 1u);
  const EventCounts counts = event_.kernel->counts();
  EXPECT_EQ(counts.rung, 5u);
  EXPECT_EQ(counts.done, 3u);
  EXPECT_EQ(counts.aborted, 2u);
}

TEST_F(GpuLedgerTest, WhatAGpuDidNotTakeIsAbortedOnce) {
  RingDoorbell(3);
  event_.kernel->ring().Complete(shm::Sequence(2), EventState::kDone, 0);
  event_.kernel->TakeBack({.launched = 1, .done = 1});
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 2u);
  EXPECT_EQ(event_.kernel->counts().rung, 3u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
}

TEST_F(GpuLedgerTest, FiguresAreTheGpusUntilItHasStopped) {
  RingDoorbell(3);
  simt::EventTotals totals = event_.kernel->gpu_ledger().FirstTotals();
  event_.kernel->gpu_ledger().Follow(&totals);
  EXPECT_FALSE(event_.kernel->finishes_all());
  totals.launched = 2;
  totals.done = 1;
  EXPECT_EQ(event_.kernel->launched(), 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 1u);
  EXPECT_EQ(event_.kernel->waiting_rings(), 1u);
  for (const uint64_t ended : {1, 2}) {
    event_.kernel->ring().Complete(shm::Sequence(ended), EventState::kDone, 0);
  }
  totals.done = 2;
  event_.kernel->TakeBack(totals);
  totals.done = 0;
  EXPECT_TRUE(event_.kernel->finishes_all());
  EXPECT_EQ(event_.kernel->counts().done, 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 1u) << "the third, which nobody took";
}

TEST_F(GpuLedgerTest, AnEventThatEndsEarlyFreesNoSlotButItsOwn) {
  const uint64_t entries = event_.kernel->ring().layout().entries;
  simt::EventTotals totals = event_.kernel->gpu_ledger().FirstTotals();
  event_.kernel->gpu_ledger().Follow(&totals);
  RingDoorbell(static_cast<uint32_t>(entries));
  event_.kernel->ring().Complete(shm::Sequence(entries), EventState::kDone, 0);
  EXPECT_EQ(event_.kernel->gpu_ledger().EndedInOrder(), 0u);
  EXPECT_FALSE(event_.kernel->ScheduleThrough(entries + 1));
  for (uint64_t ended = 1; ended < entries; ++ended) {
    event_.kernel->ring().Complete(shm::Sequence(ended), EventState::kDone, 0);
  }
  EXPECT_EQ(event_.kernel->gpu_ledger().EndedInOrder(), entries);
  EXPECT_TRUE(event_.kernel->ScheduleThrough(2 * entries));
  EXPECT_FALSE(event_.kernel->ScheduleThrough(2 * entries + 1));
  // A lap later, too.
  event_.kernel->ring().Complete(shm::Sequence(entries + 2), EventState::kDone,
                                 0);
  EXPECT_EQ(event_.kernel->gpu_ledger().EndedInOrder(), entries);
  event_.kernel->gpu_ledger().StopFollowing();
}

TEST_F(GpuLedgerTest, ADoorbellOutsideTheRingNamesNoEventRung) {
  RingDoorbell(2);
  event_.kernel->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  EXPECT_EQ(event_.kernel->gpu_ledger().LastEnded(), 1u);
  EXPECT_EQ(event_.kernel->gpu_ledger().LastRung(), 2u);
  std::atomic_ref<uint32_t>(
      device_.memory->submission().doorbells()[event_.kernel->event_id()])
      .store(1000);
  EXPECT_EQ(event_.kernel->gpu_ledger().LastRung(), 1u);
}

}  // namespace
}  // namespace carillon::gpud
