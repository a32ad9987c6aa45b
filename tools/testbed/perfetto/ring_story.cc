#include "tools/testbed/perfetto/ring_story.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "tools/testbed/ledger/timeline.h"

namespace carillon::perfetto {
namespace {

using shm::EventState;
using shm::FlightRecord;
using shm::FlightRecording;
using shm::RingName;
using shm::Step;

constexpr std::string_view kGpud = "gpud";
constexpr char kDied[] = "died: this was its last step";

const std::string& KernelOf(const FlightRecording& recording,
                            const FlightRecord& record) {
  static const std::string kUnnamed = "event";
  const RingName* const name =
      recording.NameOf(record.event_id, record.generation);
  return name == nullptr ? kUnnamed : name->kernel;
}

RingStory NewRing(const FlightRecording& recording, const FlightRecord& record,
                  uint64_t gpud_pid) {
  return {.event_id = record.event_id,
          .name = ledger::DescribeRing(recording, record.event_id,
                                       record.generation),
          .lives = {{record.generation, gpud_pid, record.time_ns}}};
}

// An event cannot end before it began; what says so shows its end only.
void SetEnd(EventMark& mark, Nanoseconds time) {
  mark.end = time;
  if (time >= mark.begin) return;
  mark.begin = time;
  mark.is_instant = true;
}

// Has gpud's event begin when it was seen, unless the times contradict each
// other: a GPU's clock is only close to the recorder's.
void SetStamps(EventMark& mark, const std::optional<FlightRecord>& seen,
               std::optional<Nanoseconds> dispatched) {
  const Nanoseconds end =
      mark.end.value_or(std::numeric_limits<Nanoseconds>::max());
  if (!seen || seen->time_ns > end) return;
  mark.begin = seen->time_ns;
  mark.is_instant = false;
  if (dispatched && *dispatched >= mark.begin && *dispatched <= end) {
    mark.dispatched = dispatched;
  }
}

class DeviceReader {
 public:
  explicit DeviceReader(const FlightRecording& recording)
      : recording_(recording),
        room_(recording.records.size() + 2 * shm::kMaxRingEntries) {}

  ProcessStory Read() {
    for (const FlightRecord& record : recording_.records) Take(record);
    Nanoseconds last = 0;
    for (const FlightRecord& record : recording_.records) {
      last = std::max(last, record.time_ns);
    }
    if (!recording_.running) {
      for (auto& [event_id, ring] : current_) Close(ring, last);
      if (attached_) story_.texts.push_back({last, kDied});
    }
    return std::move(story_);
  }

 private:
  struct Ring {
    size_t story = 0;  // in story_.rings
    uint32_t entries = shm::kMaxRingEntries;
    bool from_start = false;
    uint64_t told = 0;  // the last that was rung or scheduled
    std::unordered_map<uint64_t, size_t> open;  // sequence to mark
  };

  RingStory& StoryOf(const Ring& ring) { return story_.rings[ring.story]; }
  void AddText(const FlightRecord& record) {
    story_.texts.push_back(
        {record.time_ns, ledger::Describe(recording_, record)});
  }
  void AddText(const Ring& ring, const FlightRecord& record) {
    StoryOf(ring).texts.push_back(
        {record.time_ns, ledger::Describe(recording_, record)});
  }

  Ring& Add(const FlightRecord& record) {
    const auto found = current_.find(record.event_id);
    if (found != current_.end()) Close(found->second, record.time_ns);
    story_.rings.push_back(NewRing(recording_, record, gpud_pid_));
    return current_[record.event_id] = Ring{.story = story_.rings.size() - 1};
  }
  // A ring whose beginning is overwritten begins with what is left.
  Ring& Find(const FlightRecord& record) {
    const auto found = current_.find(record.event_id);
    if (found != current_.end() &&
        StoryOf(found->second).lives.back().generation == record.generation) {
      return found->second;
    }
    return Add(record);
  }
  // Nothing of it ends any more.
  void Close(Ring& ring, Nanoseconds time) {
    if (ring.open.empty()) return;
    for (const auto& [sequence, index] : ring.open) {
      EventMark& mark = StoryOf(ring).marks[index];
      if (!mark.end) SetEnd(mark, time);
    }
    ring.open.clear();
    CountOpen(ring, time);
  }

  void Take(const FlightRecord& record);
  // The events before `through`, `count` of them, begin, unless they have.
  void Begin(Ring& ring, const FlightRecord& record, uint64_t count);
  void End(Ring& ring, const FlightRecord& record);
  void CountOpen(Ring& ring, Nanoseconds time) {
    StoryOf(ring).in_flight.emplace_back(
        time, static_cast<int64_t>(ring.open.size()));
  }

