// One pair of functions for each experiment, and what they share; experiment.cc
// has their table.
#ifndef CARILLON_SIM_EXPERIMENTS_FIGURES_H_
#define CARILLON_SIM_EXPERIMENTS_FIGURES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/experiments/experiment.h"

namespace carillon::sim::figures {

// preemption.cc
std::vector<Job> Fig11Jobs(const ExperimentOptions& options);
Json Fig11(const Results& results, const ExperimentOptions& options);
// scheduling.cc
std::vector<Job> Fig12Jobs(const ExperimentOptions& options);
Json Fig12(const Results& results, const ExperimentOptions& options);
Json Fig1(const Results& results, const ExperimentOptions& options);
// multiprogramming.cc
std::vector<Job> Fig13Jobs(const ExperimentOptions& options);
Json Fig13(const Results& results, const ExperimentOptions& options);
std::vector<Job> BeyondJobs(const ExperimentOptions& options);
Json Beyond(const Results& results, const ExperimentOptions& options);
// occupancy_figures.cc
std::vector<Job> Th5_9Jobs(const ExperimentOptions& options);
Json Th5_9(const Results& results, const ExperimentOptions& options);
Json Th5_10(const Results& results, const ExperimentOptions& options);
// reservation.cc
std::vector<Job> Th5_14Jobs(const ExperimentOptions& options);
Json Th5_14(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th5_16Jobs(const ExperimentOptions& options);
Json Th5_16(const Results& results, const ExperimentOptions& options);

// interrupt_figures.cc
std::vector<Job> Th5_13Jobs(const ExperimentOptions& options);
Json Th5_13(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th5_15Jobs(const ExperimentOptions& options);
Json Th5_15(const Results& results, const ExperimentOptions& options);
// persistent_figures.cc
std::vector<Job> Th5_17Jobs(const ExperimentOptions& options);
Json Th5_17(const Results& results, const ExperimentOptions& options);
Json Th5_18(const Results& results, const ExperimentOptions& options);

// The backgrounds of Figs. 12 and 13; two of each if quick.
std::span<const std::string_view> FigureBackgrounds(
    const ExperimentOptions& options);
std::span<const std::string_view> FigureEvents(
    const ExperimentOptions& options);

Job MakeJob(std::string name, const ExperimentOptions& options);
// The job of a background alone: "isolated/BP".
Job IsolatedJob(std::string_view background, const ExperimentOptions& options);
// The registers of an event in Figs. 12 and 13; 0: what its kernel needs. The
// papers' IPv4 and IPv6 fit beside every background; ours would miss BP's free
// registers by a few.
uint32_t EventRegisters(std::string_view event);
inline constexpr const char* kRegistersCondition =
    "IPv4 and IPv6 get 16 registers a thread, so that they fit BP's as in the "
    "papers; MemC and IPSec need more than BP and BFS have";
inline constexpr const char* kLayersCondition =
    "CONV1, CONV2 and MM get 28 registers a thread, so that all of CONV's 256 "
    "blocks are resident, as in EDGE's artifact (each runs to the kernel's "
    "end), and that SMs have registers left, as EDGE found (VI-C)";

inline Json SummaryRow(std::string what, std::string unit, Json paper,
                       Json ours) {
  return {{"what", std::move(what)},
          {"unit", std::move(unit)},
          {"paper", std::move(paper)},
          {"ours", std::move(ours)}};
}

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_FIGURES_H_
