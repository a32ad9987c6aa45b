#include "sim/timing/memory/memory_system.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace carillon::sim::timing {
namespace {

Network::Shape RequestShape(const Config& c) {
  const Ticks flit = TicksOfClock(c, c.clock.interconnect_mhz, 1);
  const Ticks latency =
      TicksOfClock(c, c.clock.interconnect_mhz, c.interconnect.latency);
  const Ticks l2_latency = TicksOfClock(c, c.clock.l2_mhz, c.l2.latency);
  const Ticks interval = TicksOfClock(c, c.clock.l2_mhz, c.l2_interval);
  return {
      .sources = c.sm.count,
      .destinations = c.l2_slices,
      .queue = c.interconnect.sm_queue,
      .credits = c.l2_queue + PacketsOnTheWay(latency + l2_latency, interval),
      .latency = latency,
      .flit = flit,
      .source_bytes = c.interconnect.request_bytes,
      .destination_bytes = c.interconnect.slice_bytes,
      .header_bytes = c.interconnect.header_bytes};
}

Network::Shape ReplyShape(const Config& c) {
  const Ticks flit = TicksOfClock(c, c.clock.interconnect_mhz, 1);
  const Ticks latency =
      TicksOfClock(c, c.clock.interconnect_mhz, c.interconnect.latency);
  const uint32_t line = c.interconnect.header_bytes + c.l2.line_bytes;
  const Ticks interval = (line + c.interconnect.reply_bytes - 1) /
                         c.interconnect.reply_bytes * flit;
  return {
      .sources = c.l2_slices,
      .destinations = c.sm.count,
      .queue = c.interconnect.slice_replies,
      .credits = c.interconnect.sm_replies + PacketsOnTheWay(latency, interval),
      .latency = latency,
      .flit = flit,
      .source_bytes = c.interconnect.slice_bytes,
      .destination_bytes = c.interconnect.reply_bytes,
      .header_bytes = c.interconnect.header_bytes};
}

}  // namespace

struct MemorySystem::SlicePort {
  bool CanReply() const { return memory.replies_.HasRoom(slice); }
  void Reply(const MemoryRequest& request) {
    memory.Reply(request, slice, now);
  }
  void Taken() {
    const uint32_t sm = memory.requests_.ReturnCredit(slice);
    if (sm != Network::kNone) memory.AdvanceRequests(sm, now);
  }

  MemorySystem& memory;
  const uint32_t slice;
  const Cycle now;
};

