// Fig. 13: whole backgrounds beside streams of events; and, beyond it, dynamic
// reservation.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

struct Rate {
  const char* name;
  Arrivals short_events, long_events;  // IPv4, IPv6; MemC, IPSec
};
constexpr Rate kRates[] = {
    {"low", {1015, 1015, 2}, {12000, 12000, 2}},
    {"high", {150, 150, 32}, {1500, 1500, 16}},
};

struct Setting {
  const char* figure;  // the first that has it
  const char* name;
  const char* path;
  uint32_t reserve_sms;
  bool dynamic = false;
};
constexpr Setting kSettings[] = {
    {"fig13", "draining", "tb_scheduler", 0},
    {"fig13", "reservation", "tb_scheduler", 8},
    {"fig13", "preemption", "warp", 0},
    {"beyond", "reservation of 4", "tb_scheduler", 4},
    {"beyond", "dynamic + preemption", "warp", 8, true},
};
constexpr std::span<const Setting> kPaperSettings =
    std::span(kSettings).first(3);
constexpr const Setting& kDynamic = kSettings[4];

std::string NameOf(const Rate& rate, std::string_view background,
                   std::string_view event, const Setting& setting) {
  return JobName("{}/{}/{}/{}/{}", setting.figure, rate.name, background, event,
                 setting.name);
}

// The results for one rate and setting, over all pairs.
struct Averages {
  std::vector<double> event, background, antt, memc;
};
using AveragesOf = std::map<std::string, Averages>;  // "low/draining"

const Averages& Find(const AveragesOf& averages, const Rate& rate,
                     const Setting& setting) {
  return averages.at(fmt::format("{}/{}", rate.name, setting.name));
}

std::vector<Job> JobsOf(std::span<const Setting> settings,
                        const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const std::string_view background : FigureBackgrounds(options)) {
    jobs.push_back(IsolatedJob(background, options));
  }
  for (const std::string_view event : FigureEvents(options)) {
    Job job = MakeJob(fmt::format("isolated/{}", event), options);
    job.event = event;
    jobs.push_back(std::move(job));
  }
  for (const Rate& rate : kRates) {
    for (const std::string_view background : FigureBackgrounds(options)) {
      for (const std::string_view event : FigureEvents(options)) {
        for (const Setting& setting : settings) {
          Job job = MakeJob(NameOf(rate, background, event, setting), options);
          job.background = background;
          job.event = event;
          job.registers = EventRegisters(event);
          job.arrivals = event == "IPv4" || event == "IPv6" ? rate.short_events
                                                            : rate.long_events;
          job.overrides.emplace_back("edge.path", setting.path);
          if (setting.reserve_sms != 0) {
            job.overrides.emplace_back(
                "edge.reserve_sms",
                options.quick ? "1" : std::to_string(setting.reserve_sms));
          }
          if (setting.dynamic) {
            job.overrides.emplace_back("edge.reservation", "dynamic");
          }
          jobs.push_back(std::move(job));
        }
      }
    }
  }
  return jobs;
}

// Makes a table of every pair for each rate.
Json TablesOf(const Results& results, const ExperimentOptions& options,
              std::span<const Setting> settings, AveragesOf* averages) {
  Json tables = Json::array();
  for (const Rate& rate : kRates) {
    Json rows = Json::array();
    for (const std::string_view background : FigureBackgrounds(options)) {
      const double alone = CyclesAlone(results, background);
      for (const std::string_view event : FigureEvents(options)) {
        const double event_alone = CyclesAlone(results, event);
        for (const Setting& setting : settings) {
          const std::string name = NameOf(rate, background, event, setting);
          const std::vector<double> turnarounds =
              SamplesOf(results, name, "/events/turnaround");
          const double cycles = CyclesOf(results, name);
          const double slowdown = cycles / alone;
          const auto event_slowdown = Ratio(Mean(turnarounds), event_alone);
          std::optional<double> antt;
          Averages& average =
              (*averages)[fmt::format("{}/{}", rate.name, setting.name)];
          average.background.push_back(slowdown);
          if (event_slowdown.has_value()) {
            antt = Antt(static_cast<double>(turnarounds.size()),
                        *event_slowdown, slowdown);
            average.event.push_back(*event_slowdown);
            average.antt.push_back(*antt);
            if (event == "MemC") average.memc.push_back(*event_slowdown);
          }
          rows.push_back({background, event, setting.name, turnarounds.size(),
                          Number(Mean(turnarounds)), Number(event_slowdown),
                          cycles, Number(slowdown), Number(antt)});
        }
      }
    }
    tables.push_back(
        Table(fmt::format("{} event rate", rate.name),
              {"background", "event", "way", "events", "cycles of an event",
               "slowdown", "cycles of the background", "slowdown", "ANTT"},
              rows));
  }
  return tables;
}

// Shows one column of such a table, with a bar for each setting.
enum Column { kEventSlowdown = 5, kBackgroundSlowdown = 7, kAntt = 8 };
Json PanelOf(const Json& table, std::span<const Setting> settings,
             Column column, std::string title, bool log) {
  Json groups = Json::array();
  Json bars = EmptyBars(settings, &Setting::name);
  size_t setting = 0;
  for (const Json& row : table["rows"]) {
    if (setting == 0) {
      groups.push_back(fmt::format("{}\n{}", row[0].get<std::string>(),
                                   row[1].get<std::string>()));
    }
    bars[setting]["values"].push_back(row[column]);
    setting = (setting + 1) % settings.size();
  }
  return Panel(std::move(title), log, groups, bars);
}

