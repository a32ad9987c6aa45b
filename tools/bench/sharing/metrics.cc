#include "tools/bench/sharing/metrics.h"

#include <algorithm>
#include <cmath>

namespace carillon::bench {
namespace {

template <class Of>
std::vector<double> Each(std::span<const Served> events, Of of) {
  std::vector<double> values;
  values.reserve(events.size());
  for (const Served& event : events) values.push_back(of(event));
  return values;
}

}  // namespace

std::vector<double> ResponsesOf(std::span<const Served> events) {
  return Each(events, [](const Served& event) { return event.response(); });
}

std::vector<double> PreemptionsOf(std::span<const Served> events) {
  return Each(events, [](const Served& event) {
    return static_cast<double>(event.dispatched - event.due);
  });
}

std::vector<double> PendingOf(std::span<const Served> events,
                              double occupying) {
  return Each(events, [&](const Served& event) {
    return std::max(0.0, event.response() - occupying);
  });
}

std::vector<double> TardinessOf(std::span<const Served> events,
                                Nanoseconds deadline) {
  return Each(events, [&](const Served& event) {
    return std::max(0.0, event.response() - static_cast<double>(deadline));
  });
}

std::vector<double> JitterOf(std::span<const Served> events,
                             Nanoseconds period) {
  std::vector<double> jitter;
  for (size_t i = 1; i < events.size(); ++i) {
    jitter.push_back(std::abs(static_cast<double>(events[i].finished) -
                              static_cast<double>(events[i - 1].finished) -
                              static_cast<double>(period)));
  }
  return jitter;
}

double Antt(std::span<const Program> programs) {
  double sum = 0;
  for (const Program& program : programs) {
    sum += program.together / program.alone;
  }
  return sum / static_cast<double>(programs.size());
}

double Stp(std::span<const Program> programs) {
  double sum = 0;
  for (const Program& program : programs) {
    sum += program.alone / program.together;
  }
  return sum;
}

}  // namespace carillon::bench
