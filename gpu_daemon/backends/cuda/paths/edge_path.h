// Launch path `edge` on CUDA: the host's side of the resident dispatchers. They
// poll, launch and complete by themselves (edge_dispatch.h); the host fills in
// their tables, stops them (kHalt, kLeave) for every change of these, and
// watches them (resident_path.h).
//
// Inline only: a GPU that launches no graphs has one dispatcher, launched as an
// ordinary kernel. It runs events of one warp itself, and so never needs a
// launch, a budget, or another dispatcher; other kernels are refused.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

namespace carillon::gpud::cuda {

struct EdgeOptions {
  uint32_t dispatchers = 3;
  uint32_t pollers = 2;
  uint32_t event_warps = 8;
  // Fire-and-forget launches of one execution of a dispatcher.
  uint32_t budget = kEdgeBudget;
};

// Errors: those of the driver, but for a GPU that launches no graphs: see its
// notice().
absl::StatusOr<std::unique_ptr<LaunchPath>> MakeEdgePath(
    Gpu* gpu, ResidentOptions options, EdgeOptions edge = {});

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_EDGE_PATH_H_
