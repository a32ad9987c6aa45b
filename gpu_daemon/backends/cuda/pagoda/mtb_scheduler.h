// The scheduler warp of an MTB (Pagoda 4.3, Algorithm 1, lines 2-28). For CPU and
// GPU code.
//
//   look    each lane at a row. A row that names a predecessor releases it
//           (lines 5-13). Also done while a block waits for anything below, so
//           that a task which does not end holds up nobody in another column.
//   begin   a released row, one after another.
//   place   block after block, as mtb_placer.h has it.
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
//   SkipsTask(entry)  true: RunTask() does nothing for its warps from now on
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_

#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_placer.h"
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
        placer_(port, table, block, column) {}

  CARILLON_EDGE void Run() {
    for (uint32_t round = 0; !Leaving(); ++round) {
      const uint32_t released = Look();
      for (uint32_t rows = released; rows != 0 && !Leaving();
           rows &= rows - 1) {
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
    placer_.Begin(row);
    for (uint32_t round = 0; !placer_.Step(); ++round) {
      Look();
      port_.Pause(round);
    }
  }

  Port& port_;
  const TaskTable& table_;
  MtbBlock& block_;
  TaskEntry* const column_;
  MtbPlacer<Port> placer_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_MTB_SCHEDULER_H_
