// Fig. 11: how long a victim's pipeline takes to become empty.
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

std::span<const std::string_view> Backgrounds(
    const ExperimentOptions& options) {
  static constexpr std::string_view kAll[] = {"BP",   "BFS", "KMN",   "LUD",
                                              "SRAD", "SC",  "CONV1", "CONV2"};
  return std::span(kAll).first(options.quick ? 3 : std::size(kAll));
}

struct Policy {
  const char* name;
  const char* victim;
};
constexpr Policy kPolicies[] = {{"Newest", "newest"}, {"Oldest", "oldest"}};

struct Setting {
  const char* name;
  bool skip_barriers, victim_priority, flush_i_buffer, replay_loads;
};
constexpr Setting kSettings[] = {
    {"Base", false, false, false, false},
    {"BS", true, false, false, false},
    {"VHP", false, true, false, false},
    {"IB", false, false, true, false},
    {"RL", false, false, true, true},
    {"VHP+IB+RL", false, true, true, true},
    {"VHP+IB+RL+BS", true, true, true, true},
};
constexpr const char* kBase = kSettings[0].name;
constexpr const char* kAll = kSettings[6].name;

constexpr std::string_view kReasons[] = {
    "Pipeline", "Scoreboard", "Load", "I$-Miss", "Barrier", "Mem Barrier"};

std::string NameOf(const Policy& policy, const Setting& setting,
                   std::string_view background) {
  return fmt::format("fig11/{}/{}/{}", policy.name, setting.name, background);
}

// For one setting, the mean of each background that has preemptions.
PairValues MeansOf(const Results& results, const ExperimentOptions& options,
                   const Policy& policy, const Setting& setting) {
  PairValues means;
  for (const std::string_view background : Backgrounds(options)) {
    means.push_back(Mean(SamplesOf(results, NameOf(policy, setting, background),
                                   "/events/preemption")));
  }
  return means;
}

}  // namespace

std::vector<Job> Fig11Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Policy& policy : kPolicies) {
    for (const Setting& setting : kSettings) {
      for (const std::string_view background : Backgrounds(options)) {
        Job job = MakeJob(NameOf(policy, setting, background), options);
        job.background = background;
        job.event = "null";
        job.registers = 8;
        job.arrivals = {2000, 5000, 1};
        if (options.quick) job.arrivals = {200, 500, 1};
        const auto set = [&](const char* key, bool on) {
          job.overrides.emplace_back(key, on ? "1" : "0");
        };
        job.overrides.emplace_back("edge.path", "warp");
        job.overrides.emplace_back("edge.victim", policy.victim);
        set("edge.skip_barriers", setting.skip_barriers);
        set("edge.victim_priority", setting.victim_priority);
        set("edge.flush_i_buffer", setting.flush_i_buffer);
        set("edge.replay_loads", setting.replay_loads);
        jobs.push_back(std::move(job));
      }
    }
  }
  return jobs;
}

