// The CUDA implementation of kernels/simt/simt.h. Include simt.h, not this
// file.
//
// For each kernel there is carillon_<name>(Args, uint32_t* fail_status), extern
// "C", for a plain launch; unless CARILLON_PLAIN_FORMS is defined, the forms of
// event_forms.h, which complete an event; and <name>_cuda::Run(args, thread)
// for code with a __global__ of its own.
#ifndef CARILLON_KERNELS_SIMT_CUDA_SIMT_CUDA_H_
#define CARILLON_KERNELS_SIMT_CUDA_SIMT_CUDA_H_

#include <cstdint>
#include <type_traits>

#include "kernels/simt/cuda/cuda_kernels.h"
#include "kernels/simt/kernel_info.h"
#include "kernels/simt/types.h"

#define CARILLON_DEVICE __device__ inline
// Put it before a loop of at most 8 constant steps whose array should be in
// registers.
#define CARILLON_UNROLL _Pragma("unroll")

namespace carillon::simt {

// Keeps these apart from the CPU's Thread and atomics, which may be in the same
// binary.
inline namespace cuda_form {

extern __shared__ __align__(128) unsigned char carillon_dynamic_shared[];

class Thread {
 public:
  // `fail_status` must be in device memory: not every host supports a GPU's
  // atomics.
  __device__ explicit Thread(uint32_t* fail_status)
      : thread_index_{threadIdx.x, threadIdx.y, threadIdx.z},
        block_index_{blockIdx.x, blockIdx.y, blockIdx.z},
        block_dim_{blockDim.x, blockDim.y, blockDim.z},
        grid_dim_{gridDim.x, gridDim.y, gridDim.z},
        fail_status_(fail_status) {}
  // The same in a launch whose grid is a box of `grid`, from block `first` on.
  __device__ Thread(const Dim3& first, const Dim3& grid, uint32_t* fail_status)
      : thread_index_{threadIdx.x, threadIdx.y, threadIdx.z},
        block_index_{first.x + blockIdx.x, first.y + blockIdx.y,
                     first.z + blockIdx.z},
        block_dim_{blockDim.x, blockDim.y, blockDim.z},
        grid_dim_(grid),
        fail_status_(fail_status) {}
  // Thread `lane` of the only block of a launch that has no grid of its own.
  __device__ Thread(const Dim3& block, uint32_t lane, uint32_t* fail_status)
      : thread_index_{lane % block.x, lane / block.x % block.y,
                      lane / block.x / block.y},
        block_index_{0, 0, 0},
        block_dim_(block),
        grid_dim_{1, 1, 1},
        fail_status_(fail_status) {}
  // A thread of a block that executes the blocks of another launch's grid.
  __device__ Thread(const Dim3& thread_index, const Dim3& block_index,
                    const Dim3& block_dim, const Dim3& grid_dim,
                    uint32_t* fail_status)
      : thread_index_(thread_index),
        block_index_(block_index),
        block_dim_(block_dim),
        grid_dim_(grid_dim),
        fail_status_(fail_status) {}

  __device__ const Dim3& thread_index() const { return thread_index_; }
  __device__ const Dim3& block_index() const { return block_index_; }
  __device__ const Dim3& block_dim() const { return block_dim_; }
  __device__ const Dim3& grid_dim() const { return grid_dim_; }

  __device__ uint32_t linear() const {
    return (thread_index_.z * block_dim_.y + thread_index_.y) * block_dim_.x +
           thread_index_.x;
  }
  __device__ uint32_t lane() const { return linear() % kWarpSize; }
  __device__ uint32_t warp() const { return linear() / kWarpSize; }
  __device__ uint32_t block_threads() const {
    return block_dim_.x * block_dim_.y * block_dim_.z;
  }
  __device__ uint32_t warp_mask() const {
    const uint32_t lanes = block_threads() - warp() * kWarpSize;
    return lanes >= kWarpSize ? ~0u : (1u << lanes) - 1;
  }
  __device__ uint64_t global_x() const {
    return static_cast<uint64_t>(block_index_.x) * block_dim_.x +
           thread_index_.x;
  }
  __device__ uint64_t global_y() const {
    return static_cast<uint64_t>(block_index_.y) * block_dim_.y +
           thread_index_.y;
  }
  __device__ uint64_t global_z() const {
    return static_cast<uint64_t>(block_index_.z) * block_dim_.z +
           thread_index_.z;
  }

  // The position in the whole grid, with blocks one after another, and the
  // grid's size: the start and the step of a thread that takes every n-th
  // element.
  __device__ uint64_t global_linear() const {
    const Dim3& grid = grid_dim();
    const Dim3& block = block_index();
    return ((static_cast<uint64_t>(block.z) * grid.y + block.y) * grid.x +
            block.x) *
               block_threads() +
           linear();
  }
  __device__ uint64_t grid_threads() const {
    return grid_dim().count() * block_threads();
  }

  // Only a CPU checks this against the launch: here the launch has the bytes
  // that KernelInfo and the registration name.
  template <class T>
  __device__ T* shared(uint32_t byte_offset, uint32_t) const {
    return reinterpret_cast<T*>(carillon_dynamic_shared + byte_offset);
  }
  __device__ uint32_t shared_bytes() const {
    uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
  }

  __device__ void Fail(uint32_t status) const {
    atomicCAS(fail_status_, static_cast<uint32_t>(kFailNone),
              KernelStatus(status));
  }

 private:
  Dim3 thread_index_;
  Dim3 block_index_;
  Dim3 block_dim_;
  Dim3 grid_dim_;
  uint32_t* fail_status_;
};

namespace cuda_internal {

// CUDA declares 64-bit atomics for unsigned long long; uint64_t is unsigned
// long.
template <class T>
struct CudaAtomicType {
  using type = T;
};
template <>
struct CudaAtomicType<uint64_t> {
  using type = unsigned long long;
};
template <class T>
__device__ inline auto* Cell(T* address) {
  return reinterpret_cast<typename CudaAtomicType<T>::type*>(address);
}
template <class T>
__device__ inline auto Word(T value) {
  return static_cast<typename CudaAtomicType<T>::type>(value);
}

template <class T>
__device__ inline T ShuffleResult(uint32_t mask, T own, T read,
                                  uint32_t source) {
  // The hardware does not define the value of a lane that has exited; here the
  // reader gets its own.
  const uint32_t active = __ballot_sync(mask, 1);
  return source < kWarpSize && ((active >> source) & 1) != 0 ? read : own;
}

}  // namespace cuda_internal

template <class T>
__device__ inline T AtomicAdd(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicAdd(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicSub(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicAdd(cuda_internal::Cell(address),
                cuda_internal::Word(static_cast<T>(0 - value))));
}
template <class T>
__device__ inline T AtomicAnd(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicAnd(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicOr(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicOr(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicMin(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicMin(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicMax(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicMax(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicExch(T* address, std::type_identity_t<T> value) {
  return static_cast<T>(
      atomicExch(cuda_internal::Cell(address), cuda_internal::Word(value)));
}
template <class T>
__device__ inline T AtomicCas(T* address, std::type_identity_t<T> expected,
                              std::type_identity_t<T> desired) {
  return static_cast<T>(atomicCAS(cuda_internal::Cell(address),
                                  cuda_internal::Word(expected),
                                  cuda_internal::Word(desired)));
}

// System scope, because the other side may be the CPU. For integers of 4 and 8
// bytes.
template <class T>
__device__ inline T LoadRelaxed(const T* address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    uint32_t value;
    asm volatile("ld.relaxed.sys.b32 %0, [%1];"
                 : "=r"(value)
                 : "l"(address)
                 : "memory");
    return static_cast<T>(value);
  } else {
    uint64_t value;
    asm volatile("ld.relaxed.sys.b64 %0, [%1];"
                 : "=l"(value)
                 : "l"(address)
                 : "memory");
    return static_cast<T>(value);
  }
}
template <class T>
__device__ inline T LoadAcquire(const T* address) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    uint32_t value;
    asm volatile("ld.acquire.sys.b32 %0, [%1];"
                 : "=r"(value)
                 : "l"(address)
                 : "memory");
    return static_cast<T>(value);
  } else {
    uint64_t value;
    asm volatile("ld.acquire.sys.b64 %0, [%1];"
                 : "=l"(value)
                 : "l"(address)
                 : "memory");
    return static_cast<T>(value);
  }
}
template <class T>
__device__ inline void StoreRelaxed(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.relaxed.sys.b32 [%0], %1;" ::"l"(address),
                 "r"(static_cast<uint32_t>(value))
                 : "memory");
  } else {
    asm volatile("st.relaxed.sys.b64 [%0], %1;" ::"l"(address),
                 "l"(static_cast<uint64_t>(value))
                 : "memory");
  }
}
template <class T>
__device__ inline void StoreRelease(T* address, std::type_identity_t<T> value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    asm volatile("st.release.sys.b32 [%0], %1;" ::"l"(address),
                 "r"(static_cast<uint32_t>(value))
                 : "memory");
  } else {
    asm volatile("st.release.sys.b64 [%0], %1;" ::"l"(address),
                 "l"(static_cast<uint64_t>(value))
                 : "memory");
  }
}

__device__ inline void ThreadFence() { __threadfence(); }

__device__ inline void SpinPause(uint32_t round) {
  __nanosleep(round < 8 ? 16 : 128);
}

__device__ inline uint32_t PopCount(uint32_t bits) { return __popc(bits); }
__device__ inline uint32_t CountLeadingZeros(uint32_t bits) {
  return __clz(bits);
}
__device__ inline uint32_t CountTrailingZeros(uint32_t bits) {
  return bits == 0 ? 32 : static_cast<uint32_t>(__ffs(bits) - 1);
}

// __syncwarp and the votes skip lanes that have exited or do not exist.
template <class T>
__device__ inline T Shfl(const Thread&, uint32_t mask, T value,
                         uint32_t source) {
  source %= kWarpSize;
  return cuda_internal::ShuffleResult(mask, value,
                                      __shfl_sync(mask, value, source), source);
}
template <class T>
__device__ inline T ShflDown(const Thread& self, uint32_t mask, T value,
                             uint32_t delta) {
  const uint32_t source = delta < kWarpSize ? self.lane() + delta : kWarpSize;
  return cuda_internal::ShuffleResult(mask, value,
                                      __shfl_sync(mask, value, source), source);
}
template <class T>
__device__ inline T ShflUp(const Thread& self, uint32_t mask, T value,
                           uint32_t delta) {
  const uint32_t source =
      delta <= self.lane() ? self.lane() - delta : kWarpSize;
  return cuda_internal::ShuffleResult(mask, value,
                                      __shfl_sync(mask, value, source), source);
}
template <class T>
__device__ inline T ShflXor(const Thread& self, uint32_t mask, T value,
                            uint32_t lane_mask) {
  const uint32_t source = self.lane() ^ lane_mask;
  return cuda_internal::ShuffleResult(mask, value,
                                      __shfl_sync(mask, value, source), source);
}

}  // namespace cuda_form

}  // namespace carillon::simt

#include "kernels/simt/cuda/event_forms.h"

#define CARILLON_CUDA_KERNEL(name, Args, args, self, uses_barriers)        \
  static __device__ __forceinline__ void name##_body(                      \
      const Args& args, const ::carillon::simt::Thread& self);             \
  struct name##_cuda {                                                     \
    using ArgsType = Args;                                                 \
    static constexpr bool kUsesBarriers = uses_barriers;                   \
    static __device__ __forceinline__ void Run(                            \
        const Args& kernel_args, const ::carillon::simt::Thread& thread) { \
      name##_body(kernel_args, thread);                                    \
    }                                                                      \
  };                                                                       \
  extern "C" __global__ void carillon_##name(                              \
      const __grid_constant__ Args kernel_args, uint32_t* fail_status) {   \
    const ::carillon::simt::Thread thread(fail_status);                    \
    name##_body(kernel_args, thread);                                      \
  }                                                                        \
  CARILLON_EVENT_FORM(name)                                                \
  CARILLON_PERSISTENT_FORM(name)                                           \
  CARILLON_PTB_FORM(name)                                                  \
  static __device__ __forceinline__ void name##_body(                      \
      [[maybe_unused]] const Args& args,                                   \
      [[maybe_unused]] const ::carillon::simt::Thread& self)

