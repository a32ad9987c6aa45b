// What one process's records say of its rings' events: when each began and
// ended.
#ifndef CARILLON_TOOLS_TESTBED_PERFETTO_RING_STORY_H_
#define CARILLON_TOOLS_TESTBED_PERFETTO_RING_STORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "shm/layout.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::perfetto {

// An event as its device or gpud knows it.
struct EventMark {
  Nanoseconds begin = 0;
  // Of gpud's, while it traced, between the two: then it began when it was seen.
  std::optional<Nanoseconds> dispatched;
  std::optional<Nanoseconds> end;  // empty: in flight when it was read
  uint64_t sequence = 0;
  shm::EventState state = shm::EventState::kNone;  // kNone: no end is known
  uint32_t status = 0;
  bool found = false;       // its device found the end, and never took it
  bool is_end = false;      // gpud's
  bool is_instant = false;  // when it began is not known
  const std::string* kernel = nullptr;  // of its process's story
  // For whoever connects the two sides.
  uint64_t group = 0;
  std::vector<uint64_t> flows;
};

struct TextMark {
  Nanoseconds time = 0;
  std::string text;
};

struct RingStory {
  // From its making, or another gpud's, on.
  struct Life {
    uint32_t generation = 0;
    uint64_t gpud_pid = 0;  // of a device's ring; 0: overwritten
    Nanoseconds since_ns = 0;
  };

  uint16_t event_id = 0;
  std::string name;
  std::vector<Life> lives;  // at least one; of gpud's only one
  uint32_t device_pid = 0;  // of gpud's ring; 0: overwritten
  std::vector<EventMark> marks;
  std::vector<TextMark> texts;
  // Of gpud's ring: by sequence, the first of `marks` that is of it.
  std::unordered_map<uint64_t, size_t> ends;
  // How many events were rung and not taken, of a device's ring.
  std::vector<std::pair<Nanoseconds, int64_t>> in_flight;
};

struct ProcessStory {
  const shm::FlightRecording* recording = nullptr;
  bool is_gpud = false;
  Nanoseconds first_ns = 0;  // its first record
  std::vector<TextMark> texts;
  std::vector<RingStory> rings;
  std::unordered_map<uint32_t, size_t> by_generation;  // gpud's
};

// The recording must outlive the story.
ProcessStory TellStory(const shm::FlightRecording& recording);

// "done", "failed (status 5)", "in flight", "not recorded"
std::string DescribeEnd(const EventMark& mark);

}  // namespace carillon::perfetto

#endif  // CARILLON_TOOLS_TESTBED_PERFETTO_RING_STORY_H_
