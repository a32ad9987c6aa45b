// The crossbar between SMs and L2 slices. Every SM and every slice has a port
// for each direction, with a fixed latency and so many bytes per cycle.
//
// It has no buffers that could be full: the senders limit what they have under
// way.
#ifndef CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_
#define CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/timing/config.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

class Interconnect {
 public:
  Interconnect(const Config& config, MemoryCounters* counters)
      : counters_(counters),
        latency_(TicksOfClock(config, config.clock.interconnect_mhz,
                              config.interconnect.latency)),
        flit_(TicksOfClock(config, config.clock.interconnect_mhz, 1)),
        header_bytes_(config.interconnect.header_bytes),
        request_bytes_(config.interconnect.request_bytes),
        reply_bytes_(config.interconnect.reply_bytes),
        sm_out_(config.sm.count),
        sm_in_(config.sm.count),
        slice_in_(config.l2_slices),
        slice_out_(config.l2_slices) {}

  // When all of a message that is ready now has arrived.
  Ticks Request(Ticks now, uint32_t sm, uint32_t slice, uint32_t data_bytes) {
    const uint64_t flits = Flits(data_bytes, request_bytes_);
    counters_->request_flits += flits;
    return Pass(now, flits, sm_out_[sm], slice_in_[slice]);
  }
  Ticks Reply(Ticks now, uint32_t slice, uint32_t sm, uint32_t data_bytes) {
    const uint64_t flits = Flits(data_bytes, reply_bytes_);
    counters_->reply_flits += flits;
    return Pass(now, flits, slice_out_[slice], sm_in_[sm]);
  }

 private:
  uint64_t Flits(uint32_t data_bytes, uint32_t width) const {
    return (header_bytes_ + data_bytes + width - 1) / width;
  }
  // `from` and `to` are when the two ports are free again.
  Ticks Pass(Ticks now, uint64_t flits, Ticks& from, Ticks& to) const {
    const Ticks sent = std::max(now, from);
    from = sent + flits * flit_;
    const Ticks received = std::max(sent + latency_, to);
    to = received + flits * flit_;
    return to;
  }

  MemoryCounters* const counters_;
  const Ticks latency_;
  const Ticks flit_;
  const uint32_t header_bytes_;
  const uint32_t request_bytes_;
  const uint32_t reply_bytes_;
  std::vector<Ticks> sm_out_;
  std::vector<Ticks> sm_in_;
  std::vector<Ticks> slice_in_;
  std::vector<Ticks> slice_out_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_INTERCONNECT_H_
