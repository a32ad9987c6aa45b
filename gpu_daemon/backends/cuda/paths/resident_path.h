// What the launch paths have in common that keep work on the GPU for their event
// kernels: `edge`, `stream_wait`, `persistent`. That work waits for doorbells
// and ends events by itself; a thread of the CPU looks after it.
//
//   registering, unregistering   the path stands still: all of its work on the
//                                GPU ends at an event's end; change; start again
//   a device that sleeps         is woken by the watching thread: a GPU cannot
//   a doorbell out of bounds     the watching thread says so; the host evicts
//   a lost context               what was rung and has no completion runs again
//                                (Gpu::Recover), then the path starts anew
//   a path that has lost its     the watching thread begins anew; after some
//   kernels, but no context      times for nothing it gives up: from then on
//                                events end as not launched
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_

#include <atomic>
#include <chrono>
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
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/event/launch_path.h"

namespace carillon::gpud::cuda {

class ResidentPath : public LaunchPath,
                     private Gpu::ContextUser,
                     private Gpu::PersistentWork {
 public:
  struct Options {
    bool tracing = false;
    OnViolation on_violation;
    // What may pass before events that the GPU has taken end.
    std::chrono::milliseconds longest_kernel{10'000};
  };

  // Errors: InvalidArgument (kernels that the path cannot run),
  // ResourceExhausted (no room for another one, memory), Unavailable (the path
  // has given up).
  absl::Status Add(std::shared_ptr<EventKernel> event) override;
  // As is promised, and more: what was launched has ended.
  void Remove(const std::shared_ptr<EventKernel>& event) override;
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override;
  // Unimplemented: only doorbells launch.
  absl::Status Wake() override;
  void SetTracing(bool on) override;
  // Those of the watching thread.
  std::vector<PathCounter> counters() const override;
  std::string notice() const override;
  void Stop() override;

 protected:
  // One event kernel, and what it has on the GPU. Subclasses add to it.
  struct ResidentEvent {
    virtual ~ResidentEvent() = default;

    std::shared_ptr<EventKernel> event;
    uint32_t index = 0;     // nobody else's
    DeviceBytes frames;     // two a slot
    DeviceBytes scratch;    // two a slot
    DeviceBytes arguments;  // ArgumentSteps
    // What the GPU has counted. Exact while the path stands still.
    simt::EventTotals totals{};

    // The watching thread's.
    uint64_t ended_before = 0;
    Nanoseconds stands_still_since = 0;
    uint64_t overdue = 0;  // sequence; 0: none
    bool violation_seen = false;
  };
  using ResidentEventPtr = std::unique_ptr<ResidentEvent>;

  ResidentPath(Gpu* gpu, std::string name, std::string thread_name,
               Options options);
  ~ResidentPath() override;
  // To be called by a subclass: at the end of its making, and before it is not
  // one any more.
  absl::Status Open();
  void Close();

  // --- A subclass's part; under a use of the Gpu's and the lock, but for what
  // says otherwise.

  // Of any event kernel, whatever the GPU, without use and lock. Errors:
  // InvalidArgument.
  virtual absl::Status CheckKernel(const EventKernel& event) const = 0;
  // With its index and nothing else. Errors: ResourceExhausted.
  virtual absl::StatusOr<ResidentEventPtr> NewResidentEvent(
      const EventKernel& event) = 0;
  // What all event kernels share, in a new context.
  virtual absl::Status Prepare() = 0;
  // Once, after the first Prepare(): whether this GPU can do it at all.
  virtual absl::Status TryOut() { return absl::OkStatus(); }
  // What an event kernel needs besides the base's; nothing of it runs yet.
  virtual absl::Status PlaceOwn(ResidentEvent& resident) = 0;
  // Serves all event kernels.
  virtual absl::Status BeginAll() = 0;
  // Ends that, at an event's end; totals are exact then. Also after a BeginAll()
  // that failed half-way. False: the context is lost.
  virtual bool EndAll() = 0;
  // tracing() or the Gpu's clock may be another now: for the GPU to see. Only
  // under the lock.
  virtual void ShowTracing() = 0;
  // Every now and then while they are served.
  virtual void LookAtShared() {}
  // True: look again soon.
  virtual bool LookAt(ResidentEvent& resident, Nanoseconds now) = 0;
  // The first event that has rung and not ended though nothing has ended since
  // ended_before; 0: none. Only under the lock.
  virtual uint64_t OldestWaiting(ResidentEvent& resident) = 0;
  // What the event kernel of that index follows. It outlives the residents.
  virtual simt::EventTotals& Shown(uint32_t index) = 0;
  virtual void FreeShared() = 0;

  // The context is lost; only under the lock. Forget what is there:
  virtual void AbandonShared() = 0;
  virtual void AbandonOwn(ResidentEvent& resident) = 0;
  // Brings totals.failed and totals.refused up to date.
  virtual void CountEnded(ResidentEvent& resident) = 0;
  // All events up to `rung` have been dealt with.
  virtual void ContinueAfter(ResidentEvent& resident, uint64_t rung) = 0;
  // Nothing else stops the path's kernels: what they can do for it themselves.
  virtual void Trap() {}

  // --- For it.

  Gpu& gpu() const { return *gpu_; }
  // Lock held.
  EdgeTracing tracing() const {
    if (tracing_) return EdgeTracing::kOn;
    return traced_ever_ ? EdgeTracing::kClear : EdgeTracing::kOff;
  }
  const std::string& name() const { return name_; }
  const std::vector<ResidentEventPtr>& residents() const { return residents_; }
  std::unique_lock<std::mutex> Lock() const { return std::unique_lock(mutex_); }
  absl::Status MakeBytes(uint64_t size, DeviceBytes& bytes) const;
  // An entry of the edge's table for it, without what only edge has.
  EdgeEntry EntryOf(const ResidentEvent& resident) const;
  // Looks at the context and the clock meanwhile. False: the context is lost,
  // perhaps because the wait was too long.
  bool Await(const std::function<bool()>& reached);
  bool IsIdle(CUstream stream);
  // For LookAt(): `ended` events have, and others wait for that or do not.
  static void NoteProgress(ResidentEvent& resident, uint64_t ended, bool waits,
                           Nanoseconds now);
  void NoteViolation(ResidentEvent& resident);
  // For LookAtShared(): what serves is there no more, or not all of it. Ends the
  // rest and begins anew; gives up when that was for nothing kMaxLosses times:
  // no event has ended in between.
  void BeginAgain(const std::string& why);
  uint64_t restarts() const {
    return restarts_.load(std::memory_order_relaxed);
  }
  void SetNotice(std::string notice);

 private:
  // Runs `change` in a quiet of the Gpu's, under a use and the lock. Again, if
  // the context was lost on the way.
  absl::Status Change(const std::function<absl::Status()>& change);
  absl::Status Place(ResidentEvent& resident);
  absl::Status StartAll();
  // False: the context is lost.
  bool StopAll();
  std::vector<std::shared_ptr<EventKernel>> TakeOutAll(
      const std::function<bool(const ResidentEvent&)>& match);
  void Watch();
  // What a path that has given up does for its event kernels. True: there was
  // something to do.
  bool FailRung(ResidentEvent& resident);

  void Pause() override;
  void Unpause() override;

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  absl::Status Resume() override;
  bool MarkOverdue(Nanoseconds since) override;

  Gpu* const gpu_;
  const std::string name_;
  const std::string thread_name_;
  const Options options_;

  mutable std::mutex mutex_;
  std::vector<ResidentEventPtr> residents_;
  bool running_ = false;
  bool paused_ = false;
  bool stopped_ = false;
  bool tracing_;
  bool traced_ever_;
  absl::Status given_up_;  // why; OK: it has not
  uint32_t losses_in_a_row_ = 0;
  uint64_t ended_at_loss_ = 0;
  // Writer: the watching thread; readers: any thread. Relaxed: figures.
  std::atomic<uint64_t> looks_{0};
  std::atomic<uint64_t> sleeps_{0};
  std::atomic<uint64_t> restarts_{0};
  std::condition_variable watch_;
  std::thread watcher_;

  mutable std::mutex notice_mutex_;
  std::string notice_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_PATH_H_
