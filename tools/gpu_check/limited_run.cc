#include "tools/gpu_check/limited_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace carillon::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

sigset_t SignalsOfRuns() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&set, signal);
  return set;
}

// Runs in the child; returns only if the program cannot be started.
void Become(const LimitedCommand& command, pid_t parent,
            const std::vector<char*>& argv) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const sigset_t blocked = SignalsOfRuns();
  sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  if (command.out >= 0) dup2(command.out, STDOUT_FILENO);
  if (command.err >= 0) dup2(command.err, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  execv(argv[0], argv.data());
}

class Process {
 public:
  explicit Process(pid_t pid) : pid_(pid) {}

  bool gone() const { return gone_; }
  bool interrupted() const { return interrupted_; }
  int status() const { return status_; }
  void Kill(int signal) const { kill(-pid_, signal); }

  // Waits for its end, `deadline`, or a signal that ends us.
  void Await(Clock::time_point deadline) {
    const sigset_t set = SignalsOfRuns();
    while (!Look() && !interrupted_) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
          deadline - Clock::now());
      if (left.count() <= 0) return;
      const timespec wait{.tv_sec = left.count() / 1'000'000'000,
                          .tv_nsec = left.count() % 1'000'000'000};
      const int signal = sigtimedwait(&set, nullptr, &wait);
      if (signal == SIGINT || signal == SIGTERM) interrupted_ = true;
    }
  }
  // Waits for its end even after such a signal.
  void AwaitEndOfKilled(milliseconds time) {
    const auto deadline = Clock::now() + time;
    const bool interrupted = interrupted_;
    do {
      interrupted_ = false;
      Await(deadline);
    } while (!gone_ && Clock::now() < deadline);
    interrupted_ = interrupted;
  }

 private:
  bool Look() {
    if (!gone_) gone_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return gone_;
  }

  const pid_t pid_;
  int status_ = 0;
  bool gone_ = false;
  bool interrupted_ = false;
};

}  // namespace

void BlockSignalsOfRuns() {
  const sigset_t set = SignalsOfRuns();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

LimitedResult RunLimited(const LimitedCommand& command) {
  using End = LimitedResult::End;
  std::vector<char*> argv;
  for (const std::string& argument : command.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  if (access(argv[0], X_OK) != 0) return {End::kNotStarted, errno};
  const pid_t parent = getpid();
  const auto start = Clock::now();
  const pid_t pid = fork();
  if (pid < 0) return {End::kNotStarted, errno};
  if (pid == 0) {
    Become(command, parent, argv);
    _exit(127);
  }
  setpgid(pid, pid);  // whoever comes first: the child or we
  Process process(pid);
  process.Await(start + command.limit);
  const bool in_time = process.gone();
  if (!in_time) {
    process.Kill(SIGTERM);
    process.AwaitEndOfKilled(command.grace);
    process.Kill(SIGKILL);
    process.AwaitEndOfKilled(command.kill_grace);
  }
  // Kill what it has left running in its group.
  process.Kill(SIGKILL);
  LimitedResult result;
  result.time = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
  if (!process.gone()) {
    result.end = End::kUnkillable;
  } else if (!in_time) {
    result.end = process.interrupted() ? End::kInterrupted : End::kTimedOut;
  } else if (WIFSIGNALED(process.status())) {
    result.end = End::kSignalled;
    result.code = WTERMSIG(process.status());
  } else {
    result.end = End::kExited;
    result.code = WEXITSTATUS(process.status());
  }
  return result;
}

}  // namespace carillon::gpu_check
