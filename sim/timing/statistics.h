// The counters of a run. Every counter is a plain number, and the same input
// gives the same text, byte for byte.
#ifndef CARILLON_SIM_TIMING_STATISTICS_H_
#define CARILLON_SIM_TIMING_STATISTICS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/timing/config.h"

namespace carillon::sim::timing {

// Why a scheduler with warps issued nothing, by the names of EDGE's Fig. 11b.
// The reasons do not exclude each other: each that held back one of its warps
// in that cycle counts once.
enum class Stall : uint8_t {
  kPipeline,          // the unit is taken
  kScoreboard,        // a register that arithmetic has not written yet
  kLoad,              // a register that memory has not delivered yet
  kInstructionCache,  // a line of the i-cache is on its way
  kFetch,             // the i-buffer is empty, but no line is missing
  kBarrier,
  kMemoryBarrier,
  kSleep,  // nanosleep
};
inline constexpr size_t kStalls = 8;

// What keeps a victim's pipeline from being empty while an event waits for it,
// by the same names. They do not exclude each other either.
enum class FlushWait : uint8_t {
  kPipeline,    // an operation is issued and not done, or decoded
  kScoreboard,  // a register waits for its value
  kLoad,        // from memory
  kInstructionCache,
  kBarrier,
  kMemoryBarrier,
};
inline constexpr size_t kFlushWaits = 6;

struct SmCounters {
  uint64_t busy_cycles = 0;  // with a warp
  uint64_t warp_cycles = 0;  // the sum of warps over cycles
  uint64_t instructions = 0;
  uint64_t thread_instructions = 0;
  uint64_t blocks = 0;
  uint64_t flushes = 0;  // i-buffers emptied by a branch
  // Of schedulers:
  uint64_t issue_cycles = 0;
  uint64_t stall_cycles = 0;
  uint64_t idle_cycles = 0;  // no warps, in a busy cycle of the SM
  std::array<uint64_t, kStalls> stalls{};
  // Operations by unit.
  uint64_t sp = 0;
  uint64_t dp = 0;
  uint64_t sfu = 0;
  uint64_t tensor = 0;
  uint64_t memory = 0;
  uint64_t control = 0;

  uint64_t icache_hits = 0;
  uint64_t icache_misses = 0;  // includes those for a line on its way
  uint64_t icache_fills = 0;

  uint64_t shared_operations = 0;
  uint64_t shared_passes = 0;
  uint64_t constant_operations = 0;
  uint64_t constant_passes = 0;
  uint64_t global_operations = 0;  // global and local ones
  uint64_t transactions = 0;       // lines that these touched
  uint64_t l1_load_hits = 0;
  uint64_t l1_load_misses = 0;
  uint64_t l1_load_merges = 0;  // misses of a line that was on its way already
  uint64_t l1_loads_past = 0;   // loads that bypass the L1
  uint64_t l1_stores = 0;
  uint64_t l1_write_backs = 0;
  uint64_t l1_atomics = 0;
  // The cycles in which the LSU's first operation could not go on.
  uint64_t mshr_full_cycles = 0;
  uint64_t merge_full_cycles = 0;
  uint64_t stores_full_cycles = 0;
  uint64_t network_full_cycles = 0;  // no room in the interconnect's queue

  // EDGE's events, as blocks by how they got their places:
  uint64_t events_tb_scheduler = 0;
  uint64_t events_free = 0;
  uint64_t events_reserved = 0;
  uint64_t events_preempting = 0;
  uint64_t preemptions = 0;  // victims that gave up their places
  uint64_t reselections = 0;
  // Victims that left while waiting at a barrier.
  uint64_t barriers_skipped = 0;
  uint64_t loads_dropped = 0;
  uint64_t loads_replayed = 0;
  uint64_t registers_saved = 0;  // registers of a warp
  uint64_t registers_restored = 0;
  uint64_t flush_cycles = 0;  // an event waits for its victims' pipelines
  std::array<uint64_t, kFlushWaits> flush_waits{};
  // Those of busy_cycles in which a warp of 8 registers would have found a
  // context.
  uint64_t free_context_cycles = 0;
  uint64_t register_cycles = 0;  // the sum of registers in use over these
};

struct MemoryCounters {
  uint64_t request_flits = 0;
  uint64_t reply_flits = 0;
  // Packets at the head of their queue that found no place at their destination.
  uint64_t request_stalls = 0;
  uint64_t reply_stalls = 0;
  uint64_t l2_load_hits = 0;
  uint64_t l2_load_misses = 0;
  uint64_t l2_load_merges = 0;
  uint64_t l2_stores = 0;
  uint64_t l2_atomics = 0;
  uint64_t l2_write_backs = 0;
  // Times that a slice had to wait for an MSHR, a place for a reply, a place in
  // the queue to DRAM.
  uint64_t l2_blocked = 0;
  uint64_t l2_reply_blocked = 0;
  uint64_t l2_dram_blocked = 0;
  uint64_t dram_reads = 0;
  uint64_t dram_writes = 0;
  uint64_t dram_bytes = 0;
  uint64_t dram_row_hits = 0;
  uint64_t dram_row_misses = 0;
  uint64_t dram_turns = 0;  // from reads to writes, and back
  uint64_t dram_refreshes = 0;
};

struct Statistics {
  Cycle cycles = 0;
  std::vector<SmCounters> sms;
  MemoryCounters memory;
  uint64_t grids = 0;  // grids that have ended
};

// The sum of all SMs.
SmCounters Total(const Statistics& statistics);
// Totals, then each SM.
std::string ToJson(const Statistics& statistics);

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_STATISTICS_H_
