#include "tools/cli/testing/test_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Shortened output of Bazel 4.2.3.
constexpr char kEvents[] =
    R"({"id":{"started":{}},"started":{"uuid":"x"}}
{"id":{"targetConfigured":{"label":"//a:lib"}},"configured":{"targetKind":"cc_library rule"}}
{"id":{"targetConfigured":{"label":"//a:good"}},"configured":{"targetKind":"cc_test rule","testSize":"SMALL"}}
{"id":{"targetConfigured":{"label":"//a:bad"}},"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}
{"id":{"targetConfigured":{"label":"//a:broken"}},"configured":{"targetKind":"cc_test rule","testSize":"MEDIUM"}}
{"id":{"testSummary":{"label":"//a:good"}},"testSummary":{"totalRunCount":1,"overallStatus":"PASSED"}}
{"id":{"testSummary":{"label":"//a:bad"}},"testSummary":{"overallStatus":"TIMEOUT"}}
this is no event
)";

TEST(BuildEvents, GiveEveryTestTargetItsStatus) {
  std::istringstream events(kEvents);
  EXPECT_THAT(
      ReadBuildEvents(events),
      ElementsAre(Pair("//a:bad", "TIMEOUT"), Pair("//a:broken", "NOT RUN"),
                  Pair("//a:good", "PASSED")));
}

TEST(BuildEvents, OfABuildThatNeverStartedAreNone) {
  std::istringstream events("");
  EXPECT_THAT(ReadBuildEvents(events), IsEmpty());
}

TEST(Tally, CountsEveryTargetOfEveryConfiguration) {
  const Tally tally =
      CountTargets({{"", 3, {{"//a:a", "PASSED"}, {"//a:b", "FAILED"}}},
                    {"tsan", 3, {{"//a:a", "NOT RUN"}, {"//a:c", "PASSED"}}}});
  EXPECT_EQ(tally.passed, 2);
  EXPECT_EQ(tally.failed, 2);
  EXPECT_THAT(tally.remarks,
              ElementsAre("//a:b: FAILED", "//a:a (tsan): NOT RUN"));
}

TEST(Tally, CountsAFlakyTargetAsPassedAndNamesIt) {
  const Tally tally = CountTargets({{"", 0, {{"//a:a", "FLAKY"}}}});
  EXPECT_EQ(tally.passed, 1);
  EXPECT_EQ(tally.failed, 0);
  EXPECT_THAT(tally.remarks, ElementsAre("//a:a: FLAKY"));
}

TEST(Tally, CountsABazelThatFailedWithoutATest) {
  const Tally tally = CountTargets(
      {{"", 0, {{"//a:a", "PASSED"}}}, {"asan", 1, {{"//a:a", "PASSED"}}}});
  EXPECT_EQ(tally.passed, 2);
  EXPECT_EQ(tally.failed, 1);
  EXPECT_THAT(tally.remarks, ElementsAre("bazel (asan): exit code 1"));
}

TEST(Tally, TakesNothingToRunForNoFailure) {
  const Tally tally = CountTargets({{"asan", 4, {}}});
  EXPECT_EQ(tally.passed, 0);
  EXPECT_EQ(tally.failed, 0);
}

}  // namespace
}  // namespace carillon::cli
