#include "sim/timing/memory/l2.h"

namespace carillon::sim::timing {

L2Slice::L2Slice(const Config& config, MemoryCounters* counters)
    : counters_(counters),
      interval_(TicksOfClock(config, config.clock.l2_mhz, config.l2_interval)),
      atomic_interval_(
          TicksOfClock(config, config.clock.l2_mhz, config.l2_atomic_interval)),
      cache_(config.l2, config.l2.bytes / config.l2_slices),
      mshrs_(config.l2.mshrs / config.l2_slices, config.l2.merges) {}

}  // namespace carillon::sim::timing
