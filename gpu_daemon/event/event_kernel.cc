#include "gpu_daemon/event/event_kernel.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "shm/faults/point.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

bool NeedsValidation(const EventKernel::Registration& registration) {
  return registration.kmd.kernel->validate != nullptr &&
         (registration.modifyable ||
          !registration.arguments.writable().empty());
}

}  // namespace

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kRungToSeen:
      return "rung_to_seen";
    case Stage::kSeenToDispatched:
      return "seen_to_dispatched";
    case Stage::kDispatchedToFinished:
      return "dispatched_to_finished";
    case Stage::kRungToFinished:
      return "rung_to_finished";
  }
  return "unknown";
}

EventKernel::EventKernel(Registration registration,
                         std::shared_ptr<DeviceMemory> memory,
                         const shm::RingLayout& layout, uint32_t ekt_index)
    : registration_(std::move(registration)),
      memory_(std::move(memory)),
      ring_(layout, &memory_->submission(), &memory_->completion()),
      ekt_index_(ekt_index),
      validate_each_launch_(NeedsValidation(registration_)),
      first_ring_(ring_.LoadDoorbell() - static_cast<uint32_t>(ended_before())),
      launched_(ended_before()),
      completed_(ended_before()),
      slots_(layout.entries) {
  for (auto& stage : stages_)
    stage = std::vector<std::atomic<uint64_t>>(shm::kHistogramBuckets);
}

bool EventKernel::ScheduleThrough(uint64_t through) {
  const uint64_t before = launched();
  if (through > before + ring_.layout().entries) return false;
  if (through > scheduled_.load(std::memory_order_relaxed)) {
    scheduled_.store(through, std::memory_order_release);
  }
  return true;
}

uint32_t EventKernel::RingsBeyond(uint64_t launched) const {
  // Either may lag behind the other, which has launched what it has not said:
  // the doorbell by no more than the ring holds.
  const uint64_t through = scheduled_.load(std::memory_order_acquire);
  // At most the ring's entries: see ScheduleThrough().
  const auto scheduled =
      static_cast<uint32_t>(through > launched ? through - launched : 0);
  const uint32_t rung =
      ring_.LoadDoorbell() - (first_ring_ + static_cast<uint32_t>(launched));
  const bool doorbell_lags = 0 - rung <= ring_.layout().entries;
  return std::max(doorbell_lags ? 0 : rung, scheduled);
}

// Only what edgeScheduleEvent has named may be launched before the doorbell says
// so.
uint32_t EventKernel::WentBack() const {
  const uint64_t launched = this->launched();
  const uint32_t behind =
      first_ring_ + static_cast<uint32_t>(launched) - ring_.LoadDoorbell();
  if (behind == 0 || behind > ring_.layout().entries) return 0;
  return scheduled_.load(std::memory_order_acquire) < launched ? behind : 0;
}

EventKernel::Pending EventKernel::PendingRings() {
  const uint32_t rings = RingsBeyond(launched());
  if (rings == 0) {
    const uint32_t back = WentBack();
    return {.rings = back, .violation = back != 0, .went_back = back != 0};
  }
  AdvanceCompleted();
  const uint64_t free =
      ring_.layout().entries - (launched() - completed_in_order());
  return {.rings = rings, .violation = rings > free};
}

Sequence EventKernel::TakeRing() {
  const Sequence sequence(launched() + 1);
  SlotFor(sequence).Launch(sequence);
  launched_.store(sequence.value(), std::memory_order_relaxed);
  return sequence;
}

void EventKernel::AdvanceCompleted() {
  Sequence next(completed_in_order() + 1);
  while (next.value() <= launched()) {
    if (ends_itself_) NoteEnded(next);
    if (!SlotFor(next).IsFinished(next)) break;
    ++next;
  }
  completed_.store(next.value() - 1, std::memory_order_relaxed);
}

uint64_t EventKernel::ended_in_order() const {
  uint64_t ended = completed_in_order();
  const uint64_t last = launched();
  while (ended < last &&
         slots_[ring_.layout().SlotOf(Sequence(ended + 1))].IsFinished(
             Sequence(ended + 1))) {
    ++ended;
  }
  return ended;
}

