#include "gpu_daemon/event/completion_ledger.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/temp_directory.h"
#include "gpu_daemon/event/event_fixture.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/registry.h"
#include "shm/faults/board.h"
#include "shm/faults/point.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

using CompletionLedgerTest = EventFixture;

TEST_F(CompletionLedgerTest, AnEventEndsOnceWhoeverTriesToEndItAgain) {
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const auto sequence = event_.kernel->cursor().TakeRing();
  EXPECT_TRUE(
      event_.kernel->ledger().Finish(sequence, {.state = EventState::kDone}));
  EXPECT_FALSE(event_.kernel->ledger().Finish(
      sequence, {.state = EventState::kAborted, .status = 7}));
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
  EXPECT_EQ(event_.kernel->counts().aborted, 0u);
}

TEST_F(CompletionLedgerTest, WhoSeesACompletionMayRingForItsSlotAtOnce) {
  RingDoorbell(4);
  ASSERT_EQ(Pending(), 4u);
  for (int i = 0; i < 4; ++i) event_.kernel->cursor().TakeRing();
  uint64_t ended = 0;
  const BeforeCompletion look(*event_.kernel,
                              [&] { ended = event_.kernel->ended_in_order(); });
  event_.kernel->ledger().Finish(shm::Sequence(1),
                                 {.state = EventState::kDone});
  EXPECT_EQ(ended, 1u);
}

TEST_F(CompletionLedgerTest, AbortEndsExactlyWhatIsUnfinished) {
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->cursor().TakeRing();
  event_.kernel->ledger().Finish(
      shm::Sequence(2), {.state = EventState::kFailed, .status = 1001});
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kDeviceGone), 2u);
  const EventCounts counts = event_.kernel->counts();
  EXPECT_EQ(counts.rung, 3u);
  EXPECT_EQ(counts.failed, 1u);
  EXPECT_EQ(counts.aborted, 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
  EXPECT_EQ(event_.kernel->last_failure().sequence, 2u);
  EXPECT_EQ(event_.kernel->last_failure().status, 1001u);
}

TEST_F(CompletionLedgerTest, TheLastFailurePairsASequenceWithItsOwnStatus) {
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
      const auto sequence = event_.kernel->cursor().TakeRing();
      event_.kernel->ledger().Finish(
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

TEST_F(CompletionLedgerTest,
       WhatAnEpilogueEndedMayBeRungAgainBeforeGpudLooked) {
  TestDevice device;
  auto event = device.Register({.kernel = simt::FindKernel("null_event"),
                                .bindings = {{.constant_bits = 0}},
                                .entries = 2});
  event.kernel->ledger().ExpectEpilogues();
  for (int lap = 0; lap < 3; ++lap) {
    for (int i = 0; i < 2; ++i) event.ring->Commit();
    event.ring->RingDoorbell();
    const DoorbellCursor::Pending pending =
        event.kernel->cursor().PendingRings();
    EXPECT_EQ(pending.rings, 2u);
    EXPECT_FALSE(pending.violation);
    for (int i = 0; i < 2; ++i) {
      const shm::Sequence sequence = event.kernel->cursor().TakeRing();
      EXPECT_FALSE(event.kernel->ledger().NoteEnded(sequence));
      event.kernel->ring().Complete(
          sequence, i == 0 ? EventState::kDone : EventState::kFailed, 1001);
      EXPECT_TRUE(device.Wait(*event.ring).sequence == sequence);
    }
  }
  EXPECT_EQ(event.kernel->in_flight(), 2u);
  // 1: whose slot has served twice since.
  for (const uint64_t last : {1, 5, 6, 6}) {
    EXPECT_TRUE(event.kernel->ledger().NoteEnded(shm::Sequence(last)));
  }
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.done, 3u);
  EXPECT_EQ(counts.failed, 3u);
  EXPECT_EQ(event.kernel->in_flight(), 0u);
  EXPECT_EQ(event.kernel->last_failure().sequence, 6u);
}

TEST_F(CompletionLedgerTest, EveryEndIsRecordedOnce) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(event_.kernel->finishes_all());
  event_.kernel->ledger().RecordIn(recorder->get());
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->cursor().TakeRing();
  for (int i = 0; i < 2; ++i) {
    event_.kernel->ledger().Finish(
        shm::Sequence(2), {.state = EventState::kFailed, .status = 1001});
  }
  event_.kernel->ledger().ExpectEpilogues();
  EXPECT_FALSE(event_.kernel->finishes_all());
  event_.kernel->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  for (int i = 0; i < 2; ++i)
    event_.kernel->ledger().NoteEnded(shm::Sequence(1));
  event_.kernel->AbortUnfinished(EventStatus::kShutdown);
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->records.size(), 4u);
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
  expect(3, shm::Step::kCounted, 3, EventState::kNone, 0);
  std::filesystem::remove_all(folder);
}

