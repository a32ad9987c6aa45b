// Thread blocks by the simulated GPU's executor, for what they compute.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/event/block_runner.h"
#include "sim/exec/functional.h"

namespace carillon::gpud {

// Thread safe.
class SimBlockRunner final : public BlockRunner {
 public:
  // `ptx` must outlive it. `longest`: of a user's kernel; a block that runs for
  // longer is stopped, and fails its launch with kFailNoProgress.
  explicit SimBlockRunner(PtxEngine* ptx, std::chrono::nanoseconds longest =
                                              std::chrono::seconds(10));
  ~SimBlockRunner() override;

  // A kernel that is not known fails with kFailBadLaunch.
  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           LaunchRun* run) override;

 private:
  // What one thread needs to run a block; kept for the next.
  struct Engine;

  std::unique_ptr<Engine> TakeEngine();
  void GiveBack(std::unique_ptr<Engine> engine);

  PtxEngine* const ptx_;
  const Nanoseconds longest_;
  Mutex engines_mutex_;
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(engines_mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
