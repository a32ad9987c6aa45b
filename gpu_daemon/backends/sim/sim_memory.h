// The memory that the simulated GPU's kernels reach.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "sim/exec/memory.h"

namespace carillon::gpud {

// What the simulated GPU's kernels reach: memory of the host, and memory of the
// simulated GPU. Addresses depend on nothing but the order of the calls. What
// goes away waits for the turns of users' kernels that run (PtxEngine).
class SimMemory final : public KernelMemory {
 public:
  // `ptx` must outlive this and all that it gives out.
  explicit SimMemory(PtxEngine* ptx) : ptx_(ptx) {}
  // Each device of `order` has addresses of its own, which depend on its own calls
  // alone; all others share some. At most sim::kMaxRanges - 1.
  SimMemory(PtxEngine* ptx, const std::vector<std::string>& order);

  KernelMemory* Of(const std::string& device) override;
  absl::StatusOr<std::unique_ptr<HostMapping>> MapHost(
      std::span<std::byte> memory) override;
  absl::StatusOr<std::unique_ptr<GpuMemory>> Allocate(uint64_t bytes) override;
  absl::Status Copy(CopyDirection direction, std::byte* to,
                    const std::byte* from, uint64_t bytes) override;

 private:
  SimMemory(PtxEngine* ptx, sim::AddressRange range)
      : ptx_(ptx), range_(range) {}
  sim::AddressRange* range() { return range_ ? &*range_ : nullptr; }

  PtxEngine* const ptx_;
  std::optional<sim::AddressRange> range_;
  std::map<std::string, std::unique_ptr<SimMemory>> devices_;
  std::unique_ptr<SimMemory> others_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_MEMORY_H_
