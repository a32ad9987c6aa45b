// MTBs whose executor warps are threads of this machine (launch paths `pagoda` and
// `pagoda_ring` of the CPU back-end). Approximated: an executor runs a whole thread
// block, which takes one executor whatever its size, in shared memory of its own.
// The TaskTable, the WarpTable, pSched and the buddy tree are the GPU's code
// (backends/cuda/pagoda); a block's barriers are simt/cpu's.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_MTBS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_MTBS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cpu/pagoda_tasks.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/pagoda/task_link.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"
#include "gpu_daemon/event/block_runner.h"

namespace carillon::gpud {

// Where a warp sleeps while nothing has changed of what it looks at.
class WarpAlarm {
 public:
  // Somebody has written what it looks at. Any thread.
  void Ring() {
    changes_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) WakeAll();
  }
  uint32_t changes() const { return changes_.load(std::memory_order_seq_cst); }
  // Until changes() is no longer `seen`, for at most so long; it may return
  // earlier.
  void Sleep(uint32_t seen, std::chrono::nanoseconds longest);

 private:
  void WakeAll();

  // Futex word. Writers: who has changed something, after that; readers: warps,
  // before they look. The two are a Dekker pair with sleepers_: who finds nobody
  // asleep has changed the word before the sleeper compares it.
  std::atomic<uint32_t> changes_{0};
  std::atomic<uint32_t> sleepers_{0};  // writers: warps; reader: Ring()
};

// The memory of an MTB, and where its warps sleep.
struct PagodaMtb {
  MtbBlock block = {};
  // Entries, executors that are free again, the command. The launcher sleeps here,
  // too.
  WarpAlarm scheduler;
  WarpAlarm executors[kTaskMaxExecutors];  // their slot's exec, and `leave`
};

// The Port of mtb_scheduler.h. One thread's.
class PagodaMtbPort : public EdgeThreadPort {
 public:
  // `alarm`: where its thread sleeps.
  PagodaMtbPort(PagodaMtb* mtb, WarpAlarm* alarm, PagodaTasks* tasks,
                BlockRunner* runner)
      : EdgeThreadPort(nullptr, 0),
        mtb_(mtb),
        alarm_(alarm),
        tasks_(tasks),
        runner_(runner) {}

  TaskState PollState(const TaskState* state) {
    return std::atomic_ref<TaskState>(*const_cast<TaskState*>(state))
        .load(std::memory_order_acquire);
  }
  // Also tells who waits for that word. What an executor counts down it counts
  // before it frees its slot, so that counters need no alarm.
  void StoreBlock(uint32_t* word, uint32_t value);
  void RunTask(const TaskEntry& entry, const TaskWarp& warp);
  // It was cancelled.
  bool SkipsTask(const TaskEntry& entry);
  // A warp that has found nothing to do for some rounds sleeps.
  void Pause(uint32_t round);

 private:
  PagodaMtb* const mtb_;
  WarpAlarm* const alarm_;
  PagodaTasks* const tasks_;
  BlockRunner* const runner_;
  uint32_t seen_ = 0;
};

// The TaskTable and the threads. Start() comes first, then the launcher's calls;
// tasks() is for any thread at any time.
class PagodaMtbs : public TaskLink {
 public:
  enum class Scheduling {
    kThreads,   // each MTB has a scheduler warp: a thread
    kLauncher,  // one MTB, whose scheduler warp is the launcher's thread
  };
  // `executors` (>= 1): threads that run blocks, in all.
  PagodaMtbs(Scheduling scheduling, uint32_t executors, BlockRunner* runner);
  ~PagodaMtbs() override;

  // Once.
  void Start();
  // No block is begun any more that no executor has. After the launcher's thread
  // has ended.
  void Leave();
  // After Leave(): waits for blocks that still run.
  void Join();

  PagodaTasks& tasks() { return tasks_; }
  const PagodaTasks& tasks() const { return tasks_; }
  const TaskTable& table() const { return table_; }
  PagodaMtb& mtb(uint32_t column) { return *mtbs_[column]; }
  // Of the scheduler warp.
  PagodaMtbPort SchedulerPort(uint32_t column) {
    return PortOf(column, &mtbs_[column]->scheduler);
  }
  // The task's entry; its state is kReleased.
  static TaskEntry EntryOf(PagodaTask* task);

  // TaskLink, by stores to memory that all share: a copy arrives at once.
  absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) override;
  absl::Status CopyState(uint32_t entry, TaskState state) override;
  absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) override;
  absl::Status CopyBack(uint32_t first, std::span<TaskState> states) override;

 private:
  PagodaMtbPort PortOf(uint32_t column, WarpAlarm* alarm) {
    return PagodaMtbPort(mtbs_[column].get(), alarm, &tasks_, runner_);
  }
  void AddThread(const char* name, std::function<void()> run);

  const Scheduling scheduling_;
  BlockRunner* const runner_;
  PagodaTasks tasks_;
  uint32_t command_ = static_cast<uint32_t>(TaskCommand::kServe);
  std::vector<TaskEntry> entries_;
  std::vector<std::unique_ptr<PagodaMtb>> mtbs_;
  const TaskTable table_;
  std::vector<std::thread> threads_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_MTBS_H_
