#include "gpu_daemon/event/completion_ledger.h"

#include <algorithm>
#include <span>
#include <utility>

namespace carillon::gpud {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

CompletionLedger::CompletionLedger(const shm::GpuRing* ring,
                                   const DeviceMemory* device,
                                   StageHistograms* stages)
    : ring_(ring),
      device_(device),
      stages_(stages),
      slots_(ring->layout().entries) {}

bool CompletionLedger::Finish(Sequence sequence, const EventOutcome& outcome) {
  Slot& slot = SlotFor(sequence);
  if (!slot.TakeOver(sequence)) return false;
  if (outcome.state == EventState::kAborted &&
      keeps_unfinished_.load(std::memory_order_relaxed)) {
    slot.Finish(sequence);
    Count(outcome.state);
    return true;
  }
  if (const shm::EventLife* life = outcome.life) {
    ring_->life(sequence) = *life;
    AddLife(sequence, *life);
  } else if (has_lives_.load(std::memory_order_relaxed)) {
    // An earlier lap's life must not be taken for this one's.
    ring_->life(sequence) = {};
  }
  if (outcome.refused) refused_.fetch_add(1, std::memory_order_relaxed);
  NoteFailure(sequence, outcome.state, outcome.status);
  // The slot is finished before the completion is stored: who has seen the
  // completion may ring for this slot at once.
  if (faults::AnyArmed(faults::Point::kGpudOutput, faults::Point::kGpudComplete,
                       faults::Point::kGpudCompleted) ||
      holds_.load(std::memory_order_relaxed)) [[unlikely]] {
    if (!CompleteThroughFaults(sequence, outcome)) return true;
  } else {
    slot.Finish(sequence);
    Store(sequence, outcome);
  }
  Count(outcome.state);
  return true;
}

// The record comes last: it says that the completion is there.
void CompletionLedger::Store(Sequence sequence, const EventOutcome& outcome) {
  ring_->Complete(sequence, outcome.state, outcome.status);
  Record(shm::Step::kEnded, sequence, outcome.state, outcome.status);
}

bool CompletionLedger::CompleteThroughFaults(Sequence sequence,
                                             const EventOutcome& outcome) {
  const faults::Subject subject{.device = device_->name(),
                                .event_id = ring_->layout().doorbell.value()};
  if (outcome.state == EventState::kDone && output_.bytes > 0) {
    const auto scribble = faults::At(faults::Point::kGpudOutput, subject);
    if (scribble && scribble->action == faults::Action::kCorrupt) {
      const uint64_t slot = ring_->layout().SlotOf(sequence);
      scribble->Corrupt(
          {output_.data + slot * output_.slot_stride, output_.bytes});
    }
  }
  const auto struck = faults::At(faults::Point::kGpudComplete, subject);
  const auto does = [&](faults::Action action) {
    return struck && struck->action == action;
  };
  if (does(faults::Action::kReorder) &&
      Hold({sequence, outcome.state, outcome.status})) {
    return false;
  }
  SlotFor(sequence).Finish(sequence);
  if (does(faults::Action::kLose)) {
    // gpud believes that it has stored it.
    Record(shm::Step::kEnded, sequence, outcome.state, outcome.status);
  } else if (does(faults::Action::kCorrupt)) {
    StoreCorrupted(sequence, outcome, *struck);
  } else {
    Store(sequence, outcome);
  }
  if (does(faults::Action::kDouble)) Store(sequence, outcome);
  StoreHeld(/*for_good=*/false);
  faults::At(faults::Point::kGpudCompleted, subject);
  return true;
}

// gpud believes that it has stored what it meant to.
void CompletionLedger::StoreCorrupted(Sequence sequence,
                                      const EventOutcome& outcome,
                                      const faults::Struck& struck) {
  shm::EcqEntry entry{.state = outcome.state,
                      .status = outcome.status,
                      .sequence = sequence.value()};
  struck.Corrupt(std::as_writable_bytes(std::span(&entry, 1)));
  shm::EcqEntry& slot = *ring_->completion_slot(sequence);
  // As GpuRing::Complete(): the sequence last, with release, for the device.
  std::atomic_ref(slot.state).store(entry.state, std::memory_order_relaxed);
  std::atomic_ref(slot.status).store(entry.status, std::memory_order_relaxed);
  std::atomic_ref(slot.sequence)
      .store(entry.sequence, std::memory_order_release);
  Record(shm::Step::kEnded, sequence, outcome.state, outcome.status);
}

// True: the event stays in flight until StoreHeld().
bool CompletionLedger::Hold(const HeldEnd& end) {
  MutexLock lock(held_mutex_);
  if (held_ || holds_no_more_) return false;
  held_ = end;
  holds_.store(true, std::memory_order_relaxed);
  return true;
}

void CompletionLedger::StoreHeld(bool for_good) {
  std::optional<HeldEnd> held;
  {
    MutexLock lock(held_mutex_);
    held = std::exchange(held_, std::nullopt);
    holds_.store(false, std::memory_order_relaxed);
    holds_no_more_ |= for_good;
  }
  if (!held) return;
  SlotFor(held->sequence).Finish(held->sequence);
  Store(held->sequence, {.state = held->state, .status = held->status});
  Count(held->state);
}

bool CompletionLedger::NoteEnded(Sequence sequence) {
  shm::EcqEntry& entry = *ring_->completion_slot(sequence);
  // Writer: the kernel's epilogue, the sequence last or all at once.
  const uint64_t ended =
      std::atomic_ref<uint64_t>(entry.sequence).load(std::memory_order_acquire);
  if (ended < sequence.value()) return false;
  if (ended > sequence.value()) return true;  // noted: its slot is in use again
  Slot& slot = SlotFor(sequence);
  if (!slot.TakeOver(sequence)) return true;
  const shm::EventLife life = ring_->life(sequence);
  if (life.finished_ns != 0) AddLife(sequence, life);
  NoteFailure(sequence, entry.state, entry.status);
  Record(shm::Step::kEndNoted, sequence, entry.state, entry.status);
  const EventState state = entry.state;
  slot.Finish(sequence);
  Count(state);
  return true;
}

uint64_t CompletionLedger::Abort(uint64_t last, EventStatus why) {
  // Nothing later ends here, and what is in flight must come to an end.
  StoreHeld(/*for_good=*/true);
  uint64_t aborted = 0;
  const uint64_t entries = ring_->layout().entries;
  for (uint64_t s = last > entries ? last - entries + 1 : 1; s <= last; ++s) {
    if (Finish(Sequence(s), {.state = EventState::kAborted,
                             .status = static_cast<uint32_t>(why)})) {
      ++aborted;
    }
  }
  return aborted;
}

void CompletionLedger::RecordCount() {
  MutexLock lock(counts_mutex_);
  // What was aborted for another gpud to go on with is recorded nowhere.
  if (!std::exchange(counts_, false) || count_is_lost_ ||
      recorder_ == nullptr ||
      keeps_unfinished_.load(std::memory_order_relaxed)) {
    return;
  }
  const EventCounts all = ends();
  Record(shm::Step::kCounted,
         Sequence(all.done + all.failed + all.aborted - passed_over_),
         EventState::kNone, 0);
}

void CompletionLedger::AddLife(Sequence sequence, const shm::EventLife& life) {
  has_lives_.store(true, std::memory_order_relaxed);
  stages_->Add(life);
  if (!records_lives_) return;
  const shm::RingLayout& layout = ring_->layout();
  for (const auto& [step, time] :
       {std::pair(shm::Step::kSeen, life.seen_ns),
        std::pair(shm::Step::kDispatched, life.dispatched_ns)}) {
    if (time == 0) continue;
    recorder_->RecordAt(time, step, layout.doorbell.value(), layout.generation,
                        sequence.value());
  }
}

void CompletionLedger::NoteFailure(Sequence sequence, EventState state,
                                   uint32_t status) {
  if (state != EventState::kFailed) return;
  last_failure_.store(sequence.value() << 32 | status,
                      std::memory_order_release);
}

void CompletionLedger::Record(shm::Step step, Sequence sequence,
                              EventState state, uint32_t status) {
  if (recorder_ == nullptr) [[likely]]
    return;
  const shm::RingLayout& layout = ring_->layout();
  recorder_->Record(step, layout.doorbell.value(), layout.generation,
                    sequence.value(), state, status);
}

// Last of all: once nothing is in flight, nobody writes to the ring any more.
void CompletionLedger::Count(EventState state) {
  auto& counter = state == EventState::kDone     ? done_
                  : state == EventState::kFailed ? failed_
                                                 : aborted_;
  counter.fetch_add(1, std::memory_order_release);
}

// A seqlock whose writer, Finish(), says that it begins by taking the slot over,
// by an instruction that is a barrier on x86.
std::optional<shm::EventLife> CompletionLedger::LifeOf(
    Sequence sequence) const {
  const Slot& slot = slots_[ring_->layout().SlotOf(sequence)];
  const Sequence next = sequence + ring_->layout().entries;
  if (!slot.Keeps(sequence, next, expects_epilogues_)) return std::nullopt;
  const shm::EventLife life = ring_->CopyLife(sequence);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!slot.Keeps(sequence, next, expects_epilogues_)) return std::nullopt;
  if (life.finished_ns == 0) return std::nullopt;
  return life;
}

