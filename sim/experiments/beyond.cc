// Dynamic reservation with preemption, which EDGE left to future work. Its rule
// is fixed on one half of the pairs and judged by others, with other seeds.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/metrics.h"
#include "sim/experiments/multiprogramming.h"

namespace carillon::sim::figures {
namespace {

// The rules to choose from: events get n / (n + load) of the SMs, for n of them
// under way, and eight at most.
constexpr Way kRules[] = {
    {"n / (n + 1)", "warp", 8, false, 1},
    {"n / (n + 2)", "warp", 8, false, 2},
    {"n / (n + 4)", "warp", 8, false, 4},
    {"n / (n + 8)", "warp", 8, false, 8},
};
// The one that beyond_rule chose. docs/sim_calibration.md says when.
constexpr Way kDynamic{"dynamic + preemption", "warp", 8, false, 2};
constexpr Way kSpreadReservationOf4{"reservation of 4, spread", "tb_scheduler",
                                    4, true};
// Static reservation without its handicap, the shared turn (Fig. 13).
constexpr const Way* kOthers[] = {&kDraining, &kSpreadReservation,
                                  &kSpreadReservationOf4, &kPreemption};
constexpr uint32_t kSeeds = 3;  // of the pairs that are held out

// Backgrounds that no reservation of SMs had been run with when the rule was
// fixed: of Fig. 11's and the thesis's the four that end soonest.
constexpr std::string_view kUnseen[] = {"HOTSP", "HRTWL", "SC", "SRAD"};

struct Pair {
  std::string_view background, event;
};

// Backgrounds and events in the order of the alphabet.
constexpr std::string_view kSeen[] = {"BFS", "BP", "CONV1", "MM"};
constexpr std::string_view kEvents[] = {"IPSec", "IPv4", "IPv6", "MemC"};

// The pairs whose ranks in the alphabet, of the background and of the event,
// have an even sum, or an odd one. So each half has half of the pairs of each
// background and of each event, and which has nothing to do with any outcome.
std::vector<Pair> Half(std::span<const std::string_view> backgrounds, bool odd,
                       const ExperimentOptions& options) {
  const auto has = [](std::span<const std::string_view> names,
                      std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::vector<Pair> pairs;
  for (size_t b = 0; b < backgrounds.size(); ++b) {
    const bool small = has(FigureBackgrounds(options), backgrounds[b]) ||
                       backgrounds[b] == kUnseen[0];
    if (options.quick && !small) continue;
    for (size_t e = 0; e < std::size(kEvents); ++e) {
      if (!has(FigureEvents(options), kEvents[e])) continue;
      if ((b + e) % 2 == (odd ? 1 : 0)) {
        pairs.push_back({backgrounds[b], kEvents[e]});
      }
    }
  }
  return pairs;
}

struct Part {
  const char* name;
  std::vector<Pair> pairs;
  // Each with all pairs; 0 is the seed of the options.
  std::vector<uint32_t> more_seeds;
  // The numbers of registers that CONV1 and MM get, if they are in it.
  std::vector<uint32_t> registers;
};

std::vector<uint32_t> AllRegisters() {
  return {std::begin(kLayerRegisters), std::end(kLayerRegisters)};
}

Part RulePart(const ExperimentOptions& options) {
  return {"the rule's half",
          Half(kSeen, /*odd=*/false, options),
          {0},
          AllRegisters()};
}

std::vector<Part> HeldOutParts(const ExperimentOptions& options) {
  std::vector<uint32_t> seeds;
  for (uint32_t seed = 1; seed <= (options.quick ? 2 : kSeeds); ++seed) {
    seeds.push_back(seed);
  }
  return {{"the other half", Half(kSeen, /*odd=*/true, options), seeds,
           AllRegisters()},
          {"other backgrounds",
           Half(kUnseen, /*odd=*/true, options),
           seeds,
           {kLayerRegisters[0]}}};
}

// For one way, what came of each pair and seed of a part.
std::vector<MixOutcome> OutcomesOf(const Results& results, const Part& part,
                                   const Rate& rate, const Way& way,
                                   uint32_t registers) {
  std::vector<MixOutcome> outcomes;
  for (const Pair& pair : part.pairs) {
    for (const uint32_t seed : part.more_seeds) {
      outcomes.push_back(OutcomeOf(
          results,
          MixAt(rate, pair.background, pair.event, way, registers, seed)));
    }
  }
  return outcomes;
}

PairValues AnttsOf(const std::vector<MixOutcome>& outcomes) {
  PairValues antts;
  for (const MixOutcome& outcome : outcomes) antts.push_back(outcome.antt);
  return antts;
}

void AddAverages(const std::vector<MixOutcome>& outcomes, Json& row) {
  PairValues events, backgrounds;
  for (const MixOutcome& outcome : outcomes) {
    events.push_back(outcome.event_slowdown);
    backgrounds.push_back(outcome.background_slowdown);
  }
  AppendAverages(row, events);
  AppendAverages(row, backgrounds);
  AppendAverages(row, AnttsOf(outcomes));
}

// The least and the most, if there are any.
struct Range {
  std::optional<double> least, most;
};
Range RangeOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  return {std::ranges::min(values), std::ranges::max(values)};
}

Json AverageColumns(Json columns) {
  AppendColumns(columns, kAverageColumns, "events");
  AppendColumns(columns, kAverageColumns, "backgrounds");
  AppendColumns(columns, kAverageColumns, "ANTT");
  return columns;
}

void AddPartJobs(const Part& part, std::span<const Way* const> ways,
                 const ExperimentOptions& options, std::vector<Job>* jobs) {
  for (const Rate& rate : kRates) {
    for (const Pair& pair : part.pairs) {
      for (const uint32_t registers : part.registers) {
        for (const Way* way : ways) {
          for (const uint32_t seed : part.more_seeds) {
            AddJobs(
                MixAt(rate, pair.background, pair.event, *way, registers, seed),
                options, jobs);
          }
        }
      }
    }
  }
}

std::vector<const Way*> WaysWith(std::span<const Way> more) {
  std::vector<const Way*> ways(std::begin(kOthers), std::end(kOthers));
  for (const Way& way : more) ways.push_back(&way);
  return ways;
}

// Each pair of a part: the median of its seeds, and the least and the most.
void AddPairRows(const Results& results, const Part& part,
                 std::span<const Way* const> ways, Json& rows) {
  for (const Rate& rate : kRates) {
    for (const Pair& pair : part.pairs) {
      for (const Way* way : ways) {
        std::vector<Beside> besides;
        for (const uint32_t registers : part.registers) {
          const Mix mix =
              MixAt(rate, pair.background, pair.event, *way, registers);
          if (std::ranges::find(besides, mix.beside) != besides.end()) continue;
          besides.push_back(mix.beside);
          const Part one{part.name, {pair}, part.more_seeds, {}};
          const std::vector<double> antts =
              Present(AnttsOf(OutcomesOf(results, one, rate, *way, registers)));
          const Range range = RangeOf(antts);
          rows.push_back({part.name, rate.name, pair.background,
                          RegistersCell(mix.beside), pair.event, way->name,
                          antts.size(), Number(Median(antts)),
                          Number(range.least), Number(range.most)});
        }
      }
    }
  }
}

Json PairTable(Json rows) {
  return Table("ANTT of each pair",
               {"part", "rate", "background", "registers", "event", "way",
                "seeds", "median", "least", "most"},
               std::move(rows));
}

}  // namespace

std::vector<Job> BeyondRuleJobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  AddPartJobs(RulePart(options), WaysWith(kRules), options, &jobs);
  return jobs;
}

