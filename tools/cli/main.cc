// carillon: the command line of a testbed. See docs/cli.md.
#include <grpc/support/log.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tools/cli/app.h"

int main(int argc, char** argv) {
  // gRPC's own messages are for its developers; errors come as statuses.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
  }
  carillon::cli::Console console(stdout, stderr);
  return carillon::cli::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc), console);
}
