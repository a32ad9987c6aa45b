// The memory that the simulated GPU's kernels reach.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_

#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/event/kernel_memory.h"

namespace carillon::gpud {

// What the simulated GPU's kernels reach: memory of the host, and memory of the
// simulated GPU. Addresses depend on nothing but the order of the calls. What
// goes away waits for the turns of users' kernels that run (PtxEngine).
class SimMemory final : public KernelMemory {
 public:
  // `ptx` must outlive this and all that it gives out.
  explicit SimMemory(PtxEngine* ptx) : ptx_(ptx) {}

  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override;
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override;
  absl::Status Copy(CopyDirection direction, std::byte* to,
                    const std::byte* from, uint64_t bytes) override;

 private:
  PtxEngine* const ptx_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
