#include "base/subprocess.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>  // program_invocation_name
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/process_cpu.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon {
namespace {

// The parent's variables, but for those that the child gets anew.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::string>& anew) {
  std::vector<std::string> merged = anew;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool is_set_anew = std::any_of(
        anew.begin(), anew.end(),
        [&](const std::string& own) { return own.starts_with(name); });
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

// What the child needs, made before it exists: it may not allocate.
struct ChildPlan {
  const SpawnOptions& options;
  const char* program;
  char* const* argv;
  char* const* environment;
  std::array<int, 3> streams;
  cpu_set_t cpus;
  int failure_fd;  // takes a Failure; closed by a successful exec
  pid_t parent;
};

struct Failure {
  const char* step;  // nullptr: exec
  int error;
};

// A parent that is killed runs no code any more, so the kernel must end the
// child: it sends the signal when the *thread* that started the child ends.
// (setpriv --pdeathsig does the same, with one more program on the way.)
bool TieLifeTo(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  // A parent that died before the line above sends nothing.
  if (getppid() != parent) _exit(127);
  return true;
}

void ResetSignals() {
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    if (signal == SIGHUP && hangup.sa_handler == SIG_IGN) continue;  // nohup
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool ConnectStreams(const std::array<int, 3>& streams) {
  std::array<int, 3> copies = streams;
  for (int target = 0; target < 3; ++target) {
    if (streams[target] == target) continue;
    // A copy, as a stream's number may be the target of an earlier one.
    copies[target] = fcntl(streams[target], F_DUPFD_CLOEXEC, 3);
    if (copies[target] < 0) return false;
  }
  for (int target = 0; target < 3; ++target) {
    if (copies[target] != target && dup2(copies[target], target) < 0) {
      return false;
    }
  }
  return true;
}

// Returns the step that failed, or nullptr.
const char* Prepare(const ChildPlan& plan) {
  const SpawnOptions& options = plan.options;
  if (options.own_session) {
    setsid();
    // The parent's keys are for its own session.
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
  } else if (options.own_group) {
    setpgid(0, 0);
  }
  if (options.dies_with_parent && !TieLifeTo(plan.parent)) {
    return "tie the child's life to ours";
  }
  ResetSignals();
  if (!options.cpus.empty() &&
      sched_setaffinity(0, sizeof(plan.cpus), &plan.cpus) != 0) {
    return "pin the child";
  }
  if (options.realtime) {
    const sched_param parameters{.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &parameters) != 0) {
      return "give the child real-time priority";
    }
  }
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) {
    return "enter the child's directory";
  }
  if (!ConnectStreams(plan.streams)) {
    return "connect the child's stdin, stdout and stderr";
  }
  // Ours are closed anyway; those that our own parent left open are not.
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    return "close the parent's descriptors";
  }
  for (const int fd : options.inherited) fcntl(fd, F_SETFD, 0);
  return nullptr;
}

// Runs in the child, on the parent's memory (vfork): system calls only.
[[noreturn]] void BecomeProgram(const ChildPlan& plan) {
  const char* const step = Prepare(plan);
  if (step == nullptr) execve(plan.program, plan.argv, plan.environment);
  const Failure failure{step, errno};
  (void)!write(plan.failure_fd, &failure, sizeof(failure));
  _exit(127);
}

// vfork: the memory of a process with gRPC's threads in it must not be copied,
// and posix_spawn cannot tie the child's life to ours. Failures come through a
// pipe all the same, as TSan makes a fork of it.
__attribute__((noinline)) pid_t VforkInto(const ChildPlan& plan) {
  const pid_t pid = vfork();
  if (pid == 0) BecomeProgram(plan);
  return pid;
}

// No handler of the parent may run in the child.
pid_t SpawnChild(const ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = VforkInto(plan);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
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

absl::Status StartError(const std::string& program, int error) {
  return absl::InternalError(
      fmt::format("cannot start {}: {}", program, strerror(error)));
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd log(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (log) return log;
  return absl::PermissionDeniedError(
      fmt::format("cannot write {}: {}", path, strerror(errno)));
}

uint64_t ToNs(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<uint64_t>(time.tv_usec) * 1'000u;
}

}  // namespace

std::string ExitReport::ToString() const {
  return signal != 0 ? SignalName(signal) : fmt::format("exit code {}", code);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name)
                         : fmt::format("signal {}", signal);
}

