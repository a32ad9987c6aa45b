// What the engines of `stream_wait` and `persistent` have in common: every event
// kernel has work of its own on the GPU, in a stream of its own, that waits for
// its doorbell and ends its events, in the order of the rings. The watching
// thread keeps the ledger: it follows the completions in each ring, and what the
// GPU may have counted.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SERVED_RINGS_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SERVED_RINGS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"
#include "gpu_daemon/backends/cuda/paths/resident_engine.h"

namespace carillon::gpud::cuda {

// Its index is below ServedRings::kMaxRings. Of each slot's frames stage_entry.h takes
// the first.
struct ServedRing : ResidentEvent {
  Stream stream;
  // Events that have ended: all up to this sequence. Those that the watching
  // thread has counted are in the totals.
  uint64_t ended = 0;
  // What the GPU counts itself, if it does; `launched` does not matter. Where the
  // GPU does not wait for the host to arm it, it may be a lap ahead of the
  // completions.
  const simt::EventTotals* reported = nullptr;
  // The last sequence that the GPU says it has taken, before it runs it; and
  // beyond which it runs nothing.
  const uint64_t* taken = nullptr;
  static constexpr uint64_t kAny = ~uint64_t{0};
  uint64_t most_taken = kAny;

  // Not before what has ended: it is set back only where serving begins.
  uint64_t Taken() const {
    return std::max(ended, std::min(LoadWord(*taken), most_taken));
  }

  uint32_t RingOf(uint64_t sequence) const {
    return event->cursor().first_ring() + static_cast<uint32_t>(sequence);
  }
};

// Those of one engine; all are called as the engine's functions of the same name.
class ServedRings {
 public:
  // Each has a stream, of which gpud has Context::kMaxStreams: two are the Gpu's
  // own, three the dispatchers', eight those of background kernels.
  static constexpr uint32_t kMaxRings = 18;

  explicit ServedRings(ResidentHost* host) : host_(*host) {}

  // Gives a new one its place. Errors: ResourceExhausted.
  absl::Status Enter(const EventKernel& event, ServedRing& ring);
  absl::Status Place(ServedRing& ring);
  // Waits until all streams are idle, which each shall become at an event's end;
  // `ask` is called again and again until it is. `ended`: its stream is idle.
  bool AwaitIdle(const std::function<void(ServedRing&)>& ask,
                 const std::function<void(ServedRing&)>& ended);
  // Brings `ended` and the totals up to date; `tend` is called then, unless its
  // device breaks the protocol.
  bool LookAt(ServedRing& ring, Nanoseconds now,
              const std::function<void(ServedRing&)>& tend);
  // The event that waits and has stood still for so long, if there is one: where
  // the GPU has seen it ring, it runs, for there is one event at a time.
  std::optional<TakenEvent> Overdue(ServedRing& ring, Nanoseconds since);
  // Follows the completions, which come in the order of the rings.
  void CountEnded(ServedRing& ring);

 private:
  ResidentHost& host_;
  // What event kernels follow, by index. Writer: whoever holds the lock;
  // readers: any thread, relaxed.
  std::array<simt::EventTotals, kMaxRings> shown_{};
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_SERVED_RINGS_H_
