#include "tools/bench/launch/samples.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "shm/histogram.h"
#include "tools/bench/report.h"
#include "tools/bench/stats.h"

namespace carillon::bench {
namespace {

Json HistogramToJson(const shm::HistogramSnapshot& histogram) {
  Json json = Json::array();
  for (uint32_t bucket = 0; bucket < shm::kHistogramBuckets; ++bucket) {
    const uint64_t count = histogram.buckets()[bucket];
    if (count > 0) {
      json.push_back(Json::array({shm::HistogramBucketFloor(bucket), count}));
    }
  }
  return json;
}

}  // namespace

Json SamplesToJson(std::vector<uint32_t> samples_ns) {
  shm::HistogramSnapshot histogram;
  for (const uint32_t sample : samples_ns) {
    histogram.AddBucket(shm::HistogramBucket(sample), 1);
  }
  const double sum = std::accumulate(samples_ns.begin(), samples_ns.end(), 0.0);
  const Percentiles p = PercentilesOf(samples_ns);
  return {{"samples", p.samples},
          {"min", p.min},
          {"mean", p.samples > 0 ? sum / static_cast<double>(p.samples) : 0},
          {"p50", p.p50},
          {"p90", p.p90},
          {"p99", p.p99},
          {"p999", p.p999},
          {"max", p.max},
          {"histogram", HistogramToJson(histogram)}};
}

Json MergeHistograms(const std::vector<Json>& histograms) {
  shm::HistogramSnapshot sum;
  for (const Json& histogram : histograms) {
    for (const Json& bucket : histogram) {
      sum.AddBucket(shm::HistogramBucket(bucket[0].get<uint64_t>()),
                    bucket[1].get<uint64_t>());
    }
  }
  return HistogramToJson(sum);
}

Json SummarizeSamples(const std::vector<Json>& runs) {
  Json summary = {{"samples", 0}};
  uint64_t samples = 0;
  std::vector<Json> histograms;
  for (const auto& [key, name] :
       {std::pair("p50", "p50_ns"), std::pair("p90", "p90_ns"),
        std::pair("p99", "p99_ns"), std::pair("p999", "p999_ns")}) {
    std::vector<double> values;
    for (const Json& run : runs) {
      if (run.value("samples", uint64_t{0}) > 0) values.push_back(run[key]);
    }
    summary[name] = RangeToJson(RangeOf(std::move(values)));
  }
  for (const Json& run : runs) {
    samples += run.value("samples", uint64_t{0});
    if (run.contains("histogram")) histograms.push_back(run["histogram"]);
  }
  summary["samples"] = samples;
  summary["histogram"] = MergeHistograms(histograms);
  return summary;
}

}  // namespace carillon::bench
