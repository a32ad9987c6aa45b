// Launches on the simulated GPU in its own time, which passes for devices by
// turns (shm/simulated_time.h). The front-end's thread is all there is: it looks
// at the doorbells, simulates, and stops at each completion until the device has
// lived through that moment. What happens depends on the devices alone, not on
// this machine's speed: the same devices give the same times, always.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_LAUNCHER_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/backends/sim/timed_copies.h"
#include "gpu_daemon/dispatch/launcher.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/kernel_launch.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/launch_path.h"
#include "gpu_daemon/event/memory_copy.h"
#include "gpu_daemon/options/backend_options.h"
#include "shm/simulated_time.h"
#include "shm/types.h"
#include "sim/exec/memory.h"
#include "sim/timing/gpu.h"

namespace carillon::gpud {

// One thread, the front-end's or, after its end, whoever stops it; but for
// Prepare() and what is thread safe below.
class TimedLauncher final : public Launcher {
 public:
  struct Options {
    sim::timing::Config gpu;
    uint32_t first_devices = 1;  // time begins when so many have attached
    std::vector<std::string> device_order;  // or, if there are any, these
    // What a link takes from that device to the GPU, and back from there.
    DeviceLatencies latencies;
    std::string event_log;  // a file's path; empty: none
    CopyChunks copy_chunks;
    OnViolation on_violation;
  };
  // `ptx` and `memory` must outlive it. Errors: InvalidArgument (the file cannot
  // be written).
  static absl::StatusOr<std::unique_ptr<TimedLauncher>> Make(
      Options options, PtxEngine* ptx, KernelMemory* memory);

  absl::Status Prepare(EventKernel& event) override;
  void AddDevice(const std::shared_ptr<DeviceMemory>& memory) override;
  void ReleaseDevice(const DeviceMemory* memory) override;
  void Refused(const EventKernel& event) override;
  bool Launch(const std::shared_ptr<EventKernel>& event, shm::Sequence sequence,
              CheckedEntry& entry) override;
  bool Advance() override;
  bool looks_at_all() const override { return true; }
  bool must_poll() const override;

  // A background kernel, at its device's now, which has no turn until it ends.
  void Submit(std::unique_ptr<KernelLaunch> launch);
  // The same of a copy.
  void Submit(std::unique_ptr<MemoryCopy> copy);
  // Ends the launches and copies that `which` names, also those that run.
  void Cancel(const LaunchFilter& which, shm::EventStatus why);

  // Releases the wait-release barrier of every SM, at the device's now.
  void ReleaseBarrier(const DeviceMemory& device);

  // How launches share the GPU from the simulated now on. Errors: those of
  // Gpu::SetSharing().
  absl::Status SetSharing(sim::timing::Sharing sharing, uint32_t reserve_sms) {
    return gpu_.SetSharing(sharing, reserve_sms);
  }
  std::vector<LaunchProgress> launches() const;
  std::vector<CopyProgress> copies() const { return copies_.List(now_ns()); }

  sim::timing::Statistics statistics() { return gpu_.statistics(); }

  // Thread safe:
  Nanoseconds LatencyOf(std::string_view device) const;
  Nanoseconds now_ns() const { return now_ns_.load(std::memory_order_relaxed); }
  // Why time stands; empty: it does not.
  std::string waits_for() const;
  uint64_t unfinished() const {
    return unfinished_.load(std::memory_order_relaxed);
  }
  uint64_t background_kernels() const {
    return background_kernels_.load(std::memory_order_relaxed);
  }
  uint64_t background_blocks() const {
    return background_blocks_.load(std::memory_order_relaxed);
  }

 private:
  using Cycle = sim::timing::Cycle;