TEST_F(CompletionLedgerTest, WhatAGpuEndedIsCountedWhenItIsTakenBack) {
  const TempDirectory folder;
  const auto recorder =
      shm::FlightRecorder::Create(folder.path() + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get());
  const uint32_t entries = event_.kernel->ring().layout().entries;
  const uint64_t rung = entries + 3;  // and what lay in three slots was taken
  for (uint64_t s = 1; s < rung; ++s) {
    RingDoorbell(1);
    event_.kernel->ring().Complete(shm::Sequence(s), EventState::kDone, 0);
    ASSERT_TRUE(event_.ring->Poll());
    event_.ring->Consume();
  }
  RingDoorbell(1);
  event_.kernel->TakeBack({.launched = rung - 1, .done = rung - 1});
  event_.kernel->AbortUnfinished(EventStatus::kDeviceGone);
  event_.kernel->AbortUnfinished(EventStatus::kDeviceGone);
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<std::pair<shm::Step, uint64_t>> found;
  for (const shm::FlightRecord& record : read->records) {
    found.emplace_back(record.step, record.sequence);
  }
  std::vector<std::pair<shm::Step, uint64_t>> expected;
  for (uint64_t s = 4; s < rung; ++s) {
    expected.emplace_back(shm::Step::kEndNoted, s);
  }
  expected.emplace_back(shm::Step::kEnded, rung);
  expected.emplace_back(shm::Step::kCounted, rung);
  EXPECT_EQ(found, expected);
}

uint64_t Counted(const shm::FlightRecorder& recorder) {
  const auto read = shm::ReadFlightRecording(recorder.path());
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok()) return 0;
  return std::ranges::count(read->records, shm::Step::kCounted,
                            &shm::FlightRecord::step);
}

// An event kernel may be unregistered while its session ends. Whoever comes first,
// the ring's number is there before its removal is recorded.
TEST_F(CompletionLedgerTest, TheNumberIsRecordedOnceForWhoeverComesSecond) {
  const TempDirectory folder;
  for (int round = 0; round < 50; ++round) {
    const auto recorder = shm::FlightRecorder::Create(
        folder.path() + "/" + std::to_string(round), "gpud", 64);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    TestDevice device;
    const auto event =
        device.Register({.kernel = simt::FindKernel("null_event"),
                         .bindings = {{.constant_bits = 0}}});
    event.kernel->ledger().RecordIn(recorder->get());
    event.kernel->ledger().ExpectEpilogues();
    std::barrier start(2);
    const auto end = [&] {
      start.arrive_and_wait();
      event.kernel->AbortUnfinished(EventStatus::kDeviceGone);
      EXPECT_EQ(Counted(**recorder), 1u);
    };
    std::thread other(end);
    end();
    other.join();
  }
}

TEST_F(CompletionLedgerTest, ANumberThatIsLostIsRecordedNowhere) {
  const TempDirectory folder;
  const auto recorder =
      shm::FlightRecorder::Create(folder.path() + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get());
  event_.kernel->ledger().ExpectEpilogues();
  event_.kernel->ledger().LoseCount();
  RingDoorbell(1);
  event_.kernel->ring().Complete(shm::Sequence(1), EventState::kDone, 0);
  event_.kernel->TakeBack({.launched = 1, .done = 1});
  event_.kernel->AbortUnfinished(EventStatus::kDeviceGone);
  EXPECT_EQ(Counted(**recorder), 0u);
}

