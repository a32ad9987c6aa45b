// Here a rung doorbell becomes a launch on CPU cores, on launch path `edge`: the
// front-end's thread runs an event of one warp itself while its kernel is short
// (EDGE IV-C; event/short_path_estimate.h), and hands all others to the KMU.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_

#include <memory>
#include <utility>

#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/block_runner.h"
#include "gpu_daemon/event/launch_path.h"

namespace carillon::gpud {

class EdgeLauncher : public Launcher {
 public:
  EdgeLauncher(Kmu* kmu, BlockRunner* runner, OnOverrun on_overrun = {})
      : kmu_(kmu), runner_(runner), on_overrun_(std::move(on_overrun)) {}

  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  void TookLong(EventKernel& event, Nanoseconds cpu_ns) override;
  bool by_priority() const override { return kmu_->by_priority(); }

 private:
  Kmu* const kmu_;
  BlockRunner* const runner_;
  const OnOverrun on_overrun_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_
