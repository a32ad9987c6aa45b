// An executor warp of an MTB (Pagoda 4.3, Algorithm 1, lines 29-43). For CPU and
// GPU code; the Port is mtb_scheduler.h's, and may have
//   EndTask(entry)  in one lane, when all warps of the task have ended
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_EXECUTOR_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_EXECUTOR_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/buddy_tree.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

template <class Port>
class MtbExecutor {
 public:
  CARILLON_EDGE MtbExecutor(Port& port, const TaskTable& table, MtbBlock& block,
                            uint32_t column, uint32_t executor)
      : port_(port),
        block_(block),
        column_(table.Column(column)),
        slot_(block.warps[executor]) {}

  // Until the scheduler says that no warp is placed any more.
  CARILLON_EDGE void Run() {
    for (uint32_t round = 0;; ++round) {
      // In this order: a warp that was placed before `leave` is run.
      const bool leave =
          port_.Elect([&] { return port_.LoadBlock(&block_.leave); }) != 0;
      if (port_.Elect([&] { return port_.LoadBlock(&slot_.exec); }) != 0) {
        RunWarp();
        round = 0;
      } else if (leave) {
        return;
      }
      port_.Pause(round);
    }
  }

 private:
  CARILLON_EDGE void RunWarp() {
    // One lane has seen exec: what was stored before it is there for all of them.
    port_.Sync();
    TaskEntry& task = column_[slot_.row];
    const uint32_t warps = TaskWarps(task.threads);
    const TaskWarp warp = {
        .block = slot_.warp / warps,
        .warp = slot_.warp % warps,
        .shared_offset = slot_.node == 0 ? 0 : BuddyOffset(slot_.node),
        .barrier = slot_.barrier};
    port_.RunTask(task, warp);
    port_.Elect([&] {
      if (slot_.block != kNoTaskBlock) {
        port_.AddBlock(&block_.blocks[slot_.block].warps_left, ~uint32_t{0});
      }
      // Line 41: the last warp is the one that finds 1. Before that, line 40's
      // fence of block scope would let the host see the entry free before what
      // the task has written: the release is of system scope, and cumulative
      // over what all the task's warps have released to the counter.
      if (port_.AddBlock(&block_.unfinished[slot_.row], ~uint32_t{0}) == 1) {
        if constexpr (requires { port_.EndTask(task); }) port_.EndTask(task);
        port_.ReleaseSystem(&task.state, TaskState::kFree);
      }
      port_.StoreBlock(&slot_.exec, 0);
    });
  }

  Port& port_;
  MtbBlock& block_;
  TaskEntry* const column_;
  WarpSlot& slot_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_EXECUTOR_H_
