#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>  // program_invocation_name
#include <cstring>

#include "base/clock.h"
#include "base/process_cpu.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon {
namespace {

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("pipe: {}", std::strerror(errno)));
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// In the child, between fork and exec: returns the step that failed.
const char* Prepare(const ChildSpec& spec, pid_t parent, int in, int out) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
    return "tie the child's life to ours";
  }
  if (!spec.log_path.empty()) {
    out = open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0) return "open the child's log";
    dup2(out, STDERR_FILENO);
  }
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0) {
    return "connect the child's stdin and stdout";
  }
  if (!spec.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : spec.cpus) CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) return "pin the child";
  }
  if (spec.realtime) {
    const sched_param parameters{.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &parameters) != 0) {
      return "give the child real-time priority";
    }
  }
  return "start the program";
}

}  // namespace

absl::StatusOr<Child> Child::Spawn(const ChildSpec& spec) {
  auto to = MakePipe();
  auto from = MakePipe();
  auto failure = MakePipe();  // closed by a successful exec
  for (const auto* pipe : {&to, &from, &failure}) {
    if (!pipe->ok()) return pipe->status();
  }
  std::vector<char*> argv;
  for (const std::string& argument : spec.argv) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("fork: {}", std::strerror(errno)));
  }
  if (pid == 0) {
    const char* step =
        Prepare(spec, parent, to->reader.get(), from->writer.get());
    if (std::strcmp(step, "start the program") == 0) {
      execv(argv[0], argv.data());
    }
    const std::string why = fmt::format("{}: {}", step, std::strerror(errno));
    [[maybe_unused]] const ssize_t written =
        write(failure->writer.get(), why.data(), why.size());
    _exit(127);
  }
  Child child;
  child.pid_ = pid;
  child.to_ = std::move(to->writer);
  child.from_ = std::move(from->reader);
  failure->writer.reset();
  std::array<char, 256> why;
  const ssize_t failed = read(failure->reader.get(), why.data(), why.size());
  if (failed > 0) {
    child.End(SIGKILL, {});
    return absl::InternalError(
        fmt::format("cannot start '{}': {}", spec.argv[0],
                    std::string_view(why.data(), size_t(failed))));
  }
  return child;
}

Child::~Child() {
  if (pid_ > 0) End(SIGKILL, {});
}

absl::StatusOr<bool> Child::ReadMore(Nanoseconds deadline) {
  while (true) {
    const Nanoseconds now = NowNs();
    pollfd ready{from_.get(), POLLIN, 0};
    const int wait_ms =
        now >= deadline ? 0
                        : static_cast<int>((deadline - now) / 1'000'000) + 1;
    if (poll(&ready, 1, wait_ms) == 0) {
      return absl::DeadlineExceededError(
          fmt::format("process {} does not answer", pid_));
    }
    std::array<char, 4096> bytes;
    const ssize_t got = read(from_.get(), bytes.data(), bytes.size());
    if (got > 0) unread_.append(bytes.data(), static_cast<size_t>(got));
    if (got >= 0 || errno != EINTR) return got > 0;
  }
}

absl::StatusOr<std::string> Child::ReadLine(std::chrono::milliseconds timeout) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (true) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    ASSIGN_OR_RETURN(const auto more, ReadMore(deadline));
    if (!more) {
      return absl::AbortedError(
          fmt::format("process {} ended early; its messages are above", pid_));
    }
  }
}

absl::StatusOr<std::string> Child::ReadAll(std::chrono::milliseconds timeout) {
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(timeout).count();
  while (true) {
    ASSIGN_OR_RETURN(const auto more, ReadMore(deadline));
    if (!more) return std::exchange(unread_, {});
  }
}

absl::Status Child::WriteLine(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  // A dead reader must be an error, not the end of the bench.
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  const ssize_t written = write(to_.get(), bytes.data(), bytes.size());
  sigaction(SIGPIPE, &before, nullptr);
  if (written == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::AbortedError(fmt::format("process {} does not listen: {}", pid_,
                                        std::strerror(errno)));
}

bool Child::ended() const {
  if (pid_ <= 0) return true;
  siginfo_t info{};
  // Left to be waited for by End().
  const int options = WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(pid_), &info, options) == 0 &&
         info.si_pid == pid_;
}

uint64_t Child::CpuNs() const {
  return pid_ > 0 ? ProcessCpuNs(pid_).value_or(cpu_ns_) : cpu_ns_;
}

void Child::End(int signal, std::chrono::milliseconds grace) {
  if (pid_ <= 0) return;
  to_.reset();
  kill(pid_, signal);
  const Nanoseconds deadline =
      NowNs() + std::chrono::nanoseconds(grace).count();
  rusage usage{};
  while (wait4(pid_, nullptr, WNOHANG, &usage) == 0) {
    if (NowNs() >= deadline) kill(pid_, SIGKILL);
    usleep(500);
  }
  cpu_ns_ =
      static_cast<uint64_t>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
          1'000'000'000u +
      static_cast<uint64_t>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) *
          1000u;
  pid_ = -1;
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
