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
__device__ uint64_t Clock() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}

// Runs `before`, which starts what is to be outstanding, and times `timed`.
template <class Before, class Timed>
__device__ void Cost(uint32_t rounds, CostResult* result, Before before,
                     Timed timed) {
  CostResult cost = {~uint64_t{0}, 0, 0, 0};
  const uint64_t start_ns = Now();
  const uint64_t start = Clock();
  for (uint32_t i = 0; i < rounds; ++i) {
    before(i);
    const uint64_t began = Clock();
    timed(i);
    const uint64_t took = Clock() - began;
    cost.sum_ticks += took;
    if (took < cost.least_ticks) cost.least_ticks = took;
    __threadfence_system();
  }
  cost.ticks = Clock() - start;
  cost.ns = Now() - start_ns;
  if (threadIdx.x == 0) *result = cost;
}

// The next instruction waits until the value is there.
__device__ void Use(uint32_t value) {
  __shared__ uint32_t sink[32];
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(static_cast<uint32_t>(
                   __cvta_generic_to_shared(&sink[threadIdx.x % 32]))),
               "r"(value)
               : "memory");
}

template <class Timed>
__device__ void CostBeside(Outstanding outstanding, uint32_t* device,
                           uint32_t* host, uint32_t rounds, CostResult* result,
                           Timed timed) {
  switch (outstanding) {
    case Outstanding::kNothing:
      return Cost(
          rounds, result, [](uint32_t) {}, timed);
    case Outstanding::kStore:
      return Cost(
          rounds, result,
          [=](uint32_t i) {
            asm volatile(
                "st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(device + 64), "r"(i)
                : "memory");
          },
          timed);
    case Outstanding::kAdd:
      return Cost(
          rounds, result,
          [=](uint32_t) {
            asm volatile(
                "red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(device + 64)
                : "memory");
          },
          timed);
    case Outstanding::kHostStore:
      return Cost(
          rounds, result, [=](uint32_t i) { Put(host + 64, i); }, timed);
  }
}

