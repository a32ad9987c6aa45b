// How a kernel becomes an event on a GPU: launched with an EventFrame, it
// completes its own event (EDGE III-D), and one of a single warp also runs
// inside a resident event warp. Included by simt_cuda.h.
//
//   carillon_event_<name>(EventFrame*)
//     extern "C"; any grid of fewer than 2^32 blocks, block and dynamic shared
//     memory as of the registration
//   carillon_call_<name>(EventFrame, Args)
//     the same with all of it by value, for launches by the CPU
//   carillon_inline_<name>
//     extern "C" __device__ InlineFunction, for kernels without barriers, where
//     CARILLON_WITH_INLINE_FORMS is defined. A host reads its value
//     (cuModuleGetGlobal), which is good in this module only.
//
// A module may define CARILLON_PERSISTENT_FORM(name) anew before it includes
// its kernels, to give each of them one more form.
#ifndef CARILLON_KERNELS_SIMT_CUDA_EVENT_FORMS_H_
#define CARILLON_KERNELS_SIMT_CUDA_EVENT_FORMS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/simt/completion_status.h"
#include "kernels/simt/event_frame.h"
#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::simt {
inline namespace cuda_form {

// Runs one block of at most a warp. Every lane of the calling warp calls it;
// lanes beyond the block's threads return at once.
using InlineFunction = void (*)(const std::byte* args, Dim3 block,
                                uint32_t* fail_status);

namespace cuda_internal {

// Stores the event's 16 bytes in one store. A release fence of system scope
// precedes it.
__device__ inline void StoreCompletion(shm::EcqEntry* to, shm::EventState state,
                                       uint32_t status, uint64_t sequence) {
  const uint64_t low =
      static_cast<uint64_t>(status) << 32 | static_cast<uint32_t>(state);
  asm volatile(
      "{\n\t.reg .b128 entry;\n\t"
      "mov.b128 entry, {%1, %2};\n\t"
      "st.relaxed.sys.global.b128 [%0], entry;\n\t}" ::"l"(to),
      "l"(low), "l"(sequence)
      : "memory");
}

// Adds with acquire and release at GPU scope.
__device__ inline uint32_t CountBlock(uint32_t* blocks) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(blocks)
               : "memory");
  return before;
}

// Returns true in one thread of the block, which then sees what all its threads
// have done. No thread waits here for one that has not arrived: in a kernel
// with barriers others may still be at one of the body's barriers, which counts
// the threads that have not left the kernel.
__device__ inline bool IsLastOfBlock(uint32_t* arrived) {
  // Lanes that arrive together count together. Each orders its own writes, in
  // one instruction of the warp, before the one that counts for all of them.
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  const uint32_t group = __activemask();
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  if (lane != static_cast<uint32_t>(__ffs(static_cast<int>(group)) - 1)) {
    return false;
  }
  const uint32_t lanes = __popc(group);
  uint32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(arrived))),
                 "r"(lanes)
               : "memory");
  return before + lanes == blockDim.x * blockDim.y * blockDim.z;
}

__device__ inline uint64_t GlobalTimer() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The last thread of the grid writes everything that the event has to leave
// behind, and the completion last.
__device__ inline void EndEvent(const EventFrame& frame) {
  const uint32_t fail_status = atomicExch(&frame.scratch->fail_status, 0u);
  frame.scratch->blocks_ended = 0;
  if (frame.life != nullptr) {
    frame.life->finished_ns =
        GlobalTimer() + static_cast<uint64_t>(frame.clock_offset_ns);
  }
  if (frame.totals != nullptr) {
    auto* total =
        fail_status == 0 ? &frame.totals->done : &frame.totals->failed;
    atomicAdd(reinterpret_cast<unsigned long long*>(total), 1ull);
  }
  if (frame.slot_ended != nullptr) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(frame.slot_ended),
                 "l"(frame.sequence)
                 : "memory");
  }
  if (frame.launcher_ended != nullptr) atomicAdd(frame.launcher_ended, 1u);
  // Orders the outputs of all blocks and the writes above before the
  // completion, for the CPU.
  shm::EcqEntry* const ecq = frame.ecq;
  const uint64_t sequence = frame.sequence;
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  StoreCompletion(
      ecq, fail_status == 0 ? shm::EventState::kDone : shm::EventState::kFailed,
      CompletionStatus(fail_status), sequence);
}

}  // namespace cuda_internal

// A kernel's body and its epilogue. Kernel is the struct that CARILLON_KERNEL
// makes.
template <class Kernel>
__device__ __forceinline__ void RunEvent(
    const EventFrame& frame, const typename Kernel::ArgsType& args) {
  // Only a kernel with barriers needs it; its threads meet here before any of
  // them can have left.
  __shared__ uint32_t arrived;
  if constexpr (Kernel::kUsesBarriers) {
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) arrived = 0;
    __syncthreads();
  }
  {
    const Thread thread(&frame.scratch->fail_status);
    Kernel::Run(args, thread);
  }
  if constexpr (Kernel::kUsesBarriers) {
    if (!cuda_internal::IsLastOfBlock(&arrived)) return;
  } else {
    __syncthreads();
    if (threadIdx.x != 0 || threadIdx.y != 0 || threadIdx.z != 0) return;
  }
  const uint32_t blocks = gridDim.x * gridDim.y * gridDim.z;
  if (blocks > 1 &&
      cuda_internal::CountBlock(&frame.scratch->blocks_ended) + 1 != blocks) {
    return;
  }
  cuda_internal::EndEvent(frame);
}

// carillon_inline_<name> points to this function.
template <class Kernel>
__device__ __noinline__ void RunInline(const std::byte* args, Dim3 block,
                                       uint32_t* fail_status) {
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  if (lane >= block.x * block.y * block.z) return;
  const Thread thread(block, lane, fail_status);
  Kernel::Run(*reinterpret_cast<const typename Kernel::ArgsType*>(args),
              thread);
}

}  // namespace cuda_form
}  // namespace carillon::simt

#if defined(CARILLON_PLAIN_FORMS)
#define CARILLON_EVENT_FORM(name)
#else
#define CARILLON_EVENT_FORM(name)                                        \
  extern "C" __global__ void carillon_event_##name(                      \
      ::carillon::simt::EventFrame* frame) {                             \
    /* The entry was refused: uniform over the grid. */                  \
    if (frame->ecq == nullptr) return;                                   \
    ::carillon::simt::RunEvent<name##_cuda>(                             \
        *frame,                                                          \
        *reinterpret_cast<const name##_cuda::ArgsType*>(frame->args())); \
  }                                                                      \
  extern "C" __global__ void carillon_call_##name(                       \
      const __grid_constant__ ::carillon::simt::EventFrame frame,        \
      const __grid_constant__ name##_cuda::ArgsType args) {              \
    ::carillon::simt::RunEvent<name##_cuda>(frame, args);                \
  }
#endif

// Only for the module that has the resident event warps; in a namespace, nvcc's
// host code could not name it.
#if defined(CARILLON_WITH_INLINE_FORMS)
#define CARILLON_INLINE_FORM(name)                                     \
  extern "C" {                                                         \
  __device__ ::carillon::simt::InlineFunction carillon_inline_##name = \
      &::carillon::simt::RunInline<name##_cuda>;                       \
  }
#else
#define CARILLON_INLINE_FORM(name)
#endif

#define CARILLON_PERSISTENT_FORM(name)

#endif  // CARILLON_KERNELS_SIMT_CUDA_EVENT_FORMS_H_
