// What carillon_persistent_<name> runs on a GPU: persistent_block.h with the
// kernel's body in it.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_KERNEL_CUH_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_KERNEL_CUH_

#include "gpu_daemon/backends/cuda/edge/edge_warp_port.cuh"
#include "gpu_daemon/backends/cuda/edge/persistent_block.h"
#include "kernels/simt/simt.h"

namespace carillon::gpud {

// The first warp of a block that may have fewer threads than a warp has lanes.
class PartWarpPort : public GpuMemoryPort {
 public:
  __device__ PartWarpPort(uint32_t lane, uint32_t lanes)
      : lane_(lane),
        lanes_(lanes),
        mask_(lanes == simt::kWarpSize ? ~0u : (1u << lanes) - 1) {}

  template <class F>
  __device__ auto Elect(F f) {
    using Result = decltype(f());
    Sync();
    if constexpr (std::is_void_v<Result>) {
      if (lane_ == 0) f();
      Sync();
    } else if constexpr (sizeof(Result) == 8) {
      unsigned long long result = 0;
      if (lane_ == 0) result = f();
      return static_cast<Result>(__shfl_sync(mask_, result, 0));
    } else {
      uint32_t result = 0;
      if (lane_ == 0) result = f();
      return static_cast<Result>(__shfl_sync(mask_, result, 0));
    }
  }
  __device__ uint32_t index() const { return lane_; }
  __device__ uint32_t count() const { return lanes_; }
  __device__ void Sync() const { __syncwarp(mask_); }
  __device__ bool Any(bool mine) const { return __any_sync(mask_, mine) != 0; }
  __device__ void CopyEntry(std::byte* to, const std::byte* from,
                            uint32_t bytes) {
    Sync();
    // Several reads of each lane are on their way at once: a block of one thread
    // would wait for as many as an entry has words.
    constexpr uint32_t kReads = 8;
    const uint32_t step = lanes_ * 8;
    for (uint32_t i = lane_ * 8; i < bytes; i += kReads * step) {
      uint64_t words[kReads];
      CARILLON_EDGE_UNROLL
      for (uint32_t r = 0; r < kReads; ++r) {
        const uint32_t at = i + r * step;
        if (at < bytes) {
          words[r] =
              simt::LoadRelaxed(reinterpret_cast<const uint64_t*>(from + at));
        }
      }
      CARILLON_EDGE_UNROLL
      for (uint32_t r = 0; r < kReads; ++r) {
        const uint32_t at = i + r * step;
        if (at < bytes) *reinterpret_cast<uint64_t*>(to + at) = words[r];
      }
    }
    Sync();
  }
  __device__ void AcquirePolled() {
    simt::cuda_internal::AcquireSystem();
    Sync();
  }

 private:
  const uint32_t lane_;
  const uint32_t lanes_;
  const uint32_t mask_;
};

// Kernel: the struct that CARILLON_KERNEL makes. Requires of a kernel with
// barriers that no thread leaves it before its last barrier unless its whole
// block does (KernelTraits::LeavesTogether): a thread that has left goes on to
// this loop's barriers.
template <class Kernel>
__device__ __forceinline__ void RunPersistent(PersistentEntry& entry) {
  __shared__ uint32_t runs;
  const simt::Dim3 dim{blockDim.x, blockDim.y, blockDim.z};
  const simt::Dim3 index{threadIdx.x, threadIdx.y, threadIdx.z};
  const simt::Dim3 grid{entry.grid[0], entry.grid[1], entry.grid[2]};
  const uint32_t threads = dim.x * dim.y * dim.z;
  const uint32_t linear = (index.z * dim.y + index.y) * dim.x + index.x;
  const bool first_warp = linear < simt::kWarpSize;
  PartWarpPort port(linear,
                    threads < simt::kWarpSize ? threads : simt::kWarpSize);
  PersistentBlock<PartWarpPort> block(port, entry, blockIdx.x);
  simt::EventFrame* const frame = entry.entry.Frame(0, 0);
  const auto& args =
      *reinterpret_cast<const typename Kernel::ArgsType*>(frame->args());
  while (true) {
    if (first_warp) {
      const bool next = block.NextTurn();
      if (linear == 0) runs = next;
    }
    __syncthreads();
    if (runs == 0) return;
    uint32_t* const fail_status = &frame->scratch->fail_status;
    for (uint64_t b = blockIdx.x; b < grid.count(); b += gridDim.x) {
      const simt::Dim3 at{static_cast<uint32_t>(b % grid.x),
                          static_cast<uint32_t>(b / grid.x % grid.y),
                          static_cast<uint32_t>(b / grid.x / grid.y)};
      const simt::Thread thread(index, at, dim, grid, fail_status);
      Kernel::Run(args, thread);
      // Shared memory is the next block's from here on.
      __syncthreads();
    }
    if (first_warp) block.EndTurn();
  }
}

}  // namespace carillon::gpud

// carillon_persistent_<name>: for kernels that are included behind this file.
#undef CARILLON_PERSISTENT_FORM
#define CARILLON_PERSISTENT_FORM(name)                    \
  extern "C" __global__ void carillon_persistent_##name(  \
      ::carillon::gpud::PersistentEntry* entry) {         \
    ::carillon::gpud::RunPersistent<name##_cuda>(*entry); \
  }

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PERSISTENT_KERNEL_CUH_
