// The sharing policies of the CUDA back-end: which launches may reach the GPU's
// streams now, of those that a CPU thread launches. What is in a stream is the
// GPU's: it runs to its end.
//
//   place    of one launch: it waits, runs, and under gpes waits again between
//            its slices, under ptb when it was stopped; it ends with its place
//   grant    the right to launch: all that is left of it, one slice, or all that
//            is left as persistent blocks, which can be stopped. While nobody waits
//            who would be next, one more slice may be queued behind a slice
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_LAUNCH_GATE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_LAUNCH_GATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/cuda/paths/ptb_sizes.h"
#include "gpu_daemon/backends/cuda/paths/slice_sizes.h"
#include "gpu_daemon/dispatch/device_parties.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/options/policy_names.h"
#include "sim/timing/sharing/device_turns.h"

namespace carillon::gpud::cuda {

// Thread safe; outlives its places.
class LaunchGate {
 public:
  // The thread that launches has it; its destruction ends it, in any state.
  class Place {
   public:
    ~Place() { gate_->Leave(*this); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class LaunchGate;
    Place(LaunchGate* gate, const DeviceMemory* device, uint32_t priority)
        : gate_(gate), device_(device), priority_(priority) {}

    LaunchGate* const gate_;
    const DeviceMemory* const device_;
    const uint32_t priority_;
    // Under the gate's lock, but for reads of begun_ by the thread that begins it.
    uint64_t arrival_ = 0;
    size_t index_ = 0;  // in waiting_, while it waits
    bool runs_ = false;
    bool begun_ = false;
    uint32_t* stop_ = nullptr;  // while it can be stopped
  };
  enum class Grant { kNone, kAll, kSlice, kPtb };

  // What would be granted now: to ask of many without a lock each.
  class Choice {
   public:
    bool Allows(const Place& place) const {
      switch (kind_) {
        case Kind::kAll:
          return true;
        case Kind::kOne:
          return &place == one_;
        case Kind::kMostUrgent:
          return place.priority_ >= least_;
        case Kind::kDevice:
          return place.begun_ ||
                 (turn_ && *turn_ == TurnsDeviceOf(place.device_));
      }
      return false;
    }

   private:
    friend class LaunchGate;
    enum class Kind { kAll, kOne, kMostUrgent, kDevice };
    Kind kind_ = Kind::kAll;
    const Place* one_ = nullptr;
    uint32_t least_ = 0;
    std::optional<sim::timing::DeviceTurns::Device> turn_;
  };

  // `gpu`, `bound_ns`: see SliceSizes, PtbSizes.
  LaunchGate(const GpuModel& gpu, Nanoseconds bound_ns,
             Nanoseconds (*now)() = NowNs);

  // A launch has come, and waits. `device` lives as long as the place; nullptr:
  // nobody's.
  std::unique_ptr<Place> Enter(const DeviceMemory* device, uint32_t priority)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Choice Choose() ABSL_LOCKS_EXCLUDED(mutex_);
  // Of one that waits; with a grant it runs.
  Grant TryBegin(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of one that runs a slice: whether its next may be queued behind that now, as
  // nobody waits who would come before it.
  bool MayQueue(const Place& place) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of one that runs: its slice has ended, or it was stopped, and it waits.
  void EndSlice(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  // One that was granted kPtb is about to be launched so. `stop`, which persistent
  // blocks look at (BlockSupply), is cleared, and set when somebody more urgent
  // comes, or when the policy is another one. It is there until the place waits
  // again, ends, or cannot be stopped any more.
  void LetBeStopped(Place& place, uint32_t* stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops one that can be.
  void Stop(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its word goes, with its context.
  void ForgetStop(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  // For whoever is granted a slice.
  SliceSizes& slices() { return slices_; }
  const SliceSizes& slices() const { return slices_; }
  // For whoever is granted kPtb.
  PtbSizes& ptb() { return ptb_; }
  const PtbSizes& ptb() const { return ptb_; }

  // Whether what begins now goes to its side's part of the SMs (SmSet).
  bool reserves() const ABSL_LOCKS_EXCLUDED(mutex_);

  std::string policy() const ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on: what runs, goes on. Errors: those of CheckPolicy().
  absl::Status SetPolicy(std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Launches of one device.
  struct Device {
    const DeviceMemory* device = nullptr;
    uint32_t fresh = 0;  // they have not begun
    uint32_t begun = 0;
  };

  void Leave(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);
  Device& DeviceOf(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unwait(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Under gpes, of two that may take the GPU.
  static bool IsBefore(const Place& a, const Place& b) {
    return a.priority_ > b.priority_ ||
           (a.priority_ == b.priority_ && a.arrival_ < b.arrival_);
  }
  Choice ChooseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetStopLocked(Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The highest priority of all places; 0: there is none.
  uint32_t MostUrgent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that can be stopped, of lower priorities than that.
  void StopBelow(uint32_t priority) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Nanoseconds (*const now_)();
  SliceSizes slices_;
  PtbSizes ptb_;
  mutable Mutex mutex_;
  const PolicyInfo* policy_ ABSL_GUARDED_BY(mutex_);
  std::vector<Device> devices_ ABSL_GUARDED_BY(mutex_);  // by their coming
  std::vector<Place*> waiting_ ABSL_GUARDED_BY(mutex_);  // in no order
  std::vector<Place*> stoppable_ ABSL_GUARDED_BY(mutex_);
  // Places, by priority.
  std::array<uint32_t, kPriorities> places_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of policy exclusive; begins anew with each change of policy.
  std::optional<sim::timing::DeviceTurns> turns_ ABSL_GUARDED_BY(mutex_);
  DeviceParties parties_ ABSL_GUARDED_BY(mutex_);  // scratch
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_LAUNCH_GATE_H_
