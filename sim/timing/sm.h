// A streaming multiprocessor: its warps, what issues from them, and when.
//
// An operation does everything that it does to values when it issues
// (Warp::Step()). All that follows is about time only.
#ifndef CARILLON_SIM_TIMING_SM_H_
#define CARILLON_SIM_TIMING_SM_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/exec/warp.h"
#include "sim/timing/block_slot.h"
#include "sim/timing/edge/event_warps.h"
#include "sim/timing/event_wheel.h"
#include "sim/timing/grid.h"
#include "sim/timing/instruction_fetch.h"
#include "sim/timing/memory/lsu.h"
#include "sim/timing/memory/memory_system.h"
#include "sim/timing/observer.h"
#include "sim/timing/occupancy.h"
#include "sim/timing/preempt/block_switch.h"
#include "sim/timing/scheduler.h"
#include "sim/timing/sm_wakes.h"
#include "sim/timing/statistics.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

// What the SMs tell the GPU. It is apart from them because the GPU looks at all
// of it in every cycle.
struct SmSignals {
  SmWakes wakes;
  bool ended = false;  // a block or a grid has ended
};

class Sm final : private EventWarps::Host, private BlockSwitch::Host {
 public:
  // What ends a grid that gets no further; 0: nothing.
  struct Limits {
    uint64_t idle = 0;   // GridRun::idle
    uint64_t looks = 0;  // GridRun::looks
  };

  // The pointers must outlive it.
  Sm(const Config& config, uint32_t index, const Memory* memory,
     MemorySystem* memory_system, const Limits& limits, SmSignals* signals);
  Sm(const Sm&) = delete;
  Sm& operator=(const Sm&) = delete;

  Core& core() { return core_; }

  // What the SM keeps of its contexts for events. set_takes() says whether it
  // takes events, and other grids, at all.
  void Reserve(const Contexts& contexts);
  void set_takes(bool events, bool others) {
    takes_events_ = events;
    takes_others_ = others;
  }
  bool takes_events() const { return takes_events_; }
  void SetInterruptRegisters(DeviceAddress begin, uint64_t bytes) {
    lsu_.SetInterruptRegisters(begin, bytes);
  }
  bool ReserveInstructions(uint64_t line) { return fetch_.Reserve(line); }
  bool takes_others() const { return takes_others_; }
  void set_observer(const Observer* observer) { observer_ = observer; }

  bool Fits(const GridRun& grid) const override {
    if (grid.options.event) {
      // A routine for this very SM must run here.
      const bool mine = grid.options.sm == core_.sm;
      return (takes_events_ || mine) && free_.Holds(grid.contexts);
    }
    if (!takes_others_ || (events_first_ && event_warps_.waiting())) {
      return false;
    }
    if (block_switch_ != nullptr && !block_switch_->Allows(grid)) return false;
    Contexts needs = grid.contexts;
    needs.Return(kept_);
    return free_.Holds(needs);
  }
  const Contexts& free() const { return free_; }
  const std::vector<BlockSlot>& blocks() const { return blocks_; }
  // nullptr unless preemption.technique names one.
  BlockSwitch* block_switch() { return block_switch_.get(); }
  const BlockSwitch* block_switch() const { return block_switch_.get(); }
  const EventWarps& event_warps() const { return event_warps_; }
  // Finds a place for an event's block, past the TB scheduler. The table must
  // have room.
  void AcceptEvent(GridRun* grid, Cycle now);
  // Starts the grid's next block, for which there must be room.
  void StartBlock(GridRun* grid, Cycle now);
  // Blocks that run reach the memory's segments as they are now.
  void TakeSegments();
  // Stops the grid's blocks where they are.
  void Drop(const GridRun* grid, Cycle now);
  // Releases the wait-release barrier, as __release_threads() does.
  void ReleaseThreads(Cycle now);

  // Handles memory's answer; call it before Tick() of the same cycle.
  void Reply(const MemoryRequest& reply, Cycle now);
  // Executes a cycle. Those before SmSignals::wakes has it may be skipped.
  void Tick(Cycle now);
  // A block of the grid with warps that wait for a release; nullptr if none
  // does.
  const Block* FindWaiting(const GridRun* grid) const;

  const SmWarps& warps() const { return warps_; }
  const Lsu& lsu() const { return lsu_; }
  const SmCounters& CountersUntil(Cycle until);

 private:
  // What a scheduler did in its last cycle: a bit for each Stall, or kIssued,
  // or kIdle.
  static constexpr uint32_t kIssued = 1 << kStalls;
  static constexpr uint32_t kIdle = 2 << kStalls;

