// The Port of mtb_scheduler.h on a GPU, and the MasterKernel that is made of it
// (Pagoda 4.1).
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WARP_PORT_CUH_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WARP_PORT_CUH_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_warp_port.cuh"
#include "gpu_daemon/backends/cuda/pagoda/mtb_executor.h"
#include "gpu_daemon/backends/cuda/pagoda/mtb_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/task_table.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"
#include "kernels/simt/simt.h"

namespace carillon::gpud {

// What a task's thread has (Pagoda 3, Table 1, the GPU's side).
class TaskThread {
 public:
  __device__ TaskThread(const TaskEntry& task, const TaskWarp& warp,
                        std::byte* shared)
      : task_(task), warp_(warp), shared_(shared + warp.shared_offset) {}

  __device__ const std::byte* args() const { return task_.args; }
  __device__ uint32_t block() const { return warp_.block; }
  // getTid: of the block.
  __device__ uint32_t tid() const {
    return warp_.warp * simt::kWarpSize + threadIdx.x % simt::kWarpSize;
  }
  // getSMPtr: of the block, aligned to 512.
  __device__ std::byte* shared() const { return shared_; }
  // syncBlock. Every thread of the block's warps calls it, those beyond its last
  // thread as well: a barrier counts warps.
  __device__ void SyncBlock() const {
    if (warp_.barrier == 0) {
      __syncwarp();
      return;
    }
    asm volatile("barrier.sync %0, %1;" ::"r"(warp_.barrier),
                 "r"(TaskWarps(task_.threads) * simt::kWarpSize)
                 : "memory");
  }

 private:
  const TaskEntry& task_;
  const TaskWarp& warp_;
  std::byte* const shared_;
};

// Tasks::Run(kernel, thread) runs the task function of that number. Lanes beyond
// the block's last thread run it, too.
template <class Tasks>
class PagodaWarpPort : public EdgeWarpPort {
 public:
  __device__ explicit PagodaWarpPort(std::byte* shared) : shared_(shared) {}

  __device__ TaskState PollState(const TaskState* state) {
    return simt::LoadRelaxed(state);
  }
  __device__ void RunTask(const TaskEntry& task, const TaskWarp& warp) {
    __syncwarp();
    Tasks::Run(task.kernel, TaskThread(task, warp, shared_));
    __syncwarp();
  }
  __device__ bool SkipsTask(const TaskEntry&) { return false; }

 private:
  std::byte* const shared_;
};

// An MTB: block `blockIdx.x` is the table's column. Requires 32 times
// (1 + table.executors) threads and all blocks resident at once.
template <class Tasks>
__device__ __forceinline__ void RunMasterKernel(const TaskTable& table) {
  __shared__ MtbBlock block;
  __shared__ alignas(kTaskSharedBytes / 64) std::byte shared[kTaskSharedBytes];
  auto* words = reinterpret_cast<uint32_t*>(&block);
  for (uint32_t i = threadIdx.x; i < sizeof(block) / 4; i += blockDim.x) {
    words[i] = 0;
  }
  __syncthreads();
  PagodaWarpPort<Tasks> port(shared);
  const uint32_t warp = threadIdx.x / simt::kWarpSize;
  if (warp == 0) {
    MtbScheduler<PagodaWarpPort<Tasks>>(port, table, block, blockIdx.x).Run();
  } else {
    MtbExecutor<PagodaWarpPort<Tasks>>(port, table, block, blockIdx.x, warp - 1)
        .Run();
  }
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_PAGODA_WARP_PORT_CUH_
