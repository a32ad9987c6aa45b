#include "tools/testbed/ledger/checker.h"

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <utility>

#include "base/clock.h"
#include "fmt/format.h"
#include "tools/testbed/ledger/ring_ledger.h"

namespace carillon::ledger {
namespace {

using shm::FlightRecord;
using shm::FlightRecording;
using shm::Step;

// The daemon's name among a testbed's processes. No device may have this name.
constexpr std::string_view kGpud = "gpud";

class Checker {
 public:
  explicit Checker(Recordings recordings) : recordings_(recordings) {}

  Report Run() {
    for (size_t i = 0; i < recordings_.size(); ++i) {
      if (recordings_[i].name == kGpud) {
        books_.push_back(ReadGpud(recordings_, i, Accusation()));
      }
    }
    for (size_t i = 0; i < recordings_.size(); ++i) {
      if (recordings_[i].name != kGpud) CheckDevice(i);
    }
    for (const GpudBook& book : books_) CheckUnclaimed(book);
    KeepFirst();
    return std::move(report_);
  }

 private:
  Accuse Accusation() {
    return [this](Violation violation) {
      Add(report_.total.faults[static_cast<size_t>(violation.fault)],
          violation.events);
      report_.violations.push_back(std::move(violation));
      // Hostile recordings may prove more than the memory holds.
      if (report_.violations.size() >= 16 * kMaxViolations) KeepFirst();
    };
  }
  void KeepFirst() {
    const auto time = [&](const Violation& violation) {
      return recordings_[violation.at.recording]
          .records[violation.at.record]
          .time_ns;
    };
    std::ranges::stable_sort(report_.violations, {}, time);
    if (report_.violations.size() > kMaxViolations) {
      report_.violations.resize(kMaxViolations);
    }
  }

  // The gpud that had that pid at that time, since pids are reused.
  const GpudBook* GpudOf(uint64_t pid, Nanoseconds time) const {
    const GpudBook* best = nullptr;
    Nanoseconds best_start = 0;
    for (const GpudBook& book : books_) {
      const auto& records = book.recording->records;
      if (book.recording->pid != pid || records.empty()) continue;
      const Nanoseconds start = records.front().time_ns;
      if (best == nullptr || (start <= time && start > best_start)) {
        best = &book;
        best_start = start;
      }
    }
    return best;
  }
  // For a device whose attachment record is overwritten: finds the only gpud
  // that knows a ring of this generation and does not know it as another
  // device's.
  const GpudBook* GpudWithRing(uint32_t generation, uint32_t pid) const {
    const GpudBook* only = nullptr;
    for (const GpudBook& book : books_) {
      const GpudRing* const ring = book.Find(generation);
      if (ring == nullptr || (ring->made && ring->device_pid != pid)) continue;
      if (only != nullptr) return nullptr;
      only = &book;
    }
    return only;
  }

  void CheckDevice(size_t index);
  // Checks rings that gpud ascribes to a device and that the device does not
  // know.
  void CheckUnclaimed(const GpudBook& book);

