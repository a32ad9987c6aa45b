// Figs. 12 and 1: how long an event waits for its first warp.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

constexpr uint32_t kRuns = 3;  // of each background
constexpr std::string_view kDraining = "draining";
constexpr std::string_view kPreemption = "preemption";
// Preemption where an event may have more registers than its victim.
constexpr std::string_view kLarger = "larger";
// Preemption of victims that wait at a barrier.
constexpr std::string_view kSkip = "skip";
constexpr std::string_view kWays[] = {kDraining, kPreemption, kLarger, kSkip};

bool NeedsMoreRegisters(std::string_view background, std::string_view event) {
  return (background == "BP" || background == "BFS") &&
         (event == "MemC" || event == "IPSec");
}

// Whether this setting differs from preemption for the pair.
bool Has(std::string_view background, std::string_view event,
         std::string_view way) {
  if (way == kLarger) return NeedsMoreRegisters(background, event);
  // BFS has no barriers.
  return way != kSkip || background != "BFS";
}

uint32_t RunsOf(std::string_view way, const ExperimentOptions& options) {
  return options.quick || way == kSkip ? 1 : kRuns;
}

const char* TitleOf(std::string_view way) {
  return way == kDraining     ? "draining"
         : way == kPreemption ? "preemption"
         : way == kLarger     ? "preemption, more registers"
                              : "preemption, barriers skipped";
}

std::string NameOf(std::string_view background, std::string_view event,
                   std::string_view path, uint32_t run) {
  return fmt::format("fig12/{}/{}/{}/{}", background, event, path, run);
}

std::vector<double> Latencies(const Results& results,
                              std::string_view background,
                              std::string_view event, std::string_view path) {
  std::vector<const Json*> runs;
  for (uint32_t run = 0; run < kRuns; ++run) {
    const auto found = results.find(NameOf(background, event, path, run));
    if (found != results.end()) runs.push_back(&found->second);
  }
  return Samples(runs, "/events/scheduling");
}

// Averages the means and tails over all pairs of event and background.
struct Average {
  std::vector<double> means, tails;

  void Add(const std::vector<double>& latencies) {
    if (latencies.empty()) return;
    means.push_back(*Mean(latencies));
    tails.push_back(*Tail(latencies));
  }
};

// Averages `path` over all pairs of this background, and takes kPreemption's
// where the setting does not differ.
template <class Of>
Average AverageOf(const Results& results, const ExperimentOptions& options,
                  std::string_view path, Of of) {
  Average average;
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      if (!of(background)) continue;
      average.Add(Latencies(results, background, event,
                            Has(background, event, path) ? path : kPreemption));
    }
  }
  return average;
}

// Shows what victims wait for before they can leave, over all events and runs.
Json VictimRow(const Results& results, const ExperimentOptions& options,
               std::string_view background, std::string_view way) {
  double preemptions = 0, cycles = 0, barriers = 0, pipeline = 0, skipped = 0;
  for (const std::string_view event : FigureEvents(options)) {
    for (uint32_t run = 0; run < RunsOf(way, options); ++run) {
      const Json& totals =
          results.at(NameOf(background, event, way, run))["statistics"];
      preemptions += totals["preemptions"].get<double>();
      cycles += totals["flush_cycles"].get<double>();
      barriers += totals["flush_waits"]["Barrier"].get<double>();
      pipeline += totals["flush_waits"]["Pipeline"].get<double>();
      skipped += totals["barriers_skipped"].get<double>();
    }
  }
  return {background,
          TitleOf(way),
          preemptions,
          Number(Ratio(cycles, preemptions)),
          Number(Ratio(100 * barriers, cycles)),
          Number(Ratio(100 * pipeline, cycles)),
          way == kSkip ? Number(Ratio(100 * skipped, preemptions)) : Json()};
}

}  // namespace

std::vector<Job> Fig12Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      for (const std::string_view path : kWays) {
        if (!Has(background, event, path)) continue;
        for (uint32_t run = 0; run < RunsOf(path, options); ++run) {
          Job job = MakeJob(NameOf(background, event, path, run), options);
          job.background = background;
          job.event = event;
          job.skip_body = true;
          job.registers = EventRegisters(event);
          job.arrivals = {2000, 5000, 1};
          if (options.quick) job.arrivals = {200, 500, 1};
          job.overrides.emplace_back(
              "edge.path", path == kDraining ? "tb_scheduler" : "warp");
          if (path == kLarger) {
            job.overrides.emplace_back("edge.larger_events", "1");
          }
          if (path == kSkip) {
            job.overrides.emplace_back("edge.skip_barriers", "1");
          }
          job.seed = options.seed + run;
          jobs.push_back(std::move(job));
        }
      }
    }
  }
  return jobs;
}

