// Bazel, as `carillon test` and `carillon bench` call it.
#ifndef CARILLON_TOOLS_CLI_TESTING_BAZEL_H_
#define CARILLON_TOOLS_CLI_TESTING_BAZEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

// Bazel's exit code after Ctrl-C.
inline constexpr int kBazelInterrupted = 8;

// The checkout: $CARILLON_ROOT, or the folder at or above this one that holds a
// WORKSPACE. Errors: NotFound.
absl::StatusOr<std::string> FindCheckout();

// Runs a program there, the first of the arguments, with this terminal, and
// returns its exit code. Ctrl-C is the program's meanwhile. `output_to_stderr`:
// stdout is kept for a document. Errors: NotFound (no such program).
absl::StatusOr<int> RunInCheckout(std::vector<std::string> arguments,
                                  const std::string& checkout,
                                  bool output_to_stderr);

// The same for bazel, with its arguments.
absl::StatusOr<int> RunBazel(std::vector<std::string> arguments,
                             const std::string& checkout,
                             bool output_to_stderr);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_BAZEL_H_
