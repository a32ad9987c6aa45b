// A MasterKernel from its PTX, in many orders, on memory as weak as PTX allows;
// with a spawner and a copy engine that do one thing at a time. A seed chooses all
// that happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_world_module.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_world_task.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/sim_driver/world.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"

namespace carillon::gpud::cuda {
namespace {

// Instructions, which are this world's time.
constexpr uint64_t kPatience = 20'000'000;
constexpr uint32_t kMaxThreads = 3 * 96;  // of a task

class PagodaWorld : public TaskLink {
 public:
  PagodaWorld(WorldCode* code, uint64_t seed)
      : code_(code),
        random_(seed * 77 + 5),
        memory_(code),
        gpu_(&code->memory(),
             {.seed = seed,
              .longest_turn = 64,
              .weak_memory = true,
              .sms = 2,
              .nanoseconds = [this] { return gpu_.clock(); }}) {
    write_ = random_.OneIn(3) ? TaskWrite::kMapped : TaskWrite::kCopy;
    columns_ = 1 + Below(2);
    rows_ = 1 + Below(3);
    executors_ = 2 + Below(2);
    entries_ = memory_.TakeZeros<TaskEntry>(columns_ * rows_);
    command_ = memory_.TakeZeros<uint32_t>(1);
    Start();
  }

  void Run(uint32_t count) {
    TaskSpawner spawner(this, columns_, rows_, executors_,
                        {.write = write_,
                         .empty_update_after = Below(2) * 5'000,
                         .copy_back_after = Below(2) * 2'000,
                         .longest_full = kPatience,
                         .now = [this] { return gpu_.clock(); },
                         .pause = [this] { Step(); }});
    std::vector<Task> tasks;
    for (uint32_t n = 1; n <= count && !testing::Test::HasFailure(); ++n) {
      tasks.push_back(MakeTask(n));
      Task& task = tasks.back();
      const auto id =
          spawner.Spawn(task.shape, 0, std::as_bytes(std::span(&task.args, 1)));
      ASSERT_TRUE(id.ok()) << id.status();
      task.id = *id;
      for (uint32_t i = Below(4) * Below(40); i > 0; --i) Step();
      if (random_.OneIn(4)) {
        ASSERT_EQ(spawner.Wait(task.id, kPatience), absl::OkStatus());
        Check(task);
      }
    }
    ASSERT_EQ(spawner.WaitAll(kPatience), absl::OkStatus());
    for (const Task& task : tasks) Check(task);
    Command(TaskCommand::kLeave);
    const uint64_t end = gpu_.clock() + kPatience;
    while (!ended_ && gpu_.clock() < end) gpu_.Step();
    EXPECT_TRUE(ended_);
    for (const Task& task : tasks) {
      for (uint32_t i = 0; i < task.threads(); ++i) {
        EXPECT_EQ(task.args.runs[i], 1u) << "task " << task.args.number;
      }
    }
  }

  // --- The copy engine: a word of an entry at a time.

  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override {
    Post(&entries_[entry], &from, sizeof(from));
    return absl::OkStatus();
  }
  absl::Status CopyState(uint32_t entry, TaskState state) override {
    Post(&entries_[entry].state, &state, sizeof(state));
    return absl::OkStatus();
  }
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override {
    // Stores to mapped memory come one by one.
    const auto* words = reinterpret_cast<const uint64_t*>(&from);
    auto* to = reinterpret_cast<uint64_t*>(&entries_[entry]);
    for (size_t i = 1; i < sizeof(from) / 8; ++i) {
      to[i] = words[i];
      if (random_.OneIn(8)) gpu_.Step();
    }
    std::atomic_ref(entries_[entry].state).store(from.state);
    return absl::OkStatus();
  }
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override {
    while (!words_.empty()) {
      Deliver();
      if (random_.OneIn(4)) gpu_.Step();
    }
    for (size_t i = 0; i < states.size(); ++i) {
      states[i] = std::atomic_ref(entries_[first + i].state).load();
      if (random_.OneIn(8)) gpu_.Step();
    }
    return absl::OkStatus();
  }

