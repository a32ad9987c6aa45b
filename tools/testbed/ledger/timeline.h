// Merges the recordings of a testbed's processes into one timeline, and
// describes records in words.
#ifndef CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_H_
#define CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shm/recorder/flight_recorder.h"

namespace carillon::ledger {

using Recordings = std::span<const shm::FlightRecording>;

// Refers to one record of some recording.
struct RecordRef {
  size_t recording = 0;
  size_t record = 0;

  bool operator==(const RecordRef&) const = default;
};

// All records by time; those of one process keep their own order, but for those
// that it has recorded later than they happened (Step::kSeen, kDispatched).
std::vector<RecordRef> MergeByTime(Recordings recordings);

// "camera0 dct8x8 (frames)" if the recording names the ring, "camera0 dct8x8
// (event 3)" if it has no label, else "event 3 (generation 7)".
std::string DescribeRing(const shm::FlightRecording& recording,
                         uint16_t event_id, uint32_t generation);
// Describes a record of the recording: "camera0 dct8x8 (frames): rings sequence
// 7".
std::string Describe(const shm::FlightRecording& recording,
                     const shm::FlightRecord& record);
// "done", "failed (status 5)"
std::string DescribeEnd(shm::EventState state, uint32_t status);

// "nic0 (pid 12)"
std::string DescribeProcess(const shm::FlightRecording& recording);

// The last `before` records up to `place` in the merged timeline, and the next
// `after`.
std::vector<RecordRef> RecordsAround(std::span<const RecordRef> merged,
                                     RecordRef place, size_t before,
                                     size_t after);

}  // namespace carillon::ledger

#endif  // CARILLON_TOOLS_TESTBED_LEDGER_TIMELINE_H_
