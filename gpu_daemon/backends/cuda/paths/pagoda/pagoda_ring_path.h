// Launch path `pagoda_ring` (Pagoda, with doorbells in the place of its spawner):
// scheduler warps of resident thread blocks, the MTBs, take events and place their
// warps on executor warps (pagoda_ring_scheduler.h).
//
//   how many   as many MTBs as the rings' events can fill, at most one an SM, in half
//              of it, with the registers that the driver names; some SMs stay
//              whole. The MasterKernel takes no event before all of its blocks are
//              on the GPU: where they find no room, it leaves, and is launched
//              again; after three times in vain the path gives up.
//   which      kernels with a task form (task_kernels.h), in blocks of at most 31
//              warps and 32 KB of shared memory.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_RING_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_RING_PATH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

namespace carillon::gpud::cuda {

// Errors: those of the driver; Unimplemented (a GPU whose SMs hold no MTB).
absl::StatusOr<std::unique_ptr<LaunchPath>> MakePagodaRingPath(
    Gpu* gpu, ResidentOptions options);

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PAGODA_PAGODA_RING_PATH_H_
