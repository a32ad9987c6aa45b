// A slice of the L2. It is write-back, stores write whole sectors without a
// fill, and atomics are executed here.
//
// Requests are served in order, one for each turn of the tags. The first one
// waits, and all behind it, if there is no place for its reply, for its line
// among the MSHRs, or in the queue to DRAM. What DRAM delivers is taken at
// once, so that DRAM never waits for the slice. Two queues may therefore be
// longer than requests alone would make them:
//  - that of answers to the loads of a line that has come: each MSHR has
//    `l2.merges` of them at most, and nothing is served before they are sent;
//  - that to DRAM, when the line puts out one that was written to: at most one
//    more for each MSHR, since a full queue lets no other miss in.
#ifndef CARILLON_SIM_TIMING_MEMORY_L2_H_
#define CARILLON_SIM_TIMING_MEMORY_L2_H_

#include <algorithm>
#include <cstdint>

#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/cache.h"
#include "sim/timing/memory/memory_request.h"
#include "sim/timing/memory/mshr.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::timing {

class L2Slice {
 public:
  L2Slice(const Config& config, MemoryCounters* counters);

  // What holds up the first request.
  enum class Blocked : uint8_t { kNothing, kReply, kMshr, kDram };
  Blocked blocked() const { return blocked_; }

  struct Waiting {
    MemoryRequest request;
    uint64_t line = 0;  // the slice's own address
    Sectors sectors = 0;
    Ticks ready = 0;  // when it has come to the tags
  };

  // `ready` must not be earlier than that of the request before.
  void Push(const MemoryRequest& request, uint64_t line, Ticks ready) {
    queue_.push({request, line, request.sectors, ready});
  }
  // Serves what it can serve now. Of `port` it calls
  //   bool CanReply(), void Reply(request): a place for a reply, and its use;
  //   void Taken(): a request has left the queue.
  // Returns when to ask again; kNever: when a request arrives, a line is
  // filled, or there is a place where blocked() says that there was none.
  template <class Port>
  Cycle Advance(Cycle now, Port& port);

  // The DRAM has delivered a line. Advance() the slice afterwards.
  void Fill(const L2Demand& read, Cycle now) {
    try_again_ |= any_fill_ || read.line == held_line_;
    Insert(read.line, read.sectors, 0);
    data_free_ = std::max(data_free_, TicksOf(now)) + line_time_;
    mshrs_.Fill(read.mshr, read.sectors, [&](const Waiting& waiting) {
      if (waiting.request.kind == RequestKind::kAtomic) {
        Insert(waiting.line, waiting.sectors, waiting.sectors);
      }
      answers_.push(waiting.request);
    });
  }

  // What the slice wants of DRAM, in order.
  GrowingQueue<L2Demand>& demands() { return demands_; }

 private:
  enum class Result : uint8_t { kServed, kNotNow, kBlocked };

  bool Free(Ticks at, Cycle now) const { return at < TicksOf(now + 1); }
  bool HasRoomForDemand() const { return demands_.size() < demands_limit_; }
  Result BlockForDram(const Waiting& waiting, bool any_fill) {
    held_line_ = waiting.line;
    any_fill_ = any_fill;
    try_again_ = false;
    return Block(Blocked::kDram);
  }
  Result Block(Blocked why) {
    if (blocked_ != why) {
      ++(why == Blocked::kMshr    ? counters_->l2_blocked
         : why == Blocked::kReply ? counters_->l2_reply_blocked
                                  : counters_->l2_dram_blocked);
    }
    blocked_ = why;
    return Result::kBlocked;
  }
  void UseData(Ticks time, Cycle now) {
    data_free_ = std::max(data_free_, TicksOf(now)) + time;
  }
  void Insert(uint64_t line, Sectors valid, Sectors dirty) {
    const Cache::Victim victim = cache_.Insert(line, valid, dirty);
    if (victim.dirty == 0) return;
    ++counters_->l2_write_backs;
    demands_.push(
        {.line = victim.line, .sectors = victim.dirty, .write = true});
  }
  template <class Port>
  Result Serve(const Waiting& waiting, Cycle now, Port& port);
  // A hit of `sectors`, or a store.
  template <class Port>
  Result ServeHere(const Waiting& waiting, bool store, Cycle now, Port& port);
  Result ServeMiss(const Waiting& waiting, Sectors missing);

