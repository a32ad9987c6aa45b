#include "tools/bench/narrow/outcome.h"

#include <algorithm>
#include <cstddef>

namespace carillon::bench {

NarrowSummary Summarize(const NarrowOutcome& outcome) {
  NarrowSummary summary;
  std::vector<uint64_t> responses;
  double sum = 0;
  uint64_t last = 0;
  for (const NarrowTimes& task : outcome.tasks) {
    responses.push_back(task.ended_ns - task.begun_ns);
    sum += static_cast<double>(responses.back());
    last = std::max(last, task.ended_ns);
  }
  const size_t count = responses.size();
  summary.total_ns = static_cast<double>(last);
  summary.tasks_per_second =
      static_cast<double>(count) * 1e9 / static_cast<double>(last);
  summary.mean_ns = sum / static_cast<double>(count);
  // Nearest rank.
  const size_t rank = (count * 99 + 99) / 100 - 1;
  std::ranges::nth_element(responses, responses.begin() + rank);
  summary.p99_ns = static_cast<double>(responses[rank]);
  return summary;
}

}  // namespace carillon::bench