  // Starts a block in `slots` (any free slots if empty), taking `takes` of
  // free_.
  void Start(GridRun* grid, uint32_t entry, std::span<const uint32_t> slots,
             const Contexts& takes, Cycle now);
  void Prepare(const GridRun& grid);
  void StartWarp(BlockSlot& block, uint32_t index, uint32_t slot);
  void EndBlock(BlockSlot& block);
  void CountUntil(Cycle until);
  void FreeChanged();
  void CheckBarrier(BlockSlot& block);
  void KeepForEvents();
  void TickEvents(Cycle now);
  void MemoryDone(const MemoryOperation& operation);

  // --- EventWarps::Host and BlockSwitch::Host.
  Contexts& free() override { return free_; }

  // --- EventWarps::Host.
  void StartEvent(GridRun* grid, uint32_t entry,
                  std::span<const uint32_t> slots, const Contexts& takes,
                  Cycle now) override;
  void OnVictimLeft(uint32_t slot) override;
  void OnVictimBack(uint32_t slot) override;
  void OnRoomChanged() override { signals_.ended = true; }
  void TakeOver(uint32_t entry, const Contexts& contexts) override;
  void Observe(Observation::What what, const GridRun& grid, uint32_t slot,
               Cycle now) override {
    if (observer_ == nullptr) return;
    (*observer_)({now, grid.result.id, what, core_.sm, slot});
  }

  // --- BlockSwitch::Host.
  std::vector<BlockSlot>& blocks() override { return blocks_; }
  bool HasRoom(const Contexts& contexts) const override {
    Contexts needs = contexts;
    needs.Return(kept_);
    return free_.Holds(needs);
  }
  void Touch(Cycle now) override {
    CountUntil(now);
    Wake();
  }
  void Vacate(uint32_t slot, Cycle now) override;
  void Occupied(uint32_t slot, Cycle now) override;
  void OnFreeChanged() override {
    FreeChanged();
    signals_.ended = true;
  }

  // Goes on with what only the LSU has to do in this cycle. Returns false if
  // there is more.
  bool TickLsuOnly(Cycle now);
  bool TickBlockSwitch(Cycle now);
  void Wake();
  void WakeLsu() { signals_.wakes.Wake(core_.sm); }
  void Sleep(Cycle now, Cycle lsu_next);
  Cycle NextUnit(Cycle now) const;
  uint32_t Schedule(Scheduler& scheduler, Cycle now);
  WarpMask Available(Cycle now) const;
  void Issue(uint32_t slot, Cycle now);
  // A warp looked again for what others do (Warp::Looks()): other lanes of it go
  // on.
  void LookedAgain(GridRun& grid, WarpContext& context);
  void AfterStep(uint32_t slot);
  void WakeReleased();
  void ReleaseBarriers(BlockSlot& block);
  void Finish(uint32_t slot, Pc pc, bool memory);
  void Retire(uint32_t slot);
  void Fail(GridRun* grid, absl::Status status);
  void TakeUnit(Unit unit, Cycle until, Cycle now);

  const Config& config_;
  const Limits limits_;
  Core core_;
  SmCounters counters_;
  EventWheel<SmEvent> events_;
  SmWarps warps_;
  InstructionFetch fetch_;
  Lsu lsu_;
  EventWarps event_warps_;
  std::unique_ptr<BlockSwitch> block_switch_;
  std::vector<Scheduler> schedulers_;
  std::vector<uint32_t> outcomes_;  // per scheduler
  std::vector<BlockSlot> blocks_;
  Contexts free_;
  const Contexts small_warp_;  // an interrupt routine's, EDGE's smallest event
  // What is in use of free_, and since when, for the counters.
  uint32_t registers_used_ = 0;
  bool free_context_ = false;
  Cycle free_since_ = 0;
  Contexts reserve_;
  Contexts events_use_;  // free contexts that blocks of events have
  Contexts kept_;        // the part of reserve_ that events do not use
  const bool events_first_;
  bool events_here_ = false;  // also if they were here at the last TickEvents()
  bool takes_events_ = true;
  bool takes_others_ = true;
  const Observer* observer_ = nullptr;
  uint64_t next_age_ = 0;
  uint64_t time_reads_ = 0;     // of the core, at the last look
  size_t most_operations_ = 0;  // the most of any program so far
  uint64_t last_grid_ = ~uint64_t{0};
  // The cycle in which each unit of a kind takes its next operation.
  std::array<std::array<Cycle, 4>, kUnits> unit_free_{};
  std::array<uint32_t, kUnits> unit_count_{};
  Cycle counted_until_ = 0;  // the present one, but at the end of Tick()
  // The schedulers and the fetch unit would do again what they did last:
  // nothing. Until this cycle no unit becomes free that a warp waits for.
  bool still_ = false;
  Cycle unit_free_next_ = kNever;
  SmSignals& signals_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SM_H_
