// A testbed's timeline as a trace for Perfetto.
//
//   process   a track group, with "steps": sessions, faults that struck, deaths
//   ring      below its device and below gpud: its making, its end, what else
//             happened to it; the ends that gpud has recorded; ends of events
//             whose beginning is not known
//   lane      below a device's ring: events, one after the other, from the
//             doorbell until they are taken; those in flight together have a
//             lane each
//   flow      from an event of a device to the end that gpud has recorded of it
#ifndef CARILLON_TOOLS_TESTBED_PERFETTO_TIMELINE_TRACE_H_
#define CARILLON_TOOLS_TESTBED_PERFETTO_TIMELINE_TRACE_H_

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "tools/testbed/ledger/timeline_view.h"
#include "tools/testbed/perfetto/trace_writer.h"

namespace carillon::perfetto {

struct TraceFigures {
  uint64_t processes = 0;
  uint64_t rings = 0;   // of devices
  uint64_t events = 0;  // on them
  uint64_t flows = 0;
  // Records that are overwritten, torn, or of a time later than the reading.
  uint64_t lost = 0;
  Nanoseconds span_ns = 0;  // from the first to the last
};

// Writes what happened in the last `last` nanoseconds before the timeline's end,
// or all: whole events, even those that began before. Leaves out what bears a
// time that is still to come. Does not finish `writer`.
// Needs no verdict: the timeline may be of ReadSteps().
TraceFigures WriteTimeline(testbed::Timeline timeline,
                           std::optional<Nanoseconds> last,
                           TraceWriter& writer);

}  // namespace carillon::perfetto

#endif  // CARILLON_TOOLS_TESTBED_PERFETTO_TIMELINE_TRACE_H_
