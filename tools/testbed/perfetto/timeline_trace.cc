#include "tools/testbed/perfetto/timeline_trace.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log/log_line.h"
#include "fmt/format.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/perfetto/ring_story.h"

namespace carillon::perfetto {
namespace {

using shm::FlightRecord;
using shm::FlightRecording;

// What is written of a track at one moment.
struct Put {
  enum class Kind : uint8_t { kBegin, kEnd, kInstant, kCount };

  Nanoseconds time = 0;
  Track track = Track::kNone;
  Kind kind = Kind::kInstant;
  const EventMark* mark = nullptr;    // of an event
  const std::string* text = nullptr;  // of another instant
  Name part = Name::kNone;            // of an event
  int64_t count = 0;
};

class TimelineWriter {
 public:
  TimelineWriter(const testbed::Timeline& timeline,
                 std::optional<Nanoseconds> last, TraceWriter& writer)
      : timeline_(timeline), last_(last), writer_(writer) {}

  TraceFigures Write() {
    for (const FlightRecording& recording : timeline_.recordings) {
      stories_.push_back(TellStory(recording));
      figures_.lost += recording.overwritten + recording.torn;
    }
    Bound();
    Connect();
    for (ProcessStory& story : stories_) AddProcess(story);
    AddStrikes();
    std::ranges::stable_sort(puts_, {}, &Put::time);
    for (const Put& put : puts_) WritePut(put);
    if (!puts_.empty()) {
      figures_.span_ns = puts_.back().time - puts_.front().time;
    }
    return figures_;
  }

 private:
  // Finds from when on things are written.
  void Bound() {
    if (!last_) return;
    Nanoseconds end = 0;
    for (const FlightRecording& recording : timeline_.recordings) {
      for (const FlightRecord& record : recording.records) {
        end = std::max(end, record.time_ns);
      }
    }
    for (const testbed::StruckStep& strike : timeline_.strikes) {
      end = std::max(end, strike.time_ns);
    }
    from_ = end - std::min(*last_, end);
  }
  bool IsWritten(const EventMark& mark) const {
    return mark.end.value_or(std::numeric_limits<Nanoseconds>::max()) >= from_;
  }

  // The gpud that had that pid at that time, since pids are used again.
  ProcessStory* GpudOf(uint64_t pid, Nanoseconds time);
  // gpud's ring that has served a device's of that pid; null: none is known.
  RingStory* ServedBy(const RingStory::Life& life, uint32_t pid);
  static RingStory* ServedBy(ProcessStory* gpud, uint32_t generation,
                             uint32_t pid);
  // Numbers events, and ties those of devices to the ends of gpud's.
  void Connect();
  void Connect(const ProcessStory& device, RingStory& ring);

  void AddProcess(ProcessStory& story);
  void AddRing(Track process, const RingStory& ring, bool of_device);
  void AddMark(const EventMark& mark, Track track);
  void AddText(Track track, Nanoseconds time, const std::string& text) {
    if (time < from_) return;
    puts_.push_back({.time = time, .track = track, .text = &text});
  }
  void AddStrikes();
  void WritePut(const Put& put);

  const testbed::Timeline& timeline_;
  const std::optional<Nanoseconds> last_;
  TraceWriter& writer_;
  const Name sequence_ = writer_.Intern("sequence");
  const Name ended_ = writer_.Intern("end");
  const Name waits_ = writer_.Intern("waits");
  const Name runs_ = writer_.Intern("runs");

