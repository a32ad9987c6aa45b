// A kernel of kernels/ as a task of an MTB: its thread, and the macros that make a
// function of its body. Include simt.h, then this file, then kernels.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_KERNEL_THREAD_CUH_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_KERNEL_THREAD_CUH_

#include <cstddef>
#include <cstdint>

#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"
#include "gpu_daemon/backends/cuda/pagoda/warp_table.h"
#include "kernels/simt/simt.h"

namespace carillon::gpud {

// Its shared memory and its barrier are parts of the MTB's.
class KernelThread : public simt::Thread {
 public:
  // `tid`: of the task's block.
  __device__ KernelThread(RingTask& task, const simt::Dim3& block,
                          const simt::Dim3& grid, const TaskWarp& warp,
                          uint32_t tid, std::byte* shared)
      : simt::Thread(
            {tid % block.x, tid / block.x % block.y, tid / block.x / block.y},
            {warp.block % grid.x, warp.block / grid.x % grid.y,
             warp.block / grid.x / grid.y},
            block, grid, &task.fail_status),
        shared_(shared + warp.shared_offset),
        shared_bytes_(task.shared_bytes),
        barrier_(warp.barrier) {}

  template <class T>
  __device__ T* shared(uint32_t byte_offset, uint32_t) const {
    return reinterpret_cast<T*>(shared_ + byte_offset);
  }
  __device__ uint32_t shared_bytes() const { return shared_bytes_; }
  // Whole warps meet at the named barrier (MeetsInWholeWarps).
  __device__ void Meet() const {
    if (barrier_ == 0) {
      __syncwarp(warp_mask());
      return;
    }
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier_), "r"(block_threads())
                 : "memory");
  }

 private:
  std::byte* const shared_;
  const uint32_t shared_bytes_;
  const uint32_t barrier_;
};

// Every lane of an executor warp calls it; those beyond the block's last thread do
// nothing. The arguments are copied first: what a kernel stores might lie where
// they do, so the compiler would read each of them again and again.
template <class Args, class Body>
__device__ __forceinline__ void RunKernelTask(const std::byte* args,
                                              RingTask& task,
                                              const TaskWarp& warp,
                                              std::byte* shared, Body body) {
  const simt::Dim3 block = task.block;
  const uint32_t tid =
      warp.warp * simt::kWarpSize + threadIdx.x % simt::kWarpSize;
  if (tid >= block.x * block.y * block.z) return;
  const Args copy = *reinterpret_cast<const Args*>(args);
  body(copy, KernelThread(task, block, task.grid, warp, tid, shared));
}

}  // namespace carillon::gpud

// carillon_task_<name>: not inlined, so that one kernel's registers are not
// another's, nor the MTB's own. Only those that a module calls become code.
#undef CARILLON_KERNEL
#undef CARILLON_BARRIER_KERNEL
#undef CARILLON_KERNEL_INFO
#undef CARILLON_SYNC_THREADS
#define CARILLON_KERNEL(name, Args, args, self)                              \
  static __device__ __forceinline__ void name##_task_body(                   \
      const Args& args, const ::carillon::gpud::KernelThread& self);         \
  [[maybe_unused]] static __device__ __noinline__ void carillon_task_##name( \
      const std::byte* task_args, ::carillon::gpud::RingTask& task,          \
      const ::carillon::gpud::TaskWarp& warp, std::byte* shared) {           \
    ::carillon::gpud::RunKernelTask<Args>(                                   \
        task_args, task, warp, shared,                                       \
        [](const Args& copy, const ::carillon::gpud::KernelThread& thread) { \
          name##_task_body(copy, thread);                                    \
        });                                                                  \
  }                                                                          \
  static __device__ __forceinline__ void name##_task_body(                   \
      [[maybe_unused]] const Args& args,                                     \
      [[maybe_unused]] const ::carillon::gpud::KernelThread& self)
#define CARILLON_BARRIER_KERNEL(name, Args, args, self) \
  CARILLON_KERNEL(name, Args, args, self)
#define CARILLON_KERNEL_INFO(name, Args, ...) \
  static_assert(std::is_trivially_copyable_v<Args>)
#define CARILLON_SYNC_THREADS(self) (self).Meet()

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PAGODA_KERNEL_THREAD_CUH_
