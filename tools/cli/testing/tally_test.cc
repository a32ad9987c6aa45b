#include "tools/cli/testing/tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/cli/testing/bazel.h"
#include "tools/cli/testing/build_events.h"

namespace carillon::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Outcome = TestCase::Outcome;

const TestCase kGood = {"S.Good", Outcome::kPassed, ""};
const TestCase kBad = {"S.Bad", Outcome::kFailed, "1 is not 2"};
const TestCase kSkip = {"S.Skip", Outcome::kSkipped, "only root may"};

std::vector<AllowedSkip> List(const std::string& text) {
  std::istringstream list(text);
  auto skips = ReadAllowedSkips(list);
  EXPECT_TRUE(skips.ok()) << skips.status();
  return skips.value_or(std::vector<AllowedSkip>{});
}

TEST(Tally, CountsTheCasesOfEveryConfiguration) {
  const Tally tally =
      CountCases({{"default", 3, {{"//a:a", "FAILED", {{kGood, kGood, kBad}}}}},
                  {"tsan", 0, {{"//a:a", "PASSED", {{kGood}}}}}},
                 {});
  EXPECT_EQ(tally.passed, 3);
  EXPECT_EQ(tally.failed, 1);
  EXPECT_EQ(tally.skipped, 0);
  EXPECT_THAT(tally.failures, ElementsAre("//a:a S.Bad: FAILED: 1 is not 2"));
  EXPECT_THAT(tally.retried, IsEmpty());
}

TEST(Tally, CountsATargetThatDidNotBuildAsFailed) {
  const Tally tally = CountCases({{"tsan", 1, {{"//a:a", "NOT RUN", {}}}}}, {});
  EXPECT_EQ(tally.failed, 1);
  EXPECT_THAT(tally.failures, ElementsAre("//a:a (tsan): NOT RUN"));
}

TEST(Tally, HasNoVerdictAboutWhatAnInterruptedRunDidNotGetTo) {
  const Tally tally = CountCases({{"asan",
                                   kBazelInterrupted,
                                   {{"//a:a", "PASSED", {{kGood}}},
                                    {"//a:b", kNotRun, {}},
                                    {"//a:c", kNotRun, {{kBad}}}}}},
                                 {});
  EXPECT_EQ(tally.passed, 1);
  EXPECT_EQ(tally.failed, 0);
  EXPECT_THAT(tally.not_run, ElementsAre("2 of 3 targets (asan)"));
  EXPECT_THAT(CountCases({{"asan", kBazelInterrupted, {}}}, {}).not_run,
              ElementsAre("all targets (asan)"));
  EXPECT_EQ(CountCases({{"asan",
                         kBazelInterrupted,
                         {{"//a:a", "FAILED", {{kBad}}}, {"//a:b", kNotRun}}}},
                       {})
                .failed,
            1);
}

// A sanitizer that found a leak at the end, after test.xml was written.
TEST(Tally, CountsATargetThatFailedWithoutACaseAsFailed) {
  const Tally tally =
      CountCases({{"asan", 3, {{"//a:a", "FAILED", {{kGood}}}}}}, {});
  EXPECT_EQ(tally.passed, 1);
  EXPECT_EQ(tally.failed, 1);
  EXPECT_THAT(tally.failures, ElementsAre("//a:a (asan): FAILED"));
}

TEST(Tally, DoesNotBelieveATargetThatHasNoResults) {
  EXPECT_EQ(CountCases({{"default", 0, {{"//a:a", "PASSED", {}}}}}, {}).failed,
            1);
}

