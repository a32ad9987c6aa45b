// The kernels of narrow tasks as tasks of a MasterKernel, and as blocks of a fused
// launch. For the simulated GPU: gpud's module has neither form.
#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring_scheduler.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_warp_port.cuh"
#include "tools/bench/narrow/narrow_tasks.h"

namespace carillon::bench {

// A thread of a task: of one block, whose barrier and shared memory are parts of
// the block that runs it.
class NarrowThread {
 public:
  __device__ NarrowThread(const NarrowRecord& task, uint32_t tid,
                          std::byte* shared, uint32_t barrier)
      : status_(task.status),
        threads_(task.threads),
        tid_(tid),
        shared_(shared),
        barrier_(barrier) {}

  __device__ uint32_t linear() const { return tid_; }
  __device__ uint32_t block_threads() const { return threads_; }
  __device__ uint64_t global_linear() const { return tid_; }
  __device__ uint64_t grid_threads() const { return threads_; }
  __device__ simt::Dim3 grid_dim() const { return {1, 1, 1}; }
  template <class T>
  __device__ T* shared(uint32_t byte_offset, uint32_t) const {
    return reinterpret_cast<T*>(shared_ + byte_offset);
  }
  __device__ void Fail(uint32_t status) const {
    atomicCAS(status_, 0u, simt::KernelStatus(status));
  }
  __device__ void Meet() const {
    if (threads_ <= simt::kWarpSize) {
      __syncwarp();
    } else {
      asm volatile("barrier.sync %0, %1;" ::"r"(barrier_), "r"(threads_)
                   : "memory");
    }
  }

 private:
  uint32_t* const status_;
  const uint32_t threads_;
  const uint32_t tid_;
  std::byte* const shared_;
  const uint32_t barrier_;
};

}  // namespace carillon::bench

// A kernel's body is for one type of thread. Here it is NarrowThread.
#undef CARILLON_KERNEL
#undef CARILLON_BARRIER_KERNEL
#undef CARILLON_KERNEL_INFO
#undef CARILLON_SYNC_THREADS
#define CARILLON_KERNEL(name, Args, args, self)       \
  using name##_args = Args;                           \
  static __device__ __forceinline__ void name##_task( \
      const Args& args, const ::carillon::bench::NarrowThread& self)
#define CARILLON_BARRIER_KERNEL(name, Args, args, self) \
  CARILLON_KERNEL(name, Args, args, self)
#define CARILLON_KERNEL_INFO(name, Args, ...) \
  static_assert(sizeof(Args) <= ::carillon::bench::kNarrowArgsBytes)
#define CARILLON_SYNC_THREADS(self) (self).Meet()

#include "kernels/narrow/beamformer.cuh"
#include "kernels/narrow/convolution.cuh"
#include "kernels/narrow/dct.cuh"
#include "kernels/narrow/filter_bank.cuh"
#include "kernels/narrow/mandelbrot.cuh"
#include "kernels/narrow/matmul.cuh"
#include "kernels/narrow/slud.cuh"
#include "kernels/narrow/triple_des.cuh"

namespace carillon::gpud {

// No warp here runs events.
static __device__ void RunInlineKernel(uint64_t, const std::byte*,
                                       const simt::Dim3&, uint32_t*) {}

}  // namespace carillon::gpud

namespace carillon::bench {

using gpud::TaskEntry;
using gpud::TaskTable;
using gpud::TaskWarp;

// The arguments are copied first: what a kernel stores might lie where they do, so
// the compiler would read each of them again and again.
template <class Args, void (*Body)(const Args&, const NarrowThread&)>
static __device__ __forceinline__ void RunBody(const NarrowRecord& task,
                                               const NarrowThread& thread) {
  const Args args = *reinterpret_cast<const Args*>(task.args);
  Body(args, thread);
}

__device__ static void RunTask(uint32_t kernel, const NarrowRecord& task,
                               const NarrowThread& thread) {
  switch (static_cast<NarrowKernel>(kernel)) {
#define CARILLON_NARROW_CASE(name) \
  case NarrowKernel::name:         \
    return RunBody<kernels::name##_args, kernels::name##_task>(task, thread);
    CARILLON_NARROW_KERNELS(CARILLON_NARROW_CASE)
#undef CARILLON_NARROW_CASE
  }
}

// A warp that has found nothing sleeps, an executor the longer the longer, or an
// SM's 64 warps that look would leave the tasks few cycles.
class NarrowPort : public gpud::EdgeWarpPort {
 public:
  __device__ explicit NarrowPort(std::byte* shared) : shared_(shared) {}
  __device__ gpud::TaskState PollState(const gpud::TaskState* state) {
    return simt::LoadRelaxed(state);
  }
  __device__ void RunTask(const TaskEntry& entry, const TaskWarp& warp) {
    __syncwarp();
    const auto& task = *reinterpret_cast<const NarrowRecord*>(entry.args);
    const uint32_t tid =
        warp.warp * simt::kWarpSize + threadIdx.x % simt::kWarpSize;
    bench::RunTask(
        static_cast<uint32_t>(entry.kernel), task,
        NarrowThread(task, tid, shared_ + warp.shared_offset, warp.barrier));
    __syncwarp();
  }
  __device__ bool SkipsTask(const TaskEntry&) { return false; }
  __device__ void Pause(uint32_t round) {
    const bool schedules = threadIdx.x < simt::kWarpSize;
    __nanosleep(round < 4                 ? 100
                : round < 32 || schedules ? 500
                : round < 64              ? 1000
                                          : 4000);
  }

