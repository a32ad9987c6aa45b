// Finds the doorbells that were rung, copies and checks their entries, and calls
// Launcher::Launch() for each. A FrontEnd calls it in its thread, one look after
// the other.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_
#define CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "gpu_daemon/dispatch/doorbell_line.h"
#include "gpu_daemon/dispatch/front_end_budget.h"
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
    // Tells how long serving takes, if not ReadTicks(). Where only an order
    // counts: NoTicks.
    Ticks (*ticks)() = nullptr;
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

  // One look: at the lines that rang last, and at some of the others in turn
  // (docs/data_plane.md says how many); at all of them if the launcher says so.
  // True if any was rung.
  bool PollOnce();
  // Something other than its doorbell has rung it (edgeScheduleEvent): the next
  // look is at it, too.
  void LookAt(const EventKernel& event);
  // To be called now and then while none rings: a long run that comes next is
  // told from the time before it.
  void MarkTime() { clock_.Mark(Now()); }
  // Sleeps until a doorbell is rung, `also` changes, or `longest` has passed;
  // `sleeps` is counted up if it does. False if a doorbell was rung already.
  bool SleepUnlessRung(shm::FutexWord also, std::chrono::milliseconds longest,
                       std::atomic<uint64_t>* sleeps);

  // How many lines were compared, and rings put in order, so far: what polling
  // costs.
  uint64_t lines_looked_at() const { return lines_looked_at_; }
  uint64_t rings_sorted() const { return rings_sorted_; }

 private:
  struct Line : DoorbellLine {
    using DoorbellLine::DoorbellLine;
    bool hot = false;
    uint32_t quiet_rounds = 0;               // since it rang, while hot
    FrontEndBudget::Share* share = nullptr;  // the device's
    // When each was served or else added, counted in events.
    std::array<uint64_t, kDoorbells> served_at{};
  };
  // An event kernel that seems to have rung.
  struct Rung {
    Line* line;
    uint32_t index;
    uint32_t priority;
    uint64_t served_at;
    bool operator<(const Rung& other) const {
      if (priority != other.priority) return priority > other.priority;
      return served_at < other.served_at;
    }
  };
  // A device whose doorbells are slept on.
  struct Watched {
    std::shared_ptr<DeviceMemory> memory;
    bool added = false;  // by AddDevice()
    size_t event_kernels = 0;
  };

  Ticks Now() const {
    return options_.ticks == nullptr ? ReadTicks() : options_.ticks();
  }
  void CollectRung();
  void CollectFrom(Line& line);
  // Returns how long it took; 0 if there were few.
  Ticks SortRung();
  void ChargeSort(Ticks ticks);
  void KeepHot(Line& line);
  void PutFirst(Line& line);
  void Cool(Line& line);
  // Returns how many events it has served: `count`, unless the device's share
  // of the front-end is used up before.
  uint32_t Serve(const std::shared_ptr<EventKernel>& event,
                 FrontEndBudget::Share& share, uint32_t count);
  // True if the event has ended by now.
  bool LaunchOne(const std::shared_ptr<EventKernel>& event,
                 shm::Sequence sequence, Nanoseconds seen_ns);
  std::optional<bool> PassLaunch(EventKernel& event, shm::Sequence sequence);
  void Evict(std::shared_ptr<DeviceMemory> memory, std::string reason);
  void LetGo(EventKernel& event);
  // Where its line is, or would be.
  std::vector<std::unique_ptr<Line>>::iterator FindLine(
      const EventKernel& event);
  void RemoveLine(std::vector<std::unique_ptr<Line>>::iterator line);
  std::vector<Watched>::iterator FindDevice(const DeviceMemory* memory);
  Watched& Watch(const std::shared_ptr<DeviceMemory>& memory);
  void WatchDevices();
  void TellTracing(const DeviceMemory& device) const;

  Options options_;
  Launcher* const launcher_;
  RunClock clock_;
  FrontEndBudget budget_;
  std::vector<std::unique_ptr<Line>> lines_;  // by the place in memory
  std::vector<Line*> hot_;                    // the one that rang last first
  size_t next_line_ = 0;                      // to look at in turn
  uint32_t served_ = 0;                       // events, in the last look
  uint64_t served_in_all_ = 0;
  std::vector<Rung> rung_;        // in this look, of devices that may go on
  std::vector<Line*> held_back_;  // cold ones that rang in this look
  uint64_t lines_looked_at_ = 0;
  uint64_t rings_sorted_ = 0;
  std::vector<Watched> devices_;
  shm::DoorbellWaiter doorbells_;  // of devices_
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_DOORBELL_POLLER_H_
