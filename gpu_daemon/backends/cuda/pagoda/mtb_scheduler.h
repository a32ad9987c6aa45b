// The scheduler warp of an MTB (Pagoda 4.3, Algorithm 1, lines 2-28, and Algorithm
// 2). For CPU and GPU code.
//
//   look    each lane at a row. A row that names a predecessor releases it
//           (lines 5-13). Also done while a block waits for anything below, so
//           that a task which does not end holds up nobody in another column.
//   begin   a released row, one after another.
//   place   block after block: what the ended ones have is freed; a barrier,
//           shared memory, then executors for its warps (pSched). A block gets
//           executors as they become free. No two blocks wait for executors at
//           the same time, so those that have some always get the rest.
//
// Where the paper's algorithms are corrected, a comment names their line.
//
// Orders: the state of an entry, relaxed system load, then an acquire-release
// system fence, then the entry; slot -> exec (release, acquire; block) -> body ->
// counters (acquire-release, block) -> kFree (release, system).
//
// A Port is edge_dispatch.h's, with
//   PollState(&state)  relaxed, system
//   RunTask(entry, warp)  every lane its thread of the task's warp
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/barrier_ids.h"
#include "gpu_daemon/backends/cuda/pagoda/buddy_tree.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"

namespace carillon::gpud {

template <class Port>
class MtbScheduler {
 public:
  CARILLON_EDGE MtbScheduler(Port& port, const TaskTable& table,
                             MtbBlock& block, uint32_t column)
      : port_(port),
        table_(table),
        block_(block),
        column_(table.Column(column)),
        tree_(port) {}

  CARILLON_EDGE void Run() {
    for (uint32_t round = 0; !Leaving(); ++round) {
      const uint32_t released = Look();
      for (uint32_t rows = released; rows != 0; rows &= rows - 1) {
        Begin(LowestLane(rows));
      }
      if (released != 0) round = 0;
      port_.Pause(round);
    }
    port_.Elect([&] { port_.StoreBlock(&block_.leave, 1); });
  }

 private:
  CARILLON_EDGE bool Leaving() {
    return port_.Elect([&] { return port_.PollWord(table_.command); }) ==
           static_cast<uint32_t>(TaskCommand::kLeave);
  }

  // Releases predecessors; returns the rows of tasks that are released.
  CARILLON_EDGE uint32_t Look() {
    typename Port::template Lanes<TaskState> states;
    const uint32_t named = port_.Ballot([&](uint32_t lane) {
      states[lane] = lane < table_.rows ? port_.PollState(&column_[lane].state)
                                        : TaskState::kFree;
      return NamesPredecessor(states[lane]);
    });
    // By both halves. Line 14 asks for `sched` alone: where a copy has brought
    // that first, `ready` would come when the task has ended, and stay.
    const uint32_t released = port_.Ballot(
        [&](uint32_t lane) { return states[lane] == TaskState::kReleased; });
    if ((named | released) != 0) port_.AcquirePolled();
    if (named != 0) {
      port_.EachLane([&](uint32_t lane) {
        if ((named >> lane & 1) != 0) Release(lane, states[lane]);
      });
    }
    return released;
  }

  // Or later, if the predecessor still waits for its own scheduler.
  CARILLON_EDGE void Release(uint32_t row, TaskState state) {
    TaskState* previous = &table_.entries[PredecessorOf(state)].state;
    if (port_.PollState(previous) != TaskState::kCopied) return;
    port_.ReleaseSystem(previous, TaskState::kReleased);
    // Missing behind line 13: without it the next successor waits for ever.
    port_.ReleaseSystem(&column_[row].state, TaskState::kCopied);
  }

  CARILLON_EDGE void Begin(uint32_t row) {
    // Read once: when its last warp is placed, the task may end, and the entry be
    // another task's. Lines 18-25 read it again.
    const uint32_t blocks = column_[row].blocks;
    const uint32_t shared_bytes = column_[row].shared_bytes;
    const uint32_t warps = TaskWarps(column_[row].threads);
    const bool meets = column_[row].sync != 0 && warps > 1;
    port_.Elect([&] {
      port_.ReleaseSystem(&column_[row].state, TaskState::kRuns);
      port_.StoreBlock(&block_.unfinished[row], blocks * warps);
    });
    if (!meets && shared_bytes == 0) {
      Place({.warp = 0, .row = row, .block = kNoTaskBlock}, blocks * warps);
      return;
    }
    for (uint32_t b = 0; b < blocks; ++b) {
      WarpSlot slot = {.warp = b * warps, .row = row};
      for (uint32_t round = 0; !Provide(shared_bytes, meets, slot); ++round) {
        Look();
        port_.Pause(round);
      }
      port_.Elect([&] {
        TaskBlock& provided = block_.blocks[slot.block];
        provided.node = slot.node;
        provided.barrier = slot.barrier;
        port_.StoreBlock(&provided.warps_left, warps);
      });
      Place(slot, warps);
    }
  }

  // What the block needs besides executors; false: not all of it is free.
  CARILLON_EDGE bool Provide(uint32_t shared_bytes, bool meets,
                             WarpSlot& slot) {
    FreeEnded();
    // Line 19 takes for granted that there is one: 15 blocks of two warps may
    // have them all, with an executor left.
    slot.barrier = meets ? barriers_.Take() : 0;
    if (meets && slot.barrier == 0) return false;
    slot.node = shared_bytes != 0 ? tree_.Allocate(shared_bytes) : 0;
    if (shared_bytes != 0 && slot.node == 0) {
      barriers_.Free(slot.barrier);
      return false;
    }
    slot.block = LowestLane(~blocks_);
    blocks_ |= 1u << slot.block;
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

  // pSched (Algorithm 2): `first` and the count - 1 warps behind it.
  CARILLON_EDGE void Place(const WarpSlot& first, uint32_t count) {
    port_.Elect([&] { port_.StoreBlock(&block_.to_place, count); });
    for (uint32_t round = 0;; ++round) {
      // Lines 5-19 go through the table's rows; the WarpTable has the executors.
      // One index serves as `tid` and as `i`.
      port_.EachLane([&](uint32_t lane) {
        if (lane >= table_.executors) return;
        WarpSlot& slot = block_.warps[lane];
        if (port_.LoadBlock(&slot.exec) != 0) return;
        // Line 8: what was there before counts, from `count` down to 1.
        const auto before = static_cast<int32_t>(
            port_.AddBlock(&block_.to_place, ~uint32_t{0}));
        if (before <= 0) return;
        slot.warp = first.warp + static_cast<uint32_t>(before) - 1;
        slot.row = first.row;
        slot.node = first.node;
        slot.barrier = first.barrier;
        slot.block = first.block;
        port_.StoreBlock(&slot.exec, 1);
      });
      if (port_.Ballot([&](uint32_t) {
            return static_cast<int32_t>(port_.LoadBlock(&block_.to_place)) > 0;
          }) == 0) {
        return;
      }
      Look();
      port_.Pause(round);
    }
  }

  Port& port_;
  const TaskTable& table_;
  MtbBlock& block_;
  TaskEntry* const column_;
  BuddyTree<Port> tree_;
  BarrierIds barriers_;
  uint32_t blocks_ = 0;  // of MtbBlock::blocks, in use
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_
