// What a front-end does with a rung event once its entry has been checked: the
// part in which the launch paths with a CPU front-end differ.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_LAUNCHER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "gpu_daemon/event/checked_entry.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/launch_path.h"
#include "shm/types.h"

namespace carillon::gpud {

// Calls come from the front-end's thread, but for Prepare(), NotAdded() and
// counters(), and those of Release() that follow its end.
class Launcher {
 public:
  virtual ~Launcher() = default;

  // Takes what the event kernel's launches need, in the thread that registers
  // it. Errors: InvalidArgument (a kernel that cannot be launched this way),
  // ResourceExhausted.
  virtual absl::Status Prepare(EventKernel&) { return absl::OkStatus(); }
  // The event kernel's doorbell is not looked at any more.
  virtual void Release(EventKernel&) {}
  // Behind a Release() of what was prepared and not added, in the thread that
  // registers: what only a thread that may wait can give back.
  virtual void NotAdded() {}

  // Called when a device attaches, and when it is gone. Launchers that only see
  // events may ignore both.
  virtual void AddDevice(const std::shared_ptr<DeviceMemory>&) {}
  virtual void ReleaseDevice(const DeviceMemory*) {}

  // An event has ended without Launch(): its entry was bad.
  virtual void Refused(const EventKernel&) {}

  // Launches the event. True if it has ended by now: the front-end signals its
  // device's bell, once for a burst.
  virtual bool Launch(const std::shared_ptr<EventKernel>& event,
                      shm::Sequence sequence, CheckedEntry& entry) = 0;

  // The last event that Launch() has ended took so much of this thread's CPU
  // time. Called for long ones only.
  virtual void TookLong(EventKernel&, Nanoseconds) {}

  // Ends events that this thread has to see end. True if it found any.
  virtual bool Reap() { return false; }
  // Simulated time only: runs the GPU until its next event, once no doorbell is
  // pending. True if it did.
  virtual bool Advance() { return false; }
  // Whether each look is at all doorbells: one that is seen late by some looks
  // is not only late.
  virtual bool looks_at_all() const { return false; }
  // True while the front-end must not sleep: there is something to reap, or to
  // go on with.
  virtual bool must_poll() const { return false; }

  // Whether higher doorbells are answered before the rest of lower ones' rings.
  virtual bool by_priority() const { return true; }

  // Figures of its own, for people.
  virtual std::vector<PathCounter> counters() const { return {}; }
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_LAUNCHER_H_
