// A user's own kernels, as a client sends them.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/user_kernel.h"
#include "proto/admin.pb.h"

namespace carillon::gpud {

inline constexpr size_t kMaxImageBytes = size_t{32} << 20;
inline constexpr int kMaxKernelsOfAFile = 256;

// Everything that can be checked without the image's inside. The source refers
// to the request's image. Errors: InvalidArgument BAD_NAME, BAD_SIZE, BAD_COUNT,
// BAD_IMAGE, naming kernel and parameter.
absl::StatusOr<ModuleSource> ReadModuleRequest(
    const v1::RegisterModuleRequest& request);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_MODULE_REQUEST_H_
