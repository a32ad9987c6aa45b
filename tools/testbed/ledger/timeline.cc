#include "tools/testbed/ledger/timeline.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "fmt/format.h"

namespace carillon::ledger {
namespace {

using shm::CloseReason;
using shm::EventState;
using shm::FlightRecord;
using shm::Step;

std::string_view DescribeReason(uint32_t reason) {
  switch (static_cast<CloseReason>(reason)) {
    case CloseReason::kOpen:
      return "the other process died";
    case CloseReason::kDetached:
      return "the device detached";
    case CloseReason::kEvicted:
      return "the device broke the protocol";
    case CloseReason::kShutdown:
      return "gpud shuts down";
    case CloseReason::kPeerDied:
      return "the device died";
    case CloseReason::kSilent:
      return "the device was silent";
    case CloseReason::kRestarting:
      return "gpud makes way for another";
    case CloseReason::kLinkLost:
      return "the link to the other host carries the device no more";
  }
  return "for no known reason";
}

// Whether a record's time is not when it was recorded.
bool IsRecordedLater(Step step) {
  return step == Step::kSeen || step == Step::kDispatched;
}

}  // namespace

std::vector<RecordRef> MergeByTime(Recordings recordings) {
  // Ordered by time and then, to break ties always in the same way, by
  // recording and place. Only one record of each sequence is in the queue:
  // threads of a process may take their stamps in another order than their
  // places, and the places count. What is recorded later has sequences of its
  // own.
  struct Places {
    size_t recording;
    std::vector<size_t> records;
    size_t next = 0;
  };
  std::vector<Places> all;
  size_t size = 0;
  for (size_t i = 0; i < recordings.size(); ++i) {
    const auto& records = recordings[i].records;
    size += records.size();
    Places in_order{.recording = i, .records = {}};
    Places later{.recording = i, .records = {}};
    for (size_t place = 0; place < records.size(); ++place) {
      (IsRecordedLater(records[place].step) ? later : in_order)
          .records.push_back(place);
    }
    std::ranges::stable_sort(later.records, {}, [&](size_t place) {
      return records[place].time_ns;
    });
    all.push_back(std::move(in_order));
    all.push_back(std::move(later));
  }
  using Next = std::tuple<Nanoseconds, size_t, size_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto push = [&](size_t sequence) {
    Places& places = all[sequence];
    if (places.next == places.records.size()) return;
    const size_t record = places.records[places.next++];
    next.emplace(recordings[places.recording].records[record].time_ns,
                 places.recording, record, sequence);
  };
  for (size_t sequence = 0; sequence < all.size(); ++sequence) push(sequence);
  std::vector<RecordRef> merged;
  merged.reserve(size);
  while (!next.empty()) {
    const auto [time, recording, record, sequence] = next.top();
    next.pop();
    merged.push_back({recording, record});
    push(sequence);
  }
  return merged;
}

std::string DescribeEnd(EventState state, uint32_t status) {
  switch (state) {
    case EventState::kDone:
      return status == 0 ? "done" : fmt::format("done (status {})", status);
    case EventState::kFailed:
      return fmt::format("failed (status {})", status);
    case EventState::kAborted:
      return fmt::format("aborted (status {})", status);
    case EventState::kNone:
      break;
  }
  return fmt::format("in state {} (status {})", static_cast<uint32_t>(state),
                     status);
}

std::string DescribeRing(const shm::FlightRecording& recording,
                         uint16_t event_id, uint32_t generation) {
  const shm::RingName* const name = recording.NameOf(event_id, generation);
  if (name == nullptr) {
    return fmt::format("event {} (generation {})", event_id, generation);
  }
  return fmt::format(
      "{} {} ({})", name->device, name->kernel,
      name->label.empty() ? fmt::format("event {}", event_id) : name->label);
}

std::string Describe(const shm::FlightRecording& recording,
                     const FlightRecord& r) {
  const std::string ring = DescribeRing(recording, r.event_id, r.generation);
  const std::string end = DescribeEnd(r.state, r.status);
  switch (r.step) {
    case Step::kAttached:
      return fmt::format("attaches to gpud (pid {}), generation {}", r.sequence,
                         r.generation);
    case Step::kDetached:
      return "detaches";
    case Step::kClosed:
      return fmt::format("sees its session closed: {}",
                         DescribeReason(r.status));
    case Step::kRegistered:
      return fmt::format("{}: registers it, {} entries", ring, r.status);
    case Step::kResumed:
      return fmt::format("{}: goes on with it after sequence {}", ring,
                         r.sequence);
    case Step::kMissed:
      return fmt::format("{}: has waited {} ms for sequence {} in vain", ring,
                         r.status, r.sequence);
    case Step::kFound:
      return fmt::format("{}: finds sequence {}, {}, and has not taken it",
                         ring, r.sequence, end);
    case Step::kMismatched:
      return fmt::format("{}: sequence {} has a wrong output", ring,
                         r.sequence);
    case Step::kUnregistered:
      return fmt::format("{}: unregisters it after sequence {}{}", ring,
                         r.sequence,
                         r.status == 1 ? ", not confirmed by gpud" : "");
    case Step::kScheduling:
      return fmt::format("{}: asks gpud to launch up to sequence {}", ring,
                         r.sequence);
    case Step::kRung:
      return r.status == 1
                 ? fmt::format("{}: rings sequence {}", ring, r.sequence)
                 : fmt::format("{}: rings {} sequences up to {}", ring,
                               r.status, r.sequence);
    case Step::kTaken:
      return fmt::format("{}: takes sequence {}, {}", ring, r.sequence, end);
    case Step::kSessionBegan:
      return fmt::format("a device (pid {}) begins its session, generation {}",
                         r.sequence, r.generation);
    case Step::kSessionEnded:
      return fmt::format("the session of pid {} (generation {}) ends: {}",
                         r.sequence, r.generation, DescribeReason(r.status));
    case Step::kRingMade:
      return fmt::format("{}: makes its ring for pid {}{}", ring, r.sequence,
                         r.status != 0 ? "" : ", whose kernels end themselves");
    case Step::kRingRemoved:
      return fmt::format("{}: removes its ring", ring);
    case Step::kEnded:
      return fmt::format("{}: ends sequence {}, {}", ring, r.sequence, end);
    case Step::kEndNoted:
      return fmt::format("{}: notes the end of sequence {}, {}", ring,
                         r.sequence, end);
    case Step::kCounted:
      return fmt::format("{}: counts {} ends in all", ring, r.sequence);
    case Step::kSeen:
      return fmt::format("{}: sees sequence {}", ring, r.sequence);
    case Step::kDispatched:
      return fmt::format("{}: dispatches sequence {}", ring, r.sequence);
    case Step::kNone:
      break;
  }
  return "does what this version does not know";
}

std::string DescribeProcess(const shm::FlightRecording& recording) {
  return fmt::format("{} (pid {})", recording.name, recording.pid);
}

std::vector<RecordRef> RecordsAround(std::span<const RecordRef> merged,
                                     RecordRef place, size_t before,
                                     size_t after) {
  const auto found = std::find(merged.begin(), merged.end(), place);
  if (found == merged.end()) return {};
  const auto behind = static_cast<size_t>(found - merged.begin());
  const auto ahead = static_cast<size_t>(merged.end() - found) - 1;
  return {found - std::min(before, behind), found + std::min(after, ahead) + 1};
}

}  // namespace carillon::ledger
