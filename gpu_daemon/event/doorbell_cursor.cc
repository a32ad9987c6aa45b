#include "gpu_daemon/event/doorbell_cursor.h"

#include <algorithm>

namespace carillon::gpud {

using shm::Sequence;

DoorbellCursor::DoorbellCursor(const shm::GpuRing* ring,
                               const ScheduleMark* scheduled,
                               CompletionLedger* ledger, uint64_t ended_before)
    : ring_(ring),
      scheduled_(scheduled),
      ledger_(ledger),
      first_ring_(ring->LoadDoorbell() - static_cast<uint32_t>(ended_before)),
      launched_(ended_before),
      completed_(ended_before) {}

uint32_t DoorbellCursor::RingsBeyond(uint64_t launched) const {
  // Either may lag behind the other, which has launched what it has not said:
  // the doorbell by no more than the ring holds.
  const uint64_t through = scheduled_->last();
  // At most the ring's entries: see EventKernel::ScheduleThrough().
  const auto scheduled =
      static_cast<uint32_t>(through > launched ? through - launched : 0);
  const uint32_t rung = DoorbellBeyond(launched);
  const bool doorbell_lags = 0 - rung <= ring_->layout().entries;
  return std::max(doorbell_lags ? 0 : rung, scheduled);
}

// Only what edgeScheduleEvent has named may be launched before the doorbell says
// so.
uint32_t DoorbellCursor::WentBack() const {
  const uint64_t launched = this->launched();
  const uint32_t behind = 0 - DoorbellBeyond(launched);
  if (behind == 0 || behind > ring_->layout().entries) return 0;
  return scheduled_->last() < launched ? behind : 0;
}

DoorbellCursor::Pending DoorbellCursor::PendingRings() {
  const uint32_t rings = RingsBeyond(launched());
  if (rings == 0) {
    const uint32_t back = WentBack();
    return {.rings = back, .violation = back != 0, .went_back = back != 0};
  }
  AdvanceCompleted();
  const uint64_t filled = launched() - completed_in_order() + rings;
  if (filled > ring_->layout().entries) [[unlikely]]
    return {.rings = rings, .violation = true};
  if (filled > peak_.load(std::memory_order_relaxed)) [[unlikely]]
    peak_.store(static_cast<uint32_t>(filled), std::memory_order_relaxed);
  return {.rings = rings};
}

Sequence DoorbellCursor::TakeRing() {
  const Sequence sequence(launched() + 1);
  ledger_->Launch(sequence);
  launched_.store(sequence.value(), std::memory_order_relaxed);
  return sequence;
}

void DoorbellCursor::AdvanceCompleted() {
  const uint64_t last = launched();
  Sequence next(completed_in_order() + 1);
  while (next.value() <= last && ledger_->NoteIfEnded(next)) ++next;
  completed_.store(next.value() - 1, std::memory_order_relaxed);
}

void DoorbellCursor::ContinueAfter(uint64_t rung) {
  const uint64_t entries = ring_->layout().entries;
  completed_.store(rung > entries ? rung - entries : 0,
                   std::memory_order_relaxed);
  launched_.store(rung, std::memory_order_relaxed);
}

}  // namespace carillon::gpud
