// Plain types shared by kernels, back-ends and the registry: no CUDA, no
// threads.
#ifndef CARILLON_KERNELS_SIMT_TYPES_H_
#define CARILLON_KERNELS_SIMT_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#define CARILLON_HOST_DEVICE __host__ __device__ inline
#else
#define CARILLON_HOST_DEVICE inline
#endif

namespace carillon::simt {

inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kMaxThreadsPerBlock = 1024;

// Grid, block and thread coordinates, in the field's x-fastest order.
struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  CARILLON_HOST_DEVICE constexpr uint64_t count() const {
    return static_cast<uint64_t>(x) * y * z;
  }
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

CARILLON_HOST_DEVICE constexpr bool IsValidBlock(const Dim3& block) {
  // Check each dimension first: the product of three 32-bit numbers may wrap.
  return block.x <= kMaxThreadsPerBlock && block.y <= kMaxThreadsPerBlock &&
         block.z <= kMaxThreadsPerBlock && block.count() != 0 &&
         block.count() <= kMaxThreadsPerBlock;
}

// A buffer parameter: `size` elements of T at `data`. The daemon builds it from
// a checked offset into the device's aperture, so data[0, size) is always
// readable (writable for non-const T); the kernel checks its own accesses
// against `size`. 16 bytes, trivially copyable.
template <class T>
struct Span {
  T* data = nullptr;
  uint64_t size = 0;

  // Whether [offset, offset + count) lies inside; correct for any two 64-bit
  // values.
  CARILLON_HOST_DEVICE constexpr bool InBounds(uint64_t offset,
                                               uint64_t count) const {
    return offset <= size && count <= size - offset;
  }
  // The part [offset, offset + count); an empty span if that is not inside.
  CARILLON_HOST_DEVICE constexpr Span sub(uint64_t offset,
                                          uint64_t count) const {
    if (!InBounds(offset, count)) return Span{};
    return Span{data + offset, count};
  }
  CARILLON_HOST_DEVICE constexpr bool empty() const { return size == 0; }
  // Not checked: the kernel's own bounds guarantee the index.
  CARILLON_HOST_DEVICE constexpr T& operator[](uint64_t index) const {
    return data[index];
  }
};

static_assert(sizeof(Span<uint8_t>) == 16);
static_assert(std::is_trivially_copyable_v<Span<uint8_t>>);

// The status word of a failed event. 0 is success; kernels pass 1 to
// kMaxKernelStatus to Thread::Fail; the values above are the back-end's own
// findings.
enum FailStatus : uint32_t {
  kFailNone = 0,
  // Most kernels need these two; a kernel documents its others.
  kFailBadArguments = 1,  // a buffer is smaller than the other arguments say
  kFailBadShape = 2,      // the kernel does not work with these dimensions
  kMaxKernelStatus = 0x7fffffff,
  // Some threads of a block wait at a barrier that the others never reach.
  kFailBarrierDeadlock = 0x80000001,
  // Lanes of a warp wait at a warp operation that the others never reach.
  kFailWarpDeadlock = 0x80000002,
  // Thread::shared() beyond the block's shared memory.
  kFailSharedOutOfRange = 0x80000003,
  // Dimensions or shared memory that no launch may have (a caller's bug).
  kFailBadLaunch = 0x80000004,
  // The host has no memory for the state of the block's threads.
  kFailNoMemory = 0x80000005,
  // The GPU stopped the kernel for a bad address or a trap.
  kFailFault = 0x80000006,
  // The kernel spins and nothing changes.
  kFailNoProgress = 0x80000007,
};

// The status that Thread::Fail makes of a kernel's code.
CARILLON_HOST_DEVICE constexpr uint32_t KernelStatus(uint32_t status) {
  return status == kFailNone || status > kMaxKernelStatus ? kMaxKernelStatus
                                                          : status;
}

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_TYPES_H_
