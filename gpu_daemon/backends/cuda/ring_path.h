// What the launch paths `stream_wait` and `persistent` have in common: every
// event kernel has work of its own on the GPU, in a stream of its own, that
// waits for its doorbell and ends its events, in the order of the rings. A
// thread of the CPU looks after them, and keeps the ledger: it follows the
// completions in each ring, and what the GPU may have counted.
//
//   registering, unregistering   the path stands still: all work on the GPU ends
//                                at an event's end; change; start again
//   a device that sleeps         is woken by the watching thread: a GPU cannot
//   a doorbell out of bounds     the watching thread says so; the host evicts
//   a lost context               what was rung and has no completion runs again
//                                (Gpu::Recover), then the rings are served anew
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_RING_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_RING_PATH_H_

#include <array>
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

#include "gpu_daemon/backends/cuda/edge_table.h"
#include "gpu_daemon/backends/cuda/gpu.h"
#include "gpu_daemon/backends/cuda/owned.h"
#include "gpu_daemon/launch/launch_path.h"

namespace carillon::gpud::cuda {

class RingPath : public LaunchPath,
                 protected Gpu::Tenant,
                 private Gpu::Resident {
 public:
  struct Options {
    OnViolation on_violation;
    // What may pass before an event that the GPU has taken ends.
    std::chrono::milliseconds longest_kernel{10'000};
  };

  // Errors: InvalidArgument (kernels that the path cannot run),
  // ResourceExhausted (kMostRings, memory).
  absl::Status Add(std::shared_ptr<EventKernel> event) override;
  // As is promised, and more: what was launched has ended.
  void Remove(const std::shared_ptr<EventKernel>& event) override;
  std::vector<std::shared_ptr<EventKernel>> RemoveDevice(
      const DeviceMemory* memory) override;
  // Unimplemented: only doorbells launch.
  absl::Status Wake() override;
  // Lives are not traced.
  void SetTracing(bool) override {}
  std::vector<PathCounter> counters() const override;
  void Stop() override;

 protected:
  // CUDA_DEVICE_MAX_CONNECTIONS gives 32 hardware queues, and a stream that
  // waits must not share one: the rest is for the back-end's other streams.
  static constexpr uint32_t kMostRings = 28;

  // One event kernel, and what it has on the GPU. Subclasses add to it.
  struct Resident {
    virtual ~Resident() = default;

    std::shared_ptr<EventKernel> event;
    uint32_t index = 0;  // below kMostRings, nobody else's
    Stream stream;
    DeviceBytes frames;     // two a slot: stage_entry.h takes the first
    DeviceBytes scratch;    // two a slot
    DeviceBytes arguments;  // ArgumentSteps

    // Events that have ended: all up to this sequence.
    uint64_t ended = 0;
    // Those that the watching thread has counted.
    EventTotals totals{};
    uint64_t ended_before = 0;
    shm::Nanoseconds stands_still_since = 0;
    uint64_t overdue = 0;  // sequence; 0: none
    bool violation_seen = false;

    uint32_t RingOf(uint64_t sequence) const {
      return event->first_ring() + static_cast<uint32_t>(sequence);
    }
  };

  RingPath(Gpu* gpu, std::string name, std::string thread_name,
           Options options);
  ~RingPath() override;
  // To be called by a subclass: at the end of its making, and before it is not
  // one any more.
  absl::Status Open();
  void Close();

  // --- A subclass's part; under a use of the Gpu's and the lock, but for
  // Abandoned() and Lost().

  // Of any event kernel, whatever the GPU. Errors: InvalidArgument.
  virtual absl::Status CheckKernel(const EventKernel& event) const = 0;
  virtual std::unique_ptr<Resident> NewResident() = 0;
  // What all event kernels share, in a new context.
  virtual absl::Status Prepare() = 0;
  // What one needs besides the base's; nothing of it runs yet.
  virtual absl::Status PlaceOwn(Resident& resident) = 0;
  // Serves the ring from event ended + 1 on.
  virtual absl::Status Begin(Resident& resident) = 0;
  // Every now and then while it is served, `ended` being up to date.
  virtual void Tend(Resident&) {}
  // What the GPU has counted; `launched` does not matter. Where the GPU does not
  // wait for the host to arm it, it may be a lap ahead of the completions.
  virtual EventTotals Reported(const Resident&) { return {}; }
  // Its stream shall become idle, at an event's end. KeepAsking: again and
  // again until it is.
  virtual void AskToEnd(Resident& resident) = 0;
  virtual void KeepAsking(Resident&) {}
  // Its stream is idle, or the context is gone.
  virtual void Ended(Resident&) {}
  virtual void FreeShared() = 0;
  // The context is lost: forget what is there.
  virtual void AbandonShared() = 0;
  virtual void AbandonOwn(Resident& resident) = 0;

  // An entry of the edge's table for it, without what only edge has.
  EdgeEntry EntryOf(const Resident& resident) const;
  Gpu& gpu() const { return *gpu_; }

 private:
  using ResidentPtr = std::unique_ptr<Resident>;

  // Runs `change` in a quiet of the Gpu's, under a use and the lock. Again, if
  // the context was lost on the way.
  absl::Status Change(const std::function<absl::Status()>& change);
  absl::Status StartAll();
  // False: the context is lost.
  bool StopAll();
  bool AwaitIdle(Resident& resident);
  absl::Status Place(Resident& resident);
  std::vector<std::shared_ptr<EventKernel>> TakeOutAll(
      const std::function<bool(const Resident&)>& match);

  void Watch();
  // True: its device sleeps, or its ring has events in flight.
  bool LookAt(Resident& resident, shm::Nanoseconds now);
  void Collect(Resident& resident);
  void Show(Resident& resident);

  void Pause() override;
  void Unpause() override;

  void Abandon() override;
  void TakeUnfinished(LostWork& lost) override;
  absl::Status Settle() override;
  absl::Status Resume() override;
  bool MarkOverdue(shm::Nanoseconds since) override;

  Gpu* const gpu_;
  const std::string name_;
  const std::string thread_name_;
  const Options options_;

  mutable std::mutex mutex_;
  std::vector<ResidentPtr> residents_;
  // What event kernels follow, by index: it outlives them. Writer: whoever
  // holds the lock; readers: any thread, relaxed.
  std::array<EventTotals, kMostRings> shown_{};
  bool running_ = false;
  bool paused_ = false;
  bool stopped_ = false;
  // Writer: the watching thread; readers: any thread. Relaxed: figures.
  std::atomic<uint64_t> looks_{0};
  std::atomic<uint64_t> sleeps_{0};
  std::condition_variable watch_;
  std::thread watcher_;
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_RING_PATH_H_
