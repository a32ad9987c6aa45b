// Runs of fault plans, each with many seeds.
#ifndef CARILLON_TOOLS_CLI_SWEEP_FAULT_RUNS_H_
#define CARILLON_TOOLS_CLI_SWEEP_FAULT_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tools/cli/sweep/run_set.h"

namespace carillon::cli {

class FaultRuns : public RunSet {
 public:
  // Errors: InvalidArgument, NotFound (a plan).
  static absl::StatusOr<std::unique_ptr<FaultRuns>> Make(
      const FaultChoice& choice, const std::string& directory);

  size_t size() const override { return plans_.size() * seeds_; }
  std::string TitleOf(size_t run) const override;
  std::string NameOf(size_t run) const override;
  bool HasResult(size_t run) const override;
  // By `carillon fault run`, of this program.
  absl::Status Run(size_t run) override;

  const std::string& PlanOf(size_t run) const { return PlanAt(run).name; }
  // What `carillon fault run -o json` says of the plan. Errors: NotFound.
  absl::StatusOr<Json> ResultOf(size_t run) const;

 private:
  struct Plan {
    std::string file;
    std::string name;
    uint64_t hash = 0;  // of the file, its topology and the programs
  };

  FaultRuns(std::vector<Plan> plans, const FaultChoice& choice,
            const std::string& directory);
  const Plan& PlanAt(size_t run) const { return plans_[run / seeds_]; }
  uint64_t SeedOf(size_t run) const { return first_seed_ + run % seeds_; }
  std::string PathOf(size_t run) const;

  const std::vector<Plan> plans_;
  const uint64_t first_seed_;
  const uint64_t seeds_;
  const std::string folder_;
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_FAULT_RUNS_H_
