// The PTX of the kernels that gpud knows, and launches of it.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_KERNELS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_KERNELS_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/sim/release_latch.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "gpu_daemon/event/user_kernel.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/exec/turns.h"
#include "sim/exec/warp.h"

namespace carillon::gpud {

// Thread safe. Programs live as long as this.
class SimKernels {
 public:
  struct Code {
    std::shared_ptr<const sim::Program> program;
    const sim::ProgramFunction* entry = nullptr;  // null: there is no PTX
  };

  // Both must outlive it.
  SimKernels(sim::Memory* memory, sim::Turns* turns)
      : memory_(memory), turns_(turns) {}

  // gpud's own, from the PTX that was built in: each is lowered when it is first
  // looked for. Errors: Internal.
  absl::Status LoadOwn();
  // All of them now: which is looked for first then does not decide where their
  // tables lie.
  void LowerAllOwn() const;
  // As Backend::LoadKernels(): PTX text only.
  absl::StatusOr<std::vector<const simt::KernelInfo*>> Load(
      const ModuleSource& source);

  Code Find(const simt::KernelInfo* kernel) const;
  // As Backend::CheckKernel().
  absl::Status Check(const simt::KernelInfo& kernel) const;

  // Fills `launch` in, but for its id. `status`: where the kernel finds its
  // launch's status word (simt::FailStatus); a user's has none.
  static void FillIn(const Code& code, const KernelMetadata& kmd,
                     const void* args, sim::DeviceAddress status,
                     sim::Launch& launch);
  // Warp instructions without progress after which the kernel fails; 0: never.
  static uint64_t NoProgressLimit(const simt::KernelInfo& kernel);
  // The simt::FailStatus of a launch that the simulated GPU has ended so.
  static uint32_t FailStatusOf(const absl::Status& status);

 private:
  Code LowerOwn(const simt::KernelInfo& kernel) const;
  // Returns what is kept: another thread's, if that was first.
  Code Add(const simt::KernelInfo* kernel, Code code) const;

  sim::Memory* const memory_;
  sim::Turns* const turns_;
  std::shared_ptr<const sim::ptx::Module> own_;
  mutable std::shared_mutex code_mutex_;
  mutable std::unordered_map<const simt::KernelInfo*, Code> code_;
  Mutex users_mutex_;
  std::vector<std::unique_ptr<UserKernel>> users_ ABSL_GUARDED_BY(users_mutex_);
};

// What gpud's threads need to run PTX, and the memory that it reaches. gpud's own
// kernels reach what their launch keeps alive. A user's may reach all of it, so
// its blocks run by turns, and what goes away goes between turns.
struct PtxEngine {
  explicit PtxEngine(sim::Addresses addresses) : memory(addresses) {}

  sim::Memory memory;
  sim::Turns turns;
  SimKernels kernels{&memory, &turns};
  ReleaseLatch latch;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_SIM_KERNELS_H_
