// Any flight recordings: the checker's verdict is the same each time, its
// figures agree with each other, and every place that it names exists.
//
//   u8           processes, less one (4 at most); the first is a gpud
//   u8 each      bit 0: another gpud; bit 1: runs; bits 2..3: overwritten;
//                bits 4..5: torn; bits 6..7: pid
//   8 bytes each a record: process, step, event id, generation, sequence,
//                status, state, time; from 224 on, a byte stands for a number
//                at a counter's limits
#include <array>
#include <string>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::ledger {
namespace {

using shm::FlightRecord;
using shm::FlightRecording;

constexpr size_t kMaxRecords = 512;
constexpr uint8_t kFirstEdge = 224;

uint64_t Number(uint8_t byte) {
  if (byte < kFirstEdge) return byte;
  // 2^4, 2^4 - 1, 2^8, ... 2^64 - 1
  const int bits = 4 * (1 + (byte - kFirstEdge) / 2);
  const uint64_t power = bits < 64 ? uint64_t{1} << bits : 0;
  return byte % 2 == 0 ? power : power - 1;
}

std::vector<FlightRecording> Read(fuzz::FuzzInput input) {
  std::vector<FlightRecording> recordings(1 + input.TakeBelow(4));
  for (size_t i = 0; i < recordings.size(); ++i) {
    const auto how = input.Take<uint8_t>();
    FlightRecording& recording = recordings[i];
    const bool gpud = i == 0 || (how & 1) != 0;
    recording.name = gpud ? "gpud" : "device" + std::to_string(i);
    recording.running = (how & 2) != 0;
    recording.overwritten = how >> 2 & 3;
    recording.torn = how >> 4 & 3;
    recording.pid = 10 + (how >> 6) + (gpud ? 0 : 10);
    recording.read_ns = uint64_t{how} * 64;
  }
  uint64_t now = 1;
  for (size_t i = 0; i < kMaxRecords && !input.empty(); ++i) {
    const auto of = input.Take<std::array<uint8_t, 8>>();
    now += of[7];
    FlightRecording& recording = recordings[of[0] % recordings.size()];
    recording.records.push_back(
        {.time_ns = now,
         .sequence = Number(of[4]),
         .generation = static_cast<uint32_t>(Number(of[3])),
         .status = static_cast<uint32_t>(Number(of[5])),
         .event_id = static_cast<uint16_t>(Number(of[2])),
         // As from the reader: a record has no other step.
         .step = static_cast<shm::Step>(1 + of[1] % (shm::kSteps - 1)),
         .state = static_cast<shm::EventState>(of[6])});
    ++recording.written;
  }
  for (FlightRecording& recording : recordings) {
    recording.written += recording.overwritten + recording.torn;
  }
  return recordings;
}

void Run(fuzz::FuzzInput input) {
  const std::vector<FlightRecording> recordings = Read(input);
  const Report report = Check(recordings);
  const Report again = Check(recordings);
  FUZZ_CHECK(report.total == again.total);
  FUZZ_CHECK(report.verdict() == again.verdict());
  FUZZ_CHECK(report.violations.size() == again.violations.size());
  FUZZ_CHECK(report.violations.size() <= kMaxViolations);
  FUZZ_CHECK(report.violations.empty() == (report.total.violated() == 0));
  FUZZ_CHECK((report.verdict() == Verdict::kViolated) ==
             !report.violations.empty());

  const auto merged = MergeByTime(recordings);
  size_t records = 0;
  for (const auto& recording : recordings) records += recording.records.size();
  FUZZ_CHECK(merged.size() == records);
  for (size_t i = 0; i < report.violations.size(); ++i) {
    const Violation& violation = report.violations[i];
    FUZZ_CHECK(violation.sentence == again.violations[i].sentence);
    FUZZ_CHECK(!violation.sentence.empty());
    FUZZ_CHECK(violation.events > 0);
    FUZZ_CHECK(violation.at.recording < recordings.size());
    const auto& of = recordings[violation.at.recording].records;
    FUZZ_CHECK(violation.at.record < of.size());
    FUZZ_CHECK(!RecordsAround(merged, violation.at, 3, 3).empty());
  }
  Counts sum;
  for (const RingReport& ring : report.rings) sum += ring.counts;
  FUZZ_CHECK(sum.ok == report.total.ok);
  FUZZ_CHECK(sum.failed == report.total.failed);
  FUZZ_CHECK(sum.unknown == report.total.unknown);
  for (const RecordRef place : merged) {
    FUZZ_CHECK(!Describe(recordings[place.recording],
                         recordings[place.recording].records[place.record])
                    .empty());
  }
}

}  // namespace
}  // namespace carillon::ledger

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::ledger::Run({data, size});
  return 0;
}
