// What the launch paths `stream_wait` and `persistent` have in common: every
// event kernel has work of its own on the GPU, in a stream of its own, that
// waits for its doorbell and ends its events, in the order of the rings. The
// watching thread keeps the ledger: it follows the completions in each ring, and
// what the GPU may have counted.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RING_PATH_H_
#define CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RING_PATH_H_

#include <array>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/driver/owned.h"
#include "gpu_daemon/backends/cuda/paths/resident_path.h"

namespace carillon::gpud::cuda {

class RingPath : public ResidentPath {
 protected:
  // CUDA_DEVICE_MAX_CONNECTIONS gives 32 hardware queues, and a stream that
  // waits must not share one: the rest is for the back-end's other streams.
  static constexpr uint32_t kMaxRings = 28;

  // Its index is below kMaxRings. Of each slot's frames stage_entry.h takes the
  // first.
  struct Ring : ResidentEvent {
    Stream stream;
    // Events that have ended: all up to this sequence. Those that the watching
    // thread has counted are in the totals.
    uint64_t ended = 0;

    uint32_t RingOf(uint64_t sequence) const {
      return event->cursor().first_ring() + static_cast<uint32_t>(sequence);
    }
  };

  using ResidentPath::ResidentPath;

  // --- A subclass's part; under a use of the Gpu's and the lock, but for
  // Ended().

  virtual std::unique_ptr<Ring> NewRing() = 0;
  // What one needs besides the base's; nothing of it runs yet.
  virtual absl::Status PlaceRing(Ring& ring) = 0;
  // Serves the ring from event ended + 1 on.
  virtual absl::Status Begin(Ring& ring) = 0;
  // Every now and then while it is served, `ended` being up to date.
  virtual void Tend(Ring&) {}
  // What the GPU has counted; `launched` does not matter. Where the GPU does not
  // wait for the host to arm it, it may be a lap ahead of the completions.
  virtual simt::EventTotals Reported(const Ring&) { return {}; }
  // Its stream shall become idle, at an event's end. KeepAsking: again and
  // again until it is.
  virtual void AskToEnd(Ring& ring) = 0;
  virtual void KeepAsking(Ring&) {}
  // Its stream is idle, or the context is gone.
  virtual void Ended(Ring&) {}
  virtual void AbandonRing(Ring& ring) = 0;

 private:
  absl::StatusOr<ResidentEventPtr> NewResidentEvent(
      const EventKernel& event) override;
  absl::Status PlaceOwn(ResidentEvent& resident) override;
  absl::Status BeginAll() override;
  bool EndAll() override;
  bool LookAt(ResidentEvent& resident, Nanoseconds now) override;
  uint64_t OldestWaiting(ResidentEvent& resident) override;
  simt::EventTotals& Shown(uint32_t index) override { return shown_[index]; }
  void AbandonOwn(ResidentEvent& resident) override;
  void CountEnded(ResidentEvent& resident) override;
  void ContinueAfter(ResidentEvent& resident, uint64_t rung) override;

  void Collect(Ring& ring);

  // What event kernels follow, by index. Writer: whoever holds the lock;
  // readers: any thread, relaxed.
  std::array<simt::EventTotals, kMaxRings> shown_{};
};

}  // namespace carillon::gpud::cuda

#endif  // CARILLON_GPU_DAEMON_BACKENDS_CUDA_PATHS_RING_PATH_H_
