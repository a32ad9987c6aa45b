// Figs. 5.14 and 5.16 of the thesis: CONV1 on a GPU without some of its SMs,
// alone and beside memcached.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

struct Reserved {
  const char* name;
  const char* key;
  uint32_t count;
};
constexpr Reserved kReserved[] = {
    {"none", "edge.reserve_sms", 0},     {"SM-1", "edge.reserve_sms", 1},
    {"SM-4", "edge.reserve_sms", 4},     {"SM-5", "edge.reserve_sms", 5},
    {"SM-6", "edge.reserve_sms", 6},     {"SM-7", "edge.reserve_sms", 7},
    {"SM-8", "edge.reserve_sms", 8},     {"CTA-1", "edge.reserve_blocks", 1},
    {"CTA-2", "edge.reserve_blocks", 2},
};

std::string NameOf(const Reserved& reserved) {
  return fmt::format("th5.14/{}", reserved.name);
}

constexpr Reserved kSharing[] = {
    {"BASE", "edge.reserve_sms", 0}, {"CTA-2", "edge.reserve_blocks", 2},
    {"SM-1", "edge.reserve_sms", 1}, {"SM-4", "edge.reserve_sms", 4},
    {"SM-8", "edge.reserve_sms", 8},
};

struct Rate {
  const char* name;
  timing::Cycle period;  // of events of 32 requests, at 700 MHz
};
constexpr Rate kRates[] = {{"2.5 MRPS", 8960}, {"4 MRPS", 5600}};

// 15 times the time of CONV1 alone. With P2, events that always overlap never
// let the background's blocks start; the thesis's worst case is 13.1 times.
constexpr timing::Cycle kMaxCycles = 6'000'000;

struct Priority {
  const char* name;
  const char* key;
};
constexpr Priority kPriorities[] = {{"P1", "p1"}, {"P2", "p2"}};

std::string NameOf(const Rate& rate, const Priority& priority,
                   const Reserved& reserved) {
  return JobName("th5.16/{}/{}/{}", rate.name, priority.name, reserved.name);
}

void Reserve(const Reserved& reserved, const ExperimentOptions& options,
             Job* job) {
  // A quick GPU has two SMs, of which one must stay free.
  const uint32_t count =
      options.quick && reserved.count > 1 ? 1 : reserved.count;
  job->overrides.emplace_back(reserved.key, std::to_string(count));
  if (std::string_view(reserved.key) == "edge.reserve_blocks") {
    // The places are kept for MemC's events.
    job->overrides.emplace_back("edge.reserve_registers", "28");
  }
}

}  // namespace

std::vector<Job> Th5_14Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Reserved& reserved : kReserved) {
    Job job = MakeJob(NameOf(reserved), options);
    job.background = "CONV1";
    Reserve(reserved, options, &job);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Json Th5_14(const Results& results, const ExperimentOptions&) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json values = Json::array();
  Json summary = Json::array();
  for (const Reserved& reserved : kReserved) {
    const double cycles = CyclesOf(results, NameOf(reserved));
    const double ipc = CyclesOf(results, NameOf(kReserved[0])) / cycles;
    rows.push_back({reserved.name, cycles, Number(ipc)});
    if (reserved.count == 0) continue;
    groups.push_back(reserved.name);
    values.push_back(Number(ipc));
    const std::string_view name = reserved.name;
    if (name == "SM-6" || name == "SM-8") {
      summary.push_back(SummaryRow(fmt::format("IPC with {}", name), "x",
                                   name == "SM-6" ? 1.0 : 0.85, Number(ipc)));
    }
  }
  return Figure(
      {"CONV1 alone, with SMs or blocks of each SM set aside; the i-cache "
       "reservation of the thesis is for its interrupt routine, which does "
       "not run here"},
      Json::array(
          {Table("CONV1", {"reserved", "cycles", "IPC to none"}, rows)}),
      summary,
      Json::array({Panel("CONV1's IPC relative to no reservation", false,
                         groups, Json::array({Bar("IPC", values)}))}));
}

