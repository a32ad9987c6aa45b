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
  ASSIGN_OR_RETURN(auto policy, MakePolicy(options.policy));
  auto memory = std::make_shared<sim::Memory>();
  auto kernels = std::make_unique<SimKernels>(memory.get());
  RETURN_IF_ERROR(kernels->LoadOwn());
  return std::unique_ptr<Backend>(new SimBackend(
      options, std::move(policy), std::move(memory), std::move(kernels)));
}

SimBackend::SimBackend(const BackendOptions& options,
                       std::unique_ptr<SharingPolicy> policy,
                       std::shared_ptr<sim::Memory> simulated,
                       std::unique_ptr<SimKernels> kernels)
    : CpuBackend(
          options, std::move(policy),
          std::make_unique<SimBlockRunner>(simulated.get(), kernels.get()),
          std::make_unique<SimMemory>(simulated.get())),
      simulated_(std::move(simulated)),
      kernels_(std::move(kernels)) {}

// No block may run when the kernels and the memory go.
SimBackend::~SimBackend() {
  Stop();
  Join();
}

std::string SimBackend::description() const {
  return fmt::format("PTX, functionally, on {}", CpuBackend::description());
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> SimBackend::LoadKernels(
    const ModuleSource& source) {
  return kernels_->Load(source);
}

}  // namespace carillon::gpud
