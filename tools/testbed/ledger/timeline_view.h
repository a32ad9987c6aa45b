// The timeline of a testbed's flight recorders and of the faults that struck,
// as commands show it.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_VIEW_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/testbed_paths.h"
#include "shm/recorder/flight_recorder.h"
#include "shm/recorder/peer_clock.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::testbed {

// A fault that struck, noted before it took effect.
struct StruckStep {
  Nanoseconds time_ns = 0;
  std::string process;  // empty: nothing was recorded of it
  uint32_t pid = 0;
  std::string fault;  // "fault 3" when it was cleared since
  std::string words;

  std::string DescribeProcess() const;
};

struct Timeline {
  std::string testbed;
  std::vector<shm::FlightRecording> recordings;
  std::vector<std::string> unreadable;
  std::vector<ledger::RecordRef> merged;
  ledger::Report report;
  std::vector<StruckStep> strikes;  // ordered by time
  // What to add to a time of the records for one of CLOCK_REALTIME: by the
  // newest gpud's recording, or else the newest of all.
  uint64_t realtime_offset_ns = 0;
  // Of several hosts (joined_hosts.h): those whose records were put into the time
  // of the GPU's host.
  std::vector<shm::PeerClock> clocks;
};

Timeline TimelineOf(const std::string& testbed,
                    std::vector<shm::FlightRecording> recordings);
// Reads the recorders' files and the board of faults; `merged` and `report` stay
// empty.
Timeline ReadSteps(const std::string& testbed, const TestbedPaths& paths);
// The same, and judges them.
Timeline ReadTimeline(const std::string& testbed, const TestbedPaths& paths);

std::vector<ledger::RecordRef> LastSteps(const Timeline& timeline, size_t last);
// {"device": .., "kernel": .., "label": ..}, or null where the recording does
// not name the ring.
Json RingJson(const shm::FlightRecording& recording, uint16_t event_id,
              uint32_t generation);
// Empty without a violation.
std::vector<ledger::RecordRef> AroundFirstViolation(const Timeline& timeline);

Json EventsJson(const ledger::Counts& counts);
Json ViolationsJson(const Timeline& timeline);
// The steps, and the strikes among them.
Json StepsJson(const Timeline& timeline,
               const std::vector<ledger::RecordRef>& places);
std::string StepsText(const Timeline& timeline,
                      const std::vector<ledger::RecordRef>& places);
// How many events ended how, with remarks.
std::string EventsText(const Timeline& timeline);
// The first violation with the records around it; empty without one.
std::string FirstViolationText(const Timeline& timeline);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_VIEW_H_
