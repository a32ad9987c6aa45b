// MTBs whose warps are threads, and tasks that a spawner sends them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "gpu_daemon/backends/cuda/pagoda/pagoda_testbed.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud::pagoda_test {
namespace {

// --- Random tasks. All of a task follows from its number.

struct RandomTask {
  TaskShape shape;
  std::vector<std::byte> args;  // the number, then noise

  RandomTask(uint64_t seed, uint64_t number, uint32_t executors) {
    std::mt19937_64 random(seed * 1'000'003 + number);
    shape.blocks = random() % 4 == 0 ? 1 + random() % 6 : 1;
    shape.threads = 1 + random() % (executors * simt::kWarpSize);
    shape.sync = random() % 2 == 0;
    if (random() % 2 == 0) {
      const uint32_t least = TaskWarps(shape.threads) * 8;
      shape.shared_bytes =
          least + random() % ((kTaskSharedBytes >> random() % 7) - least + 1);
    }
    args.resize(8 + random() % (kTaskMaxArgs - 7));
    std::memcpy(args.data(), &number, 8);
    for (size_t i = 8; i < args.size(); ++i) {
      args[i] = static_cast<std::byte>(random());
    }
  }
  uint32_t warps() const { return TaskWarps(shape.threads); }
};

class RandomTasks {
 public:
  RandomTasks(const Config& config, uint64_t tasks)
      : config_(config), runs_(tasks) {
    for (uint64_t n = 0; n < tasks; ++n) {
      tasks_.emplace_back(config.seed, n, config.executors);
      runs_[n] = std::make_unique<std::atomic<int>[]>(tasks_[n].shape.blocks *
                                                      tasks_[n].warps());
    }
    kernel_ = std::make_unique<MasterKernel>(
        config, [this](uint32_t column, const TaskEntry& entry,
                       const TaskWarp& warp) { Run(column, entry, warp); });
  }
  ~RandomTasks() { kernel_.reset(); }

  MasterKernel& kernel() { return *kernel_; }
  const RandomTask& operator[](uint64_t number) const { return tasks_[number]; }

  // Spawns all of them, and waits for some in between.
  void SpawnAll() {
    std::mt19937_64 random(config_.seed);
    TaskSpawner spawner(&kernel_->link(), config_.columns, config_.rows,
                        config_.executors,
                        {.write = config_.write,
                         .empty_update_after = random() % 2 * 1'000'000,
                         .copy_back_after = random() % 2 * 100'000,
                         .longest_full = kLong});
    std::vector<TaskId> open;
    for (const RandomTask& task : tasks_) {
      const auto id = spawner.Spawn(task.shape, 0, task.args);
      ASSERT_TRUE(id.ok()) << id.status();
      open.push_back(*id);
      switch (random() % 16) {
        case 0: {
          const size_t i = random() % open.size();
          ASSERT_TRUE(spawner.Wait(open[i], kLong).ok());
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
        case 1:
          ASSERT_TRUE(spawner.Check(open[random() % open.size()]).ok());
          break;
        case 2:
          ASSERT_TRUE(spawner.Advance().ok());
          break;
        case 3:
          if (random() % 4 != 0) break;
          ASSERT_TRUE(spawner.WaitAll(kLong).ok());
          open.clear();
          break;
        default:
          break;
      }
    }
    const absl::Status status = spawner.WaitAll(kLong);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(spawner.figures().spawned, tasks_.size());
    EXPECT_EQ(spawner.figures().empty_updates != 0,
              config_.write == TaskWrite::kCopy);
  }

  void CheckRuns() {
    for (uint64_t n = 0; n < tasks_.size(); ++n) {
      for (uint32_t w = 0; w < tasks_[n].shape.blocks * tasks_[n].warps();
           ++w) {
        ASSERT_EQ(runs_[n][w], 1) << "task " << n << ", warp " << w;
      }
    }
    for (const TaskEntry& entry : kernel_->entries()) {
      EXPECT_EQ(entry.state, TaskState::kFree);
    }
  }

 private:
  void Run(uint32_t column, const TaskEntry& entry, const TaskWarp& warp) {
    uint64_t number;
    std::memcpy(&number, entry.args, 8);
    if (number >= tasks_.size()) {
      ADD_FAILURE() << "ran before its entry was whole";
      return;
    }
    const RandomTask& task = tasks_[number];
    const auto is_whole = [&] {
      return entry.blocks == task.shape.blocks &&
             entry.threads == task.shape.threads &&
             entry.shared_bytes == task.shape.shared_bytes &&
             entry.args_bytes == task.args.size() &&
             std::memcmp(entry.args, task.args.data(), task.args.size()) == 0;
    };
    if (!is_whole()) {
      ADD_FAILURE() << "task " << number << " ran before its entry was whole";
      return;
    }
    ++runs_[number][warp.block * task.warps() + warp.warp];
    EXPECT_EQ(warp.barrier != 0, task.shape.sync && task.warps() > 1);

    const uint64_t block = number << 16 | warp.block;
    const auto meet = [&] { kernel_->Meet(column, warp, block, task.warps()); };
    if (task.shape.shared_bytes != 0) {
      // A word of each warp's; no atomics: TSan sees a block that shares.
      std::byte* shared = kernel_->shared(column, warp.shared_offset);
      const auto word = [&](uint32_t of) { return block << 8 | of; };
      const uint64_t mine = word(warp.warp);
      std::memcpy(shared + 8 * warp.warp, &mine, 8);
      meet();
      for (uint32_t w = 0; w < task.warps(); ++w) {
        if (w != warp.warp && warp.barrier == 0) continue;
        sched_yield();
        uint64_t found;
        std::memcpy(&found, shared + 8 * w, 8);
        EXPECT_EQ(found, word(w)) << "task " << number;
      }
    }
    meet();
    EXPECT_TRUE(is_whole()) << "task " << number << ", in its end";
  }

  const Config config_;
  std::vector<RandomTask> tasks_;
  std::vector<std::unique_ptr<std::atomic<int>[]>> runs_;
  std::unique_ptr<MasterKernel> kernel_;
};

class MtbTest : public testing::TestWithParam<Config> {};

TEST_P(MtbTest, EveryTaskRunsOnceWithItsWholeEntry) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Config config = GetParam();
    config.seed = seed;
    RandomTasks tasks(config, 150);
    tasks.SpawnAll();
    if (HasFatalFailure()) return;
    tasks.kernel().Leave();
    tasks.CheckRuns();
  }
}

