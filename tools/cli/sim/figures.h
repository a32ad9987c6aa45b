// The figures of the simulated GPU's experiments, for the commands that make them.
#ifndef CARILLON_TOOLS_CLI_SIM_FIGURES_H_
#define CARILLON_TOOLS_CLI_SIM_FIGURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/experiments/experiment.h"
#include "sim/timing/config.h"
#include "tools/cli/arguments.h"
#include "tools/cli/ui/console.h"

namespace carillon::cli {

// Which figures, and of what.
struct FigureChoice {
  std::vector<std::string> names;  // or "all"
  std::string gpu = "edge_table2";
  uint32_t seed = 1;
  bool quick = false;

  void AddOptions(Arguments& arguments);
};

struct FigureRuns {
  std::vector<const sim::figures::Experiment*> experiments;
  sim::timing::Config config;
  std::vector<sim::figures::Job> jobs;  // each once
};

// Errors: NotFound (no such figure); those of LoadConfig().
absl::StatusOr<FigureRuns> ChooseFigures(const FigureChoice& choice);

// Runs what FOLDER/runs does not have, prints the figures, and writes them into
// the folder; without one, keeps nothing. Errors: those of the runs and of
// files.
absl::Status MakeFigures(const FigureChoice& choice, const std::string& folder,
                         uint32_t runs_at_once, Console& console);

// Where the results of its runs lie.
inline std::string RunsFolder(const std::string& folder) {
  return folder + "/runs";
}

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SIM_FIGURES_H_
