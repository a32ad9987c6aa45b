// carillon: the command line of a testbed. See docs/cli.md.
#include <grpc/support/log.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tools/cli/app.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/terminal_guard.h"

namespace {

// Where there is no memory there is no message to build.
void OutOfMemory() {
  carillon::cli::TerminalGuard::GiveBack();
  static constexpr char kMessage[] =
      "carillon: out of memory; raise the limit (ulimit -v), or free some\n";
  (void)!write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  std::_Exit(static_cast<int>(carillon::cli::ExitCode::kFailed));
}

}  // namespace

int main(int argc, char** argv) {
  std::set_new_handler(OutOfMemory);
  // gRPC's own messages are for its developers; errors come as statuses.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  carillon::cli::Console console(stdout, stderr);
  return carillon::cli::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), console);
}
