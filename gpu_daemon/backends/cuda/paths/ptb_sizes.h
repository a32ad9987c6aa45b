// How many persistent blocks a launch of policy ptb has on CUDA, and which launches
// run whole under it, and why.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_SIZES_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_SIZES_H_

#include <cstdint>

#include "base/mutex.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_metadata.h"

namespace carillon::gpud::cuda {

struct PtbFigures {
  uint64_t persistent = 0;  // launches
  uint64_t stopped = 0;     // how often they left before their end
  // Launches that ran whole, by reason.
  uint64_t whole_all_fit = 0;       // the GPU holds all of its blocks
  uint64_t whole_most_urgent = 0;   // of the highest priority there is
  uint64_t whole_users_kernel = 0;  // its code takes no blocks
  uint64_t whole_barriers = 0;      // threads leave it while others meet at one
};

// Thread safe.
class PtbSizes {
 public:
  // `gpu`: the SMs that launches may have.
  explicit PtbSizes(const GpuModel& gpu) : gpu_(gpu) {}

  // A launch begins under ptb. 0: it runs whole; else so many resident blocks.
  // `has_form`: LaunchSequence::has_ptb().
  uint32_t First(const KernelMetadata& kmd, uint32_t priority, bool has_form)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How many the GPU holds at once, by the registers that the kernel is known to
  // take. Those that find no room after all leave when they come.
  uint32_t Resident(const KernelMetadata& kmd) const;
  void Stopped() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    ++figures_.stopped;
  }

  PtbFigures figures() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(mutex_);
    return figures_;
  }

 private:
  const GpuModel gpu_;
  mutable Mutex mutex_;
  PtbFigures figures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_PTB_SIZES_H_