 private:
  struct Task {
    TaskShape shape;
    WorldTaskArgs args{};
    TaskId id{};
    uint32_t threads() const { return shape.blocks * shape.threads; }
  };
  struct Word {
    uint32_t* to;
    uint32_t value;
  };

  uint32_t Below(uint64_t n) { return static_cast<uint32_t>(random_.Below(n)); }

  void Command(TaskCommand command) {
    std::atomic_ref(*command_).store(static_cast<uint32_t>(command));
  }
  void Start() {
    ended_ = false;
    Command(TaskCommand::kServe);
    const TaskTable table{.entries = entries_,
                          .command = command_,
                          .columns = columns_,
                          .rows = rows_,
                          .executors = executors_};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&table);
    const auto begun = gpu_.Begin(
        {.program = &code_->program(),
         .kernel = code_->program().FindEntry("carillon_world_master"),
         .grid = {columns_, 1, 1},
         .block = {(1 + executors_) * simt::kWarpSize, 1, 1},
         .parameters = {bytes, bytes + sizeof(table)}},
        0, [this](absl::Status status) {
          ended_ = true;
          EXPECT_EQ(status, absl::OkStatus());
        });
    EXPECT_TRUE(begun.ok()) << begun.status();
  }
  // Now and then the MasterKernel leaves, and another one goes on.
  void Step() {
    gpu_.Step();
    if (random_.OneIn(500)) Command(TaskCommand::kLeave);
    if (ended_) Start();
    if (!words_.empty() && random_.OneIn(2)) Deliver();
  }
  void Deliver() {
    std::atomic_ref(*words_.front().to).store(words_.front().value);
    words_.pop_front();
  }
  void Post(void* to, const void* from, size_t bytes) {
    std::vector<Word> words(bytes / 4);
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = {static_cast<uint32_t*>(to) + i,
                  static_cast<const uint32_t*>(from)[i]};
    }
    for (size_t i = words.size(); i > 1; --i) {
      std::swap(words[i - 1], words[Below(i)]);
    }
    words_.insert(words_.end(), words.begin(), words.end());
  }

  Task MakeTask(uint32_t number) {
    Task task;
    task.shape.blocks = 1 + Below(3);
    task.shape.threads = 1 + Below(executors_ * simt::kWarpSize);
    task.shape.sync = random_.OneIn(2);
    if (task.shape.sync) {
      task.shape.shared_bytes = 8 * task.shape.threads + Below(16'000);
    }
    task.args = {.number = number,
                 .runs = memory_.TakeZeros<uint32_t>(kMaxThreads),
                 .out = memory_.TakeZeros<uint64_t>(kMaxThreads),
                 .threads = task.shape.threads,
                 .shares = task.shape.sync ? 1u : 0u,
                 .last = number};
    return task;
  }
  // As soon as the spawner says that the task has ended.
  void Check(const Task& task) {
    for (uint32_t i = 0; i < task.threads(); ++i) {
      const uint32_t first = i / task.shape.threads * task.shape.threads;
      const uint32_t from =
          task.shape.sync ? first + (i - first + 1) % task.shape.threads : i;
      ASSERT_EQ(task.args.out[i], WorldValue(task.args.number, from))
          << "task " << task.args.number << ", thread " << i;
    }
  }

  WorldCode* const code_;
  sim::SeededRandom random_;
  WorldMemory memory_;
  sim::InterleavedGpu gpu_;
  TaskWrite write_ = TaskWrite::kCopy;
  uint32_t columns_ = 0;
  uint32_t rows_ = 0;
  uint32_t executors_ = 0;
  TaskEntry* entries_ = nullptr;
  uint32_t* command_ = nullptr;
  std::deque<Word> words_;
  bool ended_ = true;
};

TEST(PagodaWorldTest, EveryTaskRunsOnceAndItsOutputIsThereWhenItHasEnded) {
  const auto ptx = PtxOfFatbin(PagodaWorldModule().data());
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  const auto code = WorldCode::Load(*ptx);
  ASSERT_TRUE(code.ok()) << code.status();
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::make_unique<PagodaWorld>(code->get(), seed)->Run(12);
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
