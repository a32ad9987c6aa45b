// All memory beyond the SMs: interconnect, L2 slices and DRAM channels, and the
// events between them.
//
//   Send() --> requests_ --> slices_ --> channels_
//   Advance()'s deliver <-- replies_ <--'  ^---'
//
// Every queue is bounded, and nobody asks in vain: what finds no place is called
// when there is one. interconnect.h has the reason why it always comes.
#ifndef CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_
#define CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_

#include <cstdint>
#include <vector>

#include "sim/timing/divisor.h"
#include "sim/timing/event_wheel.h"
#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/dram.h"
#include "sim/timing/memory/interconnect.h"
#include "sim/timing/memory/l2.h"
#include "sim/timing/memory/memory_request.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

class MemorySystem {
 public:
  explicit MemorySystem(const Config& config);

  // Whether the SM has room for a request, which it would send in cycle `at`,
  // now or later. If not, it gets a reply of kRoom: in that very cycle if it has
  // room by then, else in the one after that in which it has.
  bool CanSend(uint32_t sm, Cycle at) {
    if (requests_.HasRoom(sm)) return true;
    RoomWanted& wanted = room_wanted_[sm];
    wanted.since = std::min(wanted.since, at);
    wanted.at = at;
    return false;
  }
  // A request leaves its SM now; Advance() delivers the reply. Loads, stores and
  // atomics need CanSend(). Two kinds do not, because their own number is
  // bounded, and whoever sends them must not wait: fetches, by icache.mshrs, and
  // lines that the L1 puts out when another is filled, by l1.mshrs.
  void Send(const MemoryRequest& request, Cycle now);

  // Handles what is due at `now`. Calls deliver(reply) for each reply that
  // reaches its SM.
  template <class Deliver>
  void Advance(Cycle now, Deliver deliver) {
    events_.Advance(now, [&](const Event& event) {
      if (event.kind == Event::Kind::kAtSm) {
        deliver(event.request);
        if (event.request.kind == RequestKind::kRoom) return;
        Delivered(event.request.sm, now);
      } else {
        Handle(event, now);
      }
    });
    for (const uint16_t sm : room_now_) {
      deliver({.sm = sm, .kind = RequestKind::kRoom});
    }
    room_now_.clear();
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
    const uint64_t piece = line >> piece_bits_;
    const uint64_t round = slice_.Quotient(piece);
    // Adds up the low digits of the piece's number, so that strides of a power
    // of two use every slice.
    uint64_t turn = piece;
    uint64_t left = round;
    for (int digit = 0; digit < 5; ++digit) {
      turn += left;
      left = slice_.Quotient(left);
    }
    return {static_cast<uint32_t>(slice_.Remainder(turn)),
            round << piece_bits_ | (line & ((uint64_t{1} << piece_bits_) - 1))};
  }

 private:
  struct Event {
    enum class Kind : uint8_t {
      kAtSm,      // a reply
      kRequests,  // an SM's port is free for its next request
      kReplies,   // a slice's port is free for its next reply
      kSlice,     // a slice can go on
      kChannel,   // a channel can go on
      kFilled,    // the oldest of a channel's fills is there
    };
    Kind kind = Kind::kAtSm;
    uint32_t index = 0;  // the index of the SM, slice or channel
    MemoryRequest request;
  };
  struct Fill {
    uint32_t slice = 0;
    L2Demand read;
  };
  // An SM found no room in cycle `since`, and last in cycle `at`; kNever: it has
  // not, since it was told.
  struct RoomWanted {
    Cycle since = kNever;
    Cycle at = kNever;
  };
  // What a slice finds around it (L2Slice::Advance()).
  struct SlicePort;

  void Handle(const Event& event, Cycle now);
  void Delivered(uint32_t sm, Cycle now);
  void AdvanceRequests(uint32_t sm, Cycle now);
  void TellRoom(uint32_t sm, Cycle now);
  void AdvanceReplies(uint32_t slice, Cycle now);
  // The same, and the slice if it has waited for a place among its replies.
  void AdvanceRepliesAndSlice(uint32_t slice, Cycle now);
  void AdvanceSlice(uint32_t slice, Cycle now);
  void AdvanceChannel(uint32_t channel, Cycle now);
  // Moves what slices want of the channel into its queues.
  void Feed(uint32_t channel, Cycle now);
  void Reply(const MemoryRequest& request, uint32_t slice, Cycle now);
  // Calls the unit in that cycle, unless it is called before.
  void Call(Event::Kind kind, std::vector<Cycle>& again, uint32_t index,
            Cycle at);
  DramRequest ToDram(const L2Demand& demand, uint32_t slice) const;

  MemoryCounters counters_;
  const uint32_t piece_bits_;
  const Divisor slice_;    // of all
  const Divisor channel_;  // of all
  const uint32_t slices_per_channel_;
  const uint32_t sector_bytes_;
  const Ticks l2_latency_;
  Network requests_;  // from SMs to slices
  Network replies_;   // from slices to SMs
  EventWheel<Event> events_;
  std::vector<L2Slice> slices_;
  std::vector<DramChannel> channels_;
  std::vector<GrowingQueue<Fill>> fills_;  // under way, of each channel
  std::vector<uint32_t> next_slice_;       // whose turn it is, of each channel
  std::vector<RoomWanted> room_wanted_;    // of each SM
  std::vector<uint16_t> room_now_;         // SMs that have got it in this cycle
  // When each is called; kNever: it has no event.
  std::vector<Cycle> requests_again_;  // of each SM
  std::vector<Cycle> replies_again_;   // of each slice
  std::vector<Cycle> slice_again_;
  std::vector<Cycle> channel_again_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_MEMORY_SYSTEM_H_
