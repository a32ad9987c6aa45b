// Whether an event kernel is short enough to run in the front-end's own thread.
#ifndef CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_
#define CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_

#include <atomic>

#include "base/clock.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud {

// Its slowest run there decides: every run is timed, and the first that takes
// too long is the last, since a kernel may be short for most arguments only.
class ShortPathEstimate {
 public:
  // A longer kernel would keep the other doorbells waiting: it goes to a
  // worker. CPU time.
  static constexpr Nanoseconds kMaxDuration = 150'000;

  // Whether a launch of this shape may run in the front-end's thread: any
  // thread may ask. A kernel whose length is an argument never runs there,
  // because nothing can stop it.
  bool Takes(const KernelMetadata& shape) const {
    return shape.single_warp() && !shape.kernel->unbounded &&
           !overran_.load(std::memory_order_relaxed);
  }

  // A run there took so long. True if it is the one that ends them. The
  // front-end's thread only.
  bool Add(Nanoseconds duration) {
    if (duration <= kMaxDuration || overran_.load(std::memory_order_relaxed)) {
      return false;
    }
    overran_.store(true, std::memory_order_relaxed);
    return true;
  }

 private:
  // Writer: the front-end; readers: it, and whoever shows it. Relaxed: it
  // stands for itself.
  std::atomic<bool> overran_{false};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_
