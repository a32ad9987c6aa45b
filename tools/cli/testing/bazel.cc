#include "tools/cli/testing/bazel.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/subprocess.h"
#include "tools/cli/ui/exit_code.h"

namespace carillon::cli {

namespace fs = std::filesystem;

absl::StatusOr<std::string> FindCheckout() {
  if (const char* root = std::getenv("CARILLON_ROOT");
      root != nullptr && *root != '\0') {
    return std::string(root);
  }
  std::error_code error;
  for (fs::path folder = fs::current_path(error); !folder.empty();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "WORKSPACE", error)) return folder.string();
    if (folder == folder.root_path()) break;
  }
  return WithHint(
      absl::NotFoundError("there is no checkout of Carillon around here"),
      "run ./carillon, or set CARILLON_ROOT to the checkout");
}

absl::StatusOr<int> RunInCheckout(std::vector<std::string> arguments,
                                  const std::string& checkout,
                                  bool output_to_stderr) {
  // Ctrl-C goes to the program, which ends its tests; then we report what there
  // is.
  const auto before = signal(SIGINT, SIG_IGN);
  auto program = Subprocess::Start(
      {.argv = std::move(arguments),
       .directory = checkout,
       .in = STDIN_FILENO,
       .out = output_to_stderr ? STDERR_FILENO : STDOUT_FILENO,
       // A script that we leave behind still cleans up after itself.
       .dies_with_parent = false});
  const int exit_code = program.ok() ? program->Reap().ShellCode() : 0;
  signal(SIGINT, before);
  RETURN_IF_ERROR(program.status());
  return exit_code;
}

absl::StatusOr<int> RunBazel(std::vector<std::string> arguments,
                             const std::string& checkout,
                             bool output_to_stderr) {
  arguments.insert(arguments.begin(), "bazel");
  auto exit_code =
      RunInCheckout(std::move(arguments), checkout, output_to_stderr);
  if (!exit_code.ok()) {
    return WithHint(exit_code.status(),
                    "apt-get install bazel-bootstrap, or run ./carillon");
  }
  return exit_code;
}

}  // namespace carillon::cli
