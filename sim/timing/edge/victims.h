// Warps that make room for an event's (EDGE IV-D). They are stopped, their
// pipelines run empty, they leave their slots, and later come back to them.
//
// A victim keeps its generation while it is away. Memory still acknowledges its
// stores then, and these must count as its own.
#ifndef CARILLON_SIM_TIMING_EDGE_VICTIMS_H_
#define CARILLON_SIM_TIMING_EDGE_VICTIMS_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "sim/timing/instruction_fetch.h"
#include "sim/timing/memory/lsu.h"
#include "sim/timing/statistics.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

// A bit for each FlushWait.
using FlushWaits = uint32_t;

class Victims {
 public:
  Victims(const Config& config, uint32_t sm, SmWarps* warps,
          InstructionFetch* fetch, Lsu* lsu, SmCounters* counters);

  // Slots whose warps may be preempted, in the order of the policy. Never an
  // event's.
  std::vector<uint32_t> Candidates(Cycle now) const;

  // From now on the slot's warp fetches nothing, and its pipeline runs empty.
  void Stop(uint32_t slot);
  // Lets a stopped warp go on without having left.
  void Continue(uint32_t slot);
  // What keeps the warp from leaving. Sets `again` if that may change without
  // any other activity on the SM.
  FlushWaits WaitsOf(uint32_t slot, Cycle now, bool* again) const;

  // Takes the warp out of its slot, which nobody owns then but which stays in
  // use. WaitsOf() must be 0.
  void Leave(uint32_t slot);
  // Writes one of the warp's registers to global memory. The LSU must accept.
  void SaveRegister(uint32_t slot, uint32_t which, Cycle now);
  bool away(uint32_t slot) const { return away_[slot].state != State::kHere; }
  const WarpContext& context(uint32_t slot) const {
    return away_[slot].context;
  }
  // The event has left the slot. The warp gets so many registers back and then
  // resumes.
  void ComeBack(uint32_t slot, uint32_t registers);
  // The warp's grid has ended. Returns whose the slot was:
  enum class Owner : uint8_t { kEvent, kNobody, kVictim };
  Owner Forget(uint32_t slot);

  // Advances the warps that come back, a memory operation per cycle. Calls
  // here(slot) when one is in its slot, and goes_on(slot) when it has
  // everything.
  template <class Here, class GoesOn>
  void Advance(Cycle now, Here here, GoesOn goes_on) {
    for (WarpMask left = coming_; left != 0; left &= left - 1) {
      const auto slot = static_cast<uint32_t>(std::countr_zero(left));
      Away& away = away_[slot];
      if (away.state == State::kRegisters) {
        if (away.to_load != 0 && lsu_->CanAccept()) LoadRegister(slot, now);
        if (away.to_load != 0 || away.loading != 0) continue;
        Place(slot, now);
        here(slot);
      }
      if (away.replayed < away.loads.size() && lsu_->CanAccept()) {
        Replay(slot, now);
      }
      if (away.replayed < away.loads.size()) continue;
      Continue(slot);
      away = {.turn = away.turn};
      coming_ &= ~BitOf(slot);
      goes_on(slot);
    }
  }
  // Whether Advance() has something to send.
  bool again() const;

  // Memory has finished an operation that does not belong to the warp in the
  // slot.
  void MemoryDone(const MemoryOperation& operation);

 private:
  enum class State : uint8_t {
    kHere,
    kAway,
    kRegisters,  // come back
    kLoads,      // are done again; it is in its slot
  };
  struct Away {
    State state = State::kHere;
    WarpContext context;
    bool asleep = false;
    std::vector<DroppedLoad> loads;
    size_t replayed = 0;
    uint32_t to_load = 0;  // registers
    uint32_t loading = 0;
    uint32_t turn = 0;  // tells this absence's operations from earlier ones'
  };

  void Place(uint32_t slot, Cycle now);
  void LoadRegister(uint32_t slot, Cycle now);
  void Replay(uint32_t slot, Cycle now);

  const Config& config_;
  const uint32_t sm_;
  SmWarps* const warps_;
  InstructionFetch* const fetch_;
  Lsu* const lsu_;
  SmCounters* const counters_;
  std::vector<Away> away_;  // indexed by slot
  WarpMask coming_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_VICTIMS_H_
