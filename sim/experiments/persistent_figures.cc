// Figs. 5.17 and 5.18 of the thesis: persistent blocks that wait at a
// wait-release barrier, beside those that poll.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

// How many turns the host's empty loop takes between tasks.
constexpr uint32_t kDelays[] = {0, 50, 100};
// The model does not include the host, so its speed is assumed: two stores to
// the queue and the doorbell take 30 ns, and a turn of an unoptimized loop 3 ns
// (gem5's 2 GHz, 6 cycles). At 700 MHz:
constexpr uint32_t kPushCycles = 21;
constexpr double kTurnCycles = 2.1;

struct Setting {
  const char* label;
  const char* persistent;
  uint32_t coalesce;
};
constexpr Setting kSettings[] = {{"PT", "poll", 1},
                                 {"WRB-1", "wait", 1},
                                 {"WRB-8", "wait", 8},
                                 {"WRB-32", "wait", 32},
                                 {"targeted", "targeted", 1}};

std::string NameOf(const Setting& setting, uint32_t delay) {
  return fmt::format("th5.17/{}/{}", setting.label, delay);
}

double CounterOf(const Results& results, const Setting& setting, uint32_t delay,
                 const char* counter) {
  return results.at(NameOf(setting, delay))[counter].get<double>();
}
Json RatioAt(const Results& results, const Setting& setting, uint32_t delay,
             const char* counter) {
  return Number(CounterOf(results, setting, delay, counter) /
                CounterOf(results, kSettings[0], delay, counter));
}

Json FigureOf(const Results& results, const char* counter, const char* what,
              Json summary) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = Json::array();
  for (const uint32_t delay : kDelays)
    groups.push_back(fmt::format("{}", delay));
  for (const Setting& setting : kSettings) {
    Json values = Json::array();
    for (const uint32_t delay : kDelays) {
      const Json& result = results.at(NameOf(setting, delay));
      const Json ratio = RatioAt(results, setting, delay, counter);
      rows.push_back({setting.label, delay, result[counter], result["cycles"],
                      result["interrupts"], ratio});
      values.push_back(ratio);
    }
    if (&setting == &kSettings[0]) continue;
    bars.push_back(Bar(setting.label, values));
  }
  return Figure(
      {"16 blocks of a warp, one on each SM, 2,048 empty tasks in turn; an "
       "interrupt for every 1, 8 or 32 releases all blocks",
       fmt::format("the host pushes a task every {} cycles, and {} more for "
                   "each turn of its delay: an assumption",
                   kPushCycles, kTurnCycles),
       "targeted, which the thesis leaves open: an interrupt for each task, "
       "which goes to its block's SM and barrier only"},
      Json::array({Table(
          what, {"way", "delay", "count", "cycles", "interrupts", "to PT"},
          rows)}),
      std::move(summary),
      Json::array(
          {Panel(fmt::format("{}, relative to PT, by launch delay", what),
                 false, groups, bars)}));
}

}  // namespace

std::vector<Job> Th5_17Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Setting& setting : kSettings) {
    for (const uint32_t delay : kDelays) {
      Job job = MakeJob(NameOf(setting, delay), options);
      job.persistent = setting.persistent;
      job.coalesce = setting.coalesce;
      job.events = options.quick ? 256 : 2048;
      job.arrivals.least =
          kPushCycles + static_cast<uint32_t>(kTurnCycles * delay);
      job.arrivals.most = job.arrivals.least;
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

Json Th5_17(const Results& results, const ExperimentOptions&) {
  return FigureOf(
      results, "global_loads", "global loads",
      {SummaryRow("global loads, WRB-8 to PT, delay 0", "x", 0.8,
                  RatioAt(results, kSettings[2], 0, "global_loads"))});
}

Json Th5_18(const Results& results, const ExperimentOptions&) {
  return FigureOf(
      results, "warp_instructions", "dynamic warp instructions",
      {SummaryRow("warp instructions, WRB-1 to PT, delay 0", "x", 13.7,
                  RatioAt(results, kSettings[1], 0, "warp_instructions"))});
}

}  // namespace carillon::sim::figures
