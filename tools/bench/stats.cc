#include "tools/bench/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

namespace carillon::bench {
namespace {

// The smallest sample with at least so many of 1,000 at or below it.
template <class T>
double NearestRank(std::span<const T> sorted, size_t per_mille) {
  const size_t rank = (sorted.size() * per_mille + 999) / 1000;
  return static_cast<double>(sorted[std::max<size_t>(rank, 1) - 1]);
}

template <class T>
Percentiles Of(std::span<T> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  const std::span<const T> sorted = samples;
  return {.samples = sorted.size(),
          .mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) /
                  static_cast<double>(sorted.size()),
          .min = static_cast<double>(sorted.front()),
          .p50 = NearestRank(sorted, 500),
          .p90 = NearestRank(sorted, 900),
          .p99 = NearestRank(sorted, 990),
          .p999 = NearestRank(sorted, 999),
          .max = static_cast<double>(sorted.back())};
}

double GeometricMean(const RoundValues& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace

Percentiles PercentilesOf(std::span<uint32_t> samples) { return Of(samples); }

Percentiles PercentilesOf(std::vector<double> samples) {
  return Of(std::span(samples));
}

Range RangeOf(std::vector<double> runs) {
  if (runs.empty()) return {};
  std::ranges::sort(runs);
  const size_t middle = runs.size() / 2;
  const double median = runs.size() % 2 == 1
                            ? runs[middle]
                            : (runs[middle - 1] + runs[middle]) / 2;
  return {.runs = runs.size(),
          .median = median,
          .low = runs.front(),
          .high = runs.back()};
}

std::vector<double> PairRatios(std::span<const RoundValues> of,
                               std::span<const RoundValues> to) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(of.size(), to.size()); ++round) {
    if (of[round].empty() || to[round].empty()) continue;
    ratios.push_back(GeometricMean(of[round]) / GeometricMean(to[round]));
  }
  return ratios;
}

std::vector<size_t> RoundOrder(size_t contenders, size_t round) {
  std::vector<size_t> order;
  for (size_t i = 0; i < contenders; ++i) order.push_back(i);
  if (round % 2 == 1) std::ranges::reverse(order);
  for (size_t i = contenders; i > 0; --i) order.push_back(order[i - 1]);
  return order;
}

}  // namespace carillon::bench
