// The figures of EDGE's evaluation: which jobs each needs, and what it makes of
// their results, beside the papers' numbers.
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
  // Small workloads on a GPU of 2 SMs: shows that it runs, no figures.
  bool quick = false;
  uint32_t seed = 1;
};

struct Experiment {
  // "fig12"; "th..." of Hetherington's thesis; "beyond" both.
  std::string_view name;
  std::string_view title;
  std::vector<Job> (*jobs)(const ExperimentOptions& options);
  // {"conditions": ["..."],
  //  "tables": [{"title", "columns": [...], "rows": [[...]]}],
  //  "summary": [{"what", "unit", "paper", "ours"}],
  //  "panels": [{"title", "log", "groups": [...],
  //              "bars": [{"label", "values", "low", "high"}]}]}
  // of the results of jobs(); numbers that there are none for are null.
  Json (*figure)(const Results& results, const ExperimentOptions& options);
};

std::span<const Experiment> Experiments();

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_EXPERIMENT_H_
