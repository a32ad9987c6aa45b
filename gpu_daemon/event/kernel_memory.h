// The memory that a back-end's kernels reach.
#ifndef CARILLON_GPU_DAEMON_EVENT_KERNEL_MEMORY_H_
#define CARILLON_GPU_DAEMON_EVENT_KERNEL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace carillon::gpud {

// Memory of the GPU's own: only kernels reach it. Freed with this object.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  // As kernels are given it; not for the CPU to follow.
  virtual std::byte* data() const = 0;
};

// Host memory that kernels may reach for as long as this object lives.
class HostMapping {
 public:
  // `data`: where kernels find its first byte.
  explicit HostMapping(std::byte* data) : data_(data) {}
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;
  virtual ~HostMapping() = default;
  // As kernels are given it; not for the CPU to follow.
  std::byte* data() const { return data_; }

 private:
  std::byte* const data_;
};

enum class CopyDirection : uint8_t {
  kIn,   // from memory of the host to memory of the GPU's own
  kOut,  // the other way
};

// Thread safe.
class KernelMemory {
 public:
  virtual ~KernelMemory() = default;
  // `memory` starts and ends at pages. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) = 0;
  // Zeros. Errors: ResourceExhausted.
  virtual absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(
      uint64_t bytes) = 0;
  // Copies between such memory, as kernels are given it; kernels that are
  // launched when this has returned find the bytes. Errors: Unavailable (the GPU
  // is lost).
  virtual absl::Status Copy(CopyDirection direction, std::byte* to,
                            const std::byte* from, uint64_t bytes) = 0;
  // Where that device's memory is to be had. It lives as long as this one.
  virtual KernelMemory* Of(const std::string&) { return this; }
  // How often the GPU's own memory may have lost its bytes.
  virtual uint64_t losses() const { return 0; }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_KERNEL_MEMORY_H_
