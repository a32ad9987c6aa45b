#include "gpu_daemon/control/sessions/drain.h"

#include <algorithm>
#include <thread>

namespace carillon::gpud {

std::chrono::milliseconds DrainLimit(uint32_t asked_ms) {
  if (asked_ms == 0) return kDefaultDrain;
  return std::min(std::chrono::milliseconds(asked_ms), kMaxDrain);
}

DrainOutcome WaitUntilDrained(const std::function<bool()>& drained,
                              std::chrono::milliseconds limit,
                              const GivenUp& given_up) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  constexpr microseconds kMaxNap{1'000};
  const auto deadline = steady_clock::now() + limit;
  microseconds nap{20};
  while (true) {
    // Before the look: what ended in time counts, however late the look is.
    const bool last = steady_clock::now() >= deadline;
    if (drained()) return DrainOutcome::kDrained;
    if (given_up()) return DrainOutcome::kGivenUp;
    if (last) return DrainOutcome::kTimedOut;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kMaxNap);
  }
}

}  // namespace carillon::gpud
