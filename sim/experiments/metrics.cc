#include "sim/experiments/metrics.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace carillon::sim::figures {

std::optional<double> Mean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

std::optional<double> Tail(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values, std::greater());
  return Mean(std::span(values).first((values.size() + 19) / 20));
}

std::optional<double> Ratio(std::optional<double> of,
                            std::optional<double> to) {
  if (!of.has_value() || !to.has_value() || *to == 0) return std::nullopt;
  return *of / *to;
}

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  return (values[half - 1] + values[half]) / 2;
}

std::optional<double> GeometricMean(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  double logarithms = 0;
  for (const double value : values) {
    if (!(value > 0)) return std::nullopt;
    logarithms += std::log(value);
  }
  return std::exp(logarithms / static_cast<double>(values.size()));
}

std::vector<double> Present(const PairValues& values) {
  std::vector<double> present;
  for (const auto& value : values) {
    if (value.has_value()) present.push_back(*value);
  }
  return present;
}

Ratios RatiosOf(const PairValues& of, const PairValues& to) {
  assert(of.size() == to.size());
  std::vector<double> dividends, divisors, each;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!of[i].has_value() || !to[i].has_value()) continue;
    dividends.push_back(*of[i]);
    divisors.push_back(*to[i]);
    if (const auto ratio = Ratio(of[i], to[i])) each.push_back(*ratio);
  }
  Ratios ratios;
  ratios.of_means = Ratio(Mean(dividends), Mean(divisors));
  if (each.empty()) return ratios;
  ratios.pairs = each.size();
  ratios.above_one = static_cast<size_t>(
      std::ranges::count_if(each, [](double ratio) { return ratio > 1; }));
  ratios.geometric_mean = GeometricMean(each);
  ratios.least = std::ranges::min(each);
  ratios.most = std::ranges::max(each);
  ratios.median = Median(std::move(each));
  return ratios;
}

double Antt(double events, double event_slowdown, double background_slowdown) {
  return (events * event_slowdown + background_slowdown) / (events + 1);
}

Json Number(std::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  if (*value == 0) return 0.0;
  const double scale =
      std::pow(10.0, 2 - std::floor(std::log10(std::abs(*value))));
  // Whole numbers keep all their digits.
  return scale < 1 ? std::round(*value) : std::round(*value * scale) / scale;
}

std::vector<double> Samples(std::span<const Json* const> results,
                            const char* pointer) {
  std::vector<double> samples;
  for (const Json* result : results) {
    for (const Json& value : result->at(Json::json_pointer(pointer))) {
      samples.push_back(value.get<double>());
    }
  }
  return samples;
}

}  // namespace carillon::sim::figures
