#include "tools/cli/testbed_words.h"

#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/testbed_paths.h"
#include "shm/faults/board.h"
#include "shm/faults/fault.h"
#include "tools/cli/commands/dev/commands.h"
#include "tools/cli/commands/testbed/log_files.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/client/fault_board.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/testbeds.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::cli {
namespace {

using Found = std::vector<Candidate>;

constexpr std::chrono::milliseconds kLongest{250};
constexpr char kGpud[] = "gpud";

Found Testbeds() {
  Found found;
  const auto testbeds = testbed::ListTestbeds();
  if (!testbeds.ok()) return found;
  for (const testbed::Testbed& testbed : *testbeds) {
    found.push_back({testbed.name, testbed.supervisor ? "up" : "dead"});
  }
  return found;
}

Found Points() {
  Found found;
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.point == faults::Point::kNone) continue;
    found.push_back({std::string(info.name), std::string(info.summary)});
  }
  return found;
}

Found Actions() {
  Found found;
  for (size_t i = 0; i < faults::kActions; ++i) {
    const auto action = faults::Action(i);
    found.push_back({std::string(faults::ActionName(action)),
                     std::string(faults::ActionSummary(action))});
  }
  return found;
}

// Of a dashboard's links; a viewer's is always there.
Found Roles() {
  return {{"operator", "may set the policy and tracing, and restart processes"},
          {"fault-injector", "may put and take off faults"}};
}

// All processes but those.
Found Processes(const TestbedPaths& paths,
                const std::set<std::string_view>& without = {}) {
  Found found;
  const auto state = testbed::ReadState(paths.state_file());
  if (!state.ok()) return found;
  for (const testbed::ProcessRecord& process : state->processes) {
    if (without.contains(process.name)) continue;
    found.push_back({process.name, process.kind});
  }
  return found;
}

// The supervisor has one, too.
Found Logs(const TestbedPaths& paths) {
  Found found;
  for (const std::string& name : LogNames(paths.log_directory())) {
    found.push_back({name, ""});
  }
  return found;
}

Found Faults(const TestbedPaths& paths) {
  Found found;
  const auto board = testbed::OpenBoardOf(paths);
  if (!board.ok()) return found;
  for (const faults::Injected& injected : (*board)->List()) {
    found.push_back({injected.fault.name, faults::Describe(injected.fault)});
  }
  return found;
}

Found Kernels(const TestbedPaths& paths) {
  Found found;
  const auto kernels = testbed::AdminClient(paths, kLongest).ListKernels();
  if (!kernels.ok()) return found;
  for (const v1::Kernel& kernel : kernels->kernels()) {
    found.push_back({kernel.name(), kernel.summary()});
  }
  return found;
}

Found Policies(const TestbedPaths& paths) {
  Found found;
  const auto status = testbed::AdminClient(paths, kLongest).GetStatus();
  if (!status.ok()) return found;
  for (const v1::Policy& policy : status->policies()) {
    found.push_back({policy.name(), policy.summary()});
  }
  return found;
}

absl::StatusOr<TestbedPaths> Choose(const TestbedChoice& choice) {
  if (choice.elsewhere) return absl::UnavailableError("on another machine");
  if (!choice.directory.empty()) {
    const auto owned = testbed::CheckDirectoryOwner(choice.directory);
    if (!owned.ok()) return owned;
    return TestbedPaths(choice.directory);
  }
  const auto found = testbed::FindTestbed(choice.name);
  if (!found.ok()) return found.status();
  return found->paths;
}

}  // namespace

std::vector<Candidate> FindTestbedWords(const std::string& word,
                                        const TestbedChoice& choice) {
  if (word == "TESTBED") return Testbeds();
  if (word == "POINT") return Points();
  if (word == "ACTION") return Actions();
  if (word == "ROLE") return Roles();
  if (word == "BENCHMARK") {
    Found found;
    for (auto& [name, summary] : Benchmarks()) found.push_back({name, summary});
    return found;
  }
  const auto paths = Choose(choice);
  if (!paths.ok()) return {};
  if (word == "PROCESS") return Processes(*paths);
  if (word == "TARGET") return Processes(*paths, {testbed::kDashboardName});
  if (word == "DEVICE") {
    return Processes(*paths, {kGpud, testbed::kDashboardName});
  }
  if (word == "LOG") return Logs(*paths);
  if (word == "FAULT") return Faults(*paths);
  if (word == "KERNEL") return Kernels(*paths);
  if (word == "POLICY") return Policies(*paths);
  return {};
}

}  // namespace carillon::cli
