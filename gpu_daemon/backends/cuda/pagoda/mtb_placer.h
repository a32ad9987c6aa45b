// Gives the warps of a task to an MTB's executors (Pagoda 4.3, Algorithm 1, lines
// 16-28, and Algorithm 2), block after block: what the ended ones have is freed; a
// barrier, shared memory, then executors for its warps (pSched). A block gets
// executors as they become free. No two blocks wait for executors at the same
// time, so those that have some always get the rest. For CPU and GPU code; the
// Port is mtb_scheduler.h's.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_PLACER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_PLACER_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/barrier_ids.h"
#include "gpu_daemon/backends/cuda/pagoda/buddy_tree.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

// The scheduler warp's own. It never waits: its caller does, between two steps.
template <class Port>
class MtbPlacer {
 public:
  CARILLON_EDGE MtbPlacer(Port& port, const TaskTable& table, MtbBlock& block,
                          uint32_t column)
      : port_(port),
        block_(block),
        column_(table.Column(column)),
        executors_(table.executors),
        tree_(port) {}

  // Whether all that a block like this needs is free, for a task that would be
  // begun now. Requires that all warps of the one before are placed.
  CARILLON_EDGE bool HasRoom(uint32_t warps, bool sync, uint32_t shared_bytes) {
    uint32_t free = port_.Ballot([&](uint32_t lane) {
      return lane < executors_ &&
             port_.LoadBlock(&block_.warps[lane].exec) == 0;
    });
    uint32_t count = 0;
    for (; free != 0; free &= free - 1) ++count;
    if (count < warps) return false;
    const bool meets = sync && warps > 1;
    if (!meets && shared_bytes == 0) return true;
    FreeEnded();
    return !(meets && barriers_.AllTaken()) &&
           (shared_bytes == 0 || tree_.Find(shared_bytes) != 0);
  }

  // Takes the task of a row that is released. Requires that all warps of the one
  // before are placed.
  CARILLON_EDGE void Begin(uint32_t row) {
    // Read once: when its last warp is placed, the task may end, and the entry be
    // another task's. Lines 18-25 read it again.
    const TaskEntry& task = column_[row];
    shared_bytes_ = task.shared_bytes;
    warps_ = TaskWarps(task.threads);
    meets_ = task.sync != 0 && warps_ > 1;
    const uint32_t all = task.blocks * warps_;
    if (!meets_ && shared_bytes_ == 0) warps_ = all;  // as one block
    left_ = all;
    next_ = {.warp = 0, .row = row, .block = kNoTaskBlock};
    placing_ = false;
    began_ = false;
    port_.Elect([&] { port_.StoreBlock(&block_.unfinished[row], all); });
  }

  // Goes on as far as what is free allows; true: all warps are placed. Requires
  // Begin().
  CARILLON_EDGE bool Step() {
    while (left_ != 0) {
      if (!placing_) {
        if ((meets_ || shared_bytes_ != 0) && !Provide() && !Skips()) {
          return false;
        }
        port_.Elect([&] { port_.StoreBlock(&block_.to_place, warps_); });
        placing_ = true;
      }
      if (!began_ && !NoteBegun()) return false;
      if (!PlaceSome()) return false;
      placing_ = false;
      next_.warp += warps_;
      left_ -= warps_;
    }
    return true;
  }

 private:
  // kRuns before the first warp has its executor, and no earlier: who looks for
  // tasks that do not end counts from it. False: no executor is free.
  CARILLON_EDGE bool NoteBegun() {
    began_ = port_.Ballot([&](uint32_t lane) {
      return lane < executors_ &&
             port_.LoadBlock(&block_.warps[lane].exec) == 0;
    }) != 0;
    if (began_) {
      port_.Elect([&] {
        port_.ReleaseSystem(&column_[next_.row].state, TaskState::kRuns);
      });
    }
    return began_;
  }

  // What the block needs besides executors; false: not all of it is free.
  CARILLON_EDGE bool Provide() {
    FreeEnded();
    // Line 19 takes for granted that there is one: 15 blocks of two warps may
    // have them all, with an executor left.
    next_.barrier = meets_ ? barriers_.Take() : 0;
    if (meets_ && next_.barrier == 0) return false;
    next_.node = shared_bytes_ != 0 ? tree_.Allocate(shared_bytes_) : 0;
    if (shared_bytes_ != 0 && next_.node == 0) {
      barriers_.Free(next_.barrier);
      return false;
    }
    next_.block = LowestLane(~blocks_);
    blocks_ |= 1u << next_.block;
    port_.Elect([&] {
      TaskBlock& provided = block_.blocks[next_.block];
      provided.node = next_.node;
      provided.barrier = next_.barrier;
      port_.StoreBlock(&provided.warps_left, warps_);
    });
    return true;
  }

  // Whether the block, for which not all is free, goes on without it.
  CARILLON_EDGE bool Skips() {
    if (!port_.SkipsTask(column_[next_.row])) return false;
    next_.node = 0;
    next_.barrier = 0;
    next_.block = kNoTaskBlock;
    return true;
  }

  CARILLON_EDGE void FreeEnded() {
    const uint32_t ended = port_.Ballot([&](uint32_t lane) {
      return (blocks_ >> lane & 1) != 0 &&
             port_.LoadBlock(&block_.blocks[lane].warps_left) == 0;
    });
    for (uint32_t blocks = ended; blocks != 0; blocks &= blocks - 1) {
      const TaskBlock& block = block_.blocks[LowestLane(blocks)];
      if (block.node != 0) tree_.Free(block.node);
      barriers_.Free(block.barrier);
    }
    blocks_ &= ~ended;
  }

  // A round of pSched (Algorithm 2); true: all warps of the block are placed.
  CARILLON_EDGE bool PlaceSome() {
    // Lines 5-19 go through the table's rows; the WarpTable has the executors.
    // One index serves as `tid` and as `i`.
    port_.EachLane([&](uint32_t lane) {
      if (lane >= executors_) return;
      WarpSlot& slot = block_.warps[lane];
      if (port_.LoadBlock(&slot.exec) != 0) return;
      // Line 8: what was there before counts, from `warps_` down to 1.
      const auto before =
          static_cast<int32_t>(port_.AddBlock(&block_.to_place, ~uint32_t{0}));
      if (before <= 0) return;
      slot.warp = next_.warp + static_cast<uint32_t>(before) - 1;
      slot.row = next_.row;
      slot.node = next_.node;
      slot.barrier = next_.barrier;
      slot.block = next_.block;
      port_.StoreBlock(&slot.exec, 1);
    });
    return port_.Ballot([&](uint32_t) {
      return static_cast<int32_t>(port_.LoadBlock(&block_.to_place)) > 0;
    }) == 0;
  }

  Port& port_;
  MtbBlock& block_;
  TaskEntry* const column_;
  const uint32_t executors_;
  BuddyTree<Port> tree_;
  BarrierIds barriers_;
  uint32_t blocks_ = 0;  // of MtbBlock::blocks, in use
  // The task that is being placed.
  uint32_t shared_bytes_ = 0;
  bool meets_ = false;
  uint32_t warps_ =
      0;  // of a block; all, if its blocks have nothing of their own
  uint32_t left_ = 0;     // warps of blocks that are not placed
  WarpSlot next_ = {};    // the first warp of the next block
  bool placing_ = false;  // that block has what it needs besides executors
  bool began_ = false;    // a warp of the task has, or gets, its executor
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_PLACER_H_
