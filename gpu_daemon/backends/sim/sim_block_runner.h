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
  using Clock = Nanoseconds (*)();

  // `ptx` must outlive it. `longest`: for so long may blocks of a launch of a
  // user's kernel run, one or several at once; then those that run are stopped,
  // and the launch fails with kFailNoProgress. While none of them runs, because
  // the workers have others, its time stands.
  explicit SimBlockRunner(
      PtxEngine* ptx,
      std::chrono::nanoseconds longest = std::chrono::seconds(10),
      Clock now = NowNs);
  ~SimBlockRunner() override;

  // A kernel that is not known fails with kFailBadLaunch.
  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           LaunchRun* run) override;

 private:
  // What one thread needs to run a block; kept for the next.
  struct Engine;

  std::unique_ptr<Engine> TakeEngine();
  void GiveBack(std::unique_ptr<Engine> engine);
  // Around each block of a user's kernel. Returns when it is to be stopped, which
  // may be now.
  Nanoseconds BeginUsers(LaunchRun& run, Nanoseconds now);
  void EndUsers(LaunchRun& run);

  PtxEngine* const ptx_;
  const Nanoseconds longest_;
  const Clock now_;
  Mutex mutex_;  // also of users' LaunchRuns
  std::vector<std::unique_ptr<Engine>> engines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
