// Latencies in the form of the results: percentiles and the whole histogram.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_SAMPLES_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "tools/bench/machine.h"

namespace carillon::bench {

// {samples, min, mean, p50, p90, p99, p999, max, histogram}: nanoseconds; the
// histogram as [[smallest value of the bucket, count], ...], buckets 3 % wide.
// Sorts `samples_ns`.
Json SamplesToJson(std::vector<uint32_t> samples_ns);

// Merges several such histograms: [[floor, count], ...].
Json MergeHistograms(const std::vector<Json>& histograms);

// Summarizes several runs' SamplesToJson(): {samples, p50_ns, p90_ns, p99_ns,
// p999_ns: ranges over the runs, histogram: of all}. Skips runs without
// samples.
Json SummarizeSamples(const std::vector<Json>& runs);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_SAMPLES_H_
