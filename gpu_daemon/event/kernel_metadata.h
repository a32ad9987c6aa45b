// What a launch of a kernel looks like, and whether a GPU can hold it.
#ifndef CARILLON_GPU_DAEMON_EVENT_KERNEL_METADATA_H_
#define CARILLON_GPU_DAEMON_EVENT_KERNEL_METADATA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "gpu_daemon/event/gpu_model.h"
#include "kernels/simt/kernel_info.h"

namespace carillon::gpud {

inline constexpr uint32_t kPriorities = 8;  // 0 lowest .. 7 highest

// KMD: what a launch of the kernel looks like.
struct KernelMetadata {
  const simt::KernelInfo* kernel = nullptr;
  simt::Dim3 grid;
  simt::Dim3 block;
  uint32_t shared_bytes = 0;  // beside the kernel's static ones

  uint64_t blocks() const { return uint64_t{grid.x} * grid.y * grid.z; }
  uint32_t threads() const { return block.x * block.y * block.z; }
  uint32_t total_shared() const {
    return shared_bytes + kernel->static_shared_bytes;
  }
  // EDGE IV-C: at most a warp, no shared memory.
  bool single_warp() const {
    return blocks() == 1 && threads() <= 32 && total_shared() == 0;
  }
};

// Errors: InvalidArgument, naming the dimension, its value and the limit.
absl::Status CheckKernelMetadata(const KernelMetadata& kmd,
                                 const GpuModel& gpu);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_KERNEL_METADATA_H_
