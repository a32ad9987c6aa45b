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

namespace ptb_internal {

__device__ inline uint64_t Load(const uint64_t* from) {
  uint64_t value;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
               : "=l"(value)
               : "l"(from)
               : "memory");
  return value;
}
__device__ inline uint32_t Load(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];"
               : "=r"(value)
               : "l"(from)
               : "memory");
  return value;
}

}  // namespace ptb_internal

// The place of a resident block in the order of their coming: 0 is the first.
__device__ inline uint32_t Arrive(const simt::BlockSupply& supply) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(&supply.taken->arrived)
               : "memory");
  return before;
}

// The GPU serves its reads of one line of host memory one after another, 1 us each:
// if all blocks read the host's word, they would wait for each other. So the second
// one that comes runs no block, and watches it for all. It is never the only one,
// and so the others run whatever it does. Returns when there is nothing to take.
__device__ inline void WatchStop(const simt::BlockSupply& supply) {
  const uint64_t blocks = supply.grid.count();
  while (simt::LoadRelaxed(supply.stop) == 0) {
    if (supply.first + ptb_internal::Load(&supply.taken->taken) >= blocks) {
      return;
    }
  }
  // One step: what was taken before it runs, and nobody finds a block behind it.
  uint64_t taken;
  asm volatile("atom.relaxed.gpu.global.exch.b64 %0, [%1], %2;"
               : "=l"(taken)
               : "l"(&supply.taken->taken), "l"(blocks)
               : "memory");
  simt::cuda_internal::StoreGlobal(&supply.taken->stopped, taken + 1);
}

// Nothing that others wrote is read by it.
__device__ inline TakenBlock TakeBlock(const simt::BlockSupply& supply,
                                       uint32_t rank) {
  if (rank == 1) {
    WatchStop(supply);
    return {.leaves = 1};
  }
  // While nobody else is there, nobody watches. The flag first: what is taken runs.
  if (rank == 0 && ptb_internal::Load(&supply.taken->arrived) == 1 &&
      simt::LoadRelaxed(supply.stop) != 0) {
    return {.leaves = 1};
  }
  uint64_t number;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;"
               : "=l"(number)
               : "l"(&supply.taken->taken)
               : "memory");
  number += supply.first;
  const simt::Dim3& grid = supply.grid;
  return {.at = {static_cast<uint32_t>(number % grid.x),
                 static_cast<uint32_t>(number / grid.x % grid.y),
                 static_cast<uint32_t>(number / grid.x / grid.y)},
          .leaves = number >= grid.count()};
}

// How many of the grid's blocks have run when all resident blocks have left; the
// next launch finds zeros.
__device__ inline uint64_t EndTaking(const simt::BlockSupply& supply) {
  simt::BlocksTaken& taken = *supply.taken;
  const uint64_t stopped = ptb_internal::Load(&taken.stopped);
  const uint64_t ended =
      supply.first +
      (stopped != 0 ? stopped - 1 : ptb_internal::Load(&taken.taken));
  simt::cuda_internal::StoreGlobal(&taken.taken, uint64_t{0});
  simt::cuda_internal::StoreGlobal(&taken.stopped, uint64_t{0});
  simt::cuda_internal::StoreGlobal(&taken.arrived, uint32_t{0});
  const uint64_t blocks = supply.grid.count();
  return ended < blocks ? ended : blocks;
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
  const uint32_t rank = is_first ? Arrive(supply) : 0;
  while (true) {
    if (is_first) taken = TakeBlock(supply, rank);
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
  simt::StoreRelaxed(supply.ended, EndTaking(supply));
  simt::cuda_internal::EndEvent(event, fail_status);
}

}  // namespace carillon::gpud

// carillon_ptb_<name>: for kernels that are included behind this file.
#undef CARILLON_PTB_FORM
#define CARILLON_PTB_FORM(name)                                       \
  extern "C" __global__ void carillon_ptb_##name(                     \
      const __grid_constant__ ::carillon::simt::EventFrame frame,     \
      const __grid_constant__ name##_cuda::ArgsType args,             \
      const __grid_constant__ ::carillon::simt::BlockSupply supply) { \
    ::carillon::gpud::RunPtb<name##_cuda>(frame, args, supply);       \
  }

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PTB_KERNEL_CUH_
