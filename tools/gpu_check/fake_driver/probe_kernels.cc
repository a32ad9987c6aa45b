// The probes' kernels on the fake GPU: its threads are CPU threads, so their
// figures say nothing, but what the probes do around them is what they do on a
// GPU.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "tools/gpu_check/probes/probe_types.h"

namespace carillon::gpu_check {
namespace {

using gpud::cuda::DeviceLaunch;
using gpud::cuda::FakeKernelRegistration;
using gpud::cuda::KernelCall;

// The host and kernels share words: relaxed, as the kernels' own accesses are,
// but for what hands over.
uint32_t Poll(const uint32_t* word) {
  return std::atomic_ref(const_cast<uint32_t&>(*word))
      .load(std::memory_order_acquire);
}
void Put(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
uint64_t Now() { return static_cast<uint64_t>(NowNs()); }

uint32_t Fire(KernelCall& call, uint64_t exec) {
  return static_cast<uint32_t>(call.Launch(reinterpret_cast<CUgraphExec>(exec),
                                           DeviceLaunch::kFireAndForget));
}
uint32_t Relaunch(KernelCall& call) {
  return static_cast<uint32_t>(
      call.Launch(call.current_graph(), DeviceLaunch::kTail));
}
void Spin(KernelCall& call, uint64_t ns) {
  const uint64_t start = Now();
  while (Now() - start < ns && !call.stopped()) {
  }
}

template <class Body>
FakeKernelRegistration Kernel(const char* name, std::vector<uint32_t> params,
                              Body body) {
  return {name, std::move(params), [body](KernelCall& call) {
            body(call);
            return CUDA_SUCCESS;
          }};
}

constexpr uint32_t kPointer = sizeof(void*);
constexpr uint32_t kWord = sizeof(uint32_t);

const FakeKernelRegistration kKernels[] = {
    // rogue.cu's.
    {"write_wrong",
     {kPointer},
     [](KernelCall&) { return CUDA_ERROR_ILLEGAL_ADDRESS; }},
    Kernel("never_end", {kPointer},
           [](KernelCall& call) {
             while (!call.stopped()) std::this_thread::yield();
           }),
    Kernel("probe_empty", {kWord}, [](KernelCall&) {}),
    Kernel("probe_count", {kPointer},
           [](KernelCall& call) {
             std::atomic_ref(*call.param<uint32_t*>(0))
                 .fetch_add(1, std::memory_order_acq_rel);
           }),
    Kernel("probe_spin", {kPointer, kPointer},
           [](KernelCall& call) {
             const auto* stop = call.param<const uint32_t*>(0);
             Put(call.param<uint32_t*>(1), 1);
             while (Poll(stop) == 0 && !call.stopped()) {
             }
           }),
    Kernel("probe_copy", {kPointer, kPointer, kWord},
           [](KernelCall& call) {
             const auto* in = call.param<const uint32_t*>(0);
             auto* out = call.param<uint32_t*>(1);
             for (uint32_t i = 0; i < call.param<uint32_t>(2); ++i) {
               out[i] = in[i] + 1;
             }
           }),
    Kernel("probe_store16", {kPointer, sizeof(uint64_t)},
           [](KernelCall& call) {
             auto* cell = call.param<uint64_t*>(0);
             // The second half first: whoever has read the sequence finds it.
             for (uint64_t i = 1; i <= call.param<uint64_t>(1); ++i) {
               std::atomic_ref(cell[1]).store(~i, std::memory_order_release);
               std::atomic_ref(cell[0]).store(i, std::memory_order_release);
             }
           }),
    Kernel("probe_poll", {kPointer, kWord, kPointer},
           [](KernelCall& call) {
             const auto* word = call.param<const uint32_t*>(0);
             const uint64_t start = Now();
             for (uint32_t i = 0; i < call.param<uint32_t>(1); ++i) Poll(word);
             for (uint32_t warp = 0; warp < call.block().x / 32; ++warp) {
               call.param<uint64_t*>(2)[warp] = Now() - start;
             }
           }),
    Kernel("probe_pong", {kPointer, kPointer, kWord},
           [](KernelCall& call) {
             uint32_t answered = 0;
             while (answered < call.param<uint32_t>(2) && !call.stopped()) {
               const uint32_t value = Poll(call.param<const uint32_t*>(0));
               if (value == answered) continue;
               Put(call.param<uint32_t*>(1), value);
               answered = value;
             }
           }),
    Kernel("probe_fire", {kPointer, kWord, kWord, kPointer},
           [](KernelCall& call) {
             auto& result = *call.param<FireResult*>(3);
             result.launched = result.error = 0;
             for (uint32_t i = 0; i < call.param<uint32_t>(1); ++i) {
               result.error = Fire(call, call.param<const uint64_t*>(0)[i]);
               if (result.error != 0) break;
               ++result.launched;
             }
             ++result.executions;
           }),
    Kernel("probe_fire_again", {kPointer, kWord, kWord, kPointer, kWord},
           [](KernelCall& call) {
             auto* results = call.param<FireResult*>(3);
             const auto n = call.param<uint32_t>(1);
             const auto* execs =
                 call.param<const uint64_t*>(0) + results->executions * n;
             FireResult& result = results[results->executions];
             result.launched = result.error = 0;
             for (uint32_t i = 0; i < n && result.error == 0; ++i) {
               result.error = Fire(call, execs[i]);
               if (result.error == 0) ++result.launched;
             }
             if (++results->executions >= call.param<uint32_t>(4)) return;
             results->relaunch_error = Relaunch(call);
           }),
    Kernel("probe_busy", {sizeof(uint64_t), kPointer, kWord, kPointer},
           [](KernelCall& call) {
             auto& result = *call.param<BusyResult*>(3);
             const auto* done = call.param<const uint32_t*>(1);
             for (uint32_t i = 0; i < call.param<uint32_t>(2); ++i) {
               const uint32_t before = Poll(done);
               const uint64_t tried = Now();
               uint32_t refusals = 0;
               uint32_t error = 0;
               do {
                 error = Fire(call, call.param<uint64_t>(0));
                 if (error != 0) ++refusals;
               } while (error == CUDA_ERROR_INVALID_VALUE && !call.stopped() &&
                        Now() - tried < 50'000'000);
               const uint64_t launched = Now();
               result.error = error;
               result.refusals += refusals;
               if (error != 0) return;
               if (i != 0) {
                 result.sum_ns += launched - result.done_ns;
                 result.most_ns =
                     std::max(result.most_ns, launched - result.done_ns);
                 if (refusals != 0) ++result.refused;
               }
               result.launches = i + 1;
               while (Poll(done) == before && !call.stopped()) {
               }
               result.done_ns = Now();
             }
           }),
    Kernel("probe_tail", {kPointer, kWord},
           [](KernelCall& call) {
             auto& result = *call.param<TailResult*>(0);
             if (result.executions != 0) {
               const uint64_t gap = Now() - result.end_ns;
               result.sum_ns += gap;
               result.most_ns = std::max(result.most_ns, gap);
             }
             if (++result.executions < call.param<uint32_t>(1)) {
               result.error = Relaunch(call);
             }
             result.end_ns = Now();
           }),
    Kernel("probe_tail_seen", {kPointer, kWord, kPointer},
           [](KernelCall& call) {
             auto& result = *call.param<TailResult*>(0);
             Put(call.param<uint32_t*>(2), ++result.executions);
             if (result.executions < call.param<uint32_t>(1)) {
               result.error = Relaunch(call);
             }
           }),
    Kernel("probe_rate", {kPointer, kWord, kPointer},
           [](KernelCall& call) {
             const auto each = call.param<uint32_t>(1);
             for (uint32_t warp = 0; warp < call.block().x / 32; ++warp) {
               RateResult& result = call.param<RateResult*>(2)[warp];
               result = {Now(), 0, 0, 0};
               for (uint32_t i = 0; i < each; ++i) {
                 const uint32_t error = Fire(
                     call, call.param<const uint64_t*>(0)[warp * each + i]);
                 if (error == 0) ++result.launched;
                 if (error != 0) result.error = error;
               }
               result.last_ns = Now();
             }
           }),
    Kernel("probe_start", {sizeof(uint64_t), kPointer, kPointer, kPointer},
           [](KernelCall& call) {
             auto& result = *call.param<StartResult*>(3);
             const auto* count = call.param<const uint32_t*>(1);
             const uint32_t before = Poll(count);
             const uint64_t start = Now();
             result.error = Fire(call, call.param<uint64_t>(0));
             result.call_ticks = Now() - start;
             if (result.error != 0) return;
             while (Poll(count) == before && !call.stopped()) {
             }
             result.seen_ticks = Now() - start;
             result.ticks = result.ns = Now() - start;
           }),
    Kernel("probe_fire_at",
           {kPointer, kPointer, sizeof(uint64_t), kPointer, kPointer},
           [](KernelCall& call) {
             Put(call.param<uint32_t*>(1), 1);
             while (Poll(call.param<const uint32_t*>(0)) == 0 &&
                    !call.stopped()) {
             }
             *call.param<uint64_t*>(3) = Now();
             *call.param<uint32_t*>(4) = Fire(call, call.param<uint64_t>(2));
           }),
    Kernel("probe_stamp", {kPointer},
           [](KernelCall& call) { *call.param<uint64_t*>(0) = Now(); }),
    Kernel("probe_hold", {sizeof(uint64_t)},
           [](KernelCall& call) { Spin(call, call.param<uint64_t>(0)); }),
    // It has no SMs: all blocks are on one.
    Kernel("probe_where", {kPointer, sizeof(uint64_t)},
           [](KernelCall& call) {
             call.param<uint32_t*>(0)[0] = 1;
             Spin(call, call.param<uint64_t>(1));
           }),
    Kernel("probe_deep", {kWord, kPointer},
           [](KernelCall& call) {
             *call.param<uint32_t*>(1) = call.param<uint32_t>(0);
           }),
    Kernel("probe_compare", {kPointer, kWord, kPointer},
           [](KernelCall& call) {
             if (Poll(call.param<const uint32_t*>(0)) !=
                 call.param<uint32_t>(1)) {
               ++*call.param<uint32_t*>(2);
             }
           }),
    Kernel("probe_fence",
           {sizeof(Fence), sizeof(Outstanding), kPointer, kPointer, kWord,
            kPointer},
           [](KernelCall& call) {
             const uint64_t start = Now();
             for (uint32_t i = 0; i < call.param<uint32_t>(4); ++i) {
               std::atomic_thread_fence(std::memory_order_seq_cst);
             }
             const uint64_t ns = Now() - start;
             *call.param<CostResult*>(5) = {1, ns, ns, ns};
           }),
    Kernel("probe_host_read", {kPointer, kWord, kWord, kWord, kPointer},
           [](KernelCall& call) {
             const uint64_t start = Now();
             for (uint32_t i = 0; i < call.param<uint32_t>(3); ++i) {
               Poll(call.param<const uint32_t*>(0));
             }
             const uint64_t ns = Now() - start;
             *call.param<CostResult*>(4) = {1, ns, ns, ns};
           }),
    Kernel("probe_beside",
           {sizeof(Beside), sizeof(Neighbours), kPointer, kPointer, kPointer,
            kWord, kPointer},
           [](KernelCall& call) {
             const uint64_t start = Now();
             for (uint32_t i = 0; i < call.param<uint32_t>(5); ++i) {
               Poll(call.param<const uint32_t*>(2));
             }
             const uint64_t ns = Now() - start;
             *call.param<CostResult*>(6) = {1, ns, ns, ns};
           }),
    Kernel("probe_clock", {sizeof(uint64_t), kPointer},
           [](KernelCall& call) {
             const uint64_t start = Now();
             Spin(call, call.param<uint64_t>(0));
             auto& result = *call.param<CostResult*>(1);
             result.ticks = result.ns = Now() - start;
           }),
    Kernel("probe_timer", {kWord, kPointer},
           [](KernelCall& call) {
             TimerResult timer = {~uint64_t{0}, 0, 0};
             const uint64_t start = Now();
             uint64_t last = start;
             for (uint32_t i = 0; i < call.param<uint32_t>(0); ++i) {
               const uint64_t now = Now();
               if (now == last) continue;
               timer.least_step_ns = std::min(timer.least_step_ns, now - last);
               ++timer.steps;
               last = now;
             }
             timer.ns = last - start;
             *call.param<TimerResult*>(1) = timer;
           }),
    Kernel("probe_clock_pong", {kPointer, kPointer, kPointer, kWord},
           [](KernelCall& call) {
             uint32_t answered = 0;
             while (answered != call.param<uint32_t>(3) && !call.stopped()) {
               const uint32_t value = Poll(call.param<const uint32_t*>(0));
               if (value == answered) continue;
               std::atomic_ref(*call.param<uint64_t*>(2))
                   .store(Now(), std::memory_order_relaxed);
               Put(call.param<uint32_t*>(1), value);
               answered = value;
             }
           }),
    {"probe_fault",
     {kPointer},
     [](KernelCall&) { return CUDA_ERROR_ILLEGAL_ADDRESS; }},
    {"probe_trap", {}, [](KernelCall&) { return CUDA_ERROR_LAUNCH_FAILED; }},
};

}  // namespace
}  // namespace carillon::gpu_check
