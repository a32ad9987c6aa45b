// How many SMs are kept for events.
//
// Static: always so many (EDGE IV-A). Dynamic is the paper's future work, and
// this design is Carillon's. What counts is the mean number of events under way
// over a window. It follows the rate, and what each event takes, by Little's
// law, and it also grows when events queue.
//
// Events get their part of the SMs: `load` of them under way, beside a
// background that weighs as much as `reserve_load`, get load / (load +
// reserve_load), and reserve_sms at most. Only as many SMs as hold the events
// would not do: what slows an event down on an SM of its own is the others'
// traffic in the L2 and in DRAM, which only fewer SMs of theirs make less.
//
// It is followed upwards at once, as an SM must drain before it helps, and
// downwards by one SM after several low windows, as an SM that is given back
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
  // So many events are under way from now on; calls must be in order of time.
  // True: sms() has changed.
  bool Advance(Cycle now, uint32_t events);
  // When it must be called, if nothing changes before.
  Cycle next() const;

 private:
  void EndWindow();

  const Config& config_;
  uint32_t sms_ = 0;
  Cycle window_end_ = 0;
  Cycle since_ = 0;  // events_ has been so many
  uint32_t events_ = 0;
  uint64_t load_ = 0;  // events times cycles in this window
  uint32_t low_windows_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_EDGE_RESERVATION_H_
