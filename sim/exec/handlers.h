// The code of operations, found by what they do.
//
// It is compiled twice, for any x86-64 and for those with AVX2 and FMA
// (x86-64-v3), and the better one that this machine can run is taken: a warp's
// 32 lanes are a loop that the compiler turns into vector instructions.
#ifndef CARILLON_SIM_EXEC_HANDLERS_H_
#define CARILLON_SIM_EXEC_HANDLERS_H_

#include "sim/exec/program.h"

namespace carillon::sim {

// nullptr: nothing does this to these types.
Handler FindHandler(const Semantics& semantics);

// One for each set of instructions; FindHandler() chooses.
namespace baseline {
Handler FindHandler(const Semantics& semantics);
// What gains nothing from vector instructions and so is compiled once.
Handler FindRounded(const Semantics& semantics);
Handler FindAtomic(const Semantics& semantics);
Handler FindWarpWide(const Semantics& semantics);
}  // namespace baseline
namespace x86_64_v3 {
Handler FindHandler(const Semantics& semantics);
}
// This machine, and this build: builds for sanitizers have the baseline only.
bool HasX86_64V3();
Handler FindRare(const Semantics& semantics);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_HANDLERS_H_
