// Turns a topology into the command lines of a testbed's processes.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_LAUNCH_PLAN_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_LAUNCH_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

struct PlannedProcess {
  std::string name;  // "gpud", or the device's
  std::string kind;  // "gpud", or the device's
  std::vector<std::string> argv;
  std::vector<std::string> when_restarted;  // behind argv, if it is not the first
  bool wait_ready = true;
  // In simulated time it may live its whole life before anybody has seen it
  // ready.
  bool may_end_unseen = false;
  RestartPolicy restart = RestartPolicy::kNever;
  // Whether it runs as another user than the supervisor. Its argv then begins
  // with setpriv.
  bool other_user = false;
  // Besides what every process gets.
  std::vector<std::string> environment = {};
};

struct LaunchPlan {
  std::string testbed;
  PlannedProcess gpud;
  // First of them the linkds, last the dashboard, if there are any.
  std::vector<PlannedProcess> devices;
  uint64_t record = 0;           // see Topology
  std::optional<HostPart> part;  // where there are hosts
};

// The path of one of Carillon's programs, named relative to the folder that
// Bazel builds into: "gpu_daemon/gpud". Looks in $CARILLON_BIN_DIR if that is
// set (as given or without its folders), else beside this program's own folder.
// Errors: NotFound, saying where it looked.
absl::StatusOr<std::string> FindCarillonProgram(std::string_view program);

// "PYTHONPATH=...": the environment in which Python finds carillon_sdk and
// carillon_testbed, before what there is already. Empty where they were not built.
std::string PythonPath();

// Errors: InvalidArgument (a topology with hosts is planned for one of them, see
// PartOf()); NotFound (a program, a user); PermissionDenied (only root can start
// processes of other users); FailedPrecondition (a device of another user would
// need files of the testbed's).
absl::StatusOr<LaunchPlan> PlanLaunch(const Topology& topology,
                                      const TestbedPaths& paths);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_LAUNCH_PLAN_H_
