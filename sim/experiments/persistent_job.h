// Persistent thread blocks with queues of their own, one on each SM, to which a
// host pushes empty tasks: Figs. 5.17 and 5.18 of EDGE's thesis.
#ifndef CARILLON_SIM_EXPERIMENTS_PERSISTENT_JOB_H_
#define CARILLON_SIM_EXPERIMENTS_PERSISTENT_JOB_H_

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// {"cycles", "tasks", "global_loads", "warp_instructions", "interrupts"}: of
// the persistent kernel and of interrupt routines together. Errors: those of
// what executes, DataLoss (a block has not done all its tasks).
absl::StatusOr<Json> RunPersistent(const Job& job, const timing::Config& config,
                                   const JobControl& control);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_PERSISTENT_JOB_H_