Json BeyondRule(const Results& results, const ExperimentOptions& options) {
  const Part part = RulePart(options);
  const std::vector<const Way*> ways = WaysWith(kRules);
  Json rows = Json::array();
  Json pair_rows = Json::array();
  Json summary = Json::array();
  Json groups = Json::array();
  Json bars = Json::array();
  for (const Rate& rate : kRates) {
    for (const uint32_t registers : part.registers) {
      groups.push_back(
          fmt::format("{} rate\n{} registers", rate.name, registers));
    }
  }
  const Way* best = nullptr;
  double least = 0;
  for (const Way* way : ways) {
    std::vector<double> all;  // ANTTs of both rates and numbers of registers
    Json values = Json::array();
    for (const Rate& rate : kRates) {
      for (const uint32_t registers : part.registers) {
        const std::vector<MixOutcome> outcomes =
            OutcomesOf(results, part, rate, *way, registers);
        rows.push_back({rate.name, registers, way->name});
        AddAverages(outcomes, rows.back());
        const std::vector<double> antts = Present(AnttsOf(outcomes));
        values.push_back(Number(GeometricMean(antts)));
        all.insert(all.end(), antts.begin(), antts.end());
      }
    }
    bars.push_back(Bar(way->name, values));
    const double mean = GeometricMean(all).value_or(0);
    summary.push_back(SummaryRow(fmt::format("ANTT, {}", way->name), "x",
                                 Json(), Number(Mean(all)), Number(Median(all)),
                                 Number(mean)));
    if (way->dynamic_load != 0 && (best == nullptr || mean < least)) {
      best = way;
      least = mean;
    }
  }
  AddPairRows(results, part, ways, pair_rows);
  summary.push_back(SummaryRow("events that all else weighs, of the best rule",
                               "events", Json(), best->dynamic_load));
  summary.push_back(SummaryRow("the same, of the rule that beyond judges",
                               "events", Json(), kDynamic.dynamic_load));
  return Figure(
      {"the pairs of Fig. 13 whose ranks in the alphabet, of the background "
       "and of the event, have an even sum; one seed",
       "a rule: n events under way get n / (n + weight) of the SMs, eight at "
       "most, and preempt where these have no room; the best one has the least "
       "geometric mean of ANTTs, over these pairs, both rates, and both "
       "numbers of registers of CONV1 and MM",
       kRatesCondition, kSlowdownCondition, kOwnSmsCondition,
       kRegistersCondition, kBothRegistersCondition},
      {Table("All of these pairs", AverageColumns({"rate", "registers", "way"}),
             rows),
       PairTable(pair_rows)},
      summary,
      Json::array({Panel("geometric mean of ANTT", false, groups, bars)}));
}

