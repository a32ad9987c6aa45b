// Launch paths `baseline` and `baseline_flag` on CPU cores: a CPU thread polls
// the device, configures every kernel and launches it as host code does
// (EDGE II-B). The two differ in who tells the device that a kernel has ended.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_BASELINE_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_BASELINE_LAUNCHER_H_

#include <atomic>
#include <deque>
#include <memory>

#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/launcher.h"

namespace carillon::gpud {

class BaselineLauncher : public Launcher {
 public:
  enum class Completion {
    kEventPolling,  // this thread sees that the kernel has ended
    kEpilogue       // the kernel's last block
  };
  BaselineLauncher(Kmu* kmu, Completion completion)
      : kmu_(kmu), completion_(completion) {}

  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  bool Reap() override;
  bool must_poll() const override { return !polled_.empty(); }
  bool by_priority() const override { return kmu_->by_priority(); }

 private:
  // A kernel's end, for the thread that polls it.
  struct Polled {
    std::shared_ptr<EventKernel> event;
    shm::Sequence sequence;
    shm::EventLife life;  // up to queued_ns
    LaunchResult result;  // valid once `ended`
    // Writer: the KMU, after `result`; reader: the launcher. Release, acquire.
    std::atomic<bool> ended{false};
  };

  static void Complete(const Polled& polled);

  Kmu* const kmu_;
  const Completion completion_;
  std::deque<std::shared_ptr<Polled>> polled_;  // oldest first
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_BASELINE_LAUNCHER_H_
