// What a simulation does from here on, several times, in different ways.
#ifndef CARILLON_SIM_EXPERIMENTS_IN_FORK_H_
#define CARILLON_SIM_EXPERIMENTS_IN_FORK_H_

#include <functional>

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// Calls `work` in a child process, which has a copy of this one's memory, and
// returns its result. This process's simulation stays where it is. `work` may
// itself call InFork(); it has no thread but its own, and must not wait for a
// lock that another thread here may hold. Errors: those of `work`; Cancelled
// (JobControl::cancelled); Internal (no process can be made, or it died).
absl::StatusOr<Json> InFork(const JobControl& control,
                            const std::function<absl::StatusOr<Json>()>& work);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_IN_FORK_H_
