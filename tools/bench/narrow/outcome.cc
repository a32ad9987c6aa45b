#include "tools/bench/narrow/outcome.h"

#include <algorithm>
#include <utility>

#include "tools/bench/stats.h"

namespace carillon::bench {

NarrowSummary Summarize(const NarrowOutcome& outcome) {
  std::vector<double> responses;
  uint64_t last = 0;
  for (const NarrowTimes& task : outcome.tasks) {
    responses.push_back(static_cast<double>(task.ended_ns - task.begun_ns));
    last = std::max(last, task.ended_ns);
  }
  const Percentiles of = PercentilesOf(std::move(responses));
  const auto total = static_cast<double>(last);
  return {.total_ns = total,
          .tasks_per_second = static_cast<double>(of.samples) * 1e9 / total,
          .mean_ns = of.mean,
          .p99_ns = of.p99};
}

}  // namespace carillon::bench
