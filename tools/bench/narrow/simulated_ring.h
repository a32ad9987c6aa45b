// Path `pagoda_ring` on a simulated GPU: scheduler warps of a MasterKernel take
// tasks from doorbells, and nobody spawns (docs/launch_paths.md).
#ifndef CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RING_H_
#define CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RING_H_

#include <memory>

#include "tools/bench/narrow/simulated.h"
#include "tools/bench/narrow/simulated_run.h"
#include "tools/bench/narrow/workload.h"

namespace carillon::bench {

std::unique_ptr<SimulatedRun> MakeRingRun(const NarrowWorkload& workload,
                                          const SimulatedOptions& options);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_SIMULATED_RING_H_
