// The list of the tests that may skip: allowed_skips.txt.
#ifndef CARILLON_TOOLS_CLI_TESTING_ALLOWED_SKIPS_H_
#define CARILLON_TOOLS_CLI_TESTING_ALLOWED_SKIPS_H_

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

// A line of the list: each field is a pattern as the shell's, so that "*" is
// anything.
struct AllowedSkip {
  std::string configuration;  // "default", "asan", ...
  std::string target;         // label
  std::string test_case;      // "Suite.Name"; "-": the test as a whole
  std::string reason;

  bool AllowsTarget(const std::string& label) const;
  // `name` is "" for the test as a whole.
  bool Allows(const std::string& of_configuration, const std::string& label,
              const std::string& name, const std::string& why) const;
  std::string Line() const;
};

// Errors: InvalidArgument (a line without all four fields).
absl::StatusOr<std::vector<AllowedSkip>> ReadAllowedSkips(std::istream& list);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_ALLOWED_SKIPS_H_