EventCounts CompletionLedger::ends() const {
  return {.done = done_.load(std::memory_order_acquire),
          .failed = failed_.load(std::memory_order_acquire),
          .aborted = aborted_.load(std::memory_order_acquire),
          .refused = refused_.load(std::memory_order_relaxed)};
}

std::optional<CompletionLedger::FailureMark> CompletionLedger::last_failure()
    const {
  const uint64_t last = last_failure_.load(std::memory_order_acquire);
  if (last == 0) return std::nullopt;
  return FailureMark{.sequence = static_cast<uint32_t>(last >> 32),
                     .status = static_cast<uint32_t>(last)};
}

void CompletionLedger::TakeBack(const simt::EventTotals& totals,
                                uint64_t ended_before, uint64_t rung) {
  const uint32_t entries = ring_->layout().entries;
  uint64_t ended = totals.done + totals.failed;
  MutexLock lock(counts_mutex_);
  counts_ = true;
  for (uint64_t s = rung > entries ? rung - entries + 1 : 1; s <= rung; ++s) {
    const Sequence sequence(s);
    Slot& slot = SlotFor(sequence);
    if (ring_->LoadCompletedSequence(ring_->layout().SlotOf(sequence)) == s) {
      slot.Finish(sequence);
      // Events of an earlier gpud are in its recording.
      if (s > ended_before) {
        const shm::EcqEntry& entry = *ring_->completion_slot(sequence);
        Record(shm::Step::kEndNoted, sequence, entry.state, entry.status);
      }
    } else {
      slot.Launch(sequence);
      ++ended;  // it will be aborted, or go on
    }
  }
  // A device that rings for more than its free slots has the GPU pass over an
  // event, and take a later one in its slot: there is no slot to end it in.
  passed_over_ = rung - std::min(rung, ended);
  aborted_.store(passed_over_, std::memory_order_relaxed);
  done_.store(totals.done - ended_before, std::memory_order_relaxed);
  failed_.store(totals.failed, std::memory_order_relaxed);
  refused_.store(totals.refused, std::memory_order_relaxed);
}

}  // namespace carillon::gpud
