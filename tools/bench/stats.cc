#include "tools/bench/stats.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace carillon::bench {
namespace {

// The smallest sample with at least `fraction` of all at or below it.
double NearestRank(std::span<const uint32_t> sorted, double fraction) {
  const auto rank = static_cast<size_t>(
      std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

double GeometricMean(const RoundValues& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace

Percentiles PercentilesOf(std::span<uint32_t> samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  return {.samples = samples.size(),
          .min = static_cast<double>(samples.front()),
          .p50 = NearestRank(samples, 0.5),
          .p90 = NearestRank(samples, 0.9),
          .p99 = NearestRank(samples, 0.99),
          .p999 = NearestRank(samples, 0.999),
          .max = static_cast<double>(samples.back())};
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
