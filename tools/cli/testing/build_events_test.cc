#include "tools/cli/testing/build_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// As Bazel 4.2.3 writes them, shortened.
constexpr char kEvents[] =
    R"({"id":{"started":{}},"started":{"uuid":"x"}}
{"id":{"targetConfigured":{"label":"//a:lib"}},"configured":{"targetKind":"cc_library rule"}}
{"id":{"targetConfigured":{"label":"//a:good"}},"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:bad"}},"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}
{"id":{"targetConfigured":{"label":"//a:broken"}},"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}
{"id":{"testResult":{"label":"//a:good","attempt":1}},"testResult":{"testActionOutput":[{"name":"test.log","uri":"file:///t/attempt_1.log"},{"name":"test.xml","uri":"file:///t/attempt_1.xml"}],"status":"FAILED"}}
{"id":{"testResult":{"label":"//a:good","attempt":2}},"testResult":{"testActionOutput":[{"name":"test.log","uri":"file:///t/test.log"},{"name":"test.xml","uri":"file:///t/test.xml"}],"status":"PASSED"}}
{"id":{"testSummary":{"label":"//a:good"}},"testSummary":{"totalRunCount":2,"overallStatus":"FLAKY"}}
{"id":{"testResult":{"label":"//a:bad","attempt":1}},"testResult":{"testActionOutput":[],"status":"TIMEOUT"}}
{"id":{"testSummary":{"label":"//a:bad"}},"testSummary":{"overallStatus":"TIMEOUT"}}
{"id":{"targetConfigured":{"label":"//a:cut"}},"configured":{"targetKind":"sh_test rule","testSize":"MEDIUM"}}
{"id":{"testSummary":{"label":"//a:cut"}},"aborted":{"reason":"USER_INTERRUPTED"}}
{"id":{"testResult":{"label":"//a:cut","attempt":1}},"aborted":{"reason":"USER_INTERRUPTED"}}
this is no event
)";

TEST(BuildEvents, GiveEveryTestItsStatusAndTheFileOfEachAttempt) {
  std::istringstream events(kEvents);
  auto targets = ReadBuildEvents(events);
  ASSERT_EQ(targets.size(), 4u);
  EXPECT_EQ(targets["//a:good"].status, "FLAKY");
  EXPECT_THAT(targets["//a:good"].attempts,
              ElementsAre("/t/attempt_1.xml", "/t/test.xml"));
  EXPECT_EQ(targets["//a:bad"].status, "TIMEOUT");
  EXPECT_THAT(targets["//a:bad"].attempts, ElementsAre(""));
  EXPECT_EQ(targets["//a:broken"].status, "NOT RUN");
  EXPECT_THAT(targets["//a:broken"].attempts, IsEmpty());
  EXPECT_EQ(targets["//a:cut"].status, "NOT RUN");
  EXPECT_THAT(targets["//a:cut"].attempts, IsEmpty());
}

TEST(BuildEvents, OfABuildThatNeverStartedAreNone) {
  std::istringstream events("");
  EXPECT_THAT(ReadBuildEvents(events), IsEmpty());
}

}  // namespace
}  // namespace carillon::cli
