// Merges the recordings of a testbed's processes into one timeline, and
// describes records in words.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_STORY_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_STORY_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shm/recorder/flight_recorder.h"

namespace carillon::ledger {

using Recordings = std::span<const shm::FlightRecording>;

// Refers to one record of some recording.
struct Place {
  size_t recording = 0;
  size_t record = 0;

  bool operator==(const Place&) const = default;
};

// All records by time; those of one process keep their own order.
std::vector<Place> MergeByTime(Recordings recordings);

// Describes the record: "event 3: rings 7 and 8".
std::string Words(const shm::FlightRecord& record);
// "done", "failed (status 5)"
std::string EndWords(shm::EventState state, uint32_t status);

// "nic0 (pid 12)"
std::string ProcessWords(const shm::FlightRecording& recording);

// The last `before` records up to `place` in the merged timeline, and the next
// `after`.
std::vector<Place> Around(std::span<const Place> merged, Place place,
                          size_t before, size_t after);

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_STORY_H_
