// Fig. 13: how much events and backgrounds slow each other down.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/metrics.h"
#include "sim/experiments/multiprogramming.h"

namespace carillon::sim::figures {
namespace {

constexpr const Way* kWays[] = {&kDraining, &kReservation, &kSpreadReservation,
                                &kPreemption};

enum class What { kEvents, kBackgrounds, kAntt };

std::optional<double> ValueOf(const MixOutcome& outcome, What what) {
  switch (what) {
    case What::kEvents:
      return outcome.event_slowdown;
    case What::kBackgrounds:
      return outcome.background_slowdown;
    case What::kAntt:
      return outcome.antt;
  }
  return std::nullopt;
}

// The values of all pairs, or of those with `only_event`.
PairValues ValuesOf(const Results& results, const ExperimentOptions& options,
                    uint32_t registers, const Rate& rate, const Way& way,
                    What what, std::string_view only_event = "") {
  PairValues values;
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      if (!only_event.empty() && event != only_event) continue;
      values.push_back(ValueOf(
          OutcomeOf(results, MixAt(rate, background, event, way, registers)),
          what));
    }
  }
  return values;
}

Json TableOf(const Results& results, const ExperimentOptions& options,
             const Rate& rate) {
  Json rows = Json::array();
  const auto add = [&](const Beside& beside, std::string_view event,
                       const Way& way) {
    const MixOutcome outcome = OutcomeOf(results, {rate, beside, event, way});
    rows.push_back({beside.background, RegistersCell(beside), event, way.name,
                    outcome.events, Number(outcome.event_cycles),
                    Number(outcome.event_slowdown), outcome.background_cycles,
                    Number(outcome.background_slowdown), Number(outcome.antt)});
  };
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      for (const Way* way : kWays) {
        if (!way->shares_sms()) {
          add(BesideAt(background, kLayerRegisters[0]), event, *way);
          continue;
        }
        for (const Beside& beside : BesidesOf(background)) {
          add(beside, event, *way);
        }
      }
    }
  }
  return Table(fmt::format("{} event rate", rate.name),
               {"background", "registers", "event", "way", "events",
                "cycles of an event", "slowdown", "cycles of the background",
                "slowdown", "ANTT"},
               rows);
}

Json AveragesOf(const Results& results, const ExperimentOptions& options) {
  Json columns{"rate", "registers", "way"};
  AppendColumns(columns, kAverageColumns, "events");
  AppendColumns(columns, kAverageColumns, "backgrounds");
  AppendColumns(columns, kAverageColumns, "ANTT");
  Json rows = Json::array();
  for (const Rate& rate : kRates) {
    for (const uint32_t registers : kLayerRegisters) {
      for (const Way* way : kWays) {
        rows.push_back({rate.name, registers, way->name});
        for (const What what :
             {What::kEvents, What::kBackgrounds, What::kAntt}) {
          AppendAverages(rows.back(), ValuesOf(results, options, registers,
                                               rate, *way, what));
        }
      }
    }
  }
  return Table("All pairs", columns, rows);
}

Json PanelOf(const Results& results, const ExperimentOptions& options,
             const Rate& rate, uint32_t registers, What what,
             const char* title) {
  Json groups = Json::array();
  for (const std::string_view background : FigureBackgrounds(options)) {
    for (const std::string_view event : FigureEvents(options)) {
      groups.push_back(fmt::format("{}\n{}", background, event));
    }
  }
  Json bars = Json::array();
  for (const Way* way : kWays) {
    Json values = Json::array();
    for (const auto& value :
         ValuesOf(results, options, registers, rate, *way, what)) {
      values.push_back(Number(value));
    }
    bars.push_back(Bar(way->name, values));
  }
  return Panel(fmt::format("slowdown of {}, {} rate, CONV1 and MM with {} "
                           "registers",
                           title, rate.name, registers),
               what == What::kEvents, groups, bars);
}

