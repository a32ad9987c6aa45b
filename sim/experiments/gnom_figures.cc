// Figures of the thesis's chapter 4 about GNoM's GETs: their latency by rate, batch
// and keys (4.10, 4.12), and beside a background of low priority for which no
// hardware makes room, in one launch and in several (4.13, 4.14); and what a GPU
// answers flat out (4.15, 4.16).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
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
  const Job job = GnomJob(0, options);
  const auto period = static_cast<double>(job.arrivals.least);
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
      {fmt::format("memc_gnom_get, batches of {} GETs of 16-byte keys, one "
                   "every {:.3g} "
                   "us ({:.2g} MRPS), 8,192 keys; beside 256 blocks of 1,024 "
                   "threads of "
                   "a vector multiplication, in launches of which each comes 5 "
                   "us after "
                   "the one before has ended",
                   job.gnom_batch, period / kMhz,
                   job.gnom_batch * kMhz / period),
       fmt::format(
           "RTT: until the batch is full ({:.3g} us in the mean, {:.3g} us at "
           "most), and from there to the kernel's end, of the batches that "
           "come "
           "while the background runs; no network",
           period / 2 / kMhz, period / kMhz),
       "both have the same priority and come from the host: blocks go out in "
       "the order of their launches; the GET kernel's block fits an SM beside "
       "one block of the background, not beside two",
       fmt::format(
           "the thesis's background takes 32 ms on a K20c; here it has 16 "
           "elements a thread, as a run's cost allows, and takes {:.2g} ms",
           one_cycles / kMhz / 1000)},
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

