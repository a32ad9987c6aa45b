// The near end of gpud's link: the event kernels whose events it carries, and
// what happens to them when it is lost.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LINK_H_
#define CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LINK_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/options/backend_options.h"
#include "mesh/near_link.h"
#include "shm/recorder/peer_clock.h"
#include "shm/types.h"

namespace carillon::gpud {

// Thread safe.
class RemoteLink final : private mesh::NearHost {
 public:
  // The other host has lost this device, or the whole link: its events must be
  // taken from the launch path and aborted, and its session must end. Called in
  // a thread of its own, without a lock.
  using OnLost =
      std::function<void(const std::shared_ptr<DeviceMemory>&, std::string)>;

  // Waits a while for the other host, unless it refuses the link. Errors:
  // InvalidArgument (the options), Unavailable: why there is no link; Cancelled:
  // gpud is told to end.
  static absl::StatusOr<std::unique_ptr<RemoteLink>> Start(
      const RemoteOptions& options, OnLost on_lost);
  ~RemoteLink() override;

  // Has the other host register it; see NotYet(). Errors: Unimplemented,
  // InvalidArgument, ResourceExhausted, FailedPrecondition (it refuses it),
  // Unavailable (the link is down, or it refuses it for the moment).
  absl::Status Add(EventKernel& event);
  // It is not looked at any more once this returns. Nothing happens if it is not
  // there.
  void Remove(const EventKernel& event);

  // Events that were launched. Their event kernels were added. Not thread safe.
  class Batch {
   public:
    void Add(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
             const CheckedEntry& entry);
    bool empty() const { return events_.empty(); }

   private:
    friend class RemoteLink;
    struct Event {
      std::shared_ptr<EventKernel> kernel;
      shm::Sequence sequence;
      shm::EventLife life;  // all 0 while tracing is off
      size_t args;          // where in args_
    };
    std::vector<Event> events_;
    // What each kernel takes: an ArgumentBlock has room for the largest.
    std::vector<std::byte> args_;
  };
  // All of them at once; they are taken out.
  void Ring(Batch& batch);

  mesh::LinkStatus status() const;
  // "b (10.0.0.5:4711), now up"
  std::string ToString() const;
  // Events that have not come back.
  uint64_t in_flight() const;
  // Ends that came for events that had ended: a device that has just ended
  // accounts for some.
  uint64_t late_ends() const {
    return late_ends_.load(std::memory_order_relaxed);
  }

 private:
  // Numbers of a link's ring are its own: an event that is refused here, or that
  // a fault has ended, is in no link.
  struct CarriedRing {
    struct Slot {
      std::shared_ptr<EventKernel> event;
      shm::Sequence sequence;
      shm::EventLife life;
    };
    CarriedRing() = default;
    CarriedRing(EventKernel* event, uint32_t slots, Nanoseconds asked_ns);
    Slot& SlotOf(uint64_t number) { return slots[(number - 1) % slots.size()]; }
    std::byte* ArgsOf(uint64_t number) {
      return args.data() + (number - 1) % slots.size() * args_stride;
    }

    EventKernel* event = nullptr;
    std::vector<Slot> slots;
    size_t args_stride = 0;
    std::vector<std::byte> args;  // of each slot
    uint64_t rung = 0;
    uint64_t ended = 0;
    Nanoseconds asked_ns = 0;            // by Add()
    bool held = false;                   // it was: Add() has returned
    std::optional<std::string> refused;  // why it is not now
    bool passing = false;                // it may be held again
    bool again = false;                  // Keep() is to add it
    Nanoseconds refused_ns = 0;          // since when
  };

  explicit RemoteLink(const RemoteOptions& options, OnLost on_lost);
  absl::Status Connect() ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<mesh::NearLink> link() const;
  absl::Status Begin(EventKernel& event);
  // Ends devices, adds rings again, begins a new link after a lost one, says why
  // the other host refuses one and that it was away, and notes its clock.
  void Keep();
  void NoteClock(const mesh::LinkStatus& status);
  // Each refusal once, and not each time that the link is tried.
  void SayRefusal(const mesh::LinkStatus& status);
  // Once the link is up again; one line a second at most, of all since the last.
  void SayOutage(const mesh::LinkStatus& status);
  // Rings that were held, and are not to be had for the moment: adds them under
  // new ids, or gives their devices up once the lease is over.
  void AddAgain() ABSL_LOCKS_EXCLUDED(mutex_);
  bool MustAddAgain() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // mesh::NearHost: under the link's lock, in the link's thread; ReadEvent() also
  // in that of Ring()'s caller.
  void ReadEvent(mesh::RingId ring, shm::Sequence number,
                 std::string* to) override;
  bool TakeEnd(mesh::RingId ring, shm::Sequence number,
               const mesh::End& end) override;
  void FlushEnds() override;
  void HoldRing(mesh::RingId ring) override;
  void LoseRing(mesh::RingId ring, const std::string& why,
                bool passing) override;
  void LoseLink(const std::string& why) override;

  CarriedRing* Find(mesh::RingId ring) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RemoteOptions options_;
  const OnLost on_lost_;
  // Of the next link: from that of this gpud's start on, so that a later one's is
  // higher however many links this one begins. Start()'s thread, then keeper_.
  uint64_t incarnation_ = 0;

  // Whoever holds it must not call the link, whose lock comes first.
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<mesh::NearLink> link_ ABSL_GUARDED_BY(mutex_);
  std::map<mesh::RingId, CarriedRing> rings_ ABSL_GUARDED_BY(mutex_);
  std::map<const EventKernel*, mesh::RingId> ids_ ABSL_GUARDED_BY(mutex_);
  mesh::RingId last_id_ ABSL_GUARDED_BY(mutex_);
  // For keeper_: devices whose rings were refused after they were held.
  std::map<std::shared_ptr<DeviceMemory>, std::string> lost_devices_
      ABSL_GUARDED_BY(mutex_);
  bool link_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the link's lock: whose device is to be told.
  std::shared_ptr<EventKernel> ended_last_;
  // Writer: the link's thread; readers: whoever shows it. Relaxed: only a figure.
  std::atomic<uint64_t> late_ends_{0};
  shm::PeerClock noted_;      // of keeper_
  std::string said_refusal_;  // of keeper_
  // Of keeper_: what was said of the time for which the link was down, and when.
  uint64_t said_downs_ = 0;
  Nanoseconds said_down_ = 0;
  Nanoseconds said_down_at_ns_ = 0;
  std::thread keeper_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_REMOTE_REMOTE_LINK_H_