struct Comparison {
  const char* what;
  const Rate& rate;
  What of;
  const Way &slower, &faster;
  double paper;
};
constexpr const Rate& kLow = kRates[0];
constexpr const Rate& kHigh = kRates[1];
constexpr Comparison kComparisons[] = {
    {"low: events, preemption over draining", kLow, What::kEvents, kDraining,
     kPreemption, 1.3},
    {"low: events, reservation over preemption", kLow, What::kEvents,
     kPreemption, kReservation, 2.3},
    {"low: events, reservation, spread, over preemption", kLow, What::kEvents,
     kPreemption, kSpreadReservation, 2.3},
    {"low: backgrounds, preemption over reservation", kLow, What::kBackgrounds,
     kReservation, kPreemption, 1.3},
    {"low: backgrounds, preemption over reservation, spread", kLow,
     What::kBackgrounds, kSpreadReservation, kPreemption, 1.3},
    {"high: events, preemption over draining", kHigh, What::kEvents, kDraining,
     kPreemption, 1.4},
    {"high: events, preemption over reservation", kHigh, What::kEvents,
     kReservation, kPreemption, 2.8},
    {"high: events, preemption over reservation, spread", kHigh, What::kEvents,
     kSpreadReservation, kPreemption, 2.8},
    {"high: backgrounds, draining over preemption", kHigh, What::kBackgrounds,
     kPreemption, kDraining, 1.3},
    {"high: backgrounds, reservation over preemption", kHigh,
     What::kBackgrounds, kPreemption, kReservation, 1.2},
    {"high: backgrounds, reservation, spread, over preemption", kHigh,
     What::kBackgrounds, kPreemption, kSpreadReservation, 1.2},
    {"high: ANTT, preemption over draining", kHigh, What::kAntt, kDraining,
     kPreemption, 1.4},
    {"high: ANTT, preemption over reservation", kHigh, What::kAntt,
     kReservation, kPreemption, 2.7},
    {"high: ANTT, preemption over reservation, spread", kHigh, What::kAntt,
     kSpreadReservation, kPreemption, 2.7},
};

}  // namespace

std::vector<Job> Fig13Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Rate& rate : kRates) {
    for (const std::string_view background : FigureBackgrounds(options)) {
      for (const std::string_view event : FigureEvents(options)) {
        for (const Way* way : kWays) {
          for (const uint32_t registers : kLayerRegisters) {
            AddJobs(MixAt(rate, background, event, *way, registers), options,
                    &jobs);
          }
        }
      }
    }
  }
  return jobs;
}

Json Fig13(const Results& results, const ExperimentOptions& options) {
  Json tables = Json::array({AveragesOf(results, options)});
  Json panels = Json::array();
  for (const Rate& rate : kRates) {
    tables.push_back(TableOf(results, options, rate));
    for (const uint32_t registers : kLayerRegisters) {
      panels.push_back(
          PanelOf(results, options, rate, registers, What::kEvents, "events"));
      panels.push_back(PanelOf(results, options, rate, registers,
                               What::kBackgrounds, "backgrounds"));
    }
  }

  Json summary = Json::array();
  Json ratio_rows = Json::array();
  const double kMemcPaper[] = {37, 109, 109, 48};
  for (const uint32_t registers : kLayerRegisters) {
    for (const Comparison& comparison : kComparisons) {
      const auto values = [&](const Way& way) {
        return ValuesOf(results, options, registers, comparison.rate, way,
                        comparison.of);
      };
      const Ratios ratios =
          RatiosOf(values(comparison.slower), values(comparison.faster));
      summary.push_back(SummaryRow(
          fmt::format("{} registers, {}", registers, comparison.what),
          comparison.paper, ratios));
      ratio_rows.push_back({registers, comparison.what});
      AppendRatios(ratio_rows.back(), ratios);
    }
    for (size_t i = 0; i < std::size(kWays); ++i) {
      const std::vector<double> memc =
          Present(ValuesOf(results, options, registers, kHigh, *kWays[i],
                           What::kEvents, "MemC"));
      summary.push_back(
          SummaryRow(fmt::format("{} registers, high: MemC's slowdown, {}",
                                 registers, kWays[i]->name),
                     "x", kMemcPaper[i], Number(Mean(memc)),
                     Number(Median(memc)), Number(GeometricMean(memc))));
    }
  }
  Json ratio_columns{"registers", "what over what"};
  AppendColumns(ratio_columns, kRatioColumns);
  tables.insert(tables.begin() + 1,
                Table("Ratios over all pairs", ratio_columns, ratio_rows));
  return Figure(
      {kRatesCondition, kSlowdownCondition,
       "reservation: 8 of the 16 SMs take events only; the TB scheduler goes "
       "on behind the SM that had the last block, of any grid, or (spread) "
       "behind the one that had the last event's, which spreads single events "
       "evenly; no paper says which",
       kOwnSmsCondition, kRegistersCondition, kBothRegistersCondition},
      tables, summary, panels);
}

}  // namespace carillon::sim::figures
