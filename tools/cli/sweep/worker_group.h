// The workers that a sweep starts: processes here, or tasks of a Slurm job.
#ifndef CARILLON_TOOLS_CLI_SWEEP_WORKER_GROUP_H_
#define CARILLON_TOOLS_CLI_SWEEP_WORKER_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

// They work on the sweep of `directory` and write to DIRECTORY/workers/N.log.
// Its destructor ends those that still work.
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;
  // Whether one still works, or will. `said` gets a line about each that died.
  // Errors: those of who must be asked.
  virtual absl::StatusOr<bool> Working(std::vector<std::string>& said) = 0;
};

// Errors: those of Subprocess.
absl::StatusOr<std::unique_ptr<WorkerGroup>> StartHere(
    const std::string& directory, uint32_t workers);

// As an array of `workers` tasks, by sbatch with these further arguments. The
// nodes must see `directory` and this program at their paths. Errors: NotFound
// (no sbatch), FailedPrecondition (Slurm's own words).
absl::StatusOr<std::unique_ptr<WorkerGroup>> StartSlurmArray(
    const std::string& directory, uint32_t workers,
    const std::vector<std::string>& sbatch_arguments);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_WORKER_GROUP_H_
