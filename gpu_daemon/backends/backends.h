// The one place that knows which back-ends there are.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_BACKENDS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_BACKENDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/launch/backend.h"

namespace carillon::gpud {

struct BackendOptions {
  GpuModel gpu;  // what a back-end without a GPU emulates
  std::string policy = "first_come";
  uint32_t workers = 0;  // 0: as many as the machine is good for
  // Of launch path edge's own; a back-end that cannot reserve refuses all but 0.
  uint32_t reserved_sms = 0;
  // The configuration of the simulated GPU in whose time the testbed lives (a
  // preset's name or a file); empty: wall time.
  std::string timing;
  // Time begins when so many devices have attached.
  uint32_t first_devices = 1;
  // Receives the times of each event and kernel; empty: none.
  std::string event_log;
  bool tracing = false;
  OnViolation on_violation;
};

// "auto": the first that can start, CUDA before the CPU. Errors: NotFound (no
// such back-end), FailedPrecondition (not in this build, no GPU, driver),
// InvalidArgument (options of another back-end), those of its Create().
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    std::string_view name, const BackendOptions& options);
// Without "auto".
std::vector<std::string> BackendNames();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_BACKENDS_H_
