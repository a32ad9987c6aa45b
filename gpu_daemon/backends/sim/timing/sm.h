// A streaming multiprocessor: its warps, what issues from them, and when.
//
// An operation does all that it does to values at the moment of its issue
// (Warp::Step()); everything after that is about time only.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMING_SM_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMING_SM_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/sim/exec/warp.h"
#include "gpu_daemon/backends/sim/timing/event_wheel.h"
#include "gpu_daemon/backends/sim/timing/grid.h"
#include "gpu_daemon/backends/sim/timing/instruction_fetch.h"
#include "gpu_daemon/backends/sim/timing/lsu.h"
#include "gpu_daemon/backends/sim/timing/memory_system.h"
#include "gpu_daemon/backends/sim/timing/occupancy.h"
#include "gpu_daemon/backends/sim/timing/scheduler.h"
#include "gpu_daemon/backends/sim/timing/statistics.h"
#include "gpu_daemon/backends/sim/timing/warp_context.h"

namespace carillon::sim::timing {

class Sm {
 public:
  // The rest must outlive it. `no_progress_limit`: as FunctionalGpu's.
  Sm(const Config& config, uint32_t index, const Memory* memory,
     MemorySystem* memory_system, uint64_t no_progress_limit);
  Sm(const Sm&) = delete;
  Sm& operator=(const Sm&) = delete;

  Core& core() { return core_; }

  bool Fits(const GridRun& grid) const { return free_.Holds(grid.contexts); }
  const Contexts& free() const { return free_; }
  // The grid's next block, for which there must be room.
  void StartBlock(GridRun* grid, Cycle now);
  // Ends the grid's blocks where they are.
  void Drop(const GridRun* grid, Cycle now);

  // An answer of memory; before Tick() of the same cycle.
  void Reply(const MemoryRequest& reply, Cycle now);
  // A cycle of it. It need not see cycles before wakes_at().
  void Tick(Cycle now);
  Cycle wakes_at() const { return wakes_at_; }

  // Whether a block or a grid has ended since it was last asked.
  bool TakeEnded() { return std::exchange(ended_, false); }

  const SmWarps& warps() const { return warps_; }
  const Lsu& lsu() const { return lsu_; }
  // All cycles before `until` are in the counters then.
  void CountUntil(Cycle until);
  const SmCounters& counters() const { return counters_; }

 private:
  struct BlockSlot {
    Block block;
    GridRun* grid = nullptr;  // nullptr: free
    WarpMask warps = 0;       // that are not done
    Contexts contexts;
  };
  // What a scheduler did in its last cycle: a bit for each Stall; kIssued and
  // kIdle besides.
  static constexpr uint32_t kIssued = 1 << kStalls;
  static constexpr uint32_t kIdle = 2 << kStalls;

  uint32_t Schedule(Scheduler& scheduler, Cycle now);
  WarpMask Available(Cycle now) const;
  void Issue(uint32_t slot, Cycle now);
  void AfterStep(uint32_t slot);
  void ReleaseBarriers(BlockSlot& block);
  void Finish(uint32_t slot, Pc pc, bool memory);
  void Retire(uint32_t slot);
  void Fail(GridRun* grid, absl::Status status);
  void TakeUnit(Unit unit, Cycle until, Cycle now);

  const Config& config_;
  const uint64_t no_progress_limit_;
  Core core_;
  SmCounters counters_;
  EventWheel<SmEvent> events_;
  SmWarps warps_;
  InstructionFetch fetch_;
  Lsu lsu_;
  std::vector<Scheduler> schedulers_;
  std::vector<uint32_t> outcomes_;  // of each scheduler
  std::vector<BlockSlot> blocks_;
  Contexts free_;
  uint64_t next_age_ = 0;
  size_t most_operations_ = 0;  // of the programs that it has seen
  uint64_t last_grid_ = ~uint64_t{0};
  // When each unit of a kind takes its next operation.
  std::array<std::array<Cycle, 4>, kUnits> unit_free_{};
  std::array<uint32_t, kUnits> unit_count_{};
  Cycle counted_until_ = 0;
  Cycle wakes_at_ = kNever;
  bool ended_ = false;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMING_SM_H_
