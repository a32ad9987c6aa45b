// Launch path `persistent` on a CPU core: persistent threads (EDGE II-D). The
// thread that polls runs every block of every event itself; it never sleeps
// while an event kernel is registered ("active idle").
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_PERSISTENT_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_PERSISTENT_LAUNCHER_H_

#include <memory>

#include "gpu_daemon/front_end/launcher.h"

namespace carillon::gpud {

class PersistentLauncher : public Launcher {
 public:
  // Errors: InvalidArgument (a kernel whose length is an argument: nothing
  // could stop it).
  absl::Status Prepare(EventKernel& event) override;
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  bool must_poll() const override { return true; }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_PERSISTENT_LAUNCHER_H_