TEST_F(CompletionLedgerTest, ATracedEventsStampsAreRecordedWithTheirOwnTimes) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  CompletionLedger& ledger = event_.kernel->ledger();
  ledger.RecordIn(recorder->get());
  RingDoorbell(4);
  ASSERT_EQ(Pending(), 4u);
  for (int i = 0; i < 4; ++i) event_.kernel->cursor().TakeRing();
  const auto finish = [&](uint64_t sequence, const shm::EventLife* life) {
    ledger.Finish(shm::Sequence(sequence),
                  {.state = EventState::kDone, .life = life});
  };
  const shm::EventLife life = {
      .rung_ns = 10, .seen_ns = 20, .dispatched_ns = 30, .finished_ns = 40};
  finish(1, &life);
  finish(1, &life);
  finish(2, nullptr);  // not traced
  const shm::EventLife cancelled = {.rung_ns = 11, .seen_ns = 21};
  finish(3, &cancelled);
  // The kernel's epilogue has stored this one's.
  ledger.ExpectEpilogues();
  event_.kernel->ring().life(shm::Sequence(4)) = {
      .rung_ns = 12, .seen_ns = 22, .dispatched_ns = 32, .finished_ns = 42};
  event_.kernel->ring().Complete(shm::Sequence(4), EventState::kDone, 0);
  for (int i = 0; i < 2; ++i) ledger.NoteEnded(shm::Sequence(4));
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  using Shown = std::tuple<shm::Step, uint64_t, Nanoseconds>;
  std::vector<Shown> shown;
  for (const shm::FlightRecord& record : read->records) {
    EXPECT_EQ(record.event_id, event_.kernel->event_id());
    EXPECT_EQ(record.generation,
              event_.kernel->ring().layout().generation.value());
    const bool end = record.state != EventState::kNone;
    shown.emplace_back(record.step, record.sequence, end ? 0 : record.time_ns);
  }
  EXPECT_EQ(shown, (std::vector<Shown>{{shm::Step::kSeen, 1, 20},
                                       {shm::Step::kDispatched, 1, 30},
                                       {shm::Step::kEnded, 1, 0},
                                       {shm::Step::kEnded, 2, 0},
                                       {shm::Step::kSeen, 3, 21},
                                       {shm::Step::kEnded, 3, 0},
                                       {shm::Step::kSeen, 4, 22},
                                       {shm::Step::kDispatched, 4, 32},
                                       {shm::Step::kEndNoted, 4, 0}}));
  std::filesystem::remove_all(folder);
}

TEST_F(CompletionLedgerTest, StampsOfAnotherClockAreNotRecorded) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get(), /*lives=*/false);
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const shm::EventLife life = {
      .rung_ns = 10, .seen_ns = 20, .dispatched_ns = 30, .finished_ns = 40};
  event_.kernel->ledger().Finish(event_.kernel->cursor().TakeRing(),
                                 {.state = EventState::kDone, .life = &life});
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->records.size(), 1u);
  EXPECT_EQ(read->records[0].step, shm::Step::kEnded);
  std::filesystem::remove_all(folder);
}

TEST_F(CompletionLedgerTest, AnEndIsRecordedWhenItIsThereAndNotBefore) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get());
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const shm::Sequence sequence = event_.kernel->cursor().TakeRing();
  const std::string path = (*recorder)->path();
  // Copied where it cannot be read: nothing may be allocated in a handler.
  std::vector<char> before(std::filesystem::file_size(path));
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ssize_t copied = 0;
  const BeforeCompletion look(*event_.kernel, [&] {
    copied = pread(file, before.data(), before.size(), 0);
  });
  event_.kernel->ledger().Finish(sequence, {});
  close(file);
  ASSERT_EQ(copied, static_cast<ssize_t>(before.size()));
  const std::string before_path = std::string(folder) + "/before";
  std::ofstream(before_path).write(before.data(), copied);
  EXPECT_EQ(shm::ReadFlightRecording(before_path)->written, 0u);
  EXPECT_EQ(shm::ReadFlightRecording(path)->written, 1u);
  std::filesystem::remove_all(folder);
}

