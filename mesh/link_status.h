// What an end of a link tells of it, to be shown.
#ifndef CARILLON_MESH_LINK_STATUS_H_
#define CARILLON_MESH_LINK_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "mesh/pulse.h"

namespace carillon::mesh {

struct LinkStatus {
  bool up = false;
  bool lost = false;         // of the near end: for good
  bool fenced = false;       // of the near end: a newer one has come
  uint64_t connections = 0;  // that came up, so far
  // Of the near end: dials that made none; of the far end: those that it refused.
  uint64_t refused = 0;
  std::string error;               // of the last one that did not, or has ended
  std::string refusal;             // of the last one that an end refused
  uint64_t downs = 0;              // how often it went down
  Nanoseconds down = 0;            // for how long in all
  std::optional<Nanoseconds> rtt;  // the median of the last pings
  std::optional<ClockSample> clock;  // of the near end: the far end's
  uint64_t in_flight = 0;  // events that are rung and not stored, or freed
  // Of the near end: events that were sent again on a later connection.
  uint64_t replayed = 0;
  // Of the far end: how often a near host took the place of another one of its
  // name that was still there; and of the last one, whose.
  uint64_t takeovers = 0;
  std::string takeover;
};

// What of LinkStatus a link that is lost hands on to the next one.
struct LinkHistory {
  uint64_t connections = 0;
  uint64_t refused = 0;
  uint64_t replayed = 0;
  DownTime down = {};
  std::string error = {};
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_LINK_STATUS_H_
