// A kernel whose blocks make room for another grid, as in PEP's evaluation: the
// kernel starts, its blocks come to the wanted progress, a grid that fills the
// GPU is announced, and arrives. A run ends when the last block has left.
//
// The kernel runs up to there once. From each progress on, each announcement
// and each arrival it goes on in a fork, so that all runs share what they have
// in common.
#ifndef CARILLON_SIM_EXPERIMENTS_PREEMPTION_JOB_H_
#define CARILLON_SIM_EXPERIMENTS_PREEMPTION_JOB_H_

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// {"alone": {"block_cycles", "block_instructions", "blocks_per_sm"},
//  "mhz": the SMs' clock,
//  "runs": {technique:
//           [{"launch_ns", "progress",
//             "latency": cycles from the arrival to the last block's leaving;
//                        null: no block was there,
//             "cases": {"drain": blocks, ...},
//             and sums over its blocks: lines of 128 bytes "base",
//             "incremental", "in_place", "shared_written", "shared_whole";
//             cycles "base_cycles", "incremental_cycles"}]}}
absl::StatusOr<Json> RunPreempted(const Job& job, const timing::Config& config,
                                  const JobControl& control);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_PREEMPTION_JOB_H_
