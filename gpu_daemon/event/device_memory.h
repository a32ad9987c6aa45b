// A device's two apertures and how to wake it: what outlives its session until
// the last kernel that touches it has ended. Buffers and GPU memory are
// control/sessions/device_space.h's.
#ifndef CARILLON_GPU_DAEMON_EVENT_DEVICE_MEMORY_H_
#define CARILLON_GPU_DAEMON_EVENT_DEVICE_MEMORY_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "shm/aperture.h"
#include "shm/wakeups.h"

namespace carillon::gpud {

// A device's releases of the wait-release barrier, where threads of this machine
// run a user's PTX (backends/sim/release_latch.h).
struct WaitReleases {
  // Where a launch begins that is submitted now: it may pass by each later
  // release. The last of those before it is among them if nobody has passed by
  // it.
  uint64_t OverNow() const {
    const uint64_t made = count.load(std::memory_order_relaxed);
    const uint64_t used = passed.load(std::memory_order_relaxed);
    return made > used ? made - 1 : used;
  }

  // Writers: threads in ReleaseLatch, which has a lock; readers: they, and who
  // submits. Relaxed: who submits after a release or an event's end has heard of
  // it through the call or the ring.
  std::atomic<uint64_t> count{0};
  // The last release by which a block has passed.
  std::atomic<uint64_t> passed{0};
};

// What the operator lets a device have (docs/policies.md). The device has no say
// in it.
class DeviceShare {
 public:
  static constexpr uint32_t kMostWeight = 100;

  // Of its turns under the policy `exclusive`; from 1 on.
  uint32_t weight() const { return weight_.load(std::memory_order_relaxed); }
  void set_weight(uint32_t weight) {
    weight_.store(weight, std::memory_order_relaxed);
  }
  // Its launches count as of this priority if they have a higher one.
  uint32_t max_priority() const {
    return max_priority_.load(std::memory_order_relaxed);
  }
  void set_max_priority(uint32_t priority) {
    max_priority_.store(priority, std::memory_order_relaxed);
  }

 private:
  // Writer: the control plane; readers: the front-end, the KMU. Relaxed: they
  // say nothing about other memory.
  std::atomic<uint32_t> weight_{1};
  std::atomic<uint32_t> max_priority_{~uint32_t{0}};
};

// Shared between the control plane (which makes it), the front-end (which polls
// its doorbells) and kernel launches (which keep it alive). Immutable but for
// the memory that it maps, the releases that it counts, and the device's share.
class DeviceMemory {
 public:
  // `owner`: the device's process; 0: none.
  DeviceMemory(std::string name, shm::Aperture submission,
               shm::Aperture completion, shm::CompletionEvent event,
               pid_t owner = 0)
      : name_(std::move(name)),
        owner_(owner),
        submission_(std::move(submission)),
        completion_(std::move(completion)),
        event_(std::move(event)),
        bell_(&submission_, &completion_, event_.writer.get()) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  const std::string& name() const { return name_; }
  pid_t owner() const { return owner_; }
  const shm::Aperture& submission() const { return submission_; }
  const shm::Aperture& completion() const { return completion_; }
  // What the device gets a copy of.
  int completion_event() const { return event_.reader.get(); }
  const shm::CompletionBell& bell() const { return bell_; }

  WaitReleases& releases() const { return releases_; }
  DeviceShare& share() const { return share_; }

  // Tells the device that its aperture is closed, and wakes it. The first
  // reason stays.
  void Close(shm::CloseReason reason) const {
    uint32_t open = 0;
    std::atomic_ref<uint32_t>(completion_.completion_control().closed)
        .compare_exchange_strong(open, static_cast<uint32_t>(reason),
                                 std::memory_order_seq_cst);
    bell_.SignalAlways();
  }

 private:
  const std::string name_;
  const pid_t owner_;
  const shm::Aperture submission_;
  const shm::Aperture completion_;
  const shm::CompletionEvent event_;
  const shm::CompletionBell bell_;
  mutable WaitReleases releases_;
  mutable DeviceShare share_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_DEVICE_MEMORY_H_
