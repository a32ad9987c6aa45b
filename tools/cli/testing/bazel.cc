#include "tools/cli/testing/bazel.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "base/status.h"
#include "tools/cli/ui/exit_code.h"

extern char** environ;

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
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addchdir_np(&files, checkout.c_str());
  if (output_to_stderr) posix_spawn_file_actions_adddup2(&files, 2, 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  // Ctrl-C goes to the program, which ends its tests; then we report what there
  // is.
  const auto before = signal(SIGINT, SIG_IGN);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  int status = 0;
  if (error == 0) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  signal(SIGINT, before);
  if (error != 0) {
    return absl::NotFoundError(
        fmt::format("{}: {}", arguments.front(), strerror(error)));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
