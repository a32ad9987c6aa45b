// How entries and states get between the thread that spawns tasks and the GPU's
// TaskTable (Pagoda 4.2.1).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_LINK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_LINK_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud {

// One thread's. What is handed over is copied before a call returns.
//
// Copies arrive in the order of their calls: all of one is there before anything
// of the next is. The words of one copy arrive in any order (one CUDA stream does
// so). Stores arrive in the order of their calls, too.
class TaskLink {
 public:
  virtual ~TaskLink() = default;

  // One copy. Returns before it has arrived.
  virtual absl::Status CopyEntry(uint32_t entry, const TaskEntry& from) = 0;
  // The same of the state alone.
  virtual absl::Status CopyState(uint32_t entry, TaskState state) = 0;
  // Everything but the state, then the state by a release store.
  virtual absl::Status StoreEntry(uint32_t entry, const TaskEntry& from) = 0;
  // The states of entries first, first + 1, ... as they are when everything that
  // was copied and stored before has arrived, each at a moment of its own. What a
  // task has written is seen by whoever finds its entry free.
  virtual absl::Status CopyBack(uint32_t first,
                                std::span<TaskState> states) = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_LINK_H_
