// Checks the parts of a request that registering an event kernel and launching
// a background kernel have in common: the kernel, its dimensions, its
// parameters.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "proto/common.pb.h"

namespace carillon::gpud {

// Errors: NotFound UNKNOWN_KERNEL, naming the nearest; DataLoss KERNEL_LOST.
absl::StatusOr<const simt::KernelInfo*> FindKernel(
    const std::string& kernel, const KernelCatalog& kernels);

// A missing grid or block is 1x1x1. Errors: as FindKernel(); FailedPrecondition
// NO_GPU_CODE, where the back-end cannot run it; InvalidArgument BAD_DIMENSIONS.
absl::StatusOr<KernelMetadata> MakeKernelMetadata(const std::string& kernel,
                                                  const v1::Dim3* grid,
                                                  const v1::Dim3* block,
                                                  uint32_t shared_bytes,
                                                  const KernelCatalog& kernels,
                                                  const Backend& backend);

// `highest` is what gpud's operator allows. Errors: InvalidArgument BAD_PRIORITY
// (no such priority), PermissionDenied BAD_PRIORITY.
absl::Status CheckPriority(std::string_view device, uint32_t priority,
                           uint32_t highest);

// The kernel's own check of arguments that no event can change (what the
// front-end checks for each event otherwise). Errors: InvalidArgument
// BAD_BINDING.
absl::Status CheckFixedArguments(const KernelMetadata& kmd,
                                 const ArgumentPlan& plan);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_
