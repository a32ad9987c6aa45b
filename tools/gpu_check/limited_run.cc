#include "tools/gpu_check/limited_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

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

}  // namespace

void BlockSignalsOfRuns() {
  const sigset_t set = Interrupts();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

LimitedResult RunLimited(const LimitedCommand& command) {
  using End = LimitedResult::End;
  const auto start = Clock::now();
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
    process->Release();
    result.end = End::kUnkillable;
    return result;
  }
  const ExitReport exit = process->Reap();
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