absl::StatusOr<Subprocess> Subprocess::Start(const SpawnOptions& options) {
  if (options.argv.empty())
    return absl::InvalidArgumentError("no program named");
  ASSIGN_OR_RETURN(
      std::string program,
      FindProgram(options.program.empty() ? options.argv[0] : options.program));
  // exec() looks at it from the child's directory.
  if (!options.directory.empty()) {
    program = std::filesystem::absolute(program).string();
  }
  UniqueFd log;
  if (!options.log_path.empty()) {
    ASSIGN_OR_RETURN(log, OpenLog(options.log_path));
  }
  const UniqueFd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return StartError(program, errno);
  ASSIGN_OR_RETURN(auto failures, MakePipe());

  const std::vector<std::string> environment =
      MergedEnvironment(options.environment);
  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> envp = Pointers(environment);
  ChildPlan plan{
      .options = options,
      .program = program.c_str(),
      .argv = argv.data(),
      .environment = envp.data(),
      .streams = {options.in, log ? log.get() : options.out,
                  log ? log.get() : options.err},
      .failure_fd = failures.writer.get(),
      .parent = getpid(),
  };
  for (int& stream : plan.streams) {
    if (stream == SpawnOptions::kNothing) stream = nothing.get();
  }
  CPU_ZERO(&plan.cpus);
  for (const int cpu : options.cpus) CPU_SET(cpu, &plan.cpus);

  const pid_t pid = SpawnChild(plan);
  if (pid < 0) return StartError(program, errno);
  failures.writer.reset();
  Failure failure;
  if (TEMP_FAILURE_RETRY(
          read(failures.reader.get(), &failure, sizeof(failure))) > 0) {
    (void)TEMP_FAILURE_RETRY(waitpid(pid, nullptr, 0));
    if (failure.step == nullptr) return ProgramError(program, failure.error);
    return absl::InternalError(fmt::format("cannot start '{}': {}: {}",
                                           options.argv[0], failure.step,
                                           strerror(failure.error)));
  }
  // Not reaped yet, so the pid cannot mean another process.
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const int error = errno;
    kill(pid, SIGKILL);
    (void)TEMP_FAILURE_RETRY(waitpid(pid, nullptr, 0));
    return absl::InternalError(
        fmt::format("cannot watch {}: {}", program, strerror(error)));
  }
  return Subprocess(pid, std::move(pidfd),
                    options.own_group || options.own_session);
}

Subprocess::~Subprocess() {
  if (done()) return;
  Signal(SIGKILL);
  Reap();
}

void Subprocess::Signal(int signal) const {
  if (!leads_group_) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
  } else if (!done()) {
    // Until it is reaped, the number of its group is its own.
    kill(-pid_, signal);
  }
}

bool Subprocess::AwaitEnd(std::chrono::milliseconds bound) const {
  if (!pidfd_) return true;
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(bound).count();
  pollfd ended{pidfd_.get(), POLLIN, 0};
  while (true) {
    const Nanoseconds left = deadline - std::min(NowNs(), deadline);
    const timespec timeout{.tv_sec = static_cast<time_t>(left / 1'000'000'000),
                           .tv_nsec = static_cast<long>(left % 1'000'000'000)};
    const int ready = ppoll(&ended, 1, &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

ExitReport Subprocess::Reap() {
  if (done()) return exit_.value_or(ExitReport{});
  int status = 0;
  rusage usage{};
  if (TEMP_FAILURE_RETRY(wait4(pid_, &status, 0, &usage)) < 0) {
    // Somebody ignores SIGCHLD: nobody knows how it ended, so it is no success.
    status = W_EXITCODE(127, 0);
  }
  exit_ = WIFSIGNALED(status) ? ExitReport{.signal = WTERMSIG(status)}
                              : ExitReport{.code = WEXITSTATUS(status)};
  cpu_ns_ = ToNs(usage.ru_utime) + ToNs(usage.ru_stime);
  return *exit_;
}

uint64_t Subprocess::CpuNs() const {
  return done() ? cpu_ns_ : ProcessCpuNs(pid_).value_or(0);
}

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("pipe: {}", strerror(errno)));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
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

std::string OwnProgram() {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) return "";
  const std::string file(path.data(), static_cast<size_t>(length));
  // Started by way of a dynamic linker of its own (as in `carillon gpu-bundle`),
  // it is to be started so again: by the name that it was given.
  const size_t folder = file.rfind('/') + 1;
  if (file.compare(folder, 3, "ld-") == 0) return program_invocation_name;
  return file;
}

}  // namespace carillon