  const FlightRecording& recording_;
  // How many events there may be: a ring of thousands is one record, and a
  // hostile device may record it again and again.
  size_t room_;
  ProcessStory story_{.recording = &recording_};
  std::map<uint16_t, Ring> current_;  // by event id
  uint64_t gpud_pid_ = 0;
  // Where its first records are lost: until it says otherwise.
  bool attached_ = recording_.overwritten + recording_.torn != 0;
};

void DeviceReader::Begin(Ring& ring, const FlightRecord& record,
                         uint64_t count) {
  const uint64_t through = record.sequence;
  uint64_t before = through - std::min(count, through);
  if (ring.from_start || ring.told != 0) before = std::max(before, ring.told);
  if (through <= before) return;
  const uint64_t fresh = through - before;
  RingStory& story = StoryOf(ring);
  // Whose slot is in use again was taken, though no record says so.
  for (uint64_t i = 1; i <= fresh && fresh <= ring.entries; ++i) {
    const auto taken = ring.open.find(before + i - ring.entries);
    if (before + i <= ring.entries || taken == ring.open.end()) continue;
    EventMark& mark = story.marks[taken->second];
    if (!mark.end) SetEnd(mark, record.time_ns);
    ring.open.erase(taken);
  }
  if (fresh > room_ || ring.open.size() + fresh > ring.entries) {
    AddText(ring, record);
    return;
  }
  room_ -= fresh;
  for (uint64_t i = 1; i <= fresh; ++i) {
    const uint64_t sequence = before + i;
    ring.open[sequence] = story.marks.size();
    story.marks.push_back({.begin = record.time_ns,
                           .sequence = sequence,
                           .kernel = &KernelOf(recording_, record)});
  }
  ring.told = through;
  CountOpen(ring, record.time_ns);
}

void DeviceReader::End(Ring& ring, const FlightRecord& record) {
  RingStory& story = StoryOf(ring);
  const bool taken = record.step == Step::kTaken;
  const auto open = ring.open.find(record.sequence);
  if (open == ring.open.end()) {
    story.marks.push_back({.begin = record.time_ns,
                           .end = record.time_ns,
                           .sequence = record.sequence,
                           .state = record.state,
                           .status = record.status,
                           .found = !taken,
                           .is_instant = true,
                           .kernel = &KernelOf(recording_, record)});
    return;
  }
  EventMark& mark = story.marks[open->second];
  SetEnd(mark, record.time_ns);
  mark.state = record.state;
  mark.status = record.status;
  // What it has found in its memory it may still take.
  mark.found = !taken;
  if (!taken) return;
  ring.open.erase(open);
  CountOpen(ring, record.time_ns);
}

void DeviceReader::Take(const FlightRecord& record) {
  switch (record.step) {
    case Step::kAttached:
      gpud_pid_ = record.sequence;
      attached_ = true;
      AddText(record);
      break;
    case Step::kDetached:
    case Step::kClosed:
      attached_ = false;
      AddText(record);
      break;
    case Step::kRegistered: {
      Ring& ring = Add(record);
      ring.entries = std::min(record.status, shm::kMaxRingEntries);
      ring.from_start = true;
      AddText(ring, record);
      break;
    }
    case Step::kResumed: {
      const auto found = current_.find(record.event_id);
      if (found == current_.end()) {
        AddText(Add(record), record);
        break;
      }
      StoryOf(found->second)
          .lives.push_back({record.generation, gpud_pid_, record.time_ns});
      AddText(found->second, record);
      break;
    }
    case Step::kUnregistered: {
      Ring& ring = Find(record);
      AddText(ring, record);
      Close(ring, record.time_ns);
      current_.erase(record.event_id);
      break;
    }
    case Step::kScheduling: {
      Ring& ring = Find(record);
      AddText(ring, record);
      const bool known = ring.from_start || ring.told != 0;
      Begin(ring, record, known ? record.sequence : 1);
      break;
    }
    case Step::kRung:
      Begin(Find(record), record, record.status);
      break;
    case Step::kTaken:
    case Step::kFound:
      End(Find(record), record);
      break;
    case Step::kMissed:
    case Step::kMismatched:
      AddText(Find(record), record);
      break;
    default:
      AddText(record);
  }
}

class GpudReader {
 public:
  explicit GpudReader(const FlightRecording& recording)
      : recording_(recording) {
    story_.is_gpud = true;
  }

