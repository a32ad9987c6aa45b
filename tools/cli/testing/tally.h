// Counts the cases of all tests that ran.
#ifndef CARILLON_TOOLS_CLI_TESTING_TALLY_H_
#define CARILLON_TOOLS_CLI_TESTING_TALLY_H_

#include <string>
#include <vector>

#include "tools/cli/testing/allowed_skips.h"
#include "tools/cli/testing/test_xml.h"

namespace carillon::cli {

// One target in one configuration.
struct TargetResult {
  std::string label;
  std::string status;  // as in TestTarget
  // The cases of each attempt. A test.xml that could not be read is a failed
  // case, which says so.
  std::vector<std::vector<TestCase>> attempts;
};

// What one `bazel test` did.
struct TestRun {
  std::string configuration;  // "default", "asan", ...
  int exit_code = 0;          // Bazel's
  bool interrupted() const;
  std::vector<TargetResult> targets;
};

struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;  // those that the list allows
  // A line each, "//a:b_test Suite.Case (asan): ...": the cases that the list lets
  // skip, with the reason; those that passed at a later attempt; all that counts
  // as failed; and for a run that was interrupted, how many targets it left out.
  std::vector<std::string> skips;
  std::vector<std::string> retried;
  std::vector<std::string> failures;
  std::vector<std::string> not_run;
};

// As failed count, too: a target that did not build, a skip that the list does
// not allow, and a Bazel that failed although no test did. A run that was
// interrupted has no verdict about the targets that it did not get to.
Tally CountCases(const std::vector<TestRun>& runs,
                 const std::vector<AllowedSkip>& allowed);

// The lines of the list that name no target of any run.
std::vector<AllowedSkip> StaleSkips(const std::vector<TestRun>& runs,
                                    const std::vector<AllowedSkip>& allowed);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_TALLY_H_
