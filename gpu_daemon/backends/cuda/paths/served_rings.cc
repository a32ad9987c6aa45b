#include "gpu_daemon/backends/cuda/paths/served_rings.h"

#include <algorithm>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/paths/gpu_rings.h"
#include "gpu_daemon/backends/cuda/paths/host_words.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::Sequence;

// What only the check of an entry gives (CopyAndCheckEntry, BuildArguments): a
// kernel's own failures have other statuses (CompletionStatus()).
bool IsRefusal(uint32_t status) {
  switch (static_cast<EventStatus>(status)) {
    case EventStatus::kStaleGeneration:
    case EventStatus::kBadSequence:
    case EventStatus::kBadBufferRef:
    case EventStatus::kBadFlags:
      return true;
    default:
      return false;
  }
}

void FollowReport(ServedRing& ring) {
  simt::EventTotals reported{};
  reported.done = LoadWord(ring.reported->done);
  reported.failed = LoadWord(ring.reported->failed);
  reported.refused = LoadWord(ring.reported->refused);
  if (reported.done + reported.failed <= ring.ended) return;
  reported.launched = ring.totals.launched;
  ring.totals = reported;
  ring.ended = reported.done + reported.failed;
}

}  // namespace

// --- Event kernels.

absl::Status ServedRings::Enter(const EventKernel& event, ServedRing& ring) {
  std::array<bool, kMaxRings> taken{};
  for (const ResidentEventPtr& other : host_.residents()) {
    taken[other->index] = true;
  }
  const auto free = std::ranges::find(taken, false);
  if (free == taken.end()) {
    return absl::ResourceExhaustedError(fmt::format(
        "launch path {} serves {} event kernels already: that is the limit, "
        "for each has a stream of its own; use another launch path",
        host_.name(), kMaxRings));
  }
  ring.ended = event.ended_before();
  ring.index = static_cast<uint32_t>(free - taken.begin());
  ring.shown = &shown_[ring.index];
  return absl::OkStatus();
}

absl::Status ServedRings::Place(ServedRing& ring) {
  ASSIGN_OR_RETURN(ring.stream, host_.gpu().MakeStream(SmSet::kRest,
                                                       ring.event->priority()));
  return absl::OkStatus();
}

// --- Starting and stopping.

bool ServedRings::AwaitIdle(const std::function<void(ServedRing&)>& ask,
                            const std::function<void(ServedRing&)>& ended) {
  for (const ResidentEventPtr& resident : host_.residents()) {
    auto& ring = static_cast<ServedRing&>(*resident);
    const bool idle = host_.Await([&] {
      if (host_.IsIdle(ring.stream.get())) return true;
      ask(ring);
      return false;
    });
    if (!idle) return false;
  }
  for (const ResidentEventPtr& resident : host_.residents()) {
    auto& ring = static_cast<ServedRing&>(*resident);
    ended(ring);
    CountEnded(ring);
    ring.totals.launched = ring.ended - ring.totals.refused;
    Publish(ring.totals, *ring.shown);
  }
  return true;
}

// --- Watching.

bool ServedRings::LookAt(ServedRing& ring, Nanoseconds now,
                         const std::function<void(ServedRing&)>& tend) {
  const EventKernel& event = *ring.event;
  // Both sides of the doorbell: it can neither be behind what had been taken
  // before it was read, nor be ahead of what has ended after it by more than a
  // ring.
  const uint64_t ended_before = ring.ended;
  const uint64_t taken = ring.Taken();
  const uint32_t doorbell = event.ring().LoadDoorbell();
  CountEnded(ring);
  const uint64_t counted = ring.totals.launched + ring.totals.refused;
  WakeForCompletion(event);
  const auto ahead = static_cast<int32_t>(doorbell - ring.RingOf(ring.ended));
  const auto behind = static_cast<int32_t>(ring.RingOf(taken) - doorbell);
  const auto limit = static_cast<int32_t>(event.ring().layout().entries);
  if (!ring.violation_seen && (ahead > limit || behind > 0)) {
    host_.NoteViolation(ring, DoorbellViolation(event, taken));
  }
  if (!ring.violation_seen) tend(ring);
  // The event that runs counts as launched, those behind it do not yet. It runs
  // on, too, when its device takes the doorbell back.
  ring.totals.launched =
      std::max(counted, ring.ended + (ahead > 0 ? 1 : 0)) - ring.totals.refused;
  Publish(ring.totals, *ring.shown);
  const bool waits = ahead > 0 && !ring.violation_seen;
  NoteProgress(ring, ring.ended,
               waits ? ring.ended + static_cast<uint32_t>(ahead) : ring.ended,
               now);
  return waits || ring.ended != ended_before;
}

void ServedRings::CountEnded(ServedRing& ring) {
  const EventKernel& event = *ring.event;
  simt::EventTotals& totals = ring.totals;
  const uint64_t taken_before = totals.launched + totals.refused;
  // Twice: meanwhile the completions may have been a lap ahead of the count.
  for (int i = 0; i < 2; ++i) {
    if (ring.reported != nullptr) FollowReport(ring);
    while (IsCompleted(event, ring.ended + 1)) {
      // Read after the sequence, by which it was published.
      const shm::EcqEntry& entry =
          *event.ring().completion_slot(Sequence(++ring.ended));
      if (LoadWord(entry.state) == EventState::kDone) {
        ++totals.done;
        continue;
      }
      ++totals.failed;
      if (IsRefusal(LoadWord(entry.status))) ++totals.refused;
    }
  }
  totals.launched = std::max(taken_before, ring.Taken()) - totals.refused;
  Publish(totals, *ring.shown);
}

std::optional<TakenEvent> ServedRings::Overdue(ServedRing& ring,
                                               Nanoseconds since) {
  CountEnded(ring);
  const auto ahead = static_cast<int32_t>(ring.event->ring().LoadDoorbell() -
                                          ring.RingOf(ring.ended));
  // It runs on when its device takes the doorbell back.
  const bool waits = ahead > 0 || ring.Taken() > ring.ended;
  const bool stands =
      since == ResidentEngine::kAnyTime ||
      (ring.ended == ring.ended_before && ring.stands_still_since != 0 &&
       ring.stands_still_since < since);
  if (!waits || !stands) return std::nullopt;
  return TakenEvent{ring.ended + 1, ring.stands_still_since};
}

}  // namespace carillon::gpud::cuda
