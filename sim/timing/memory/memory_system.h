// All memory beyond the SMs: interconnect, L2 slices and DRAM channels, and the
// events between them.
#ifndef CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_
#define CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_

#include <cstdint>
#include <vector>

#include "sim/timing/event_wheel.h"
#include "sim/timing/memory/dram.h"
#include "sim/timing/memory/interconnect.h"
#include "sim/timing/memory/l2.h"
#include "sim/timing/memory/memory_request.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

class MemorySystem {
 public:
  explicit MemorySystem(const Config& config);

  // A request leaves its SM now; Advance() delivers the reply.
  void Send(const MemoryRequest& request, Cycle now);

  // Handles what is due at `now`. Calls deliver(reply) for each reply that
  // reaches its SM.
  template <class Deliver>
  void Advance(Cycle now, Deliver deliver) {
    events_.Advance(now, [&](const Event& event) {
      if (event.kind == Event::Kind::kAtSm) {
        deliver(event.request);
      } else {
        Handle(event, now);
      }
    });
  }
  // The next cycle in which something is due.
  Cycle next(Cycle now) const { return events_.next(now); }
  bool idle() const { return events_.size() == 0; }

  const MemoryCounters& counters() const { return counters_; }

  // Finds where a line lies. Neighbouring pieces of dram.interleave_bytes are
  // in different slices, in an order that changes from round to round.
  struct LineLocation {
    uint32_t slice = 0;
    uint64_t line = 0;  // in the slice's own addresses
  };
  LineLocation LocationOf(uint64_t line) const {
    const uint64_t slices = slices_.size();
    const uint64_t piece = line >> piece_bits_;
    const uint64_t round = piece / slices;
    // Adds up the low digits of the piece's number, so that strides of a power
    // of two use every slice.
    uint64_t turn = piece;
    uint64_t left = round;
    for (int digit = 0; digit < 5; ++digit, left /= slices) turn += left;
    return {static_cast<uint32_t>(turn % slices),
            round << piece_bits_ | (line & ((uint64_t{1} << piece_bits_) - 1))};
  }

 private:
  struct Event {
    enum class Kind : uint8_t {
      kAtSlice,     // a request
      kSliceAgain,  // the slice could not take all when it was last asked
      kDramAgain,
      kFilled,  // a demand's data
      kAtSm,    // a reply
    };
    Kind kind = Kind::kAtSlice;
    uint32_t index = 0;  // the index of the slice or channel
    MemoryRequest request;
    L2Demand demand;  // kAtSlice: where the line lies there
  };

  void Handle(const Event& event, Cycle now);
  void AdvanceSlice(uint32_t slice, Cycle now);
  void AdvanceChannel(uint32_t channel, Cycle now);
  void Reply(const MemoryRequest& request, uint32_t slice, Cycle now);
  void Demand(const L2Demand& demand, uint32_t slice);

  MemoryCounters counters_;
  const uint32_t piece_bits_;
  const uint32_t sector_bytes_;
  const Ticks l2_latency_;
  Interconnect interconnect_;
  EventWheel<Event> events_;
  std::vector<L2Slice> slices_;
  std::vector<DramChannel> channels_;
  std::vector<Cycle> slice_again_;  // when it asks again; kNever: no event
  std::vector<Cycle> channel_again_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_
