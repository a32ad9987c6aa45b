// How a kernel becomes an event on a GPU: launched with an EventFrame, it
// completes its own event (EDGE III-D). One that is small and meets no barrier
// (RunsInline(), kernel_info.h) also runs inside a resident event warp, for
// events of one warp: RunInline(). Included by simt_cuda.h.
//
//   carillon_event_<name>(EventFrame*)
//     extern "C"; any grid of fewer than 2^32 blocks, block and dynamic shared
//     memory as of the registration
//   carillon_call_<name>(EventFrame, Args, GridPart)
//     the same with all of it by value, for launches by the CPU, of a whole grid
//     or of a slice of it (GPES IV-A). A slice completes as a launch of its own.
//
// A module may define CARILLON_PERSISTENT_FORM(name) and CARILLON_PTB_FORM(name)
// anew before it includes its kernels, to give each of them one more form.
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

namespace cuda_internal {

// Orders what follows after what was loaded before, for all of the system. It
// waits for no store, as the fence that releases as well would.
__device__ inline void AcquireSystem() {
#if __CUDACC_VER_MAJOR__ >= 13
  asm volatile("fence.acquire.sys;" ::: "memory");
#else
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

// Stores the event's 16 bytes in one store, which releases: whoever sees it, also
// the CPU, sees what this thread did before, and what it saw of others.
__device__ inline void StoreCompletion(shm::EcqEntry* to, shm::EventState state,
                                       uint32_t status, uint64_t sequence) {
  const uint64_t low =
      static_cast<uint64_t>(status) << 32 | static_cast<uint32_t>(state);
  asm volatile(
      "{\n\t.reg .b128 entry;\n\t"
      "mov.b128 entry, {%1, %2};\n\t"
      "st.release.sys.global.b128 [%0], entry;\n\t}" ::"l"(to),
      "l"(low), "l"(sequence)
      : "memory");
}

// Returns true in one thread of the block, which then sees what all its threads
// have done. No thread waits here for one that has not arrived: in a kernel
// with barriers others may still be at one of the body's barriers, which counts
// the threads that have not left the kernel.
__device__ inline bool IsLastOfBlock(uint32_t* arrived) {
  // Lanes that arrive together count together. Each orders its own writes; the
  // barrier orders them before the one lane that counts for all of them.
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  const uint32_t group = __activemask();
  __syncwarp(group);
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

// What the threads of a block have of an event, in shared memory.
struct EventBlock {
  // The block's first failure. Writers: its threads, by compare-and-swap; reader:
  // the last of them, behind a barrier or `arrived`.
  uint32_t fail_status;
  // Threads that are done, in a kernel with barriers: see IsLastOfBlock().
  uint32_t arrived;
};

// The words that a launch finds zero; EventFrame's scratch is so already.
// Every thread calls it.
__device__ inline void BeginEvent(EventBlock& block) {
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    block.fail_status = 0;
    block.arrived = 0;
  }
  __syncthreads();
}

// The same, and a copy of the frame with its arguments: all of it in one trip to
// the memory where it lies, which the kernel waits for anyway to know whether
// there is an event.
template <size_t kBytes>
__device__ inline void BeginEvent(EventBlock& block, std::byte (&copy)[kBytes],
                                  const EventFrame* frame) {
  constexpr uint32_t kParts = kBytes / sizeof(uint4);
  const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
  const uint32_t thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  for (uint32_t i = thread; i < kParts; i += threads) {
    reinterpret_cast<uint4*>(copy)[i] =
        reinterpret_cast<const uint4*>(frame)[i];
  }
  BeginEvent(block);
}

// What is passed by its address in an EventFrame is in global memory, which the
// compiler does not know. These are relaxed, at GPU scope.
__device__ inline void StoreGlobal(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(word), "r"(value)
               : "memory");
}
__device__ inline void StoreGlobal(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(value)
               : "memory");
}
__device__ inline void AddOne(uint32_t* word) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(word)
               : "memory");
}
__device__ inline void AddOne(uint64_t* word) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(word)
               : "memory");
}

// Counts a block that has ended, with its status. True in the last one, which
// sees what all of them have done, and whose `status` is the grid's then: the
// first failure. Count and status are one word, so that one answer brings both.
__device__ inline bool CountBlock(EventScratch* scratch, uint32_t blocks,
                                  uint32_t& status) {
  constexpr uint32_t kCountShift = 8 * offsetof(EventScratch, blocks_ended);
  auto* const word = reinterpret_cast<uint64_t*>(scratch);
  uint64_t before = 0;
  for (uint64_t seen = 0; status != 0; seen = before) {
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(word), "l"(seen), "l"(seen | status)
                 : "memory");
    if (before == seen || static_cast<uint32_t>(before) != 0) break;
  }
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(word), "l"(uint64_t{1} << kCountShift)
               : "memory");
  if ((before >> kCountShift) + 1 != blocks) return false;
  status = static_cast<uint32_t>(before);
  StoreGlobal(word, 0);
  return true;
}