#define CARILLON_KERNEL(name, Args, args, self) \
  CARILLON_CUDA_KERNEL(name, Args, args, self, false)
#define CARILLON_BARRIER_KERNEL(name, Args, args, self) \
  CARILLON_CUDA_KERNEL(name, Args, args, self, true)

#define CARILLON_KERNEL_INFO(name, Args, summary, traits, ...)    \
  static_assert(std::is_trivially_copyable_v<Args>);              \
  static const ::carillon::simt::CudaKernelRegistration           \
      name##_cuda_registration(                                   \
          #name, reinterpret_cast<const void*>(&carillon_##name), \
          sizeof(Args))

#define CARILLON_EXIT return
#define CARILLON_SYNC_THREADS(self) __syncthreads()

#define CARILLON_SYNC_WARP_MASK(self, mask) __syncwarp(mask)
#define CARILLON_SHFL_MASK(self, mask, value, source) \
  ::carillon::simt::Shfl(self, mask, value, source)
#define CARILLON_SHFL_DOWN_MASK(self, mask, value, delta) \
  ::carillon::simt::ShflDown(self, mask, value, delta)
#define CARILLON_SHFL_UP_MASK(self, mask, value, delta) \
  ::carillon::simt::ShflUp(self, mask, value, delta)
#define CARILLON_SHFL_XOR_MASK(self, mask, value, lane_mask) \
  ::carillon::simt::ShflXor(self, mask, value, lane_mask)
#define CARILLON_BALLOT_MASK(self, mask, predicate) \
  static_cast<uint32_t>(__ballot_sync(mask, predicate))
#define CARILLON_ANY_MASK(self, mask, predicate) \
  (__any_sync(mask, predicate) != 0)
#define CARILLON_ALL_MASK(self, mask, predicate) \
  (__all_sync(mask, predicate) != 0)

#endif  // CARILLON_KERNELS_SIMT_CUDA_SIMT_CUDA_H_
