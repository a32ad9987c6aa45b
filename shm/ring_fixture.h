// A device's apertures with rings in them, without gpud: both ends for tests
// and benchmarks, in one process or in two.
#ifndef CARILLON_SHM_RING_FIXTURE_H_
#define CARILLON_SHM_RING_FIXTURE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "shm/aperture.h"
#include "shm/bells.h"
#include "shm/clock.h"
#include "shm/device_ring.h"
#include "shm/gpu_ring.h"
#include "shm/ring_layout.h"

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

// gpud's sleep for one device's doorbells: the sleeper's side of waiting.h, as
// gpud's front-end does it for all of its devices. One thread.
class DoorbellWaiter {
 public:
  // `closed` is gpud's own word for "stop or look elsewhere".
  DoorbellWaiter(const RingFixture& rings, const ClosedWord* closed)
      : armed_(&rings.gpud_completion().completion_control().gpud_armed),
        summary_(&rings.gpud_submission().submission_control().summary),
        closed_(closed) {}

  // As CompletionWaiter::WaitUntil.
  template <class Ready>
  bool WaitUntil(Ready ready, std::chrono::nanoseconds timeout,
                 std::chrono::nanoseconds spin) {
    const Nanoseconds start = NowNs();
    if (ready()) return true;
    for (uint32_t turn = 1; spin.count() > 0; ++turn) {
      CpuRelax();
      if (ready()) return true;
      if (turn % 64 == 0 &&
          (closed_->closed() || NowNs() - start >= Nanoseconds(spin.count()))) {
        break;
      }
    }
    std::atomic_ref<uint32_t> armed(*armed_);
    armed.store(1, std::memory_order_seq_cst);
    bool found = false;
    while (true) {
      const FutexWord word{summary_, std::atomic_ref<uint32_t>(*summary_).load(
                                         std::memory_order_seq_cst)};
      const bool ended = closed_->closed();
      found = ready();
      const Nanoseconds spent = NowNs() - start;
      if (found || ended || spent >= Nanoseconds(timeout.count())) break;
      const FutexWord words[] = {word, closed_->AsFutex()};
      FutexWait(words, timeout - std::chrono::nanoseconds(spent));
    }
    armed.store(0, std::memory_order_relaxed);
    return found;
  }

 private:
  uint32_t* const armed_;
  uint32_t* const summary_;
  const ClosedWord* const closed_;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_RING_FIXTURE_H_