// The last thread of the grid writes everything that the event has to leave
// behind. With the completion `frame` may change where the launcher has it.
__device__ inline void EndEvent(const EventFrame& frame, uint32_t fail_status) {
  if (frame.life != nullptr) {
    StoreRelaxed(&frame.life->finished_ns,
                 GlobalTimer() + static_cast<uint64_t>(frame.clock_offset_ns));
  }
  if (frame.slot_ended != nullptr) {
    StoreGlobal(frame.slot_ended, frame.sequence);
  }
  if (frame.launcher_ended != nullptr) AddOne(frame.launcher_ended);
  // Behind the outputs of all blocks and the writes above.
  const bool done = fail_status == 0;
  StoreCompletion(frame.ecq,
                  done ? shm::EventState::kDone : shm::EventState::kFailed,
                  done ? 0 : CompletionStatus(fail_status), frame.sequence);
  // Nobody waits for these: who reads them does so every now and then, and for
  // the last time when the kernel has ended.
  if (frame.totals != nullptr) {
    AddOne(done ? &frame.totals->done : &frame.totals->failed);
  }
}

}  // namespace cuda_internal

// A kernel's body and its epilogue, behind BeginEvent(). Kernel is the struct that
// CARILLON_KERNEL makes; frame and args stay as they are until the kernel ends.
// `part`: where the launch's blocks are in a larger grid, for Thread; none: they
// are a grid of their own.
template <class Kernel, class... Part>
__device__ __forceinline__ void RunEvent(
    cuda_internal::EventBlock& block, const EventFrame& frame,
    const typename Kernel::ArgsType& args, const Part&... part) {
  const uint32_t blocks = gridDim.x * gridDim.y * gridDim.z;
  {
    const Thread thread(part..., &block.fail_status);
    Kernel::Run(args, thread);
  }
  if constexpr (Kernel::kUsesBarriers) {
    if (!cuda_internal::IsLastOfBlock(&block.arrived)) return;
  } else {
    __syncthreads();
    if (threadIdx.x != 0 || threadIdx.y != 0 || threadIdx.z != 0) return;
  }
  uint32_t fail_status = block.fail_status;
  // Read at once, not word by word between what follows.
  const EventFrame event = frame;
  if (blocks > 1 &&
      !cuda_internal::CountBlock(event.scratch, blocks, fail_status)) {
    return;
  }
  cuda_internal::EndEvent(event, fail_status);
}

// Runs one block of at most a warp. Every lane of the calling warp calls it;
// lanes beyond the block's threads return at once.
template <class Kernel>
__device__ __forceinline__ void RunInline(const std::byte* args, Dim3 block,
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
#define CARILLON_EVENT_FORM(name)                                         \
  extern "C" __global__ void carillon_event_##name(                       \
      ::carillon::simt::EventFrame* in) {                                 \
    using Args = name##_cuda::ArgsType;                                   \
    __shared__ ::carillon::simt::cuda_internal::EventBlock block;         \
    __shared__ alignas(16)                                                \
        std::byte copy[::carillon::simt::EventFrameBytes(sizeof(Args))];  \
    static_assert(sizeof(block) + sizeof(copy) <=                         \
                  ::carillon::simt::kEventSharedBytes);                   \
    ::carillon::simt::cuda_internal::BeginEvent(block, copy, in);         \
    auto& frame = *reinterpret_cast<::carillon::simt::EventFrame*>(copy); \
    /* The entry was refused: uniform over the grid. */                   \
    if (frame.ecq == nullptr) return;                                     \
    ::carillon::simt::RunEvent<name##_cuda>(                              \
        block, frame, *reinterpret_cast<const Args*>(frame.args()));      \
  }                                                                       \
  extern "C" __global__ void carillon_call_##name(                        \
      const __grid_constant__ ::carillon::simt::EventFrame frame,         \
      const __grid_constant__ name##_cuda::ArgsType args,                 \
      const __grid_constant__ ::carillon::simt::GridPart part) {          \
    __shared__ ::carillon::simt::cuda_internal::EventBlock block;         \
    ::carillon::simt::cuda_internal::BeginEvent(block);                   \
    ::carillon::simt::RunEvent<name##_cuda>(block, frame, args,           \
                                            part.first, part.grid);       \
  }
#endif

#define CARILLON_PERSISTENT_FORM(name)
#define CARILLON_PTB_FORM(name)

#endif  // CARILLON_KERNELS_SIMT_CUDA_EVENT_FORMS_H_
