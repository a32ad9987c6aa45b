// The statistics that EDGE's artifact makes of lists of cycles.
#ifndef CARILLON_SIM_EXPERIMENTS_METRICS_H_
#define CARILLON_SIM_EXPERIMENTS_METRICS_H_

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
// Average normalized turnaround time of `events` events and one background.
double Antt(double events, double event_slowdown, double background_slowdown);

// null for none; otherwise rounded to three significant digits.
Json Number(std::optional<double> value);
// Collects the samples at this path of all results: "/events/scheduling".
std::vector<double> Samples(std::span<const Json* const> results,
                            const char* pointer);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_METRICS_H_
