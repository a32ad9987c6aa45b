// Gives a terminal back as it was when its process dies of a signal.
#ifndef CARILLON_TOOLS_CLI_UI_TERMINAL_GUARD_H_
#define CARILLON_TOOLS_CLI_UI_TERMINAL_GUARD_H_

#include <cstddef>
#include <string_view>

namespace carillon::cli {

// While it lives, a signal that ends the process (SIGSEGV, SIGABRT, SIGUSR1, ...)
// first has the terminal take its modes of now back, and what ends the screen.
// One at a time. SIGKILL lets nobody do so; signals that somebody ignores, blocks
// or handles are left to them.
class TerminalGuard {
 public:
  // `fd`: the terminal. `leave`: its codes for the way back, at most kMaxLeave
  // bytes.
  static constexpr size_t kMaxLeave = 256;
  TerminalGuard(int fd, std::string_view leave);
  // Other codes for the way back.
  void Leave(std::string_view leave);
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;

  // What such a signal does first, for who ends the process in another way; it
  // does nothing where no guard lives. For signal handlers, too.
  static void GiveBack();
};

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_UI_TERMINAL_GUARD_H_