bool EventKernel::Finish(Sequence sequence, const Ending& ending) {
  Slot& slot = SlotFor(sequence);
  if (!slot.TakeOver(sequence)) return false;
  if (const shm::EventLife* life = ending.life) {
    ring_.life(sequence) = *life;
    AddToStages(*life);
  } else if (has_lives_.load(std::memory_order_relaxed)) {
    // An earlier lap's life must not be taken for this one's.
    ring_.life(sequence) = {};
  }
  if (ending.refused) refused_.fetch_add(1, std::memory_order_relaxed);
  NoteFailure(sequence, ending.state, ending.status);
  Record(shm::Step::kEnded, sequence, ending.state, ending.status);
  // Before the completion: who has seen it may ring for this slot at once.
  if (faults::AnyArmed(faults::Point::kGpudComplete,
                       faults::Point::kGpudCompleted)) [[unlikely]] {
    CompleteThroughFaults(sequence, ending);
  } else {
    slot.Finish(sequence);
    ring_.Complete(sequence, ending.state, ending.status);
  }
  Count(ending.state);
  return true;
}

void EventKernel::CompleteThroughFaults(Sequence sequence,
                                        const Ending& ending) {
  const faults::Subject subject{.device = memory().name(),
                                .event_id = event_id()};
  const auto struck = faults::At(faults::Point::kGpudComplete, subject);
  const bool lost = struck && struck->action == faults::Action::kLose;
  SlotFor(sequence).Finish(sequence);
  if (!lost) ring_.Complete(sequence, ending.state, ending.status);
  if (struck && struck->action == faults::Action::kDouble) {
    ring_.Complete(sequence, ending.state, ending.status);
  }
  faults::At(faults::Point::kGpudCompleted, subject);
}

bool EventKernel::NoteEnded(Sequence sequence) {
  shm::EcqEntry& entry = *ring_.completion_slot(sequence);
  // Writer: the kernel's epilogue, the sequence last or all at once.
  const uint64_t ended =
      std::atomic_ref<uint64_t>(entry.sequence).load(std::memory_order_acquire);
  if (ended < sequence.value()) return false;
  if (ended > sequence.value()) return true;  // noted: its slot is in use again
  Slot& slot = SlotFor(sequence);
  if (!slot.TakeOver(sequence)) return true;
  const shm::EventLife life = ring_.life(sequence);
  if (life.finished_ns != 0) AddToStages(life);
  NoteFailure(sequence, entry.state, entry.status);
  Record(shm::Step::kEndNoted, sequence, entry.state, entry.status);
  const EventState state = entry.state;
  slot.Finish(sequence);
  Count(state);
  return true;
}

void EventKernel::AddToStages(const shm::EventLife& life) {
  has_lives_.store(true, std::memory_order_relaxed);
  const auto add = [&](Stage stage, uint64_t from, uint64_t to) {
    if (from == 0 || to < from) return;
    stages_[static_cast<size_t>(stage)][shm::HistogramBucket(to - from)]
        .fetch_add(1, std::memory_order_relaxed);
  };
  add(Stage::kRungToSeen, life.rung_ns, life.seen_ns);
  add(Stage::kSeenToDispatched, life.seen_ns, life.dispatched_ns);
  add(Stage::kDispatchedToFinished, life.dispatched_ns, life.finished_ns);
  add(Stage::kRungToFinished, life.rung_ns, life.finished_ns);
}

void EventKernel::NoteFailure(Sequence sequence, EventState state,
                              uint32_t status) {
  if (state != EventState::kFailed) return;
  last_failure_.store(sequence.value() << 32 | status,
                      std::memory_order_release);
}

// Last: once in_flight() is 0, nobody writes to the ring any more.
void EventKernel::Count(EventState state) {
  auto& counter = state == EventState::kDone     ? done_
                  : state == EventState::kFailed ? failed_
                                                 : aborted_;
  counter.fetch_add(1, std::memory_order_release);
}

uint64_t EventKernel::AbortUnfinished(EventStatus why) {
  uint64_t aborted = 0;
  const uint64_t last = launched();
  const uint64_t entries = ring_.layout().entries;
  for (uint64_t s = last > entries ? last - entries + 1 : 1; s <= last; ++s) {
    if (Finish(Sequence(s), {.state = EventState::kAborted,
                             .status = static_cast<uint32_t>(why)})) {
      ++aborted;
    }
  }
  while (in_flight() != 0) sched_yield();
  return aborted;
}

namespace {

uint64_t LoadTotal(const uint64_t& total) {
  return std::atomic_ref(const_cast<uint64_t&>(total))
      .load(std::memory_order_relaxed);
}

}  // namespace

uint64_t EventKernel::TakenBy(const simt::EventTotals& totals) {
  return LoadTotal(totals.launched) + LoadTotal(totals.refused);
}

