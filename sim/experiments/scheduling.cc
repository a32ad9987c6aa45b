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

// "CONV1, 28 registers"
std::string TitleOf(const Beside& beside) {
  return beside.registers == 0
             ? std::string(beside.background)
             : fmt::format("{}, {} registers", beside.background,
                           beside.registers);
}

// Events end at once, and IPv4 and IPv6 have the same registers: their runs
// would be the same, so there is only one.
std::string_view EventOfRun(std::string_view event) {
  return event == "IPv6" ? "IPv4" : event;
}

std::string NameOf(const Beside& beside, std::string_view event,
                   std::string_view way, uint32_t run) {
  return fmt::format("fig12/{}/{}/{}/{}/{}", beside.background,
                     beside.registers, EventOfRun(event), way, run);
}

std::vector<double> Latencies(const Results& results, const Beside& beside,
                              std::string_view event, std::string_view way) {
  std::vector<const Json*> runs;
  for (uint32_t run = 0; run < kRuns; ++run) {
    const auto found = results.find(NameOf(beside, event, way, run));
    if (found != results.end()) runs.push_back(&found->second);
  }
  return Samples(runs, "/events/scheduling");
}

// The means and tails of all pairs of event and background.
struct Latency {
  PairValues means, tails;
};

// Those of a way, in the order of the pairs, where CONV1 and MM have so many
// registers; kPreemption's where the way does not differ.
template <class Of>
Latency LatencyOf(const Results& results, const ExperimentOptions& options,
                  uint32_t layer_registers, std::string_view way, Of of) {
  Latency latency;
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      if (!of(background)) continue;
      const std::vector<double> cycles =
          Latencies(results, BesideAt(background, layer_registers), event,
                    Has(background, event, way) ? way : kPreemption);
      latency.means.push_back(Mean(cycles));
      latency.tails.push_back(Tail(cycles));
    }
  }
  return latency;
}

bool All(std::string_view) { return true; }
bool Layers(std::string_view background) {
  return background == "CONV1" || background == "MM";
}

// Shows what victims wait for before they can leave, over all events and runs.
Json VictimRow(const Results& results, const ExperimentOptions& options,
               const Beside& beside, std::string_view way) {
  double preemptions = 0, cycles = 0, barriers = 0, pipeline = 0, skipped = 0;
  for (const std::string_view event : FigureEvents(options)) {
    for (uint32_t run = 0; run < RunsOf(way, options); ++run) {
      const Json& totals =
          results.at(NameOf(beside, event, way, run))["statistics"];
      preemptions += totals["preemptions"].get<double>();
      cycles += totals["flush_cycles"].get<double>();
      barriers += totals["flush_waits"]["Barrier"].get<double>();
      pipeline += totals["flush_waits"]["Pipeline"].get<double>();
      skipped += totals["barriers_skipped"].get<double>();
    }
  }
  return {beside.background,
          RegistersCell(beside),
          TitleOf(way),
          preemptions,
          Number(Ratio(cycles, preemptions)),
          Number(Ratio(100 * barriers, cycles)),
          Number(Ratio(100 * pipeline, cycles)),
          way == kSkip ? Number(Ratio(100 * skipped, preemptions)) : Json()};
}

// Sets preemption beside draining for one pair.
Json PairRow(const Results& results, const Beside& beside,
             std::string_view event) {
  const std::vector<double> draining =
      Latencies(results, beside, event, kDraining);
  const std::vector<double> preemption =
      Latencies(results, beside, event, kPreemption);
  const auto slow = Mean(draining);
  const auto fast = Mean(preemption);
  return {beside.background,
          RegistersCell(beside),
          event,
          Number(slow),
          Number(fast),
          Number(Ratio(slow, fast)),
          Number(Ratio(Tail(draining), Tail(preemption))),
          slow < fast   ? "loses"
          : slow > fast ? "wins"
                        : "draws"};
}

// A row for each comparison of draining with a way that preempts.
struct Comparisons {
  Json summary = Json::array();
  Json rows = Json::array();

  void Add(uint32_t registers, const std::string& what, double paper,
           const Ratios& ratios) {
    summary.push_back(
        SummaryRow(fmt::format("{} registers: preemption over draining, {}",
                               registers, what),
                   paper, ratios));
    rows.push_back({registers, what});
    AppendRatios(rows.back(), ratios);
  }
};

