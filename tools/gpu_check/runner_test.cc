#include "tools/gpu_check/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/temp_directory.h"
#include "tools/gpu_check/limited_run.h"
#include "tools/gpu_check/parts.h"

namespace carillon::gpu_check {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

CheckStep Shell(std::string name, std::string script, int limit_s = 30) {
  return {.name = std::move(name),
          .argv = {"/bin/sh", "-c", std::move(script)},
          .limit = seconds(limit_s)};
}

class RunnerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { BlockSignalsOfRuns(); }

  RunnerOptions Options() const {
    return {.directory = directory_,
            .grace = milliseconds(300),
            .kill_grace = milliseconds(3000)};
  }
  Results Run(const std::vector<CheckPart>& parts, RunnerOptions options) {
    Results results;
    EXPECT_TRUE(RunParts(parts, options, &results).ok());
    return results;
  }
  Results Run(const std::vector<CheckPart>& parts) {
    return Run(parts, Options());
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(directory_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDirectory files_;
  const std::string& directory_ = files_.path();
};

TEST_F(RunnerTest, KeepsWhatEveryStepSaysAndItsFinding) {
  const Results results = Run(
      {{"a", "", {Shell("one", "echo x; echo finding: 42 us; echo y >&2")}}});
  EXPECT_EQ(results.at("a/one").outcome, Outcome::kPassed);
  EXPECT_EQ(results.at("a/one").finding, "42 us");
  EXPECT_EQ(Read("a.one.out"), "x\nfinding: 42 us\n");
  EXPECT_EQ(Read("a.one.err"), "y\n");
  EXPECT_EQ(ExitCodeOf(results), 0);
}

TEST_F(RunnerTest, GoesOnBehindAStepThatFailsOrIsKilledOrCannotStart) {
  const Results results = Run(
      {{"a", "", {Shell("fails", "echo because >&2; exit 3")}},
       {"b", "", {Shell("dies", "kill -SEGV $$")}},
       {"c", "", {{.name = "none", .argv = {"/no/such"}, .limit = seconds(5)}}},
       {"d", "", {Shell("fine", "true")}}});
  EXPECT_EQ(results.at("a/fails").outcome, Outcome::kFailed);
  EXPECT_EQ(results.at("a/fails").finding, "because (exit code 3)");
  EXPECT_EQ(results.at("b/dies").outcome, Outcome::kFailed);
  EXPECT_THAT(results.at("b/dies").finding, HasSubstr("SIGSEGV"));
  EXPECT_EQ(results.at("c/none").outcome, Outcome::kFailed);
  EXPECT_THAT(results.at("c/none").finding, HasSubstr("/no/such"));
  EXPECT_EQ(results.at("d/fine").outcome, Outcome::kPassed);
  EXPECT_EQ(ExitCodeOf(results), 1);
}

TEST_F(RunnerTest, KillsAStepAtItsLimitWithAllThatItStarted) {
  // A process that holds the writing end is alive.
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const Results results =
      Run({{"a",
            "",
            {Shell("hangs",
                   "trap '' TERM; sh -c 'trap \"\" TERM; exec 3>" + fifo +
                       "; while :; do sleep 60; done' & exec 3>" + fifo +
                       "; echo finding: half way; while :; do sleep 60; done",
                   1)}},
           {"b", "", {Shell("fine", "true")}}});
  EXPECT_EQ(results.at("a/hangs").outcome, Outcome::kTimedOut);
  EXPECT_THAT(results.at("a/hangs").finding, HasSubstr("half way"));
  EXPECT_LT(results.at("a/hangs").seconds, 10);
  EXPECT_EQ(results.at("b/fine").outcome, Outcome::kPassed);
  // The pipe hangs up when the last writer has gone.
  pollfd hung_up{reader, POLLIN, 0};
  ASSERT_EQ(poll(&hung_up, 1, 10'000), 1);
  EXPECT_TRUE(hung_up.revents & POLLHUP);
  close(reader);
}

TEST_F(RunnerTest, StopsStartingWhenTheTimeIsOver) {
  RunnerOptions options = Options();
  options.total = seconds(5);  // of which 3.3 are for ending a step
  const auto start = std::chrono::steady_clock::now();
  const Results results = Run({{"a", "", {Shell("long", "exec sleep 60")}},
                               {"b", "", {Shell("late", "true")}}},
                              options);
  EXPECT_EQ(results.at("a/long").outcome, Outcome::kTimedOut);
  EXPECT_EQ(results.at("b/late").outcome, Outcome::kNotRun);
  EXPECT_THAT(results.at("b/late").finding, HasSubstr("--only b"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  EXPECT_EQ(ExitCodeOf(results), 1);
}

TEST_F(RunnerTest, ResumesBehindWhatHasEndedAndBehindWhatTookTheRunner) {
  const std::string count = directory_ + "/count";
  const std::string tell = "echo x >> " + count;
  const std::vector<CheckPart> parts = {{"a", "", {Shell("failed", tell)}},
                                        {"b", "", {Shell("lost", tell)}},
                                        {"c", "", {Shell("late", tell)}},
                                        {"d", "", {Shell("new", tell)}}};
  std::ofstream(directory_ + "/state.json") << ToJson({
      {"a/failed", {Outcome::kFailed, 1, "why"}},
      {"b/lost", {Outcome::kLost, 0, "gone"}},
      {"c/late", {Outcome::kNotRun, 0, "no time"}},
  });
  RunnerOptions options = Options();
  options.resume = true;
  const Results results = Run(parts, options);
  EXPECT_EQ(Read("count"), "x\nx\n");
  EXPECT_EQ(results.at("a/failed").finding, "why");
  EXPECT_EQ(results.at("b/lost").outcome, Outcome::kLost);
  EXPECT_EQ(results.at("c/late").outcome, Outcome::kPassed);
  EXPECT_EQ(results.at("d/new").outcome, Outcome::kPassed);
  EXPECT_EQ(ExitCodeOf(results), 1);
  // Without --resume all steps run.
  Run(parts);
  EXPECT_EQ(Read("count"), "x\nx\nx\nx\nx\nx\n");
}

TEST_F(RunnerTest, NotesBeforeAStepThatItRuns) {
  const Results results = Run(
      {{"a", "", {Shell("looks", "cat " + directory_ + "/state.json; true")}}});
  EXPECT_EQ(results.at("a/looks").outcome, Outcome::kPassed);
  const Results during =
      FromJson(nlohmann::json::parse(Read("a.looks.out"), nullptr, false));
  EXPECT_EQ(during.at("a/looks").outcome, Outcome::kLost);
}

TEST_F(RunnerTest, TakesABrokenStateFileForNone) {
  std::ofstream(directory_ + "/state.json") << "{\"steps\": {\"a/one\": 7}, ";
  RunnerOptions options = Options();
  options.resume = true;
  EXPECT_EQ(
      Run({{"a", "", {Shell("one", "true")}}}, options).at("a/one").outcome,
      Outcome::kPassed);
}

TEST_F(RunnerTest, RunsOnlyWhatIsChosenAndNamesWhatThereIs) {
  const std::vector<CheckPart> parts = {{"a", "", {Shell("one", "true")}},
                                        {"b", "", {Shell("one", "false")}}};
  RunnerOptions options = Options();
  options.only = {"a"};
  EXPECT_EQ(Run(parts, options).size(), 1u);
  options.only = {"c"};
  Results results;
  const absl::Status status = RunParts(parts, options, &results);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("a, b"));
}

TEST_F(RunnerTest, TellsNoGpuFromAFailure) {
  EXPECT_EQ(ExitCodeOf(Run({{"a", "", {Shell("one", "exit 77")}}})),
            kNoGpuCode);
  EXPECT_EQ(ExitCodeOf(Run({{"a", "", {Shell("one", "exit 77")}},
                            {"b", "", {Shell("one", "true")}}})),
            1);
}

TEST_F(RunnerTest, WantsNoGpuWhereADryRunHasNone) {
  CheckStep step = Shell("one", "exit 77");
  step.expects_no_gpu = true;
  EXPECT_EQ(ExitCodeOf(Run({{"a", "", {step}}})), 0);
  step.argv.back() = "true";
  EXPECT_EQ(ExitCodeOf(Run({{"a", "", {step}}})), 1);
  step.argv.back() = "exit 127";  // a library is missing
  EXPECT_EQ(ExitCodeOf(Run({{"a", "", {step}}})), 1);
}

TEST_F(RunnerTest, EndsInOrderWhenInterrupted) {
  // The step interrupts its runner.
  Results results;
  const absl::Status status =
      RunParts({{"a", "", {Shell("one", "kill -INT $PPID; exec sleep 60")}},
                {"b", "", {Shell("one", "true")}}},
               Options(), &results);
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(results.at("a/one").outcome, Outcome::kNotRun);
  EXPECT_FALSE(results.contains("b/one"));
}

TEST_F(RunnerTest, GivesTheStepItsEnvironment) {
  CheckStep step = Shell("one", "echo finding: $COLOUR");
  step.environment = {"COLOUR=green"};
  EXPECT_EQ(Run({{"a", "", {step}}}).at("a/one").finding, "green");
}

TEST(ResultTable, HasALineAPartWithTheFirstStepThatWentWrong) {
  const std::vector<CheckPart> parts = {
      {"good", "", {{.name = "x"}, {.name = "y"}}},
      {"bad", "", {{.name = "x"}, {.name = "y"}, {.name = "z"}}},
      {"unseen", "", {{.name = "x"}}}};
  const std::string table =
      ResultTable(parts, {},
                  {{"good/x", {Outcome::kPassed, 1, "one"}},
                   {"good/y", {Outcome::kPassed, 2, "two"}},
                   {"bad/x", {Outcome::kPassed, 1, "fine"}},
                   {"bad/y", {Outcome::kTimedOut, 5, "stuck"}},
                   {"bad/z", {Outcome::kFailed, 1, "worse"}}});
  EXPECT_THAT(table, HasSubstr("good       passed        3.0  all 2 steps; "
                               "two\n"));
  EXPECT_THAT(table, HasSubstr("bad        TIMED OUT     7.0  y: stuck (and 1 "
                               "more)\n"));
  EXPECT_THAT(table, HasSubstr("unseen     not run"));
  EXPECT_THAT(ResultTable(parts, {"good"}, {}), Not(HasSubstr("bad")));
}

TEST(Parts, ComeInOrderAndFitTheirOwnNames) {
  const auto parts = MakeParts({.self = "/b/gpu_check", .programs = "/b"});
  std::vector<std::string> names;
  for (const CheckPart& part : parts) {
    names.push_back(part.name);
    std::set<std::string> steps;
    for (const CheckStep& step : part.steps) {
      EXPECT_TRUE(steps.insert(step.name).second) << step.name;
      EXPECT_GT(step.limit.count(), 0);
      EXPECT_FALSE(step.expects_no_gpu);
    }
  }
  EXPECT_THAT(
      names, ::testing::ElementsAre("info", "probes", "kernels", "paths",
                                    "faults", "hostile", "sanitizer", "bench"));
}

TEST(Parts, OfADryRunWithoutADriverAllExpectNoGpu) {
  const auto parts =
      MakeParts({.self = "/b/gpu_check", .programs = "/b", .dry_run = true});
  for (const CheckPart& part : parts) {
    for (const CheckStep& step : part.steps) {
      EXPECT_TRUE(step.expects_no_gpu || !step.skip.empty()) << part.name;
    }
  }
}

TEST(Parts, SkipTheSanitizerWhereThereIsNone) {
  for (const char* const tool : {"", "/x/compute-sanitizer"}) {
    const auto parts = MakeParts({.programs = "/b", .sanitizer = tool});
    for (const CheckPart& part : parts) {
      if (part.name != "sanitizer") continue;
      EXPECT_EQ(part.steps[0].skip.empty(), *tool != '\0');
    }
  }
}

}  // namespace
}  // namespace carillon::gpu_check
