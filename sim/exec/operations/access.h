// Finds where the lanes' addresses lie in the host's memory. The files with the
// operations' code include it (lanes.h), once for each instruction set.
#ifndef CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_
#define CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_

#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {

// Fills Core::access and finds where the lanes of the mask are (Core::At()).
// `bytes` is what each lane touches, 16 at most. Returns false after reporting
// a fault.
bool Resolve(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
             bool store, bool atomic);

}  // namespace carillon::sim::CARILLON_SIM_ISA

#endif  // CARILLON_SIM_EXEC_OPERATIONS_ACCESS_H_
