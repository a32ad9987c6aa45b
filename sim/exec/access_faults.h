// What is rare about a memory operation's addresses (Core::access). What is
// wrong is reported as a fault of the first lane that is wrong, and the function
// returns false.
#ifndef CARILLON_SIM_EXEC_ACCESS_FAULTS_H_
#define CARILLON_SIM_EXEC_ACCESS_FAULTS_H_

#include <cstdint>
#include <string_view>

#include "sim/exec/warp.h"

namespace carillon::sim {

bool Misaligned(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes);
bool OutOfRange(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                std::string_view space, uint64_t size);
// Finds where the lanes of the mask are, as Resolve() does, if some of them are
// in no segment: they may be in the heap.
bool ResolveOutside(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                    bool store);
// Reports an address that is nowhere, or in a read-only segment.
bool GlobalFault(const Op& op, Warp& warp, uint32_t lane, uint32_t bytes,
                 const Segment* segment);
bool StoreToParameters(const Op& op, Warp& warp, LaneMask mask);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_ACCESS_FAULTS_H_
