// Events that MTBs of the CPU back-end run as tasks: from their doorbells to
// their ends, each exactly once.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_TASKS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_TASKS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "gpu_daemon/event/launch_filter.h"
#include "shm/layout.h"
#include "shm/types.h"

namespace carillon::gpud {

// Whether an MTB can run the kernel in this shape. Errors: InvalidArgument: what
// is too large, with the limit, or what a task cannot be.
absl::Status CheckPagodaTask(const KernelMetadata& kmd);

// An event on its way. Changed by PagodaTasks only, under its lock.
struct PagodaTask {
  // next_block counts the blocks that were begun.
  std::unique_ptr<KernelLaunch> launch;
  // Blocks that never ran, because it was cancelled.
  uint64_t skipped_blocks = 0;
  // When it came, or its last block was begun.
  Nanoseconds waits_since_ns = 0;
  // Its event has ended: launch has neither event nor memory any more.
  bool told = false;
  std::list<PagodaTask>::iterator place;
};

// Thread safe.
class PagodaTasks {
 public:
  // An event that a doorbell has rung. It lives until its last block has ended,
  // or until Drop().
  PagodaTask* Add(std::unique_ptr<KernelLaunch> launch);

  // False: it was cancelled, and the block must not run. Either way EndBlock()
  // follows, with the answer, once for each block; the task may be gone then.
  bool BeginBlock(PagodaTask* task);
  void EndBlock(PagodaTask* task, bool ran);

  // As Backend::Cancel(): blocks that have not begun never run, and an event with
  // none running ends now. Its task stays where it is.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);
  bool cancelled(const PagodaTask* task) const;
  // Forgets a cancelled task that no MTB has.
  void Drop(PagodaTask* task);

  bool idle() const;
  uint32_t running_blocks() const;
  // Of events that have not ended, in the order of their doorbells.
  std::vector<LaunchProgress> launches() const;

 private:
  // Of an event, for whoever has left the lock: its task may be gone.
  struct Ending {
    std::shared_ptr<EventKernel> event;
    shm::Sequence sequence;
    shm::EventLife life;
    shm::EventState state;
    uint32_t status;
  };
  static Ending EndOf(PagodaTask& task, shm::EventState state, uint32_t status);
  static Ending Aborted(PagodaTask& task, shm::EventStatus why);
  static void Tell(const Ending& ending);

  mutable Mutex mutex_;
  std::list<PagodaTask> tasks_ ABSL_GUARDED_BY(mutex_);
  uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_PAGODA_TASKS_H_