std::vector<Job> Th5_16Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs = {IsolatedJob("CONV1", options)};
  Job alone = MakeJob("isolated/MemC", options);
  alone.event = "MemC";
  jobs.push_back(std::move(alone));
  for (const Rate& rate : kRates) {
    for (const Priority& priority : kPriorities) {
      for (const Reserved& reserved : kSharing) {
        Job job = MakeJob(NameOf(rate, priority, reserved), options);
        job.background = "CONV1";
        job.event = "MemC";
        job.most_cycles = kMaxCycles;
        job.arrivals = {rate.period, rate.period, 16};
        job.overrides.emplace_back("edge.path", "tb_scheduler");
        job.overrides.emplace_back("edge.event_priority", priority.key);
        Reserve(reserved, options, &job);
        jobs.push_back(std::move(job));
      }
    }
  }
  return jobs;
}

Json Th5_16(const Results& results, const ExperimentOptions&) {
  const double alone = CyclesAlone(results, "CONV1");
  const double event_alone = CyclesAlone(results, "MemC");
  Json rows = Json::array();
  Json groups = Json::array();
  Json conv = Json::array();
  Json memc = Json::array();
  Json antts = Json::array();
  Json summary = Json::array();
  for (const Rate& rate : kRates) {
    for (const Priority& priority : kPriorities) {
      for (const Reserved& reserved : kSharing) {
        const std::string job = NameOf(rate, priority, reserved);
        const std::vector<double> turnarounds =
            SamplesOf(results, job, "/events/turnaround");
        const Json& cycles = results.at(job)["cycles"];
        std::optional<double> slowdown;
        if (cycles.is_number()) slowdown = cycles.get<double>() / alone;
        const auto event_slowdown = Ratio(Mean(turnarounds), event_alone);
        std::optional<double> antt;
        if (event_slowdown.has_value() && slowdown.has_value()) {
          antt = Antt(static_cast<double>(turnarounds.size()), *event_slowdown,
                      *slowdown);
        }
        rows.push_back({rate.name, priority.name, reserved.name,
                        turnarounds.size(), Number(Ratio(1, slowdown)),
                        Number(Ratio(1, event_slowdown)), Number(antt)});
        groups.push_back(
            fmt::format("{}\n{}\n{}", rate.name, priority.name, reserved.name));
        conv.push_back(Number(Ratio(1, slowdown)));
        memc.push_back(Number(Ratio(1, event_slowdown)));
        antts.push_back(Number(antt));
        const bool fast = &rate == &kRates[1];
        const bool second = &priority == &kPriorities[1];
        const std::string_view name = reserved.name;
        const auto beside = [&](double paper) {
          summary.push_back(SummaryRow(
              fmt::format("ANTT, {}, {}, {}", name, priority.name, rate.name),
              "x", paper, Number(antt)));
        };
        if (name == "BASE" && !second) beside(fast ? 6 : 2.9);
        if (name == "BASE" && second && !fast) beside(1.44);
        if (name == "SM-8" && second && !fast) beside(1.15);
        if (name == "SM-1" && second && fast) beside(13.1);
      }
    }
  }
  return Figure(
      {"MemC events of 32 requests beside CONV1, at most 16 at once, through "
       "the TB scheduler: 2.5 MRPS is one every 8,960 cycles, 4 MRPS one "
       "every 5,600",
       "a CONV1 that has not ended after 6,000,000 cycles is given up, and "
       "has no IPC and no ANTT here: at P2 events that overlap for ever let "
       "none of its blocks start",
       "IPC is relative to the kernel alone: its cycles there over those "
       "here, an event's wait for a place included",
       "the thesis says \"2.9 to 6\" of P1, and does not say at which rate "
       "its "
       "1.44, 1.15 and 13.1 of P2 are"},
      Json::array({Table("CONV1 and MemC",
                         {"rate", "priority", "reserved", "events", "CONV1 IPC",
                          "MemC IPC", "ANTT"},
                         rows)}),
      summary,
      {Panel("IPC relative to the kernel alone", false, groups,
             {Bar("CONV1", conv), Bar("MemC", memc)}),
       Panel("average normalized turnaround time", true, groups,
             Json::array({Bar("ANTT", antts)}))});
}

}  // namespace carillon::sim::figures
