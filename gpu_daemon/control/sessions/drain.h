// Waits until nothing is in flight any more, for UnregisterEvent and
// Admin.Drain.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DRAIN_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DRAIN_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace carillon::gpud {

// True when the caller of an RPC has gone away or its deadline has passed.
using GivenUp = std::function<bool()>;

// The wait of a caller that asks for 0, and the longest wait, because a waiting
// call holds one of gRPC's threads. proto/events.proto and proto/admin.proto
// name both.
inline constexpr std::chrono::milliseconds kDefaultDrain{1'000};
inline constexpr std::chrono::milliseconds kMaxDrain{60'000};

// How long to wait for a caller that asks for so many milliseconds.
std::chrono::milliseconds DrainLimit(uint32_t asked_ms);

enum class DrainOutcome { kDrained, kTimedOut, kGivenUp };

// Calls `drained` until it returns true, for at most `limit`; at least once,
// and once more after the time has passed. Nothing wakes it: it looks again
// after naps of up to a millisecond.
DrainOutcome WaitUntilDrained(const std::function<bool()>& drained,
                              std::chrono::milliseconds limit,
                              const GivenUp& given_up);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DRAIN_H_
