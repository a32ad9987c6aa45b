// A slice of the L2. It is write-back, stores write whole sectors without a
// fill, and atomics are executed here.
#ifndef CARILLON_SIM_TIMING_MEMORY_L2_H_
#define CARILLON_SIM_TIMING_MEMORY_L2_H_

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

  struct Waiting {
    MemoryRequest request;
    uint64_t line = 0;  // the slice's own address
    Sectors sectors = 0;
  };

  void Push(const MemoryRequest& request, uint64_t line) {
    queue_.push({request, line, request.sectors});
  }
  // Serves the requests that it can serve now. Calls reply(request) for each
  // that has its data, and demand(L2Demand) for the DRAM. Returns when to ask
  // again; kNever: when a request arrives or a line is filled.
  template <class Reply, class Demand>
  Cycle Advance(Cycle now, Reply reply, Demand demand) {
    while (!queue_.empty()) {
      if (free_ > TicksOf(now)) return CycleAt(free_);
      const Waiting& waiting = queue_.front();
      if (!Serve(waiting, reply, demand)) return kNever;
      const uint64_t lanes = waiting.request.kind == RequestKind::kAtomic
                                 ? waiting.request.lanes * atomic_interval_
                                 : 0;
      free_ = TicksOf(now) + interval_ + lanes;
      queue_.pop();
    }
    return kNever;
  }

  // The DRAM has delivered a line.
  template <class Reply, class Demand>
  void Fill(const L2Demand& read, Reply reply, Demand demand) {
    Insert(read.line, read.sectors, 0, demand);
    mshrs_.Fill(read.mshr, read.sectors, [&](const Waiting& waiting) {
      if (waiting.request.kind == RequestKind::kAtomic) {
        Insert(waiting.line, waiting.sectors, waiting.sectors, demand);
      }
      reply(waiting.request);
    });
  }

 private:
  template <class Demand>
  void Insert(uint64_t line, Sectors valid, Sectors dirty, Demand demand) {
    const Cache::Victim victim = cache_.Insert(line, valid, dirty);
    if (victim.dirty == 0) return;
    ++counters_->l2_write_backs;
    demand(
        L2Demand{.line = victim.line, .sectors = victim.dirty, .write = true});
  }

  // Returns false if the request must wait until a line is filled.
  template <class Reply, class Demand>
  bool Serve(const Waiting& waiting, Reply reply, Demand demand) {
    const MemoryRequest& request = waiting.request;
    if (request.kind == RequestKind::kStore) {
      ++counters_->l2_stores;
      Insert(waiting.line, request.sectors, request.sectors, demand);
      reply(request);
      return true;
    }
    const Sectors missing = request.sectors & ~cache_.Touch(waiting.line);
    if (missing == 0) {
      if (request.kind == RequestKind::kAtomic) {
        ++counters_->l2_atomics;
        Insert(waiting.line, request.sectors, request.sectors, demand);
      } else {
        ++counters_->l2_load_hits;
      }
      reply(request);
      return true;
    }
    uint32_t index = mshrs_.Find(waiting.line);
    const bool merges = index != mshrs_.kNone;
    if (merges ? !mshrs_.CanWait(index) : mshrs_.full()) {
      ++counters_->l2_blocked;
      return false;
    }
    if (!merges) index = mshrs_.Allocate(waiting.line);
    auto& entry = mshrs_.entry(index);
    // Wait only for the sectors that are not in the cache.
    Waiting rest = waiting;
    rest.sectors = missing;
    mshrs_.Wait(index, rest);
    if (request.kind == RequestKind::kAtomic) {
      ++counters_->l2_atomics;
    } else {
      ++(merges ? counters_->l2_load_merges : counters_->l2_load_misses);
    }
    const Sectors ask = missing & ~entry.asked;
    if (ask != 0) {
      entry.asked |= ask;
      demand(L2Demand{.line = waiting.line, .sectors = ask, .mshr = index});
    }
    return true;
  }

  MemoryCounters* const counters_;
  const Ticks interval_;
  const Ticks atomic_interval_;
  Cache cache_;
  MshrTable<Waiting> mshrs_;
  GrowingQueue<Waiting> queue_;
  Ticks free_ = 0;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_L2_H_