  // An attached device.
  struct Participant {
    enum class State { kHasTurn, kHasAnswered, kLaunches, kEvicted };
    std::shared_ptr<DeviceMemory> memory;
    shm::TurnGiver turns;
    State state = State::kHasTurn;
    Nanoseconds now = 0;   // of its last turn
    Nanoseconds next = 0;  // kHasAnswered: when it wants another
    bool due = false;      // something of its own has ended
    uint64_t calls = 0;    // background kernels and copies, so far
  };
  // What has ended on the GPU, on its way to a device.
  struct Arrival {
    std::shared_ptr<DeviceMemory> memory;
    bool call = false;  // else an event
    // One of them.
    std::unique_ptr<KernelLaunch> launch;
    std::unique_ptr<MemoryCopy> copy;
    LaunchResult result;
  };
  // When a launch reaches the GPU: time, device, event kernel (background
  // kernels after them), sequence.
  using Due = std::tuple<Nanoseconds, std::string, uint32_t, uint64_t>;
  struct Running {
    std::unique_ptr<KernelLaunch> launch;
    Due due;
    size_t status = 0;  // index of its status word
  };

  TimedLauncher(Options options, PtxEngine* ptx, KernelMemory* memory);

  Participant* Find(const DeviceMemory* memory);
  void Evict(Participant& participant, std::string reason);
  // Whether all have answered and time has begun.
  bool CollectAnswers();
  bool Step();
  void Simulate(Cycle until);
  void Start(Due due, std::unique_ptr<KernelLaunch> launch);
  void EndAll();
  void End(Running running, const sim::timing::GridResult& result);
  // One that never got to the GPU.
  void EndUnstarted(std::unique_ptr<KernelLaunch> launch, const Due& due,
                    uint32_t fail_status);
  void Finish(std::unique_ptr<KernelLaunch> launch, const Due& due,
              shm::EventState state, uint32_t status,
              const sim::timing::GridResult* result);
  // The device is told once its link has brought it, or at once if it was
  // aborted: whoever aborts waits for that.
  void Send(Arrival arrival);
  void Arrive(Arrival arrival);
  void ArriveUntil(Nanoseconds now);
  // The device has no turn until what it has called for ends. Returns when that
  // reaches the GPU, and the how many-th it is.
  std::pair<Nanoseconds, uint64_t> BeginCall(const DeviceMemory* memory);
  // What the device has called for, or an event of its, has ended.
  void NoteEnd(const DeviceMemory* memory, bool call);
  void EndCopies(std::vector<TimedCopies::Ended> ended);
  void GiveTurns(Nanoseconds until);
  void Give(Participant& participant, Nanoseconds now);
  Cycle CycleAt(Nanoseconds ns) const;
  bool has_begun() const {
    return awaited_.empty() && devices_so_far_ >= options_.first_devices;
  }
  absl::Status AddStatuses();
  absl::StatusOr<size_t> TakeStatus();
  void SetWaitsFor(std::string why);

  const Options options_;
  PtxEngine* const ptx_;
  std::shared_ptr<const sim::SegmentTable> segments_;  // gpu_'s
  sim::PrintBuffer printed_;
  std::ofstream event_log_;
  sim::timing::Gpu gpu_;
  std::vector<std::unique_ptr<Participant>> participants_;  // by their names
  uint32_t devices_so_far_ = 0;
  std::set<std::string> awaited_;  // of device_order; time waits for them
  // All had answered before the last look at the doorbells.
  bool looked_since_answers_ = false;
  bool ready_ = false;  // there is something to go on with
  std::map<Due, std::unique_ptr<KernelLaunch>> waiting_;
  std::map<sim::timing::GridId, Running> running_;
  std::vector<sim::timing::GridResult> ended_;  // in this cycle
  TimedCopies copies_;
  std::multimap<Nanoseconds, Arrival> arrivals_;
  // Words of the simulated GPU's memory that kernels report failures in.
  std::vector<std::pair<sim::DeviceAddress, uint32_t*>> statuses_;
  std::vector<size_t> free_statuses_;

  // Writer: the thread; readers: whoever shows them. Relaxed: figures.
  std::atomic<Nanoseconds> now_ns_{0};
  std::atomic<uint64_t> unfinished_{0};
  std::atomic<uint64_t> background_kernels_{0};
  std::atomic<uint64_t> background_blocks_{0};
  mutable Mutex waits_for_mutex_;
  std::string waits_for_ ABSL_GUARDED_BY(waits_for_mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TIMED_LAUNCHER_H_