TEST_F(CompletionLedgerTest, AnEndThatTheDeviceFindsIsRecordedThoughGpudDied) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string board_path = std::string(folder) + "/board";
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get());
  const auto board = faults::Board::Create(board_path);
  ASSERT_TRUE(board.ok()) << board.status();
  const faults::Fault kill{.name = "f", .point = faults::Point::kGpudCompleted};
  ASSERT_TRUE((*board)->Inject({&kill, 1}).ok());
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  const shm::Sequence sequence = event_.kernel->cursor().TakeRing();
  const pid_t child = fork();
  if (child == 0) {
    const auto member = faults::Member::Join(board_path, "gpud");
    if (!member.ok()) _exit(99);
    event_.kernel->ledger().Finish(sequence, {});
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

// This process, on a board that holds one fault.
class OnABoard {
 public:
  explicit OnABoard(faults::Fault fault) {
    fault.name = "f";
    const std::string path = std::string(mkdtemp(folder_)) + "/board";
    auto board = faults::Board::Create(path);
    EXPECT_TRUE(board.ok()) << board.status();
    board_ = *std::move(board);
    EXPECT_TRUE(board_->Inject({&fault, 1}).ok());
    auto member = faults::Member::Join(path, "gpud");
    EXPECT_TRUE(member.ok()) << member.status();
    member_ = *std::move(member);
  }
  ~OnABoard() {
    member_.reset();
    std::filesystem::remove_all(folder_);
  }
  uint64_t struck() const { return board_->List().at(0).struck; }
  void LeaveTheBoard() { member_.reset(); }

 private:
  char folder_[32] = "/tmp/ledger-board-XXXXXX";
  std::unique_ptr<faults::Board> board_;
  std::unique_ptr<faults::Member> member_;
};

TEST_F(CompletionLedgerTest, AReorderedCompletionComesAfterALaterOne) {
  OnABoard board({.point = faults::Point::kGpudComplete,
                  .action = faults::Action::kReorder});
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->cursor().TakeRing();
  CompletionLedger& ledger = event_.kernel->ledger();
  EXPECT_TRUE(ledger.Finish(shm::Sequence(1), {}));
  // It is in flight, and ends once.
  EXPECT_FALSE(event_.ring->Poll());
  EXPECT_FALSE(ledger.IsFinished(shm::Sequence(1)));
  EXPECT_FALSE(ledger.Finish(shm::Sequence(1), {}));
  EXPECT_EQ(event_.kernel->counts().done, 0u);
  // The fault is spent, and its point free.
  board.LeaveTheBoard();
  bool was_first = true;
  const BeforeCompletion look(
      *event_.kernel, [&] { was_first = ledger.IsFinished(shm::Sequence(1)); });
  EXPECT_TRUE(ledger.Finish(shm::Sequence(2), {}));
  EXPECT_FALSE(was_first);
  EXPECT_EQ(event_.ring->Poll()->sequence.value(), 1u);
  event_.ring->Consume();
  EXPECT_EQ(event_.ring->Poll()->sequence.value(), 2u);
  EXPECT_EQ(event_.kernel->counts().done, 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 1u);
}

// Otherwise AbortUnfinished() would wait for it for ever.
TEST_F(CompletionLedgerTest, AReorderedCompletionWithoutALaterOneEndsAtLast) {
  OnABoard board({.point = faults::Point::kGpudComplete,
                  .times = 0,
                  .action = faults::Action::kReorder});
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  event_.kernel->cursor().TakeRing();
  event_.kernel->ledger().Finish(shm::Sequence(1), {});
  ASSERT_EQ(event_.kernel->in_flight(), 1u);
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kShutdown), 0u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
  EXPECT_EQ(event_.kernel->counts().done, 1u);
}

TEST_F(CompletionLedgerTest, WhatIsKeptForAnotherGpudIsNotAborted) {
  char folder[] = "/tmp/event-kernel-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto recorder =
      shm::FlightRecorder::Create(std::string(folder) + "/r", "gpud", 64);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  event_.kernel->ledger().RecordIn(recorder->get());
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) event_.kernel->cursor().TakeRing();
  event_.kernel->ledger().KeepUnfinished();
  EXPECT_TRUE(event_.kernel->ledger().Finish(shm::Sequence(1), {}));
  EXPECT_EQ(event_.kernel->AbortUnfinished(EventStatus::kShutdown), 2u);
  EXPECT_EQ(event_.kernel->in_flight(), 0u);
  // It ran on, and ends too late.
  EXPECT_FALSE(event_.kernel->ledger().Finish(shm::Sequence(2), {}));
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
  event_.ring->Consume();
  EXPECT_FALSE(event_.ring->Poll());
  const auto read = shm::ReadFlightRecording((*recorder)->path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->records.size(), 1u);
  std::filesystem::remove_all(folder);
}