  Nanoseconds from_ = 0;
  std::vector<ProcessStory> stories_;
  std::map<std::pair<uint32_t, std::string>, Track> steps_;  // pid and name
  std::list<std::string> texts_;  // that nobody else keeps
  std::vector<Put> puts_;
  uint64_t groups_ = 0;
  TraceFigures figures_;
};

ProcessStory* TimelineWriter::GpudOf(uint64_t pid, Nanoseconds time) {
  ProcessStory* best = nullptr;
  for (ProcessStory& story : stories_) {
    if (!story.is_gpud || story.recording->pid != pid) continue;
    const bool later = best == nullptr || story.first_ns > best->first_ns;
    if (best == nullptr || (later && story.first_ns <= time)) best = &story;
  }
  return best;
}

RingStory* TimelineWriter::ServedBy(ProcessStory* gpud, uint32_t generation,
                                    uint32_t pid) {
  if (gpud == nullptr) return nullptr;
  const auto found = gpud->by_generation.find(generation);
  if (found == gpud->by_generation.end()) return nullptr;
  RingStory& ring = gpud->rings[found->second];
  return ring.device_pid == 0 || ring.device_pid == pid ? &ring : nullptr;
}

RingStory* TimelineWriter::ServedBy(const RingStory::Life& life, uint32_t pid) {
  if (life.gpud_pid != 0) {
    return ServedBy(GpudOf(life.gpud_pid, life.since_ns), life.generation, pid);
  }
  RingStory* only = nullptr;
  for (ProcessStory& story : stories_) {
    RingStory* const ring =
        story.is_gpud ? ServedBy(&story, life.generation, pid) : nullptr;
    if (ring == nullptr) continue;
    if (only != nullptr) return nullptr;
    only = ring;
  }
  return only;
}

void TimelineWriter::Connect() {
  for (ProcessStory& story : stories_) {
    if (story.is_gpud) continue;
    for (RingStory& ring : story.rings) Connect(story, ring);
  }
}

void TimelineWriter::Connect(const ProcessStory& device, RingStory& ring) {
  std::vector<RingStory*> served;
  for (const RingStory::Life& life : ring.lives) {
    if (RingStory* const other = ServedBy(life, device.recording->pid)) {
      served.push_back(other);
    }
  }
  for (EventMark& mark : ring.marks) {
    mark.group = ++groups_;
    if (mark.is_instant || !IsWritten(mark)) continue;
    for (RingStory* const other : served) {
      const auto found = other->ends.find(mark.sequence);
      if (found == other->ends.end()) continue;
      EventMark& end = other->marks[found->second];
      if (end.group != 0 || !IsWritten(end)) continue;
      end.group = mark.group;
      const uint64_t flow = ++figures_.flows;
      mark.flows.push_back(flow);
      end.flows.push_back(flow);
    }
  }
}

void TimelineWriter::AddProcess(ProcessStory& story) {
  const FlightRecording& recording = *story.recording;
  // What stands for recordings that were removed is of no process.
  if (recording.pid == 0) return;
  ++figures_.processes;
  const Track process = writer_.AddProcess(recording.name, recording.pid);
  const Track steps = writer_.AddTrack(process, "steps");
  steps_[{recording.pid, recording.name}] = steps;
  for (const TextMark& mark : story.texts) {
    AddText(steps, mark.time, mark.text);
  }
  for (const RingStory& ring : story.rings) {
    AddRing(process, ring, !story.is_gpud);
  }
}

void TimelineWriter::AddRing(Track process, const RingStory& ring,
                             bool of_device) {
  std::vector<const EventMark*> marks;
  for (const EventMark& mark : ring.marks) {
    if (IsWritten(mark)) marks.push_back(&mark);
  }
  const bool silent = std::ranges::none_of(
      ring.texts, [&](const TextMark& mark) { return mark.time >= from_; });
  if (marks.empty() && silent) return;
  if (of_device) ++figures_.rings;
  const Track track = writer_.AddTrack(process, ring.name);
  for (const TextMark& mark : ring.texts) {
    AddText(track, mark.time, mark.text);
  }
  if (!ring.in_flight.empty()) {
    const Track counter = writer_.AddCounter(track, "in flight");
    std::optional<int64_t> before;  // the last moments begin with it
    for (const auto& [time, count] : ring.in_flight) {
      if (time < from_) before = count;
    }
    const auto add = [&](Nanoseconds time, int64_t count) {
      puts_.push_back({.time = time,
                       .track = counter,
                       .kind = Put::Kind::kCount,
                       .count = count});
    };
    if (before) add(from_, *before);
    for (const auto& [time, count] : ring.in_flight) {
      if (time >= from_) add(time, count);
    }
  }
  if (of_device) figures_.events += marks.size();

  std::ranges::stable_sort(marks, {}, &EventMark::begin);
  struct Busy {
    Nanoseconds until;
    size_t lane;
    bool operator>(const Busy& other) const {
      return std::pair(until, lane) > std::pair(other.until, other.lane);
    }
  };
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::set<size_t> free;
  std::vector<Track> lanes;
  for (const EventMark* mark : marks) {
    if (mark->is_instant) {
      AddMark(*mark, track);
      continue;
    }
    while (!busy.empty() && busy.top().until <= mark->begin) {
      free.insert(busy.top().lane);
      busy.pop();
    }
    size_t lane = lanes.size();
    if (free.empty()) {
      lanes.push_back(
          writer_.AddTrack(track, fmt::format("lane {}", lane + 1)));
    } else {
      lane = *free.begin();
      free.erase(free.begin());
    }
    busy.push(
        {mark->end.value_or(std::numeric_limits<Nanoseconds>::max()), lane});
    AddMark(*mark, lanes[lane]);
  }
}

void TimelineWriter::AddMark(const EventMark& mark, Track track) {
  if (mark.is_instant) {
    puts_.push_back({.time = mark.begin, .track = track, .mark = &mark});
    return;
  }
  puts_.push_back({.time = mark.begin,
                   .track = track,
                   .kind = Put::Kind::kBegin,
                   .mark = &mark});
  const auto begin_part = [&](Nanoseconds time, Name name) {
    puts_.push_back({.time = time,
                     .track = track,
                     .kind = Put::Kind::kBegin,
                     .part = name});
  };
  const auto end = [&](Nanoseconds time) {
    puts_.push_back({.time = time, .track = track, .kind = Put::Kind::kEnd});
  };
  if (mark.dispatched) {
    begin_part(mark.begin, waits_);
    end(*mark.dispatched);
    begin_part(*mark.dispatched, runs_);
    if (mark.end) end(*mark.end);
  }
  if (mark.end) end(*mark.end);
}

void TimelineWriter::AddStrikes() {
  Track others = Track::kNone;
  for (const testbed::StruckStep& strike : timeline_.strikes) {
    Track track = others;
    const auto found = steps_.find({strike.pid, strike.process});
    if (found != steps_.end()) {
      track = found->second;
    } else if (others == Track::kNone) {
      track = others = writer_.AddTrack(Track::kNone, "faults");
    }
    texts_.push_back(
        fmt::format("{} {}", strike.DescribeProcess(), strike.words));
    AddText(track, strike.time_ns, texts_.back());
  }
}

void TimelineWriter::WritePut(const Put& put) {
  if (put.kind == Put::Kind::kCount) {
    writer_.Count(put.track, put.time, put.count);
  } else if (put.kind == Put::Kind::kEnd) {
    writer_.End(put.track, put.time);
  } else if (put.part != Name::kNone) {
    writer_.Begin(put.track, put.time, {.name = put.part});
  } else if (put.mark == nullptr) {
    writer_.Instant(put.track, put.time, {.text = *put.text});
  } else {
    const EventMark& mark = *put.mark;
    const std::string ended = DescribeEnd(mark);
    const Detail details[] = {{.name = sequence_, .number = mark.sequence},
                              {.name = ended_, .text = ended}};
    Shown shown{.name = writer_.Intern(*mark.kernel),
                .details = details,
                .group = mark.group};
    (mark.is_end ? shown.to : shown.from) = mark.flows;
    if (put.kind == Put::Kind::kInstant) {
      writer_.Instant(put.track, put.time, shown);
    } else {
      writer_.Begin(put.track, put.time, shown);
    }
  }
}

// Nothing that was read can have happened later. The machine may have started
// anew since all have died: then the time of day tells.
Nanoseconds LastPossible(const testbed::Timeline& timeline) {
  Nanoseconds read = 0;
  bool lives = false;
  for (const FlightRecording& recording : timeline.recordings) {
    read = std::max(read, recording.read_ns);
    lives |= recording.running;
  }
  if (!lives) read = std::max(read, RealtimeNs() - timeline.realtime_offset_ns);
  // Perfetto's times are signed.
  constexpr Nanoseconds kMost = std::numeric_limits<int64_t>::max();
  return std::min(read, kMost - ledger::kRecordsWithin) +
         ledger::kRecordsWithin;
}

}  // namespace

TraceFigures WriteTimeline(testbed::Timeline timeline,
                           std::optional<Nanoseconds> last,
                           TraceWriter& writer) {
  // One hostile record of a far time would move the end, and stretch the trace.
  const Nanoseconds possible = LastPossible(timeline);
  const auto is_later = [&](const auto& step) {
    return step.time_ns > possible;
  };
  for (FlightRecording& recording : timeline.recordings) {
    recording.torn += std::erase_if(recording.records, is_later);
  }
  std::erase_if(timeline.strikes, is_later);
  return TimelineWriter(timeline, last, writer).Write();
}

}  // namespace carillon::perfetto
