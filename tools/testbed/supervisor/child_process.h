// A process of a testbed, as its supervisor starts and ends it.
#ifndef CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_
#define CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/process_identity.h"

namespace carillon::testbed {

// How a process ended.
struct ExitReport {
  int code = 0;
  int signal = 0;  // 0: it ended by itself, with `code`

  bool ok() const { return code == 0 && signal == 0; }
  // "exit code 1", "SIGSEGV"
  std::string ToString() const;
};

struct SpawnSpec {
  // The program, a path or a name that PATH finds, and its arguments.
  std::vector<std::string> argv;
  // "NAME=VALUE", added in front of this process's own variables.
  std::vector<std::string> environment;
  // stdout and stderr are appended to this file; empty: /dev/null.
  std::string log_path;
};

// Only the thread that spawned it may use it. Children are killed when that
// thread ends.
class ChildProcess {
 public:
  // The child leads a process group of its own, so a terminal's Ctrl-C does not
  // reach it, and it is killed when its parent dies. Works after gRPC has
  // started. Errors: NotFound, PermissionDenied (the program or the log);
  // Internal.
  static absl::StatusOr<ChildProcess> Spawn(const SpawnSpec& spec);

  ChildProcess(ChildProcess&&) = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  // Kills the process if it still runs, and waits for its end.
  ~ChildProcess();

  const ProcessIdentity& identity() const { return identity_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_.get(); }

  // Signals the process and everything in its group. Does nothing after it was
  // reaped.
  void Signal(int signal) const;
  // How the process ended; empty while it runs. The first call after the end
  // kills what the process left running in its group.
  const std::optional<ExitReport>& Reap();
  // How many processes Reap() found left running.
  int left_behind() const { return left_behind_; }

 private:
  ChildProcess(ProcessIdentity identity, UniqueFd pidfd)
      : identity_(identity), pidfd_(std::move(pidfd)) {}

  ProcessIdentity identity_;
  UniqueFd pidfd_;
  std::optional<ExitReport> exit_;
  int left_behind_ = 0;
};

// The absolute or relative path that executing `program` means: the name itself
// if it has a slash, else the first hit in PATH. Errors: NotFound,
// PermissionDenied.
absl::StatusOr<std::string> FindProgram(const std::string& program);

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_SUPERVISOR_CHILD_PROCESS_H_
