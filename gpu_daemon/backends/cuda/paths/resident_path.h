// What the launch paths have in common that keep work on the GPU for their event
// kernels: `edge`, `stream_wait`, `persistent`, `pagoda_ring`. ResidentPath keeps the event
// kernels, the watching thread and recovery; what serves them on the GPU is its
// engine (resident_engine.h).
//
//   registering, unregistering   the path stands still: all of its work on the
//                                GPU ends at an event's end; change; start again
//   a device that sleeps         is woken by the watching thread: a GPU cannot
//   a doorbell out of bounds,    the watching thread says so; the host evicts
//   or one that the GPU does
//   not see
//   a lost context               what was rung and has no completion runs again
//                                (Gpu::Recover), then the path starts anew
//   a path that has lost its     the watching thread begins anew; after some
//   kernels, but no context      times for nothing it gives up: from then on
//                                events end as not launched
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"
#include "gpu_daemon/event/launch_path.h"

namespace carillon::gpud::cuda {

class ResidentPath final : public LaunchPath,
                           private Gpu::ContextUser,
                           private Gpu::PersistentWork {
 public:
  struct Names {
    std::string path;
    std::string thread;  // at most 15 characters
  };
  using MakeEngine =
      std::function<std::unique_ptr<ResidentEngine>(ResidentHost* host)>;

  // Errors: those of the engine's Prepare() and of its first BeginAll(), which
  // serves nothing.
  static absl::StatusOr<std::unique_ptr<LaunchPath>> Create(
      Gpu* gpu, Names names, ResidentOptions options, const MakeEngine& make);
  ~ResidentPath() override;

  // Errors: InvalidArgument (kernels that the path cannot run),
  // ResourceExhausted (no room for another one, memory), Unavailable (the path
  // has given up).
  absl::Status Add(std::shared_ptr<EventKernel> event) override;
  // As is promised, and more: what was launched has ended.
  void Remove(const std::shared_ptr<EventKernel>& event) override;
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override;
  // Unimplemented: only doorbells launch.
  void Wake(const std::shared_ptr<EventKernel>& event) override;
  void SetTracing(bool on) override;
  std::vector<PathCounter> counters() const override;
  std::string notice() const override { return host_.notice(); }
  void Stop() override;

 private:
  ResidentPath(Gpu* gpu, Names names, ResidentOptions options,
               const MakeEngine& make);

  absl::Status Open();
  // Runs `change` in a quiet of the Gpu's, under a use and the lock. Again, if
  // the context was lost on the way.
  absl::Status Change(const std::function<absl::Status()>& change);
  absl::Status Place(ResidentEvent& resident);
  absl::Status StartAll();
  // False: the context is lost.
  bool StopAll();
  // What it has made in the context.
  void FreeAll();
  std::vector<std::shared_ptr<EventKernel>> TakeOutAll(
      const std::function<bool(const ResidentEvent&)>& match);
  void Watch();
  // Events. Not exactly: as the GPU has reported.
  uint64_t Ended(bool exactly) const;
  // Ends what still serves and begins anew; gives up when that was for nothing
  // kMaxLosses times: no event has ended in between, but by recovery.
  void BeginAgain(const std::string& why);
  // Evicts a device that rings where the GPU does not look.
  void LookWhetherSeen(ResidentEvent& resident, Nanoseconds now);
  // What a path that has given up does for its event kernels. True: there was
  // something to do.
  bool FailRung(ResidentEvent& resident);

  // What of all has been there for longest, and since before `since`; nullptr:
  // nothing. Lock held.
  ResidentEvent* FindOverdue(Nanoseconds since, TakenEvent& taken);

  void Pause() override;
  void Unpause() override;

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  absl::Status Resume() override;
  std::optional<Nanoseconds> OldestTaken(Nanoseconds since) override;
  bool MarkOverdue(Nanoseconds since) override;
  void EndOverdue(bool marked) override;

  Gpu* const gpu_;
  const std::string thread_name_;
  ResidentHost host_;
  // Those of the host. Lock held.
  std::vector<ResidentEventPtr>& residents_ = host_.residents_;
  const std::unique_ptr<ResidentEngine> engine_;

  std::mutex mutex_;
  // Open() was through with it, so that recovery does it again.
  bool prepared_ = false;
  bool running_ = false;
  bool paused_ = false;
  bool stopped_ = false;
  absl::Status given_up_;  // why; OK: it has not
  uint32_t losses_in_a_row_ = 0;
  uint64_t ended_at_loss_ = 0;
  // Writer: the watching thread; readers: any thread. Relaxed: figures.
  std::atomic<uint64_t> looks_{0};
  std::atomic<uint64_t> sleeps_{0};
  std::condition_variable watch_;
  std::thread watcher_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_