  const Recordings recordings_;
  std::list<GpudBook> books_;  // rings point to them
  std::set<std::pair<const GpudBook*, uint32_t>> claimed_;
  Report report_;
};

void Checker::CheckDevice(size_t index) {
  const FlightRecording& recording = recordings_[index];
  const Accuse accuse = Accusation();
  Add(report_.overwritten, recording.overwritten);
  const bool gaps = recording.overwritten != 0 || recording.torn != 0;
  std::list<DeviceRing> rings;
  std::map<uint16_t, DeviceRing*> current;  // by event id
  std::optional<const GpudBook*> gpud;      // nothing: not in the records
  uint32_t session = 0;
  // A ring of gpud's is one of the device's. One that claims it again and again,
  // or another's, must not cost more than its records.
  std::set<std::pair<const GpudBook*, uint32_t>> own;
  DeviceRing::DeviceEnd device_end;

  for (size_t i = 0; i < recording.records.size(); ++i) {
    const FlightRecord& record = recording.records[i];
    const RecordRef at{index, i};
    const auto blame = [&](std::string_view what) {
      accuse({Fault::kUnexpected,
              fmt::format(
                  "{}, {}: {}", DescribeProcess(recording),
                  DescribeRing(recording, record.event_id, record.generation),
                  what),
              at});
    };
    const auto life = [&]() -> DeviceRing::Life {
      const GpudBook* book =
          gpud ? *gpud : GpudWithRing(record.generation, recording.pid);
      const GpudRing* const ring =
          book == nullptr ? nullptr : book->Find(record.generation);
      if (ring != nullptr &&
          ((ring->made && ring->device_pid != recording.pid) ||
           !own.emplace(book, record.generation).second)) {
        book = nullptr;
      }
      return {book, record.generation, session};
    };
    const auto add = [&](uint32_t entries, bool from_start) {
      rings.emplace_back(recording, index, record.event_id, life(), entries,
                         from_start);
      return current[record.event_id] = &rings.back();
    };
    const auto find = [&]() -> DeviceRing* {
      const auto found = current.find(record.event_id);
      if (found != current.end() && !found->second->closed() &&
          found->second->generation() == record.generation) {
        return found->second;
      }
      if (gaps) return add(shm::kMaxRingEntries, /*from_start=*/false);
      blame(fmt::format("'{}' on a ring that is not registered",
                        shm::StepName(record.step)));
      return nullptr;
    };
    switch (record.step) {
      case Step::kAttached:
        gpud = GpudOf(record.sequence, record.time_ns);
        session = record.generation;
        device_end = {};
        break;
      case Step::kDetached:
        device_end.detached = record.status == 0;
        device_end.left = true;
        break;
      case Step::kClosed:
        device_end.left = true;
        device_end.saw_death =
            record.status == static_cast<uint32_t>(shm::CloseReason::kOpen) ||
            record.status ==
                static_cast<uint32_t>(shm::CloseReason::kRestarting);
        break;
      case Step::kRegistered: {
        const auto found = current.find(record.event_id);
        if (found != current.end() && !found->second->closed() && !gaps) {
          blame("registered while it is in use");
        }
        add(record.status, /*from_start=*/true);
        break;
      }
      case Step::kResumed: {
        const auto found = current.find(record.event_id);
        if (found != current.end() && !found->second->closed()) {
          found->second->Resume(life(), at);
        } else if (gaps) {
          add(shm::kMaxRingEntries, /*from_start=*/false);
        } else {
          blame("resumed, but was never registered");
        }
        break;
      }
      case Step::kUnregistered:
        if (DeviceRing* const ring = find()) {
          ring->Close(record.sequence, shm::LetGo(record.status), at, accuse);
        }
        break;
      case Step::kFound:
        if (DeviceRing* const ring = find()) {
          ring->Find(record.sequence, {record.state, record.status, at},
                     accuse);
        }
        break;
      case Step::kMismatched:
        if (DeviceRing* const ring = find()) {
          ring->Mismatch(record.sequence, at, accuse);
        }
        break;
      case Step::kMissed:
        if (DeviceRing* const ring = find()) ring->Miss(record.sequence, at);
        break;
      case Step::kScheduling:
        if (DeviceRing* const ring = find()) {
          ring->Schedule(record.sequence, at);
        }
        break;
      case Step::kRung:
        if (DeviceRing* const ring = find()) {
          ring->NoteRing(record.sequence, record.status, at, accuse);
        }
        break;
      case Step::kTaken:
        if (DeviceRing* const ring = find()) {
          ring->Take(record.sequence, {record.state, record.status, at},
                     accuse);
        }
        break;
      default:
        blame(fmt::format("a device records what only gpud does: '{}'",
                          shm::StepName(record.step)));
    }
  }
  for (DeviceRing& ring : rings) {
    for (const DeviceRing::Life& life : ring.lives()) {
      claimed_.emplace(life.gpud, life.generation);
    }
    RingReport judged = ring.Judge(device_end, accuse);
    Counts counts = judged.counts;
    counts.faults = {};  // counted by the accusations
    report_.total += counts;
    report_.rings.push_back(std::move(judged));
  }
}

void Checker::CheckUnclaimed(const GpudBook& book) {
  for (const auto& entry : book.rings) {
    // Not by a structured binding: clang 14 lets no lambda use one.
    const auto& generation = entry.first;
    const auto& ring = entry.second;
    if (!ring.made || ring.ends.empty() ||
        claimed_.contains({&book, generation})) {
      continue;
    }
    const Nanoseconds made =
        book.recording->records[ring.made_at.record].time_ns;
    // Without a recording of that device there is nothing to compare. A process
    // may have several devices, and any of them may have registered it.
    bool denied = false;
    bool gaps = false;
    for (const FlightRecording& device : recordings_) {
      // What stands for removed recordings has no pid.
      if (device.name == kGpud ||
          (device.pid != ring.device_pid && device.pid != 0)) {
        continue;
      }
      gaps |= device.overwritten != 0 || device.torn != 0 ||
              (device.running && made >= device.read_ns);
      denied |=
          !device.records.empty() && device.records.front().time_ns <= made;
    }
    if (!denied || gaps) continue;
    Accusation()(
        {Fault::kUnexpected,
         fmt::format("{}: {} events end on a ring (generation {}) of pid {}, "
                     "which has never registered it",
                     DescribeProcess(*book.recording), ring.ends.size(),
                     generation, ring.device_pid),
         ring.made_at, ring.ends.size()});
  }
}

uint64_t Sum(const auto& numbers) {
  uint64_t sum = 0;
  for (const uint64_t number : numbers) Add(sum, number);
  return sum;
}

}  // namespace

std::string_view FaultName(Fault fault) {
  static constexpr std::array<std::string_view, kFaults> kNames = {
      "lost",         "duplicated",   "unexpected",
      "out_of_order", "contradicted", "wrong"};
  return kNames[static_cast<size_t>(fault)];
}

std::string_view UnknownName(Unknown unknown) {
  static constexpr std::array<std::string_view, kUnknowns> kNames = {
      "overwritten", "torn",         "device_died",   "session_ended",
      "gpud_died",   "not_recorded", "still_running", "not_taken"};
  return kNames[static_cast<size_t>(unknown)];
}

std::string_view UnknownSentence(Unknown unknown) {
  static constexpr std::array<std::string_view, kUnknowns> kSentences = {
      "their records are overwritten: record more",
      "a record is torn: its process died in it, or had no room for it",
      "the device died before it could look",
      "the session ended before the device looked",
      "gpud died, and no other went on with them",
      "gpud's side is not recorded",
      "in flight when this looked",
      "gpud says that they have ended, and their device has not taken them"};
  return kSentences[static_cast<size_t>(unknown)];
}

std::string_view VerdictName(Verdict verdict) {
  static constexpr std::string_view kNames[] = {"ok", "violated",
                                                "indeterminate"};
  return kNames[static_cast<size_t>(verdict)];
}

uint64_t Counts::violated() const { return Sum(faults); }
uint64_t Counts::indeterminate() const { return Sum(unknown); }

Counts& Counts::operator+=(const Counts& other) {
  Add(ok, other.ok);
  Add(failed, other.failed);
  Add(untaken, other.untaken);
  Add(unconfirmed, other.unconfirmed);
  for (size_t i = 0; i < faults.size(); ++i) Add(faults[i], other.faults[i]);
  for (size_t i = 0; i < unknown.size(); ++i) {
    Add(unknown[i], other.unknown[i]);
  }
  return *this;
}

Verdict Report::verdict() const {
  if (total.violated() != 0) return Verdict::kViolated;
  return total.indeterminate() != 0 || overwritten != 0
             ? Verdict::kIndeterminate
             : Verdict::kOk;
}

Report Check(Recordings recordings) { return Checker(recordings).Run(); }

}  // namespace carillon::ledger
