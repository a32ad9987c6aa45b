// Fig. 13: whole backgrounds beside streams of events.
#include <map>
#include <string>

#include "fmt/format.h"
#include "gpu_daemon/backends/sim/figures/figures.h"
#include "gpu_daemon/backends/sim/figures/metrics.h"

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

struct Way {
  const char* name;
  const char* letter;
  const char* path;
  bool reserves;  // half of the SMs
};
constexpr Way kWays[] = {
    {"draining", "D", "tb_scheduler", false},
    {"reservation", "R", "tb_scheduler", true},
    {"preemption", "P", "warp", false},
};

std::string NameOf(const Rate& rate, std::string_view background,
                   std::string_view event, const Way& way) {
  return fmt::format("fig13/{}/{}/{}/{}", rate.name, background, event,
                     way.name);
}
std::string IsolatedName(std::string_view event) {
  return fmt::format("isolated/{}", event);
}

// Of one rate and way, over all pairs.
struct Averages {
  std::vector<double> event, background, antt;
};

}  // namespace

std::vector<Job> Fig13Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const std::string_view background : FigureBackgrounds(options)) {
    jobs.push_back(IsolatedJob(background, options));
  }
  for (const std::string_view event : FigureEvents(options)) {
    Job job = MakeJob(IsolatedName(event), options);
    job.event = event;
    jobs.push_back(std::move(job));
  }
  for (const Rate& rate : kRates) {
    for (const std::string_view background : FigureBackgrounds(options)) {
      for (const std::string_view event : FigureEvents(options)) {
        for (const Way& way : kWays) {
          Job job = MakeJob(NameOf(rate, background, event, way), options);
          job.background = background;
          job.event = event;
          job.registers = EventRegisters(event);
          job.arrivals = event == "IPv4" || event == "IPv6" ? rate.short_events
                                                            : rate.long_events;
          job.overrides.emplace_back("edge.path", way.path);
          if (way.reserves) {
            job.overrides.emplace_back("edge.reserve_sms",
                                       options.quick ? "1" : "8");
          }
          jobs.push_back(std::move(job));
        }
      }
    }
  }
  return jobs;
}

Json Fig13(const Results& results, const ExperimentOptions& options) {
  Json tables = Json::array();
  Json panels = Json::array();
  std::map<std::string, Averages> averages;  // "low/draining"
  std::map<std::string, std::vector<double>> memc;
  for (const Rate& rate : kRates) {
    Json rows = Json::array();
    Json groups = Json::array();
    Json event_bars = Json::array();
    Json background_bars = Json::array();
    for (const Way& way : kWays) {
      event_bars.push_back({{"label", way.name}, {"values", Json::array()}});
      background_bars.push_back(event_bars.back());
    }
    for (const std::string_view background : FigureBackgrounds(options)) {
      const double alone =
          results.at(fmt::format("isolated/{}", background))["cycles"]
              .get<double>();
      for (const std::string_view event : FigureEvents(options)) {
        groups.push_back(fmt::format("{}\n{}", background, event));
        const double event_alone =
            results.at(IsolatedName(event))["cycles"].get<double>();
        for (size_t i = 0; i < std::size(kWays); ++i) {
          const Json* const result =
              &results.at(NameOf(rate, background, event, kWays[i]));
          const std::vector<double> turnarounds =
              Samples({&result, 1}, "/events/turnaround");
          const auto cycles = (*result)["cycles"].get<double>();
          const double slowdown = cycles / alone;
          const auto event_slowdown = Ratio(Mean(turnarounds), event_alone);
          std::optional<double> antt;
          const std::string key =
              fmt::format("{}/{}", rate.name, kWays[i].name);
          averages[key].background.push_back(slowdown);
          if (event_slowdown.has_value()) {
            antt = Antt(static_cast<double>(turnarounds.size()),
                        *event_slowdown, slowdown);
            averages[key].event.push_back(*event_slowdown);
            averages[key].antt.push_back(*antt);
            if (event == "MemC") memc[key].push_back(*event_slowdown);
          }
          event_bars[i]["values"].push_back(Number(event_slowdown));
          background_bars[i]["values"].push_back(Number(slowdown));
          rows.push_back({background, event, kWays[i].name, turnarounds.size(),
                          Number(Mean(turnarounds)), Number(event_slowdown),
                          cycles, Number(slowdown), Number(antt)});
        }
      }
    }
    tables.push_back(
        {{"title", fmt::format("{} event rate", rate.name)},
         {"columns",
          {"background", "event", "way", "events", "cycles of an event",
           "slowdown", "cycles of the background", "slowdown", "ANTT"}},
         {"rows", rows}});
    panels.push_back(
        {{"title", fmt::format("slowdown of events, {} rate", rate.name)},
         {"log", true},
         {"groups", groups},
         {"bars", event_bars}});
    panels.push_back(
        {{"title", fmt::format("slowdown of backgrounds, {} rate", rate.name)},
         {"log", false},
         {"groups", groups},
         {"bars", background_bars}});
  }

  Json summary = Json::array();
  const auto compare = [&](const char* what, double paper,
                           const std::vector<double>& of,
                           const std::vector<double>& to) {
    summary.push_back(
        SummaryRow(what, "x", paper, Number(Ratio(Mean(of), Mean(to)))));
  };
  const Averages& low_d = averages["low/draining"];
  const Averages& low_r = averages["low/reservation"];
  const Averages& low_p = averages["low/preemption"];
  const Averages& high_d = averages["high/draining"];
  const Averages& high_r = averages["high/reservation"];
  const Averages& high_p = averages["high/preemption"];
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
  for (size_t i = 0; i < std::size(kWays); ++i) {
    summary.push_back(
        SummaryRow(fmt::format("high: MemC's slowdown, {}", kWays[i].name), "x",
                   kMemcPaper[i],
                   Number(Mean(memc[fmt::format("high/{}", kWays[i].name)]))));
  }
  return {
      {"conditions",
       {"low: at most 2 events at once, a tick every 1,015 cycles (IPv4, IPv6) "
        "or 12,000 (MemC, IPSec); high: at most 32, every 150, or 16, every "
        "1,500; a tick that finds all of them under way waits for one's end",
        "slowdown: mean cycles over those alone, the wait for a place "
        "included; one run of the background; averages over pairs of event and "
        "background",
        "reservation: 8 of the 16 SMs take events only", kRegistersCondition,
        kConvCondition}},
      {"tables", tables},
      {"summary", summary},
      {"panels", panels}};
}

}  // namespace carillon::sim::figures
