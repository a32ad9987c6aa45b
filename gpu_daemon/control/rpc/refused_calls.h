// The calls that were refused because their callers lack the role: how many,
// and a line in gpud's log for each kind.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_REFUSED_CALLS_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_REFUSED_CALLS_H_

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/control/net/refusal_log.h"

namespace carillon::gpud {

// Thread safe.
class RefusedCalls {
 public:
  // So many refusals are remembered, so that each is logged only once.
  static constexpr size_t kMaxRemembered = 256;

  // Counts a call that was refused with this sentence.
  void Add(const std::string& sentence);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  // Logs how many refusals were left out of the log, if any were.
  void Tick(Nanoseconds now);

 private:
  // Writers: gRPC's threads; readers: anybody. Relaxed: only the number counts.
  std::atomic<uint64_t> count_{0};
  Mutex mutex_;
  RefusalLog refusals_ ABSL_GUARDED_BY(mutex_);
  // A caller that asks again and again is logged once.
  std::set<std::string> logged_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_REFUSED_CALLS_H_
