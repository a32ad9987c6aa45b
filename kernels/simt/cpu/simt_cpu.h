// The CPU implementation of kernels/simt/simt.h: the thread handle, plain
// kernels and atomics. Include simt.h, not this file.
#ifndef CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_H_
#define CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/simt/kernel_info.h"
#include "kernels/simt/types.h"

#define CARILLON_DEVICE inline
// Put it before a loop of at most 8 constant steps whose array should be in
// registers.
#define CARILLON_UNROLL _Pragma("GCC unroll 8")

namespace carillon::simt {

namespace internal {

// What all threads of the running block share.
struct BlockContext {
  Dim3 grid;
  Dim3 block;
  Dim3 block_index;
  const BlockLaunch* launch;
  const char* kernel;
};

// Claims the event's status; only the event's first failure succeeds. Not
// inlined, because it is never hot.
[[gnu::cold]] bool ClaimFailure(const BlockLaunch& launch, uint32_t status);
// Calls ClaimFailure(), and writes the message if the claim succeeded.
[[gnu::cold, gnu::format(printf, 3, 4)]] void ReportFailure(
    const BlockContext& context, uint32_t status, const char* format, ...);
// Fails the event and gives the kernel scratch memory of that size, so that a
// wrong size costs one event and not the daemon.
[[gnu::cold]] void* SharedOutOfRange(const BlockLaunch& launch,
                                     const char* kernel, uint64_t offset,
                                     uint64_t bytes);

}  // namespace internal

// One thread of the block. It lives only while its kernel runs.
class Thread {
 public:
  Thread(const internal::BlockContext& context, Dim3 index, uint32_t linear)
      : context_(&context), index_(index), linear_(linear) {}

  const Dim3& thread_index() const { return index_; }
  const Dim3& block_index() const { return context_->block_index; }
  const Dim3& block_dim() const { return context_->block; }
  const Dim3& grid_dim() const { return context_->grid; }

  // The position in the block, x fastest; lane and warp follow from it as on a
  // GPU.
  uint32_t linear() const { return linear_; }
  uint32_t lane() const { return linear_ % kWarpSize; }
  uint32_t warp() const { return linear_ / kWarpSize; }
  uint32_t block_threads() const {
    return context_->block.x * context_->block.y * context_->block.z;
  }
  // The lanes that exist in this thread's warp (fewer than 32 at the end of an
  // odd-sized block).
  uint32_t warp_mask() const {
    const uint32_t lanes = block_threads() - warp() * kWarpSize;
    return lanes >= kWarpSize ? ~0u : (1u << lanes) - 1;
  }

  uint64_t global_x() const {
    return static_cast<uint64_t>(context_->block_index.x) * context_->block.x +
           index_.x;
  }
  uint64_t global_y() const {
    return static_cast<uint64_t>(context_->block_index.y) * context_->block.y +
           index_.y;
  }
  uint64_t global_z() const {
    return static_cast<uint64_t>(context_->block_index.z) * context_->block.z +
           index_.z;
  }

  // The position in the whole grid, with blocks one after another, and the
  // grid's size: the start and the step of a thread that takes every n-th
  // element.
  uint64_t global_linear() const {
    const Dim3& grid = grid_dim();
    const Dim3& block = block_index();
    return ((static_cast<uint64_t>(block.z) * grid.y + block.y) * grid.x +
            block.x) *
               block_threads() +
           linear();
  }
  uint64_t grid_threads() const { return grid_dim().count() * block_threads(); }

  // Returns `count` elements of T in the block's shared memory, `byte_offset`
  // bytes from its start. An access beyond its end fails the event with
  // kFailSharedOutOfRange and gets scratch memory instead.
  template <class T>
  T* shared(uint32_t byte_offset, uint32_t count) const {
    const BlockLaunch& launch = *context_->launch;
    const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
    if (byte_offset % alignof(T) != 0 ||
        byte_offset + bytes > launch.shared_bytes) [[unlikely]] {
      return static_cast<T*>(internal::SharedOutOfRange(
          launch, context_->kernel, byte_offset, bytes));
    }
    return reinterpret_cast<T*>(launch.shared + byte_offset);
  }
  uint32_t shared_bytes() const { return context_->launch->shared_bytes; }

  // Sets the event's status, 1..kMaxKernelStatus, unless another failure came
  // first. Any other value counts as kMaxKernelStatus.
  void Fail(uint32_t status) const {
    internal::ClaimFailure(*context_->launch, KernelStatus(status));
  }

 protected:
  const internal::BlockContext& context() const { return *context_; }

 private:
  const internal::BlockContext* context_;
  Dim3 index_;
  uint32_t linear_;
};

// Atomics are relaxed, as CUDA's are.
inline constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
template <class T>
T AtomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, kRelaxed);
}
template <class T>
T AtomicSub(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_sub(value, kRelaxed);
}
template <class T>
T AtomicAnd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_and(value, kRelaxed);
}
template <class T>
T AtomicOr(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_or(value, kRelaxed);
}
template <class T>
T AtomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, kRelaxed);
}
template <class T>
T AtomicCas(T* address, std::type_identity_t<T> expected,
            std::type_identity_t<T> desired) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, desired,
                                                       kRelaxed);
  return expected;
}
template <class T>
T AtomicMin(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> cell(*address);
  T old = cell.load(kRelaxed);
  while (value < old && !cell.compare_exchange_weak(old, value, kRelaxed)) {
  }
  return old;
}
template <class T>
T AtomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> cell(*address);
  T old = cell.load(kRelaxed);
  while (old < value && !cell.compare_exchange_weak(old, value, kRelaxed)) {
  }
  return old;
}

