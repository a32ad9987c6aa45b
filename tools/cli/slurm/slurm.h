// Slurm by its commands (https://slurm.schedmd.com): batch jobs of this user.
#ifndef CARILLON_TOOLS_CLI_SLURM_SLURM_H_
#define CARILLON_TOOLS_CLI_SLURM_SLURM_H_

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

// For a shell's script.
std::string ShellWord(std::string_view text);

// Writes `script` to `path`, hands it to sbatch with these arguments, and returns
// the job's name: "12", or "12;north" where Slurm has several clusters. Errors:
// PermissionDenied (the file), NotFound (no sbatch), FailedPrecondition (Slurm's
// own words, or no number among them).
absl::StatusOr<std::string> SubmitJob(const std::string& path,
                                      std::string_view script,
                                      std::vector<std::string> arguments);

// Ends what SubmitJob() has named, or does nothing if it has ended. Errors:
// NotFound (no scancel), InvalidArgument (it is no name: scancel would take an
// option), FailedPrecondition (Slurm's own words).
absl::Status CancelJob(const std::string& job);

// Of a job that waits or runs, by squeue.
class JobWatch {
 public:
  explicit JobWatch(std::string job) : job_(std::move(job)) {}

  // A line for each task that waits or runs: "RUNNING (None)"; none: the job has
  // ended. squeue is a heavy question: it is asked each two seconds, and what it
  // said last is told meanwhile. Where it cannot be had, neither can more lines,
  // and `said` gets its words once.
  const std::vector<std::string>& Tasks(std::vector<std::string>& said);

 private:
  const std::string job_;
  std::chrono::steady_clock::time_point asked_{};
  std::vector<std::string> tasks_ = {"PENDING (not asked yet)"};
  std::string told_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SLURM_SLURM_H_
