// What a sweep is about: runs that know whether they were done, in whatever
// process and on whatever machine.
#ifndef CARILLON_TOOLS_CLI_SWEEP_RUN_SET_H_
#define CARILLON_TOOLS_CLI_SWEEP_RUN_SET_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/sim/figures.h"
#include "tools/cli/sweep/sweep_file.h"

namespace carillon::cli {

class RunSet {
 public:
  virtual ~RunSet() = default;

  virtual size_t size() const = 0;
  // For people.
  virtual std::string TitleOf(size_t run) const = 0;
  // The name of its result's file, which no other run has.
  virtual std::string NameOf(size_t run) const = 0;
  virtual bool HasResult(size_t run) const = 0;
  // Runs it and keeps the result, unless there is one. Errors: why there can be
  // none; DataLoss (there is another result).
  virtual absl::Status Run(size_t run) = 0;
};

// Of `directory`, which need not be there. Errors: those of ChooseFigures();
// InvalidArgument, NotFound (a plan).
absl::StatusOr<std::unique_ptr<RunSet>> MakeRunSet(
    const SweepFile& sweep, const std::string& directory);

// Of all their names: of another build, or of a plan that was changed meanwhile,
// it is another one.
std::string RunsHash(const RunSet& runs);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_RUN_SET_H_
