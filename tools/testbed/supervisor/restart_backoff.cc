#include "tools/testbed/supervisor/restart_backoff.h"

#include <algorithm>

namespace carillon::testbed {

std::optional<std::chrono::milliseconds> RestartBackoff::AfterFailure(
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

}  // namespace carillon::testbed
