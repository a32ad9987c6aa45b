// Launch path `pagoda` on CPU cores (Pagoda 4.2): this thread polls doorbells as
// the front-end, and spawns each event as a task into the TaskTable, which the
// scheduler warps of MTBs empty.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "gpu_daemon/backends/cpu/pagoda_mtbs.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/launcher.h"

namespace carillon::gpud {

// What both Pagoda's paths have: events wait here, in the order of their
// doorbells, until an entry of the TaskTable is free.
class TaskQueueLauncher : public Launcher {
 public:
  // Starts the MTBs.
  TaskQueueLauncher(Kmu* kmu, PagodaMtbs* mtbs);

  // Errors: CheckPagodaTask()'s, of the registered shape.
  absl::Status Prepare(EventKernel& event) override;
  // An event whose entry changes its shape to one that no MTB holds is launched
  // as a kernel, by the KMU.
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  // While no event can go on, the thread leaves its core to the executors that it
  // waits for; so a doorbell waits for at most 100 us more.
  bool Reap() final;
  bool must_poll() const override { return !waiting_.empty(); }
  // Tasks have no priorities.
  bool by_priority() const override { return false; }
  std::vector<PathCounter> counters() const override;

 protected:
  // Gives events to MTBs as far as there is room. True if it could.
  virtual bool GiveOut() = 0;

  PagodaMtbs& mtbs() { return mtbs_; }
  // The oldest that waits and was not cancelled; null: none.
  PagodaTask* Oldest();
  // An entry has it now.
  void TakeOldest();

 private:
  Kmu* const kmu_;
  PagodaMtbs& mtbs_;
  std::deque<PagodaTask*> waiting_;
  // Writer: the launcher's thread; readers: whoever shows them. Relaxed: figures.
  std::atomic<uint64_t> tasks_{0};
  std::atomic<uint64_t> kernels_{0};
};

class PagodaLauncher : public TaskQueueLauncher {
 public:
  PagodaLauncher(Kmu* kmu, PagodaMtbs* mtbs);

 private:
  bool GiveOut() override;

  TaskSpawner spawner_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_LAUNCHER_H_
