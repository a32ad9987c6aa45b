// The statistics that EDGE's artifact makes of lists of cycles, and the medians
// and geometric means that it does not make.
#ifndef CARILLON_SIM_EXPERIMENTS_METRICS_H_
#define CARILLON_SIM_EXPERIMENTS_METRICS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/experiments/job.h"

namespace carillon::sim::figures {

// An empty list has no mean.
std::optional<double> Mean(std::span<const double> values);
// The mean of the top 5 %, which is at least one.
std::optional<double> Tail(std::vector<double> values);
std::optional<double> Ratio(std::optional<double> of, std::optional<double> to);
// Of an even number, the mean of the two in the middle.
std::optional<double> Median(std::vector<double> values);
// There is none of values that are not all above 0.
std::optional<double> GeometricMean(std::span<const double> values);

// One value for each pair of an event and a background, in an order that all
// such lists share; none where there was nothing to measure.
using PairValues = std::vector<std::optional<double>>;
std::vector<double> Present(const PairValues& values);

// How many times as large one quantity is as another, over pairs. A ratio of means, the papers' way, is mostly that of the
// pair with the largest values; the others count all pairs alike.
struct Ratios {
  std::optional<double> of_means;
  // Of the ratios of each pair. A pair whose divisor is 0 has none, and counts
  // for nothing but of_means.
  std::optional<double> median, geometric_mean, least, most;
  size_t pairs = 0;      // that have a ratio
  size_t above_one = 0;  // of these
};
// Leaves out pairs that have only one of the two values, or none.
Ratios RatiosOf(const PairValues& of, const PairValues& to);

// Average normalized turnaround time of `events` events and one background.
double Antt(double events, double event_slowdown, double background_slowdown);

// null for none; otherwise rounded to three significant digits.
Json Number(std::optional<double> value);
// Collects the samples at this path of all results: "/events/scheduling".
std::vector<double> Samples(std::span<const Json* const> results,
                            const char* pointer);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_METRICS_H_
