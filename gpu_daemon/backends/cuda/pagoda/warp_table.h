// What the warps of an MTB share (Pagoda 4.3, Table 2): the WarpTable, and
// counters by which the scheduler warp learns what has ended. For CPU and GPU
// code. mtb.pml is its model.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_WARP_TABLE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_WARP_TABLE_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/pagoda/task_table.h"

namespace carillon::gpud {

// A task that has none of what is recycled by blocks.
inline constexpr uint32_t kNoTaskBlock = 0xffffffff;

// An executor warp's line of the WarpTable. Writer of all but `exec`: the
// scheduler warp, while exec is 0; reader: the executor, while it is 1.
struct WarpSlot {
  uint32_t warp;  // Table 2's warpId: of the task, block after block
  uint32_t row;   // eNum: of the column
  // A node of the BuddyTree: SMindex and the size in one. 0: none.
  uint32_t node;
  uint32_t barrier;  // barId; 0: none
  uint32_t block;    // of MtbBlock::blocks, or kNoTaskBlock
  // 1: run it. Writers: the scheduler to 1, the executor to 0, release; readers:
  // both, acquire.
  uint32_t exec;
};

// A thread block that holds shared memory or a barrier. Not in the paper, whose
// lastWarpInBlock() (Algorithm 1, line 35) has nothing to count with.
struct TaskBlock {
  // Warps that have not ended. Writers: the scheduler when it places the block,
  // then its warps, acquire-release; reader: the scheduler, acquire. At 0 the
  // scheduler may free what the block has: the deferred freeing of Pagoda 5.1.
  // The barrier is freed in the same way, and never looked up in the task's entry
  // (Algorithm 1, line 39), where it is not.
  uint32_t warps_left;
  uint32_t node;     // the scheduler's own
  uint32_t barrier;  // the scheduler's own
};

// At most 31 have a warp that has not ended, and one more is being placed.
inline constexpr uint32_t kTaskBlocks = 32;
static_assert(kTaskBlocks > kTaskMaxExecutors);

// Shared memory of an MTB; zeroed when it starts.
struct MtbBlock {
  WarpSlot warps[kTaskMaxExecutors];
  TaskBlock blocks[kTaskBlocks];
  // Warps of the row's task that have not ended (doneCtr). Writers: the scheduler
  // when it begins the task, then executors, acquire-release.
  uint32_t unfinished[kTaskMaxRows];
  // Warps that wait for an executor (ctr; one is enough, as tasks are placed one
  // after another). Below 0 when more lanes have found an executor than there
  // were warps. The scheduler's lanes' own.
  uint32_t to_place;
  // 1: no warp is placed any more. Writer: the scheduler, release; readers: the
  // executors, acquire.
  uint32_t leave;
};
static_assert(sizeof(MtbBlock) <= 4 * 1024);

// What a task's warp is told: its way to getTid, syncBlock and getSMPtr.
struct TaskWarp {
  uint32_t block;          // of the task
  uint32_t warp;           // of the block
  uint32_t shared_offset;  // of the block's shared memory in the MTB's
  // For the block's barriers, with TaskWarps(threads) * 32 threads. 0: one warp.
  uint32_t barrier;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_WARP_TABLE_H_
