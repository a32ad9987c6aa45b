#include "tools/cli/ui/terminal_guard.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace carillon::cli {
namespace {

constexpr char kLeave[] = "LEFT";

// What became of a process that had a terminal in raw mode.
struct Ending {
  int status = 0;
  std::string written;
  bool cooked = false;
};

// `last`: after the guard has been made.
Ending OfAProcess(
    const std::function<void()>& last,
    const std::function<void()>& first = [] {}) {
  int primary = -1;
  Ending ending;
  const pid_t child = forkpty(&primary, nullptr, nullptr, nullptr);
  if (child == 0) {
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);
    first();
    const TerminalGuard guard(STDOUT_FILENO, kLeave);
    termios raw{};
    tcgetattr(STDOUT_FILENO, &raw);
    cfmakeraw(&raw);
    tcsetattr(STDOUT_FILENO, TCSANOW, &raw);
    last();
    _exit(0);
  }
  EXPECT_GT(child, 0);
  waitpid(child, &ending.status, 0);
  termios now{};
  EXPECT_EQ(tcgetattr(primary, &now), 0);
  ending.cooked = (now.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
  // Its end is an error: nobody has the other side open.
  char bytes[64];
  for (ssize_t got; (got = read(primary, bytes, sizeof(bytes))) > 0;) {
    ending.written.append(bytes, static_cast<size_t>(got));
  }
  close(primary);
  return ending;
}

TEST(TerminalGuard, ASignalThatEndsTheProcessFindsTheTerminalGivenBack) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGUSR1, SIGPIPE, SIGALRM}) {
    // Sanitizers have a handler for some, which is left alone.
    const Ending ending = OfAProcess([&] { kill(getpid(), signal); },
                                     [&] { ::signal(signal, SIG_DFL); });
    ASSERT_TRUE(WIFSIGNALED(ending.status)) << signal;
    EXPECT_EQ(WTERMSIG(ending.status), signal);
    EXPECT_EQ(ending.written, kLeave) << signal;
    EXPECT_TRUE(ending.cooked) << signal;
  }
}

TEST(TerminalGuard, WhoEndsInAnotherWayCanGiveItBack) {
  const Ending ending = OfAProcess([] {
    TerminalGuard::GiveBack();
    TerminalGuard::GiveBack();
  });
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(ending.written, kLeave);
  EXPECT_TRUE(ending.cooked);
}

TEST(TerminalGuard, LeavesAloneWhatOthersHandle) {
  const Ending ending =
      OfAProcess([] { kill(getpid(), SIGUSR1); },
                 [] { ::signal(SIGUSR1, [](int) { _exit(7); }); });
  ASSERT_TRUE(WIFEXITED(ending.status));
  EXPECT_EQ(WEXITSTATUS(ending.status), 7);
  EXPECT_EQ(ending.written, "");
}

TEST(TerminalGuard, DoesNothingAfterItsEnd) {
  { const TerminalGuard guard(STDOUT_FILENO, kLeave); }
  struct sigaction now {};
  sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
  testing::internal::CaptureStdout();
  TerminalGuard::GiveBack();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace carillon::cli
