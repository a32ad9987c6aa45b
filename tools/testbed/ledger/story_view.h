// The timeline of a testbed's flight recorders and of the faults that struck,
// as commands show it.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_STORY_VIEW_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_STORY_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/testbed_paths.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::testbed {

// A fault that struck, noted before it took effect.
struct StruckStep {
  Nanoseconds time_ns = 0;
  std::string process;  // empty: nothing was recorded of it
  uint32_t pid = 0;
  std::string fault;  // "fault 3" when it was cleared since
  std::string words;

  std::string ProcessWords() const;
};

struct Story {
  std::string testbed;
  std::vector<shm::FlightRecording> recordings;
  std::vector<std::string> unreadable;
  std::vector<ledger::Place> merged;
  ledger::Report report;
  std::vector<StruckStep> strikes;  // by time
};

// Judges the recordings.
Story StoryOf(const std::string& testbed,
              std::vector<shm::FlightRecording> recordings);
// Reads the recorders' files and the board of faults, and judges them.
Story ReadStory(const std::string& testbed, const TestbedPaths& paths);

std::vector<ledger::Place> LastSteps(const Story& story, size_t last);
// Empty without a violation.
std::vector<ledger::Place> AroundFirstViolation(const Story& story);

Json EventsJson(const ledger::Counts& counts);
Json ViolationsJson(const Story& story);
// The steps, and the strikes among them.
Json StepsJson(const Story& story, const std::vector<ledger::Place>& places);
std::string StepsText(const Story& story,
                      const std::vector<ledger::Place>& places);
// How many events ended how, with remarks.
std::string EventsText(const Story& story);
// The first violation with the records around it; empty without one.
std::string FirstViolationText(const Story& story);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_STORY_VIEW_H_