  ProcessStory Read() {
    Nanoseconds last = 0;
    for (const FlightRecord& record : recording_.records) {
      Take(record);
      last = std::max(last, record.time_ns);
    }
    for (const auto& [ring, stamps] : stamps_) AddUnended(ring, stamps, last);
    // Where its first records are lost, sessions may be under way that it does
    // not tell of. In order it ends all, and nothing comes after that.
    const auto& records = recording_.records;
    const bool lost = recording_.overwritten + recording_.torn != 0;
    const bool busy =
        !records.empty() && lost && records.back().step != Step::kSessionEnded;
    if (!recording_.running && (!sessions_.empty() || busy)) {
      story_.texts.push_back({last, kDied});
    }
    return std::move(story_);
  }

 private:
  RingStory& Find(const FlightRecord& record) {
    const auto [found, is_new] =
        story_.by_generation.emplace(record.generation, story_.rings.size());
    if (is_new) story_.rings.push_back(NewRing(recording_, record, 0));
    return story_.rings[found->second];
  }
  std::string Words(const FlightRecord& record) const {
    return ledger::Describe(recording_, record);
  }
  void Take(const FlightRecord& record);
  void End(const FlightRecord& record);

  // What is recorded of an event before its end.
  struct Stamps {
    std::optional<FlightRecord> seen;
    std::optional<Nanoseconds> dispatched;
  };
  using RingAndSequence = std::pair<uint32_t, uint64_t>;  // by generation
  // gpud died, or was read, before it recorded the end.
  void AddUnended(const RingAndSequence& event, const Stamps& stamps,
                  Nanoseconds last);

  const FlightRecording& recording_;
  std::map<RingAndSequence, Stamps> stamps_;  // of events without an end
  ProcessStory story_{.recording = &recording_};
  std::set<uint32_t> sessions_;  // under way
};

void GpudReader::Take(const FlightRecord& record) {
  switch (record.step) {
    case Step::kRingMade: {
      RingStory& ring = Find(record);
      ring.device_pid = static_cast<uint32_t>(record.sequence);
      ring.texts.push_back({record.time_ns, Words(record)});
      break;
    }
    case Step::kRingRemoved:
      Find(record).texts.push_back({record.time_ns, Words(record)});
      break;
    case Step::kSeen:
      stamps_[{record.generation, record.sequence}].seen = record;
      break;
    case Step::kDispatched:
      stamps_[{record.generation, record.sequence}].dispatched = record.time_ns;
      break;
    case Step::kEnded:
    case Step::kEndNoted:
      End(record);
      break;
    case Step::kSessionBegan:
      sessions_.insert(record.generation);
      story_.texts.push_back({record.time_ns, Words(record)});
      break;
    case Step::kSessionEnded:
      sessions_.erase(record.generation);
      story_.texts.push_back({record.time_ns, Words(record)});
      break;
    default:
      story_.texts.push_back({record.time_ns, Words(record)});
  }
}

void GpudReader::End(const FlightRecord& record) {
  EventMark mark{.begin = record.time_ns,
                 .end = record.time_ns,
                 .sequence = record.sequence,
                 .state = record.state,
                 .status = record.status,
                 .is_end = true,
                 .is_instant = true,
                 .kernel = &KernelOf(recording_, record)};
  if (const auto found = stamps_.find({record.generation, record.sequence});
      found != stamps_.end()) {
    SetStamps(mark, found->second.seen, found->second.dispatched);
    stamps_.erase(found);
  }
  RingStory& ring = Find(record);
  ring.ends.emplace(record.sequence, ring.marks.size());
  ring.marks.push_back(std::move(mark));
}

void GpudReader::AddUnended(const RingAndSequence& event, const Stamps& stamps,
                            Nanoseconds last) {
  if (!stamps.seen) return;
  EventMark mark{.begin = last,
                 .sequence = event.second,
                 .is_end = true,
                 .kernel = &KernelOf(recording_, *stamps.seen)};
  if (!recording_.running) mark.end = last;
  SetStamps(mark, stamps.seen, stamps.dispatched);
  RingStory& ring = Find(*stamps.seen);
  ring.ends.emplace(mark.sequence, ring.marks.size());
  ring.marks.push_back(std::move(mark));
}

}  // namespace

ProcessStory TellStory(const FlightRecording& recording) {
  ProcessStory story = recording.name == kGpud ? GpudReader(recording).Read()
                                               : DeviceReader(recording).Read();
  if (!recording.records.empty()) {
    story.first_ns = recording.records.front().time_ns;
  }
  return story;
}

std::string DescribeEnd(const EventMark& mark) {
  if (!mark.end) return "in flight";
  if (mark.state == EventState::kNone) return "not recorded";
  return ledger::DescribeEnd(mark.state, mark.status) +
         (mark.found ? ", found and never taken" : "");
}

}  // namespace carillon::perfetto
