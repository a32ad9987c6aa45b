// What keeps work on the GPU for the event kernels of a launch path: `edge`,
// `stream_wait`, `persistent` and `pagoda_ring` have an engine each. That work waits for
// doorbells and ends events by itself. ResidentPath drives the engine, and is
// the same for all.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_ENGINE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_ENGINE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/event/launch_path.h"

namespace carillon::gpud::cuda {

struct ResidentOptions {
  bool tracing = false;
  OnViolation on_violation;
  // What may pass before events that the GPU has taken end.
  std::chrono::milliseconds longest_kernel{10'000};
};

// One event kernel, and what it has on the GPU. Engines add to it.
struct ResidentEvent {
  virtual ~ResidentEvent() = default;

  std::shared_ptr<EventKernel> event;
  uint32_t index = 0;     // nobody else's
  DeviceBytes frames;     // two a slot
  DeviceBytes scratch;    // two a slot
  DeviceBytes arguments;  // ArgumentSteps
  // What the GPU has counted. Exact while the path stands still.
  simt::EventTotals totals{};
  // The engine's own, which the event kernel follows: it outlives this.
  simt::EventTotals* shown = nullptr;

  // The watching thread's.
  // The oldest event that has not ended, since when it has been that (0: not
  // looked yet), and how many had ended then.
  uint64_t oldest = 0;
  Nanoseconds stands_still_since = 0;
  uint64_t ended_before = 0;
  bool is_overdue = false;
  uint64_t overdue = 0;  // sequence; 0: one of several, or none
  bool violation_seen = false;
};
using ResidentEventPtr = std::unique_ptr<ResidentEvent>;

// What an engine has of its path. Under the path's lock, but for what says
// otherwise.
class ResidentHost {
 public:
  ResidentHost(Gpu* gpu, std::string name, ResidentOptions options);

  // --- Without the lock, too.
  Gpu& gpu() const { return *gpu_; }
  const std::string& name() const { return name_; }
  Nanoseconds longest_kernel_ns() const {
    return static_cast<Nanoseconds>(
        std::chrono::nanoseconds(options_.longest_kernel).count());
  }
  // Times that the engine has begun anew. Writer: the path; relaxed: a figure.
  uint64_t restarts() const {
    return restarts_.load(std::memory_order_relaxed);
  }
  std::string notice() const;
  void SetNotice(std::string notice);

  const std::vector<ResidentEventPtr>& residents() const { return residents_; }
  EdgeTracing tracing() const {
    if (tracing_) return EdgeTracing::kOn;
    return traced_ever_ ? EdgeTracing::kClear : EdgeTracing::kOff;
  }

  // --- Under a use of the Gpu's, too.
  absl::Status MakeBytes(uint64_t size, DeviceBytes& bytes) const;
  // Looks at the context and the clock meanwhile. False: the context is lost,
  // perhaps because the wait was too long.
  bool Await(const std::function<bool()>& reached) const;
  bool IsIdle(CUstream stream) const;

  void NoteViolation(ResidentEvent& resident, std::string reason) const;

 private:
  friend class ResidentPath;

  Gpu* const gpu_;
  const std::string name_;
  const ResidentOptions options_;
  std::vector<ResidentEventPtr> residents_;
  bool tracing_;
  bool traced_ever_;
  // Writer: the engine's thread; readers: whoever shows it. Relaxed: a figure.
  std::atomic<uint64_t> restarts_{0};
  mutable std::mutex notice_mutex_;
  std::string notice_;
};

// An entry of the edge's table for it, without what only edge has.
EdgeEntry EntryOf(const ResidentEvent& resident);
// For LookAt(): of the events up to `rung`, `ended` have, in whatever order. One
// that does not stands still however many of the others end.
void NoteProgress(ResidentEvent& resident, uint64_t ended, uint64_t rung,
                  Nanoseconds now);
// The sentence for a device whose doorbell is another word for the GPU.
std::string UnseenViolation(const ResidentEvent& resident);

// What the GPU has taken of a ring and not ended.
struct TakenEvent {
  uint64_t sequence = 0;  // 0: one of several, nobody knows which
  Nanoseconds since = 0;  // when it, or the ring, stands still
};

// Calls come under a use of the Gpu's and the path's lock; the last ones, as they
// say, with less.
class ResidentEngine {
 public:
  static constexpr Nanoseconds kAnyTime = ~Nanoseconds{0};

  virtual ~ResidentEngine() = default;

  // --- In a new context; nothing is served yet.

  // What all event kernels share.
  virtual absl::Status Prepare() = 0;
  // With its index, `shown`, and nothing else. Errors: ResourceExhausted.
  virtual absl::StatusOr<ResidentEventPtr> NewEvent(
      const EventKernel& event) = 0;
  // What an event kernel needs besides frames, scratch and arguments.
  virtual absl::Status Place(ResidentEvent& resident) = 0;
  virtual void FreeShared() = 0;

  // --- Serving.

  // Serves all event kernels.
  virtual absl::Status BeginAll() = 0;
  // Ends that, at an event's end; totals are exact then. Also after a BeginAll()
  // that failed half-way. False: the context is lost.
  virtual bool EndAll() = 0;
  // Every now and then. Not empty: why what serves is there no more, or not all
  // of it. Then all of it is to end, and begin anew.
  virtual std::string WhyLost() { return {}; }
  // Every now and then. True: look again soon.
  virtual bool LookAt(ResidentEvent& resident, Nanoseconds now) = 0;
  // After it has stood still for the longest time: whether that is because the
  // GPU does not see that it has rung.
  virtual bool IsUnseen(ResidentEvent& resident) = 0;

  // --- Under the lock alone.

  // What of it the GPU has taken and has been running since before `since`; or at
  // all (kAnyTime).
  virtual std::optional<TakenEvent> Overdue(ResidentEvent& resident,
                                            Nanoseconds since) = 0;
  // The host's tracing() or the Gpu's clock may be another now: for the GPU to
  // see.
  virtual void ShowTracing() = 0;
  // The context is lost: forgets what is there.
  virtual void AbandonShared() = 0;
  virtual void Abandon(ResidentEvent& resident) = 0;
  // Then: brings totals.failed and totals.refused up to date.
  virtual void CountEnded(ResidentEvent& resident) = 0;
  // All events up to `rung` have been dealt with.
  virtual void ContinueAfter(ResidentEvent& resident, uint64_t rung) = 0;

  // --- Under neither.

  // Of any event kernel, whatever the GPU. Errors: InvalidArgument.
  virtual absl::Status CheckKernel(const EventKernel&) const {
    return absl::OkStatus();
  }
  // Whether an entry may bring dimensions of its own.
  virtual bool TakesModifyable() const { return false; }
  // Its own; empty: those of the watching thread.
  virtual std::vector<PathCounter> counters() const { return {}; }
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RESIDENT_ENGINE_H_