TEST_P(MtbTest, LeftAndStartedAgainNothingIsLostOrRunTwice) {
  RandomTasks tasks(GetParam(), 200);
  std::atomic<bool> spawned{false};
  std::thread spawner([&] {
    tasks.SpawnAll();
    spawned = true;
  });
  std::mt19937_64 random(GetParam().seed);
  while (!spawned) {
    for (uint64_t i = random() % 200; i > 0; --i) sched_yield();
    tasks.kernel().Leave();
    tasks.kernel().Start();
  }
  spawner.join();
  if (HasFatalFailure()) return;
  tasks.kernel().Leave();
  tasks.CheckRuns();
}

INSTANTIATE_TEST_SUITE_P(
    , MtbTest,
    testing::Values(
        Config{.name = "TwoColumnsTwoRows"},
        Config{.name = "Mapped", .write = TaskWrite::kMapped},
        Config{.name = "OneEntry", .columns = 1, .rows = 1, .executors = 3},
        Config{.name = "OneExecutor", .columns = 3, .rows = 2, .executors = 1},
        Config{.name = "ManyRows", .columns = 1, .rows = 32, .executors = 7},
        Config{.name = "ManyRowsMapped",
               .columns = 2,
               .rows = 32,
               .executors = 5,
               .write = TaskWrite::kMapped}),
    [](const auto& info) { return info.param.name; });

// --- One thing at a time. The argument of a task is its number.

std::vector<std::byte> Number(uint64_t n) {
  std::vector<std::byte> args(8);
  std::memcpy(args.data(), &n, 8);
  return args;
}
uint64_t NumberOf(const TaskEntry& entry) {
  uint64_t n;
  std::memcpy(&n, entry.args, 8);
  return n;
}

TEST(MtbOneTest, FifteenBarriersAreNeverSharedAndTheSixteenthBlockWaits) {
  std::atomic<int> inside{0};
  std::atomic<bool> may_end{false};
  std::mutex mutex;
  std::multiset<uint32_t> ids;
  MasterKernel* kernel_of_body = nullptr;
  MasterKernel kernel(
      {.columns = 1, .rows = 1, .executors = 31},
      [&](uint32_t, const TaskEntry&, const TaskWarp& warp) {
        {
          std::lock_guard lock(mutex);
          if (!may_end) ids.insert(warp.barrier);
        }
        ++inside;
        kernel_of_body->AwaitInBody([&] { return may_end.load(); });
      });
  kernel_of_body = &kernel;
  TaskSpawner spawner(&kernel.link(), 1, 1, 31);
  // 32 warps in blocks of two: the last block finds one executor and no barrier.
  ASSERT_TRUE(
      spawner.Spawn({.blocks = 16, .threads = 64, .sync = true}, 0, {}).ok());
  ASSERT_TRUE(MasterKernel::Until([&] { return inside == 30; }));
  kernel.AwaitSchedulers(1000);
  EXPECT_EQ(inside, 30);
  {
    std::lock_guard lock(mutex);
    for (uint32_t id = 1; id <= 15; ++id) EXPECT_EQ(ids.count(id), 2u) << id;
    may_end = true;
  }
  EXPECT_TRUE(spawner.WaitAll(kLong).ok());
  EXPECT_EQ(inside, 32);
}

