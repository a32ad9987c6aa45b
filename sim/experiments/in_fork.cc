#include "sim/experiments/in_fork.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/unique_fd.h"
#include "fmt/format.h"

namespace carillon::sim::figures {
namespace {

// Milliseconds after which the parent looks whether the job is cancelled.
constexpr int kLook = 100;

double SecondsOf(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) * 1e-6;
}

absl::Status SystemError(const char* what) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

[[noreturn]] void RunChild(pid_t parent, int result_file,
                           const std::function<absl::StatusOr<Json>()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const absl::StatusOr<Json> result = work();
  const std::string text =
      (result.ok() ? Json{{"result", *result}}
                   : Json{{"code", result.status().raw_code()},
                          {"message", result.status().message()}})
          .dump();
  for (size_t done = 0; done < text.size();) {
    const ssize_t written =
        write(result_file, text.data() + done, text.size() - done);
    if (written < 0) _exit(1);
    done += static_cast<size_t>(written);
  }
  _exit(0);
}

absl::StatusOr<Json> ReadResult(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  std::string text(static_cast<size_t>(std::max<off_t>(size, 0)), '\0');
  if (pread(file, text.data(), text.size(), 0) != size) {
    return SystemError("the result of a fork");
  }
  Json document = Json::parse(text);
  if (document.contains("result")) return std::move(document["result"]);
  return absl::Status(document["code"].get<absl::StatusCode>(),
                      document["message"].get<std::string>());
}

}  // namespace

absl::StatusOr<Json> InFork(const JobControl& control,
                            const std::function<absl::StatusOr<Json>()>& work) {
  const UniqueFd file(memfd_create("result", MFD_CLOEXEC));
  if (!file) return SystemError("memfd_create");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) RunChild(parent, file.get(), work);
  bool cancelled = false;
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd ends{.fd = process.get(), .events = POLLIN, .revents = 0};
  while (poll(&ends, 1, kLook) <= 0 && !cancelled) {
    cancelled = control.cancelled != nullptr && *control.cancelled;
  }
  if (cancelled) kill(child, SIGKILL);
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  if (control.child_seconds != nullptr) {
    *control.child_seconds +=
        SecondsOf(used.ru_utime) + SecondsOf(used.ru_stime);
  }
  if (cancelled) return absl::CancelledError();
  if (WIFSIGNALED(status)) {
    return absl::InternalError(fmt::format("a fork of the simulation died: {}",
                                           strsignal(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) != 0) {
    return absl::InternalError(
        "a fork of the simulation cannot give its result");
  }
  return ReadResult(file.get());
}

}  // namespace carillon::sim::figures
