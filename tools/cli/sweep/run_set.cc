#include "tools/cli/sweep/run_set.h"

#include <fmt/format.h>

#include <utility>

#include "base/results/content_hash.h"
#include "base/status.h"
#include "sim/experiments/result_folder.h"
#include "sim/experiments/run_jobs.h"
#include "tools/cli/sweep/fault_runs.h"

namespace carillon::cli {
namespace {

class FigureRunSet : public RunSet {
 public:
  FigureRunSet(FigureRuns runs, const std::string& directory)
      : runs_(std::move(runs)),
        folder_(RunsFolder(directory)),
        results_(folder_, runs_.config) {}

  size_t size() const override { return runs_.jobs.size(); }
  std::string TitleOf(size_t run) const override {
    return runs_.jobs[run].name;
  }
  std::string NameOf(size_t run) const override {
    return results_.NameOf(runs_.jobs[run]);
  }
  bool HasResult(size_t run) const override {
    return results_.Find(runs_.jobs[run]).has_value();
  }
  absl::Status Run(size_t run) override {
    return sim::figures::RunJobs(
               {runs_.jobs[run]}, runs_.config,
               {.threads = 1, .cache = folder_, .progress = nullptr})
        .status();
  }

 private:
  const FigureRuns runs_;
  const std::string folder_;
  const sim::figures::ResultFolder results_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunSet>> MakeRunSet(
    const SweepFile& sweep, const std::string& directory) {
  if (!sweep.faults.plans.empty()) {
    return FaultRuns::Make(sweep.faults, directory);
  }
  ASSIGN_OR_RETURN(auto runs, ChooseFigures(sweep.figures));
  return std::make_unique<FigureRunSet>(std::move(runs), directory);
}

std::string RunsHash(const RunSet& runs) {
  std::string names;
  for (size_t run = 0; run < runs.size(); ++run) names += runs.NameOf(run);
  return fmt::format("{:016x}", ContentHash(names));
}

}  // namespace carillon::cli
