#include "gpu_daemon/backends/cuda/paths/ring_path.h"

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

}  // namespace

// --- Event kernels.

absl::StatusOr<ResidentPath::ResidentEventPtr> RingPath::NewResidentEvent(
    const EventKernel& event) {
  std::array<bool, kMaxRings> taken{};
  for (const ResidentEventPtr& other : residents()) taken[other->index] = true;
  const auto free = std::ranges::find(taken, false);
  if (free == taken.end()) {
    return absl::ResourceExhaustedError(fmt::format(
        "launch path {} serves {} event kernels already: that is the limit, "
        "for each has a stream of its own; use another launch path",
        name(), kMaxRings));
  }
  std::unique_ptr<Ring> ring = NewRing();
  ring->ended = event.ended_before();
  ring->index = static_cast<uint32_t>(free - taken.begin());
  return ring;
}

absl::Status RingPath::PlaceOwn(ResidentEvent& resident) {
  auto& ring = static_cast<Ring&>(resident);
  ASSIGN_OR_RETURN(ring.stream,
                   gpu().MakeStream(SmSet::kRest, ring.event->priority()));
  return PlaceRing(ring);
}

// --- Starting and stopping.

absl::Status RingPath::BeginAll() {
  absl::Status status;
  for (const ResidentEventPtr& resident : residents()) {
    status.Update(Begin(static_cast<Ring&>(*resident)));
  }
  return status;
}

bool RingPath::EndAll() {
  for (const ResidentEventPtr& resident : residents()) {
    AskToEnd(static_cast<Ring&>(*resident));
  }
  for (const ResidentEventPtr& resident : residents()) {
    auto& ring = static_cast<Ring&>(*resident);
    const bool ended = Await([&] {
      if (IsIdle(ring.stream.get())) return true;
      KeepAsking(ring);
      return false;
    });
    if (!ended) return false;
  }
  for (const ResidentEventPtr& resident : residents()) {
    auto& ring = static_cast<Ring&>(*resident);
    CountEnded(ring);
    ring.totals.launched = ring.ended - ring.totals.refused;
    Publish(ring.totals, shown_[ring.index]);
  }
  return true;
}

// --- Watching.

bool RingPath::LookAt(ResidentEvent& resident, Nanoseconds now) {
  auto& ring = static_cast<Ring&>(resident);
  const EventKernel& event = *ring.event;
  // Both sides of the doorbell: it can neither be behind what had ended before
  // it was read, nor be ahead of what has ended after it by more than a ring.
  const uint64_t ended_before = ring.ended;
  const uint32_t doorbell = event.ring().LoadDoorbell();
  Collect(ring);
  WakeForCompletion(event);
  const auto ahead = static_cast<int32_t>(doorbell - ring.RingOf(ring.ended));
  const auto behind =
      static_cast<int32_t>(ring.RingOf(ended_before) - doorbell);
  const auto limit = static_cast<int32_t>(event.ring().layout().entries);
  if (!ring.violation_seen && (ahead > limit || behind > 0)) {
    NoteViolation(ring);
  }
  if (!ring.violation_seen) Tend(ring);
  // The event that runs counts as launched, those behind it do not yet.
  ring.totals.launched = ring.ended + (ahead > 0 ? 1 : 0) - ring.totals.refused;
  Publish(ring.totals, shown_[ring.index]);
  const bool waits = ahead > 0 && !ring.violation_seen;
  NoteProgress(ring, ring.ended, waits, now);
  return waits || ring.ended != ended_before;
}

// Follows the completions, which come in the order of the rings.
void RingPath::Collect(Ring& ring) {
  const EventKernel& event = *ring.event;
  simt::EventTotals& totals = ring.totals;
  // Twice: meanwhile the completions may have been a lap ahead of the count.
  for (int i = 0; i < 2; ++i) {
    const simt::EventTotals reported = Reported(ring);
    if (reported.done + reported.failed > ring.ended) {
      totals.done = reported.done;
      totals.failed = reported.failed;
      totals.refused = reported.refused;
      ring.ended = reported.done + reported.failed;
    }
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
}

uint64_t RingPath::OldestWaiting(ResidentEvent& resident) {
  auto& ring = static_cast<Ring&>(resident);
  Collect(ring);
  const auto ahead = static_cast<int32_t>(ring.event->ring().LoadDoorbell() -
                                          ring.RingOf(ring.ended));
  return ahead > 0 && ring.ended == ring.ended_before ? ring.ended + 1 : 0;
}

// --- A lost context.

void RingPath::AbandonOwn(ResidentEvent& resident) {
  auto& ring = static_cast<Ring&>(resident);
  ring.stream.Abandon();
  AbandonRing(ring);
}

void RingPath::CountEnded(ResidentEvent& resident) {
  auto& ring = static_cast<Ring&>(resident);
  Ended(ring);
  Collect(ring);
}

void RingPath::ContinueAfter(ResidentEvent& resident, uint64_t rung) {
  static_cast<Ring&>(resident).ended = rung;
}

}  // namespace carillon::gpud::cuda
