// The MasterKernels of launch paths `pagoda` and `pagoda_ring` (Pagoda 4.1), with
// gpud's kernels as tasks: a module of its own, as all of it is to have few
// registers, and a kernel's body is for one type of thread.
#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/edge/edge_warp_port.cuh"
#include "gpu_daemon/backends/cuda/pagoda/kernel_thread.cuh"
#include "gpu_daemon/backends/cuda/pagoda/mtb_executor.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/spawned_tasks.h"
#include "gpu_daemon/backends/cuda/pagoda/task_kernels.h"
#include "kernels/all_kernels.h"

namespace carillon::gpud {

// No warp here runs events by itself.
static __device__ void RunInlineKernel(uint64_t, const std::byte*,
                                       const simt::Dim3&, uint32_t*) {}

static __device__ __forceinline__ void RunTaskKernel(uint64_t kernel,
                                                     const std::byte* args,
                                                     RingTask& task,
                                                     const TaskWarp& warp,
                                                     std::byte* shared) {
  switch (static_cast<TaskKernel>(kernel)) {
#define CARILLON_TASK_CASE(name)                             \
  case TaskKernel::name:                                     \
    kernels::carillon_task_##name(args, task, warp, shared); \
    break;
    CARILLON_TASK_KERNELS(CARILLON_TASK_CASE)
#undef CARILLON_TASK_CASE
  }
}

// What the Ports of both have.
class MasterPort : public EdgeWarpPort {
 public:
  __device__ MasterPort(const PagodaRingTable& table, std::byte* shared)
      : table_(table), shared_(shared) {}

  __device__ TaskState PollState(const TaskState* state) {
    return simt::LoadRelaxed(state);
  }
  __device__ bool SkipsTask(const TaskEntry&) { return false; }
  // A warp that has found nothing sleeps, an executor the longer the longer, or an
  // SM's 32 warps that look would leave the tasks few cycles.
  __device__ void Pause(uint32_t round) {
    const bool schedules = threadIdx.x < simt::kWarpSize;
    __nanosleep(round < 16 ? 20 : round < 256 || schedules ? 100 : 1000);
  }

 protected:
  __device__ void Run(const TaskEntry& task, const std::byte* args,
                      RingTask& record, const TaskWarp& warp) {
    __syncwarp();
    RunTaskKernel(task.kernel, args, record, warp, shared_);
    __syncwarp();
  }

  const PagodaRingTable& table_;
  std::byte* const shared_;
};

class PagodaRingPort : public MasterPort {
 public:
  using MasterPort::MasterPort;

  __device__ uint64_t SwapDevice64(uint64_t* word, uint64_t from, uint64_t to) {
    uint64_t before;
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(word), "l"(from), "l"(to)
                 : "memory");
    return before;
  }
  __device__ void RunTask(const TaskEntry& task, const TaskWarp& warp) {
    Run(task, task.args, RecordOf(task), warp);
  }
  __device__ void EndTask(const TaskEntry& task) {
    EndRingTask(*this, RecordOf(task));
  }

 private:
  __device__ RingTask& RecordOf(const TaskEntry& task) const {
    return table_.records[&task - table_.tasks.entries];
  }
};

class SpawnedPort : public MasterPort {
 public:
  using MasterPort::MasterPort;

  __device__ void RunTask(const TaskEntry& task, const TaskWarp& warp) {
    Run(task, SpawnedArgs(task), SpawnedRecord(task), warp);
  }
  __device__ void EndTask(const TaskEntry& task) {
    EndRingTask(*this, SpawnedRecord(task));
  }
  __device__ void Pause(uint32_t round) {
    // Two words over PCIe: not in every round.
    if (blockIdx.x == 0 && threadIdx.x == 0 && round % 16 == 0) {
      PassCommandOn(*this, table_);
    }
    MasterPort::Pause(round);
  }
};

// By all threads, before any warp looks at it.
static __device__ __forceinline__ void Clear(MtbBlock& block) {
  auto* words = reinterpret_cast<uint32_t*>(&block);
  for (uint32_t i = threadIdx.x; i < sizeof(block) / 4; i += blockDim.x) {
    words[i] = 0;
  }
  __syncthreads();
}

// An MTB: block `blockIdx.x` is the table's column. 32 times (1 + executors)
// threads; no event is taken before all blocks are resident.
extern "C" __global__ void __launch_bounds__((1 + kTaskMaxExecutors) *
                                                 simt::kWarpSize,
                                             2)
    carillon_pagoda_ring(const __grid_constant__ PagodaRingTable table) {
  __shared__ MtbBlock block;
  __shared__ alignas(16) std::byte copy[kPagodaEntryBytes];
  __shared__ alignas(kTaskSharedBytes / 64) std::byte shared[kTaskSharedBytes];
  Clear(block);
  PagodaRingPort port(table, shared);
  const uint32_t warp = threadIdx.x / simt::kWarpSize;
  if (warp == 0) {
    PagodaRingScheduler<PagodaRingPort>(port, table, block, copy, blockIdx.x)
        .Run();
  } else {
    MtbExecutor<PagodaRingPort>(port, table.tasks, block, blockIdx.x, warp - 1)
        .Run();
  }
}

// The same, for tasks that the host spawns.
extern "C" __global__ void __launch_bounds__((1 + kTaskMaxExecutors) *
                                                 simt::kWarpSize,
                                             2)
    carillon_pagoda(const __grid_constant__ PagodaRingTable table) {
  __shared__ MtbBlock block;
  __shared__ alignas(kTaskSharedBytes / 64) std::byte shared[kTaskSharedBytes];
  Clear(block);
  SpawnedPort port(table, shared);
  const uint32_t warp = threadIdx.x / simt::kWarpSize;
  if (warp == 0) {
    ScheduleSpawned(port, table, block, blockIdx.x);
  } else {
    MtbExecutor<SpawnedPort>(port, table.tasks, block, blockIdx.x, warp - 1)
        .Run();
  }
}

}  // namespace carillon::gpud