TEST_F(CompletionLedgerTest, ACorruptedCompletionIsNotWhatGpudRecords) {
  struct Case {
    uint32_t offset;
    EventState state;
    uint32_t status;
  };
  for (const Case& c :
       {Case{offsetof(shm::EcqEntry, state), EventState(0x81), 0},
        Case{offsetof(shm::EcqEntry, status), EventState::kDone, 0x80}}) {
    OnABoard board({.point = faults::Point::kGpudComplete,
                    .action = faults::Action::kCorrupt,
                    .offset = c.offset,
                    .mask = "\x80"});
    RingDoorbell(1);
    ASSERT_EQ(Pending(), 1u);
    event_.kernel->ledger().Finish(event_.kernel->cursor().TakeRing(), {});
    const auto found = event_.ring->Poll();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->state, c.state);
    EXPECT_EQ(found->status, c.status);
    event_.ring->Consume();
    EXPECT_EQ(board.struck(), 1u);
  }
  EXPECT_EQ(event_.kernel->counts().done, 2u);
  EXPECT_EQ(event_.kernel->counts().failed, 0u);
  OnABoard board({.point = faults::Point::kGpudComplete,
                  .action = faults::Action::kCorrupt,
                  .offset = offsetof(shm::EcqEntry, sequence),
                  .mask = "\x80"});
  RingDoorbell(1);
  ASSERT_EQ(Pending(), 1u);
  event_.kernel->ledger().Finish(event_.kernel->cursor().TakeRing(), {});
  EXPECT_FALSE(event_.ring->Poll());
}

TEST_F(CompletionLedgerTest, TheOutputOfTheStruckEventIsScribbledUpon) {
  constexpr uint64_t kStride = 8;
  std::byte outputs[4 * kStride]{};
  event_.kernel->ledger().HasOutput(
      {.data = outputs, .bytes = 4, .slot_stride = kStride});
  OnABoard board({.point = faults::Point::kGpudOutput,
                  .nth = 2,
                  .action = faults::Action::kCorrupt,
                  .offset = 2,
                  .bytes = "abcdef"});
  RingDoorbell(3);
  ASSERT_EQ(Pending(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto sequence = event_.kernel->cursor().TakeRing();
    // What has not been done has no output.
    event_.kernel->ledger().Finish(
        sequence, {.state = i == 0 ? EventState::kFailed : EventState::kDone});
  }
  EXPECT_EQ(board.struck(), 1u);
  std::byte expected[4 * kStride]{};
  const uint64_t slot = event_.kernel->ring().layout().SlotOf(shm::Sequence(3));
  expected[slot * kStride + 2] = std::byte('a');
  expected[slot * kStride + 3] = std::byte('b');
  EXPECT_EQ(std::memcmp(outputs, expected, sizeof(outputs)), 0);
}

TEST_F(CompletionLedgerTest,
       WhoHoldsAnEarlierLapsSequenceDoesNotEndALaterEvent) {
  event_.kernel->ledger().ExpectEpilogues();
  for (int lap = 0; lap < 2; ++lap) {
    RingDoorbell(4);
    ASSERT_EQ(Pending(), 4u);
    for (int i = 0; i < 4; ++i) event_.kernel->cursor().TakeRing();
    if (lap == 1) break;  // 5 to 8 run
    for (uint64_t s = 1; s <= 4; ++s) {
      event_.kernel->ring().Complete(shm::Sequence(s), EventState::kDone, 0);
      device_.Wait(*event_.ring);
    }
  }
  // The ECQ still shows 1 where 5 will be.
  EXPECT_TRUE(event_.kernel->ledger().NoteEnded(shm::Sequence(1)));
  EXPECT_EQ(event_.kernel->counts().done, 4u);
  EXPECT_FALSE(event_.kernel->ledger().NoteEnded(shm::Sequence(5)));
  EXPECT_FALSE(event_.kernel->ledger().Finish(shm::Sequence(1),
                                              {.state = EventState::kAborted}));
  EXPECT_EQ(event_.kernel->in_flight(), 4u);
}

}  // namespace
}  // namespace carillon::gpud