uint64_t EventKernel::RungOf(uint64_t taken) const {
  const uint32_t beyond =
      ring_.LoadDoorbell() - (first_ring_ + static_cast<uint32_t>(taken));
  return taken + static_cast<uint64_t>(static_cast<int32_t>(beyond));
}

uint64_t EventKernel::LastEnded() const {
  uint64_t last = ended_before();
  for (uint32_t slot = 0; slot < ring_.layout().entries; ++slot) {
    last = std::max(last, ring_.LoadCompletedSequence(slot));
  }
  return last;
}

uint64_t EventKernel::LastRung() const {
  const uint64_t ended = LastEnded();
  const uint64_t rung = RungOf(ended);
  return rung >= ended && rung - ended <= ring_.layout().entries ? rung : ended;
}

void EventKernel::TakeBack(const simt::EventTotals& totals) {
  const uint32_t entries = ring_.layout().entries;
  const uint64_t rung = LastRung();
  const uint64_t lap_before = rung > entries ? rung - entries : 0;
  completed_.store(lap_before, std::memory_order_relaxed);
  uint64_t ended = totals.done + totals.failed;
  for (uint64_t s = lap_before + 1; s <= rung; ++s) {
    const Sequence sequence(s);
    Slot& slot = SlotFor(sequence);
    if (ring_.LoadCompletedSequence(ring_.layout().SlotOf(sequence)) == s) {
      slot.Finish(sequence);
    } else {
      slot.Launch(sequence);
      ++ended;  // it will be aborted, or go on
    }
  }
  // A device that rings for more than its free slots has the GPU pass over an
  // event, and take a later one in its slot: there is no slot to end it in.
  aborted_.store(rung - std::min(rung, ended), std::memory_order_relaxed);
  done_.store(totals.done - ended_before(), std::memory_order_relaxed);
  failed_.store(totals.failed, std::memory_order_relaxed);
  refused_.store(totals.refused, std::memory_order_relaxed);
  launched_.store(rung, std::memory_order_relaxed);
  gpu_totals_.store(nullptr, std::memory_order_release);
}

EventCounts EventKernel::counts() const {
  EventCounts counts;
  if (const simt::EventTotals* totals =
          gpu_totals_.load(std::memory_order_acquire)) {
    counts.done = LoadTotal(totals->done) - ended_before();
    counts.failed = LoadTotal(totals->failed);
    counts.refused = LoadTotal(totals->refused);
    // Word by word, at different times: never less than what has ended.
    counts.rung = std::max(TakenBy(*totals) - ended_before(),
                           counts.done + counts.failed);
    return counts;
  }
  counts.done = done_.load(std::memory_order_acquire);
  counts.failed = failed_.load(std::memory_order_acquire);
  counts.aborted = aborted_.load(std::memory_order_acquire);
  counts.refused = refused_.load(std::memory_order_relaxed);
  // After the others, so that in flight is never negative.
  counts.rung = launched() - ended_before();
  return counts;
}

uint64_t EventKernel::in_flight() const {
  const EventCounts now = counts();
  return now.rung - now.done - now.failed - now.aborted;
}

EventKernel::Failure EventKernel::last_failure() const {
  const uint64_t last = last_failure_.load(std::memory_order_acquire);
  if (last == 0) return {};
  // The youngest event whose sequence ends in the half that was kept.
  const uint64_t now = launched();
  const auto age = static_cast<uint32_t>(now - (last >> 32));
  return {.sequence = now - age, .status = static_cast<uint32_t>(last)};
}

shm::HistogramSnapshot EventKernel::stage(Stage stage) const {
  shm::HistogramSnapshot snapshot;
  const auto& cells = stages_[static_cast<size_t>(stage)];
  for (uint32_t i = 0; i < cells.size(); ++i) {
    snapshot.AddBucket(i, cells[i].load(std::memory_order_relaxed));
  }
  return snapshot;
}

void EventKernel::ResetStages() {
  for (auto& cells : stages_) {
    for (auto& cell : cells) cell.store(0, std::memory_order_relaxed);
  }
}

void EventKernel::AddShortPathSample(Nanoseconds duration) {
  short_path_samples_[short_path_count_++ % short_path_samples_.size()] =
      duration;
  if (short_path_count_ >= short_path_samples_.size()) {
    short_path_ns_.store(*std::min_element(short_path_samples_.begin(),
                                           short_path_samples_.end()),
                         std::memory_order_relaxed);
  }
}

}  // namespace carillon::gpud
