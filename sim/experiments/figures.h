// One pair of functions for each experiment, and what they share; experiment.cc
// has their table.
#ifndef CARILLON_SIM_EXPERIMENTS_FIGURES_H_
#define CARILLON_SIM_EXPERIMENTS_FIGURES_H_

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

// A job's name: what this formats, without blanks.
template <class... Args>
std::string JobName(fmt::format_string<Args...> format, Args&&... args) {
  std::string name = fmt::format(format, std::forward<Args>(args)...);
  std::ranges::replace(name, ' ', '_');
  return name;
}
double CyclesOf(const Results& results, std::string_view job);
double CyclesAlone(const Results& results, std::string_view background);
// The samples of one job.
std::vector<double> SamplesOf(const Results& results, std::string_view job,
                              const char* pointer);

// The parts of what Experiment::figure makes.
inline Json Figure(Json conditions, Json tables, Json summary, Json panels) {
  return {{"conditions", std::move(conditions)},
          {"tables", std::move(tables)},
          {"summary", std::move(summary)},
          {"panels", std::move(panels)}};
}
inline Json Table(std::string title, Json columns, Json rows) {
  return {{"title", std::move(title)},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)}};
}
inline Json Panel(std::string title, bool log, Json groups, Json bars) {
  return {{"title", std::move(title)},
          {"log", log},
          {"groups", std::move(groups)},
          {"bars", std::move(bars)}};
}
inline Json Bar(std::string_view label, Json values) {
  return {{"label", label}, {"values", std::move(values)}};
}
// A bar without values for each element.
template <class Range, class Label>
Json EmptyBars(const Range& of, Label label) {
  Json bars = Json::array();
  for (const auto& one : of) {
    bars.push_back(Bar(std::invoke(label, one), Json::array()));
  }
  return bars;
}
inline Json SummaryRow(std::string what, std::string unit, Json paper,
                       Json ours) {
  return {{"what", std::move(what)},
          {"unit", std::move(unit)},
          {"paper", std::move(paper)},
          {"ours", std::move(ours)}};
}

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_FIGURES_H_