MemorySystem::MemorySystem(const Config& config)
    : piece_bits_(static_cast<uint32_t>(
          std::countr_zero(config.dram.interleave_bytes))),
      slice_(config.l2_slices),
      channel_(config.dram.channels),
      slices_per_channel_(config.l2_slices / config.dram.channels),
      sector_bytes_(config.l2.sector_bytes),
      l2_latency_(TicksOfClock(config, config.clock.l2_mhz, config.l2.latency)),
      requests_(RequestShape(config), &counters_.request_flits,
                &counters_.request_stalls),
      replies_(ReplyShape(config), &counters_.reply_flits,
               &counters_.reply_stalls),
      fills_(config.dram.channels),
      next_slice_(config.dram.channels),
      room_wanted_(config.sm.count),
      requests_again_(config.sm.count, kNever),
      replies_again_(config.l2_slices, kNever),
      slice_again_(config.l2_slices, kNever),
      channel_again_(config.dram.channels, kNever) {
  slices_.reserve(config.l2_slices);
  for (uint32_t i = 0; i < config.l2_slices; ++i) {
    slices_.emplace_back(config, &counters_);
  }
  channels_.reserve(config.dram.channels);
  for (uint32_t i = 0; i < config.dram.channels; ++i) {
    channels_.emplace_back(config, &counters_);
    next_slice_[i] = i;
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
  requests_.Push(request.sm, {request, location.line, location.slice, bytes});
  if (requests_again_[request.sm] == kNever) AdvanceRequests(request.sm, now);
}

void MemorySystem::Call(Event::Kind kind, std::vector<Cycle>& again,
                        uint32_t index, Cycle at) {
  if (at >= again[index]) return;
  again[index] = at;
  events_.Schedule(at, {.kind = kind, .index = index});
}

void MemorySystem::Handle(const Event& event, Cycle now) {
  const uint32_t index = event.index;
  // A unit that was called earlier than first planned has an event too many.
  const auto due = [&](std::vector<Cycle>& again) {
    if (again[index] != now) return false;
    again[index] = kNever;
    return true;
  };
  switch (event.kind) {
    case Event::Kind::kRequests:
      if (due(requests_again_)) AdvanceRequests(index, now);
      return;
    case Event::Kind::kReplies:
      if (due(replies_again_)) AdvanceRepliesAndSlice(index, now);
      return;
    case Event::Kind::kSlice:
      if (due(slice_again_)) AdvanceSlice(index, now);
      return;
    case Event::Kind::kChannel:
      if (due(channel_again_)) AdvanceChannel(index, now);
      return;
    case Event::Kind::kFilled: {
      const Fill fill = fills_[index].front();
      fills_[index].pop();
      slices_[fill.slice].Fill(fill.read, now);
      AdvanceSlice(fill.slice, now);
      return;
    }
    case Event::Kind::kAtSm:
      return;
  }
}

void MemorySystem::Delivered(uint32_t sm, Cycle now) {
  const uint32_t slice = replies_.ReturnCredit(sm);
  if (slice != Network::kNone) AdvanceRepliesAndSlice(slice, now);
}

void MemorySystem::AdvanceRequests(uint32_t sm, Cycle now) {
  const Cycle again =
      requests_.Advance(sm, now, [&](const Packet& packet, Ticks at) {
        const Ticks ready = std::max(at + l2_latency_, TicksOf(now + 1));
        // The L2's pipeline comes before its tags, so that the tags decide what
        // is sent.
        slices_[packet.destination].Push(packet.request, packet.line, ready);
        if (slices_[packet.destination].blocked() ==
            L2Slice::Blocked::kNothing) {
          Call(Event::Kind::kSlice, slice_again_, packet.destination,
               CycleAt(ready));
        }
      });
  if (again != kNever) {
    Call(Event::Kind::kRequests, requests_again_, sm, again);
  }
  if (room_wanted_[sm].since != kNever && requests_.HasRoom(sm)) {
    TellRoom(sm, now);
  }
}

void MemorySystem::TellRoom(uint32_t sm, Cycle now) {
  const RoomWanted wanted = std::exchange(room_wanted_[sm], {});
  if (wanted.at == now) room_now_.push_back(static_cast<uint16_t>(sm));
  if (wanted.since >= now) return;
  events_.Schedule(now + 1, {.kind = Event::Kind::kAtSm,
                             .request = {.sm = static_cast<uint16_t>(sm),
                                         .kind = RequestKind::kRoom}});
}

void MemorySystem::AdvanceReplies(uint32_t slice, Cycle now) {
  const Cycle again =
      replies_.Advance(slice, now, [&](const Packet& packet, Ticks at) {
        events_.Schedule(
            std::max(CycleAt(at), now + 1),
            {.kind = Event::Kind::kAtSm, .request = packet.request});
      });
  if (again != kNever) {
    Call(Event::Kind::kReplies, replies_again_, slice, again);
  }
}

void MemorySystem::AdvanceRepliesAndSlice(uint32_t slice, Cycle now) {
  AdvanceReplies(slice, now);
  if (slices_[slice].blocked() == L2Slice::Blocked::kReply &&
      replies_.HasRoom(slice)) {
    AdvanceSlice(slice, now);
  }
}

void MemorySystem::AdvanceSlice(uint32_t slice, Cycle now) {
  SlicePort port{*this, slice, now};
  const Cycle again = slices_[slice].Advance(now, port);
  if (again != kNever) Call(Event::Kind::kSlice, slice_again_, slice, again);
  if (slices_[slice].demands().empty()) return;
  const auto channel = static_cast<uint32_t>(channel_.Remainder(slice));
  Feed(channel, now);
  if (channel_again_[channel] == kNever) AdvanceChannel(channel, now);
}

void MemorySystem::AdvanceChannel(uint32_t channel, Cycle now) {
  const Cycle again = channels_[channel].Advance(
      now,
      [&](const DramRequest& request, Cycle at) {
        if (request.demand.write) return;
        fills_[channel].push({request.slice, request.demand});
        events_.Schedule(std::max(at, now + 1),
                         {.kind = Event::Kind::kFilled, .index = channel});
      },
      [&] { Feed(channel, now); });
  if (again == kNever) return;
  Call(Event::Kind::kChannel, channel_again_, channel,
       std::max(again, now + 1));
}

void MemorySystem::Feed(uint32_t channel, Cycle now) {
  const auto slices = static_cast<uint32_t>(slices_.size());
  const auto channels = static_cast<uint32_t>(channels_.size());
  DramChannel& to = channels_[channel];
  // One of each slice in turn, until none has one that fits.
  uint32_t without = 0;
  for (uint32_t& slice = next_slice_[channel]; without < slices_per_channel_;
       slice = slice + channels < slices ? slice + channels : channel) {
    GrowingQueue<L2Demand>& demands = slices_[slice].demands();
    if (demands.empty() || !to.HasRoom(demands.front().write)) {
      ++without;
      continue;
    }
    without = 0;
    to.Push(ToDram(demands.front(), slice));
    demands.pop();
    if (slices_[slice].blocked() == L2Slice::Blocked::kDram) {
      Call(Event::Kind::kSlice, slice_again_, slice, now + 1);
    }
  }
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
  replies_.Push(slice, {request, 0, request.sm, bytes});
  if (replies_again_[slice] == kNever) AdvanceReplies(slice, now);
}

DramRequest MemorySystem::ToDram(const L2Demand& demand, uint32_t slice) const {
  // The slices of a channel take turns in its rows as well.
  const uint64_t piece = demand.line >> piece_bits_;
  const uint64_t within = demand.line & ((uint64_t{1} << piece_bits_) - 1);
  const uint64_t address =
      (piece * slices_per_channel_ + channel_.Quotient(slice)) << piece_bits_ |
      within;
  const auto bytes =
      static_cast<uint32_t>(std::popcount(demand.sectors)) * sector_bytes_;
  return {address, bytes, slice, demand};
}

}  // namespace carillon::sim::timing