 private:
  std::byte* const shared_;
};

extern "C" __global__ void __launch_bounds__(1024)
    narrow_master(const __grid_constant__ TaskTable table) {
  __shared__ gpud::MtbBlock block;
  __shared__ alignas(gpud::kTaskSharedBytes / 64)
      std::byte shared[gpud::kTaskSharedBytes];
  auto* words = reinterpret_cast<uint32_t*>(&block);
  for (uint32_t i = threadIdx.x; i < sizeof(block) / 4; i += blockDim.x) {
    words[i] = 0;
  }
  __syncthreads();
  NarrowPort port(shared);
  const uint32_t warp = threadIdx.x / simt::kWarpSize;
  if (warp == 0) {
    gpud::MtbScheduler<NarrowPort>(port, table, block, blockIdx.x).Run();
  } else {
    gpud::MtbExecutor<NarrowPort>(port, table, block, blockIdx.x, warp - 1)
        .Run();
  }
}

// The same for tasks that scheduler warps take from doorbells (launch path
// pagoda_ring). All memory of a simulated GPU is near: what it reads of a host's,
// doorbells, commands and entries, has a way there and a way back.
class NarrowRingPort : public NarrowPort {
 public:
  __device__ NarrowRingPort(const gpud::PagodaRingTable& table,
                            uint32_t host_way_ns, std::byte* shared)
      : NarrowPort(shared), table_(table), host_way_ns_(host_way_ns) {}

  __device__ uint32_t PollWord(const uint32_t* word) {
    __nanosleep(host_way_ns_);
    const uint32_t value = NarrowPort::PollWord(word);
    __nanosleep(host_way_ns_);
    return value;
  }
  __device__ void CopyEntry(std::byte* to, const std::byte* from,
                            uint32_t bytes) {
    __nanosleep(host_way_ns_);
    NarrowPort::CopyEntry(to, from, bytes);
    __nanosleep(host_way_ns_);
  }
  __device__ uint64_t SwapDevice64(uint64_t* word, uint64_t from, uint64_t to) {
    uint64_t before;
    asm volatile("atom.acquire.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(word), "l"(from), "l"(to)
                 : "memory");
    return before;
  }
  __device__ void EndTask(const TaskEntry& task) {
    gpud::EndRingTask(*this, table_.records[&task - table_.tasks.entries]);
  }

 private:
  const gpud::PagodaRingTable& table_;
  const uint32_t host_way_ns_;
};

extern "C" __global__ void __launch_bounds__(1024)
    narrow_ring_master(const __grid_constant__ gpud::PagodaRingTable table,
                       uint32_t host_way_ns) {
  __shared__ gpud::MtbBlock block;
  __shared__ alignas(16) std::byte copy[gpud::kPagodaEntryBytes];
  __shared__ alignas(gpud::kTaskSharedBytes / 64)
      std::byte shared[gpud::kTaskSharedBytes];
  auto* words = reinterpret_cast<uint32_t*>(&block);
  for (uint32_t i = threadIdx.x; i < sizeof(block) / 4; i += blockDim.x) {
    words[i] = 0;
  }
  __syncthreads();
  const uint32_t warp = threadIdx.x / simt::kWarpSize;
  // A Port each: the scheduler's lies in local memory, and an executor would read
  // that in each look.
  if (warp == 0) {
    NarrowRingPort port(table, host_way_ns, shared);
    gpud::PagodaRingScheduler<NarrowRingPort>(port, table, block, copy,
                                              blockIdx.x)
        .Run();
  } else {
    NarrowRingPort port(table, host_way_ns, shared);
    gpud::MtbExecutor<NarrowRingPort>(port, table.tasks, block, blockIdx.x,
                                      warp - 1)
        .Run();
  }
}

// Block b runs task b. All have as many threads as the largest of them; a smaller
// one's last warps leave at once.
#define CARILLON_NARROW_FUSED(name)                                    \
  extern "C" __global__ void fused_##name(const NarrowRecord* tasks) { \
    __shared__ alignas(16) std::byte shared[kNarrowSharedBytes];       \
    const NarrowRecord& task = tasks[blockIdx.x];                      \
    if (threadIdx.x >= task.threads) return;                           \
    RunBody<kernels::name##_args, kernels::name##_task>(               \
        task, NarrowThread(task, threadIdx.x, shared, 0));             \
  }
CARILLON_NARROW_KERNELS(CARILLON_NARROW_FUSED)
#undef CARILLON_NARROW_FUSED

// The same for tasks of several kernels.
extern "C" __global__ void fused_any(const NarrowRecord* tasks) {
  __shared__ alignas(16) std::byte shared[kNarrowSharedBytes];
  const NarrowRecord& task = tasks[blockIdx.x];
  if (threadIdx.x >= task.threads) return;
  RunTask(task.kernel, task, NarrowThread(task, threadIdx.x, shared, 0));
}

}  // namespace carillon::bench
