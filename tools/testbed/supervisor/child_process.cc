#include "tools/testbed/supervisor/child_process.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::testbed {

absl::StatusOr<ChildProcess> ChildProcess::Spawn(SpawnOptions options) {
  options.own_group = true;
  options.out = options.err = SpawnOptions::kNothing;
  ASSIGN_OR_RETURN(auto process, Subprocess::Start(options));
  const auto facts = LookAtProcess(process.pid());
  if (!facts) {
    return absl::InternalError(
        fmt::format("cannot watch {}: /proc does not have process {}",
                    options.argv[0], process.pid()));
  }
  return ChildProcess(facts->identity, std::move(process));
}

const std::optional<ExitReport>& ChildProcess::Reap() {
  if (exit_ || !process_.ended()) return exit_;
  // The zombie keeps its process group's number from being reused.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && pid != identity_.pid && getpgid(pid) == identity_.pid) {
      ++left_behind_;
    }
  }
  if (left_behind_ > 0) process_.Signal(SIGKILL);
  exit_ = process_.Reap();
  return exit_;
}

}  // namespace carillon::testbed
