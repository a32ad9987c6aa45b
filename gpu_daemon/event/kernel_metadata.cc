#include "gpu_daemon/event/kernel_metadata.h"

#include <limits>
#include <string_view>

#include "fmt/format.h"

namespace carillon::gpud {
namespace {

// Grid and block limits of CUDA (compute capability 3.0 and later).
constexpr uint32_t kMaxGridX = 0x7fffffff;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint32_t kMaxBlockXY = 1024;
constexpr uint32_t kMaxBlockZ = 64;
constexpr uint32_t kMaxThreads = 1024;

absl::Status CheckDimension(std::string_view name, uint32_t value,
                            uint32_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}: must be from 1 to {}", name, value, limit));
}

}  // namespace

absl::Status CheckKernelMetadata(const KernelMetadata& kmd,
                                 const GpuModel& gpu) {
  for (const auto& status :
       {CheckDimension("grid.x", kmd.grid.x, kMaxGridX),
        CheckDimension("grid.y", kmd.grid.y, kMaxGridYZ),
        CheckDimension("grid.z", kmd.grid.z, kMaxGridYZ),
        CheckDimension("block.x", kmd.block.x, kMaxBlockXY),
        CheckDimension("block.y", kmd.block.y, kMaxBlockXY),
        CheckDimension("block.z", kmd.block.z, kMaxBlockZ)}) {
    if (!status.ok()) return status;
  }
  const uint64_t threads = uint64_t{kmd.block.x} * kmd.block.y * kmd.block.z;
  if (threads > kMaxThreads) {
    return absl::InvalidArgumentError(fmt::format(
        "block {}x{}x{} has {} threads: the limit is {}", kmd.block.x,
        kmd.block.y, kmd.block.z, threads, kMaxThreads));
  }
  if (threads > kmd.kernel->most_threads) {
    return absl::InvalidArgumentError(fmt::format(
        "block {}x{}x{} has {} threads: kernel '{}' takes at most {}",
        kmd.block.x, kmd.block.y, kmd.block.z, threads, kmd.kernel->name,
        kmd.kernel->most_threads));
  }
  // What kernels count their threads by.
  if (kmd.blocks() > std::numeric_limits<uint64_t>::max() / threads) {
    return absl::InvalidArgumentError(
        fmt::format("grid {}x{}x{} of {} threads each: more than 2^64 in all",
                    kmd.grid.x, kmd.grid.y, kmd.grid.z, threads));
  }
  // In two steps: the sum of two u32 must not wrap.
  if (kmd.shared_bytes > gpu.shared_bytes_per_sm ||
      kmd.kernel->static_shared_bytes >
          gpu.shared_bytes_per_sm - kmd.shared_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "{} + {} bytes of shared memory: an SM has {}", kmd.shared_bytes,
        kmd.kernel->static_shared_bytes, gpu.shared_bytes_per_sm));
  }
  const BlockCost cost =
      CostOf(static_cast<uint32_t>(threads), kmd.kernel->registers_per_thread,
             kmd.total_shared());
  if (!SmOccupancy(gpu).Fits(cost)) {
    return absl::InvalidArgumentError(
        fmt::format("one thread block needs {} threads and {} registers: an SM "
                    "has {} and {}",
                    cost.threads, cost.registers, gpu.threads_per_sm,
                    gpu.registers_per_sm));
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
