// A launch path: one way from a rung doorbell to a running kernel. Which one
// serves an event kernel is chosen when it is registered.
#ifndef CARILLON_GPU_DAEMON_EVENT_LAUNCH_PATH_H_
#define CARILLON_GPU_DAEMON_EVENT_LAUNCH_PATH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/event_kernel.h"

namespace carillon::gpud {

// What a launch path is, for people.
struct LaunchPathInfo {
  std::string_view name;
  std::string_view summary;  // one line
};

// The path of that name is the default of every back-end.
inline constexpr std::string_view kEdgePath = "edge";

// A figure of a path's own, for people.
struct PathCounter {
  std::string_view name;
  uint64_t value = 0;
};

// Called for a device that broke the protocol, on any thread; its event kernels
// on that path are removed by then. Must not block.
using OnViolation = std::function<void(const std::shared_ptr<DeviceMemory>&,
                                       std::string reason)>;

// Called for an event kernel that has overrun the short path's bound
// (ShortPathEstimate) by a run of `cpu_ns`: it runs on workers from now on. On
// the front-end's thread; must not block.
using OnOverrun =
    std::function<void(const EventKernel& event, Nanoseconds cpu_ns)>;

// Thread safe. Calls return when they have taken effect; they must not come
// from the path's own threads.
class LaunchPath {
 public:
  virtual ~LaunchPath() = default;

  // Serves the event kernel's doorbell from now on. Errors: InvalidArgument,
  // FailedPrecondition, Unimplemented (an event kernel that this path cannot
  // launch), ResourceExhausted (a limit of this path), Unavailable (it has given
  // up): another path may take it, unless the error is marked OnAnyPath(). Then
  // this path knows nothing of the event kernel, which is of no use any more.
  virtual absl::Status Add(std::shared_ptr<EventKernel> event) = 0;
  // Never touches its ring again. What was launched is the caller's to cancel
  // or to wait for; rings that were not launched yet count as in flight from
  // now on, for the caller to abort.
  virtual void Remove(const std::shared_ptr<EventKernel>& event) = 0;
  // Remove() for all of a device, in one step. Returns them.
  virtual std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) = 0;
  // Looks for its scheduled events (edgeScheduleEvent).
  virtual void Wake(const std::shared_ptr<EventKernel>& event) = 0;

  virtual void SetTracing(bool on) = 0;
  // How it has spent its time: "polls", "sleeps" and what else it counts.
  virtual std::vector<PathCounter> counters() const = 0;
  // What people should know of it: that it has given up, and why, or what it
  // cannot do on this machine. Empty: nothing. Never waits for the path.
  virtual std::string notice() const { return {}; }

  // No doorbell is looked at any more once this returns.
  virtual void Stop() = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_LAUNCH_PATH_H_
