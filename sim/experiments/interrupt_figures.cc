// Figs. 5.13 and 5.15 of the thesis: interrupts beside backgrounds, and how
// long their routine takes.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

constexpr std::string_view kAlone = "isolated/routine";

Job RoutineAlone(const ExperimentOptions& options) {
  Job job = MakeJob(std::string(kAlone), options);
  job.event = "routine";
  // Each SM gets more than two, so that most routines find their code in its
  // i-cache.
  job.events = 64;
  return job;
}

std::vector<double> Routines(const Results& results, std::string_view name) {
  return SamplesOf(results, name, "/events/routine");
}

double RoutineAloneCycles(const Results& results) {
  std::vector<double> cycles = Routines(results, kAlone);
  std::ranges::sort(cycles);
  return cycles[cycles.size() / 2];
}

// Fig. 5.13.

// The short ones of the thesis's backgrounds, since each has 25 runs.
std::span<const std::string_view> Backgrounds(
    const ExperimentOptions& options) {
  static constexpr std::string_view kAll[] = {"BP",   "BFS",   "LUD",
                                              "SRAD", "HRTWL", "HOTSP"};
  return std::span(kAll).first(options.quick ? 2 : std::size(kAll));
}

struct Victim {
  const char* name;
  const char* policy;
};
constexpr Victim kVictims[] = {{"Newest", "newest"},
                               {"Oldest", "oldest"},
                               {"Dedicated", "dedicated"},
                               {"Reserved", "reserved"}};

struct Load {
  const char* name;
  timing::Cycle period;
  uint64_t turns;  // of the routine's loop
};
// The loop turns for 15 and 212 times the time of the routine alone, which
// takes 76 cycles with its code in the i-cache, and 18 more for each turn.
constexpr uint64_t kShort = 59;
constexpr uint64_t kLong = 890;
constexpr Load kLoads[] = {
    {"slow-as it is", 10000, 0},   {"fast-as it is", 1500, 0},
    {"slow-short", 10000, kShort}, {"fast-short", 1500, kShort},
    {"fast-long", 1500, kLong},    {"slow-long", 10000, kLong},
};

std::string NameOf(const Load& load, const Victim& victim,
                   std::string_view background) {
  return JobName("th5.13/{}/{}/{}", load.name, victim.name, background);
}

// Fig. 5.15.

struct Rate {
  const char* name;
  timing::Cycle period;  // of events of 32 requests, at 700 MHz
};
constexpr Rate kRates[] = {{"2.5 MRPS", 8960}, {"4 MRPS", 5600}};
constexpr const char* kPriorities[] = {"P1", "P2"};
constexpr uint32_t kLines = 3;  // of the i-cache

std::string NameOf(const Rate& rate, std::string_view priority, bool reserve) {
  return JobName("th5.15/{}/{}/{}", rate.name, priority,
                 reserve ? "reserved" : "not");
}

}  // namespace

std::vector<Job> Th5_13Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs = {RoutineAlone(options)};
  for (const std::string_view background : Backgrounds(options)) {
    jobs.push_back(IsolatedJob(background, options));
    for (const Load& load : kLoads) {
      for (const Victim& victim : kVictims) {
        Job job = MakeJob(NameOf(load, victim, background), options);
        job.background = background;
        job.event = "routine";
        job.busy_steps = load.turns;
        const timing::Cycle period = load.period / (options.quick ? 10 : 1);
        // As many as the tables of all SMs hold.
        job.arrivals = {period, period, 64};
        job.overrides.emplace_back("edge.victim", victim.policy);
        job.overrides.emplace_back("edge.skip_barriers", "1");
        job.overrides.emplace_back("edge.reserve_registers", "8");
        jobs.push_back(std::move(job));
      }
    }
  }
  return jobs;
}

