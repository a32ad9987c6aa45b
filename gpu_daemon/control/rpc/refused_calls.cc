#include "gpu_daemon/control/rpc/refused_calls.h"

#include "fmt/format.h"

namespace carillon::gpud {

void RefusedCalls::Add(const std::string& sentence) {
  count_.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  if (logged_.size() < kMaxRemembered && !logged_.insert(sentence).second) {
    return;
  }
  refusals_.Warn(fmt::format("call refused: {}", sentence), NowNs());
}

void RefusedCalls::Tick(Nanoseconds now) {
  MutexLock lock(mutex_);
  refusals_.Tick(now);
}

}  // namespace carillon::gpud
