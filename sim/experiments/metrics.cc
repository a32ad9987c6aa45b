#include "sim/experiments/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

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
