// Narrow tasks in wall time: on a gpud of their own, and on cuda also as a CUDA
// program launches them.
#ifndef CARILLON_TOOLS_BENCH_NARROW_ON_GPUD_H_
#define CARILLON_TOOLS_BENCH_NARROW_ON_GPUD_H_

#include <string>

#include "absl/status/status.h"
#include "tools/bench/narrow/cell_plan.h"
#include "tools/bench/session.h"

namespace carillon::bench {

// Makes and runs the plan's cells on `backend`: auto, cpu or cuda. Errors: those of
// LaunchTestbed::Start() and of MakeCells(), Cancelled.
absl::Status RunOnGpud(const SessionOptions& session,
                       const std::string& backend, CellPlan& plan);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_ON_GPUD_H_
