// How long it takes to notice a death and to recover from it, computed from
// flight recordings and the moment of the kill. All times are CLOCK_MONOTONIC.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_FIGURES_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_FIGURES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "tools/testbed/ledger/timeline.h"

namespace carillon::soak {

struct Death {
  uint32_t pid = 0;
  Nanoseconds time_ns = 0;  // when it was killed
};

// From a device's death until gpud had closed its session. Nothing if it had no
// session.
std::optional<Nanoseconds> UntilGpudClosed(ledger::Recordings recordings,
                                           const Death& device);

// From gpud's death until each device with a session knew of it.
std::vector<Nanoseconds> UntilDevicesKnew(ledger::Recordings recordings,
                                          const Death& gpud);

std::optional<Nanoseconds> UntilFirstSession(ledger::Recordings recordings,
                                             const Death& gpud);

std::optional<Nanoseconds> UntilFirstEnd(ledger::Recordings recordings,
                                         const Death& gpud);

// From the death until the devices took events at 90 % of their median rate
// before it, both over windows of 100 ms; the median is of the last
// `windows_before`. Nothing if the recordings do not reach so far.
std::optional<Nanoseconds> UntilFullRate(ledger::Recordings recordings,
                                         const Death& death,
                                         int windows_before);

// A set of numbers.
struct Sample {
  void Add(double value) { values.push_back(value); }
  size_t size() const { return values.size(); }
  // The smallest value that is not below a `share` of all values; 0 without
  // values.
  double Percentile(double share) const;
  double median() const { return Percentile(0.5); }

  std::vector<double> values;
};

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_FIGURES_H_
