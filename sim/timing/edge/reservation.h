// Decides how many SMs are reserved for events.
//
// A static reservation is a constant (EDGE IV-A). Dynamic reservation is the
// paper's future work, and this design is Carillon's. It measures the mean
// number of events under way over a window: by Little's law that number follows
// both the rate and the duration of events, and it also grows when events
// queue.
//
// Events get their share of the SMs: `load` of them under way, beside a
// background that weighs as much as `reserve_load`, get load / (load +
// reserve_load), and reserve_sms at most. To reserve just the SMs that hold the
// events would not be enough: on an SM of its own an event is slowed down by
// the other kernels' traffic in the L2 and in DRAM, and only fewer SMs for them
// make that less.
//
// The reservation grows at once, as an SM must drain before it helps. It
// shrinks by one SM after several low windows, as an SM that is given back
// takes whole blocks.
#ifndef CARILLON_SIM_TIMING_EDGE_RESERVATION_H_
#define CARILLON_SIM_TIMING_EDGE_RESERVATION_H_

#include <cstdint>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

class SmReservation {
 public:
  explicit SmReservation(const Config& config);

  uint32_t sms() const { return sms_; }
  // So many events are under way from now on. Calls must be in order of time.
  // Returns true if sms() has changed.
  bool Advance(Cycle now, uint32_t events);
  // When it must be called next, if nothing changes before.
  Cycle next() const {
    const bool changes = sms_ != 0 || events_ != 0 || load_ != 0;
    return dynamic_ && changes ? window_end_ : kNever;
  }

 private:
  void EndWindow();

  const Config& config_;
  const bool dynamic_;
  uint32_t sms_ = 0;
  Cycle window_end_ = 0;
  Cycle since_ = 0;  // events_ has been so many
  uint32_t events_ = 0;
  uint64_t load_ = 0;  // events times cycles in this window
  uint32_t low_windows_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_RESERVATION_H_
