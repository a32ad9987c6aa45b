// Decides which grid's block goes to an SM next. The kernel management unit
// holds grids by priority, the kernel distributor unit the few whose blocks are
// being handed out.
#ifndef CARILLON_SIM_TIMING_KMU_H_
#define CARILLON_SIM_TIMING_KMU_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/timing/grid.h"
#include "sim/timing/sharing/device_turns.h"
#include "sim/timing/sharing/sharing.h"
#include "sim/timing/sm.h"

namespace carillon::sim::timing {

class Kmu {
 public:
  explicit Kmu(const Config& config)
      : config_(config),
        events_first_(config.edge.event_priority >= EventPriority::kP1),
        displaces_(config.preemption.technique != PreemptionTechnique::kNone),
        turns_(uint64_t{1000} * config.clock.core_mhz) {}  // a millisecond

  // From now on. kConfigured is what it begins with.
  void Share(Sharing sharing);
  Sharing sharing() const { return sharing_; }
  // How many of the grid's slices have ended.
  uint64_t slices_ended(const GridRun& grid) const {
    const bool open =
        slice_grid_ == &grid && (slice_left_ != 0 || grid.running != 0);
    return grid.slices - (open ? 1 : 0);
  }

  void Submit(GridRun* grid);
  // Removes a grid that has ended or will not begin.
  void Remove(const GridRun* grid);

  // While it is set, SMs that take events get only events' blocks.
  void HoldOthers(bool hold) {
    if (hold_others_ && !hold) Unblock();
    hold_others_ = hold;
  }

  // Takes grids into the KDU while it has room, and gives blocks to SMs,
  // `dispatch.blocks_per_cycle` to each. An SM gets a block of the first grid,
  // in the order of priority and then arrival, that fits. The SM behind the one
  // that had the last block is asked first; with `dispatch.event_turn` own, the
  // one behind the last event's block is asked first for events' blocks.
  template <class Sms>
  void Advance(Cycle now, Sms& sms) {
    // One that displaces another may come at any time.
    if (now < next_ && (!displaces_ || pending_.empty())) return;
    if (sharing_ == Sharing::kExclusive) TakeTurns(now);
    const bool filled = FillKdu(now);
    if (!blocked_ || now >= next_ready_) Give(now, sms);
    // Preemption sees in the next cycle what has come into the KDU.
    next_ = !blocked_ || (filled && displaces_)
                ? now + 1
                : std::min(next_ready_, NextArrival(now));
  }
  // The next cycle in which Advance() has something to do.
  Cycle next(Cycle now) const { return std::max(next_, now + 1); }
  // Call it when an SM has room again.
  void Unblock() {
    blocked_ = false;
    next_ = 0;
  }

  size_t pending() const { return pending_.size(); }

 private:
  template <class Sms>
  void Give(Cycle now, Sms& sms) {
    blocked_ = true;
    events_wait_ = events_first_ && EventsWait(now);
    given_.assign(sms.size(), 0);
    if (config_.dispatch.event_turn == EventTurn::kOwn) {
      GiveInTurn(now, sms, next_event_sm_, /*only_events=*/true);
    }
    GiveInTurn(now, sms, next_sm_, /*only_events=*/false);
    next_ready_ = NextReady(now);
  }
  // Gives blocks to SMs, beginning with `first`, as long as what an SM would
  // get is an event's, or anything at all.
  template <class Sms>
  void GiveInTurn(Cycle now, Sms& sms, size_t first, bool only_events) {
    const size_t count = sms.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t at = (first + i) % count;
      for (; given_[at] < config_.dispatch.blocks_per_cycle; ++given_[at]) {
        GridRun* const grid = Choose(now, sms[at]);
        if (grid == nullptr) break;
        const bool event = grid->options.event;
        if (only_events && !event) break;
        sms[at].StartBlock(grid, now);
        grid->last_started = now;
        blocked_ = false;
        if (sharing_ != Sharing::kConfigured) Started(grid);
        const bool own =
            event && config_.dispatch.event_turn == EventTurn::kOwn;
        (own ? next_event_sm_ : next_sm_) = (at + 1) % count;
      }
    }
  }
  // Returns whether a grid has come into the KDU.
  bool FillKdu(Cycle now);
  // Whether the KDU has room for the grid. Where blocks are preempted, a grid
  // takes the place of the last one if that has a lower priority.
  bool MakeRoom(const GridRun& grid);
  // The same by sharing_: one that has not begun and comes after the grid.
  bool Displace(const GridRun& grid);
  bool Admits(const GridRun& grid) const;
  void Add(std::vector<GridRun*>& grids, GridRun* grid) const;
  // What has not begun leaves the KDU, and is chosen anew.
  void ChooseAnew();
  void TakeTurns(Cycle now);
  void Started(GridRun* grid);
  // Whether blocks of an event have no place yet (P1).
  bool EventsWait(Cycle now) const;
  GridRun* Choose(Cycle now, const Sm& sm);
  GridRun* ChooseShared(Cycle now, const Sm& sm, bool only_events);
  GridRun* ChooseSlice(Cycle now, const Sm& sm);
  Cycle NextReady(Cycle now) const;
  Cycle NextArrival(Cycle now) const;

  const Config& config_;
  Sharing sharing_ = Sharing::kConfigured;
  bool events_first_;
  bool by_priority_ = true;
  const bool displaces_;
  bool hold_others_ = false;
  bool events_wait_ = false;
  std::vector<GridRun*> pending_;  // ordered by priority, then arrival
  std::vector<GridRun*> kdu_;      // the same
  bool blocked_ = true;            // no SM has room for any
  Cycle next_ready_ = kNever;
  Cycle next_ = 0;  // before, Advance() has nothing to do
  size_t next_sm_ = 0;
  size_t next_event_sm_ = 0;     // where events have a turn of their own
  std::vector<uint32_t> given_;  // blocks to each SM in this cycle
  DeviceTurns turns_;            // kExclusive
  // kGpes: whose slice the GPU has, and how many of its blocks have not begun.
  const GridRun* slice_grid_ = nullptr;
  uint64_t slice_left_ = 0;
  std::vector<GridRun*> passed_over_;  // scratch
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_KMU_H_
