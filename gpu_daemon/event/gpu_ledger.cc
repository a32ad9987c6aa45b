#include "gpu_daemon/event/gpu_ledger.h"

#include <algorithm>

namespace carillon::gpud {
namespace {

// Writer: the GPU; readers: any thread. Relaxed: each word is a figure for
// itself.
uint64_t LoadTotal(const uint64_t& total) {
  return std::atomic_ref(const_cast<uint64_t&>(total))
      .load(std::memory_order_relaxed);
}

}  // namespace

uint64_t GpuLedger::TakenBy(const simt::EventTotals& totals) {
  return LoadTotal(totals.launched) + LoadTotal(totals.refused);
}

std::optional<EventCounts> GpuLedger::counts() const {
  const simt::EventTotals* totals = totals_.load(std::memory_order_acquire);
  if (totals == nullptr) return std::nullopt;
  EventCounts counts;
  counts.done = LoadTotal(totals->done) - ended_before_;
  counts.failed = LoadTotal(totals->failed);
  counts.refused = LoadTotal(totals->refused);
  // Word by word, at different times: never less than what has ended.
  counts.rung =
      std::max(TakenBy(*totals) - ended_before_, counts.done + counts.failed);
  return counts;
}

uint64_t GpuLedger::LastEnded() const {
  uint64_t last = ended_before_;
  for (uint32_t slot = 0; slot < ring_->layout().entries; ++slot) {
    last = std::max(last, ring_->LoadCompletedSequence(slot));
  }
  return last;
}

uint64_t GpuLedger::EndedInOrder() const {
  const shm::RingLayout& layout = ring_->layout();
  const uint64_t last = LastEnded();
  // What shared its slot with a later one has ended.
  uint64_t ended = std::max(ended_before_,
                            last > layout.entries ? last - layout.entries : 0);
  while (ended < last && ring_->LoadCompletedSequence(
                             layout.SlotOf(shm::Sequence(ended + 1))) > ended) {
    ++ended;
  }
  return ended;
}

uint64_t GpuLedger::LastRung() const {
  const uint64_t ended = LastEnded();
  const uint64_t rung = RungOf(ended);
  return rung >= ended && rung - ended <= ring_->layout().entries ? rung
                                                                  : ended;
}

uint64_t GpuLedger::RungOf(uint64_t taken) const {
  const auto beyond = static_cast<int32_t>(cursor_->DoorbellBeyond(taken));
  return taken + static_cast<uint64_t>(static_cast<int64_t>(beyond));
}

}  // namespace carillon::gpud
