// The request that `carillon restart` sends to a supervisor.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_REQUEST_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_REQUEST_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace carillon::testbed {

// {"restart": ["nic0"], "kill": false, "timeout_ms": 15000}. The answer is
// {"testbed", "restarted": [{"name", "pid", "state", "note", "restarts",
// "took_ns"}]}, in the order of the topology.
struct RestartRequest {
  // "gpud" or devices; gpud ends after the devices and starts before them.
  std::vector<std::string> processes;
  // Send SIGKILL at once, without SIGTERM first.
  bool kill = false;
  // The limit for each process, from its start to its readiness; 1 ms to an
  // hour.
  std::chrono::milliseconds timeout{15'000};
};

Json ToJson(const RestartRequest& request);
// InvalidArgument for everything that ToJson() does not make.
absl::StatusOr<RestartRequest> ReadRestartRequest(const Json& json);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_RESTART_REQUEST_H_
