// The memory that the simulated GPU's kernels reach.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_

#include "gpu_daemon/event/kernel_memory.h"
#include "sim/exec/memory.h"

namespace carillon::gpud {

// What the simulated GPU's kernels reach: memory of the host, and memory of the
// simulated GPU. Addresses depend on nothing but the order of the calls.
class SimMemory final : public KernelMemory {
 public:
  // `memory` must outlive this and all that it gives out.
  explicit SimMemory(sim::Memory* memory) : memory_(memory) {}

  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override;
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override;

 private:
  sim::Memory* const memory_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
