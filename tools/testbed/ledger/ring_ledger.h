// The two books of a ring: what gpud has recorded of it, and what its device
// has recorded.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_RING_LEDGER_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_RING_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::ledger {

using Accuse = std::function<void(Violation)>;

// Adds, but stops at the largest number, because hostile recordings may claim
// more.
inline void Add(uint64_t& to, uint64_t number) {
  if (__builtin_add_overflow(to, number, &to)) to = UINT64_MAX;
}

struct End {
  shm::EventState state = shm::EventState::kNone;
  uint32_t status = 0;
  RecordRef place;

  bool SameAs(const End& other) const {
    return state == other.state && status == other.status;
  }
};

struct GpudRing {
  bool made = false;  // its creation is recorded, and so is all that came later
  bool whole = false;  // gpud records every end itself
  // Where it does not: how many there were, when it let go of the ring. Then all
  // ends that the device may not have taken are recorded.
  std::optional<uint64_t> counted;
  RecordRef counted_at;
  bool removed = false;
  uint64_t device_pid = 0;
  RecordRef made_at;
  std::unordered_map<uint64_t, End> ends;
  std::unordered_map<uint64_t, RecordRef> seen;  // while gpud traced
};

struct GpudBook {
  const shm::FlightRecording* recording = nullptr;
  size_t index = 0;                              // the recording's index
  std::unordered_map<uint32_t, GpudRing> rings;  // indexed by generation
  // Whether a session has ended, by its generation: a process may have many.
  std::unordered_map<uint32_t, bool> sessions;

  const GpudRing* Find(uint32_t generation) const {
    const auto found = rings.find(generation);
    return found == rings.end() ? nullptr : &found->second;
  }
  // Whether an end that is missing from the book did not happen, rather than
  // being lost from the recording.
  bool Complete(const GpudRing& ring) const {
    return ring.made && ring.whole && recording->torn == 0;
  }
  // The same of an end that the device has not seen.
  bool CompleteOfUnseen(const GpudRing& ring) const {
    return ring.made && (ring.whole || ring.counted) && recording->torn == 0;
  }
  // Whether the recording may lack what happened at `time`: gpud records an end
  // after it has stored it.
  bool TooEarlyFor(Nanoseconds time) const {
    return recording->running && time + kRecordsWithin >= recording->read_ns;
  }
  // Whether gpud let go of a session's ring in order, so that it has recorded
  // all ends.
  bool HasLeft(const GpudRing& ring, uint32_t session) const {
    const auto found = sessions.find(session);
    return ring.removed || (found != sessions.end() && found->second);
  }
};

// Reads one gpud's recording, and reports what its own records already prove.
GpudBook ReadGpud(Recordings recordings, size_t index, const Accuse& accuse);

// A device's book of one ring.
class DeviceRing {
 public:
  // The ring while one gpud serves it, with `generation` and gpud's book (null:
  // not recorded).
  struct Life {
    const GpudBook* gpud = nullptr;
    uint32_t generation = 0;
    uint32_t session = 0;  // the session's generation; 0: not recorded
  };

  DeviceRing(const shm::FlightRecording& recording, size_t index,
             uint16_t event_id, Life life, uint32_t entries, bool from_start);

  // Another gpud goes on: what the device found until now lay in the old memory.
  void Resume(Life life, RecordRef at);
  void Schedule(uint64_t through, RecordRef at);
  void NoteRing(uint64_t through, uint32_t count, RecordRef at,
                const Accuse& accuse);
  void Take(uint64_t sequence, End end, const Accuse& accuse);
  // Notes an end that lies in the ring and was not taken.
  void Find(uint64_t sequence, End end, const Accuse& accuse);
  // Notes that the device found the event's output wrong.
  void Mismatch(uint64_t sequence, RecordRef at, const Accuse& accuse);
  // Notes that the device has waited for the end of `sequence` in vain.
  void Miss(uint64_t sequence, RecordRef at);
  void Close(uint64_t taken, shm::LetGo how, RecordRef at,
             const Accuse& accuse);

  uint16_t event_id() const { return event_id_; }
  uint32_t generation() const { return lives_.back().generation; }
  bool closed() const { return closed_.has_value(); }
  const std::vector<Life>& lives() const { return lives_; }

  struct DeviceEnd {
    bool left = false;      // the device detached, or saw the session closed
    bool detached = false;  // the device itself detached, and gpud confirmed it
    bool saw_death = false;  // gpud died, and the device did not resume
  };
  // Judges every event by both books, and also what gpud has recorded beyond
  // them. Call it once, after all records.
  RingReport Judge(const DeviceEnd& device_end, const Accuse& accuse);

 private:
  struct Bell {
    uint64_t first = 0;
    uint64_t last = 0;
    RecordRef at;
  };
  // Events that a completion has jumped over and that are still missing, and
  // where it jumped. One entry stands for all of them: a recording may claim
  // more events than anybody could list.
  struct Skip {
    uint64_t last = 0;
    RecordRef at;
  };

