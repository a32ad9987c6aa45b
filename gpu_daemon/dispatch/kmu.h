// The kernel management unit: launches wait here, by class and priority, until
// their thread blocks find room on an SM and a worker of the back-end.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_KMU_H_
#define CARILLON_GPU_DAEMON_DISPATCH_KMU_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "gpu_daemon/dispatch/policy.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/launch_filter.h"

namespace carillon::gpud {

// Kernels whose blocks are being placed at once; the others wait in the pending
// queues (Hyper-Q's 32, as in EDGE Fig. 2).
inline constexpr size_t kKduEntries = 32;

// A thread block that a worker must run and then report.
struct DispatchedBlock {
  KernelLaunch* launch = nullptr;
  uint64_t block = 0;  // flattened index, x fastest
  uint32_t sm = 0;
};

// Thread safe.
class Kmu {
 public:
  Kmu(const GpuModel& model, std::unique_ptr<SharingPolicy> policy);
  ~Kmu();

  // Takes a launch over; it ends exactly once, as done, failed or aborted. The
  // block must fit an SM (CheckKernelMetadata).
  void Submit(std::unique_ptr<KernelLaunch> launch);

  // The next block to run: waits for one. Nothing after Stop().
  std::optional<DispatchedBlock> NextBlock();
  // The block has run.
  void EndBlock(const DispatchedBlock& block);

  // Takes back the launches that `which` names: blocks not yet given out never
  // run, and a launch with none running ends now as aborted. Running blocks go
  // on. Returns how many launches were cut short.
  uint64_t Cancel(const LaunchFilter& which, shm::EventStatus why);

  void SetPolicy(std::unique_ptr<SharingPolicy> policy);
  std::string policy_name() const;
  // SharingPolicy::ByPriority() of the policy.
  bool by_priority() const {
    return by_priority_.load(std::memory_order_relaxed);
  }

  std::vector<QueueLength> queue_lengths() const;
  uint32_t resident_blocks() const;
  uint64_t background_kernels() const {
    return background_kernels_.load(std::memory_order_relaxed);
  }
  uint64_t background_blocks() const {
    return background_blocks_.load(std::memory_order_relaxed);
  }
  // True when nothing waits and nothing runs.
  bool idle() const;

  // Workers leave NextBlock(); what waits is aborted with kShutdown.
  void Stop();

 private:
  using LaunchPtr = std::unique_ptr<KernelLaunch>;
  enum class LaunchedBy { kHost, kEvent };

  std::deque<LaunchPtr>& QueueOf(const KernelLaunch& launch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::deque<LaunchPtr>* NextPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillKdu() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MakeRoom(uint32_t priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void End(LaunchPtr launch, shm::EventState state, uint32_t status);

  mutable Mutex mutex_;
  CondVar work_;
  std::unique_ptr<SharingPolicy> policy_ ABSL_GUARDED_BY(mutex_);
  // Writer: SetPolicy(); reader: the front-end, which may see a new policy one
  // look late. Relaxed: it says nothing about other memory.
  std::atomic<bool> by_priority_{false};
  // Pending queues of Fig. 6, by LaunchedBy and priority.
  std::deque<LaunchPtr> pending_[2][kPriorities] ABSL_GUARDED_BY(mutex_);
  std::vector<LaunchPtr> kdu_ ABSL_GUARDED_BY(mutex_);
  SmOccupancy sms_ ABSL_GUARDED_BY(mutex_);
  std::vector<KernelLaunch*> waiting_
      ABSL_GUARDED_BY(mutex_);                         // scratch of NextBlock
  std::vector<size_t> order_ ABSL_GUARDED_BY(mutex_);  // scratch of NextBlock
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Writers: callers of Submit(), workers; readers: whoever shows them.
  // Relaxed: figures for display.
  std::atomic<uint64_t> background_kernels_{0};
  std::atomic<uint64_t> background_blocks_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_KMU_H_
