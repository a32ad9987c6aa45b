// What a run of narrow tasks took.
#ifndef CARILLON_TOOLS_BENCH_NARROW_OUTCOME_H_
#define CARILLON_TOOLS_BENCH_NARROW_OUTCOME_H_

#include <cstdint>
#include <vector>

namespace carillon::bench {

// Times count from the first moment of the run.
struct NarrowTimes {
  // The host begins with it: with the copy of its input, its launch or its spawn.
  uint64_t begun_ns = 0;
  // Its last thread has ended, or its output is copied.
  uint64_t ended_ns = 0;
};

struct NarrowOutcome {
  std::vector<NarrowTimes> tasks;
  // Of kernels, where that is another number than that of tasks.
  uint64_t launches = 0;
  uint64_t warp_instructions = 0;  // of a simulated GPU
  double wall_seconds = 0;         // that it took to simulate
};

// What people see of it.
struct NarrowSummary {
  double total_ns = 0;  // until the last task has ended
  double tasks_per_second = 0;
  double mean_ns = 0;  // response: from its beginning to its end
  double p99_ns = 0;
};
// Requires tasks.
NarrowSummary Summarize(const NarrowOutcome& outcome);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_NARROW_OUTCOME_H_
