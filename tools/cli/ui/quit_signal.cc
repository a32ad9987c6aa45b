#include "tools/cli/ui/quit_signal.h"

#include <signal.h>
#include <unistd.h>

namespace carillon::cli {

void TakeQuitAsInterrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { kill(getpid(), SIGINT); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGQUIT, &action, nullptr);
}

}  // namespace carillon::cli
