// One pair of functions for each experiment, and what they share; experiment.cc
// has their table.
#ifndef CARILLON_SIM_EXPERIMENTS_FIGURES_H_
#define CARILLON_SIM_EXPERIMENTS_FIGURES_H_

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/experiments/experiment.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {

// preemption.cc
std::vector<Job> Fig11Jobs(const ExperimentOptions& options);
Json Fig11(const Results& results, const ExperimentOptions& options);
// scheduling.cc
std::vector<Job> Fig12Jobs(const ExperimentOptions& options);
Json Fig12(const Results& results, const ExperimentOptions& options);
Json Fig1(const Results& results, const ExperimentOptions& options);
// slowdown.cc
std::vector<Job> Fig13Jobs(const ExperimentOptions& options);
Json Fig13(const Results& results, const ExperimentOptions& options);
// beyond.cc
std::vector<Job> BeyondRuleJobs(const ExperimentOptions& options);
Json BeyondRule(const Results& results, const ExperimentOptions& options);
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

// gnom_figures.cc
std::vector<Job> Th4_10Jobs(const ExperimentOptions& options);
Json Th4_10(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th4_12Jobs(const ExperimentOptions& options);
Json Th4_12(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th4_13Jobs(const ExperimentOptions& options);
Json Th4_13(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th4_15Jobs(const ExperimentOptions& options);
Json Th4_15(const Results& results, const ExperimentOptions& options);
// interrupt_figures.cc
std::vector<Job> Th5_13Jobs(const ExperimentOptions& options);
Json Th5_13(const Results& results, const ExperimentOptions& options);
std::vector<Job> Th5_15Jobs(const ExperimentOptions& options);
Json Th5_15(const Results& results, const ExperimentOptions& options);
// persistent_figures.cc
std::vector<Job> Th5_17Jobs(const ExperimentOptions& options);
Json Th5_17(const Results& results, const ExperimentOptions& options);
Json Th5_18(const Results& results, const ExperimentOptions& options);

// pep_figures.cc: PEP's, of DAC'18
std::vector<Job> PepTableJobs(const ExperimentOptions& options);
Json PepTable(const Results& results, const ExperimentOptions& options);
std::vector<Job> Pep2Jobs(const ExperimentOptions& options);
Json Pep2(const Results& results, const ExperimentOptions& options);
std::vector<Job> PepJobs(const ExperimentOptions& options);
Json Pep5(const Results& results, const ExperimentOptions& options);
Json Pep6(const Results& results, const ExperimentOptions& options);
Json Pep7(const Results& results, const ExperimentOptions& options);
Json Pep8(const Results& results, const ExperimentOptions& options);
Json Pep9(const Results& results, const ExperimentOptions& options);

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
    "end), and that SMs have registers left, as EDGE found (VI-C); Figs. 1, 12 "
    "and 13 have them with 32 as well, which leave none";

// The registers a thread of CONV1 and MM decide whether an SM that they fill
// has any left, and no paper says how many they have. So a figure about
// preemption has them with both of these.
inline constexpr uint32_t kLayerRegisters[] = {28, 32};
inline constexpr const char* kBothRegistersCondition =
    "CONV1 and MM with 28 and with 32 registers a thread: both let all of "
    "CONV's 256 blocks be resident, as in EDGE's artifact; 28 leave some of an "
    "SM's registers free, as EDGE found (VI-C), and 32 none. 28 was added "
    "when the results with 32 were known";
// A background with the registers a thread that it gets; 0: what it needs.
struct Beside {
  std::string_view background;
  uint32_t registers = 0;

  bool operator==(const Beside&) const = default;
};
// The background where CONV1 and MM get so many registers.
Beside BesideAt(std::string_view background, uint32_t layer_registers);
// The background with each number of registers that it gets.
std::vector<Beside> BesidesOf(std::string_view background);
// The cells of a table: the name, and the registers if there is a choice.
inline Json RegistersCell(const Beside& beside) {
  return beside.registers == 0 ? Json() : Json(beside.registers);
}

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
                       Json ours, Json median = Json(),
                       Json geometric_mean = Json()) {
  return {{"what", std::move(what)},
          {"unit", std::move(unit)},
          {"paper", std::move(paper)},
          {"ours", std::move(ours)},
          {"median", std::move(median)},
          {"geometric_mean", std::move(geometric_mean)}};
}
inline Json SummaryRow(std::string what, Json paper, const Ratios& ratios) {
  return SummaryRow(std::move(what), "x", std::move(paper),
                    Number(ratios.of_means), Number(ratios.median),
                    Number(ratios.geometric_mean));
}
// The cells of a table for how large a value is over all pairs.
inline constexpr const char* kAverageColumns[] = {"mean", "median",
                                                  "geometric mean"};
inline void AppendAverages(Json& row, const std::vector<double>& values) {
  row.push_back(Number(Mean(values)));
  row.push_back(Number(Median(values)));
  row.push_back(Number(GeometricMean(values)));
}
inline void AppendAverages(Json& row, const PairValues& values) {
  AppendAverages(row, Present(values));
}
// The cells of a table for the ratios of all pairs.
inline constexpr const char* kRatioColumns[] = {
    "ratio of means", "median", "geometric mean",  "least",
    "most",           "ratios", "of these above 1"};
inline void AppendRatios(Json& row, const Ratios& ratios) {
  row.push_back(Number(ratios.of_means));
  row.push_back(Number(ratios.median));
  row.push_back(Number(ratios.geometric_mean));
  row.push_back(Number(ratios.least));
  row.push_back(Number(ratios.most));
  row.push_back(ratios.pairs);
  row.push_back(ratios.above_one);
}
template <size_t n>
void AppendColumns(Json& columns, const char* const (&names)[n],
                   std::string_view of = "") {
  for (const char* name : names) {
    columns.push_back(of.empty() ? name : fmt::format("{}: {}", of, name));
  }
}

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_FIGURES_H_