namespace {

// Figs. 4.10, 4.12, 4.15: so many batches are measured, behind those with which
// a run begins.
constexpr uint32_t kMeasured = 40;
constexpr uint32_t kWarmUp = 8;
constexpr uint32_t kInFlight = 16;  // flat out

Job BatchJob(std::string name, uint32_t batch,
             const ExperimentOptions& options) {
  Job job = MakeJob(std::move(name), options);
  job.runs = 0;
  job.gnom_batch = options.quick ? batch / 8 : batch;
  job.gnom_batches = kWarmUp + (options.quick ? 4 : kMeasured);
  return job;
}

// Of so many million requests a second.
Job SteadyJob(std::string name, uint32_t batch, uint32_t mrps,
              const ExperimentOptions& options) {
  Job job = BatchJob(std::move(name), batch, options);
  job.arrivals.least = static_cast<timing::Cycle>(kMhz * job.gnom_batch / mrps);
  job.arrivals.most = job.arrivals.least;
  return job;
}

Job FlatOutJob(std::string name, uint32_t in_flight,
               const ExperimentOptions& options) {
  Job job = BatchJob(std::move(name), kBatch, options);
  job.arrivals.concurrent = in_flight;
  job.gnom_batches += in_flight;
  return job;
}

struct Latency {
  double mean_us = 0;
  double p95_us = 0;
};

// Of all requests behind the warm-up. Those of a batch come evenly spread over
// `period` cycles, the last of them when the batch is full.
Latency LatencyOf(const Json& result, uint32_t batch, double period,
                  double mhz) {
  std::vector<double> samples;
  const Json& turnarounds = result["turnaround"];
  for (size_t i = kWarmUp; i < turnarounds.size(); ++i) {
    for (uint32_t request = 0; request < batch; ++request) {
      const double waited = period * (batch - 1 - request) / batch;
      samples.push_back((waited + turnarounds[i].get<double>()) / mhz);
    }
  }
  std::ranges::sort(samples);
  const auto rank = static_cast<size_t>(
      std::ceil(0.95 * static_cast<double>(samples.size())));
  return {*Mean(samples), samples[rank - 1]};
}

// Million requests a second, between two ends of batches.
double FlatOutRate(const Json& result, const Job& job) {
  std::vector<double> ends;
  for (size_t i = 0; i < result["arrival"].size(); ++i) {
    ends.push_back(result["arrival"][i].get<double>() +
                   result["turnaround"][i].get<double>());
  }
  std::ranges::sort(ends);
  const size_t first = job.arrivals.concurrent + kWarmUp - 1;
  const double us =
      (ends.back() - ends[first]) / result["core_mhz"].get<double>();
  return static_cast<double>(ends.size() - 1 - first) * job.gnom_batch / us;
}

const char* const kNoNetwork =
    "no network and no copies: a batch begins when its last frame lies in GPU "
    "memory, and ends with the kernel; every reply is checked";

constexpr uint32_t kBatches[] = {512, 256};

std::vector<uint32_t> RatesOf(const ExperimentOptions& options) {
  if (options.quick) return {2, 4};
  return {2, 4, 6, 8, 10, 12};
}
Job RateJob(uint32_t batch, uint32_t mrps, const ExperimentOptions& options) {
  return SteadyJob(fmt::format("th4.10/{}/{}", batch, mrps), batch, mrps,
                   options);
}

// Keys of these lengths, with shares in %.
constexpr uint32_t kKeyBytes[] = {16, 32, 64, 128};
using Shares = std::vector<uint32_t>;
const Shares kMixes[] = {{100, 0, 0, 0},  {0, 100, 0, 0}, {0, 0, 100, 0},
                         {0, 0, 0, 100},  {50, 50, 0, 0}, {50, 0, 0, 50},
                         {25, 25, 25, 25}};
constexpr uint32_t kHits[] = {100, 85};
constexpr uint32_t kMixMrps = 4;

void SetKeys(const Shares& mix, Job* job) {
  job->gnom_keys.clear();
  for (size_t i = 0; i < mix.size(); ++i) {
    if (mix[i] != 0) job->gnom_keys.emplace_back(kKeyBytes[i], mix[i]);
  }
}
std::string MixName(const Shares& mix) {
  return fmt::format("{}", fmt::join(mix, "/"));
}
Job MixJob(const Shares& mix, uint32_t hits, const ExperimentOptions& options) {
  Job job = SteadyJob(fmt::format("th4.12/{}/{}", MixName(mix), hits), kBatch,
                      kMixMrps, options);
  SetKeys(mix, &job);
  job.gnom_hits = hits;
  return job;
}
Job MixFlatOutJob(const Shares& mix, const ExperimentOptions& options) {
  Job job = FlatOutJob(fmt::format("th4.12/{}/flat", MixName(mix)), kInFlight,
                       options);
  SetKeys(mix, &job);
  return job;
}

constexpr const char* kGpus[] = {"edge_table2", "gtx980"};

Job OfflineJob(const char* gpu, bool pings, uint32_t in_flight,
               const ExperimentOptions& options) {
  Job job = FlatOutJob(fmt::format("th4.15/{}/{}/{}", gpu,
                                   pings ? "network" : "gets", in_flight),
                       in_flight, options);
  job.gpu = gpu;
  job.gnom_pings = pings;
  return job;
}

}  // namespace

std::vector<Job> Th4_10Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const uint32_t batch : kBatches) {
    for (const uint32_t mrps : RatesOf(options)) {
      jobs.push_back(RateJob(batch, mrps, options));
    }
  }
  return jobs;
}