TEST(Tally, NamesTheCasesThatPassedAtALaterAttempt) {
  const TestCase crash = {"", Outcome::kFailed, "exited with error code 134"};
  const Tally tally =
      CountCases({{"default",
                   0,
                   {{"//a:a", "FLAKY", {{kGood, kBad}, {crash}, {kGood}}},
                    {"//a:told", "FLAKY", {{kGood}}}}}},
                 {});
  EXPECT_EQ(tally.passed, 2);
  EXPECT_EQ(tally.failed, 0);
  EXPECT_THAT(
      tally.retried,
      ElementsAre("//a:a S.Bad: failed at attempt 1: 1 is not 2",
                  "//a:a: failed at attempt 2: exited with error code 134",
                  "//a:told: FLAKY"));
}

TEST(Tally, LetsOnlyThoseSkipThatTheListAllows) {
  const std::vector<TestRun> runs = {
      {"default", 0, {{"//a:a", "PASSED", {{kGood, kSkip}}}}}};
  const auto allowed = [&](const std::string& list) {
    const Tally tally = CountCases(runs, List(list));
    EXPECT_EQ(tally.passed, 1);
    EXPECT_EQ(tally.failed + tally.skipped, 1);
    return tally.skipped == 1;
  };
  EXPECT_TRUE(allowed("default //a:a S.Skip only root may\n"));
  EXPECT_TRUE(allowed("# comment\n\n*  //a:*  *  only root*\n"));
  EXPECT_FALSE(allowed(""));
  EXPECT_FALSE(allowed("asan //a:a S.Skip only root may\n"));
  EXPECT_FALSE(allowed("default //a:b S.Skip only root may\n"));
  EXPECT_FALSE(allowed("default //a:a S.Good only root may\n"));
  EXPECT_FALSE(allowed("default //a:a S.Skip only\n"));

  const Tally forbidden = CountCases(runs, {});
  EXPECT_THAT(forbidden.failures,
              ElementsAre("//a:a S.Skip: skipped, which is not allowed: only "
                          "root may"));
  const Tally listed = CountCases(runs, List("* * * *\n"));
  EXPECT_THAT(listed.skips, ElementsAre("//a:a S.Skip: only root may"));
}

TEST(Tally, NamesATestAsAWholeByADash) {
  const TestCase skip = {"", Outcome::kSkipped, "no network"};
  const std::vector<TestRun> runs = {
      {"default", 0, {{"//a:a", "PASSED", {{skip}}}}}};
  EXPECT_EQ(CountCases(runs, List("* //a:a - no network\n")).failed, 0);
  EXPECT_EQ(CountCases(runs, List("* //a:a S.* no network\n")).failed, 1);
}

TEST(Tally, CountsABazelThatFailedWithoutATest) {
  const Tally tally =
      CountCases({{"default", 0, {{"//a:a", "PASSED", {{kGood}}}}},
                  {"asan", 1, {{"//a:a", "PASSED", {{kGood}}}}}},
                 {});
  EXPECT_EQ(tally.passed, 2);
  EXPECT_EQ(tally.failed, 1);
  EXPECT_THAT(tally.failures, ElementsAre("bazel (asan): exit code 1"));
}

TEST(Tally, TakesNothingToRunForNoFailure) {
  const Tally tally = CountCases({{"asan", 4, {}}}, {});
  EXPECT_EQ(tally.passed, 0);
  EXPECT_EQ(tally.failed, 0);
}

TEST(AllowedSkips, AreStaleWhenTheyNameNoTarget) {
  const std::vector<TestRun> runs = {
      {"default", 0, {{"//a:a", "PASSED", {{kGood}}}}}};
  const auto stale = StaleSkips(
      runs, List("asan //a:a S.X why\n* //b:* * why\n* //a:* - why\n"));
  ASSERT_EQ(stale.size(), 1u);
  EXPECT_EQ(stale[0].Line(), "* //b:* * why");
}

TEST(AllowedSkips, NeedAReason) {
  std::istringstream list("# fine\n* //a:a S.Skip\n");
  const auto skips = ReadAllowedSkips(list);
  ASSERT_FALSE(skips.ok());
  EXPECT_THAT(std::string(skips.status().message()),
              ::testing::HasSubstr("line 2"));
}

}  // namespace
}  // namespace carillon::cli
