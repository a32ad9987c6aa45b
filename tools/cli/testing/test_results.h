// Counts test targets in the build events that Bazel writes.
#ifndef CARILLON_TOOLS_CLI_TESTING_TEST_RESULTS_H_
#define CARILLON_TOOLS_CLI_TESTING_TEST_RESULTS_H_

#include <istream>
#include <map>
#include <string>
#include <vector>

namespace carillon::cli {

struct TestRun {
  std::string configuration;  // "" (the plain one), "asan", "tsan"
  int exit_code = 0;          // Bazel's
  // Label -> "PASSED", "FAILED", "TIMEOUT", "NOT RUN" (did not build), ...
  std::map<std::string, std::string> targets;
};

// Reads --build_event_json_file. Skips lines that it does not understand: a
// target counts as "NOT RUN" until its summary was read.
std::map<std::string, std::string> ReadBuildEvents(std::istream& events);

struct Tally {
  int passed = 0;
  int failed = 0;
  // "//shm:ring_test (tsan): TIMEOUT": every target that did not simply pass,
  // including those that passed at another attempt (FLAKY).
  std::vector<std::string> remarks;
};

// Counts every target of every run. If Bazel failed although no test did, that
// counts as one more failure.
Tally CountTargets(const std::vector<TestRun>& runs);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_TEST_RESULTS_H_
