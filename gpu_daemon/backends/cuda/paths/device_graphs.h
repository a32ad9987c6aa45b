// Graphs that the GPU launches: those of events. A user's kernel has one for each
// slot of its ring, with the slot's arguments: it takes them by value, and a GPU
// cannot change those of a graph's kernel.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_DEVICE_GRAPHS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_DEVICE_GRAPHS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {

// Of one kernel, or of one behind the other. Priority: theirs; nullopt: the
// driver takes none. Stream: on whose SMs it runs; idle. It may be launched when
// that has come to its end.
// Errors: Unimplemented (a GPU that launches no graphs), those of the driver.
absl::StatusOr<GraphExec> MakeDeviceGraph(
    Gpu& gpu, std::span<const CUDA_KERNEL_NODE_PARAMS> kernels,
    std::optional<uint32_t> priority, CUstream stream);

// Errors: InvalidArgument, for a user's kernel with a parameter that comes with
// the entry. `path` is who asks.
absl::Status CheckFixedArguments(const EventKernel& event,
                                 std::string_view path);

// A user's kernel and, behind it, what completes the event of the frame. Requires
// CheckFixedArguments(). Errors: also those of Gpu::UserFunction().
absl::StatusOr<GraphExec> MakeUserGraph(Gpu& gpu, const EventKernel& event,
                                        uint32_t slot, simt::EventFrame* frame,
                                        std::optional<uint32_t> priority,
                                        CUstream stream);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_DEVICE_GRAPHS_H_
