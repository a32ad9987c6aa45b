// Figs. 5.9, 5.10 and 5.14 of the thesis: what backgrounds leave free, and what
// they do without a part.
#include <string>

#include "fmt/format.h"
#include "gpu_daemon/backends/sim/figures/figures.h"
#include "gpu_daemon/backends/sim/figures/metrics.h"

namespace carillon::sim::figures {
namespace {

// All of Fig. 11's, and those that the thesis adds.
constexpr std::string_view kBackgrounds[] = {"BP",    "BFS",  "HRTWL", "HOTSP",
                                             "KMN",   "LUD",  "SRAD",  "SC",
                                             "CONV1", "CONV2"};

// A share of each background, in %, with its mean.
template <class Share>
Json ShareFigure(const Results& results, const char* what, double paper,
                 Json conditions, Share share) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json values = Json::array();
  std::vector<double> all;
  for (const std::string_view background : kBackgrounds) {
    const double value =
        100 *
        share(results.at(fmt::format("isolated/{}", background))["statistics"]);
    all.push_back(value);
    rows.push_back({background, Number(value)});
    groups.push_back(background);
    values.push_back(Number(value));
  }
  groups.push_back("mean");
  values.push_back(Number(Mean(all)));
  return {
      {"conditions", std::move(conditions)},
      {"tables",
       {{{"title", what}, {"columns", {"background", "%"}}, {"rows", rows}}}},
      {"summary", {SummaryRow("mean", "%", paper, Number(Mean(all)))}},
      {"panels",
       {{{"title", fmt::format("{}, %", what)},
         {"log", false},
         {"groups", groups},
         {"bars", {{{"label", "alone"}, {"values", values}}}}}}}};
}

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

}  // namespace

std::vector<Job> Th5_9Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const std::string_view background : kBackgrounds) {
    jobs.push_back(IsolatedJob(background, options));
  }
  return jobs;
}

Json Th5_9(const Results& results, const ExperimentOptions&) {
  return ShareFigure(
      results, "cycles in which an SM has a free context", 50,
      {"a context: a warp of 8 registers, in a block of its own; the mean of "
       "all SMs over all cycles, those without a block included"},
      [](const Json& totals) {
        const auto sm_cycles = totals["sm_cycles"].get<double>();
        // An SM with no warp has room for one.
        return (totals["free_context_cycles"].get<double>() + sm_cycles -
                totals["busy_cycles"].get<double>()) /
               sm_cycles;
      });
}

Json Th5_10(const Results& results, const ExperimentOptions&) {
  return ShareFigure(
      results, "registers in use", 60,
      {"the mean of all SMs over all cycles, of 65,536 registers"},
      [](const Json& totals) {
        return totals["register_cycles"].get<double>() /
               (totals["sm_cycles"].get<double>() * 65536);
      });
}

std::vector<Job> Th5_14Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Reserved& reserved : kReserved) {
    Job job = MakeJob(NameOf(reserved), options);
    job.background = "CONV1";
    // Of a quick GPU's two SMs one must stay.
    const uint32_t count =
        options.quick && reserved.count > 1 ? 1 : reserved.count;
    job.overrides.emplace_back(reserved.key, std::to_string(count));
    if (std::string_view(reserved.key) == "edge.reserve_blocks") {
      // MemC's event, which the places are kept for.
      job.overrides.emplace_back("edge.reserve_registers", "28");
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Json Th5_14(const Results& results, const ExperimentOptions&) {
  const auto cycles = [&](const Reserved& reserved) {
    return results.at(NameOf(reserved))["cycles"].get<double>();
  };
  Json rows = Json::array();
  Json groups = Json::array();
  Json values = Json::array();
  Json summary = Json::array();
  for (const Reserved& reserved : kReserved) {
    const double ipc = cycles(kReserved[0]) / cycles(reserved);
    rows.push_back({reserved.name, cycles(reserved), Number(ipc)});
    if (reserved.count == 0) continue;
    groups.push_back(reserved.name);
    values.push_back(Number(ipc));
    const std::string_view name = reserved.name;
    if (name == "SM-6" || name == "SM-8") {
      summary.push_back(SummaryRow(fmt::format("IPC with {}", name), "x",
                                   name == "SM-6" ? 1.0 : 0.85, Number(ipc)));
    }
  }
  return {{"conditions",
           {"CONV1 alone, with SMs or blocks of each SM set aside; the i-cache "
            "reservation of the thesis is not modelled"}},
          {"tables",
           {{{"title", "CONV1"},
             {"columns", {"reserved", "cycles", "IPC to none"}},
             {"rows", rows}}}},
          {"summary", summary},
          {"panels",
           {{{"title", "CONV1's IPC relative to no reservation"},
             {"log", false},
             {"groups", groups},
             {"bars", {{{"label", "IPC"}, {"values", values}}}}}}}};
}

}  // namespace carillon::sim::figures
