// A testbed at a moment: what its gpud, its supervisor and its board of faults
// say, as JSON and as Prometheus' metrics.
#ifndef CARILLON_TOOLS_DASHBOARD_PICTURE_H_
#define CARILLON_TOOLS_DASHBOARD_PICTURE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "tools/testbed/client/fault_board.h"
#include "tools/testbed/client/snapshot_picture.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::dashboard {

// A ring's device and event id.
using RingName = std::pair<std::string, uint32_t>;
using Peaks = std::map<RingName, uint32_t>;

// Whether figures of gpud come.
enum class GpudState {
  kLive,
  kSilent,  // it does not send what it should: it may be stopped
  kGone,
};
const char* ToText(GpudState state);  // "live"

struct Latency {
  uint64_t p50_ns = 0;
  uint64_t p99_ns = 0;
};

// What a picture is made of. A part that does not answer is as it last was, or
// empty.
struct Sight {
  std::string testbed;
  uint64_t time_ns = 0;  // CLOCK_REALTIME
  GpudState gpud = GpudState::kGone;
  std::string gpud_note;  // why it is not live
  testbed::SnapshotPicture snapshot;
  bool supervised = false;  // a supervisor runs
  std::optional<testbed::TestbedState> state;
  // Of those of its processes that run, by name.
  std::map<std::string, testbed::ProcessFacts> facts;
  std::optional<testbed::BoardView> board;
  bool recorded = false;  // flight recorders have written files
  // Of the last second, by ekt_index: events that ended each second, and of
  // rings with traced events how long those took.
  std::map<uint32_t, double> rates;
  std::map<uint32_t, Latency> latencies;
};

// {"testbed", "time_ns", "gpud": {"state", "note"}, "supervisor", "totals",
// "queues", "processes", "devices", "rings", "recorded", "faults", "strikes"}, with
// the names of -o json.
Json PictureToJson(const Sight& sight);
// The same for the history: {"time_ns", "gpud", "events": [rung, done, failed,
// aborted], "rings": [[device, event_id, doorbell, launched, completed, consumed,
// peak, generation]], "struck"}.
Json PictureForHistory(const Sight& sight, const Peaks& peaks);

// In Prometheus' text format (docs/cli.md). `peaks`: of the last 15 s.
std::string ToMetrics(const Sight& sight, const Peaks& peaks);

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_PICTURE_H_
