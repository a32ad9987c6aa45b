// A device's apertures with rings in them, without gpud: both ends for tests
// and benchmarks, in one process or in two.
#ifndef CARILLON_SHM_TESTING_RING_FIXTURE_H_
#define CARILLON_SHM_TESTING_RING_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "shm/aperture.h"
#include "shm/device_ring.h"
#include "shm/gpu_ring.h"
#include "shm/ring_layout.h"
#include "shm/wakeups.h"

namespace carillon::shm {

// Immutable but for the memory that it maps; thread safe.
class RingFixture {
 public:
  struct Options {
    uint32_t entries = 64;
    uint32_t parameter_bytes = 96;
    uint32_t rings = 1;
    bool modifyable = false;
    Generation generation{1};
    uint32_t output_bytes_per_slot = 64;
    // What the doorbells show at first: not 0 where an earlier ring used them.
    uint32_t first_doorbell = 0;
    // Both ends use gpud's mappings: TSan sees races only at equal addresses.
    // Otherwise the device has its own, the completion side read-only.
    bool one_mapping = false;
  };

  // Errors: those of Aperture::Create and CheckRingLayout.
  static absl::StatusOr<std::unique_ptr<RingFixture>> Make(
      const Options& options);

  const Aperture& gpud_submission() const { return gpud_submission_; }
  const Aperture& gpud_completion() const { return gpud_completion_; }
  const Aperture& device_submission() const {
    return options_.one_mapping ? gpud_submission_ : device_submission_;
  }
  const Aperture& device_completion() const {
    return options_.one_mapping ? gpud_completion_ : device_completion_;
  }
  const CompletionEvent& event() const { return event_; }
  const RingLayout& layout(uint32_t ring) const { return layouts_[ring]; }

  DeviceRing device_ring(uint32_t ring) const {
    return DeviceRing(layouts_[ring], &device_submission(),
                      &device_completion());
  }
  GpuRing gpu_ring(uint32_t ring) const {
    return GpuRing(layouts_[ring], &gpud_submission_, &gpud_completion_);
  }
  CompletionBell bell() const {
    return CompletionBell(&gpud_submission_, &gpud_completion_,
                          event_.writer.get());
  }
  CompletionWaiter waiter(const ClosedWord* closed) const {
    return CompletionWaiter(&device_submission(), &device_completion(), closed);
  }
  DoorbellWaiter doorbell_waiter() const {
    DoorbellWaiter waiter;
    waiter.Watch(gpud_submission_, gpud_completion_);
    return waiter;
  }
  // The output buffer of a slot, as each side sees it.
  std::byte* gpud_output(uint32_t ring, uint32_t slot) const {
    return gpud_completion_.At(OutputOffset(ring, slot));
  }
  const std::byte* device_output(uint32_t ring, uint32_t slot) const {
    return device_completion().At(OutputOffset(ring, slot));
  }

 private:
  explicit RingFixture(const Options& options) : options_(options) {}
  uint64_t OutputOffset(uint32_t ring, uint32_t slot) const {
    return outputs_[ring] + uint64_t{slot} * options_.output_bytes_per_slot;
  }

  const Options options_;
  Aperture gpud_submission_;
  Aperture gpud_completion_;
  Aperture device_submission_;
  Aperture device_completion_;
  CompletionEvent event_;
  std::vector<RingLayout> layouts_;
  std::vector<uint64_t> outputs_;
};

// Waits as gpud does, for the doorbells of one device. Returns true as soon as
// rung() is true; false when `closed`, or when `timeout` has passed, first:
// then a wake-up was lost, even if rung() is true by now.
template <class Rung>
bool WaitForDoorbell(DoorbellWaiter& waiter, const ClosedWord& closed,
                     Rung rung, std::chrono::nanoseconds timeout,
                     std::chrono::nanoseconds spin) {
  const Nanoseconds start = NowNs();
  while (true) {
    const std::chrono::nanoseconds spent(NowNs() - start);
    if (spent >= timeout) return false;
    // The end is looked at first: what was rung before it still counts.
    const bool ended = closed.closed();
    if (rung()) return true;
    if (ended) return false;
    if (spent < spin) {
      CpuRelax();
    } else {
      waiter.SleepUnless(rung, closed.AsFutex(), timeout - spent);
    }
  }
}

}  // namespace carillon::shm

#endif  // CARILLON_SHM_TESTING_RING_FIXTURE_H_