// A read of so many lines, all of them on their way before the first is used.
template <uint32_t kLines>
__device__ void ReadLines(const uint32_t* line, uint32_t lanes, bool wide) {
  const uint32_t lane = threadIdx.x % 32;
  uint64_t values[kLines] = {};
  if (lane < lanes) {
#pragma unroll
    for (uint32_t i = 0; i < kLines; ++i) {
      const uint32_t* const from = line + i * 64;
      if (wide) {
        asm volatile("ld.relaxed.sys.global.u64 %0, [%1];"
                     : "=l"(values[i])
                     : "l"(from + 2 * lane)
                     : "memory");
      } else {
        uint32_t value;
        asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                     : "=r"(value)
                     : "l"(from + lane)
                     : "memory");
        values[i] = value;
      }
    }
  }
  uint64_t sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kLines; ++i) sum += values[i];
  Use(static_cast<uint32_t>(sum));
  __syncwarp();
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
    result->refusals += refusals;
    if (error != cudaSuccess) return;
    // At the first launch the graph is idle.
    if (i != 0) {
      result->sum_ns += launched - result->done_ns;
      const uint64_t ns = launched - result->done_ns;
      if (ns > result->most_ns) result->most_ns = ns;
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

// The same, and the host sees how often it has run.
__global__ void probe_tail_seen(TailResult* result, uint32_t times,
                                uint32_t* seen) {
  const uint32_t run = result->executions + 1;
  result->executions = run;
  Put(seen, run);
  if (run >= times) return;
  __threadfence();
  result->error =
      cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

// Each warp launches its own graphs, one after another.
__global__ void probe_rate(const uint64_t* execs, uint32_t each,
                           RateResult* results) {
  if (threadIdx.x % 32 != 0) return;
  const uint32_t warp = threadIdx.x / 32;
  RateResult result = {Now(), 0, 0, 0};
  for (uint32_t i = 0; i < each; ++i) {
    const cudaError_t error = Fire(execs[warp * each + i], 0);
    if (error == cudaSuccess) {
      ++result.launched;
    } else {
      result.error = error;
    }
  }
  result.last_ns = Now();
  results[warp] = result;
}

// From the call of a launch to the launched kernel's first store. Further warps
// read the line meanwhile.
__global__ void probe_start(uint64_t exec, uint32_t* count,
                            const uint32_t* line, StartResult* result) {
  __shared__ volatile uint32_t done;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  if (threadIdx.x != 0) {
    if (threadIdx.x < 32) return;
    while (done == 0) Use(Poll(line + threadIdx.x % 8));
    return;
  }
  const uint32_t before = PollDevice(count);
  const uint64_t start_ns = Now();
  const uint64_t start = Clock();
  result->error = Fire(exec, 0);
  result->call_ticks = Clock() - start;
  while (result->error == cudaSuccess && PollDevice(count) == before) {
    if (Now() - start_ns > 50'000'000) break;
  }
  done = 1;
  result->seen_ticks = Clock() - start;
  // Long enough for the timer's steps.
  while (Now() - start_ns < 100'000) {
  }
  result->ticks = Clock() - start;
  result->ns = Now() - start_ns;
}

// Waits for the host's word, then launches.
__global__ void probe_fire_at(const uint32_t* go, uint32_t* running,
                              uint64_t exec, uint64_t* launched_ns,
                              uint32_t* error) {
  Put(running, 1);
  while (Poll(go) == 0) {
  }
  *launched_ns = Now();
  *error = Fire(exec, 0);
}
__global__ void probe_stamp(uint64_t* ns) {
  if (threadIdx.x == 0) *ns = Now();
}

// Keeps its blocks busy for so long.
__global__ void probe_hold(uint64_t ns) {
  const uint64_t start = Now();
  while (Now() - start < ns) {
  }
}
// The same; marks the SMs that its blocks are on.
__global__ void probe_where(uint32_t* sms, uint64_t ns) {
  uint32_t sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) sms[sm] = 1;
  const uint64_t start = Now();
  while (Now() - start < ns) {
  }
}

// Needs a larger stack than any kernel before it.
__global__ void probe_deep(uint32_t n, uint32_t* out) {
  uint32_t frame[2048];
  for (uint32_t i = 0; i < 2048; ++i) frame[i] = i * n;
  for (uint32_t i = 0; i < n; ++i) frame[frame[i % 2048] % 2048] += i;
  *out = frame[n % 2048];
}

__global__ void probe_compare(const uint32_t* word, uint32_t expected,
                              uint32_t* stale) {
  if (*word != expected) atomicAdd(stale, 1u);
}

__global__ void probe_fence(Fence fence, Outstanding outstanding,
                            uint32_t* device, uint32_t* host, uint32_t rounds,
                            CostResult* result) {
  const auto cost = [=](auto timed) {
    CostBeside(outstanding, device, host, rounds, result, timed);
  };
  switch (fence) {
    case Fence::kAcqRelSys:
      return cost([](uint32_t) {
        asm volatile("fence.acq_rel.sys;" ::: "memory");
      });
#if __CUDACC_VER_MAJOR__ >= 13
    case Fence::kAcquireSys:
      return cost([](uint32_t) {
        asm volatile("fence.acquire.sys;" ::: "memory");
      });
#endif
    case Fence::kStoreReleaseSys:
      return cost([=](uint32_t i) {
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(host), "r"(i)
                     : "memory");
      });
    case Fence::kAcqRelGpu:
      return cost([](uint32_t) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
      });
    case Fence::kLoadL2:
      return cost([=](uint32_t) {
        uint32_t value;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                     : "=r"(value)
                     : "l"(device)
                     : "memory");
        Use(value);
      });
    case Fence::kExchange:
      return cost([=](uint32_t i) { Use(atomicExch(device, i)); });
    case Fence::kStoreHost:
      return cost([=](uint32_t i) { Put(host, i); });
    default:
      return cost([](uint32_t) {});
  }
}

