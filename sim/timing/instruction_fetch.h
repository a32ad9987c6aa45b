// Fetches from the i-cache into the warps' i-buffers: one warp per cycle, in
// turn, among those with an empty i-buffer.
#ifndef CARILLON_SIM_TIMING_INSTRUCTION_FETCH_H_
#define CARILLON_SIM_TIMING_INSTRUCTION_FETCH_H_

#include <cstdint>
#include <vector>

#include "sim/timing/growing_queue.h"
#include "sim/timing/memory/cache.h"
#include "sim/timing/memory/memory_system.h"
#include "sim/timing/statistics.h"
#include "sim/timing/warp_context.h"

namespace carillon::sim::timing {

class InstructionFetch {
 public:
  InstructionFetch(const Config& config, uint32_t sm, SmWarps* warps,
                   MemorySystem* memory, SmCounters* counters);

  // Delivers what was fetched `fetch.latency` cycles ago. Call it before issue.
  void Deliver(Cycle now);
  // Fetches for one warp. Call it after issue. Returns false if it did nothing,
  // and will do nothing until a warp or a line changes.
  bool Fetch(Cycle now);
  // Discards what it has fetched for the slot's warp.
  void Forget(uint32_t slot);
  // When Deliver() has something next.
  Cycle next() const;
  // Keeps the line for good. Returns false if the i-cache cannot.
  bool Reserve(uint64_t line) { return cache_.Reserve(line); }
  // A missing line has arrived.
  void Fill(const MemoryRequest& reply);

 private:
  struct Fetched {
    Cycle at = 0;
    uint32_t slot = 0;
    uint32_t generation = 0;
    Pc head = 0;
    uint8_t count = 0;
  };
  struct Miss {
    uint64_t line = 0;
    WarpMask waiting = 0;
    bool used = false;
  };

  const Config& config_;
  const bool events_first_;
  const uint32_t sm_;
  SmWarps* const warps_;
  MemorySystem* const memory_;
  SmCounters* const counters_;
  Cache cache_;
  std::vector<Miss> misses_;
  WarpMask blocked_ = 0;  // there was no room in misses_
  GrowingQueue<Fetched> fetched_;
  uint32_t last_ = 63;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_INSTRUCTION_FETCH_H_
