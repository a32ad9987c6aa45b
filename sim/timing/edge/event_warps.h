// An SM's table of event warps, and the state machine that finds them a place
// (EDGE IV-C, IV-D):
//
//   IDLE -> SELECT -> FLUSH -> SAVE -> LAUNCH -> IDLE
//             |  ^------'                 ^
//             '---- a free context -------'
//
// Each state takes at least one cycle, but a free context is taken at once.
// Only one event at a time goes this way. Any number of the table's events run,
// and their victims come back by themselves (victims.h).
#ifndef CARILLON_SIM_TIMING_EDGE_EVENT_WARPS_H_
#define CARILLON_SIM_TIMING_EDGE_EVENT_WARPS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "sim/timing/edge/victims.h"
#include "sim/timing/grid.h"
#include "sim/timing/observer.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

class EventWarps {
 public:
  // What the table needs of its SM.
  class Host {
   public:
    virtual bool Fits(const GridRun& grid) const = 0;
    virtual Contexts& free() = 0;
    // Starts the grid's next block: in victims' slots, if `slots` has any, and
    // with `takes` of what is free.
    virtual void StartEvent(GridRun* grid, uint32_t entry,
                            std::span<const uint32_t> slots,
                            const Contexts& takes, Cycle now) = 0;
    // A victim has left its slot, or is in it again.
    virtual void OnVictimLeft(uint32_t slot) = 0;
    virtual void OnVictimBack(uint32_t slot) = 0;
    // The table has room again, or an event has got its place.
    virtual void OnRoomChanged() = 0;
    // The grid of an absent victim was dropped: its contexts now belong to this
    // event, whether it runs yet or not.
    virtual void TakeOver(uint32_t entry, const Contexts& contexts) = 0;
    virtual void Observe(Observation::What what, const GridRun& grid,
                         uint32_t slot, Cycle now) = 0;

   protected:
    ~Host() = default;
  };
  static constexpr uint32_t kNoEntry = ~uint32_t{0};

  EventWarps(const Config& config, uint32_t sm, SmWarps* warps,
             InstructionFetch* fetch, Lsu* lsu, SmCounters* counters,
             Host* host);

  bool HasRoom() const { return used_ < entries_.size(); }
  uint32_t used() const { return used_; }
  bool waiting() const { return waiting_ != 0; }
  // Finds a place for a block of the grid. The table must have room.
  void Accept(GridRun* grid, Cycle now);
  // Whether a block of the grid would find victims now, if no other event takes
  // them.
  bool HasVictims(const GridRun& grid, Cycle now) const;

  bool active() const { return used_ != 0; }
  void Tick(Cycle now);
  // Whether Tick() has something to do in the next cycle, whatever else
  // happens.
  bool again() const { return again_; }
  // Whether an event is on its way into the SM and no barrier holds it up.
  bool freezes() const;
  // Counts cycles that passed in the state that the last Tick() left.
  void Count(Cycle cycles);

  // A warp of the event has ended in this slot. BlockEnded() follows when its
  // last warp has ended.
  void Vacated(uint32_t entry, uint32_t slot);
  void BlockEnded(uint32_t entry);
  const WarpContext& context(uint32_t slot) const {
    return victims_.context(slot);
  }
  void MemoryDone(const MemoryOperation& operation) {
    victims_.MemoryDone(operation);
  }

  // Forgets a grid that has ended and whose warps have been cleared: its blocks
  // that wait here for a place, and its victims that are away.
  void Drop(const GridRun* grid);

 private:
  enum class State : uint8_t { kIdle, kSelect, kFlush, kSave, kLaunch };
  enum class EntryState : uint8_t { kFree, kWaiting, kRuns, kEnded };

  // A slot that a victim gives up.
  struct VictimSlot {
    uint32_t slot = 0;
    uint32_t generation = 0;
    uint32_t saved = 0;  // registers of it that the event uses
    bool lent = false;   // only its registers are of use
  };
  struct Entry {
    EntryState state = EntryState::kFree;
    GridRun* grid = nullptr;  // set until the event runs
    uint64_t order = 0;
    Contexts taken;  // resources held for the event until it runs
    std::vector<VictimSlot> places;
    // These go to GridResult.
    Cycle selected = kNever;
    Cycle flushed = kNever;
    uint32_t victims = 0;
    uint32_t reselections = 0;
    bool saves = false;
  };

  void PlaceNext(Cycle now);
  // Victims for a block of the grid; empty if there are not enough. `own` says
  // whether the event gets registers of its own.
  std::vector<VictimSlot> Select(const GridRun& grid, Cycle now,
                                 bool* own) const;
  void Flush(Cycle now);
  bool MustReselect(Cycle now) const;
  bool WaitsForOthers(uint32_t slot, Cycle now) const;
  void Leave(Cycle now);
  void Release();
  void ForgetVictims(const GridRun* grid, uint32_t entry);
  void Save(Cycle now);
  void Launch(Cycle now);
  void Free(Entry& entry);
  uint32_t RegistersOf(uint32_t slot) const;

  const Config& config_;
  SmWarps* const warps_;
  Lsu* const lsu_;
  SmCounters* const counters_;
  Host* const host_;
  Victims victims_;
  std::vector<Entry> entries_;
  uint32_t used_ = 0;
  uint32_t waiting_ = 0;
  uint64_t next_order_ = 0;
  bool again_ = false;

  State state_ = State::kIdle;
  uint32_t current_ = kNoEntry;  // from kFlush on
  size_t saving_ = 0;            // the index of the victim being saved
  uint32_t saved_ = 0;           // how many of its registers are saved
  FlushWaits waits_ = 0;
  // What the choice of victims depends on, as it was when no victim would do.
  struct Seen {
    uint64_t order = ~uint64_t{0};
    uint64_t arrivals = 0;
    WarpMask running = 0;
    WarpMask held = 0;
    uint32_t registers = 0;
    bool operator==(const Seen&) const = default;
  };
  Seen none_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_EVENT_WARPS_H_
