#include "tools/testbed/ledger/ring_ledger.h"

#include <algorithm>

#include "base/clock.h"
#include "fmt/format.h"

namespace carillon::ledger {
namespace {

using shm::EventState;
using shm::FlightRecord;
using shm::Step;

bool IsEnd(EventState state) {
  return state == EventState::kDone || state == EventState::kFailed ||
         state == EventState::kAborted;
}

std::string Sequences(uint64_t first, uint64_t last) {
  return first == last ? fmt::format("sequence {}", first)
                       : fmt::format("sequences {} to {}", first, last);
}

}  // namespace

GpudBook ReadGpud(Recordings recordings, size_t index, const Accuse& accuse) {
  const shm::FlightRecording& recording = recordings[index];
  GpudBook book{.recording = &recording, .index = index};
  const bool gaps = recording.overwritten != 0 || recording.torn != 0;
  for (size_t i = 0; i < recording.records.size(); ++i) {
    const FlightRecord& record = recording.records[i];
    const RecordRef at{index, i};
    const auto blame = [&](Fault fault, std::string_view what) {
      accuse({fault,
              fmt::format(
                  "{}, {}: {}", DescribeProcess(recording),
                  DescribeRing(recording, record.event_id, record.generation),
                  what),
              at});
    };
    switch (record.step) {
      case Step::kSessionBegan:
        book.sessions[record.generation] = false;
        break;
      case Step::kSessionEnded:
        book.sessions[record.generation] = true;
        break;
      case Step::kRingMade: {
        GpudRing& ring = book.rings[record.generation];
        if (ring.made) {
          blame(Fault::kUnexpected, "a second ring of this generation");
          break;
        }
        ring.made = true;
        ring.whole = record.status != 0;
        ring.device_pid = record.sequence;
        ring.made_at = at;
        break;
      }
      case Step::kRingRemoved: {
        GpudRing& ring = book.rings[record.generation];
        if (ring.removed || (!ring.made && !gaps)) {
          blame(Fault::kUnexpected, "a ring is removed that there is not");
        }
        ring.removed = true;
        break;
      }
      case Step::kCounted: {
        GpudRing& ring = book.rings[record.generation];
        if (ring.counted || ring.removed || (!ring.made && !gaps)) {
          blame(Fault::kUnexpected,
                "the ends of a ring are counted twice, or of one that there "
                "is not");
        }
        ring.counted = record.sequence;
        ring.counted_at = at;
        break;
      }
      case Step::kSeen:
        book.rings[record.generation].seen.try_emplace(record.sequence, at);
        break;
      case Step::kDispatched: {
        const GpudRing& ring = book.rings[record.generation];
        const auto seen = ring.seen.find(record.sequence);
        // Where kernels store their own ends, the times are those of a GPU.
        if (!ring.whole || seen == ring.seen.end()) break;
        const Nanoseconds time = recording.records[seen->second.record].time_ns;
        if (record.time_ns < time) {
          blame(Fault::kUnexpected,
                fmt::format("sequence {} was dispatched {} ns before it was "
                            "seen",
                            record.sequence, time - record.time_ns));
        }
        break;
      }
      case Step::kEnded:
      case Step::kEndNoted: {
        GpudRing& ring = book.rings[record.generation];
        if (ring.removed || (!ring.made && !gaps)) {
          blame(Fault::kUnexpected,
                fmt::format("sequence {} ends on a ring that there is not",
                            record.sequence));
        }
        if (!IsEnd(record.state)) {
          blame(Fault::kUnexpected,
                fmt::format("sequence {} ends {}", record.sequence,
                            DescribeEnd(record.state, record.status)));
        }
        const auto [first, is_new] = ring.ends.try_emplace(
            record.sequence, End{record.state, record.status, at});
        if (!is_new) {
          blame(Fault::kDuplicated,
                fmt::format(
                    "gpud ends sequence {} twice: {}, and then {}",
                    record.sequence,
                    DescribeEnd(first->second.state, first->second.status),
                    DescribeEnd(record.state, record.status)));
        }
        break;
      }
      default:
        blame(Fault::kUnexpected,
              fmt::format("gpud records what only devices do: '{}'",
                          shm::StepName(record.step)));
    }
  }
  return book;
}

DeviceRing::DeviceRing(const shm::FlightRecording& recording, size_t index,
                       uint16_t event_id, Life life, uint32_t entries,
                       bool from_start)
    : recording_(recording),
      index_(index),
      event_id_(event_id),
      entries_(entries),
      from_start_(from_start),
      lives_{life},
      rings_known_(from_start) {
  if (from_start) base_ = 0;
}

void DeviceRing::Blame(const Accuse& accuse, Fault fault, RecordRef at,
                       std::string what, uint64_t events) {
  Add(counts_.faults[static_cast<size_t>(fault)], events);
  accuse({fault,
          fmt::format("{}, {}: {}", DescribeProcess(recording_),
                      DescribeRing(recording_, event_id_, generation()), what),
          at, events});
}

void DeviceRing::Schedule(uint64_t through, RecordRef at) {
  if (through <= scheduled_) return;
  schedules_.push_back({scheduled_ + 1, through, at});
  scheduled_ = through;
}

void DeviceRing::NoteRing(uint64_t through, uint32_t count, RecordRef at,
                          const Accuse& accuse) {
  const uint64_t before = through - count;
  if (count == 0 || count > through || count > shm::kMaxRingEntries) {
    Blame(accuse, Fault::kOutOfOrder, at,
          fmt::format("{} rings up to sequence {}", count, through));
    return;
  }
  const bool gap_explained = !rings_known_ || torn();
  if (rings_known_ && before < rung_) {
    Blame(accuse, Fault::kOutOfOrder, at,
          fmt::format("rings {} when {} were rung",
                      Sequences(before + 1, through), rung_));
  } else if (before > rung_ && !gap_explained) {
    Blame(accuse, Fault::kOutOfOrder, at,
          fmt::format("rings {} when only {} were rung",
                      Sequences(before + 1, through), rung_));
  }
  rings_known_ = true;
  if (through <= rung_) return;
  bells_.push_back({before + 1, through, at});
  rung_ = through;
  if (base_ && !torn() && rung_ > taken_ && rung_ - taken_ > entries_) {
    Blame(accuse, Fault::kOutOfOrder, at,
          fmt::format("{} events are in flight on a ring of {} entries",
                      rung_ - taken_, entries_));
  }
}

void DeviceRing::Take(uint64_t sequence, End end, const Accuse& accuse) {
  if (!base_) {
    base_ = sequence == 0 ? 0 : sequence - 1;
    taken_ = *base_;
  }
  if (!IsEnd(end.state)) {
    Blame(accuse, Fault::kUnexpected, end.place,
          fmt::format("takes sequence {}, {}", sequence,
                      DescribeEnd(end.state, end.status)));
  }
  if (sequence <= *base_ || ends_.contains(sequence)) {
    Blame(accuse, Fault::kDuplicated, end.place,
          fmt::format("takes sequence {} twice", sequence));
    return;
  }
  if (!rings_known_ || torn()) {
    if (sequence - *base_ <= recording_.written + shm::kMaxRingEntries) {
      rung_ = std::max(rung_, sequence);
    }
  }
  if (sequence > std::max(rung_, scheduled_)) {
    Blame(accuse, Fault::kUnexpected, end.place,
          fmt::format("takes sequence {} when {} were rung", sequence, rung_));
    return;
  }
  if (Unskip(sequence)) {
    Blame(accuse, Fault::kOutOfOrder, end.place,
          fmt::format("takes sequence {} after {}", sequence, taken_));
  }
  if (sequence > taken_ && sequence - taken_ > 1) {
    skipped_[taken_ + 1] = {sequence - 1, end.place};
  }
  taken_ = std::max(taken_, sequence);
  ends_.emplace(sequence, end);
}

void DeviceRing::Resume(Life life, RecordRef at) {
  lives_.push_back(life);
  resumptions_.push_back({taken_, std::exchange(found_, {}), at});
  missed_.reset();  // it was another gpud that it waited for
}

void DeviceRing::Miss(uint64_t sequence, RecordRef at) {
  const bool again = missed_ && missed_->sequence == sequence;
  missed_ = {sequence, at, again ? std::optional(missed_->at) : std::nullopt};
}

void DeviceRing::Find(uint64_t sequence, End end, const Accuse& accuse) {
  if (!IsEnd(end.state)) {
    Blame(accuse, Fault::kUnexpected, end.place,
          fmt::format("finds sequence {}, {}", sequence,
                      DescribeEnd(end.state, end.status)));
    return;
  }
  if (rings_known_ && !torn() && sequence > std::max(rung_, scheduled_)) {
    Blame(accuse, Fault::kUnexpected, end.place,
          fmt::format("finds sequence {} when {} were rung", sequence, rung_));
    return;
  }
  found_.insert_or_assign(sequence, end);
}

void DeviceRing::Mismatch(uint64_t sequence, RecordRef at,
                          const Accuse& accuse) {
  Blame(accuse, Fault::kWrong, at,
        fmt::format("sequence {} has an output that its input does not make",
                    sequence));
}

void DeviceRing::Close(uint64_t taken, shm::LetGo how, RecordRef at,
                       const Accuse& accuse) {
  closed_ = {taken, how == shm::LetGo::kConfirmed,
             how == shm::LetGo::kConfirmed || how == shm::LetGo::kAfterEnd, at};
  if (!base_ || torn() || taken == taken_) return;
  Blame(accuse, Fault::kContradicted, at,
        fmt::format("says that it has taken all up to sequence {}, and has "
                    "recorded that up to {}",
                    taken, taken_),
        taken > taken_ && taken - taken_ <= entries_ ? taken - taken_ : 1);
}

const DeviceRing::Skip* DeviceRing::SkipOf(uint64_t sequence) const {
  auto skip = skipped_.upper_bound(sequence);
  if (skip == skipped_.begin()) return nullptr;
  --skip;
  return sequence <= skip->second.last ? &skip->second : nullptr;
}

bool DeviceRing::Unskip(uint64_t sequence) {
  auto found = skipped_.upper_bound(sequence);
  if (found == skipped_.begin()) return false;
  --found;
  const auto [first, skip] = *found;
  if (sequence > skip.last) return false;
  skipped_.erase(found);
  if (first < sequence) skipped_[first] = {sequence - 1, skip.at};
  if (sequence < skip.last) skipped_[sequence + 1] = skip;
  return true;
}

std::vector<uint64_t> DeviceRing::Stretches(uint64_t first,
                                            uint64_t last) const {
  std::vector<uint64_t> starts = {first};
  const auto add = [&](uint64_t from, uint64_t through) {
    if (from >= first && from <= last) starts.push_back(from);
    if (through >= first && through < last) starts.push_back(through + 1);
  };
  add(first, rung_);
  for (const auto& [from, skip] : skipped_) add(from, skip.last);
  for (const auto& [sequence, end] : ends_) add(sequence, sequence);
  for (const auto& [sequence, end] : found_) add(sequence, sequence);
  for (const Life& life : lives_) {
    const GpudRing* const ring = RingOf(life);
    if (ring == nullptr) continue;
    for (const auto& [sequence, end] : ring->ends) add(sequence, sequence);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

std::optional<End> DeviceRing::GpudsWord(uint64_t sequence) const {
  const GpudRing* const ring = RingOf(lives_.back());
  if (ring == nullptr) return std::nullopt;
  const auto found = ring->ends.find(sequence);
  if (found == ring->ends.end()) return std::nullopt;
  return found->second;
}

const DeviceRing::Life& DeviceRing::LifeAt(RecordRef at) const {
  const auto later = std::ranges::upper_bound(
      resumptions_, at.record, {},
      [](const Resumption& resumption) { return resumption.at.record; });
  return lives_[static_cast<size_t>(later - resumptions_.begin())];
}

bool DeviceRing::GpudsSilenceCounts(const Life& life, Nanoseconds time,
                                    bool seen) const {
  if (life.gpud == nullptr) return false;
  if (const GpudRing* ring = RingOf(life)) {
    return (seen ? life.gpud->Complete(*ring)
                 : life.gpud->CompleteOfUnseen(*ring)) &&
           (life.gpud->HasLeft(*ring, life.session) ||
            !life.gpud->TooEarlyFor(time));
  }
  return life.gpud->recording->torn == 0 &&
         life.gpud->recording->overwritten == 0 &&
         !life.gpud->TooEarlyFor(time);
}

bool DeviceRing::GpudSurvived(const Life& life) const {
  const GpudRing* const ring = RingOf(life);
  return ring != nullptr && (life.gpud->recording->running ||
                             life.gpud->HasLeft(*ring, life.session));
}

std::optional<Nanoseconds> DeviceRing::ToldAt(uint64_t sequence) const {
  std::optional<Nanoseconds> told;
  for (const std::vector<Bell>* bells : {&bells_, &schedules_}) {
    const auto found = std::lower_bound(
        bells->begin(), bells->end(), sequence,
        [](const Bell& bell, uint64_t s) { return bell.last < s; });
    if (found == bells->end() || found->first > sequence) continue;
    const Nanoseconds time = RecordAt(found->at).time_ns;
    told = std::min(told.value_or(time), time);
  }
  return told;
}

Unknown DeviceRing::WhyUnknown(const DeviceEnd& device_end) const {
  const bool confirmed = closed_ && closed_->confirmed;
  if (device_end.saw_death && !confirmed) return Unknown::kGpudDied;
  if (!closed_ && !device_end.left) {
    return recording_.running ? Unknown::kStillRunning : Unknown::kDeviceDied;
  }
  const Life& life = lives_.back();
  if (life.gpud == nullptr) return Unknown::kNotRecorded;
  if (life.gpud->recording->torn != 0) return Unknown::kTorn;
  const GpudRing* const ring = RingOf(life);
  if (ring == nullptr || !ring->made) {
    return life.gpud->recording->overwritten != 0 ? Unknown::kOverwritten
                                                  : Unknown::kNotRecorded;
  }
  if (!ring->whole && !ring->counted) return Unknown::kNotRecorded;
  if (confirmed && life.gpud->TooEarlyFor(RecordAt(closed_->at).time_ns)) {
    return Unknown::kStillRunning;
  }
  return torn() ? Unknown::kTorn : Unknown::kSessionEnded;
}

bool DeviceRing::WaitedInVain(uint64_t sequence, const End& gpuds) const {
  if (!missed_ || missed_->sequence != sequence || !missed_->before || torn()) {
    return false;
  }
  const Life& life = lives_.back();
  const GpudRing* const ring = RingOf(life);
  // The end came from the gpud that the device waits for. One wait proves
  // nothing: the end may have come between its last look and its record.
  return ring != nullptr && ring->ends.contains(sequence) &&
         life.gpud->recording->records[gpuds.place.record].time_ns <
             RecordAt(*missed_->before).time_ns;
}

void DeviceRing::JudgeSeen(uint64_t sequence, const End& end,
                           std::string_view how, const Accuse& accuse) {
  if (!IsEnd(end.state)) return;  // accused of that already
  Count(end);
  // Memory of an earlier gpud is gone, and a later one ends nothing in it.
  const Life& life = LifeAt(end.place);
  const bool of_last = &life == &lives_.back();
  seen_ += of_last;
  std::optional<End> other;
  if (const GpudRing* const ring = RingOf(life)) {
    const auto found = ring->ends.find(sequence);
    if (found != ring->ends.end()) other = found->second;
  }
  if (other && other->SameAs(end)) return;
  if (other) {
    Blame(accuse, Fault::kContradicted, end.place,
          fmt::format("{} sequence {} as {}, but gpud ended it as {}", how,
                      sequence, DescribeEnd(end.state, end.status),
                      DescribeEnd(other->state, other->status)));
  } else if (GpudsSilenceCounts(life, RecordAt(end.place).time_ns,
                                /*seen=*/true) &&
             GpudSurvived(life)) {
    Blame(accuse, Fault::kContradicted, end.place,
          fmt::format("{} sequence {} as {}, but gpud never ended it", how,
                      sequence, DescribeEnd(end.state, end.status)));
  } else {
    ++(of_last ? unconfirmed_ : counts_.unconfirmed);
  }
}

void DeviceRing::JudgeGpudsWord(uint64_t sequence, const End& word,
                                const Accuse& accuse) {
  const std::string ended =
      fmt::format("never gets sequence {}: gpud ended it as {}", sequence,
                  DescribeEnd(word.state, word.status));
  if (WaitedInVain(sequence, word)) {
    Blame(accuse, Fault::kLost, missed_->at,
          fmt::format("{}, and the device has waited for it since", ended));
    return;
  }
  const GpudBook* const gpud = lives_.back().gpud;
  const Nanoseconds told = gpud->recording->records[word.place.record].time_ns;
  if (torn()) {
    CountUnknown(Unknown::kTorn, 1);
  } else if (closed_ && sequence <= closed_->taken) {
    // accused of a contradiction already
  } else if (closed_) {
    // Gpud stores all ends before it confirms that a ring or a session is gone,
    // and a dead one stores nothing. That the session ended later proves
    // nothing of a ring that the device let go of before.
    const bool looked_last =
        closed_->looked_last ||
        told + kRecordsWithin < RecordAt(closed_->at).time_ns;
    if (looked_last) {
      Blame(accuse, Fault::kLost, closed_->at,
            fmt::format("{}, and no end of it lay in the ring when the device "
                        "let go of it",
                        ended));
    } else {
      CountUnknown(Unknown::kSessionEnded, 1);
    }
  } else if (!recording_.running) {
    CountUnknown(Unknown::kDeviceDied, 1);
  } else {
    CountUnknown(told + kRecordsWithin < recording_.read_ns
                     ? Unknown::kNotTaken
                     : Unknown::kStillRunning,
                 1);
  }
}

void DeviceRing::JudgeCount(const Accuse& accuse) {
  const Life& life = lives_.back();
  const GpudRing* const ring = RingOf(life);
  const bool all_recorded =
      ring != nullptr && ring->made && ring->counted &&
      life.gpud->recording->torn == 0 && from_start_ && !torn() &&
      recording_.overwritten == 0 &&
      !(recording_.running && !closed_ &&
        life.gpud->recording->records[ring->counted_at.record].time_ns +
                kRecordsWithin >=
            recording_.read_ns);
  if (!all_recorded) {
    Add(counts_.unconfirmed, unconfirmed_);
    return;
  }
  uint64_t told = seen_;
  for (const auto& [sequence, end] : ring->ends) {
    const auto taken = ends_.find(sequence);
    const bool seen =
        found_.contains(sequence) ||
        (taken != ends_.end() && &LifeAt(taken->second.place) == &life);
    told += !seen;
  }
  if (told == *ring->counted) return;
  Add(counts_.unconfirmed, unconfirmed_);
  Blame(accuse, Fault::kContradicted, ring->counted_at,
        fmt::format("{} events have ended as gpud has counted, and {} as it "
                    "and the device tell",
                    *ring->counted, told),
        std::max(told, *ring->counted) - std::min(told, *ring->counted));
}

void DeviceRing::JudgeLeftBehind(size_t life, const Accuse& accuse) {
  const GpudRing* const ring = RingOf(lives_[life]);
  if (ring == nullptr || torn()) return;
  const Resumption& resumption = resumptions_[life];
  const std::map<uint64_t, End> ends(ring->ends.begin(), ring->ends.end());
  for (auto end = ends.upper_bound(std::max(resumption.taken, *base_));
       end != ends.end(); ++end) {
    if (end->first > rung_ || resumption.found.contains(end->first)) continue;
    Blame(
        accuse, Fault::kContradicted, end->second.place,
        fmt::format("gpud recorded the end of sequence {}, and had not stored "
                    "it when it died",
                    end->first));
  }
}

void DeviceRing::JudgeMissing(uint64_t first, uint64_t last,
                              const DeviceEnd& device_end,
                              const Accuse& accuse) {
  const uint64_t events = last - first + 1;
  const Skip* const skipped = SkipOf(first);
  if (skipped != nullptr && !torn()) {
    Blame(accuse, Fault::kLost, skipped->at,
          fmt::format("never takes {}: it took what follows",
                      Sequences(first, last)),
          events);
  } else if (closed_ && closed_->confirmed && !torn() &&
             GpudsSilenceCounts(lives_.back(), RecordAt(closed_->at).time_ns,
                                /*seen=*/false)) {
    Blame(accuse, Fault::kLost, closed_->at,
          fmt::format("{} never ended: neither side has an end when the "
                      "ring goes",
                      Sequences(first, last)),
          events);
  } else if (missed_ && missed_->sequence >= first &&
             missed_->sequence <= last && device_end.detached && !torn() &&
             GpudSurvived(lives_.back()) &&
             GpudsSilenceCounts(lives_.back(), RecordAt(missed_->at).time_ns,
                                /*seen=*/false)) {
    // gpud ends the events that it saw rung when a device leaves.
    Blame(accuse, Fault::kLost, missed_->at,
          fmt::format("waits for {} in vain, and gpud never ended it",
                      Sequences(first, last)),
          events);
  } else {
    CountUnknown(skipped != nullptr ? Unknown::kTorn : WhyUnknown(device_end),
                 events);
  }
}

void DeviceRing::JudgeGpud(const Life& life, const Accuse& accuse) {
  const GpudRing* const ring = RingOf(life);
  if (ring == nullptr) return;
  for (const auto& [sequence, end] :
       std::map<uint64_t, End>(ring->ends.begin(), ring->ends.end())) {
    const Nanoseconds time =
        life.gpud->recording->records[end.place.record].time_ns;
    const bool read_too_early =
        recording_.running && time >= recording_.read_ns;
    if (sequence == 0 || (sequence > std::max(rung_, scheduled_) &&
                          rings_known_ && !torn() && !read_too_early)) {
      Blame(accuse, Fault::kUnexpected, end.place,
            fmt::format("gpud ended sequence {}, but only {} were rung",
                        sequence, rung_));
      continue;
    }
    if (const auto told = ToldAt(sequence); told && time < *told) {
      Blame(accuse, Fault::kUnexpected, end.place,
            fmt::format("gpud ended sequence {} {} ns before it was rung",
                        sequence, *told - time));
    }
  }
  for (const auto& [sequence, at] :
       std::map<uint64_t, RecordRef>(ring->seen.begin(), ring->seen.end())) {
    const Nanoseconds time = life.gpud->recording->records[at.record].time_ns;
    const auto told = ring->whole ? ToldAt(sequence) : std::nullopt;
    if (told && time < *told) {
      Blame(accuse, Fault::kUnexpected, at,
            fmt::format("gpud saw sequence {} {} ns before it was rung",
                        sequence, *told - time));
    }
  }
  if (!closed_ || !closed_->confirmed || !ring->made || ring->removed ||
      life.gpud->recording->torn != 0 || &life != &lives_.back() ||
      life.gpud->TooEarlyFor(RecordAt(closed_->at).time_ns)) {
    return;
  }
  Blame(accuse, Fault::kContradicted, closed_->at,
        "gpud has confirmed that the ring is gone, and has not removed it");
}

void DeviceRing::JudgeEvents(uint64_t first, uint64_t last,
                             const DeviceEnd& device_end,
                             const Accuse& accuse) {
  uint64_t missing_from = 0;
  const auto end_missing = [&](uint64_t through) {
    if (missing_from == 0) return;
    JudgeMissing(missing_from, through, device_end, accuse);
    missing_from = 0;
  };
  // A recording may claim 2^64 events, so they cannot be judged one by one:
  // all events of a stretch have the same evidence.
  for (const uint64_t s : Stretches(first, last)) {
    const auto taken = ends_.find(s);
    const auto found = found_.find(s);
    const bool seen = taken != ends_.end() || found != found_.end();
    // An event that was jumped over is for the device to explain.
    const bool jumped = SkipOf(s) != nullptr && !torn();
    const std::optional<End> word =
        !seen && !jumped ? GpudsWord(s) : std::nullopt;
    const bool missing = !seen && !word && s <= rung_;
    if (!missing ||
        (missing_from != 0 && jumped != (SkipOf(missing_from) != nullptr))) {
      end_missing(s - 1);
    }
    if (missing) {
      if (missing_from == 0) missing_from = s;
    } else if (word) {
      JudgeGpudsWord(s, *word, accuse);
    } else if (taken != ends_.end()) {
      JudgeSeen(s, taken->second, "takes", accuse);
    } else if (found != found_.end()) {
      ++counts_.untaken;
      JudgeSeen(s, found->second, "finds", accuse);
    }
  }
  end_missing(last);
}

RingReport DeviceRing::Judge(const DeviceEnd& device_end,
                             const Accuse& accuse) {
  // Without a recorded start and end, only rings within the recording count.
  if (!base_) base_ = bells_.empty() ? rung_ : bells_.front().first - 1;
  const Unknown gap =
      recording_.overwritten != 0 ? Unknown::kOverwritten : Unknown::kTorn;
  CountUnknown(gap, *base_);
  const uint64_t last = std::max(rung_, scheduled_);
  if (last > *base_) JudgeEvents(*base_ + 1, last, device_end, accuse);
  JudgeCount(accuse);
  for (const Life& life : lives_) JudgeGpud(life, accuse);
  for (size_t i = 0; i < resumptions_.size(); ++i) JudgeLeftBehind(i, accuse);
  return {recording_.name, recording_.pid, event_id_, generation(), counts_};
}

}  // namespace carillon::ledger
