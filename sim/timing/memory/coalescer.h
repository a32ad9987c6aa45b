// Turns the addresses of a warp's lanes into what the memory system sees.
#ifndef CARILLON_SIM_TIMING_MEMORY_COALESCER_H_
#define CARILLON_SIM_TIMING_MEMORY_COALESCER_H_

#include <array>
#include <cstdint>

#include "sim/exec/warp.h"
#include "sim/timing/memory/cache.h"

namespace carillon::sim::timing {

struct Transaction {
  uint64_t line = 0;
  Sectors sectors = 0;
  uint8_t lanes = 0;
};
// The worst case: each lane accesses four words of local memory, each in a line
// of its own.
inline constexpr size_t kMaxTransactions = 4 * kLanes;
using Transactions = std::array<Transaction, kMaxTransactions>;

// Finds the lines and sectors, in the order of the first lane that touches
// each. Returns how many lines there are.
uint32_t Coalesce(const Access& access, uint32_t line_bytes,
                  uint32_t sector_bytes, Transactions& transactions);

// The same for local memory, where the same word of all lanes lies together:
// lane i's word w is at base + (32 w + i) * 4.
uint32_t CoalesceLocal(const Access& access, uint64_t base, uint32_t line_bytes,
                       uint32_t sector_bytes, Transactions& transactions);

// How many passes over banks of 4 bytes the access takes. A bank gives one word
// per pass, to any number of lanes. Wide accesses go by halves or quarters of
// the warp, and atomics on one word one by one.
uint32_t SharedPasses(const Access& access, uint32_t bank_count);

// How many different words there are. Constant memory delivers one per pass.
uint32_t ConstantPasses(const Access& access);

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_COALESCER_H_
