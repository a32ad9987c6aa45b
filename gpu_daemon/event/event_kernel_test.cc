#include "gpu_daemon/event/event_kernel.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "gpu_daemon/event/event_fixture.h"
#include "kernels/simt/completion_status.h"

namespace {

// What this thread's sched_yield() sets.
thread_local std::atomic<bool>* yielded = nullptr;

}  // namespace

extern "C" int sched_yield() noexcept {
  if (yielded != nullptr) *yielded = true;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

TEST(CompletionStatusTest, EveryFindingOfTheBackEndHasAStatusOfItsOwn) {
  const std::pair<simt::FailStatus, EventStatus> findings[] = {
      {simt::kFailNone, EventStatus::kOk},
      {simt::kFailBarrierDeadlock, EventStatus::kBarrierDivergence},
      {simt::kFailWarpDeadlock, EventStatus::kWarpDivergence},
      {simt::kFailSharedOutOfRange, EventStatus::kSharedOutOfRange},
      {simt::kFailBadLaunch, EventStatus::kBadLaunch},
      {simt::kFailNoMemory, EventStatus::kNoMemory}};
  for (const auto& [finding, status] : findings) {
    EXPECT_EQ(simt::CompletionStatus(finding), static_cast<uint32_t>(status))
        << finding;
  }
}

TEST(CompletionStatusTest, AKernelsOwnCodesFollowTheBase) {
  constexpr auto kBase = static_cast<uint32_t>(EventStatus::kKernelStatusBase);
  for (const uint32_t code :
       {uint32_t{simt::kFailBadArguments}, uint32_t{simt::kFailBadShape},
        uint32_t{100}, uint32_t{simt::kMaxKernelStatus}}) {
    EXPECT_EQ(simt::CompletionStatus(code), kBase + code);
  }
  // Neither a kernel's nor a known finding: never a success, and never
  // somebody else's name.
  EXPECT_EQ(simt::CompletionStatus(0xffffffff), kBase + simt::kMaxKernelStatus);
}

using EventKernelTest = EventFixture;

TEST_F(EventKernelTest, AfterAnAbortNothingIsInFlight) {
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  event_.kernel->cursor().TakeRing();
  std::atomic<bool> finishing{false};
  std::atomic<bool> go_on{false};  // as soon as the abort waits
  const BeforeCompletion halt(*event_.kernel, [&] {
    finishing = true;
    while (!go_on) std::this_thread::yield();
  });
  std::thread worker([&] {
    event_.kernel->ledger().Finish(shm::Sequence(1),
                                   {.state = EventState::kDone});
  });
  while (!finishing) std::this_thread::yield();
  yielded = &go_on;
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 0u);
  yielded = nullptr;
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
  EXPECT_EQ(event_.kernel->counts().done, 1u);
  go_on = true;
  worker.join();
}

TEST_F(EventKernelTest, TheLastEventsEndIsShownWithoutAnotherRing) {
  RingDoorbell(2);
  ASSERT_EQ(Pending(), 2u);
  event_.kernel->cursor().TakeRing();
  event_.kernel->cursor().TakeRing();
  event_.kernel->ledger().Finish(shm::Sequence(2),
                                 {.state = EventState::kDone});
  EXPECT_EQ(event_.kernel->ended_in_order(), 0u);
  event_.kernel->ledger().Finish(shm::Sequence(1),
                                 {.state = EventState::kDone});
  EXPECT_EQ(event_.kernel->ended_in_order(), 2u);
}

TEST_F(EventKernelTest, ThePeakCountsWhatIsThereWhenItIsTaken) {
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  event_.kernel->cursor().TakeRing();
  event_.kernel->ledger().Finish(shm::Sequence(1), {});
  EXPECT_EQ(event_.kernel->TakePeak(), 3u);
  EXPECT_EQ(event_.kernel->TakePeak(), 2u) << "they still wait";
}

TEST_F(EventKernelTest, TheLastTracedEventIsShownAndNeverTorn) {
  const auto finish = [&](uint64_t sequence, const shm::EventLife* life) {
    event_.kernel->ledger().Finish(shm::Sequence(sequence), {.life = life});
  };
  const auto launch = [&](int count) {
    RingDoorbell(count);
    ASSERT_EQ(Pending(), static_cast<uint32_t>(count));
    for (int i = 0; i < count; ++i) event_.kernel->cursor().TakeRing();
  };
  launch(4);
  finish(1, nullptr);
  EXPECT_FALSE(event_.kernel->LastTraced()) << "it was not traced";
  const shm::EventLife before = {.rung_ns = 1, .finished_ns = 2};
  const shm::EventLife after = {.rung_ns = 3, .finished_ns = 4};
  finish(3, &after);
  EXPECT_FALSE(event_.kernel->LastTraced()) << "the second runs";
  finish(2, &before);
  ASSERT_TRUE(event_.kernel->LastTraced());
  EXPECT_EQ(event_.kernel->LastTraced()->sequence, 3u);
  EXPECT_EQ(event_.kernel->LastTraced()->life.finished_ns, 4u);
  finish(4, &before);
  for (int i = 0; i < 4; ++i) device_.Wait(*event_.ring);
  launch(4);
  // Number 8 has the slot of number 4, whose stamps it has not touched yet.
  ASSERT_TRUE(event_.kernel->LastTraced());
  EXPECT_EQ(event_.kernel->LastTraced()->sequence, 4u);
  bool shown = true;
  {
    // What it writes first is its stamps, in the page of its completion.
    BeforeCompletion hook(*event_.kernel, [&] {
      shown = event_.kernel->LastTraced().has_value();
    });
    finish(8, &after);
  }
  EXPECT_FALSE(shown);
}

TEST_F(EventKernelTest, WhereAGpuPollsThePeakIsWhatHasNotEnded) {
  simt::EventTotals totals = event_.kernel->gpu_ledger().FirstTotals();
  event_.kernel->gpu_ledger().Follow(&totals);
  for (uint64_t s = 1; s <= 12; ++s) {
    RingDoorbell(1);
    totals.launched = s;
    EXPECT_EQ(event_.kernel->TakePeak(), 1u) << s;
    event_.kernel->ring().Complete(shm::Sequence(s), EventState::kDone, 0);
    totals.done = s;
    EXPECT_EQ(event_.kernel->ended_in_order(), s);
    EXPECT_EQ(event_.kernel->TakePeak(), 0u) << s;
    device_.Wait(*event_.ring);
  }
  event_.kernel->gpu_ledger().StopFollowing();
}

}  // namespace
}  // namespace carillon::gpud
