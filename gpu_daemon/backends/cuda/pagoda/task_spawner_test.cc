// The spawner's side alone, in a time of the test's own and with a GPU that does
// what the test says.
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud {
namespace {

using absl::StatusCode;

constexpr Nanoseconds kMs = 1'000'000;

class Link : public TaskLink {
 public:
  explicit Link(uint32_t entries) : table(entries) {}

  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override {
    if (!next_error.ok()) return next_error;
    EXPECT_EQ(table[entry].state, TaskState::kFree);
    table[entry] = from;
    calls += 'e';
    return absl::OkStatus();
  }
  absl::Status CopyState(uint32_t entry, TaskState state) override {
    EXPECT_EQ(table[entry].state, TaskState::kCopied);
    table[entry].state = state;
    calls += 's';
    return absl::OkStatus();
  }
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override {
    EXPECT_EQ(table[entry].state, TaskState::kFree);
    table[entry] = from;
    calls += 'm';
    return absl::OkStatus();
  }
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override {
    for (size_t i = 0; i < states.size(); ++i)
      states[i] = table[first + i].state;
    calls += states.size() == 1 ? 'b' : 'B';
    return absl::OkStatus();
  }

  // As the scheduler warps, until nothing changes.
  void Schedule() {
    for (bool changed = true; changed;) {
      changed = false;
      for (TaskEntry& entry : table) {
        if (!NamesPredecessor(entry.state)) continue;
        TaskEntry& previous = table[PredecessorOf(entry.state)];
        if (previous.state != TaskState::kCopied) continue;
        previous.state = TaskState::kReleased;
        entry.state = TaskState::kCopied;
        changed = true;
      }
    }
  }
  // What is released runs to its end.
  void RunReleased() {
    Schedule();
    for (TaskEntry& entry : table) {
      if (entry.state == TaskState::kReleased) entry.state = TaskState::kFree;
    }
  }

  std::vector<TaskEntry> table;
  std::string calls;  // a letter each
  absl::Status next_error;
};

class TaskSpawnerTest : public testing::Test {
 protected:
  static constexpr uint32_t kColumns = 2;
  static constexpr uint32_t kRows = 2;

  TaskSpawner Make(TaskWrite write) {
    return TaskSpawner(&link, kColumns, kRows, kTaskMaxExecutors,
                       {.write = write,
                        .empty_update_after = 30 * kMs,
                        .copy_back_after = 10 * kMs,
                        .longest_full = 1000 * kMs,
                        .now = [this] { return now; },
                        .pause =
                            [this] {
                              now += kMs;
                              if (gpu) gpu();
                            }});
  }
  TaskId Spawned(TaskSpawner& spawner) {
    absl::StatusOr<TaskId> id = spawner.Spawn({.threads = 128}, 7, {});
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(TaskId{});
  }

  Link link{kColumns * kRows};
  Nanoseconds now = 1'000'000 * kMs;
  std::function<void()> gpu;  // in every pause
};

TEST_F(TaskSpawnerTest, AnEntryTakesOneCopyAndNamesTheTaskBefore) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  const std::byte args[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(
      spawner
          .Spawn(
              {.blocks = 2, .threads = 64, .shared_bytes = 512, .sync = true},
              7, args)
          .ok());
  Spawned(spawner);
  Spawned(spawner);
  EXPECT_EQ(link.calls, "eee");
  // Column by column in turn: entries 0, 2, 1.
  EXPECT_EQ(link.table[0].state, TaskState::kCopied);
  EXPECT_EQ(link.table[2].state, BehindEntry(0));
  EXPECT_EQ(link.table[1].state, BehindEntry(2));
  EXPECT_EQ(link.table[3].state, TaskState::kFree);
  const TaskEntry& first = link.table[0];
  EXPECT_EQ(first.blocks, 2u);
  EXPECT_EQ(first.threads, 64u);
  EXPECT_EQ(first.shared_bytes, 512u);
  EXPECT_EQ(first.sync, 1u);
  EXPECT_EQ(first.kernel, 7u);
  EXPECT_EQ(first.args_bytes, 3u);
  EXPECT_EQ(first.args[2], std::byte{3});
}

TEST_F(TaskSpawnerTest, AMappedEntryIsReleasedByItself) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  Spawned(spawner);
  Spawned(spawner);
  EXPECT_EQ(link.table[0].state, TaskState::kReleased);
  EXPECT_EQ(link.table[2].state, TaskState::kReleased);
  now += 1000 * kMs;
  EXPECT_TRUE(spawner.Advance().ok());
  EXPECT_EQ(link.calls, "mm") << "it needs no empty update";
}

TEST_F(TaskSpawnerTest, TheTableIsCopiedBackOnlyWhenItSeemsFull) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  for (int i = 0; i < 4; ++i) {
    Spawned(spawner);
    link.RunReleased();
  }
  EXPECT_EQ(link.calls, "eeee");
  Spawned(spawner);
  EXPECT_EQ(link.calls, "eeeeBe");
  Spawned(spawner);
  Spawned(spawner);
  EXPECT_EQ(link.calls, "eeeeBeee") << "three entries were free";
}

