// What Bazel tells about its tests (--build_event_json_file).
#ifndef CARILLON_TOOLS_CLI_TESTING_BUILD_EVENTS_H_
#define CARILLON_TOOLS_CLI_TESTING_BUILD_EVENTS_H_

#include <istream>
#include <map>
#include <string>
#include <vector>

namespace carillon::cli {

// Of a target that did not build, or that an interrupted Bazel did not get to.
inline constexpr char kNotRun[] = "NOT RUN";

struct TestTarget {
  // "PASSED", "FLAKY" (passed, but not at the first attempt), "FAILED",
  // "TIMEOUT", kNotRun, ...
  std::string status;
  // The path of each attempt's test.xml, in order; "" where there is none.
  std::vector<std::string> attempts;
};

// By label. Lines that are not understood are left out: a target counts as
// kNotRun until its summary was read.
std::map<std::string, TestTarget> ReadBuildEvents(std::istream& events);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_BUILD_EVENTS_H_
