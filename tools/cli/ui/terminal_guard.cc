#include "tools/cli/ui/terminal_guard.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

namespace carillon::cli {
namespace {

// Whose default is the process's end, but for SIGKILL, what StopSignals takes,
// and SIGQUIT, which whoever draws ignores.
constexpr std::array kFatal = {SIGABRT, SIGALRM, SIGBUS,  SIGFPE,  SIGILL,
                               SIGPIPE, SIGPROF, SIGSEGV, SIGSYS,  SIGTRAP,
                               SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGVTALRM};

// A signal handler has no other way to it. Writer: the guard; readers: it, and
// handlers in any thread. `lives` is set last, with release, and so is
// `leave_bytes`, which counts what of `leave` is whole.
struct Guarded {
  std::atomic<bool> lives{false};
  int fd = -1;
  bool has_modes = false;
  termios modes{};
  std::array<char, TerminalGuard::kMaxLeave> leave{};
  std::atomic<size_t> leave_bytes{0};
};
Guarded guarded;

void GiveBackAndDie(int signal) {
  TerminalGuard::GiveBack();
  // The default is there again (SA_RESETHAND), and waits for the end of this
  // handler.
  raise(signal);
}

}  // namespace

TerminalGuard::TerminalGuard(int fd, std::string_view leave) {
  guarded.fd = fd;
  guarded.has_modes = tcgetattr(fd, &guarded.modes) == 0;
  Leave(leave);
  guarded.lives.store(true, std::memory_order_release);
  for (const int signal : kFatal) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = GiveBackAndDie;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
}

void TerminalGuard::Leave(std::string_view leave) {
  guarded.leave_bytes.store(0, std::memory_order_relaxed);
  const std::string_view kept = leave.substr(0, kMaxLeave);
  std::ranges::copy(kept, guarded.leave.begin());
  guarded.leave_bytes.store(kept.size(), std::memory_order_release);
}

TerminalGuard::~TerminalGuard() {
  guarded.lives.store(false, std::memory_order_release);
  for (const int signal : kFatal) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler == GiveBackAndDie) ::signal(signal, SIG_DFL);
  }
}

void TerminalGuard::GiveBack() {
  if (!guarded.lives.exchange(false, std::memory_order_acq_rel)) return;
  // In the background the terminal is somebody else's.
  if (tcgetpgrp(guarded.fd) != getpgrp()) return;
  const size_t bytes = guarded.leave_bytes.load(std::memory_order_acquire);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t wrote =
        write(guarded.fd, guarded.leave.data() + done, bytes - done);
    if (wrote < 0 && errno != EINTR) break;
    if (wrote > 0) done += static_cast<size_t>(wrote);
  }
  if (guarded.has_modes) tcsetattr(guarded.fd, TCSANOW, &guarded.modes);
}

}  // namespace carillon::cli
