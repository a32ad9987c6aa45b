// Runs the whole of a gpud that relays. main() includes this and no gRPC.
#ifndef CARILLON_GPU_DAEMON_RELAY_RUN_RELAY_H_
#define CARILLON_GPU_DAEMON_RELAY_RUN_RELAY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "gpu_daemon/options/gpud_options.h"

namespace carillon::gpud {

// As RunGpud(). `simulation`: what tells the topology. Errors: those of
// SessionRelay::Start() and Run().
absl::Status RunRelay(const GpudOptions& options, const std::string& simulation,
                      const std::function<void()>& ending,
                      const std::function<void()>& closed);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_RELAY_RUN_RELAY_H_
