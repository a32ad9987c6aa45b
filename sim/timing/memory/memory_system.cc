#include "sim/timing/memory/memory_system.h"

#include <algorithm>

namespace carillon::sim::timing {

MemorySystem::MemorySystem(const Config& config)
    : piece_bits_(static_cast<uint32_t>(
          std::countr_zero(config.dram.interleave_bytes))),
      sector_bytes_(config.l2.sector_bytes),
      l2_latency_(TicksOfClock(config, config.clock.l2_mhz, config.l2.latency)),
      interconnect_(config, &counters_),
      slice_again_(config.l2_slices, kNever),
      channel_again_(config.dram.channels, kNever) {
  slices_.reserve(config.l2_slices);
  for (uint32_t i = 0; i < config.l2_slices; ++i) {
    slices_.emplace_back(config, &counters_);
  }
  channels_.reserve(config.dram.channels);
  for (uint32_t i = 0; i < config.dram.channels; ++i) {
    channels_.emplace_back(config, &counters_);
  }
}

void MemorySystem::Send(const MemoryRequest& request, Cycle now) {
  const LineLocation location = LocationOf(request.line);
  uint32_t bytes = 0;
  if (request.kind == RequestKind::kStore) {
    bytes =
        static_cast<uint32_t>(std::popcount(request.sectors)) * sector_bytes_;
  } else if (request.kind == RequestKind::kAtomic) {
    bytes = request.lanes * 4u;
  }
  // The L2's pipeline comes before its tags, so that the tags decide what is
  // sent.
  const Ticks at =
      interconnect_.Request(TicksOf(now), request.sm, location.slice, bytes) +
      l2_latency_;
  events_.Schedule(std::max(CycleAt(at), now + 1),
                   {.kind = Event::Kind::kAtSlice,
                    .index = location.slice,
                    .request = request,
                    .demand = {.line = location.line}});
}

void MemorySystem::Handle(const Event& event, Cycle now) {
  switch (event.kind) {
    case Event::Kind::kAtSlice:
      slices_[event.index].Push(event.request, event.demand.line);
      if (slice_again_[event.index] == kNever) AdvanceSlice(event.index, now);
      return;
    case Event::Kind::kSliceAgain:
      slice_again_[event.index] = kNever;
      AdvanceSlice(event.index, now);
      return;
    case Event::Kind::kDramAgain:
      channel_again_[event.index] = kNever;
      AdvanceChannel(event.index, now);
      return;
    case Event::Kind::kFilled: {
      const uint32_t slice = event.index;
      slices_[slice].Fill(
          event.demand,
          [&](const MemoryRequest& request) { Reply(request, slice, now); },
          [&](const L2Demand& demand) { Demand(demand, slice); });
      if (slice_again_[slice] == kNever) AdvanceSlice(slice, now);
      return;
    }
    case Event::Kind::kAtSm:
      return;
  }
}

void MemorySystem::AdvanceSlice(uint32_t slice, Cycle now) {
  const Cycle again = slices_[slice].Advance(
      now, [&](const MemoryRequest& request) { Reply(request, slice, now); },
      [&](const L2Demand& demand) { Demand(demand, slice); });
  if (again != kNever) {
    slice_again_[slice] = again;
    events_.Schedule(again, {.kind = Event::Kind::kSliceAgain, .index = slice});
  }
  const auto channel = static_cast<uint32_t>(slice % channels_.size());
  if (channel_again_[channel] == kNever) AdvanceChannel(channel, now);
}

void MemorySystem::AdvanceChannel(uint32_t channel, Cycle now) {
  const Cycle again = channels_[channel].Advance(
      now, [&](const DramRequest& request, Cycle at) {
        if (request.demand.write) return;
        events_.Schedule(std::max(at, now + 1), {.kind = Event::Kind::kFilled,
                                                 .index = request.slice,
                                                 .demand = request.demand});
      });
  if (again == kNever) return;
  channel_again_[channel] = std::max(again, now + 1);
  events_.Schedule(channel_again_[channel],
                   {.kind = Event::Kind::kDramAgain, .index = channel});
}

void MemorySystem::Reply(const MemoryRequest& request, uint32_t slice,
                         Cycle now) {
  uint32_t bytes = 0;
  if (request.kind == RequestKind::kAtomic) {
    bytes = request.lanes * 4u;
  } else if (request.kind != RequestKind::kStore) {
    bytes =
        static_cast<uint32_t>(std::popcount(request.sectors)) * sector_bytes_;
  }
  const Ticks at = interconnect_.Reply(TicksOf(now), slice, request.sm, bytes);
  events_.Schedule(std::max(CycleAt(at), now + 1),
                   {.kind = Event::Kind::kAtSm, .request = request});
}

void MemorySystem::Demand(const L2Demand& demand, uint32_t slice) {
  const auto channels = static_cast<uint32_t>(channels_.size());
  const auto slices = static_cast<uint32_t>(slices_.size() / channels);
  // The slices of a channel take turns in its rows as well.
  const uint64_t piece = demand.line >> piece_bits_;
  const uint64_t within = demand.line & ((uint64_t{1} << piece_bits_) - 1);
  const uint64_t address =
      (piece * slices + slice / channels) << piece_bits_ | within;
  const auto bytes =
      static_cast<uint32_t>(std::popcount(demand.sectors)) * sector_bytes_;
  channels_[slice % channels].Push({address, bytes, slice, demand});
}

}  // namespace carillon::sim::timing
