// What is said of events beside a background. docs/benchmarks.md has each
// metric's source.
#ifndef CARILLON_TOOLS_BENCH_SHARING_METRICS_H_
#define CARILLON_TOOLS_BENCH_SHARING_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace carillon::bench {

// One event: when it came, when its first block started, and its last one's end.
struct Served {
  Nanoseconds due = 0;
  Nanoseconds dispatched = 0;
  Nanoseconds finished = 0;

  double response() const { return static_cast<double>(finished - due); }
};

// finished - due of each.
std::vector<double> ResponsesOf(std::span<const Served> events);
// dispatched - due of each: how long the GPU was others'.
std::vector<double> PreemptionsOf(std::span<const Served> events);
// response - `occupying` of each, where that is what it takes alone (GPES V): what
// it spent without the GPU. Not below 0.
std::vector<double> PendingOf(std::span<const Served> events, double occupying);
// max(0, end - deadline) of each, with a deadline so long after it came (GPES V).
std::vector<double> TardinessOf(std::span<const Served> events,
                                Nanoseconds deadline);
// |t(i) - (t(i-1) + period)| of ends that should be `period` apart (GPES V); one
// fewer than events.
std::vector<double> JitterOf(std::span<const Served> events,
                             Nanoseconds period);

// The time of one program alone and beside the others. Both above 0.
struct Program {
  double alone = 0;
  double together = 0;
};
// Eyerman and Eeckhout, IEEE Micro 28(3), 2008: the mean of together/alone, so
// lower is better, and the sum of alone/together, at most the number of programs
// where nobody gains by company.
double Antt(std::span<const Program> programs);
double Stp(std::span<const Program> programs);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_SHARING_METRICS_H_
