// The addresses of a warp's lanes, as the memory system sees them.
#ifndef CARILLON_SIM_TIMING_MEMORY_COALESCER_H_
#define CARILLON_SIM_TIMING_MEMORY_COALESCER_H_

#include <array>
#include <cstdint>

#include "sim/exec/warp.h"
#include "sim/timing/memory/cache.h"

namespace carillon::sim::timing {

// A line, and which of its sectors are wanted.
struct Transaction {
  uint64_t line = 0;
  Sectors sectors = 0;
  uint8_t lanes = 0;
};
// Four words a lane of local memory, each in a line of its own.
inline constexpr size_t kMaxTransactions = 4 * kLanes;
using Transactions = std::array<Transaction, kMaxTransactions>;

// Lines and sectors, in the order of the first lane that touches each. Returns
// how many.
uint32_t Coalesce(const Access& access, uint32_t line_bytes,
                  uint32_t sector_bytes, Transactions& transactions);

// The same for local memory, where a word of all lanes lies together: lane i of
// word w is at base + (32 w + i) * 4.
uint32_t CoalesceLocal(const Access& access, uint64_t base, uint32_t line_bytes,
                       uint32_t sector_bytes, Transactions& transactions);

// Passes over banks of 4 bytes: a bank gives one word a pass, to any number of
// lanes. Wide accesses go by halves or quarters of the warp. Atomics to one
// word go one by one.
uint32_t SharedPasses(const Access& access, uint32_t banks);

// Different words, of which constant memory delivers one a pass.
uint32_t ConstantPasses(const Access& access);

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_COALESCER_H_
