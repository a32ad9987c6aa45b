#include "integration_tests/soak/segments.h"

#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "fmt/format.h"
#include "tools/testbed/ledger/timeline.h"

namespace carillon::soak {
namespace {

bool IsGpud(const shm::FlightRecording& recording) {
  return recording.name == "gpud";
}

void CountNew(const shm::FlightRecording& recording, Nanoseconds since,
              Segment* segment) {
  for (const shm::FlightRecord& record : recording.records) {
    if (record.time_ns < since) continue;
    if (record.step == shm::Step::kRung) {
      segment->rung += record.status;
    } else if (record.step == shm::Step::kTaken) {
      ++(record.state == shm::EventState::kDone ? segment->done
                                                : segment->failed);
    }
  }
}

}  // namespace

Segment Segments::Judge(std::vector<shm::FlightRecording> recordings,
                        const std::vector<std::string>& unreadable) {
  Segment segment;
  for (const std::string& sentence : unreadable) {
    if (unreadable_.contains(sentence)) segment.gaps.push_back(sentence);
  }
  unreadable_ = {unreadable.begin(), unreadable.end()};
  std::map<File, SeenRecords> seen;
  std::set<uint32_t> ended;  // pids of devices
  for (const shm::FlightRecording& recording : recordings) {
    const File file(recording.name, recording.pid);
    const auto found = seen_.find(file);
    const SeenRecords before =
        found == seen_.end() ? SeenRecords() : found->second;
    if (recording.overwritten != 0 &&
        recording.overwritten + kOverlap > before.written) {
      segment.gaps.push_back(fmt::format(
          "{}: {} records are overwritten, and the reading before ended at "
          "{}: give it a larger recorder",
          ledger::DescribeProcess(recording), recording.overwritten,
          before.written));
    }
    seen[file] = {recording.written, recording.read_ns, !recording.running};
    if (IsGpud(recording)) continue;
    CountNew(recording, before.read_ns, &segment);
    if (!recording.running && !before.ended) ended.insert(recording.pid);
  }
  seen_ = std::move(seen);

  const ledger::Report report = ledger::Check(recordings);
  for (const ledger::Violation& violation : report.violations) {
    if (!told_.insert(violation.sentence).second) continue;
    segment.faults[static_cast<size_t>(violation.fault)] += violation.events;
    segment.violations.push_back(violation.sentence);
  }
  for (const ledger::RingReport& ring : report.rings) {
    if (!ended.contains(ring.pid)) continue;
    for (size_t i = 0; i < ledger::kUnknowns; ++i) {
      // Earlier readings saw them, or they are reported as a gap.
      if (i == static_cast<size_t>(ledger::Unknown::kOverwritten)) continue;
      segment.unknown[i] += ring.counts.unknown[i];
    }
  }
  segment.recordings = std::move(recordings);
  return segment;
}

Segment Segments::Read(const std::string& directory) {
  std::set<File> judged;
  for (const auto& [file, seen] : seen_) {
    if (seen.ended) judged.insert(file);
  }
  std::vector<std::string> unreadable;
  Segment segment =
      Judge(shm::ReadFlightRecordings(directory, &unreadable), unreadable);
  for (const auto& [name, pid] : judged) {
    std::error_code ignored;
    std::filesystem::remove(fmt::format("{}/{}-{}.rec", directory, name, pid),
                            ignored);
  }
  return segment;
}

}  // namespace carillon::soak
