// Launch path `persistent` on a CPU core: persistent threads (EDGE II-D). The
// thread that polls runs every block of every event itself; it never sleeps
// while an event kernel is registered ("active idle").
#ifndef CARILLON_GPU_DAEMON_DISPATCH_PERSISTENT_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_PERSISTENT_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/block_runner.h"

namespace carillon::gpud {

class PersistentLauncher : public Launcher {
 public:
  explicit PersistentLauncher(BlockRunner* runner) : runner_(runner) {}

  // Errors: InvalidArgument (a kernel whose length is an argument: nothing
  // could stop it).
  absl::Status Prepare(EventKernel& event) override;
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  void Release(EventKernel&) override {
    event_kernels_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool must_poll() const override {
    return event_kernels_.load(std::memory_order_relaxed) != 0;
  }

 private:
  BlockRunner* const runner_;
  // Writers: whoever registers, the front-end; reader: the front-end. Relaxed:
  // it only decides whether that may sleep.
  std::atomic<uint32_t> event_kernels_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_PERSISTENT_LAUNCHER_H_
