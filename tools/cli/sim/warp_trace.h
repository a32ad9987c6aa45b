// A run of the simulated GPU as a trace for Perfetto: GPU > SM > warp slot, and
// the events, those under way together in a lane each.
#ifndef CARILLON_TOOLS_CLI_SIM_WARP_TRACE_H_
#define CARILLON_TOOLS_CLI_SIM_WARP_TRACE_H_

#include <cstdint>
#include <vector>

#include "sim/timing/timeline.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::cli {

// Times are nanoseconds of the GPU, rounded down; slices have their cycles.
// Slices of a slot that overlap without nesting get a further track, "warp 3
// (2)". Does not finish `writer`.
void WriteWarpTrace(const std::vector<sim::timing::TimelineSlice>& slices,
                    uint32_t core_mhz, perfetto::TraceWriter& writer);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SIM_WARP_TRACE_H_
