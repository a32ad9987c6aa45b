// The memory that kernels on CPU cores reach: gpud's own.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_MEMORY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_MEMORY_H_

#include <cstring>

#include "gpu_daemon/event/kernel_memory.h"

namespace carillon::gpud {

// Kernels on CPU cores reach what gpud maps; GPU memory is anonymous memory.
class CpuMemory : public KernelMemory {
 public:
  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override {
    return std::make_unique<HostMapping>(memory.data());
  }
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override;
  absl::Status Copy(CopyDirection, std::byte* to, const std::byte* from,
                    uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CPU_CPU_MEMORY_H_
