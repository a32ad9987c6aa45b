// The messages between SMs, the L2 and DRAM.
#ifndef CARILLON_SIM_TIMING_MEMORY_MEMORY_REQUEST_H_
#define CARILLON_SIM_TIMING_MEMORY_MEMORY_REQUEST_H_

#include <cstdint>

#include "sim/timing/memory/cache.h"

namespace carillon::sim::timing {

enum class RequestKind : uint8_t {
  kLoad,
  kFetch,
  kStore,
  kAtomic,
  kRoom,  // no request: MemorySystem::CanSend() is true for this SM again
};

// A request, which also travels back as its own reply.
struct MemoryRequest {
  uint64_t line = 0;  // address
  uint32_t tag = 0;   // the sender's
  uint16_t sm = 0;
  Sectors sectors = 0;
  uint8_t lanes = 0;  // lanes of an atomic
  RequestKind kind = RequestKind::kLoad;
};

// What a slice of the L2 asks of the DRAM behind it.
struct L2Demand {
  uint64_t line = 0;  // the slice's own address
  Sectors sectors = 0;
  uint32_t mshr = 0;  // for a read: the entry that waits for it
  bool write = false;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_MEMORY_MEMORY_REQUEST_H_