TEST_F(TaskSpawnerTest,
       TheLastTaskIsReleasedAfterTheGapAndTheNextBeginsAChain) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  Spawned(spawner);
  Spawned(spawner);
  now += 29 * kMs;
  ASSERT_TRUE(spawner.Advance().ok());
  EXPECT_EQ(link.calls, "ee");
  now += kMs;
  // Its scheduler has not come to it: too early.
  ASSERT_TRUE(spawner.Advance().ok());
  EXPECT_EQ(link.table[2].state, BehindEntry(0));
  link.Schedule();
  ASSERT_TRUE(spawner.Advance().ok());
  EXPECT_EQ(link.table[2].state, TaskState::kReleased);
  ASSERT_TRUE(spawner.Advance().ok());
  EXPECT_EQ(spawner.figures().empty_updates, 1u);
  Spawned(spawner);
  EXPECT_EQ(link.table[1].state, TaskState::kCopied);
}

TEST_F(TaskSpawnerTest, WaitingForTheLastTaskReleasesIt) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  const TaskId first = Spawned(spawner);
  const TaskId last = Spawned(spawner);
  gpu = [&] { link.RunReleased(); };
  EXPECT_TRUE(spawner.Wait(first, 100 * kMs).ok());
  EXPECT_EQ(spawner.figures().empty_updates, 0u);
  EXPECT_TRUE(spawner.Wait(last, 100 * kMs).ok());
  EXPECT_EQ(spawner.figures().empty_updates, 1u);
}

TEST_F(TaskSpawnerTest, WaitCopiesBackOnlyAfterItsTimeOut) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const TaskId id = Spawned(spawner);
  gpu = [&] { link.RunReleased(); };
  const Nanoseconds start = now;
  EXPECT_TRUE(spawner.Wait(id, 100 * kMs).ok());
  EXPECT_EQ(now - start, 10 * kMs);
  EXPECT_EQ(link.calls, "mb");
}

