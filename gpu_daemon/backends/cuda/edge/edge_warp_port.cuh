// The Port of edge_dispatch.h on a GPU: one warp, all of whose lanes are there.
// Orders and scopes are written out in PTX where CUDA C++ has no name for them.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_WARP_PORT_CUH_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_WARP_PORT_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/edge/edge_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "kernels/simt/simt.h"
#include "shm/layout.h"

namespace carillon::gpud {

// The lane's own value; its index says nothing that it does not know.
template <class T>
struct LaneValue {
  T value;
  __device__ T& operator[](uint32_t) { return value; }
};

// The part of a Port that any thread can do by itself.
class GpuMemoryPort {
 public:
  // --- Host memory. Only loads and stores: it has no atomics.

  __device__ uint32_t PollWord(const uint32_t* word) {
    return simt::LoadRelaxed(word);
  }
  template <class T>
  __device__ void ReleaseSystem(T* word, std::type_identity_t<T> value) {
    simt::StoreRelease(word, value);
  }
  template <class T>
  __device__ void StoreSystem(T* word, std::type_identity_t<T> value) {
    simt::StoreRelaxed(word, value);
  }
  template <class T>
  __device__ T LoadSystem(const T* word) {
    return simt::LoadRelaxed(word);
  }
  __device__ void Complete(shm::EcqEntry* to, shm::EventState state,
                           uint32_t status, uint64_t sequence) {
    simt::cuda_internal::StoreCompletion(to, state, status, sequence);
  }

  // --- Device memory.

  __device__ uint32_t LoadDevice(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                 : "=r"(value)
                 : "l"(word)
                 : "memory");
    return value;
  }
  __device__ void FreeDevice(uint32_t* word, uint32_t value) {
    asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(word), "r"(value)
                 : "memory");
  }
  __device__ bool TakeDevice(uint32_t* word, uint32_t from, uint32_t to) {
    uint32_t before;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(word), "r"(from), "r"(to)
                 : "memory");
    return before == from;
  }
  template <class T>
  __device__ T PeekDevice(const T* word) {
    T value;
    if constexpr (sizeof(T) == 4) {
      asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];"
                   : "=r"(value)
                   : "l"(word)
                   : "memory");
    } else {
      asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];"
                   : "=l"(value)
                   : "l"(word)
                   : "memory");
    }
    return value;
  }
  template <class T>
  __device__ void PutDevice(T* word, std::type_identity_t<T> value) {
    if constexpr (sizeof(T) == 4) {
      asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" ::"l"(word), "r"(value)
                   : "memory");
    } else {
      asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(value)
                   : "memory");
    }
  }
  template <class T>
  __device__ void CountDevice(T* word, std::type_identity_t<T> value) {
    simt::AtomicAdd(word, value);
  }
  __device__ uint32_t AddDevice(uint32_t* word, uint32_t value) {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(value)
                 : "memory");
    return before;
  }

  __device__ uint64_t NowNs() { return simt::cuda_internal::GlobalTimer(); }
  // Short at first: a ring is a microsecond away.
  __device__ void Pause(uint32_t rounds) {
    if (rounds >= kEager) __nanosleep(rounds < 64 * kEager ? 20 : 100);
  }
  __device__ void Trap() { __trap(); }

 private:
  static constexpr uint32_t kEager = 256;
};

// Every lane of a warp calls it to run a block of a kernel, which `number` says:
// that of carillon_inline_<name>. Defined by the module that has event warps.
static __device__ void RunInlineKernel(uint64_t number, const std::byte* args,
                                       const simt::Dim3& block,
                                       uint32_t* fail_status);

class EdgeWarpPort : public GpuMemoryPort {
 public:
  template <class T>
  using Lanes = LaneValue<T>;

  __device__ EdgeWarpPort() : lane_(threadIdx.x % kEdgeLanes) {}

  // --- The warp.

  template <class F>
  __device__ void EachLane(F f) {
    __syncwarp();
    f(lane_);
    __syncwarp();
  }
  template <class F>
  __device__ uint32_t Ballot(F f) {
    __syncwarp();
    return __ballot_sync(kAll, f(lane_));
  }
  template <class F>
  __device__ auto Elect(F f) {
    using Result = decltype(f());
    __syncwarp();
    if constexpr (std::is_void_v<Result>) {
      if (lane_ == 0) f();
      __syncwarp();
    } else {
      Result result{};
      if (lane_ == 0) result = f();
      return Broadcast(result);
    }
  }
  template <class T>
  __device__ T Value(Lanes<T>& lanes, uint32_t lane) {
    return __shfl_sync(kAll, lanes.value, static_cast<int>(lane));
  }
  __device__ uint32_t index() const { return lane_; }
  __device__ static constexpr uint32_t count() { return kEdgeLanes; }
  __device__ static void Sync() { __syncwarp(); }
  __device__ static bool Any(bool mine) { return __any_sync(kAll, mine) != 0; }