TEST(MtbOneTest, BlocksOfOneWarpTakeNoBarrier) {
  std::atomic<int> inside{0};
  std::atomic<bool> may_end{false};
  MasterKernel* kernel_of_body = nullptr;
  MasterKernel kernel(
      {.columns = 1, .rows = 1, .executors = 31},
      [&](uint32_t, const TaskEntry&, const TaskWarp& warp) {
        EXPECT_EQ(warp.barrier, 0u);
        ++inside;
        kernel_of_body->AwaitInBody([&] { return may_end.load(); });
      });
  kernel_of_body = &kernel;
  TaskSpawner spawner(&kernel.link(), 1, 1, 31);
  ASSERT_TRUE(
      spawner.Spawn({.blocks = 31, .threads = 32, .sync = true}, 0, {}).ok());
  EXPECT_TRUE(MasterKernel::Until([&] { return inside == 31; }));
  may_end = true;
  EXPECT_TRUE(spawner.WaitAll(kLong).ok());
}

TEST(MtbOneTest, ABlockKeepsItsSharedMemoryUntilItsLastWarpHasEnded) {
  std::atomic<int> ended{0};
  std::atomic<int> second{0};
  std::atomic<bool> may_end{false};
  MasterKernel* kernel_of_body = nullptr;
  MasterKernel kernel(
      {.columns = 1, .rows = 2, .executors = 4},
      [&](uint32_t, const TaskEntry& entry, const TaskWarp& warp) {
        if (NumberOf(entry) == 2) {
          ++second;
          return;
        }
        if (warp.warp == 0) {
          kernel_of_body->AwaitInBody([&] { return may_end.load(); });
        }
        ++ended;
      });
  kernel_of_body = &kernel;
  TaskSpawner spawner(&kernel.link(), 1, 2, 4);
  ASSERT_TRUE(spawner
                  .Spawn({.threads = 96, .shared_bytes = kTaskSharedBytes}, 0,
                         Number(1))
                  .ok());
  ASSERT_TRUE(MasterKernel::Until([&] { return ended == 2; }));
  // A free executor is there, and half of the MTB would be enough.
  ASSERT_TRUE(spawner
                  .Spawn({.threads = 32, .shared_bytes = kTaskSharedBytes / 2},
                         0, Number(2))
                  .ok());
  kernel.AwaitSchedulers(1000);
  EXPECT_EQ(second, 0);
  may_end = true;
  EXPECT_TRUE(spawner.WaitAll(kLong).ok());
  EXPECT_EQ(second, 1);
}

TEST(MtbOneTest, ATaskThatNeverEndsHoldsUpNoOtherColumn) {
  std::atomic<int> stuck{0};
  std::atomic<int> ran{0};
  MasterKernel* kernel_of_body = nullptr;
  MasterKernel kernel({.columns = 2, .rows = 3, .executors = 2},
                      [&](uint32_t, const TaskEntry& entry, const TaskWarp&) {
                        if (NumberOf(entry) == 0) {
                          ++stuck;
                          kernel_of_body->AwaitInBody([] { return false; });
                        }
                        ++ran;
                      });
  kernel_of_body = &kernel;
  TaskSpawner spawner(&kernel.link(), 2, 3, 2,
                      {.write = TaskWrite::kCopy, .copy_back_after = 0});
  // Tasks go to the columns in turn: the even ones to the stuck one's.
  std::vector<TaskId> ids;
  for (uint64_t n = 0; n < 5; ++n) {
    const auto id = spawner.Spawn({.threads = 64}, 0, Number(n));
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
    if (n == 2) {
      // Its scheduler waits for executors, for ever, as soon as n = 3 is there.
      ASSERT_TRUE(MasterKernel::Until([&] { return stuck == 2; }));
    }
  }
  EXPECT_TRUE(spawner.Wait(ids[1], kLong).ok());
  // Released by task 4, which that scheduler serves.
  EXPECT_TRUE(spawner.Wait(ids[3], kLong).ok());
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(spawner.Wait(ids[2], 0).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(spawner.WaitAll(0).code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace carillon::gpud::pagoda_test
