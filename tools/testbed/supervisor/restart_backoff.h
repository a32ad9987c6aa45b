// Decides when a failed process is started again, and when no more.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_BACKOFF_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <optional>

namespace carillon::testbed {

// For one process. One thread.
class RestartBackoff {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    // The wait before the first restart in a row; doubles with each, up to
    // `longest`.
    std::chrono::milliseconds first{100};
    std::chrono::milliseconds longest{5'000};
    // A process that was ready for this long has recovered, and the row ends.
    std::chrono::milliseconds proven{10'000};
    int in_a_row = 5;
  };

  explicit RestartBackoff(Limits limits) : limits_(limits) {}

  // The process has failed after it was ready for `ready_for` (zero: never).
  // Returns how long to wait before it is started again; nothing if too many
  // restarts in a row have not helped.
  std::optional<std::chrono::milliseconds> AfterFailure(
      Clock::duration ready_for) {
    if (ready_for >= limits_.proven) in_a_row_ = 0;
    if (in_a_row_ >= limits_.in_a_row) return std::nullopt;
    std::chrono::milliseconds wait = std::min(limits_.first, limits_.longest);
    for (int i = 0; i < in_a_row_ && wait < limits_.longest; ++i) {
      wait = std::min(2 * wait, limits_.longest);
    }
    ++in_a_row_;
    return wait;
  }

  // How many restarts there were in the present row.
  int in_a_row() const { return in_a_row_; }

 private:
  const Limits limits_;
  int in_a_row_ = 0;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_BACKOFF_H_
