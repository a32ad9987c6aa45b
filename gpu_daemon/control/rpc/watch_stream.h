// The body of Admin.Watch: writes the state of a testbed, then its changes.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_WATCH_STREAM_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_WATCH_STREAM_H_

#include <functional>

#include "absl/status/status.h"
#include "gpu_daemon/control/sessions/session.h"
#include "gpu_daemon/control/sessions/session_table.h"
#include "gpu_daemon/control/telemetry_bus.h"
#include "proto/telemetry.pb.h"

namespace carillon::gpud {

// Returns false when the reader has gone.
using WriteMessage = std::function<bool(const v1::TelemetryEvent&)>;

// Serves Admin.Watch from a fresh watcher. First it writes the state, numbered
// as the last message before the stream, then every change as it happens. A
// change may be shown twice, by the first part and by its own message; none is
// missed. Returns OK when the caller has gone or the bus has closed. Errors:
// ResourceExhausted SLOW_WATCHER when changes came faster than `write` took
// them.
absl::Status StreamChanges(TelemetryBus::Watcher& watcher,
                           const SessionTable& sessions,
                           const WriteMessage& write, const GivenUp& given_up);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_WATCH_STREAM_H_
