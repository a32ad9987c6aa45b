#include "gpu_daemon/event/event_kernel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace carillon::gpud {
namespace {

bool NeedsValidation(const EventKernel::Registration& registration) {
  return registration.kmd.kernel->validate != nullptr &&
         (registration.modifyable ||
          !registration.arguments.writable().empty());
}

}  // namespace

EventKernel::EventKernel(Registration registration,
                         std::shared_ptr<DeviceMemory> memory,
                         const shm::RingLayout& layout, uint32_t ekt_index)
    : registration_(std::move(registration)),
      memory_(std::move(memory)),
      ring_(layout, &memory_->submission(), &memory_->completion()),
      ekt_index_(ekt_index),
      validate_each_launch_(NeedsValidation(registration_)) {
  ledger_.HasOutput(registration_.output);
}

bool EventKernel::HandOn(shm::Sequence sequence, const EventOutcome& outcome) {
  if (registration_.hands_to->HandOn(*this, sequence, outcome)) return false;
  EventOutcome not_taken = outcome;
  not_taken.status = static_cast<uint32_t>(shm::EventStatus::kNotTaken);
  return ledger_.Finish(sequence, not_taken);
}

bool EventKernel::ScheduleThrough(uint64_t through) {
  // A GPU's own figures come late, completions do not.
  const uint64_t before =
      gpu_ledger_.following() ? gpu_ledger_.EndedInOrder() : launched();
  if (through > before + ring_.layout().entries) return false;
  scheduled_.RaiseTo(through);
  return true;
}

void EventKernel::TakeBack(const simt::EventTotals& totals) {
  const uint64_t rung = gpu_ledger_.LastRung();
  ledger_.TakeBack(totals, ended_before(), rung);
  cursor_.ContinueAfter(rung);
  // Last: until now, figures come from the GPU's totals.
  gpu_ledger_.StopFollowing();
}

uint64_t EventKernel::AbortUnfinished(shm::EventStatus why) {
  const uint64_t aborted = ledger_.Abort(launched(), why);
  while (in_flight() != 0) sched_yield();
  ledger_.RecordCount();
  return aborted;
}

EventCounts EventKernel::counts() const {
  if (const auto by_gpu = gpu_ledger_.counts()) return *by_gpu;
  EventCounts counts = ledger_.ends();
  // After the others, so that in flight is never negative.
  counts.rung = launched() - ended_before();
  return counts;
}

uint64_t EventKernel::ended_in_order() const {
  // What a GPU ends is in no slot of the ledger.
  if (gpu_ledger_.following()) return gpu_ledger_.EndedInOrder();
  const uint64_t last = launched();
  uint64_t ended = cursor_.completed_in_order();
  while (ended < last) {
    if (ledger_.IsFinished(shm::Sequence(ended + 1))) {
      ++ended;
      continue;
    }
    // The slot is used again, or the event has not ended. Before a slot is used
    // again, the front-end has counted the event that it had.
    const uint64_t counted = cursor_.completed_in_order();
    if (counted <= ended) break;
    ended = counted;
  }
  return ended;
}

uint32_t EventKernel::TakePeak() {
  const uint32_t peak = cursor_.TakePeak();
  const uint64_t last = launched();
  const uint32_t waiting = cursor_.RingsBeyond(last);
  const uint64_t rung =
      last + (waiting <= ring_.layout().entries ? waiting : 0);
  // Later than the others, so that this is never more than there were.
  const uint64_t ended = ended_in_order();
  // A slot that is used again while this looks hides that its event has ended.
  const uint64_t now = std::min<uint64_t>(rung > ended ? rung - ended : 0,
                                          ring_.layout().entries);
  return std::max(peak, static_cast<uint32_t>(now));
}

std::optional<EventKernel::Traced> EventKernel::LastTraced() const {
  const bool by_gpu = gpu_ledger_.following();
  const shm::Sequence last(ended_in_order());
  if (last.value() == 0) return std::nullopt;
  if (!by_gpu) {
    const auto life = ledger_.LifeOf(last);
    if (!life) return std::nullopt;
    return Traced{last.value(), *life};
  }
  // What a GPU ends is in no slot of the ledger. Nobody writes to the slot's
  // life until the device has rung for it again.
  const shm::EventLife life = ring_.CopyLife(last);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (ring_.LoadCompletedSequence(ring_.layout().SlotOf(last)) !=
          last.value() ||
      cursor_.DoorbellBeyond(last.value()) >= ring_.layout().entries ||
      life.finished_ns == 0) {
    return std::nullopt;
  }
  return Traced{last.value(), life};
}

uint64_t EventKernel::in_flight() const {
  const EventCounts now = counts();
  return now.rung - now.done - now.failed - now.aborted;
}

EventKernel::Failure EventKernel::last_failure() const {
  const auto last = ledger_.last_failure();
  if (!last) return {};
  // The youngest event whose sequence ends in the half that was kept. Counted
  // after the failure was read: it is among the launched ones.
  const uint64_t now = launched();
  const uint32_t age = static_cast<uint32_t>(now) - last->sequence;
  return {.sequence = now - age, .status = last->status};
}

}  // namespace carillon::gpud
