// Processes that this one starts: one way to start them, which works beside
// gRPC's threads too, and one owner that leaves none behind.
#ifndef CARILLON_BASE_SUBPROCESS_H_
#define CARILLON_BASE_SUBPROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon {

// How a process ended.
struct ExitReport {
  int code = 0;
  int signal = 0;  // 0: it ended by itself, with `code`

  bool ok() const { return code == 0 && signal == 0; }
  // The one number that a shell gives for it.
  int ShellCode() const { return signal != 0 ? 128 + signal : code; }
  // "exit code 1", "SIGSEGV"
  std::string ToString() const;
};

// "SIGTERM"
std::string SignalName(int signal);

struct SpawnOptions {
  static constexpr int kNothing = -1;  // /dev/null

  // The program, which is a path or a name that PATH finds, and its arguments.
  std::vector<std::string> argv;
  // The program, where argv[0] is to be another word.
  std::string program;
  // "NAME=VALUE", in place of this process's own variables of these names.
  std::vector<std::string> environment;
  // Where it starts; empty: where this process is.
  std::string directory;
  // Descriptors of this process that become its stdin, stdout and stderr.
  int in = kNothing;
  int out = STDOUT_FILENO;
  int err = STDERR_FILENO;
  // Further descriptors that it inherits, under the numbers that they have.
  std::vector<int> inherited;
  std::vector<int> cpus;  // those that it may use; empty: all
  bool realtime = false;  // SCHED_RR: others cannot hold it up
  // Its stdout and stderr are appended to this file in place of `out`, `err`.
  std::string log_path;
  // It leads a process group, which a terminal's Ctrl-C does not reach, or even
  // a session. Signal() then goes to the whole group.
  bool own_group = false;
  bool own_session = false;
  // It is killed when the thread that starts it ends, however that happens.
  bool dies_with_parent = true;
};

// One thread, but for what says otherwise.
class Subprocess {
 public:
  // The child starts with no signal blocked and none ignored, but for a SIGHUP
  // that nohup has told this process to ignore. Thread safe, and works beside
  // gRPC's threads. Errors: NotFound, PermissionDenied (the program, the log);
  // Internal.
  static absl::StatusOr<Subprocess> Start(const SpawnOptions& options);

  Subprocess(Subprocess&&) = default;
  Subprocess& operator=(Subprocess&&) = delete;
  // Kills it if it still runs, and waits for that.
  ~Subprocess();

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_.get(); }
  // True once nothing is left to wait for: Reap() was called, or Release().
  bool done() const { return exit_.has_value() || !pidfd_; }

  // Never reaches a process that got the number later. Thread safe for a child
  // without a group of its own.
  void Signal(int signal) const;
  // Whether it ends within `bound`. Does not reap it. Thread safe.
  bool AwaitEnd(std::chrono::milliseconds bound) const;
  bool ended() const { return AwaitEnd(std::chrono::milliseconds(0)); }
  // Waits for its end, without a bound, and says how it was.
  ExitReport Reap();
  // Lets it live on by itself.
  void Release() { pidfd_.reset(); }

  // CPU time of all its threads so far; once it is reaped, also that of the
  // children that it had reaped.
  uint64_t CpuNs() const;

 private:
  Subprocess(pid_t pid, UniqueFd pidfd, bool leads_group)
      : pid_(pid), pidfd_(std::move(pidfd)), leads_group_(leads_group) {}

  pid_t pid_;
  UniqueFd pidfd_;
  bool leads_group_;
  std::optional<ExitReport> exit_;
  uint64_t cpu_ns_ = 0;
};

// Both ends are closed by an exec.
struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};
// Errors: ResourceExhausted.
absl::StatusOr<Pipe> MakePipe();

// The absolute or relative path that executing `program` means: itself with a
// slash in it, else the first hit in PATH. Errors: NotFound, PermissionDenied.
absl::StatusOr<std::string> FindProgram(const std::string& program);

// This program's own file, to start it again in another role.
std::string OwnProgram();

}  // namespace carillon

#endif  // CARILLON_BASE_SUBPROCESS_H_
