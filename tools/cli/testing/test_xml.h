// The cases of one test, as its test.xml has them.
#ifndef CARILLON_TOOLS_CLI_TESTING_TEST_XML_H_
#define CARILLON_TOOLS_CLI_TESTING_TEST_XML_H_

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace carillon::cli {

struct TestCase {
  enum class Outcome { kPassed, kFailed, kSkipped };

  // "Suite.Name"; "" for a test that is no GoogleTest: Bazel writes its test.xml,
  // and it is one case.
  std::string name;
  Outcome outcome = Outcome::kPassed;
  // Why it was skipped or has failed, in one line.
  std::string reason;
};

// A case that GoogleTest did not run because its name begins with DISABLED_ is a
// skipped one. Errors: InvalidArgument (no XML).
absl::StatusOr<std::vector<TestCase>> ReadTestXml(std::istream& xml);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_TESTING_TEST_XML_H_