Comparisons Compare(const Results& results, const ExperimentOptions& options) {
  struct Comparison {
    const char* of;
    std::string_view way;
    bool (*has)(std::string_view background);
    double paper_mean, paper_tail;
  };
  constexpr Comparison kComparisons[] = {
      {"all", kPreemption, &All, 2.6, 2.9},
      {"CONV1 and MM", kPreemption, &Layers, 115.7, 68.4},
      {"CONV1 and MM, barriers skipped", kSkip, &Layers, 115.7, 68.4},
      {"all, with more registers than the victim's", kLarger, &All, 96.4, 53.8},
  };
  Comparisons made;
  for (const Comparison& comparison : kComparisons) {
    for (const uint32_t registers : kLayerRegisters) {
      const Latency draining =
          LatencyOf(results, options, registers, kDraining, comparison.has);
      const Latency preemption = LatencyOf(results, options, registers,
                                           comparison.way, comparison.has);
      made.Add(registers, fmt::format("mean, {}", comparison.of),
               comparison.paper_mean,
               RatiosOf(draining.means, preemption.means));
      made.Add(registers, fmt::format("tail, {}", comparison.of),
               comparison.paper_tail,
               RatiosOf(draining.tails, preemption.tails));
    }
  }
  for (const uint32_t registers : kLayerRegisters) {
    const Latency draining =
        LatencyOf(results, options, registers, kDraining, &All);
    const Latency preemption =
        LatencyOf(results, options, registers, kPreemption, &All);
    size_t slower = 0;
    for (size_t i = 0; i < draining.means.size(); ++i) {
      slower += draining.means[i] < preemption.means[i];
    }
    made.summary.push_back(SummaryRow(
        fmt::format("{} registers: preemption is slower than draining",
                    registers),
        fmt::format("of {} pairs", draining.means.size()), Json(), slower));
  }
  return made;
}

}  // namespace

std::vector<Job> Fig12Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  const auto add = [&](const Beside& beside, std::string_view event,
                       std::string_view way, uint32_t run) {
    Job job = MakeJob(NameOf(beside, event, way, run), options);
    job.background = beside.background;
    job.background_registers = beside.registers;
    job.event = EventOfRun(event);
    job.skip_body = true;
    job.registers = EventRegisters(event);
    job.arrivals = {2000, 5000, 1};
    if (options.quick) job.arrivals = {200, 500, 1};
    job.overrides.emplace_back("edge.path",
                               way == kDraining ? "tb_scheduler" : "warp");
    if (way == kLarger) job.overrides.emplace_back("edge.larger_events", "1");
    if (way == kSkip) job.overrides.emplace_back("edge.skip_barriers", "1");
    job.seed = options.seed + run;
    jobs.push_back(std::move(job));
  };
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const Beside& beside : BesidesOf(background)) {
      for (const std::string_view event : FigureEvents(options)) {
        if (event == "IPv6" && !options.quick) continue;
        for (const std::string_view way : kWays) {
          if (!Has(background, event, way)) continue;
          for (uint32_t run = 0; run < RunsOf(way, options); ++run) {
            add(beside, event, way, run);
          }
        }
      }
    }
  }
  return jobs;
}

Json Fig12(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json pairs = Json::array();
  Json victims = Json::array();
  Json panels = Json::array();
  const auto add = [&](const Beside& beside) {
    for (const std::string_view way : {kPreemption, kSkip}) {
      if (!Has(beside.background, "", way)) continue;
      victims.push_back(VictimRow(results, options, beside, way));
    }
    Json groups = Json::array();
    std::vector<std::string_view> shown = {kDraining, kPreemption};
    if (Has(beside.background, "", kSkip)) shown.push_back(kSkip);
    std::vector<Json> bars(shown.size());
    for (const std::string_view event : FigureEvents(options)) {
      groups.push_back(event);
      pairs.push_back(PairRow(results, beside, event));
      for (const std::string_view way : kWays) {
        const std::vector<double> latencies =
            Latencies(results, beside, event, way);
        if (latencies.empty()) continue;
        const double least = *std::ranges::min_element(latencies);
        const double most = *std::ranges::max_element(latencies);
        rows.push_back({beside.background, RegistersCell(beside), event,
                        TitleOf(way), latencies.size(), Number(Mean(latencies)),
                        Number(Median(latencies)), least,
                        Number(Tail(latencies)), most});
        const auto place = std::ranges::find(shown, way);
        if (place == shown.end()) continue;
        Json& bar = bars[static_cast<size_t>(place - shown.begin())];
        bar["label"] = TitleOf(way);
        bar["values"].push_back(*Mean(latencies));
        bar["low"].push_back(least);
        bar["high"].push_back(most);
      }
    }
    panels.push_back(
        Panel(fmt::format("{}: mean scheduling latency, cycles (line: least to "
                          "most)",
                          TitleOf(beside)),
              true, groups, bars));
  };
  Json pair_groups = Json::array();
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const Beside& beside : BesidesOf(background)) add(beside);
    for (const std::string_view event : FigureEvents(options)) {
      pair_groups.push_back(fmt::format("{}\n{}", background, event));
    }
  }
  Json pair_bars = Json::array();
  for (const uint32_t registers : kLayerRegisters) {
    const Latency draining =
        LatencyOf(results, options, registers, kDraining, &All);
    const Latency preemption =
        LatencyOf(results, options, registers, kPreemption, &All);
    Json values = Json::array();
    for (size_t i = 0; i < draining.means.size(); ++i) {
      values.push_back(Number(Ratio(draining.means[i], preemption.means[i])));
    }
    pair_bars.push_back(
        Bar(fmt::format("CONV1 and MM with {} registers", registers), values));
  }
  panels.push_back(
      Panel("draining's mean over preemption's (below 1: preemption is slower)",
            true, pair_groups, pair_bars));

  Comparisons comparisons = Compare(results, options);
  Json ratio_columns{"registers", "draining over preemption"};
  AppendColumns(ratio_columns, kRatioColumns);
  return Figure(
      {"one event at a time, which ends at once; a tick every U(2000, "
       "5000) cycles; 3 runs of each background, with seeds of their own",
       "barriers skipped: all optimisations of Fig. 11, in one run of "
       "CONV1, MM and BP; the papers' Fig. 12 skips none",
       "the papers' averages: ratios of means over pairs of event and "
       "background, which the pair with the longest draining decides; beside "
       "them the median and the geometric mean of the pairs' own ratios; "
       "tail: the mean of the top 5 %",
       kRegistersCondition, kBothRegistersCondition},
      {Table("Scheduling latency, cycles",
             {"background", "registers", "event", "way", "events", "mean",
              "median", "least", "tail", "most"},
             rows),
       Table("Each pair",
             {"background", "registers", "event", "draining", "preemption",
              "ratio of means", "ratio of tails", "preemption, in the mean"},
             pairs),
       Table("All pairs", ratio_columns, comparisons.rows),
       Table("What victims wait for",
             {"background", "registers", "way", "preemptions", "mean cycles",
              "at a barrier, % of them", "in the pipeline, % of them",
              "victims at a barrier, %"},
             victims)},
      comparisons.summary, panels);
}

