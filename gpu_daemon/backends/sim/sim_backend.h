// The sim back-end: kernels as PTX on a simulated GPU, functionally and in wall
// time, by threads of this machine. A GPU's code runs where there is no GPU.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "sim/exec/memory.h"

namespace carillon::gpud {

// Queues, launch paths and workers are those of the cpu back-end.
class SimBackend final : public CpuBackend {
 public:
  // Errors: NotFound (policy), Unimplemented (options of other back-ends),
  // Internal (gpud's own PTX).
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  ~SimBackend() override;

  std::string_view name() const override { return "sim"; }
  std::string description() const override;

  // PTX text only. Errors: InvalidArgument, Unimplemented (the PTX, with its
  // place in the file), NotFound (a symbol).
  absl::StatusOr<std::vector<const simt::KernelInfo*>> LoadKernels(
      const ModuleSource& source) override;

 private:
  SimBackend(const BackendOptions& options,
             std::unique_ptr<SharingPolicy> policy,
             std::shared_ptr<sim::Memory> simulated,
             std::unique_ptr<SimKernels> kernels);

  const std::shared_ptr<sim::Memory> simulated_;
  const std::unique_ptr<SimKernels> kernels_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_
