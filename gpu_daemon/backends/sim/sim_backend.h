// The sim back-end: kernels as PTX on a simulated GPU, functionally and in wall
// time, by threads of this machine. A GPU's code runs where there is no GPU.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"

namespace carillon::gpud {

// Queues, launch paths and workers are those of the cpu back-end.
class SimBackend final : public CpuBackend {
 public:
  // Errors: those of MakePolicy(), Unimplemented (options of other back-ends),
  // Internal (gpud's own PTX).
  static absl::StatusOr<std::unique_ptr<Backend>> Create(
      const BackendOptions& options);
  std::string_view name() const override { return "sim"; }
  std::string description() const override;

  absl::Status CheckKernel(const simt::KernelInfo& kernel) const override {
    return ptx().kernels.Check(kernel);
  }

 private:
  SimBackend(const BackendOptions& options,
             std::unique_ptr<SharingPolicy> policy,
             std::unique_ptr<BlockRunner> runner,
             std::unique_ptr<KernelMemory> memory,
             std::unique_ptr<PtxEngine> ptx);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BACKEND_H_