  // Reports a violation and counts it.
  void Blame(const Accuse& accuse, Fault fault, RecordRef at, std::string what,
             uint64_t events = 1);
  const shm::FlightRecord& RecordAt(RecordRef at) const {
    return recording_.records[at.record];
  }
  const GpudRing* RingOf(const Life& life) const {
    return life.gpud == nullptr ? nullptr : life.gpud->Find(life.generation);
  }
  // What the last gpud says of the event: an earlier one's word counts for
  // nothing, because what was not taken then was rung again.
  std::optional<End> GpudsWord(uint64_t sequence) const;
  // The gpud in whose memory the device has seen what it recorded there.
  const Life& LifeAt(RecordRef at) const;
  // Whether an end at `time` would be in gpud's recording, so that its absence
  // proves that there was none. `seen`: by the device.
  bool GpudsSilenceCounts(const Life& life, Nanoseconds time, bool seen) const;
  // False if gpud died with the ring: one that dies may have stored an end and
  // not recorded it.
  bool GpudSurvived(const Life& life) const;
  // When gpud first learned of the event; empty if no record says it.
  std::optional<Nanoseconds> ToldAt(uint64_t sequence) const;
  Unknown WhyUnknown(const DeviceEnd& device_end) const;
  // Whether the device waited in vain for this event at a time when gpud had
  // already ended it.
  bool WaitedInVain(uint64_t sequence, const End& gpuds) const;
  // Judges an end that the device has seen: that it `takes` or `finds`.
  void JudgeSeen(uint64_t sequence, const End& end, std::string_view how,
                 const Accuse& accuse);
  // Judges an end that only gpud tells of.
  void JudgeGpudsWord(uint64_t sequence, const End& word, const Accuse& accuse);
  // Judges the number of ends that the last gpud has counted, where it has not
  // recorded each: with what it tells of itself, the device must have seen as many.
  void JudgeCount(const Accuse& accuse);
  // Judges what a gpud has recorded of an event that the device resumed with
  // another one.
  void JudgeLeftBehind(size_t life, const Accuse& accuse);
  // Judges the events from `first` to `last`, both included.
  void JudgeEvents(uint64_t first, uint64_t last, const DeviceEnd& device_end,
                   const Accuse& accuse);
  void JudgeMissing(uint64_t first, uint64_t last, const DeviceEnd& device_end,
                    const Accuse& accuse);
  void JudgeGpud(const Life& life, const Accuse& accuse);
  void CountUnknown(Unknown why, uint64_t events) {
    Add(counts_.unknown[static_cast<size_t>(why)], events);
  }
  void Count(const End& end) {
    ++(end.state == shm::EventState::kDone ? counts_.ok : counts_.failed);
  }
  bool torn() const { return recording_.torn != 0; }
  const Skip* SkipOf(uint64_t sequence) const;
  // Takes the sequence out of its skip; false if it is in none.
  bool Unskip(uint64_t sequence);
  // Splits `first` to `last` at every event whose evidence may differ from the
  // one before. Returns the beginnings in order, each once, `first` among them.
  std::vector<uint64_t> Stretches(uint64_t first, uint64_t last) const;

  const shm::FlightRecording& recording_;
  const size_t index_;
  const uint16_t event_id_;
  const uint32_t entries_;
  const bool from_start_;
  std::vector<Life> lives_;

  // Events up to this one are not judged, because their records are
  // overwritten.
  std::optional<uint64_t> base_;
  // The last wait in vain under the last gpud, and the one before it for the
  // same event: since that one the device has looked again.
  struct Missed {
    uint64_t sequence = 0;
    RecordRef at;
    std::optional<RecordRef> before;
  };
  std::optional<Missed> missed_;
  bool rings_known_;  // false until the first ring of a ring without a start
  uint64_t rung_ = 0;
  uint64_t scheduled_ = 0;
  uint64_t taken_ = 0;  // the furthest in order
  std::vector<Bell> bells_;
  std::vector<Bell> schedules_;
  std::map<uint64_t, End> ends_;
  std::map<uint64_t, End> found_;  // since the last resumption
  // What the device had and found when the life of that index had ended.
  struct Resumption {
    uint64_t taken = 0;
    std::map<uint64_t, End> found;
    RecordRef at;
  };
  std::vector<Resumption> resumptions_;
  // By the first sequence of the skip.
  std::map<uint64_t, Skip> skipped_;
  struct Closed {
    uint64_t taken = 0;  // as the device says
    bool confirmed = false;
    bool looked_last = false;  // when nobody could store an end any more
    RecordRef at;
  };
  std::optional<Closed> closed_;
  Counts counts_;
  // Of the last life: ends that the device has seen, and those among them that
  // gpud's recording does not cover.
  uint64_t seen_ = 0;
  uint64_t unconfirmed_ = 0;
};

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_RING_LEDGER_H_
