// Launch path `persistent` (EDGE II-D): every event kernel has resident thread
// blocks, which poll its doorbell, run its events one after another and complete
// them (persistent_block.h). What it shows is the price of that: blocks that
// wait hold their share of the GPU.
//
//   how many   as many as the grid has blocks, at most one an SM, and no more
//              than fit at once: they wait for each other. The path gives out
//              half of what each SM has (SmOccupancy, with the registers that
//              the driver names); the other half is everybody else's.
//   which      kernels that end by themselves. With barriers, those whose
//              threads leave together (KernelInfo::leaves_together): a resident
//              block is used again, so a thread that leaves early would meet the
//              others at the wrong barrier.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

namespace carillon::gpud::cuda {

// Errors: those of the driver.
absl::StatusOr<std::unique_ptr<LaunchPath>> MakePersistentPath(
    Gpu* gpu, ResidentOptions options);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PERSISTENT_PATH_H_