std::vector<Job> BeyondJobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Part& part : HeldOutParts(options)) {
    AddPartJobs(part, WaysWith({&kDynamic, 1}), options, &jobs);
  }
  return jobs;
}

Json Beyond(const Results& results, const ExperimentOptions& options) {
  const std::vector<const Way*> ways = WaysWith({&kDynamic, 1});
  Json rows = Json::array();
  Json ratio_rows = Json::array();
  Json pair_rows = Json::array();
  Json summary = Json::array();
  Json panels = Json::array();
  for (const Part& part : HeldOutParts(options)) {
    AddPairRows(results, part, ways, pair_rows);
    for (const uint32_t registers : part.registers) {
      // Only Fig. 13's half has CONV1 and MM.
      const std::string title =
          part.registers.size() == 1
              ? part.name
              : fmt::format("{}, {} registers", part.name, registers);
      Json groups = Json::array();
      Json bars = Json::array();
      for (const Way* way : ways) {
        bars.push_back({{"label", way->name},
                        {"values", Json::array()},
                        {"low", Json::array()},
                        {"high", Json::array()}});
      }
      for (const Rate& rate : kRates) {
        groups.push_back(fmt::format("{} rate", rate.name));
        const PairValues dynamic =
            AnttsOf(OutcomesOf(results, part, rate, kDynamic, registers));
        for (size_t i = 0; i < ways.size(); ++i) {
          const std::vector<MixOutcome> outcomes =
              OutcomesOf(results, part, rate, *ways[i], registers);
          const PairValues pairs = AnttsOf(outcomes);
          const std::vector<double> antts = Present(pairs);
          const Range range = RangeOf(antts);
          rows.push_back({title, rate.name, ways[i]->name, antts.size()});
          AddAverages(outcomes, rows.back());
          rows.back().push_back(Number(range.least));
          rows.back().push_back(Number(range.most));
          bars[i]["values"].push_back(Number(Median(antts)));
          bars[i]["low"].push_back(Number(range.least));
          bars[i]["high"].push_back(Number(range.most));
          if (ways[i] == &kDynamic) continue;
          const Ratios ratios = RatiosOf(pairs, dynamic);
          ratio_rows.push_back({title, rate.name, ways[i]->name});
          AppendRatios(ratio_rows.back(), ratios);
          summary.push_back(
              SummaryRow(fmt::format("{}: {}: ANTT, dynamic + preemption over "
                                     "{}",
                                     title, rate.name, ways[i]->name),
                         Json(), ratios));
        }
      }
      panels.push_back(
          Panel(fmt::format("{}: median of ANTT (line: least to most)", title),
                false, groups, bars));
    }
  }
  Json columns = AverageColumns({"part", "rate", "way", "runs"});
  columns.push_back("ANTT: least");
  columns.push_back("ANTT: most");
  Json ratio_columns{"part", "rate", "dynamic + preemption over"};
  AppendColumns(ratio_columns, kRatioColumns);
  return Figure(
      {fmt::format(
           "the other half: the pairs of Fig. 13 whose ranks in the alphabet, "
           "of the background and of the event, have an odd sum; other "
           "backgrounds: half of the pairs of four that were not used when the "
           "rule was made, by the same count; {} seeds, none of which is the "
           "rule's, with events that begin at a time of their own",
           HeldOutParts(options)[0].more_seeds.size()),
       fmt::format("dynamic: n events under way get n / (n + {}) of the SMs, "
                   "eight at most, and preempt where these have no room, the "
                   "rule that beyond_rule fixed on its half",
                   kDynamic.dynamic_load),
       "reservation: 8 of the 16 SMs take events only, or 4, to which single "
       "events go in turn; the other turn of Fig. 13 would be a handicap",
       "a ratio above 1: dynamic reservation has the lower ANTT",
       kRatesCondition, kSlowdownCondition, kOwnSmsCondition,
       kRegistersCondition, kBothRegistersCondition},
      {Table("ANTT of dynamic + preemption against the others", ratio_columns,
             ratio_rows),
       Table("All pairs and seeds", columns, rows), PairTable(pair_rows)},
      summary, panels);
}

}  // namespace carillon::sim::figures
