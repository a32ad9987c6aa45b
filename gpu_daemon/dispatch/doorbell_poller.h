// Finds the doorbells that were rung, copies and checks their entries, and calls
// Launcher::Launch() for each. A FrontEnd calls it in its thread, one look after
// the other.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/dispatch/run_clock.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/gpu_model.h"
#include "gpu_daemon/event/launch_path.h"
#include "shm/types.h"
#include "shm/waiting.h"

namespace carillon::gpud {

// One thread at a time. The launcher outlives it.
class DoorbellPoller {
 public:
  // As many as one futex_waitv can wait for, less one.
  static constexpr size_t kMaxDevices = shm::kMaxFutexWords - 1;

  struct Options {
    GpuModel gpu;
    bool tracing = false;
    OnViolation on_violation;
  };
  DoorbellPoller(Options options, Launcher* launcher)
      : options_(std::move(options)), launcher_(launcher) {}

  // The launcher has prepared for it. Errors: ResourceExhausted, if its device
  // would be one more than kMaxDevices; the launcher has let go of it then.
  absl::Status Add(const std::shared_ptr<EventKernel>& event);
  // Sleeps on its doorbells even while it has no event kernel.
  void AddDevice(const std::shared_ptr<DeviceMemory>& device);
  // As LaunchPath::Remove() and RemoveDevice().
  void Remove(const std::shared_ptr<EventKernel>& event);
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory);
  // Devices are told.
  void SetTracing(bool on);

  // One look at every doorbell; true if any was rung.
  bool PollOnce();
  // To be called now and then while none rings: a long run that comes next is
  // told from the time before it.
  void MarkTime() { clock_.Mark(ReadTicks()); }
  // Sleeps until a doorbell is rung, `also` changes, or `longest` has passed;
  // `sleeps` is counted up if it does. False if a doorbell was rung already.
  bool SleepUnlessRung(shm::FutexWord also, std::chrono::milliseconds longest,
                       std::atomic<uint64_t>* sleeps);

 private:
  void Serve(const std::shared_ptr<EventKernel>& event, uint32_t count);
  // True if the event has ended by now.
  bool LaunchOne(const std::shared_ptr<EventKernel>& event,
                 shm::Sequence sequence, Nanoseconds seen_ns);
  std::optional<bool> PassLaunch(EventKernel& event, shm::Sequence sequence);
  void Evict(std::shared_ptr<DeviceMemory> memory, std::string reason);
  void LetGo(EventKernel& event);
  void CollectDevices();
  void TellTracing(const DeviceMemory& device) const;

  Options options_;
  Launcher* const launcher_;
  RunClock clock_;
  std::vector<std::shared_ptr<EventKernel>> events_;  // highest priority first
  std::vector<std::shared_ptr<DeviceMemory>> added_;  // by AddDevice()
  std::vector<std::shared_ptr<DeviceMemory>> devices_;  // these and of events_
  shm::DoorbellWaiter doorbells_;                       // of devices_
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_
