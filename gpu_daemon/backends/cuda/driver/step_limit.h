// Looks whether a thread's steps go on.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_STEP_LIMIT_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_STEP_LIMIT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace carillon::gpud::cuda {

// While it lives, a thread of its own looks whether somebody's steps go on.
class StepLimit {
 public:
  // Last_step: when the last one ended. `on_still` is called in the thread, once
  // for each last step, when `limit` has passed since then.
  StepLimit(const std::atomic<Nanoseconds>& last_step,
            std::chrono::milliseconds limit, std::function<void()> on_still)
      : thread_([this, &last_step, limit, on_still = std::move(on_still)] {
          const auto limit_ns =
              static_cast<Nanoseconds>(std::chrono::nanoseconds(limit).count());
          std::unique_lock lock(mutex_);
          Nanoseconds told_of = 0;
          while (!over_) {
            const Nanoseconds step = last_step.load(std::memory_order_relaxed);
            const Nanoseconds still_ns = NowNs() - step;
            Nanoseconds wait_ns = limit_ns;
            if (step != told_of) {
              if (still_ns >= limit_ns) {
                told_of = step;
                on_still();
                continue;
              }
              wait_ns -= still_ns;
            }
            ended_.wait_for(lock, std::chrono::nanoseconds(wait_ns),
                            [this] { return over_; });
          }
        }) {}
  ~StepLimit() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_DRIVER_STEP_LIMIT_H_
