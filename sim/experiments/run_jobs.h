// Many jobs at once, one a thread, with their results on disk: what has been
// run by this very program is not run again.
#ifndef CARILLON_SIM_EXPERIMENTS_RUN_JOBS_H_
#define CARILLON_SIM_EXPERIMENTS_RUN_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// By the jobs' names.
using Results = std::map<std::string, Json>;

struct JobProgress {
  const Job& job;
  size_t done = 0;  // this one included
  size_t total = 0;
  double seconds = 0;
  bool cached = false;
};

struct RunJobsOptions {
  uint32_t threads = 1;
  // A folder for results, made if it is not there; none: they are not kept.
  std::string cache;
  // Of any thread, but of one at a time.
  std::function<void(const JobProgress&)> progress;
};

// Jobs of the same name are run once. Errors: that of the first job that fails,
// with its name, after which no other begins; PermissionDenied (the cache).
absl::StatusOr<Results> RunJobs(const std::vector<Job>& jobs,
                                const timing::Config& config,
                                const RunJobsOptions& options);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_RUN_JOBS_H_
