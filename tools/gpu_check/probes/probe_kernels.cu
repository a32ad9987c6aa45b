// Kernels of the probes; each is explained where a probe launches it.
#include <cuda_runtime.h>

#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

__device__ uint32_t Poll(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(word)
               : "memory");
  return value;
}
__device__ void Put(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value)
               : "memory");
}
__device__ uint32_t PollDevice(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(word)
               : "memory");
  return value;
}
__device__ uint64_t Now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ cudaError_t Fire(uint64_t exec, uint32_t sibling) {
  __threadfence();
  return cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(exec),
                         sibling != 0 ? cudaStreamGraphFireAndForgetAsSibling
                                      : cudaStreamGraphFireAndForget);
}

}  // namespace

extern "C" {

__global__ void probe_empty(uint32_t) {}

__global__ void probe_count(uint32_t* count) {
  atomicAdd(count, 1u);
  __threadfence();
}

// Spins until the host says stop; reports that it runs.
__global__ void probe_spin(const uint32_t* stop, uint32_t* running) {
  Put(running, 1);
  while (Poll(stop) == 0) {
  }
}

// out = in + 1, for a probe of registered memory.
__global__ void probe_copy(const uint32_t* in, uint32_t* out, uint32_t n) {
  for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i] + 1;
}

// Makes 16-byte stores of {i, ~i}, one after another.
__global__ void probe_store16(uint64_t* cell, uint64_t stores) {
  for (uint64_t i = 1; i <= stores; ++i) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{ .reg .b128 both; mov.b128 both, {%1, %2}; "
        "st.relaxed.sys.global.b128 [%0], both; }" ::"l"(cell),
        "l"(i), "l"(~i)
        : "memory");
#else
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(cell),
                 "l"(i), "l"(~i)
                 : "memory");
#endif
  }
}

// Every warp reads the word `reads` times, each time after the last read.
__global__ void probe_poll(const uint32_t* word, uint32_t reads, uint64_t* ns) {
  const uint32_t warp = threadIdx.x / 32;
  uint32_t sum = 0;
  const uint64_t start = Now();
  for (uint32_t i = 0; i < reads; ++i) {
    // The address depends on the last read's value, which is 0.
    sum += Poll(word + sum + threadIdx.x % 32);
  }
  if (threadIdx.x % 32 == 0) ns[warp] = Now() - start + sum;
}

// Answers each new value of `ping`; the first warp that sees it does.
__global__ void probe_pong(const uint32_t* ping, uint32_t* pong,
                           uint32_t last) {
  __shared__ uint32_t answered;
  if (threadIdx.x == 0) answered = 0;
  __syncthreads();
  if (threadIdx.x % 32 != 0) return;
  while (true) {
    const uint32_t value = Poll(ping);
    if (atomicMax(&answered, value) < value) Put(pong, value);
    if (value >= last) return;
  }
}

// How many launches are accepted, and which error refuses the next one.
__global__ void probe_fire(const uint64_t* execs, uint32_t n, uint32_t sibling,
                           FireResult* result) {
  result->launched = 0;
  result->error = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const cudaError_t error = Fire(execs[i], sibling);
    if (error != cudaSuccess) {
      result->error = error;
      break;
    }
    ++result->launched;
  }
  ++result->executions;
}

// The same, and then it launches itself: does that give a new budget?
__global__ void probe_fire_again(const uint64_t* execs, uint32_t n,
                                 uint32_t sibling, FireResult* results,
                                 uint32_t times) {
  FireResult& result = results[results->executions];
  execs += results->executions * n;
  uint32_t launched = 0;
  cudaError_t error = cudaSuccess;
  for (uint32_t i = 0; i < n && error == cudaSuccess; ++i) {
    error = Fire(execs[i], sibling);
    if (error == cudaSuccess) ++launched;
  }
  result.launched = launched;
  result.error = error;
  if (++results->executions >= times) return;
  __threadfence();
  results->relaunch_error =
      cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

// Launches, waits for the graph's store, then tries again until it may.
__global__ void probe_busy(uint64_t exec, uint32_t* done, uint32_t n,
                           BusyResult* result) {
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t before = PollDevice(done);
    const uint64_t tried = Now();
    uint32_t refusals = 0;
    cudaError_t error;
    do {
      error = Fire(exec, 0);
      if (error == cudaErrorInvalidValue) ++refusals;
    } while (error == cudaErrorInvalidValue && Now() - tried < 50'000'000);
    const uint64_t launched = Now();
    result->error = error;
    if (error != cudaSuccess) return;
    // At the first launch the graph is idle.
    if (i != 0) {
      result->sum_ns += launched - result->done_ns;
      const uint64_t ns = launched - result->done_ns;
      if (ns > result->most_ns) result->most_ns = ns;
      result->refusals += refusals;
      if (refusals != 0) ++result->refused;
    }
    result->launches = i + 1;
    while (PollDevice(done) == before) {
      if (Now() - launched > 50'000'000) return;
    }
    result->done_ns = Now();
  }
}

// A graph that relaunches itself, and the times at which its executions began
// and ended.
__global__ void probe_tail(TailResult* result, uint32_t times) {
  const uint64_t start = Now();
  const uint32_t run = result->executions;
  if (run != 0) {
    const uint64_t gap = start - result->end_ns;
    result->sum_ns += gap;
    if (gap > result->most_ns) result->most_ns = gap;
  }
  result->executions = run + 1;
  if (run + 1 < times) {
    __threadfence();
    result->error =
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
  }
  result->end_ns = Now();
}

__global__ void probe_fault(uint32_t* nowhere) { *nowhere = 1; }
__global__ void probe_trap() { asm volatile("trap;"); }

}  // extern "C"

}  // namespace carillon::gpu_check
