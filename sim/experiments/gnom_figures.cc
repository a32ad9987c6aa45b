// Figs. 4.13 and 4.14 of the thesis: the latency of GETs beside a background of
// low priority for which no hardware makes room, in one launch and in several.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

constexpr uint32_t kLaunches[] = {1, 2, 4, 8, 16, 32, 64};
// 4 million requests a second, in batches of 512, at 700 MHz.
constexpr uint32_t kBatch = 512;
constexpr timing::Cycle kPeriod = 89'600;
constexpr double kMhz = 700;

std::string NameOf(uint32_t launches) {
  return fmt::format("th4.13/{}", launches);
}

Job GnomJob(uint32_t launches, const ExperimentOptions& options) {
  Job job = MakeJob(NameOf(launches), options);
  job.gnom_batch = options.quick ? 64 : kBatch;
  job.runs = launches;
  job.arrivals.least = options.quick ? 30'000 : kPeriod;
  job.arrivals.most = job.arrivals.least;
  return job;
}

bool IsOfFigure(uint32_t launches, const ExperimentOptions& options) {
  return !options.quick || launches == 1 || launches == 16;
}

struct Rtt {
  double mean_us = 0;
  double most_us = 0;
};

// Of the batches that came while the background ran, or of all without one. A
// request waits for half of a batch's time in the mean until its batch is full,
// for all of it at most.
Rtt RttOf(const Json& result, double period) {
  double sum = 0;
  double most = 0;
  double count = 0;
  const auto& arrivals = result["arrival"];
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const double arrival = arrivals[i].get<double>();
    const bool beside =
        result["cycles"].is_null() ||
        (arrival >= 0 && arrival < result["cycles"].get<double>());
    if (!beside) continue;
    const double turnaround = result["turnaround"][i].get<double>();
    sum += turnaround;
    most = std::max(most, turnaround);
    ++count;
  }
  if (count == 0) return {};
  return {(sum / count + period / 2) / kMhz, (most + period) / kMhz};
}

}  // namespace

std::vector<Job> Th4_13Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs = {GnomJob(0, options)};
  for (const uint32_t launches : kLaunches) {
    if (IsOfFigure(launches, options)) {
      jobs.push_back(GnomJob(launches, options));
    }
  }
  return jobs;
}

Json Th4_13(const Results& results, const ExperimentOptions& options) {
  const auto period = static_cast<double>(GnomJob(0, options).arrivals.least);
  const Rtt alone = RttOf(results.at(NameOf(0)), period);
  Json rows = {{0, Json(), Number(alone.mean_us), Number(alone.most_us), Json(),
                Json(), Json(), Json()}};
  Json groups = {"none"};
  Json means = {Number(alone.mean_us)};
  Json longest = {Number(alone.most_us)};
  Json summary = Json::array();
  Rtt one;
  double one_cycles = 0;
  for (const uint32_t launches : kLaunches) {
    if (!IsOfFigure(launches, options)) continue;
    const Json& result = results.at(NameOf(launches));
    const Rtt rtt = RttOf(result, period);
    const auto cycles = result["cycles"].get<double>();
    if (launches == 1) {
      one = rtt;
      one_cycles = cycles;
    }
    const Json mean = Number(Ratio(one.mean_us, rtt.mean_us));
    const Json most = Number(Ratio(one.most_us, rtt.most_us));
    const Json slower = Number(Ratio(cycles, one_cycles));
    rows.push_back({launches, 256 / launches, Number(rtt.mean_us),
                    Number(rtt.most_us), mean, most,
                    Number(cycles / kMhz / 1000), slower});
    groups.push_back(std::to_string(launches));
    means.push_back(Number(rtt.mean_us));
    longest.push_back(Number(rtt.most_us));
    if (launches != 16) continue;
    summary.push_back(
        SummaryRow("longest RTT, 1 launch over 16", "x", 18, most));
    summary.push_back(
        SummaryRow("background's time, 16 launches over 1", "x", 1.5, slower));
  }
  return Figure(
      {"memc_gnom_get, batches of 512 GETs of 16-byte keys, one every 128 us "
       "(4 MRPS), 8,192 keys; beside 256 blocks of 1,024 threads of a vector "
       "multiplication, in launches of which each comes 5 us after the one "
       "before has ended",
       "RTT: until the batch is full (64 us in the mean, 128 us at most), and "
       "from there to the kernel's end, of the batches that come while the "
       "background runs; no network",
       "both have the same priority and come from the host: blocks go out in "
       "the order of their launches; the GET kernel's block fits an SM beside "
       "one block of the background, not beside two",
       "the thesis's background takes 32 ms on a K20c; here it has 16 elements "
       "a "
       "thread, as a run's cost allows, and takes 5 ms"},
      Json::array({Table("GETs beside the background",
                         {"launches", "blocks of each", "RTT, us, mean",
                          "longest", "1 launch's mean to it", "longest to it",
                          "background, ms", "to 1 launch's"},
                         rows)}),
      summary,
      Json::array(
          {Panel("RTT in us, by launches of the background", true, groups,
                 {Bar("mean", means), Bar("longest", longest)})}));
}

}  // namespace carillon::sim::figures
