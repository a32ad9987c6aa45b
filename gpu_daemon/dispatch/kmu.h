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

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/dispatch/policy.h"
#include "gpu_daemon/dispatch/run_clock.h"
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
  // No launch whose next block lacks room is overtaken by more blocks of later
  // ones: then those wait until it has got one, so that small blocks cannot keep
  // a large one out for ever.
  static constexpr uint32_t kMostOvertakes = 256;

  // `now`: what policies by time go by.
  Kmu(const GpuModel& model, std::unique_ptr<SharingPolicy> policy,
      Nanoseconds (*now)() = NowNs);
  ~Kmu();

  // Takes a launch over; it ends exactly once, as done, failed or aborted. The
  // block must fit an SM (CheckKernelMetadata).
  void Submit(std::unique_ptr<KernelLaunch> launch);

  // The next block to run: waits for one. Nothing after Stop().
  std::optional<DispatchedBlock> NextBlock();
  // The same without waiting. Nothing if none may run now.
  std::optional<DispatchedBlock> TryNextBlock();
  // The block has run.
  void EndBlock(const DispatchedBlock& block);

  // Takes back the launches that `which` names: blocks not yet given out never
  // run, and a launch with none running ends now as aborted. Running blocks go
  // on. Returns how many launches were cut short.
  uint64_t Cancel(const LaunchFilter& which, shm::EventStatus why);

  // At any moment: blocks that run go on, a slice that has not ended is none any
  // more, and what has not begun is chosen anew.
  void SetPolicy(std::unique_ptr<SharingPolicy> policy);
  std::string policy_name() const;
  // Of the policy's PolicyInfo:
  bool by_priority() const {
    return by_priority_.load(std::memory_order_relaxed);
  }
  bool short_path() const {
    return short_path_.load(std::memory_order_relaxed);
  }

  std::vector<QueueLength> queue_lengths() const;
  // All launches that have not ended: those with KDU entries, then those that
  // wait for one, each by arrival.
  std::vector<LaunchProgress> launches() const;
  // The blocks that run, by SM.
  std::vector<uint32_t> blocks_of_sms() const;
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
  // Where a launch waits for a KDU entry (Fig. 6 has the first and the last):
  // events; events that CPU code launches; background kernels.
  enum class Queue { kEvent, kHostEvent, kHost };
  static constexpr size_t kQueues = 3;
  // A device's launches without a KDU entry, by Queue and priority.
  struct DeviceQueues {
    const DeviceMemory* device = nullptr;
    uint32_t filled = 0;  // a bit for each queue that is not empty
    std::deque<LaunchPtr> queues[kQueues * kPriorities];
  };

  static size_t IndexOf(Queue queue, uint32_t priority) {
    return static_cast<size_t>(queue) * kPriorities + priority;
  }
  static size_t QueueOf(const KernelLaunch& launch) {
    const Queue queue = !launch.is_event() ? Queue::kHost
                        : launch.from_host ? Queue::kHostEvent
                                           : Queue::kEvent;
    return IndexOf(queue, launch.priority);
  }
  DeviceQueues& QueuesOf(const DeviceMemory* device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PushPending(LaunchPtr launch, bool front)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LaunchPtr PopPending(const KernelLaunch& launch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const KernelLaunch* NextPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FillKdu() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EnterKdu(LaunchPtr launch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MakeRoom(const KernelLaunch& launch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChooseAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Plan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<DispatchedBlock> PlaceOne()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void End(LaunchPtr launch, shm::EventState state, uint32_t status);

  Nanoseconds (*const now_)();
  // For KernelLaunch::waits_since, in ticks of ReadTicks().
  const Nanoseconds made_ns_ = NowNs();
  const uint64_t made_ticks_ = ReadTicks();

  mutable Mutex mutex_;
  CondVar work_;
  std::unique_ptr<SharingPolicy> policy_ ABSL_GUARDED_BY(mutex_);
  // Writer: SetPolicy(); reader: the front-end, which may see a new policy one
  // look late. Relaxed: they say nothing about other memory.
  std::atomic<bool> by_priority_{false};
  std::atomic<bool> short_path_{false};
  std::vector<std::unique_ptr<DeviceQueues>> pending_
      ABSL_GUARDED_BY(mutex_);                          // none of them is empty
  std::vector<LaunchPtr> kdu_ ABSL_GUARDED_BY(mutex_);  // by arrival
  SmOccupancy sms_ ABSL_GUARDED_BY(mutex_);
  // Scratch of NextBlock():
  std::vector<Candidate> order_ ABSL_GUARDED_BY(mutex_);
  // For those that were overtaken too often.
  std::vector<SmRange> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<PendingLaunches> seen_pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Writers: callers of Submit(), workers; readers: whoever shows them.
  // Relaxed: figures for display.
  std::atomic<uint64_t> background_kernels_{0};
  std::atomic<uint64_t> background_blocks_{0};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_KMU_H_
