// A process of a testbed that behaves as its arguments say, for the tests:
//   exit CODE [TEXT]   prints TEXT and ends
//   wait               ends with exit code 0 on SIGTERM, and on SIGUSR1, as
//                      gpud does
//   again              as wait, but ends with exit code 75 on SIGUSR1
//   stubborn           ignores SIGTERM and SIGUSR1
//   hold FILE          as stubborn, with a lock on FILE, and slow to die
//   need FILE          waits if there is a FILE, else ends with exit code 3
//   crash              ends with SIGSEGV
//   leave              leaves a process behind and ends
//   daemonize          leaves one behind in a session of its own, and ends
//   parent PROGRAM     starts PROGRAM as ChildProcess does, prints its pid,
//                      waits
// Those that wait print "waiting" first.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tools/testbed/supervisor/child_process.h"

namespace {

std::vector<char> ballast;

// The signal that ends it.
int WaitForTheEnd() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  fmt::print("waiting\n");
  std::fflush(stdout);
  int signal;
  sigwait(&signals, &signal);
  return signal;
}

void Stay() {
  signal(SIGTERM, SIG_IGN);
  signal(SIGUSR1, SIG_IGN);
  fmt::print("waiting\n");
  std::fflush(stdout);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "exit") {
    if (argc > 3) fmt::print("{}\n", argv[3]);
    return atoi(argv[2]);
  }
  if (what == "wait") {
    WaitForTheEnd();
    return 0;
  }
  if (what == "again") return WaitForTheEnd() == SIGUSR1 ? 75 : 0;
  if (what == "need") {
    if (access(argv[2], F_OK) != 0) {
      fmt::print("no file\n");
      return 3;
    }
    WaitForTheEnd();
    return 0;
  }
  if (what == "stubborn") Stay();
  if (what == "hold") {
    if (flock(open(argv[2], O_RDWR | O_CLOEXEC), LOCK_EX) != 0) return 1;
    // The kernel frees memory before it releases locks, so a large one delays
    // that.
    ballast.assign(64 << 20, 'x');
    Stay();
  }
  if (what == "crash") {
    signal(SIGSEGV, SIG_DFL);  // sanitizers make an exit code of it
    raise(SIGSEGV);
  }
  if (what == "leave") {
    if (fork() == 0) Stay();
    return 0;
  }
  if (what == "daemonize") {
    const pid_t leader = fork();
    if (leader == 0) {
      setsid();
      if (fork() == 0) Stay();
      _exit(0);
    }
    // Otherwise this one's end could kill it while it is still in the same
    // group.
    waitpid(leader, nullptr, 0);
    return 0;
  }
  if (what == "parent") {
    const auto child =
        carillon::testbed::ChildProcess::Spawn({.argv = {argv[2], "wait"}});
    if (!child.ok()) return 1;
    fmt::print("{}\n", child->identity().pid);
    WaitForTheEnd();
    return 0;
  }
  return 2;
}
