// The one place that knows which back-ends there are.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REGISTRY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REGISTRY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/options/backend_options.h"

namespace carillon::gpud {

// "auto": the first that can start, CUDA before the CPU. Errors: NotFound (no
// such back-end), FailedPrecondition (not in this build, no GPU, driver),
// InvalidArgument (options of another back-end), those of its Create().
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    std::string_view name, const BackendOptions& options);
// Without "auto".
std::vector<std::string> BackendNames();

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REGISTRY_H_
