// The figures of EDGE's and PEP's evaluations: which jobs each figure needs, and how it
// presents their results beside the papers' numbers.
#ifndef CARILLON_SIM_EXPERIMENTS_EXPERIMENT_H_
#define CARILLON_SIM_EXPERIMENTS_EXPERIMENT_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/experiments/job.h"
#include "sim/experiments/run_jobs.h"

namespace carillon::sim::figures {

struct ExperimentOptions {
  // Small workloads on a GPU of 2 SMs. They show that everything runs; their
  // numbers mean nothing.
  bool quick = false;
  uint32_t seed = 1;
};

struct Experiment {
  // "fig12"; names that begin with "th" are of Hetherington's thesis, with
  // "pep" of PEP (pep1: its Table 1); "beyond" is of none.
  std::string_view name;
  std::string_view title;
  std::vector<Job> (*jobs)(const ExperimentOptions& options);
  // Makes the figure from the results of jobs():
  //
  // {"conditions": ["..."],
  //  "tables": [{"title", "columns": [...], "rows": [[...]]}],
  //  "summary": [{"what", "unit", "paper", "ours", "median",
//               "geometric_mean"}],
  //  "panels": [{"title", "log", "groups": [...],
  //              "bars": [{"label", "values", "low", "high"}]}]}
  //
  // Where "ours" is a ratio of means over pairs or a mean of them, as in the
  // papers, "median" and "geometric_mean" are those of the pairs themselves.
  // Numbers without data are null.
  Json (*figure)(const Results& results, const ExperimentOptions& options);
};

std::span<const Experiment> Experiments();

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_EXPERIMENT_H_
