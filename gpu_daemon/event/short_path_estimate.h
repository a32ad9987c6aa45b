// Whether an event kernel is short enough to run in the front-end's own thread.
#ifndef CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_
#define CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud {

// Remembers how long the kernel took there: the shortest of the last few
// samples, so that being descheduled once does not count.
class ShortPathEstimate {
 public:
  // A longer kernel would keep the other doorbells waiting: it goes to a
  // worker.
  static constexpr Nanoseconds kMaxDuration = 100'000;

  // Whether a launch of this shape may run in the front-end's thread: any
  // thread may ask. A kernel whose length is an argument never runs there,
  // because nothing can stop it.
  bool Takes(const KernelMetadata& shape) const {
    return shape.single_warp() && !shape.kernel->unbounded &&
           shortest_.load(std::memory_order_relaxed) <= kMaxDuration;
  }

  // Whether the `nth` launch, counted from 1, is to be timed: each of the first
  // ones, then one in kSampleEvery, because two looks at the clock cost as much
  // as a small kernel. The front-end's thread only, as Add().
  bool WantsSample(uint64_t nth) const {
    return nth <= samples_.size() || nth % kSampleEvery == 1;
  }
  void Add(Nanoseconds duration) {
    samples_[count_++ % samples_.size()] = duration;
    if (count_ < samples_.size()) return;
    shortest_.store(std::ranges::min(samples_), std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kSampleEvery = 16;

  std::array<Nanoseconds, 4> samples_{};
  uint32_t count_ = 0;
  // Writer: the front-end; readers: it, and whoever shows it. Relaxed: it
  // stands for itself.
  std::atomic<Nanoseconds> shortest_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_SHORT_PATH_ESTIMATE_H_
