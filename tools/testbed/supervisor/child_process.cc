#include "tools/testbed/supervisor/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"

extern char** environ;

namespace carillon::testbed {
namespace {

int PidfdOpen(pid_t pid) { return syscall(SYS_pidfd_open, pid, 0); }

// The parent's variables, without those that the child gets new.
std::vector<std::string> MergedEnvironment(const SpawnSpec& spec) {
  std::vector<std::string> merged = spec.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool is_set_anew =
        std::any_of(spec.environment.begin(), spec.environment.end(),
                    [&](const auto& own) { return own.starts_with(name); });
    if (!is_set_anew) merged.emplace_back(text);
  }
  return merged;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs. Made before the fork, since the child may not allocate.
struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* environment;
  int log_fd;
  int input_fd;
  int error_fd;  // takes an errno if exec fails; closed by exec
  pid_t parent;
};

// Runs in the child, in the parent's memory (vfork), so it makes system calls
// only.
[[noreturn]] void BecomeProgram(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the prctl() above.
  if (getppid() != plan.parent) _exit(127);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  int error = 0;
  if (dup2(plan.input_fd, 0) < 0 || dup2(plan.log_fd, 1) < 0 ||
      dup2(plan.log_fd, 2) < 0) {
    error = errno;
  } else {
    execve(plan.program, plan.argv, plan.environment);
    error = errno;
  }
  (void)!write(plan.error_fd, &error, sizeof(error));
  _exit(127);
}

// vfork, because the memory of a process with gRPC's threads must not be
// copied, and posix_spawn cannot set PR_SET_PDEATHSIG.
__attribute__((noinline)) pid_t VforkInto(const ChildPlan& plan) {
  const pid_t pid = vfork();
  if (pid == 0) BecomeProgram(plan);
  return pid;
}

absl::Status ProgramError(const std::string& program, int error) {
  const std::string message =
      fmt::format("cannot run {}: {}", program, strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace

std::string ExitReport::ToString() const {
  return signal != 0 ? SignalName(signal) : fmt::format("exit code {}", code);
}

absl::StatusOr<std::string> FindProgram(const std::string& program) {
  const auto is_program = [](const std::string& path) {
    struct stat facts;
    return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return program;
    std::error_code ignored;
    return ProgramError(
        program, std::filesystem::exists(program, ignored) ? EACCES : ENOENT);
  }
  const char* const path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = rest.substr(0, end) + "/" + program;
    if (is_program(candidate)) return candidate;
    rest.erase(0, end + 1);
  }
  return absl::NotFoundError(
      fmt::format("cannot run {}: no such program in PATH", program));
}

absl::StatusOr<ChildProcess> ChildProcess::Spawn(const SpawnSpec& spec) {
  if (spec.argv.empty()) return absl::InvalidArgumentError("no program named");
  ASSIGN_OR_RETURN(const auto program, FindProgram(spec.argv[0]));

  const std::string log = spec.log_path.empty() ? "/dev/null" : spec.log_path;
  const UniqueFd log_fd(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log_fd) {
    return absl::PermissionDeniedError(
        fmt::format("cannot write {}: {}", log, strerror(errno)));
  }
  const UniqueFd input_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int pipe_fds[2];
  if (!input_fd || pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::InternalError(
        fmt::format("cannot start {}: {}", program, strerror(errno)));
  }
  const UniqueFd error_reader(pipe_fds[0]);
  UniqueFd error_writer(pipe_fds[1]);

  const std::vector<std::string> environment = MergedEnvironment(spec);
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> envp = Pointers(environment);

  // The child must not run the parent's handlers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = VforkInto({.program = program.c_str(),
                               .argv = argv.data(),
                               .environment = envp.data(),
                               .log_fd = log_fd.get(),
                               .input_fd = input_fd.get(),
                               .error_fd = error_writer.get(),
                               .parent = getpid()});
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::InternalError(
        fmt::format("cannot start {}: {}", program, strerror(fork_error)));
  }

  error_writer.reset();
  int exec_error = 0;
  const ssize_t got = read(error_reader.get(), &exec_error, sizeof(exec_error));
  if (got == sizeof(exec_error)) {
    waitpid(pid, nullptr, 0);
    return ProgramError(program, exec_error);
  }
  // The child is not reaped yet, so the pid cannot mean another process.
  UniqueFd pidfd(PidfdOpen(pid));
  const auto facts = LookAtProcess(pid);
  if (!pidfd || !facts) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return absl::InternalError(
        fmt::format("cannot watch {}: {}", program, strerror(error)));
  }
  return ChildProcess(facts->identity, std::move(pidfd));
}

ChildProcess::~ChildProcess() {
  if (!pidfd_ || exit_) return;
  Signal(SIGKILL);
  pollfd ended{pidfd_.get(), POLLIN, 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  Reap();
}

void ChildProcess::Signal(int signal) const {
  if (!exit_) kill(-identity_.pid, signal);
}

const std::optional<ExitReport>& ChildProcess::Reap() {
  if (exit_) return exit_;
  siginfo_t info{};
  // The zombie keeps its process group's number from being reused.
  if (waitid(P_PID, identity_.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return exit_;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && pid != identity_.pid && getpgid(pid) == identity_.pid) {
      ++left_behind_;
    }
  }
  if (left_behind_ > 0) kill(-identity_.pid, SIGKILL);
  waitid(P_PID, identity_.pid, &info, WEXITED);
  exit_ = info.si_code == CLD_EXITED ? ExitReport{.code = info.si_status}
                                     : ExitReport{.signal = info.si_status};
  return exit_;
}

}  // namespace carillon::testbed