Json Fig11(const Results& results, const ExperimentOptions& options) {
  Json groups = Json::array();
  for (const std::string_view background : Backgrounds(options)) {
    groups.push_back(background);
  }
  Json rows = Json::array();
  Json reason_rows = Json::array();
  Json setting_rows = Json::array();
  Json bars = Json::array();
  Json setting_bars = Json::array();
  Json panels = Json::array();
  Json summary = Json::array();
  Json setting_names = Json::array();
  for (const Setting& setting : kSettings)
    setting_names.push_back(setting.name);

  for (const Policy& policy : kPolicies) {
    Json bar{{"label", policy.name}, {"values", Json::array()}};
    std::map<std::string_view, Json> shares;
    for (const std::string_view background : Backgrounds(options)) {
      const std::string name = NameOf(policy, kSettings[0], background);
      const Json& base = results.at(name);
      const std::vector<double> latencies =
          SamplesOf(results, name, "/events/preemption");
      const auto mean = Mean(latencies);
      const Json& places = base["events"]["places"];
      rows.push_back({policy.name, background, latencies.size(), places["free"],
                      Number(mean), Number(Tail(latencies))});
      bar["values"].push_back(Number(mean));
      const Json& totals = base["statistics"];
      const double cycles = totals["flush_cycles"].get<double>();
      Json row{policy.name, background};
      size_t reason = 0;
      for (const auto& [name, count] : totals["flush_waits"].items()) {
        const Json share = Number(Ratio(100 * count.get<double>(), cycles));
        row.push_back(share);
        shares[kReasons[reason++]].push_back(share);
      }
      reason_rows.push_back(std::move(row));
    }
    bars.push_back(std::move(bar));

    Json reasons = Json::array();
    for (const std::string_view reason : kReasons) {
      reasons.push_back(Bar(reason, shares[reason]));
    }
    panels.push_back(
        Panel(fmt::format("(b) {}: what a victim's pipeline waits for, % "
                          "of the latency, not exclusive",
                          policy.name),
              false, groups, reasons));

    Json values = Json::array();
    Json setting_row{policy.name, "mean"};
    Json median_row{policy.name, "median"};
    Json geometric_row{policy.name, "geometric mean"};
    for (const Setting& setting : kSettings) {
      const std::vector<double> means =
          Present(MeansOf(results, options, policy, setting));
      values.push_back(Number(Mean(means)));
      setting_row.push_back(Number(Mean(means)));
      median_row.push_back(Number(Median(means)));
      geometric_row.push_back(Number(GeometricMean(means)));
    }
    for (Json* row : {&setting_row, &median_row, &geometric_row}) {
      setting_rows.push_back(std::move(*row));
    }
    setting_bars.push_back(Bar(policy.name, values));
    const PairValues both[] = {MeansOf(results, options, policy, kSettings[0]),
                               MeansOf(results, options, policy, kSettings[6])};
    const std::vector<double> before = Present(both[0]);
    const std::vector<double> after = Present(both[1]);
    const bool oldest = std::string_view(policy.victim) == "oldest";
    summary.push_back(
        SummaryRow(fmt::format("{}: mean, {}", policy.name, kBase), "cycles",
                   oldest ? 2000 : 8000, Number(Mean(before)),
                   Number(Median(before)), Number(GeometricMean(before))));
    summary.push_back(SummaryRow(fmt::format("{}: mean, {}", policy.name, kAll),
                                 "cycles", oldest ? 50 : 220,
                                 Number(Mean(after)), Number(Median(after)),
                                 Number(GeometricMean(after))));
    summary.push_back(
        SummaryRow(fmt::format("{}: {} over {}", policy.name, kAll, kBase),
                   oldest ? 35.9 : 33.7, RatiosOf(both[0], both[1])));
  }
  panels.insert(
      panels.begin(),
      Panel("(a) mean preemption latency without optimisations, cycles", true,
            groups, bars));
  panels.push_back(Panel("(c) mean preemption latency, cycles", true,
                         setting_names, setting_bars));
  Json reason_columns{"victim", "background"};
  for (const std::string_view reason : kReasons) {
    reason_columns.push_back(reason);
  }
  Json setting_columns{"victim", "of backgrounds"};
  for (const Json& name : setting_names) setting_columns.push_back(name);
  return Figure(
      {"one event at a time, of 8 registers, which ends at once; a tick every "
       "U(2000, 5000) cycles of one run of each background",
       "from the victim's selection to its empty pipeline, of events that "
       "found no free context; RL needs IB, so RL is IB+RL",
       kLayersCondition,
       "the papers' 2k and 8k cycles are read off their text (\"2-8k\")"},
      {Table("(a) Preemption latency without optimisations, cycles",
             {"victim", "background", "preemptions", "free contexts", "mean",
              "tail"},
             rows),
       Table("(b) What the victim's pipeline waits for, % of the latency",
             reason_columns, reason_rows),
       Table("(c) Mean preemption latency, cycles", setting_columns,
             setting_rows)},
      summary, panels);
}

}  // namespace carillon::sim::figures
