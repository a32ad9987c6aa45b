// Runs a whole gpud. main() includes this and no gRPC.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RUN_GPUD_H_
#define CARILLON_GPU_DAEMON_CONTROL_RUN_GPUD_H_

#include <functional>

#include "absl/status/status.h"
#include "gpu_daemon/options/gpud_options.h"

namespace carillon::gpud {

// Starts a control plane and serves until it is told to go down, then shuts it
// down and waits for kernels that still run. `ending` is called before clients
// are told, `closed` when they were. Errors: those of ControlPlane::Start().
absl::Status RunGpud(const GpudOptions& options,
                     const std::function<void()>& ending,
                     const std::function<void()>& closed);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RUN_GPUD_H_