TEST_F(TaskSpawnerTest, CheckSaysSoWhenWhatItKnowsIsOldEnough) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const TaskId id = Spawned(spawner);
  link.RunReleased();
  EXPECT_EQ(*spawner.Check(id), false);
  now += 10 * kMs;
  EXPECT_EQ(*spawner.Check(id), true);
  EXPECT_EQ(*spawner.Check(id), true);
  EXPECT_EQ(link.calls, "mb");
  EXPECT_TRUE(spawner.Wait(id, 0).ok());
  EXPECT_EQ(spawner.Check(id).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(TaskSpawnerTest, ATaskIsWaitedForOnce) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const TaskId one = Spawned(spawner);
  const TaskId two = Spawned(spawner);
  gpu = [&] { link.RunReleased(); };
  EXPECT_TRUE(spawner.Wait(one, 100 * kMs).ok());
  EXPECT_EQ(spawner.Wait(one, 100 * kMs).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(spawner.WaitAll(100 * kMs).ok());
  EXPECT_EQ(spawner.Wait(two, 100 * kMs).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(TaskSpawnerTest, ATaskWhoseEntryIsUsedAgainHasEnded) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  std::vector<TaskId> ids;
  for (int i = 0; i < 11; ++i) {
    ids.push_back(Spawned(spawner));
    if (i < 8) link.RunReleased();
  }
  // The last three run, in entries that others have had.
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(spawner.Wait(ids[i], 0).ok()) << i;
  for (int i = 8; i < 11; ++i) {
    EXPECT_EQ(spawner.Wait(ids[i], 0).code(), StatusCode::kDeadlineExceeded);
  }
}

TEST_F(TaskSpawnerTest, AnIdThatNoTaskHadIsNotFound) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const auto id = static_cast<uint64_t>(Spawned(spawner));
  EXPECT_EQ(id, 2u) << "0, 1 and -1 mean something else to the table";
  for (const uint64_t unknown :
       {uint64_t{0}, uint64_t{1}, id + 1, id + 4, ~uint64_t{0}}) {
    EXPECT_EQ(spawner.Wait(TaskId{unknown}, kMs).code(), StatusCode::kNotFound)
        << unknown;
    EXPECT_EQ(spawner.Check(TaskId{unknown}).status().code(),
              StatusCode::kNotFound);
  }
}

TEST_F(TaskSpawnerTest, ASecondThreadIsRefused) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const TaskId id = Spawned(spawner);
  std::thread([&] {
    EXPECT_EQ(spawner.Spawn({}, 0, {}).status().code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ(spawner.Wait(id, kMs).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(spawner.Check(id).status().code(),
              StatusCode::kFailedPrecondition);
    EXPECT_EQ(spawner.WaitAll(kMs).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(spawner.Advance().code(), StatusCode::kFailedPrecondition);
  }).join();
  EXPECT_EQ(link.calls, "m");
  Spawned(spawner);
}

TEST_F(TaskSpawnerTest, ATableThatStaysFullIsAnErrorInBoundedTime) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  for (int i = 0; i < 4; ++i) Spawned(spawner);
  const Nanoseconds start = now;
  const absl::Status status = spawner.Spawn({}, 0, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("4 entries"), std::string::npos) << status;
  EXPECT_EQ(now - start, 1000 * kMs);
  link.RunReleased();
  Spawned(spawner);
}

// The only entry has the task that waits for a successor.
TEST_F(TaskSpawnerTest, AFullTableReleasesItsLastTask) {
  TaskSpawner spawner(&link, 1, 1, 31,
                      {.write = TaskWrite::kCopy,
                       .now = [this] { return now; },
                       .pause =
                           [this] {
                             now += kMs;
                             link.RunReleased();
                           }});
  for (int i = 0; i < 3; ++i) Spawned(spawner);
  EXPECT_EQ(spawner.figures().empty_updates, 2u);
  EXPECT_TRUE(spawner.WaitAll(100 * kMs).ok());
}

TEST_F(TaskSpawnerTest, WaitingForATaskThatNeverEndsIsBounded) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  const TaskId id = Spawned(spawner);
  Nanoseconds start = now;
  const absl::Status status = spawner.Wait(id, 50 * kMs);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("50 ms"), std::string::npos) << status;
  EXPECT_EQ(now - start, 50 * kMs);
  start = now;
  EXPECT_EQ(spawner.WaitAll(50 * kMs).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(now - start, 50 * kMs);
  link.RunReleased();
  EXPECT_TRUE(spawner.Wait(id, 0).ok()) << "it may be waited for again";
}

TEST_F(TaskSpawnerTest, WhatNoMtbCanRunIsRefusedWithTheReason) {
  TaskSpawner spawner = Make(TaskWrite::kMapped);
  const auto refused = [&](const TaskShape& shape, size_t args_bytes,
                           const std::string& reason) {
    const std::vector<std::byte> args(args_bytes);
    const absl::Status status = spawner.Spawn(shape, 0, args).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(reason), std::string::npos) << status;
  };
  refused({.blocks = 0}, 0, "0 thread blocks: it must have 1 to 65535");
  refused({.blocks = 65536}, 0, "65536 thread blocks");
  refused({.threads = 0}, 0, "of 0 threads");
  refused({.threads = 31 * 32 + 1}, 0,
          "993 threads: all warps of a block run in one MTB, which has 31");
  refused({.shared_bytes = 32 * 1024 + 1}, 0,
          "32769 bytes of shared memory a thread block: an MTB has 32768");
  refused({}, kTaskMaxArgs + 1, "arguments of 209 bytes");
  EXPECT_EQ(link.calls, "");
  EXPECT_TRUE(spawner
                  .Spawn({.blocks = 65535,
                          .threads = 31 * 32,
                          .shared_bytes = 32 * 1024,
                          .sync = true},
                         0, std::vector<std::byte>(kTaskMaxArgs))
                  .ok());
}

TEST_F(TaskSpawnerTest, AnErrorOfTheLinkIsTheCallersAndTakesNoEntry) {
  TaskSpawner spawner = Make(TaskWrite::kCopy);
  link.next_error = absl::UnavailableError("no GPU");
  EXPECT_EQ(spawner.Spawn({}, 0, {}).status(), link.next_error);
  link.next_error = absl::OkStatus();
  for (int i = 0; i < 4; ++i) Spawned(spawner);
  EXPECT_EQ(link.calls, "eeee");
}

}  // namespace
}  // namespace carillon::gpud