  // --- Host memory.

  __device__ void PollLine(Lanes<uint32_t>& lanes, const uint32_t* words) {
    lanes.value = simt::LoadRelaxed(words + lane_);
  }
  // 64 bytes, of which the memory system makes reads of at least 32.
  __device__ void PollEntry(Lanes<uint64_t>& words, const std::byte* from) {
    words.value =
        simt::LoadRelaxed(reinterpret_cast<const uint64_t*>(from) + lane_ % 8);
  }
  __device__ void AcquirePolled() {
    simt::cuda_internal::AcquireSystem();
    __syncwarp();
  }
  // Never from a cache: 256 bytes an instruction and warp.
  __device__ void CopyEntry(std::byte* to, const std::byte* from,
                            uint32_t bytes) {
    __syncwarp();
    for (uint32_t i = lane_ * 8; i < bytes; i += kEdgeLanes * 8) {
      *reinterpret_cast<uint64_t*>(to + i) =
          simt::LoadRelaxed(reinterpret_cast<const uint64_t*>(from + i));
    }
    __syncwarp();
  }

  // --- Shared memory of the block.

  __device__ uint32_t LoadBlock(const uint32_t* word) {
    uint32_t value;
    asm volatile("ld.acquire.cta.shared.b32 %0, [%1];"
                 : "=r"(value)
                 : "r"(Shared(word))
                 : "memory");
    return value;
  }
  __device__ uint64_t LoadBlock(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.cta.shared.b64 %0, [%1];"
                 : "=l"(value)
                 : "r"(Shared(word))
                 : "memory");
    return value;
  }
  __device__ void StoreBlock(uint64_t* word, uint64_t value) {
    asm volatile("st.release.cta.shared.b64 [%0], %1;" ::"r"(Shared(word)),
                 "l"(value)
                 : "memory");
  }
  __device__ void StoreBlock(uint32_t* word, uint32_t value) {
    asm volatile("st.release.cta.shared.b32 [%0], %1;" ::"r"(Shared(word)),
                 "r"(value)
                 : "memory");
  }
  __device__ uint32_t AddBlock(uint32_t* word, uint32_t value) {
    uint32_t before;
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(Shared(word)), "r"(value)
                 : "memory");
    return before;
  }

  // --- Launches. The exec's handle is the one of the host.

  __device__ LaunchOutcome Launch(uint64_t exec, uint64_t* error) {
    // Releases; __threadfence() would order against loads to come, too.
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    const cudaError_t found = cudaGraphLaunch(
        reinterpret_cast<cudaGraphExec_t>(exec), cudaStreamGraphFireAndForget);
    *error = found;
    if (found == cudaSuccess) return LaunchOutcome::kLaunched;
    // Its last launch has not retired.
    if (found == cudaErrorInvalidValue) return LaunchOutcome::kBusy;
    return LaunchOutcome::kError;
  }
  __device__ bool RelaunchSelf(uint64_t* error) {
    __threadfence();
    const cudaError_t found =
        cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
    *error = found;
    return found == cudaSuccess;
  }
  __device__ void RunInline(const EdgeEntry& entry, const std::byte* args,
                            uint32_t* fail_status) {
    __syncwarp();
    RunInlineKernel(entry.inline_kernel, args,
                    {entry.block[0], entry.block[1], entry.block[2]},
                    fail_status);
    __syncwarp();
  }

 private:
  static constexpr uint32_t kAll = 0xffffffff;

  template <class T>
  __device__ static T Broadcast(T value) {
    static_assert(sizeof(T) <= 8);
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(
          __shfl_sync(kAll, static_cast<unsigned long long>(value), 0));
    } else {
      return static_cast<T>(__shfl_sync(kAll, static_cast<uint32_t>(value), 0));
    }
  }
  __device__ static uint32_t Shared(const void* word) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(word));
  }

  const uint32_t lane_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_EDGE_WARP_PORT_CUH_
