// Thread blocks by the simulated GPU's executor, for what they compute.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/event/block_runner.h"
#include "sim/exec/functional.h"

namespace carillon::gpud {

// Thread safe.
class SimBlockRunner final : public BlockRunner {
 public:
  // Both must outlive it.
  SimBlockRunner(sim::Memory* memory, const SimKernels* kernels);
  ~SimBlockRunner() override;

  // A kernel that is not known fails with kFailBadLaunch.
  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           uint32_t* fail_status) override;

 private:
  // What one thread needs to run a block; kept for the next.
  struct Engine;

  std::unique_ptr<Engine> TakeEngine();
  void GiveBack(std::unique_ptr<Engine> engine);

  sim::Memory* const memory_;
  const SimKernels* const kernels_;
  Mutex engines_mutex_;
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(engines_mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
