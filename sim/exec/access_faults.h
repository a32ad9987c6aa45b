// Reports what is wrong with a memory operation's addresses (Core::access) as a
// fault of the first lane that is wrong. All functions return false.
#ifndef CARILLON_SIM_EXEC_ACCESS_FAULTS_H_
#define CARILLON_SIM_EXEC_ACCESS_FAULTS_H_

#include <cstdint>
#include <string_view>

#include "sim/exec/warp.h"

namespace carillon::sim {

bool Misaligned(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes);
bool OutOfRange(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                std::string_view space, uint64_t size);
// Reports an address that is in no segment, or in a read-only one.
bool GlobalFault(const Op& op, Warp& warp, uint32_t lane, uint32_t bytes,
                 const Segment* segment);
bool StoreToParameters(const Op& op, Warp& warp, LaneMask mask);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_ACCESS_FAULTS_H_