Json Conditions(const char* reservation) {
  return {
      "low: at most 2 events at once, a tick every 1,015 cycles (IPv4, IPv6) "
      "or 12,000 (MemC, IPSec); high: at most 32, every 150, or 16, every "
      "1,500; a tick that finds all of them under way waits for one's end",
      "slowdown: mean cycles over those alone, the wait for a place "
      "included; one run of the background; averages over pairs of event and "
      "background",
      reservation, kRegistersCondition, kLayersCondition};
}

}  // namespace

std::vector<Job> Fig13Jobs(const ExperimentOptions& options) {
  return JobsOf(kPaperSettings, options);
}

Json Fig13(const Results& results, const ExperimentOptions& options) {
  AveragesOf averages;
  const Json tables = TablesOf(results, options, kPaperSettings, &averages);
  Json panels = Json::array();
  for (size_t i = 0; i < std::size(kRates); ++i) {
    panels.push_back(PanelOf(
        tables[i], kPaperSettings, kEventSlowdown,
        fmt::format("slowdown of events, {} rate", kRates[i].name), true));
    panels.push_back(
        PanelOf(tables[i], kPaperSettings, kBackgroundSlowdown,
                fmt::format("slowdown of backgrounds, {} rate", kRates[i].name),
                false));
  }

  Json summary = Json::array();
  const auto compare = [&](const char* what, double paper,
                           const std::vector<double>& of,
                           const std::vector<double>& to) {
    summary.push_back(
        SummaryRow(what, "x", paper, Number(Ratio(Mean(of), Mean(to)))));
  };
  const Averages& low_d = Find(averages, kRates[0], kSettings[0]);
  const Averages& low_r = Find(averages, kRates[0], kSettings[1]);
  const Averages& low_p = Find(averages, kRates[0], kSettings[2]);
  const Averages& high_d = Find(averages, kRates[1], kSettings[0]);
  const Averages& high_r = Find(averages, kRates[1], kSettings[1]);
  const Averages& high_p = Find(averages, kRates[1], kSettings[2]);
  compare("low: events, preemption over draining", 1.3, low_d.event,
          low_p.event);
  compare("low: events, reservation over preemption", 2.3, low_p.event,
          low_r.event);
  compare("low: backgrounds, preemption over reservation", 1.3,
          low_r.background, low_p.background);
  compare("high: events, preemption over draining", 1.4, high_d.event,
          high_p.event);
  compare("high: events, preemption over reservation", 2.8, high_r.event,
          high_p.event);
  compare("high: backgrounds, draining over preemption", 1.3, high_p.background,
          high_d.background);
  compare("high: backgrounds, reservation over preemption", 1.2,
          high_p.background, high_r.background);
  compare("high: ANTT, preemption over draining", 1.4, high_d.antt,
          high_p.antt);
  compare("high: ANTT, preemption over reservation", 2.7, high_r.antt,
          high_p.antt);
  const double kMemcPaper[] = {37, 109, 48};
  for (size_t i = 0; i < kPaperSettings.size(); ++i) {
    summary.push_back(
        SummaryRow(fmt::format("high: MemC's slowdown, {}", kSettings[i].name),
                   "x", kMemcPaper[i],
                   Number(Mean(Find(averages, kRates[1], kSettings[i]).memc))));
  }
  return Figure(Conditions("reservation: 8 of the 16 SMs take events only"),
                tables, summary, panels);
}

std::vector<Job> BeyondJobs(const ExperimentOptions& options) {
  return JobsOf(kSettings, options);
}

Json Beyond(const Results& results, const ExperimentOptions& options) {
  AveragesOf averages;
  Json tables = TablesOf(results, options, kSettings, &averages);
  Json panels = Json::array();
  Json rows = Json::array();
  Json groups = Json::array();
  Json bars = EmptyBars(kSettings, &Setting::name);
  Json summary = Json::array();
  for (size_t i = 0; i < std::size(kRates); ++i) {
    const Rate& rate = kRates[i];
    for (const char* what : {"events", "backgrounds", "ANTT"}) {
      groups.push_back(fmt::format("{} rate\n{}", rate.name, what));
    }
    const auto dynamic = Mean(Find(averages, rate, kDynamic).antt);
    for (size_t w = 0; w < std::size(kSettings); ++w) {
      const Averages& average = Find(averages, rate, kSettings[w]);
      const Json event = Number(Mean(average.event));
      const Json background = Number(Mean(average.background));
      const Json antt = Number(Mean(average.antt));
      rows.push_back({rate.name, kSettings[w].name, event, background, antt});
      for (const Json& value : {event, background, antt}) {
        bars[w]["values"].push_back(value);
      }
      if (&kSettings[w] == &kDynamic) continue;
      summary.push_back(
          SummaryRow(fmt::format("{}: ANTT, {} over {}", rate.name,
                                 kDynamic.name, kSettings[w].name),
                     "x", Json(), Number(Ratio(Mean(average.antt), dynamic))));
    }
    panels.push_back(PanelOf(tables[i], kSettings, kAntt,
                             fmt::format("ANTT, {} rate", rate.name), false));
  }
  tables.insert(tables.begin(), Table("Averages over all pairs",
                                      {"rate", "way", "slowdown of events",
                                       "slowdown of backgrounds", "ANTT"},
                                      rows));
  panels.insert(panels.begin(),
                Panel("averages over all pairs", false, groups, bars));
  return Figure(
      Conditions("reservation: 8 of the 16 SMs take events only, or 4; "
                 "dynamic: at most 8, as many as the load asks for; "
                 "events preempt where these have no room"),
      tables, summary, panels);
}

}  // namespace carillon::sim::figures
