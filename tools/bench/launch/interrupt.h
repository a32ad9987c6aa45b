// Ctrl-C as something to look at between two steps, so that what was started is
// ended and what was made is removed.
#ifndef CARILLON_TOOLS_BENCH_LAUNCH_INTERRUPT_H_
#define CARILLON_TOOLS_BENCH_LAUNCH_INTERRUPT_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/line_process.h"

namespace carillon::bench {

// From now on SIGINT and SIGTERM end nothing by themselves.
void CatchInterrupts();
// Cancelled once one has come.
absl::Status CheckInterrupt();

// LineProcess::ReadLine(); also Cancelled.
absl::StatusOr<std::string> AwaitLine(LineProcess& child,
                                      std::chrono::milliseconds timeout);
// A device's line of JSON, an object. Errors: also the device's, which it says as
// {"error": {"code", "message"}}; Internal (something else).
absl::StatusOr<Json> AwaitAnswer(LineProcess& device,
                                 std::chrono::milliseconds timeout);
// Cancelled if it was cut short.
absl::Status Sleep(std::chrono::milliseconds time);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_LAUNCH_INTERRUPT_H_
