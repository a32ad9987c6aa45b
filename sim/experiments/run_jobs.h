// Runs many jobs at once, one per thread, and keeps their results on disk. A
// job that this very program has run before is not run again.
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

using Results = std::map<std::string, Json>;

struct JobProgress {
  const Job& job;
  size_t done = 0;  // this one included
  size_t total = 0;
  double seconds = 0;  // of a processor that it took when it was run
  bool cached = false;
};

struct RunJobsOptions {
  uint32_t threads = 1;
  // The folder for results, made if it does not exist; empty: they are not
  // kept.
  std::string cache;
  // Any thread may call it, but only one at a time.
  std::function<void(const JobProgress&)> progress;
};

// Runs jobs of the same name once. Errors: that of the first job that fails,
// with its name, after which no other job begins; those of a ResultFolder.
absl::StatusOr<Results> RunJobs(const std::vector<Job>& jobs,
                                const timing::Config& config,
                                const RunJobsOptions& options);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_RUN_JOBS_H_
