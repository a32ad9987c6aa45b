// A MasterKernel with one kind of task, for pagoda_world_test.
#include <cstdint>

#include "gpu_daemon/backends/cuda/pagoda/pagoda_warp_port.cuh"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_world_task.h"

namespace carillon::gpud {

// No warp here runs events.
static __device__ void RunInlineKernel(uint64_t, const std::byte*,
                                       const simt::Dim3&, uint32_t*) {}

struct WorldTasks {
  __device__ static void Run(uint64_t, const TaskThread& thread) {
    const auto& args = *reinterpret_cast<const WorldTaskArgs*>(thread.args());
    const uint32_t tid = thread.tid();
    const bool takes_part = tid < args.threads && args.number == args.last;
    const uint32_t first = thread.block() * args.threads;
    uint64_t value = WorldValue(args.number, first + tid);
    if (args.shares != 0) {
      auto* shared = reinterpret_cast<uint64_t*>(thread.shared());
      if (takes_part) shared[tid] = value;
      thread.SyncBlock();
      if (takes_part) value = shared[(tid + 1) % args.threads];
      thread.SyncBlock();
    }
    if (!takes_part) return;
    simt::AtomicAdd(&args.runs[first + tid], 1u);
    args.out[first + tid] = value;
  }
};

extern "C" __global__ void __launch_bounds__((1 + kTaskMaxExecutors) *
                                             simt::kWarpSize)
    carillon_world_master(const __grid_constant__ TaskTable table) {
  RunMasterKernel<WorldTasks>(table);
}

}  // namespace carillon::gpud
