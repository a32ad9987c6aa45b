// Dispatches events past the TB scheduler: from the EKT to an SM's table of
// event warps (EDGE IV-C).
#ifndef CARILLON_SIM_TIMING_EDGE_EVENT_DISPATCHER_H_
#define CARILLON_SIM_TIMING_EDGE_EVENT_DISPATCHER_H_

#include <deque>
#include <vector>

#include "sim/timing/grid.h"
#include "sim/timing/sm.h"

namespace carillon::sim::timing {

class EventDispatcher {
 public:
  explicit EventDispatcher(const Config& config) : config_(config) {}

  // Whether a grid goes this way: an event of one warp, or of several where
  // they may have several victims, without shared memory.
  bool Takes(const GridRun& grid) const;
  void Submit(GridRun* grid);
  // Removes a grid that has ended or will not begin.
  void Remove(const GridRun* grid);

  // Assigns the events that have arrived to SMs, by priority and then arrival.
  void Advance(Cycle now, std::deque<Sm>& sms);
  // The next cycle in which Advance() has something to do.
  Cycle next(Cycle now) const {
    return pending_.empty() ? kNever : NextOfPending(now);
  }
  // Call it when a table has room again.
  void Unblock() { blocked_ = false; }

 private:
  Cycle NextOfPending(Cycle now) const;
  Sm* Choose(const GridRun& grid, Cycle now, std::deque<Sm>& sms);

  const Config& config_;
  std::vector<GridRun*> pending_;  // with blocks that no SM has
  bool blocked_ = false;           // no table has room
  size_t next_sm_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_EVENT_DISPATCHER_H_