Json Th4_10(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json groups = Json::array();
  std::vector<Json> means(2, Json::array());
  std::vector<Json> tails(2, Json::array());
  std::vector<double> ratios;
  Latency last;
  double last_ratio = 0;
  for (const uint32_t mrps : RatesOf(options)) {
    Latency of[2];
    for (size_t i = 0; i < 2; ++i) {
      const Job job = RateJob(kBatches[i], mrps, options);
      of[i] = LatencyOf(results.at(job.name), job.gnom_batch,
                        static_cast<double>(job.arrivals.least), kMhz);
      means[i].push_back(Number(of[i].mean_us));
      tails[i].push_back(Number(of[i].p95_us));
    }
    last = of[0];
    last_ratio = of[1].mean_us / of[0].mean_us;
    if (mrps < 10) ratios.push_back(last_ratio);
    groups.push_back(std::to_string(mrps));
    rows.push_back({mrps, Number(of[0].mean_us), Number(of[0].p95_us),
                    Number(of[1].mean_us), Number(of[1].p95_us),
                    Number(last_ratio)});
  }
  return Figure(
      {"memc_gnom_get, GETs of 16-byte keys, 8,192 keys, 40 batches behind 8 "
       "that do not count",
       "RTT of a request: until its batch is full, and from there to the "
       "kernel's end; the requests of a batch come evenly spread",
       kNoNetwork,
       "the thesis also has NGD, whose copies by way of the host are not in "
       "the model, and its RTT has the network in it"},
      Json::array(
          {Table("RTT by rate",
                 {"MRPS", "batches of 512: mean, us", "p95",
                  "batches of 256: mean, us", "p95", "mean of 256 to 512"},
                 rows)}),
      Json::array({SummaryRow("p95 at the highest rate, batches of 512", "us",
                              1100, Number(last.p95_us)),
                   SummaryRow("mean of 256 to 512 below 10 MRPS, least", "x",
                              0.83, Number(*std::ranges::min_element(ratios))),
                   SummaryRow("the same, most", "x", 0.92,
                              Number(*std::ranges::max_element(ratios))),
                   SummaryRow("the same at the highest rate", "x", 1.02,
                              Number(last_ratio))}),
      Json::array(
          {Panel("mean RTT in us, by million requests a second", false, groups,
                 {Bar("batches of 512", means[0]),
                  Bar("batches of 256", means[1])}),
           Panel("95th percentile of the RTT in us", false, groups,
                 {Bar("batches of 512", tails[0]),
                  Bar("batches of 256", tails[1])})}));
}

std::vector<Job> Th4_12Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const Shares& mix : kMixes) {
    for (const uint32_t hits : kHits) {
      jobs.push_back(MixJob(mix, hits, options));
    }
    jobs.push_back(MixFlatOutJob(mix, options));
  }
  return jobs;
}

Json Th4_12(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json groups = Json::array();
  Json fractions = Json::array();
  std::vector<Json> means(2, Json::array());
  std::vector<double> pure;    // MRPS, by length
  std::vector<double> of_mix;  // fractions of what a mix's keys give apart
  for (const Shares& mix : kMixes) {
    Json row = {MixName(mix)};
    for (size_t i = 0; i < 2; ++i) {
      const Job job = MixJob(mix, kHits[i], options);
      const auto latency =
          LatencyOf(results.at(job.name), job.gnom_batch,
                    static_cast<double>(job.arrivals.least), kMhz);
      row.push_back(Number(latency.mean_us));
      means[i].push_back(Number(latency.mean_us));
    }
    const Job flat_out = MixFlatOutJob(mix, options);
    const double rate = FlatOutRate(results.at(flat_out.name), flat_out);
    if (pure.size() < mix.size()) pure.push_back(rate);
    double apart = 1;
    if (std::ranges::count(mix, 0u) < 3) {
      double us = 0;
      for (size_t i = 0; i < mix.size(); ++i) us += mix[i] / 100. / pure[i];
      apart = rate * us;
      of_mix.push_back(apart);
    }
    row.push_back(Number(rate));
    row.push_back(Number(apart));
    rows.push_back(row);
    groups.push_back(MixName(mix));
    fractions.push_back(Number(apart));
  }
  return Figure(
      {"memc_gnom_get, batches of 512 GETs, 8,192 keys, 40 batches behind 8 "
       "that do not count; keys of 16, 32, 64 and 128 bytes in these shares, "
       "in a random order",
       fmt::format("RTT as in Fig. 4.10, at {} MRPS, with 100 % and 85 % of "
                   "hits; flat out: {} batches in flight, all hits",
                   kMixMrps, kInFlight),
       kNoNetwork,
       "the thesis's fraction is that of a 10 Gbit/s line's rate; without a "
       "network it is that of the rates that the lengths have alone, in the "
       "mix's shares, so all that is missing is lost to divergence"},
      Json::array(
          {Table("GETs by key length",
                 {"keys of 16/32/64/128 B, %", "RTT, us, 100 % hits",
                  "85 % hits", "flat out, MRPS", "to its lengths alone"},
                 rows)}),
      Json::array(
          {SummaryRow("throughput of a mix to its lengths alone, least", "x",
                      0.99, Number(*std::ranges::min_element(of_mix)))}),
      Json::array(
          {Panel("mean RTT in us at 4 MRPS, by key lengths", false, groups,
                 {Bar("100 % hits", means[0]), Bar("85 % hits", means[1])}),
           Panel("throughput to that of its lengths alone", false, groups,
                 {Bar("flat out", fractions)})}));
}

