// A workload alone on a GPU.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_ISOLATED_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_ISOLATED_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "sim/exec/memory.h"
#include "sim/experiments/workloads/background.h"
#include "sim/experiments/workloads/event_kernel.h"
#include "sim/timing/config.h"
#include "sim/timing/statistics.h"

namespace carillon::sim::figures {

struct IsolatedRun {
  // From the GPU's receipt of the first launch to the last one's end. For
  // events: the mean of one event's run, from its first warp's start.
  timing::Cycle cycles = 0;
  // The mean of a block's time, from its start to its end. 0 for events.
  double block_cycles = 0;
  uint64_t warp_instructions = 0;
  uint32_t launches = 0;
  timing::Statistics statistics;

  double ipc() const {
    return static_cast<double>(warp_instructions) /
           static_cast<double>(statistics.cycles);
  }
};

// Starts the workload by the seed, and checks its output. Errors: those of
// Check() and of the execution.
absl::StatusOr<IsolatedRun> RunIsolated(const timing::Config& config,
                                        Background& background,
                                        const Memory& memory, uint32_t seed);
// Runs `events` events one after the other, each in the next slot.
absl::StatusOr<IsolatedRun> RunIsolated(const timing::Config& config,
                                        EventKernel& event,
                                        const Memory& memory, uint32_t seed,
                                        uint32_t events);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_ISOLATED_H_
