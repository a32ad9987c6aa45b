#include "gpu_daemon/event/event_kernel.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"
#include "kernels/simt/completion_status.h"
#include "shm/faults/board.h"
#include "shm/faults/point.h"

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

std::string Check(simt::Dim3 grid, simt::Dim3 block, uint32_t shared = 0) {
  return std::string(
      CheckKernelMetadata({.kernel = simt::FindKernel("null_event"),
                           .grid = grid,
                           .block = block,
                           .shared_bytes = shared},
                          GpuModel{})
          .message());
}

TEST(KernelMetadataTest, EveryDimensionOutOfRangeIsNamedWithItsLimit) {
  EXPECT_EQ(Check({1, 1, 1}, {32, 1, 1}), "");
  EXPECT_EQ(Check({0, 1, 1}, {32, 1, 1}),
            "grid.x is 0: must be from 1 to 2147483647");
  EXPECT_EQ(Check({1, 65536, 1}, {32, 1, 1}),
            "grid.y is 65536: must be from 1 to 65535");
  EXPECT_EQ(Check({1, 1, 65536}, {32, 1, 1}),
            "grid.z is 65536: must be from 1 to 65535");
  EXPECT_EQ(Check({1, 1, 1}, {1025, 1, 1}),
            "block.x is 1025: must be from 1 to 1024");
  EXPECT_EQ(Check({1, 1, 1}, {1, 0, 1}),
            "block.y is 0: must be from 1 to 1024");
  EXPECT_EQ(Check({1, 1, 1}, {1, 1, 65}),
            "block.z is 65: must be from 1 to 64");
  EXPECT_EQ(Check({1, 1, 1}, {64, 32, 1}),
            "block 64x32x1 has 2048 threads: the limit is 1024");
  EXPECT_EQ(Check({1, 1, 1}, {32, 1, 1}, 49153),
            "49153 + 0 bytes of shared memory: an SM has 49152");
}

TEST(KernelMetadataTest, MoreThreadsThanCanBeCountedAreRefused) {
  EXPECT_EQ(Check({1u << 30, 32768, 32768}, {16, 1, 1}),
            "grid 1073741824x32768x32768 of 16 threads each: more than 2^64 in "
            "all");
}

