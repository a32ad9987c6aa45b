#include "gpu_daemon/backends/sim/sim_backend.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/sim/sim_block_runner.h"
#include "gpu_daemon/backends/sim/sim_memory.h"

namespace carillon::gpud {
absl::StatusOr<std::unique_ptr<Backend>> SimBackend::Create(
    const BackendOptions& options) {
  RETURN_IF_ERROR(CheckFor(kSimBackend, options));
  ASSIGN_OR_RETURN(auto policy, MakePolicy(options.policy, options.gpu,
                                           options.reserved_sms));
  auto ptx = std::make_unique<PtxEngine>(sim::Addresses::kOwn);
  RETURN_IF_ERROR(ptx->memory.SetHeapBytes(options.heap_bytes));
  RETURN_IF_ERROR(ptx->kernels.LoadOwn());
  auto runner = std::make_unique<SimBlockRunner>(ptx.get());
  auto memory = std::make_unique<SimMemory>(ptx.get());
  return std::unique_ptr<Backend>(
      new SimBackend(options, std::move(policy), std::move(runner),
                     std::move(memory), std::move(ptx)));
}

SimBackend::SimBackend(const BackendOptions& options,
                       std::unique_ptr<SharingPolicy> policy,
                       std::unique_ptr<BlockRunner> runner,
                       std::unique_ptr<KernelMemory> memory,
                       std::unique_ptr<PtxEngine> ptx)
    : CpuBackend(options, std::move(policy), std::move(runner),
                 std::move(memory), std::move(ptx)) {}

std::string SimBackend::description() const {
  return fmt::format("PTX, functionally, on {}", CpuBackend::description());
}

}  // namespace carillon::gpud
