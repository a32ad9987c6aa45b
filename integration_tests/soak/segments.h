// Judges the flight recordings of a testbed that runs for hours, in segments.
// Every reading judges all that the recorders still hold, and neighbouring
// readings overlap, so that each event is complete in one of them.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_SEGMENTS_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_SEGMENTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::soak {

// What a reading shows and earlier readings did not.
struct Segment {
  std::vector<shm::FlightRecording> recordings;  // all of them
  uint64_t rung = 0;
  uint64_t done = 0;    // devices took them as done
  uint64_t failed = 0;  // devices took them as failed or aborted
  std::array<uint64_t, ledger::kFaults> faults{};
  // The last events of devices that have ended since, whose outcome cannot be
  // known.
  std::array<uint64_t, ledger::kUnknowns> unknown{};
  // One sentence each.
  std::vector<std::string> violations;
  // Recorders that cannot be read, or that have lost records before any
  // reading: the proof is incomplete.
  std::vector<std::string> gaps;

  uint64_t of(ledger::Fault fault) const {
    return faults[static_cast<size_t>(fault)];
  }
};

// One thread.
class Segments {
 public:
  // How many records neighbouring readings must share if older ones are
  // overwritten: more than events can be in flight.
  static constexpr uint64_t kOverlap = 4096;

  // Judges what is new. A file that its process is just creating cannot be read
  // yet, so only a file that two readings in a row could not read is a gap.
  Segment Judge(std::vector<shm::FlightRecording> recordings,
                const std::vector<std::string>& unreadable = {});
  // Reads the folder, judges, and removes the files of processes that had
  // already ended at the previous reading, since two readings have judged them.
  Segment Read(const std::string& directory);

 private:
  using File = std::pair<std::string, uint32_t>;  // name, pid
  struct SeenRecords {
    uint64_t written = 0;
    Nanoseconds read_ns = 0;
    bool ended = false;
  };

  std::map<File, SeenRecords> seen_;
  std::set<std::string> unreadable_;  // by the last reading
  std::set<std::string> told_;        // violations
};

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_SEGMENTS_H_
