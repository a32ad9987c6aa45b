// Launch path `edge` on CUDA: the host's side of the resident dispatchers. They
// poll, launch and complete by themselves (edge_dispatch.h); the host fills in
// their tables, stops them for every change of these, and watches them.
//
//   registering, unregistering   quiesce (kHalt, kLeave), change, start again
//   a device that sleeps         is woken by the watching thread: a GPU cannot
//   a doorbell out of bounds     the dispatchers say so; the host evicts
//   a lost context               what was rung and has no completion runs again
//                                (Gpu::Recover), then the dispatchers start anew
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PATH_H_

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/edge_table.h"
#include "gpu_daemon/backends/cuda/gpu.h"
#include "gpu_daemon/backends/cuda/host_words.h"
#include "gpu_daemon/backends/cuda/owned.h"
#include "gpu_daemon/launch/launch_path.h"

namespace carillon::gpud::cuda {

class EdgePath : public LaunchPath, private Gpu::Tenant, private Gpu::Resident {
 public:
  struct Options {
    bool tracing = false;
    OnViolation on_violation;
    uint32_t dispatchers = 3;
    uint32_t pollers = 2;
    uint32_t event_warps = 8;
    // Fire-and-forget launches of one execution of a dispatcher.
    uint32_t budget = kEdgeBudget;
    // What may pass before events that the dispatchers have taken end.
    std::chrono::milliseconds longest_kernel{10'000};
  };

  // Errors: Unimplemented (no device graph launch on this GPU), those of the
  // driver.
  static absl::StatusOr<std::unique_ptr<EdgePath>> Create(Gpu* gpu,
                                                          Options options);
  ~EdgePath() override;

  // Errors: InvalidArgument (modifyable kernels, users' own), ResourceExhausted
  // (lines, memory).
  absl::Status Add(std::shared_ptr<EventKernel> event) override;
  // As is promised, and more: what was launched has ended.
  void Remove(const std::shared_ptr<EventKernel>& event) override;
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override;
  // Unimplemented: only doorbells launch.
  absl::Status Wake() override;
  void SetTracing(bool on) override;
  std::vector<PathCounter> counters() const override;
  void Stop() override;

  // What the dispatchers say of themselves; a copy of some milliseconds ago.
  EdgeFigures dispatch_figures() const;

 private:
  // One event kernel, and what it has on the GPU.
  struct Resident {
    std::shared_ptr<EventKernel> event;
    uint32_t index = 0;  // 32 * line + doorbell's place in it
    bool inlined = false;
    DeviceBytes frames;     // two a slot
    DeviceBytes scratch;    // two a slot
    DeviceBytes ended;      // a sequence a slot
    DeviceBytes execs;      // two handles a slot
    DeviceBytes arguments;  // ArgumentSteps
    std::vector<GraphExec> graphs;
    uint64_t inline_function = 0;

    // While the dispatchers are stopped: where they go on, and what they have
    // counted.
    std::array<EdgeHead, kEdgeMaxEventWarps> heads{};
    EventTotals totals{};

    // The watching thread's.
    uint64_t ended_before = 0;
    shm::Nanoseconds stands_still_since = 0;
    uint64_t overdue = 0;  // sequence; 0: none
    bool violation_seen = false;
  };
  using ResidentPtr = std::unique_ptr<Resident>;

  EdgePath(Gpu* gpu, Options options);
  absl::Status Open();

  // Runs `change` in a quiet of the Gpu's, under a use and the lock. Again, if
  // the context was lost on the way.
  absl::Status Change(const std::function<absl::Status()>& change);

  // Under a use and the lock:
  absl::Status Prepare();  // what all event kernels share
  absl::Status Place(Resident& resident);
  absl::Status MakeGraphs(Resident& resident);
  absl::Status MakeInline(Resident& resident);
  absl::Status StartDispatchers();
  // False: the context is lost.
  bool StopDispatchers();
  bool AwaitReport(const std::function<bool()>& said);
  bool AllTakenHaveEnded() const;
  absl::Status FetchHeads();
  void TakeOut(Resident& resident);
  std::vector<std::shared_ptr<EventKernel>> TakeOutAll(
      const std::function<bool(const Resident&)>& match);
  std::optional<uint32_t> FreeIndex(const EventKernel& event);

  void Watch();
  void LookAt(Resident& resident, shm::Nanoseconds now);

  void Pause() override;
  void Unpause() override;
  void StartIfWanted();

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  absl::Status Resume() override;
  bool MarkOverdue(shm::Nanoseconds since) override;

  Gpu* const gpu_;
  const Options options_;
  // Mapped for the GPU in every epoch; the host's words stay.
  HostWords<EdgeControl> control_;
  HostWords<EdgeReport> report_;

  mutable std::mutex mutex_;
  std::vector<ResidentPtr> residents_;
  // Which device's doorbells a line shows; nullptr: free.
  struct Line {
    const DeviceMemory* memory = nullptr;
    uint32_t first_doorbell = 0;
  };
  std::array<Line, kEdgeMaxLines> lines_{};

  // In the context.
  DeviceBytes table_;
  DeviceBytes entries_;
  DeviceBytes heads_;
  DeviceBytes totals_;
  std::array<Stream, kEdgeMaxDispatchers> streams_;
  std::array<GraphExec, kEdgeMaxDispatchers> dispatchers_;

  bool tracing_;
  bool traced_ever_ = false;
  bool running_ = false;  // the dispatchers
  bool paused_ = false;
  bool stopped_ = false;
  std::condition_variable watch_;
  std::thread watcher_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_EDGE_PATH_H_