// One warp reads `bytes` (4 to 256) of each of 1, 4 or 16 lines of the host's.
__global__ void probe_host_read(const uint32_t* line, uint32_t bytes,
                                uint32_t lines, uint32_t rounds,
                                CostResult* result) {
  const bool wide = bytes > 128;
  const uint32_t lanes = wide ? bytes / 8 : bytes / 4;
  const auto nothing = [](uint32_t) {};
  if (lines == 1) {
    Cost(rounds, result, nothing,
         [=](uint32_t) { ReadLines<1>(line, lanes, wide); });
  } else if (lines == 4) {
    Cost(rounds, result, nothing,
         [=](uint32_t) { ReadLines<4>(line, lanes, wide); });
  } else {
    Cost(rounds, result, nothing,
         [=](uint32_t) { ReadLines<16>(line, lanes, wide); });
  }
}

// Block 0's first warp measures. The other two warps of block 0, or of block 1,
// read the line's first sector until it is done.
__global__ void probe_beside(Beside what, Neighbours where,
                             const uint32_t* line, uint32_t* device,
                             uint32_t* host, uint32_t rounds,
                             CostResult* result) {
  uint32_t* const done = device;
  const uint32_t lane = threadIdx.x % 32;
  if (threadIdx.x >= 32) {
    const uint32_t block = where == Neighbours::kSameSm ? 0 : 1;
    if (where == Neighbours::kNone || blockIdx.x != block) return;
    while (PollDevice(done) == 0) Use(Poll(line + lane % 8));
    return;
  }
  if (blockIdx.x != 0) return;
  const auto store = [=](uint32_t i) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(device + 64),
                 "r"(i)
                 : "memory");
  };
  const auto nothing = [](uint32_t) {};
  const auto read = [=](const uint32_t* from) {
    return [=](uint32_t) {
      Use(Poll(from + lane % 8));
      __syncwarp();
    };
  };
  // They are at work then.
  const uint64_t start = Now();
  while (Now() - start < 20'000) {
  }
  switch (what) {
    case Beside::kStoreReleaseSys:
      Cost(rounds, result, store, [=](uint32_t i) {
        if (lane == 0) {
          asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(host), "r"(i)
                       : "memory");
        }
        __syncwarp();
      });
      break;
    case Beside::kAcqRelGpu:
      Cost(rounds, result, store, [](uint32_t) {
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
      });
      break;
    case Beside::kReadSector:
      Cost(rounds, result, nothing, read(line));
      break;
    case Beside::kReadLine:
      Cost(rounds, result, nothing, read(line + 16));
      break;
    case Beside::kReadOther:
      Cost(rounds, result, nothing, read(line + 64));
      break;
  }
  if (lane == 0) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done), "r"(1)
                 : "memory");
  }
}

// Spins for so long: the SM's clock against the timer.
__global__ void probe_clock(uint64_t ns, CostResult* result) {
  const uint64_t start_ns = Now();
  const uint64_t start = Clock();
  while (Now() - start_ns < ns) {
  }
  result->ticks = Clock() - start;
  result->ns = Now() - start_ns;
}

__global__ void probe_timer(uint32_t reads, TimerResult* result) {
  TimerResult timer = {~uint64_t{0}, 0, 0};
  const uint64_t start = Now();
  uint64_t last = start;
  for (uint32_t i = 0; i < reads; ++i) {
    const uint64_t now = Now();
    if (now == last) continue;
    if (now - last < timer.least_step_ns) timer.least_step_ns = now - last;
    ++timer.steps;
    last = now;
  }
  timer.ns = last - start;
  *result = timer;
}

// Answers each new value of `ping` with the time.
__global__ void probe_clock_pong(const uint32_t* ping, uint32_t* pong,
                                 uint64_t* stamp, uint32_t last) {
  uint32_t answered = 0;
  while (answered != last) {
    const uint32_t value = Poll(ping);
    if (value == answered) continue;
    *stamp = Now();
    __threadfence_system();
    Put(pong, value);
    answered = value;
  }
}

__global__ void probe_fault(uint32_t* nowhere) { *nowhere = 1; }
__global__ void probe_trap() { asm volatile("trap;"); }

}  // extern "C"

}  // namespace carillon::gpu_check