// EDGE VI-A's launch latencies with the scheduling latencies of Fig. 12.
Json Fig1(const Results& results, const ExperimentOptions& options) {
  constexpr double kCudaMicroseconds = 5.0;
  constexpr double kEdgeMicroseconds = 1.1;
  constexpr double kCyclesPerMicrosecond = 700;
  struct Way {
    const char* name;
    double paper;  // EDGE over it
    double launch;
    std::string_view scheduling;
  };
  constexpr Way kWays[] = {
      {"baseline", 3.14, kCudaMicroseconds, kDraining},
      {"EDGE without preemption", 2.06, kEdgeMicroseconds, kDraining},
      {"EDGE", 1, kEdgeMicroseconds, kPreemption},
  };
  Json rows = Json::array();
  Json groups = Json::array();
  Json launch = Json::array();
  Json wait = Json::array();
  Json summary = Json::array();
  for (const uint32_t registers : kLayerRegisters) {
    // Launch and scheduling of each pair.
    std::vector<PairValues> together;
    for (const Way& way : kWays) {
      const PairValues cycles =
          LatencyOf(results, options, registers, way.scheduling, &All).means;
      PairValues& sums = together.emplace_back();
      for (const auto& one : cycles) {
        sums.push_back(one);
        if (one.has_value()) {
          sums.back() = way.launch + *one / kCyclesPerMicrosecond;
        }
      }
      const double mean =
          Mean(Present(cycles)).value_or(0) / kCyclesPerMicrosecond;
      rows.push_back({registers, way.name, Number(way.launch), Number(mean)});
      AppendAverages(rows.back(), sums);
      groups.push_back(fmt::format("{}\n{} registers", way.name, registers));
      launch.push_back(way.launch);
      wait.push_back(mean);
    }
    for (size_t i = 0; i < 2; ++i) {
      summary.push_back(
          SummaryRow(fmt::format("{} registers: EDGE over {}", registers,
                                 i == 0 ? "the baseline" : kWays[i].name),
                     kWays[i].paper, RatiosOf(together[i], together[2])));
    }
  }
  const Json panel{
      {"title", "mean latency until an event's first instruction, us"},
      {"log", false},
      {"stacked", true},
      {"groups", groups},
      {"bars", Json::array({Bar("launch", launch), Bar("scheduling", wait)})}};
  Json columns{"registers", "way", "launch", "scheduling, mean"};
  AppendColumns(columns, kAverageColumns, "together");
  return Figure(
      {"launch latencies are EDGE's estimates: 5 us by CUDA, 1.1 us by a "
       "doorbell; scheduling latencies are the means of Fig. 12's pairs",
       kBothRegistersCondition},
      Json::array({Table("Microseconds", columns, rows)}), summary,
      Json::array({panel}));
}

}  // namespace carillon::sim::figures
