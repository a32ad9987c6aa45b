// Here a rung doorbell becomes a launch on CPU cores, on launch path `edge`: the
// front-end's thread runs an event of one warp itself while its kernel is short
// (EDGE IV-C; event/short_path_estimate.h), and hands all others to the KMU.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_

#include <memory>

#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/block_runner.h"

namespace carillon::gpud {

class EdgeLauncher : public Launcher {
 public:
  EdgeLauncher(Kmu* kmu, BlockRunner* runner) : kmu_(kmu), runner_(runner) {}

  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  bool by_priority() const override { return kmu_->by_priority(); }

 private:
  Kmu* const kmu_;
  BlockRunner* const runner_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_EDGE_LAUNCHER_H_
