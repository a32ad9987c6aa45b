// Warps that make room for an event's (EDGE IV-D): they are stopped, their
// pipelines run empty, they leave their slots, and come back to them.
//
// A victim keeps its generation while it is away, so that what memory still
// acknowledges is its own when it is back.
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

  // Slots whose warps may leave, in the order of the policy. Never an event's.
  std::vector<uint32_t> Candidates(Cycle now) const;

  // From here on the slot's warp fetches nothing, and its pipeline runs empty.
  void Stop(uint32_t slot);
  // It need not leave.
  void Continue(uint32_t slot);
  // What keeps it from leaving. Sets `again` if that may change without
  // anything else that happens on the SM.
  FlushWaits WaitsOf(uint32_t slot, Cycle now, bool* again) const;

  // It has left: the slot is nobody's, and is still used. WaitsOf() must be 0.
  void Leave(uint32_t slot);
  // One of its registers, into or out of global memory. The LSU must accept.
  void SaveRegister(uint32_t slot, uint32_t which, Cycle now);
  // Whether the slot's own warp is not there.
  bool away(uint32_t slot) const { return away_[slot].state != State::kHere; }
  // As it left.
  const WarpContext& context(uint32_t slot) const {
    return away_[slot].context;
  }
  // The slot is free for it again; first it gets so many registers back.
  void ComeBack(uint32_t slot, uint32_t registers);
  // Its grid is no more. Whose the slot was:
  enum class Owner : uint8_t { kEvent, kNobody, kVictim };
  Owner Forget(uint32_t slot);

  // Goes on with those that come back, a memory operation a cycle. Calls
  // here(slot) when one has its slot, and goes_on(slot) when it has all.
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
  // Advance() has something to send.
  bool again() const;

  // Of an operation that is not of the warp in its slot.
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
    WarpClass warp_class = WarpClass::kNormal;
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
  std::vector<Away> away_;  // by slot
  WarpMask coming_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_VICTIMS_H_
