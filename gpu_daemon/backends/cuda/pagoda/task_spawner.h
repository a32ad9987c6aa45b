// Pagoda's API on the host (Pagoda 3, Table 1) over a TaskTable: taskSpawn, wait,
// check and waitAll. What it knows of the GPU's table is old: it copies states
// back only when it has to (lazy aggregate update, Pagoda 4.2.2).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_SPAWNER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_SPAWNER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud {

struct TaskShape {
  uint32_t blocks = 1;
  uint32_t threads = 1;       // of a block
  uint32_t shared_bytes = 0;  // of a block
  bool sync = false;          // the block's threads meet at barriers
};

// Whether an MTB of so many executor warps can run it; if not, INVALID_ARGUMENT
// says what is too large, and the limit.
absl::Status CheckTask(const TaskShape& shape, size_t args_bytes,
                       uint32_t executors);

// Never 0 or 1. Says which entry the task was in, and how often that had been
// used before.
enum class TaskId : uint64_t {};

enum class TaskWrite {
  kCopy,    // one copy an entry; a task starts when the next one has come
  kMapped,  // by stores to GPU memory that this process has mapped
};

struct TaskSpawnerOptions {
  TaskWrite write = TaskWrite::kMapped;
  // With no task spawned for so long, the last one is released (the empty update).
  Nanoseconds empty_update_after = 30'000'000;
  // That wait, waitAll and check trust what they know for.
  Nanoseconds copy_back_after = 10'000'000;
  // That taskSpawn waits for an entry.
  Nanoseconds longest_full = 1'000'000'000;
  // For tests. `pause` is called in every round of a wait.
  std::function<Nanoseconds()> now = NowNs;
  std::function<void()> pause = std::this_thread::yield;
};

// Belongs to the first thread that calls Spawn(), Wait(), Check(), WaitAll() or
// Advance(): called by another one, they return FAILED_PRECONDITION and do
// nothing. An error of the link is returned as it is.
class TaskSpawner {
 public:
  // The table's entries are kFree. `link` must outlive it.
  TaskSpawner(TaskLink* link, uint32_t columns, uint32_t rows,
              uint32_t executors, TaskSpawnerOptions options = {});

  // taskSpawn. RESOURCE_EXHAUSTED: no entry became free in time, or a million
  // tasks were spawned that nobody has waited for. INVALID_ARGUMENT: CheckTask.
  absl::StatusOr<TaskId> Spawn(const TaskShape& shape, uint64_t kernel,
                               std::span<const std::byte> args);

  // Until the task has ended: what it has written is there. Once for each task:
  // FAILED_PRECONDITION for one that was waited for; NOT_FOUND for one that was
  // never spawned; DEADLINE_EXCEEDED if it runs on, and it may be waited for
  // again.
  absl::Status Wait(TaskId id, Nanoseconds bound);
  // Whether it has ended. Errors as Wait(), after which it has none but these;
  // changes nothing.
  absl::StatusOr<bool> Check(TaskId id);
  // Until all tasks have ended; all have been waited for then.
  // DEADLINE_EXCEEDED: some run on.
  absl::Status WaitAll(Nanoseconds bound);

  // Nobody waits for the task, and it is not remembered: as if it had been waited
  // for.
  void Forget(TaskId id) { not_waited_for_.erase(static_cast<uint64_t>(id)); }

  // The task's entry of the table.
  uint32_t EntryOf(TaskId id) const;

  // To be called now and then by a thread that neither spawns nor waits: makes
  // the empty update when it is due.
  absl::Status Advance();

  struct Figures {
    uint64_t spawned = 0;
    uint64_t empty_updates = 0;
    uint64_t copies_back = 0;  // of the whole table, or of one entry
  };
  const Figures& figures() const { return figures_; }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr size_t kMaxNotWaitedFor = 1 << 20;

  // What this thread knows of an entry.
  struct Row {
    bool busy = false;
    uint64_t uses = 0;
    Nanoseconds looked_at = 0;  // when it was last copied back, or spawned
  };

  absl::Status CheckThread();
  // Waited for before, or never spawned.
  absl::Status CheckId(TaskId id) const;
  bool HasEnded(TaskId id) const;
  uint32_t FreeEntry();
  absl::StatusOr<uint32_t> AwaitFreeEntry();
  absl::Status CopyBack(uint32_t first, uint32_t count);
  absl::Status EmptyUpdate();
  absl::Status AdvanceAt(Nanoseconds now);
  bool AllEnded() const;

  TaskLink& link_;
  const uint32_t columns_;
  const uint32_t rows_;
  const uint32_t executors_;
  const TaskSpawnerOptions options_;
  // Writer: the first thread that spawns, by a compare-exchange; readers: all that
  // spawn.
  std::atomic<std::thread::id> owner_{};
  std::vector<Row> table_;
  // Where the next free entry is looked for: row by row, so that tasks go to all
  // columns in turn.
  uint32_t next_ = 0;
  // The task that nobody has released yet; kNone: the next one begins a chain.
  uint32_t last_ = kNone;
  Nanoseconds last_spawn_ = 0;
  std::unordered_set<uint64_t> not_waited_for_;
  Figures figures_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_SPAWNER_H_
