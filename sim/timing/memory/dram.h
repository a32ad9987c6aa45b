// A DRAM channel: banks with one open row each, a data bus, and a window of
// requests, from which a row hit is served first, else the oldest (FR-FCFS).
#ifndef CARILLON_SIM_TIMING_MEMORY_DRAM_H_
#define CARILLON_SIM_TIMING_MEMORY_DRAM_H_

#include <cstdint>
#include <vector>

#include "sim/timing/config.h"
#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/memory_request.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

struct DramRequest {
  uint64_t address = 0;  // within the channel
  uint32_t bytes = 0;
  uint32_t slice = 0;  // the slice that asks
  L2Demand demand;
};

class DramChannel {
 public:
  DramChannel(const Config& config, MemoryCounters* counters);

  void Push(const DramRequest& request) {
    if (window_.size() < window_limit_) {
      window_.push_back(request);
    } else {
      waiting_.push(request);
    }
  }

  // Issues the commands that can be issued now. Calls done(request, cycle) with
  // the cycle in which each request has its data. Returns when to ask again;
  // kNever if no request waits.
  template <class Done>
  Cycle Advance(Cycle now, Done done) {
    const Ticks ticks = TicksOf(now);
    while (!window_.empty()) {
      // Commands may run ahead of the data bus by at most their worst latency.
      if (bus_free_ > ticks + ahead_) return CycleAt(bus_free_ - ahead_);
      const size_t chosen = Choose();
      const DramRequest request = window_[chosen];
      window_.erase(window_.begin() + static_cast<ptrdiff_t>(chosen));
      if (!waiting_.empty()) {
        window_.push_back(waiting_.front());
        waiting_.pop();
      }
      done(request, CycleAt(Serve(request, ticks)) + latency_);
    }
    return kNever;
  }

 private:
  struct Bank {
    uint64_t row = ~uint64_t{0};
    Ticks ready = 0;      // for a column command
    Ticks activated = 0;  // the open row
  };
  Bank& BankOf(uint64_t address) {
    const uint64_t row = address / row_bytes_;
    return banks_[(row + row / banks_.size()) % banks_.size()];
  }
  size_t Choose();
  // Returns when the last byte has passed the bus.
  Ticks Serve(const DramRequest& request, Ticks now);

  MemoryCounters* const counters_;
  const size_t window_limit_;
  const uint64_t row_bytes_;
  const uint32_t bytes_per_cycle_;
  const Ticks cycle_;
  const Ticks column_;
  const Ticks activate_;
  const Ticks precharge_;
  const Ticks active_;
  const Ticks ahead_;
  const Cycle latency_;
  Ticks bus_free_ = 0;
  std::vector<Bank> banks_;
  std::vector<DramRequest> window_;  // ordered by age
  GrowingQueue<DramRequest> waiting_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_DRAM_H_