TEST(KernelMetadataTest, ABlockThatNoSmCouldHoldIsRefused) {
  const auto status =
      CheckKernelMetadata({.kernel = simt::FindKernel("null_event"),
                           .grid = {1, 1, 1},
                           .block = {64, 1, 1}},
                          GpuModel{.threads_per_sm = 32});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(KernelMetadataTest, OnlyOneWarpWithoutSharedMemoryTakesTheShortPath) {
  const auto* kernel = simt::FindKernel("null_event");
  EXPECT_TRUE((KernelMetadata{kernel, {1, 1, 1}, {32, 1, 1}, 0}.single_warp()));
  EXPECT_TRUE((KernelMetadata{kernel, {1, 1, 1}, {4, 4, 2}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {1, 1, 1}, {33, 1, 1}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {2, 1, 1}, {32, 1, 1}, 0}.single_warp()));
  EXPECT_FALSE(
      (KernelMetadata{kernel, {1, 1, 1}, {32, 1, 1}, 4}.single_warp()));
}

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

class EventKernelTest : public testing::Test {
 protected:
  TestDevice device_;
  TestDevice::Event event_ =
      device_.Register({.kernel = simt::FindKernel("null_event"),
                        .bindings = {{.constant_bits = 0}},
                        .entries = 4});

  uint32_t Pending() {
    const EventKernel::Pending pending = event_.kernel->PendingRings();
    EXPECT_FALSE(pending.violation);
    return pending.rings;
  }
  void RingDoorbell(int count) {
    for (int i = 0; i < count; ++i) event_.ring->Commit();
    event_.ring->RingDoorbell();
  }
};

TEST_F(EventKernelTest, AnEventEndsOnceWhoeverTriesToEndItAgain) {
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const auto sequence = event_.kernel->TakeRing();
  EXPECT_TRUE(event_.kernel->Finish(sequence, {.state = EventState::kDone}));
  EXPECT_FALSE(event_.kernel->Finish(
      sequence, {.state = EventState::kAborted, .status = 7}));
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
  EXPECT_EQ(event_.kernel->counts().aborted, 0u);
}

// Calls `action` right before the next completion is written to the ring, in
// the thread that writes it.
class BeforeCompletion {
 public:
  BeforeCompletion(const EventKernel& kernel, std::function<void()> action) {
    const uint64_t ecq = kernel.ring().layout().ecq_offset;
    page_ = kernel.memory().completion().At(ecq & ~uint64_t{kPage - 1});
    action_ = std::move(action);
    struct sigaction act {};
    act.sa_handler = [](int) {
      action_();
      mprotect(page_, kPage, PROT_READ | PROT_WRITE);
    };
    sigaction(SIGSEGV, &act, &before_);
    EXPECT_EQ(mprotect(page_, kPage, PROT_READ), 0);
  }
  ~BeforeCompletion() { sigaction(SIGSEGV, &before_, nullptr); }

 private:
  static constexpr size_t kPage = 4096;
  static inline void* page_;
  static inline std::function<void()> action_;
  struct sigaction before_;
};

TEST_F(EventKernelTest, WhoSeesACompletionMayRingForItsSlotAtOnce) {
  RingDoorbell(4);
  ASSERT_EQ(Pending(), 4u);
  for (int i = 0; i < 4; ++i) event_.kernel->TakeRing();
  uint64_t ended = 0;
  const BeforeCompletion look(*event_.kernel,
                              [&] { ended = event_.kernel->ended_in_order(); });
  event_.kernel->Finish(shm::Sequence(1), {.state = EventState::kDone});
  EXPECT_EQ(ended, 1u);
}

TEST_F(EventKernelTest, AfterAnAbortNothingIsInFlight) {
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  event_.kernel->TakeRing();
  std::atomic<bool> finishing{false};
  std::atomic<bool> go_on{false};  // as soon as the abort waits
  const BeforeCompletion halt(*event_.kernel, [&] {
    finishing = true;
    while (!go_on) std::this_thread::yield();
  });
  std::thread worker([&] {
    event_.kernel->Finish(shm::Sequence(1), {.state = EventState::kDone});
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

TEST_F(EventKernelTest, SlotsAreFreeAgainOnlyInOrder) {
  RingDoorbell(4);
  ASSERT_EQ(Pending(), 4u);
  for (int i = 0; i < 4; ++i) event_.kernel->TakeRing();
  // The second ends first: its slot stays taken until the first ends.
  event_.kernel->Finish(shm::Sequence(2), {.state = EventState::kDone});
  EXPECT_FALSE(event_.ring->Poll().has_value());
  // One ring too early.
  std::atomic_ref<uint32_t>(device_.memory->submission().doorbells()[0])
      .fetch_add(1);
  EXPECT_TRUE(event_.kernel->PendingRings().violation);
  event_.kernel->Finish(shm::Sequence(1), {.state = EventState::kDone});
  EXPECT_FALSE(event_.kernel->PendingRings().violation);
  EXPECT_EQ(event_.kernel->completed_in_order(), 2u);
}

TEST_F(EventKernelTest, TheLastEventsEndIsShownWithoutAnotherRing) {
  RingDoorbell(2);
  ASSERT_EQ(Pending(), 2u);
  event_.kernel->TakeRing();
  event_.kernel->TakeRing();
  event_.kernel->Finish(shm::Sequence(2), {.state = EventState::kDone});
  EXPECT_EQ(event_.kernel->ended_in_order(), 0u);
  event_.kernel->Finish(shm::Sequence(1), {.state = EventState::kDone});
  EXPECT_EQ(event_.kernel->ended_in_order(), 2u);
}

TEST_F(EventKernelTest, AbortEndsExactlyWhatIsUnfinished) {
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->TakeRing();
  event_.kernel->Finish(shm::Sequence(2),
                        {.state = EventState::kFailed, .status = 1001});
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 2u);
  const EventCounts counts = event_.kernel->counts();
  EXPECT_EQ(counts.rung, 3u);
  EXPECT_EQ(counts.failed, 1u);
  EXPECT_EQ(counts.aborted, 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
  EXPECT_EQ(event_.kernel->last_failure().sequence, 2u);
  EXPECT_EQ(event_.kernel->last_failure().status, 1001u);
}

// Its device rang once more than it has slots: the GPU passes over event 1, and
// takes the others.
TEST_F(EventKernelTest, WhatAGpuPassedOverIsNotInFlightForEver) {
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

TEST_F(EventKernelTest, WhatAGpuDidNotTakeIsAbortedOnce) {
  RingDoorbell(3);
  event_.kernel->ring().Complete(shm::Sequence(2), EventState::kDone, 0);
  event_.kernel->TakeBack({.launched = 1, .done = 1});
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 2u);
  EXPECT_EQ(event_.kernel->counts().rung, 3u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
}

TEST_F(EventKernelTest, TheLastFailurePairsASequenceWithItsOwnStatus) {
  constexpr uint64_t kTimes = 200'000;
  std::atomic<uint64_t> looks{0};
  std::atomic<bool> done{false};
  uint64_t torn = 0;
  std::thread reader([&] {
    for (; !done; ++looks) {
      const EventKernel::Failure last = event_.kernel->last_failure();
      torn += last.status != last.sequence;
    }
  });
  uint64_t laps = 0;
  for (; laps < kTimes || looks < kTimes; ++laps) {
    RingDoorbell(2);
    EXPECT_EQ(Pending(), 2u);
    for (int i = 0; i < 2; ++i) {
      const auto sequence = event_.kernel->TakeRing();
      event_.kernel->Finish(
          sequence, {.state = EventState::kFailed,
                     .status = static_cast<uint32_t>(sequence.value())});
      event_.ring->Consume();
    }
  }
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(event_.kernel->last_failure().sequence, 2 * laps);
}

TEST_F(EventKernelTest, ADoorbellWrapsAround) {
  // An earlier ring has left it two short of that.
  device_.memory->submission().doorbells()[device_.next_doorbell] = 0u - 2;
  event_ = device_.Register({.kernel = simt::FindKernel("null_event"),
                             .bindings = {{.constant_bits = 0}},
                             .entries = 4});
  for (uint64_t sequence = 1; sequence <= 8; ++sequence) {
    RingDoorbell(1);
    ASSERT_EQ(Pending(), 1u) << sequence;
    ASSERT_EQ(event_.kernel->TakeRing().value(), sequence);
    ASSERT_TRUE(event_.kernel->Finish(shm::Sequence(sequence), {}));
    ASSERT_TRUE(event_.ring->Poll());
    event_.ring->Consume();
    ASSERT_EQ(Pending(), 0u) << sequence;
  }
}

TEST_F(EventKernelTest, ADoorbellUsedBeforeRegistrationDoesNotLaunchAnything) {
  // The next registration gets doorbell 1, whose counter an earlier life left
  // at 5.
  device_.memory->submission().doorbells()[1] = 5;
  auto reused = device_.Register({.kernel = simt::FindKernel("null_event"),
                                  .bindings = {{.constant_bits = 0}}});
  EXPECT_EQ(reused.kernel->PendingRings().rings, 0u);
  reused.ring->Commit();
  reused.ring->RingDoorbell();
  const EventKernel::Pending pending = reused.kernel->PendingRings();
  EXPECT_EQ(pending.rings, 1u);
  EXPECT_FALSE(pending.violation);
}

TEST_F(EventKernelTest, WhatAnEpilogueEndedMayBeRungAgainBeforeGpudLooked) {
  TestDevice device;
  auto event = device.Register({.kernel = simt::FindKernel("null_event"),
                                .bindings = {{.constant_bits = 0}},
                                .entries = 2});
  event.kernel->ExpectEpilogues();
  for (int lap = 0; lap < 3; ++lap) {
    for (int i = 0; i < 2; ++i) event.ring->Commit();
    event.ring->RingDoorbell();
    const EventKernel::Pending pending = event.kernel->PendingRings();
    EXPECT_EQ(pending.rings, 2u);
    EXPECT_FALSE(pending.violation);
    for (int i = 0; i < 2; ++i) {
      const shm::Sequence sequence = event.kernel->TakeRing();
      EXPECT_FALSE(event.kernel->NoteEnded(sequence));
      event.kernel->ring().Complete(
          sequence, i == 0 ? EventState::kDone : EventState::kFailed, 1001);
      EXPECT_TRUE(device.Wait(*event.ring).sequence == sequence);
    }
  }
  EXPECT_EQ(event.kernel->in_flight(), 2u);
  // 1: whose slot has served twice since.
  for (const uint64_t last : {1, 5, 6, 6}) {
    EXPECT_TRUE(event.kernel->NoteEnded(shm::Sequence(last)));
  }
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.done, 3u);
  EXPECT_EQ(counts.failed, 3u);
  EXPECT_EQ(event.kernel->in_flight(), 0u);
  EXPECT_EQ(event.kernel->last_failure().sequence, 6u);
}

TEST_F(EventKernelTest, EveryEndIsRecordedOnceBeforeTheDeviceCanSeeIt) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(event_.kernel->finishes_all());
  event_.kernel->RecordIn(recorder->get());
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->TakeRing();
  for (int i = 0; i < 2; ++i) {
    event_.kernel->Finish(shm::Sequence(2),
                          {.state = EventState::kFailed, .status = 1001});
  }
  event_.kernel->ExpectEpilogues();
  EXPECT_FALSE(event_.kernel->finishes_all());
  event_.kernel->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  for (int i = 0; i < 2; ++i) event_.kernel->NoteEnded(shm::Sequence(1));
  event_.kernel->AbortUnfinished(EventStatus::kShutdown);
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->records.size(), 3u);
  const auto expect = [&](int i, shm::Step step, uint64_t sequence,
                          EventState state, uint32_t status) {
    const shm::FlightRecord& record = read->records[i];
    EXPECT_EQ(record.step, step);
    EXPECT_EQ(record.sequence, sequence);
    EXPECT_EQ(record.state, state);
    EXPECT_EQ(record.status, status);
    EXPECT_EQ(record.event_id, event_.kernel->event_id());
    EXPECT_EQ(record.generation,
              event_.kernel->ring().layout().generation.value());
  };
  expect(0, shm::Step::kEnded, 2, EventState::kFailed, 1001);
  expect(1, shm::Step::kEndNoted, 1, EventState::kDone, 0);
  expect(2, shm::Step::kEnded, 3, EventState::kAborted,
         static_cast<uint32_t>(EventStatus::kShutdown));
  std::filesystem::remove_all(folder);
}

TEST_F(EventKernelTest, AnEndThatTheDeviceFindsIsRecordedThoughGpudDied) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string board_path = std::string(folder) + "/board";
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->RecordIn(recorder->get());
  const auto board = faults::Board::Create(board_path);
  ASSERT_TRUE(board.ok()) << board.status();
  const faults::Fault kill{.name = "f", .point = faults::Point::kGpudCompleted};
  ASSERT_TRUE((*board)->Inject({&kill, 1}).ok());
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const shm::Sequence sequence = event_.kernel->TakeRing();
  const pid_t child = fork();
  if (child == 0) {
    const auto member = faults::Member::Join(board_path, "gpud");
    if (!member.ok()) _exit(99);
    event_.kernel->Finish(sequence, {});
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_TRUE(event_.ring->Poll());
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->records.size(), 1u);
  EXPECT_EQ(read->records[0].step, shm::Step::kEnded);
  EXPECT_EQ(read->records[0].sequence, sequence.value());
  std::filesystem::remove_all(folder);
}

TEST_F(EventKernelTest, WhoHoldsAnEarlierLapsSequenceDoesNotEndALaterEvent) {
  event_.kernel->ExpectEpilogues();
  for (int lap = 0; lap < 2; ++lap) {
    RingDoorbell(4);
    ASSERT_EQ(Pending(), 4u);
    for (int i = 0; i < 4; ++i) event_.kernel->TakeRing();
    if (lap == 1) break;  // 5 to 8 run
    for (uint64_t s = 1; s <= 4; ++s) {
      event_.kernel->ring().Complete(shm::Sequence(s), EventState::kDone, 0);
      device_.Wait(*event_.ring);
    }
  }
  // The ECQ still shows 1 where 5 will be.
  EXPECT_TRUE(event_.kernel->NoteEnded(shm::Sequence(1)));
  EXPECT_EQ(event_.kernel->counts().done, 4u);
  EXPECT_FALSE(event_.kernel->NoteEnded(shm::Sequence(5)));
  EXPECT_FALSE(
      event_.kernel->Finish(shm::Sequence(1), {.state = EventState::kAborted}));
  EXPECT_EQ(event_.kernel->in_flight(), 4u);
}

TEST(ArgumentPlanTest, BindingsThatCannotWorkAreRefusedByName) {
  const auto* echo = simt::FindKernel("echo");
  alignas(16) std::byte bytes[64];
  const auto message = [&](std::vector<ParameterBinding> bindings) {
    return std::string(ArgumentPlan::Make(*echo, bindings).status().message());
  };
  EXPECT_EQ(message({}), "kernel 'echo' has 2 parameters, 0 were given");
  EXPECT_EQ(message({{.buffer = {bytes, 64}}, {}}),
            "parameter 'out' is a buffer and needs a buffer id");
  EXPECT_EQ(
      message({{.writable = true, .buffer = {bytes, 64}, .slot_stride = 8},
               {.buffer = {bytes, 64}}}),
      "parameter 'in' is writable: it cannot have a slot stride");
  const auto* add = simt::FindKernel("vector_add");
  std::vector<ParameterBinding> odd(add->params.size());
  for (auto& binding : odd) binding.buffer = {bytes, 63};
  EXPECT_EQ(std::string(ArgumentPlan::Make(*add, odd).status().message()),
            "parameter 'a': 63 bytes is not a whole number of 4-byte elements");
  for (auto& binding : odd) binding.buffer = {bytes + 2, 60};
  EXPECT_EQ(std::string(ArgumentPlan::Make(*add, odd).status().message()),
            "parameter 'a': offset and slot stride must be multiples of 4");
}

}  // namespace
}  // namespace carillon::gpud