std::vector<Job> Th4_15Jobs(const ExperimentOptions& options) {
  std::vector<Job> jobs;
  for (const char* gpu : kGpus) {
    for (const bool pings : {true, false}) {
      for (const uint32_t in_flight : {1u, kInFlight}) {
        jobs.push_back(OfflineJob(gpu, pings, in_flight, options));
      }
    }
  }
  return jobs;
}

Json Th4_15(const Results& results, const ExperimentOptions& options) {
  Json rows = Json::array();
  Json groups = Json::array();
  std::vector<Json> rates(2, Json::array());
  std::vector<Json> alone(2, Json::array());
  double least = 0;
  double most_network = 0;
  std::vector<double> shares;
  for (const char* gpu : kGpus) {
    double us[2];
    for (const bool pings : {true, false}) {
      Latency of[2];
      double rate = 0;
      for (const uint32_t in_flight : {1u, kInFlight}) {
        const Job job = OfflineJob(gpu, pings, in_flight, options);
        const Json& result = results.at(job.name);
        of[in_flight != 1] = LatencyOf(result, job.gnom_batch, 0,
                                       result["core_mhz"].get<double>());
        if (in_flight != 1) rate = FlatOutRate(result, job);
      }
      us[pings] = of[0].mean_us;
      rates[pings].push_back(Number(rate));
      alone[pings].push_back(Number(of[0].mean_us));
      if (pings) most_network = std::max(most_network, rate);
      if (!pings) least = least == 0 ? rate : std::min(least, rate);
      rows.push_back({gpu, pings ? "network only" : "GETs", Number(rate),
                      Number(of[1].mean_us), Number(of[0].mean_us)});
    }
    shares.push_back(us[true] / us[false]);
    groups.push_back(gpu);
  }
  return Figure(
      {fmt::format(
           "batches of 512 frames of 72 bytes (96 on a wire: 16-byte "
           "keys), 40 behind 8 that do not count; {} in flight, and one "
           "alone",
           kInFlight),
       "GETs: memc_gnom_get, 8,192 keys; network only: echo_reply, which "
       "checks the same frames' headers and writes those of replies, one "
       "thread a packet",
       kNoNetwork,
       "the thesis copies batches over PCIe (K20c, GTX Titan, GTX 750 Ti); the "
       "latency is that of a batch alone, since with a fixed number in flight "
       "it says what the rate says"},
      Json::array({Table("Requests that are there already",
                         {"GPU", "kernel", "MRPS", "batch of 16 in flight, us",
                          "batch alone, us"},
                         rows)}),
      Json::array(
          {SummaryRow("GETs, the slowest GPU", "MRPS", 27, Number(least)),
           SummaryRow("network only, the fastest GPU", "MRPS", 39,
                      Number(most_network)),
           SummaryRow("latency of network only to GETs', mean", "x", 0.5,
                      Number(Mean(shares)))}),
      Json::array(
          {Panel("million requests a second", false, groups,
                 {Bar("network only", rates[1]), Bar("GETs", rates[0])}),
           Panel("latency of a batch alone, us", false, groups,
                 {Bar("network only", alone[1]), Bar("GETs", alone[0])})}));
}

}  // namespace carillon::sim::figures
