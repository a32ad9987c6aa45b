// Checks the parts of a request that registering an event kernel and launching
// a background kernel have in common: the kernel, its dimensions, its
// parameters.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "proto/common.pb.h"

namespace carillon::gpud {

// Errors: NotFound UNKNOWN_KERNEL, naming the nearest; InvalidArgument
// BAD_DIMENSIONS. A missing grid or block is 1x1x1.
absl::StatusOr<KernelMetadata> MakeKernelMetadata(
    const std::string& kernel, const v1::Dim3* grid, const v1::Dim3* block,
    uint32_t shared_bytes, const KernelCatalog& kernels, const GpuModel& gpu);

// Errors: InvalidArgument BAD_PRIORITY.
absl::Status CheckPriority(uint32_t priority);

// The kernel's own check of arguments that no event can change (what the
// front-end checks for each event otherwise). Errors: InvalidArgument
// BAD_BINDING.
absl::Status CheckFixedArguments(const KernelMetadata& kmd,
                                 const ArgumentPlan& plan);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_KERNEL_REQUEST_H_
