// The module that a CUDA back-end loads: every kernel in its event forms, and
// the kernels that launch them without a CPU.
#include "gpu_daemon/backends/cuda/edge/edge_dispatch.h"
#include "gpu_daemon/backends/cuda/edge/edge_warp_port.cuh"
#include "gpu_daemon/backends/cuda/edge/launch_staged.h"
#include "gpu_daemon/backends/cuda/edge/persistent_kernel.cuh"
#include "gpu_daemon/backends/cuda/edge/ptb_kernel.cuh"
#include "gpu_daemon/backends/cuda/edge/stage_entry.h"
#include "kernels/all_kernels.h"

namespace carillon::gpud {

// Every kernel that RunsInline(). The dispatcher has their code in its own body: a
// call by address would save registers in local memory, and take as many of them
// and as much stack as the largest function of the module needs.
#define CARILLON_INLINE_KERNELS(DO) \
  DO(bfs_level)                     \
  DO(black_scholes)                 \
  DO(crc32)                         \
  DO(echo)                          \
  DO(fail_if)                       \
  DO(lbm)                           \
  DO(null_event)                    \
  DO(vector_add)

// 0 is no kernel, so that an entry without one does nothing.
enum class InlineKernel : uint64_t {
  kNone,
#define CARILLON_INLINE_NUMBER(name) name,
  CARILLON_INLINE_KERNELS(CARILLON_INLINE_NUMBER)
};

// carillon_inline_<name>: a kernel's number, which a host reads for EdgeEntry.
#define CARILLON_INLINE_WORD(name)                        \
  extern "C" __device__ uint64_t carillon_inline_##name = \
      static_cast<uint64_t>(InlineKernel::name);
CARILLON_INLINE_KERNELS(CARILLON_INLINE_WORD)

static __device__ __forceinline__ void RunInlineKernel(uint64_t number,
                                                       const std::byte* args,
                                                       const simt::Dim3& block,
                                                       uint32_t* fail_status) {
  switch (static_cast<InlineKernel>(number)) {
#define CARILLON_INLINE_CASE(name)                                   \
  case InlineKernel::name:                                           \
    simt::RunInline<kernels::name##_cuda>(args, block, fail_status); \
    break;
    CARILLON_INLINE_KERNELS(CARILLON_INLINE_CASE)
    case InlineKernel::kNone:
      break;
  }
}

// Launch path `edge`: the only node of a device-launchable graph. One block of
// 32 * (table->pollers + table->event_warps) threads, R of them at once, each
// with its own `dispatcher` and in its own stream.
extern "C" __global__ void __launch_bounds__(kEdgeMaxWarps* kEdgeLanes, 2)
    carillon_edge_dispatcher(EdgeTable* table, uint32_t dispatcher) {
  __shared__ EdgeBlock block;
  // What an execution finds zero: all but copies of entries and arguments.
  auto* words = reinterpret_cast<uint32_t*>(&block);
  for (uint32_t i = threadIdx.x; i < offsetof(EdgeBlock, inline_args) / 4;
       i += blockDim.x) {
    words[i] = 0;
  }
  __syncthreads();
  EdgeWarpPort port;
  RunEdgeDispatcher(port, *table, block, dispatcher, threadIdx.x / kEdgeLanes);
}

// Launch path `stream_wait`: one warp; behind it in the stream waits
// carillon_event_<name> with the slot's frame 0.
extern "C" __global__ void __launch_bounds__(kEdgeLanes)
    carillon_stage_entry(const EdgeEntry* entry, StageGate* gate,
                         uint64_t sequence) {
  __shared__ alignas(16)
      std::byte copy[sizeof(shm::EsqEntryHeader) + shm::kMaxParameterBytes];
  EdgeWarpPort port;
  // The stream waited for the doorbell; this orders the entry after it.
  port.AcquirePolled();
  StageEntry(port, *entry, nullptr, gate, sequence, copy);
}

// The only node of a graph behind it, where the kernel is a user's: only a graph's
// kernels may launch graphs.
extern "C" __global__ void __launch_bounds__(kEdgeLanes)
    carillon_launch_staged(const simt::EventFrame* frame, uint64_t exec) {
  EdgeWarpPort port;
  LaunchStaged(port, *frame, exec);
}

// Completes an event whose kernel, before it in the stream, cannot do so itself.
extern "C" __global__ void carillon_complete(
    const __grid_constant__ simt::EventFrame frame) {
  simt::cuda_internal::EndEvent(frame, 0);
}

// One event as a resident event warp runs it, for tests: `number` is
// carillon_inline_<name>.
extern "C" __global__ void __launch_bounds__(kEdgeLanes)
    carillon_run_inline(uint64_t number, const std::byte* args,
                        simt::Dim3 block, uint32_t* fail_status) {
  RunInlineKernel(number, args, block, fail_status);
}

// Takes the context, and with it every kernel that runs there.
extern "C" __global__ void carillon_trap() { asm volatile("trap;"); }

// Has a stack frame: with its launch the GPU takes the memory for as much stack
// per thread as the context's limit says.
extern "C" __global__ void carillon_take_stack() {
  volatile uint32_t frame[64];
  frame[threadIdx.x % 64] = 0;
}

// What the global timer shows.
extern "C" __global__ void carillon_clock(uint64_t* now_ns) {
  *now_ns = simt::cuda_internal::GlobalTimer();
  __threadfence_system();
}

}  // namespace carillon::gpud
