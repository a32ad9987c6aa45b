// Results of jobs on disk, one file each. Many processes, on many machines, may
// share a folder.
#ifndef CARILLON_SIM_EXPERIMENTS_RESULT_FOLDER_H_
#define CARILLON_SIM_EXPERIMENTS_RESULT_FOLDER_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// Of jobs on a GPU of this configuration, run by this very program: another
// build may simulate differently. Thread safe.
class ResultFolder {
 public:
  // Empty: it keeps nothing and finds nothing. `config` must outlive it.
  ResultFolder(std::string folder, const timing::Config& config)
      : folder_(std::move(folder)), config_(config) {}

  // Makes the folder, with those above it. Errors: PermissionDenied.
  absl::Status Prepare() const;
  // Of its file, which names all that the result depends on by their hash.
  std::string NameOf(const Job& job) const;
  // {"key", "result", "seconds" (of a processor that it took), "hash"}. A file
  // that is not as it was kept counts as none.
  std::optional<Json> Find(const Job& job) const;
  // Errors: PermissionDenied; DataLoss: another run of it is there, with
  // another result.
  absl::Status Keep(const Job& job, const Json& result, double seconds) const;

 private:
  Json KeyOf(const Job& job) const;

  const std::string folder_;
  const timing::Config& config_;
};

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_RESULT_FOLDER_H_