  MemoryCounters* const counters_;
  const Ticks interval_;
  const Ticks atomic_interval_;
  const Ticks sector_time_;  // of the data port
  const Ticks line_time_;
  const size_t demands_limit_;
  Cache cache_;
  MshrTable<Waiting> mshrs_;
  GrowingQueue<Waiting> queue_;
  GrowingQueue<MemoryRequest> answers_;  // their lines have come
  GrowingQueue<L2Demand> demands_;
  Blocked blocked_ = Blocked::kNothing;
  // The line of the request that found no place in the queue to DRAM. Until
  // there is one, only this line's coming can change what a try finds. It is
  // another with any_fill_: a store waits for the data port, and a line that is
  // here in part counts as used.
  uint64_t held_line_ = 0;
  bool any_fill_ = false;
  bool try_again_ = false;
  Ticks tags_free_ = 0;
  Ticks data_free_ = 0;
};

template <class Port>
Cycle L2Slice::Advance(Cycle now, Port& port) {
  const bool waits_for_dram = blocked_ == Blocked::kDram;
  while (!answers_.empty()) {
    if (!port.CanReply()) {
      Block(Blocked::kReply);
      return kNever;
    }
    blocked_ = Blocked::kNothing;
    port.Reply(answers_.front());
    answers_.pop();
  }
  if (waits_for_dram && !HasRoomForDemand() && !try_again_) {
    Block(Blocked::kDram);
    return kNever;
  }
  while (!queue_.empty()) {
    const Waiting& first = queue_.front();
    if (first.ready > TicksOf(now)) return CycleAt(first.ready);
    if (!Free(tags_free_, now)) return tags_free_ / kTicksPerCycle;
    switch (Serve(first, now, port)) {
      case Result::kNotNow:
        blocked_ = Blocked::kNothing;
        return data_free_ / kTicksPerCycle;
      case Result::kBlocked:
        return kNever;
      case Result::kServed:
        break;
    }
    blocked_ = Blocked::kNothing;
    const uint64_t lanes =
        first.request.kind == RequestKind::kAtomic ? first.request.lanes : 0;
    tags_free_ = std::max(tags_free_, TicksOf(now)) + interval_ +
                 lanes * atomic_interval_;
    queue_.pop();
    port.Taken();
  }
  return kNever;
}

template <class Port>
L2Slice::Result L2Slice::Serve(const Waiting& waiting, Cycle now, Port& port) {
  const MemoryRequest& request = waiting.request;
  if (request.kind == RequestKind::kStore) {
    return ServeHere(waiting, true, now, port);
  }
  const Sectors missing = request.sectors & ~cache_.Touch(waiting.line);
  if (missing == 0) return ServeHere(waiting, false, now, port);
  return ServeMiss(waiting, missing);
}

template <class Port>
L2Slice::Result L2Slice::ServeHere(const Waiting& waiting, bool store,
                                   Cycle now, Port& port) {
  const MemoryRequest& request = waiting.request;
  if (!Free(data_free_, now)) return Result::kNotNow;
  if (!port.CanReply()) return Block(Blocked::kReply);
  // A store to a line that is not here may put out another.
  if (store && !HasRoomForDemand() && !cache_.Holds(waiting.line)) {
    return BlockForDram(waiting, /*any_fill=*/true);
  }
  UseData(static_cast<Ticks>(std::popcount(request.sectors)) * sector_time_,
          now);
  if (store) {
    ++counters_->l2_stores;
    Insert(waiting.line, request.sectors, request.sectors);
  } else if (request.kind == RequestKind::kAtomic) {
    ++counters_->l2_atomics;
    Insert(waiting.line, request.sectors, request.sectors);
  } else {
    ++counters_->l2_load_hits;
  }
  port.Reply(request);
  return Result::kServed;
}

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_L2_H_
