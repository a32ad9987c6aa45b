// Thread blocks by the simulated GPU's executor, for what they compute.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "gpu_daemon/backends/sim/exec/functional.h"
#include "gpu_daemon/launch/block_runner.h"

namespace carillon::gpud {

// Thread safe.
class SimBlockRunner final : public BlockRunner {
 public:
  explicit SimBlockRunner(sim::Memory* memory);
  ~SimBlockRunner() override;

  // From now on this kernel is that entry of the program.
  void Add(const simt::KernelInfo* kernel,
           std::shared_ptr<const sim::Program> program,
           const sim::ProgramFunction* entry);

  // A kernel that is not known fails with kFailBadLaunch.
  void Run(const KernelMetadata& kmd, uint64_t block, const void* args,
           uint32_t* fail_status) override;

 private:
  struct Code {
    std::shared_ptr<const sim::Program> program;
    const sim::ProgramFunction* entry = nullptr;
  };
  // What one thread needs to run a block; kept for the next.
  struct Engine;

  std::unique_ptr<Engine> TakeEngine();
  void GiveBack(std::unique_ptr<Engine> engine);

  sim::Memory* const memory_;
  std::shared_mutex code_mutex_;
  std::unordered_map<const simt::KernelInfo*, Code> code_;
  std::mutex engines_mutex_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_BLOCK_RUNNER_H_
