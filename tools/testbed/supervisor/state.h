// What a supervisor tells other processes about its testbed: state.json in the
// testbed's directory.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_STATE_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/topology/topology.h"

namespace carillon::testbed {

enum class ProcessState {
  kStarting,
  kReady,
  kRunning,  // nobody waits for its readiness
  kEnded
};
enum class Phase { kStarting, kUp, kStopping, kFailed };

// The word in the file and in `carillon ps`: "starting".
const char* ToText(ProcessState state);
const char* ToText(Phase phase);

struct ProcessRecord {
  std::string name;
  std::string kind;
  std::vector<std::string> command;
  ProcessIdentity identity;
  ProcessState state = ProcessState::kStarting;
  std::optional<ExitReport> exit;
  // How often it was restarted, and how it had ended before the last restart.
  uint32_t restarts = 0;
  std::optional<ExitReport> last_exit;
  RestartPolicy restart = RestartPolicy::kNever;
  // It failed so often in a row that its policy does not restart it any more.
  bool given_up = false;
  // Its readiness note: "udp 127.0.0.1:11211".
  std::string note;
  std::string log;

  // For the supervisor only; not in the file.
  bool was_ready = false;  // before it ended
  bool killed = false;     // the supervisor killed it
};

struct TestbedState {
  std::string testbed;
  Phase phase = Phase::kStarting;
  std::string topology_file;
  // Where there are hosts: this one, what carries the events between them, and
  // all.
  std::string host;
  std::string engine;
  std::vector<HostPart::Host> hosts;
  ProcessIdentity supervisor;
  int64_t started_unix = 0;  // seconds
  std::vector<ProcessRecord> processes;
  // One of its own (`mesh: etcd: own`), which the supervisor starts again by
  // itself.
  std::optional<ProcessRecord> etcd;

  ProcessRecord* Find(const std::string& name);
};

// "gpud" of "b/gpud", if this is host b; else what it is.
std::string_view WithoutOwnHost(const TestbedState& state,
                                std::string_view process);
// Whether `process` is here, as far as the testbed's hosts tell: "fpga0", or with
// its host, "b/gpud". Errors: NotFound, naming the host that it is on; its hint is
// to run `carillon COMMAND` there.
absl::Status CheckIsHere(const TestbedState& state, std::string_view process,
                         std::string_view command);

Json ToJson(const TestbedState& state);

// Replaces the file atomically. Errors: ResourceExhausted, PermissionDenied.
absl::Status WriteState(const std::string& path, const TestbedState& state);
// What ToJson() made. Errors: FailedPrecondition (it did not; begins with
// `what`).
absl::StatusOr<TestbedState> ParseState(const Json& json,
                                        std::string_view what);
// Errors: NotFound; FailedPrecondition if WriteState() did not write the file,
// with a hint at what clears it away.
absl::StatusOr<TestbedState> ReadState(const std::string& path);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_STATE_H_
