// A process of a testbed, as its supervisor starts and ends it.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/subprocess.h"
#include "tools/testbed/supervisor/process_identity.h"

namespace carillon::testbed {

// A Subprocess with a group of its own, which leaves nothing of it running. Only
// the thread that spawned it may use it.
class ChildProcess {
 public:
  // Without a log_path its output goes to /dev/null. Errors: as
  // Subprocess::Start().
  static absl::StatusOr<ChildProcess> Spawn(SpawnOptions options);

  const ProcessIdentity& identity() const { return identity_; }
  // Readable once the process has ended.
  int pidfd() const { return process_.pidfd(); }

  // Signals the process and everything in its group. Does nothing after it was
  // reaped.
  void Signal(int signal) const { process_.Signal(signal); }
  // How the process ended; empty while it runs. The first call after the end
  // kills what the process left running in its group.
  const std::optional<ExitReport>& Reap();
  // How many processes Reap() found left running.
  int left_behind() const { return left_behind_; }

 private:
  ChildProcess(ProcessIdentity identity, Subprocess process)
      : identity_(identity), process_(std::move(process)) {}

  ProcessIdentity identity_;
  Subprocess process_;
  std::optional<ExitReport> exit_;
  int left_behind_ = 0;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_