Json Fig12(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json victims = Json::array();
  Json panels = Json::array();
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view way : {kPreemption, kSkip}) {
      if (!Has(background, "", way)) continue;
      victims.push_back(VictimRow(results, options, background, way));
    }
    Json groups = Json::array();
    std::vector<std::string_view> shown = {kDraining, kPreemption};
    if (Has(background, "", kSkip)) shown.push_back(kSkip);
    std::vector<Json> bars(shown.size());
    for (const std::string_view event : FigureEvents(options)) {
      groups.push_back(event);
      for (const std::string_view path : kWays) {
        const std::vector<double> latencies =
            Latencies(results, background, event, path);
        if (latencies.empty()) continue;
        const double least = *std::ranges::min_element(latencies);
        const double most = *std::ranges::max_element(latencies);
        rows.push_back({background, event, TitleOf(path), latencies.size(),
                        Number(Mean(latencies)), least, Number(Tail(latencies)),
                        most});
        const auto place = std::ranges::find(shown, path);
        if (place == shown.end()) continue;
        Json& bar = bars[static_cast<size_t>(place - shown.begin())];
        bar["label"] = TitleOf(path);
        bar["values"].push_back(*Mean(latencies));
        bar["low"].push_back(least);
        bar["high"].push_back(most);
      }
    }
    panels.push_back(
        Panel(fmt::format("{}: mean scheduling latency, cycles (line: least to "
                          "most)",
                          background),
              true, groups, bars));
  }
  const auto all = [](std::string_view) { return true; };
  const auto large = [](std::string_view background) {
    return background == "CONV1" || background == "MM";
  };
  Json summary = Json::array();
  const auto compare = [&](const char* what, std::string_view path, auto of,
                           double paper_mean, double paper_tail) {
    const Average draining = AverageOf(results, options, kDraining, of);
    const Average preemption = AverageOf(results, options, path, of);
    summary.push_back(SummaryRow(
        fmt::format("preemption over draining, mean, {}", what), "x",
        paper_mean,
        Number(Ratio(Mean(draining.means), Mean(preemption.means)))));
    summary.push_back(SummaryRow(
        fmt::format("preemption over draining, tail, {}", what), "x",
        paper_tail,
        Number(Ratio(Mean(draining.tails), Mean(preemption.tails)))));
  };
  compare("all", kPreemption, all, 2.6, 2.9);
  compare("CONV1 and MM", kPreemption, large, 115.7, 68.4);
  compare("CONV1 and MM, barriers skipped", kSkip, large, 115.7, 68.4);
  compare("all, with more registers than the victim's", kLarger, all, 96.4,
          53.8);
  return Figure(
      {"one event at a time, which ends at once; a tick every U(2000, "
       "5000) cycles; 3 runs of each background, with seeds of their own",
       "barriers skipped: all optimisations of Fig. 11, in one run of "
       "CONV1, MM and BP; the papers' Fig. 12 skips none",
       "the papers' averages: over pairs of event and background; tail: "
       "the mean of the top 5 %",
       kRegistersCondition, kLayersCondition},
      {Table("Scheduling latency, cycles",
             {"background", "event", "way", "events", "mean", "least", "tail",
              "most"},
             rows),
       Table("What victims wait for",
             {"background", "way", "preemptions", "mean cycles",
              "at a barrier, % of them", "in the pipeline, % of them",
              "victims at a barrier, %"},
             victims)},
      summary, panels);
}

// EDGE VI-A's launch latencies with the scheduling latencies of Fig. 12.
Json Fig1(const Results& results, const ExperimentOptions& options) {
  constexpr double kCudaMicroseconds = 5.0;
  constexpr double kEdgeMicroseconds = 1.1;
  constexpr double kCyclesPerMicrosecond = 700;
  const auto all = [](std::string_view) { return true; };
  const auto scheduling = [&](std::string_view path) {
    return Mean(AverageOf(results, options, path, all).means).value_or(0) /
           kCyclesPerMicrosecond;
  };
  struct Way {
    const char* name;
    double launch, scheduling;
  };
  const Way ways[] = {
      {"baseline", kCudaMicroseconds, scheduling(kDraining)},
      {"EDGE without preemption", kEdgeMicroseconds, scheduling(kDraining)},
      {"EDGE", kEdgeMicroseconds, scheduling(kPreemption)},
  };
  Json rows = Json::array();
  Json groups = Json::array();
  Json launch = Json::array();
  Json wait = Json::array();
  for (const Way& way : ways) {
    rows.push_back({way.name, Number(way.launch), Number(way.scheduling),
                    Number(way.launch + way.scheduling)});
    groups.push_back(way.name);
    launch.push_back(way.launch);
    wait.push_back(way.scheduling);
  }
  const auto against = [&](const Way& way) {
    return Number((way.launch + way.scheduling) /
                  (ways[2].launch + ways[2].scheduling));
  };
  const Json panel{
      {"title", "mean latency until an event's first instruction, us"},
      {"log", false},
      {"stacked", true},
      {"groups", groups},
      {"bars", Json::array({Bar("launch", launch), Bar("scheduling", wait)})}};
  return Figure(
      {"launch latencies are EDGE's estimates: 5 us by CUDA, 1.1 us by a "
       "doorbell; scheduling latencies are the means of Fig. 12"},
      Json::array({Table("Microseconds",
                         {"way", "launch", "scheduling", "together"}, rows)}),
      {SummaryRow("EDGE over the baseline", "x", 3.14, against(ways[0])),
       SummaryRow("EDGE over EDGE without preemption", "x", 2.06,
                  against(ways[1]))},
      Json::array({panel}));
}

}  // namespace carillon::sim::figures
