// Figs. 5.9 and 5.10 of the thesis: which resources backgrounds leave free.
#include <nlohmann/json.hpp>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

// All of Fig. 11's backgrounds, and those that the thesis adds.
constexpr std::string_view kBackgrounds[] = {"BP",    "BFS",  "HRTWL", "HOTSP",
                                             "KMN",   "LUD",  "SRAD",  "SC",
                                             "CONV1", "CONV2"};

// Makes a table of each background's share in %, with the mean.
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
  return Figure(std::move(conditions),
                Json::array({Table(what, {"background", "%"}, rows)}),
                Json::array({SummaryRow("mean", "%", paper, Number(Mean(all)),
                                        Number(Median(all)),
                                        Number(GeometricMean(all)))}),
                Json::array({Panel(fmt::format("{}, %", what), false, groups,
                                   Json::array({Bar("alone", values)}))}));
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
      {kLayersCondition,
       "a context: a warp of 8 registers, in a block of its own; the mean of "
       "all SMs over all cycles, those without a block included"},
      [](const Json& totals) {
        const auto sm_cycles = totals["sm_cycles"].get<double>();
        // An SM without warps has room for one.
        return (totals["free_context_cycles"].get<double>() + sm_cycles -
                totals["busy_cycles"].get<double>()) /
               sm_cycles;
      });
}

Json Th5_10(const Results& results, const ExperimentOptions&) {
  return ShareFigure(results, "registers in use", 60,
                     {kLayersCondition, "the mean of all SMs over all cycles"},
                     [](const Json& totals) {
                       return totals["register_cycles"].get<double>() /
                              (totals["sm_cycles"].get<double>() *
                               totals["sm_registers"].get<double>());
                     });
}

}  // namespace carillon::sim::figures
