// Reads the request by which a client loads kernels of its own.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/user_kernel.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

inline constexpr size_t kMaxImageBytes = size_t{32} << 20;
inline constexpr int kMaxKernelsOfAFile = 256;

// Checks everything that can be checked without reading the image. The source
// that it returns refers to the request's image. Errors: InvalidArgument
// BAD_NAME, BAD_SIZE, BAD_COUNT, BAD_IMAGE, naming kernel and parameter.
absl::StatusOr<ModuleSource> ReadModuleRequest(
    const v1::RegisterModuleRequest& request);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_
