#include "sim/timing/memory/l2.h"

namespace carillon::sim::timing {

L2Slice::L2Slice(const Config& config, MemoryCounters* counters)
    : counters_(counters),
      interval_(TicksOfClock(config, config.clock.l2_mhz, config.l2_interval)),
      atomic_interval_(
          TicksOfClock(config, config.clock.l2_mhz, config.l2_atomic_interval)),
      sector_time_(
          TicksOfClock(config, config.clock.l2_mhz, config.l2.sector_bytes) /
          config.l2_data_bytes),
      line_time_(
          TicksOfClock(config, config.clock.l2_mhz, config.l2.line_bytes) /
          config.l2_data_bytes),
      demands_limit_(config.l2_dram_queue),
      cache_(config.l2, config.l2.bytes / config.l2_slices),
      mshrs_(config.l2.mshrs / config.l2_slices, config.l2.merges) {}

L2Slice::Result L2Slice::ServeMiss(const Waiting& waiting, Sectors missing) {
  uint32_t index = mshrs_.Find(waiting.line);
  const bool merges = index != mshrs_.kNone;
  if (merges ? !mshrs_.CanWait(index) : mshrs_.full()) {
    return Block(Blocked::kMshr);
  }
  const Sectors ask = merges ? missing & ~mshrs_.entry(index).asked : missing;
  if (ask != 0 && !HasRoomForDemand()) {
    return BlockForDram(waiting,
                        /*any_fill=*/missing != waiting.request.sectors);
  }
  if (!merges) index = mshrs_.Allocate(waiting.line);
  // Wait only for the sectors that are not in the cache.
  Waiting rest = waiting;
  rest.sectors = missing;
  mshrs_.Wait(index, rest);
  if (waiting.request.kind == RequestKind::kAtomic) {
    ++counters_->l2_atomics;
  } else {
    ++(merges ? counters_->l2_load_merges : counters_->l2_load_misses);
  }
  if (ask == 0) return Result::kServed;
  mshrs_.entry(index).asked |= ask;
  demands_.push({.line = waiting.line, .sectors = ask, .mshr = index});
  return Result::kServed;
}

}  // namespace carillon::sim::timing
