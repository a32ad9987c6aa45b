// When events come: the load shapes of DISB (REEF, OSDI'22) but for dependent
// requests. A closed loop has no list: its next event comes a gap after the last
// one's end.
#ifndef CARILLON_TOOLS_BENCH_SHARING_ARRIVALS_H_
#define CARILLON_TOOLS_BENCH_SHARING_ARRIVALS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace carillon::bench {

// Nanoseconds from the beginning, in ascending order, all below an end.
using Arrivals = std::vector<Nanoseconds>;

// gap, 2 gap, ... `gap` must be above 0, here and below.
Arrivals UniformArrivals(Nanoseconds gap, Nanoseconds end);

// Exponential gaps of that mean. The same seed gives the same arrivals, on any
// machine with the same logarithm.
Arrivals PoissonArrivals(Nanoseconds mean_gap, Nanoseconds end, uint64_t seed);

// The arrivals of a trace, one time in microseconds a line, ascending; empty
// lines and what follows a '#' do not count. Errors: InvalidArgument, with the
// line: no number, below 0 or above an hour, before the one above it; fewer than
// two arrivals, more than a million, or all at once.
absl::StatusOr<Arrivals> ParseTrace(std::string_view text);
// The same of a file. Also the errors of ReadFile(); all name the file.
absl::StatusOr<Arrivals> ReadTrace(const std::string& path);

// The trace from its first arrival on, again and again, slower or faster, so
// that the mean gap is `mean_gap`. What ParseTrace() returns.
Arrivals TracedArrivals(const Arrivals& trace, Nanoseconds mean_gap,
                        Nanoseconds end);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_ARRIVALS_H_
