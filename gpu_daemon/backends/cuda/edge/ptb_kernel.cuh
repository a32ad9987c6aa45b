// What carillon_ptb_<name> runs on a GPU (policy ptb): as many blocks as the GPU
// holds at once, which take the blocks of a grid from a BlockSupply. ptb.pml is
// its model.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PTB_KERNEL_CUH_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PTB_KERNEL_CUH_

#include <cstdint>

#include "kernels/simt/event_frame.h"
#include "kernels/simt/simt.h"

namespace carillon::gpud {

// What the first thread of a resident block has found, in shared memory.
struct TakenBlock {
  simt::Dim3 at;
  uint32_t leaves;  // there is none
};

__device__ inline TakenBlock TakeBlock(const simt::BlockSupply& supply) {
  // The flag first: what is taken runs. Nothing that others wrote is read by it.
  if (simt::LoadRelaxed(supply.stop) != 0) return {.leaves = 1};
  uint64_t number;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;"
               : "=l"(number)
               : "l"(supply.taken)
               : "memory");
  number += supply.first;
  const simt::Dim3& grid = supply.grid;
  return {.at = {static_cast<uint32_t>(number % grid.x),
                 static_cast<uint32_t>(number / grid.x % grid.y),
                 static_cast<uint32_t>(number / grid.x / grid.y)},
          .leaves = number >= grid.count()};
}

// Kernel: the struct that CARILLON_KERNEL makes. Requires of a kernel with
// barriers that no thread leaves it before its last barrier unless its whole
// block does (KernelTraits::LeavesTogether): a thread that has left goes on to
// this loop's barriers. The launch's grid is a row.
template <class Kernel>
__device__ __forceinline__ void RunPtb(const simt::EventFrame& frame,
                                       const typename Kernel::ArgsType& args,
                                       const simt::BlockSupply& supply) {
  __shared__ simt::cuda_internal::EventBlock block;
  __shared__ TakenBlock taken;
  static_assert(sizeof(block) + sizeof(taken) <= simt::kEventSharedBytes);
  simt::cuda_internal::BeginEvent(block);
  const simt::Dim3 dim{blockDim.x, blockDim.y, blockDim.z};
  const simt::Dim3 index{threadIdx.x, threadIdx.y, threadIdx.z};
  const bool is_first = index == simt::Dim3{0, 0, 0};
  while (true) {
    if (is_first) taken = TakeBlock(supply);
    __syncthreads();
    if (taken.leaves != 0) break;
    const simt::Thread thread(index, taken.at, dim, supply.grid,
                              &block.fail_status);
    Kernel::Run(args, thread);
    // All shared memory is the next block's from here on.
    __syncthreads();
  }
  if (!is_first) return;
  uint32_t fail_status = block.fail_status;
  const simt::EventFrame event = frame;
  if (!simt::cuda_internal::CountBlock(event.scratch, gridDim.x, fail_status)) {
    return;
  }
  // All have left, and this thread has seen what they did.
  uint64_t ended;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
               : "=l"(ended)
               : "l"(supply.taken)
               : "memory");
  simt::cuda_internal::StoreGlobal(supply.taken, uint64_t{0});
  ended += supply.first;
  const uint64_t blocks = supply.grid.count();
  simt::StoreRelaxed(supply.ended, ended < blocks ? ended : blocks);
  simt::cuda_internal::EndEvent(event, fail_status);
}

}  // namespace carillon::gpud

// carillon_ptb_<name>: for kernels that are included behind this file.
#undef CARILLON_PTB_FORM
#define CARILLON_PTB_FORM(name)                                             \
  extern "C" __global__ void carillon_ptb_##name(                           \
      const __grid_constant__ ::carillon::simt::EventFrame frame,           \
      const __grid_constant__ name##_cuda::ArgsType args,                   \
      const __grid_constant__ ::carillon::simt::BlockSupply supply) {       \
    ::carillon::gpud::RunPtb<name##_cuda>(frame, args, supply);             \
  }

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PTB_KERNEL_CUH_