Json Th5_13(const Results& results, const ExperimentOptions& options) {
  const double alone = RoutineAloneCycles(results);
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = EmptyBars(kVictims, &Victim::name);
  Json summary = Json::array();
  Json columns{"interrupts", "victim"};
  for (const std::string_view background : Backgrounds(options)) {
    columns.push_back(background);
  }
  AppendColumns(columns, kAverageColumns);
  for (const char* column : {"routine, cycles", "to the one alone"}) {
    columns.push_back(column);
  }
  for (const Load& load : kLoads) {
    groups.push_back(load.name);
    for (size_t i = 0; i < std::size(kVictims); ++i) {
      Json row{load.name, kVictims[i].name};
      std::vector<double> ipcs, cycles;
      for (const std::string_view background : Backgrounds(options)) {
        const std::string name = NameOf(load, kVictims[i], background);
        ipcs.push_back(CyclesAlone(results, background) /
                       CyclesOf(results, name));
        row.push_back(Number(ipcs.back()));
        std::ranges::move(Routines(results, name), std::back_inserter(cycles));
      }
      const Json mean = Number(Mean(ipcs));
      AppendAverages(row, ipcs);
      row.push_back(Number(Mean(cycles)));
      row.push_back(Number(Ratio(Mean(cycles), alone)));
      rows.push_back(std::move(row));
      bars[i]["values"].push_back(mean);
      summary.push_back(SummaryRow(
          fmt::format("IPC, {}, {}", load.name, kVictims[i].name), "x", Json(),
          mean, Number(Median(ipcs)), Number(GeometricMean(ipcs))));
    }
  }
  return Figure(
      {"an interrupt every 10,000 (slow) or 1,500 cycles (fast), 64 at once "
       "at "
       "most, whose routine launches nothing; short and long: its loop makes "
       "it 15 and 212 times as long as it is alone",
       "IPC: the cycles of the background without interrupts, and nothing "
       "reserved, over those beside them; the routine's cycles from its first "
       "warp's start to its end",
       "all optimisations; Dedicated is the SM's first warp slot, where the "
       "thesis has hardware besides; Reserved keeps a warp, a block and 8 "
       "registers a thread of each SM",
       "six of the thesis's ten backgrounds; it has a plot from 0.6 to 1 and "
       "no numbers: hardly any effect of short ones but by Reserved, much "
       "more of long ones, less of it with Dedicated and Reserved"},
      Json::array({Table("IPC of backgrounds relative to no interrupts",
                         columns, rows)}),
      summary,
      Json::array({Panel("mean IPC of backgrounds relative to no interrupts",
                         false, groups, bars)}));
}

std::vector<Job> Th5_15Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs = {RoutineAlone(options)};
  for (const Rate& rate : kRates) {
    for (const char* priority : kPriorities) {
      for (const bool reserve : {false, true}) {
        Job job = MakeJob(NameOf(rate, priority, reserve), options);
        job.background = "CONV1";
        job.event = "MemC";
        job.interrupts = true;
        const timing::Cycle period = rate.period / (options.quick ? 10 : 1);
        job.arrivals = {period, period, 16};
        // As in Fig. 5.16.
        job.most_cycles = 6'000'000;
        job.overrides.emplace_back(
            "edge.event_priority",
            std::string_view(priority) == "P1" ? "p1" : "p2");
        job.overrides.emplace_back("edge.reserve_icache_lines",
                                   std::to_string(reserve ? kLines : 0));
        jobs.push_back(std::move(job));
      }
    }
  }
  return jobs;
}

Json Th5_15(const Results& results, const ExperimentOptions&) {
  const double alone = RoutineAloneCycles(results);
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = EmptyBars(kRates, &Rate::name);
  std::vector<double> without;    // times the routine alone
  std::vector<double> reduction;  // by the reservation: P1, then P2
  for (const char* priority : kPriorities) {
    for (const bool reserve : {false, true}) {
      groups.push_back(fmt::format("{}\n{}", priority,
                                   reserve ? "reserved" : "not reserved"));
    }
    for (size_t i = 0; i < std::size(kRates); ++i) {
      std::optional<double> means[2];
      for (const bool reserve : {false, true}) {
        const std::vector<double> cycles =
            Routines(results, NameOf(kRates[i], priority, reserve));
        const auto mean = Mean(cycles);
        means[reserve] = mean;
        const Json relative = Number(Ratio(mean, alone));
        bars[i]["values"].push_back(relative);
        rows.push_back({kRates[i].name, priority,
                        reserve ? "reserved" : "not reserved", cycles.size(),
                        Number(mean), Number(Tail(cycles)), relative});
      }
      without.push_back(means[0].value_or(0) / alone);
      reduction.push_back(Ratio(means[0], means[1]).value_or(0));
    }
  }
  const auto [least, most] = std::ranges::minmax(without);
  const auto [low, high] = std::minmax(reduction[0], reduction[1]);
  return Figure(
      {"MemC events of 32 requests beside CONV1, 16 at most at once, each by "
       "an interrupt, whose routine rings it; 2.5 MRPS is one every 8,960 "
       "cycles, 4 MRPS one every 5,600",
       "the routine's cycles from its first warp's start to its end, in the "
       "mean, relative to the routine on an idle GPU with its code in the "
       "i-cache",
       fmt::format("reserved: {} lines of each SM's i-cache", kLines),
       kLayersCondition},
      Json::array({Table("The routine's run time",
                         {"rate", "priority", "i-cache", "routines", "cycles",
                          "tail", "to the one alone"},
                         rows)}),
      {SummaryRow("not reserved, over alone, the least", "x", 100,
                  Number(least)),
       SummaryRow("not reserved, over alone, the most", "x", 200, Number(most)),
       SummaryRow("P1: less by the reservation, one rate", "x", 20,
                  Number(low)),
       SummaryRow("P1: less by the reservation, the other", "x", 45,
                  Number(high)),
       SummaryRow("P2, 2.5 MRPS: less by the reservation", "x", 80,
                  Number(reduction[2]))},
      Json::array({Panel("run time of the routine relative to the one alone",
                         true, groups, bars)}));
}

}  // namespace carillon::sim::figures
