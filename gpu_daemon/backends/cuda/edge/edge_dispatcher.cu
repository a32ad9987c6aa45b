// The module that a CUDA back-end loads: every kernel in its event forms, and
// the kernels that launch them without a CPU. One module, because an inline
// kernel's address is good only where it is.
#define CARILLON_WITH_INLINE_FORMS
#include "gpu_daemon/backends/cuda/edge/edge_dispatch.h"
#include "gpu_daemon/backends/cuda/edge/edge_warp_port.cuh"
#include "gpu_daemon/backends/cuda/edge/persistent_kernel.cuh"
#include "gpu_daemon/backends/cuda/edge/stage_entry.h"
#include "kernels/all_kernels.h"

namespace carillon::gpud {

// Launch path `edge`: the only node of a device-launchable graph. One block of
// 32 * (table->pollers + table->event_warps) threads, R of them at once, each
// with its own `dispatcher` and in its own stream.
extern "C" __global__ void __launch_bounds__(kEdgeMaxWarps* kEdgeLanes, 1)
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
    carillon_stage_entry(const EdgeEntry* entry, const uint32_t* closed,
                         uint64_t sequence) {
  __shared__ alignas(16)
      std::byte copy[sizeof(shm::EsqEntryHeader) + shm::kMaxParameterBytes];
  EdgeWarpPort port;
  // The stream waited for the doorbell; this orders the entry after it.
  port.AcquirePolled();
  StageEntry(port, *entry, nullptr, closed, sequence, copy);
}

// Completes an event whose kernel, before it in the stream, cannot do so itself.
extern "C" __global__ void carillon_complete(
    const __grid_constant__ simt::EventFrame frame) {
  simt::cuda_internal::EndEvent(frame);
}

// One event as a resident event warp runs it, for tests: `function` is
// carillon_inline_<name>.
extern "C" __global__ void __launch_bounds__(kEdgeLanes)
    carillon_run_inline(uint64_t function, const std::byte* args,
                        simt::Dim3 block, uint32_t* fail_status) {
  reinterpret_cast<simt::InlineFunction>(function)(args, block, fail_status);
}

// Takes the context, and with it every kernel that runs there.
extern "C" __global__ void carillon_trap() { asm volatile("trap;"); }

// What the global timer shows.
extern "C" __global__ void carillon_clock(uint64_t* now_ns) {
  *now_ns = simt::cuda_internal::GlobalTimer();
  __threadfence_system();
}

}  // namespace carillon::gpud
