// The code of operations, found by what they do.
//
// It is compiled twice, for any x86-64 and for x86-64-v3 (AVX2 and FMA), and
// the better version that this machine can run is taken: the loop over a warp's
// 32 lanes becomes vector instructions.
#ifndef CARILLON_SIM_EXEC_OPERATIONS_HANDLERS_H_
#define CARILLON_SIM_EXEC_OPERATIONS_HANDLERS_H_

#include "sim/exec/program.h"

namespace carillon::sim {

// Returns nullptr if no code does this to these types.
Handler FindHandler(const Semantics& semantics);

// There is one FindHandler for each instruction set; the global one chooses.
namespace baseline {
Handler FindHandler(const Semantics& semantics);
// Finds the operations that gain nothing from vector instructions and so are
// compiled once.
Handler FindRounded(const Semantics& semantics);
Handler FindWarpWide(const Semantics& semantics);
Handler FindAsync(const Semantics& semantics);
Handler FindFragments(const Semantics& semantics);
}  // namespace baseline
namespace x86_64_v3 {
Handler FindHandler(const Semantics& semantics);
}
// Returns whether this machine and this build have it: builds with a sanitizer
// have the baseline only.
bool HasX86_64V3();
Handler FindRare(const Semantics& semantics);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_OPERATIONS_HANDLERS_H_
