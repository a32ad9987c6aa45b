// Calls Bazel for `carillon test` and `carillon bench`.
#ifndef CARILLON_TOOLS_CLI_TESTING_BAZEL_H_
#define CARILLON_TOOLS_CLI_TESTING_BAZEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

// Bazel's exit codes: all was built but some test failed; after Ctrl-C.
inline constexpr int kBazelTestsFailed = 3;
inline constexpr int kBazelInterrupted = 8;

// The checkout: $CARILLON_ROOT, or the nearest folder at or above this one that
// holds a WORKSPACE. Errors: NotFound.
absl::StatusOr<std::string> FindCheckout();

// Runs a program in the checkout, the first of the arguments, with this
// terminal, and returns its exit code. Ctrl-C goes to the program meanwhile.
// `output_to_stderr` keeps stdout free for a document. Errors: NotFound (no
// such program).
absl::StatusOr<int> RunInCheckout(std::vector<std::string> arguments,
                                  const std::string& checkout,
                                  bool output_to_stderr);

// Runs bazel in the same way.
absl::StatusOr<int> RunBazel(std::vector<std::string> arguments,
                             const std::string& checkout,
                             bool output_to_stderr);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_BAZEL_H_
