// Pagoda's TaskTable (Pagoda 4.2): tasks on their way from the one thread that
// spawns them to the MasterKernel's scheduler warps. Plain data for CPU and GPU
// code. task_table.pml is its model.
//
//               column 0   column 1  ...       a column an MTB (MasterKernel
//   row 0       TaskEntry  TaskEntry           thread block), at most 32 rows
//   row 1       TaskEntry  TaskEntry
//   ...
//
// An entry's state is (ready, sched), Pagoda's Fig. 2:
//
//   (0, 0) free --spawner--> (-1, 0) copied: the chain's first task
//                       \--> (id, 0) copied; task `id` was the one before
//   (id, 0)  --scheduler of this column--> (-1, 0), having made task `id` (1, 1)
//   (-1, 0)  --the successor's scheduler, or an empty update--> (1, 1) released
//   (1, 1)   --scheduler of this column--> (1, 0) runs
//   (1, 0)   --last executor warp--> (0, 0)
//
// Why a task is released by its successor: the words of one copy arrive in any
// order, so that a flag in it says nothing of the rest; but a copy arrives when
// all earlier ones have. An entry that is written by stores needs none of this:
// data, then (1, 1) by a release store.
//
// Who writes a state: the spawner if it is (0, 0), or (-1, 0) with no successor
// (the empty update); GPU code otherwise, as drawn. A copy may tear a state: its
// halves are as before or as after. Nobody acts on what can be seen in between,
// (1, 0) and (-1, 1).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_TABLE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/simt/types.h"

namespace carillon::gpud {

// An MTB: 32 warps, of which one schedules (Pagoda 4.1).
inline constexpr uint32_t kTaskMaxExecutors = 31;
inline constexpr uint32_t kTaskMaxRows = simt::kWarpSize;
// That an MTB has for its tasks.
inline constexpr uint32_t kTaskSharedBytes = 32 * 1024;
inline constexpr uint32_t kTaskMaxArgs = 208;
// A narrow task has few blocks. Warps are counted in 31 bits.
inline constexpr uint32_t kTaskMaxBlocks = 65535;

// (ready, sched) in one word, `ready` in the lower half, so that a transition is
// one store.
enum class TaskState : uint64_t {
  kFree = 0,
  kCopied = 0xffffffff,        // (-1, 0)
  kReleased = 1 | 1ull << 32,  // (1, 1)
  kRuns = 1,                   // (1, 0)
};
// (id, 0). Ids are 2 and above (Pagoda 4.2.2), one an entry.
CARILLON_HOST_DEVICE constexpr TaskState BehindEntry(uint32_t entry) {
  return static_cast<TaskState>(uint64_t{entry} + 2);
}
// Corrects Algorithm 1, line 6, where `taskId > 0` takes the 1 of a task that
// runs, and that of one that waits for its scheduler, for an id.
CARILLON_HOST_DEVICE constexpr bool NamesPredecessor(TaskState state) {
  return state > TaskState::kRuns && state < TaskState::kCopied;
}
// Requires NamesPredecessor(state).
CARILLON_HOST_DEVICE constexpr uint32_t PredecessorOf(TaskState state) {
  return static_cast<uint32_t>(static_cast<uint64_t>(state) - 2);
}

struct alignas(16) TaskEntry {
  // Read and written whole, but by copies. Everything else: written by the
  // spawner, or the ring's scheduler, while the state is kFree; read by the MTB's
  // scheduler from kReleased on, and by its executors while it is kRuns.
  TaskState state;
  uint64_t kernel;  // as the MTB's RunTask understands it
  uint32_t blocks;
  uint32_t threads;       // of a block
  uint32_t shared_bytes;  // of a block
  uint32_t sync;          // 1: the block's threads meet at barriers
  uint32_t args_bytes;
  uint32_t reserved[3];
  std::byte args[kTaskMaxArgs];
};
static_assert(sizeof(TaskEntry) == 256);
static_assert(offsetof(TaskEntry, args) == 48);

CARILLON_HOST_DEVICE constexpr uint32_t TaskWarps(uint32_t threads) {
  return (threads + simt::kWarpSize - 1) / simt::kWarpSize;
}

// A named barrier counts whole warps, so a block of several whose threads meet has
// no part of one.
CARILLON_HOST_DEVICE constexpr bool MeetsInWholeWarps(bool sync,
                                                      uint32_t threads) {
  return !sync || threads <= simt::kWarpSize || threads % simt::kWarpSize == 0;
}

enum class TaskCommand : uint32_t {
  kServe = 0,
  // No task is begun any more; what has begun runs to its end, then all warps
  // end. Entries stay as they are: the next MasterKernel goes on with them.
  kLeave = 1,
};

// Immutable while the MasterKernel runs, but for the entries.
struct TaskTable {
  TaskEntry* entries;       // [columns][rows]
  const uint32_t* command;  // TaskCommand; writer: the host, relaxed
  uint32_t columns;
  uint32_t rows;
  uint32_t executors;  // of each MTB

  CARILLON_HOST_DEVICE TaskEntry* Column(uint32_t column) const {
    return entries + uint64_t{column} * rows;
  }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_TASK_TABLE_H_
