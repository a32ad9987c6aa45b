#include "tools/gpu_check/limited_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "base/subprocess.h"
#include "base/unique_fd.h"

namespace carillon::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

sigset_t Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

enum class Event { kEnd, kInterrupt, kTimeIsUp };

Event Await(const Subprocess& process, milliseconds limit) {
  const sigset_t set = Interrupts();
  const UniqueFd interrupts(signalfd(-1, &set, SFD_CLOEXEC));
  pollfd fds[] = {{process.pidfd(), POLLIN, 0}, {interrupts.get(), POLLIN, 0}};
  if (poll(fds, 2, static_cast<int>(std::max<int64_t>(limit.count(), 0))) <=
      0) {
    return Event::kTimeIsUp;
  }
  if (fds[0].revents != 0) return Event::kEnd;
  signalfd_siginfo taken;
  (void)!read(interrupts.get(), &taken, sizeof(taken));
  return Event::kInterrupt;
}

// Of this process, those among them that have ended and are not reaped.
std::set<pid_t> Children() {
  std::set<pid_t> children;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid == 0) continue;
    // PID (NAME) STATE PARENT: a name may have parentheses.
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const size_t parent = line.rfind(')') + 4;
    pid_t parent_pid = 0;
    if (parent < line.size()) {
      std::from_chars(line.data() + parent, line.data() + line.size(),
                      parent_pid);
    }
    if (parent_pid == getpid()) children.insert(pid);
  }
  return children;
}

// Kills what became this process's child when its parent ended, as a supervisor
// in a session of its own, and then what that leaves. `kept` stay.
void EndOrphans(const std::set<pid_t>& kept, milliseconds bound) {
  const auto end = Clock::now() + bound;
  while (true) {
    bool some = false;
    for (const pid_t pid : Children()) {
      if (kept.contains(pid)) continue;
      some = true;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, WNOHANG);
    }
    if (!some || Clock::now() >= end) return;
    poll(nullptr, 0, 1);
  }
}

}  // namespace

void BlockSignalsOfRuns() {
  const sigset_t set = Interrupts();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

LimitedResult RunLimited(const LimitedCommand& command) {
  using End = LimitedResult::End;
  const auto start = Clock::now();
  // Orphans of the program come to this process.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::set<pid_t> kept = Children();
  auto process = Subprocess::Start({.argv = command.argv,
                                    .environment = command.environment,
                                    .out = command.out,
                                    .err = command.err,
                                    .own_group = true});
  if (!process.ok()) {
    return {.end = End::kNotStarted,
            .why = std::string(process.status().message())};
  }
  const Event event = Await(*process, command.limit);
  if (event != Event::kEnd) {
    process->Signal(SIGTERM);
    process->AwaitEnd(command.grace);
  }
  // Kill what it has left running in its group, too.
  process->Signal(SIGKILL);
  const bool gone = process->AwaitEnd(command.kill_grace);
  LimitedResult result;
  result.time = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
  if (!gone) {
    kept.insert(process->pid());
    process->Release();
    EndOrphans(kept, command.kill_grace);
    result.end = End::kUnkillable;
    return result;
  }
  const ExitReport exit = process->Reap();
  EndOrphans(kept, command.kill_grace);
  if (event != Event::kEnd) {
    result.end =
        event == Event::kInterrupt ? End::kInterrupted : End::kTimedOut;
  } else if (exit.signal != 0) {
    result.end = End::kSignalled;
    result.code = exit.signal;
  } else {
    result.end = End::kExited;
    result.code = exit.code;
  }
  return result;
}

}  // namespace carillon::gpu_check