// std::atomic_ref<const T> is C++26, hence the casts; a load writes nothing.
template <class T>
T LoadRelaxed(const T* address) {
  return std::atomic_ref<T>(*const_cast<T*>(address))
      .load(std::memory_order_relaxed);
}
template <class T>
T LoadAcquire(const T* address) {
  return std::atomic_ref<T>(*const_cast<T*>(address))
      .load(std::memory_order_acquire);
}
template <class T>
void StoreRelaxed(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).store(value, std::memory_order_relaxed);
}
template <class T>
void StoreRelease(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).store(value, std::memory_order_release);
}

inline void ThreadFence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not understand fences; a read-modify-write of one word
  // gives the same order.
  static constinit std::atomic<uint32_t> word{0};
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

namespace internal {
void YieldToOtherThreads();
}  // namespace internal

// Pauses before the `round`-th look at something that another block will
// change. After some rounds it yields the core, because that block may need it.
inline void SpinPause(uint32_t round) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (round % 64 == 63) internal::YieldToOtherThreads();
}

inline uint32_t PopCount(uint32_t bits) {
  return static_cast<uint32_t>(std::popcount(bits));
}
// Returns 32 for 0.
inline uint32_t CountLeadingZeros(uint32_t bits) {
  return static_cast<uint32_t>(std::countl_zero(bits));
}
inline uint32_t CountTrailingZeros(uint32_t bits) {
  return static_cast<uint32_t>(std::countr_zero(bits));
}

namespace internal {

// Runs Body(args, thread) for every thread of the block. It first copies the
// arguments and dimensions: a kernel stores through char pointers, so the
// compiler would otherwise reload each of them in every iteration and could not
// vectorise the loop.
template <class Args, void (*Body)(const Args&, const Thread&)>
[[gnu::always_inline]] inline void RunPlainBlock(const BlockLaunch& launch,
                                                 const void* args,
                                                 const char* kernel) {
  const Args local = *static_cast<const Args*>(args);
  const BlockContext context{launch.grid, launch.block, launch.block_index,
                             &launch, kernel};
  const Dim3 block = launch.block;
  uint32_t row = 0;
  for (uint32_t z = 0; z < block.z; ++z) {
    for (uint32_t y = 0; y < block.y; ++y) {
      for (uint32_t x = 0; x < block.x; ++x) {
        Body(local, Thread(context, Dim3{x, y, z}, row + x));
      }
      row += block.x;
    }
  }
}

}  // namespace internal

}  // namespace carillon::simt

#define CARILLON_KERNEL(name, Args, args, self)                       \
  [[gnu::always_inline]] inline void name##_body(                     \
      const Args& args, const ::carillon::simt::Thread& self);        \
  struct name##_kernel {                                              \
    static constexpr bool kUsesBarriers = false;                      \
    static void RunBlock(const ::carillon::simt::BlockLaunch& launch, \
                         const void* block_args) {                    \
      ::carillon::simt::internal::RunPlainBlock<Args, &name##_body>(  \
          launch, block_args, #name);                                 \
    }                                                                 \
  };                                                                  \
  [[gnu::always_inline]] inline void name##_body(                     \
      [[maybe_unused]] const Args& args,                              \
      [[maybe_unused]] const ::carillon::simt::Thread& self)

// Describes the kernel that precedes it: name, argument struct, summary,
// Registers(n)..., then one CARILLON_PARAM for each parameter.
#define CARILLON_KERNEL_INFO(name, Args, summary, traits, ...)           \
  static_assert(std::is_trivially_copyable_v<Args>);                     \
  inline constexpr ::carillon::simt::ParamInfo name##_params[] = {       \
      __VA_ARGS__};                                                      \
  inline constexpr ::carillon::simt::KernelInfo name##_info{             \
      #name,                                                             \
      summary,                                                           \
      name##_params,                                                     \
      sizeof(Args),                                                      \
      alignof(Args),                                                     \
      &name##_kernel::RunBlock,                                          \
      (traits).registers,                                                \
      (traits).shared_bytes,                                             \
      name##_kernel::kUsesBarriers,                                      \
      (traits).unbounded,                                                \
      (traits).leaves_together,                                          \
      (traits).check_shape,                                              \
      (traits).validate,                                                 \
      /*symbol=*/{},                                                     \
      /*file=*/{},                                                       \
      /*most_threads=*/1024,                                             \
      (traits).launched_only,                                            \
      (traits).from,                                                     \
      (traits).oracle};                                                  \
  inline const ::carillon::simt::KernelRegistration name##_registration( \
      &name##_info)

#include "kernels/simt/cpu/simt_cpu_barrier.h"

#endif  // CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_H_
