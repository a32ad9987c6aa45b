// What a GPU that launches an event kernel without gpud has taken and ended, by its own totals and
// by the ring.
#ifndef CARILLON_GPU_DAEMON_EVENT_GPU_LEDGER_H_
#define CARILLON_GPU_DAEMON_EVENT_GPU_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "gpu_daemon/event/completion_ledger.h"
#include "gpu_daemon/event/doorbell_cursor.h"
#include "kernels/simt/event_frame.h"
#include "shm/gpu_ring.h"

namespace carillon::gpud {

// Thread safe, but for Follow() and StopFollowing(), which the launch path calls
// before and after the GPU polls.
class GpuLedger {
 public:
  // Events up to `ended_before` were an earlier gpud's. Both outlive this
  // object.
  GpuLedger(const shm::GpuRing* ring, const DoorbellCursor* cursor,
            uint64_t ended_before)
      : ring_(ring), cursor_(cursor), ended_before_(ended_before) {}

  // Figures come from `totals`, which the GPU updates word by word, until
  // StopFollowing(). They begin with FirstTotals().
  void Follow(const simt::EventTotals* totals) {
    totals_.store(totals, std::memory_order_release);
  }
  void StopFollowing() { totals_.store(nullptr, std::memory_order_release); }
  bool following() const {
    return totals_.load(std::memory_order_relaxed) != nullptr;
  }
  // An earlier gpud's events count as done here, and in no figure of ours.
  simt::EventTotals FirstTotals() const {
    simt::EventTotals totals{};
    totals.launched = ended_before_;
    totals.done = ended_before_;
    return totals;
  }

  // While a GPU is followed; else nothing. The last event that it has taken,
  // refused ones among them:
  std::optional<uint64_t> launched() const {
    const simt::EventTotals* totals = totals_.load(std::memory_order_acquire);
    if (totals == nullptr) return std::nullopt;
    return TakenBy(*totals);
  }
  std::optional<EventCounts> counts() const;

  // The last event that has ended, by the completions, which a GPU may store in
  // any order within a ring.
  uint64_t LastEnded() const;
  // The last event up to which all have ended.
  uint64_t EndedInOrder() const;
  // The last event rung that a GPU may have taken: as the doorbell says it,
  // unless that is not within the ring after the last that has ended.
  uint64_t LastRung() const;
  // Events rung so far, by the doorbell alone; `taken` of them were launched.
  uint64_t RungOf(uint64_t taken) const;

 private:
  static uint64_t TakenBy(const simt::EventTotals& totals);

  const shm::GpuRing* const ring_;
  const DoorbellCursor* const cursor_;
  const uint64_t ended_before_;
  // Writer: the launch path; readers: any thread. Release, acquire: what it
  // leads to.
  std::atomic<const simt::EventTotals*> totals_{nullptr};
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_GPU_LEDGER_H_
