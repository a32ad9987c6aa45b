// Where the lanes' addresses lie in the host's memory. For the files of
// operations' code (lanes.h), once for each set of instructions.
#ifndef CARILLON_SIM_EXEC_ACCESS_H_
#define CARILLON_SIM_EXEC_ACCESS_H_

#include "sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {

// Fills Core::access and says where the lanes of the mask are (Core::At()).
// `bytes`: that each touches, 16 at most. False: a fault is reported.
bool Resolve(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
             bool store, bool atomic);

}  // namespace carillon::sim::CARILLON_SIM_ISA

#endif  // CARILLON_SIM_EXEC_ACCESS_H_
