#include "tools/gpu_check/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/temp_directory.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "tools/gpu_check/collected.h"
#include "tools/gpu_check/held_gpu.h"
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

TEST_F(RunnerTest, KillsWhatAStepLeftInSessionsOfTheirOwn) {
  for (const char* const end : {"exit 0", "kill -KILL $$"}) {
    // As `carillon up -d` leaves a supervisor, and that its processes.
    const TempDirectory files;
    const std::string fifo = files.path() + "/fifo";
    const std::string ready = files.path() + "/ready";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const UniqueFd reader(
        open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_TRUE(reader);
    const Results results =
        Run({{"a",
              "",
              {Shell("leaves",
                     fmt::format("setsid sh -c 'exec 3>{}; setsid sleep 600 & "
                                 "echo >{}; exec sleep 600' & "
                                 "until test -e {}; do sleep .01; done; {}",
                                 fifo, ready, ready, end))}}});
    EXPECT_NE(results.at("a/leaves").outcome, Outcome::kTimedOut);
    // The pipe hangs up when the last writer has gone.
    pollfd hung_up{reader.get(), POLLIN, 0};
    EXPECT_EQ(poll(&hung_up, 1, 10'000), 1) << end;
    EXPECT_TRUE(hung_up.revents & POLLHUP) << end;
  }
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

TEST(ChooseParts, TakesPartsAndStepsAndNamesWhatThereIs) {
  const std::vector<CheckPart> parts = {
      {"a", "", {Shell("one", "true"), Shell("two", "true")}},
      {"b", "", {Shell("one", "true"), Shell("two", "true")}}};
  const auto keys = [&](const std::vector<std::string>& only) {
    std::string keys;
    const auto chosen = ChooseParts(parts, only);
    if (!chosen.ok()) return std::string(chosen.status().message());
    for (const CheckPart& part : *chosen) {
      for (const CheckStep& step : part.steps) {
        keys += fmt::format(" {}/{}", part.name, step.name);
      }
    }
    return keys;
  };
  EXPECT_EQ(keys({}), " a/one a/two b/one b/two");
  EXPECT_EQ(keys({"a"}), " a/one a/two");
  EXPECT_EQ(keys({"b/two", "a"}), " a/one a/two b/two");
  EXPECT_EQ(keys({"a/two", "a"}), " a/one a/two");
  EXPECT_THAT(keys({"b", "c"}), HasSubstr("'c': the parts are a, b"));
  EXPECT_THAT(keys({"a/three"}), HasSubstr("'a/three'"));
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

TEST_F(RunnerTest, LeavesAllThatItHasInThreeFilesBehindEachStep) {
  // What the second step finds is what a kill during it would leave.
  const std::string seen = directory_ + "/seen";
  const Results results =
      Run({{"a",
            "",
            {Shell("one",
                   "echo '{'; echo '\"x\": 7'; echo '}'; echo finding: 42 us; "
                   "echo why >&2; mkdir -p " +
                       directory_ + "/bench_q; echo '{\"y\": 8}' > " +
                       directory_ + "/bench_q/launch.json")}},
           {"b",
            "",
            {Shell("two", "mkdir " + seen + " && cd " + seen +
                              " && cp ../all.* . " +
                              "&& tar xzf ../results.tar.gz && test ! -e " +
                              "../all.txt.next")}}});
  EXPECT_EQ(results.at("b/two").outcome, Outcome::kPassed) << Read("b.two.err");
  EXPECT_THAT(Read("seen/all.txt"), HasSubstr("=== a/one: passed"));
  EXPECT_THAT(Read("seen/all.txt"), HasSubstr("--- .err\nwhy\n"));
  EXPECT_THAT(Read("seen/all.txt"), HasSubstr("42 us"));
  const auto all = nlohmann::json::parse(Read("seen/all.json"), nullptr, false);
  EXPECT_EQ(all["steps"]["a/one"]["finding"], "42 us") << all;
  EXPECT_EQ(all["steps"]["a/one"]["document"]["x"], 7) << all;
  EXPECT_EQ(all["files"]["bench_q/launch.json"]["y"], 8) << all;
  EXPECT_EQ(Read("seen/a.one.out"), Read("a.one.out"));
  EXPECT_EQ(Read("seen/bench_q/launch.json"), "{\"y\": 8}\n");
}

TEST_F(RunnerTest, CollectsTheEndOfWhatIsLongAndNamesWhatItLeavesOut) {
  Run({{"a",
        "",
        {Shell("long",
               "head -c 200000 /dev/zero | tr '\\0' x; echo; "
               "echo the end; head -c 3000000 /dev/zero > " +
                   directory_ + "/big")}}});
  const std::string text = Read("all.txt");
  EXPECT_LT(text.size(), kMaxCollectedText + 2000);
  EXPECT_THAT(text, HasSubstr("bytes before]"));
  EXPECT_THAT(text, HasSubstr("\nthe end\n"));
  EXPECT_THAT(text,
              HasSubstr("left out of results.tar.gz: big (3000000 bytes)"));
  EXPECT_LT(fs::file_size(directory_ + "/results.tar.gz"), 100'000u);
}

TEST_F(RunnerTest, KeepsWhatTheDriverWritesToTheKernelsLogWhileAStepRuns) {
  RunnerOptions options = Options();
  options.kernel_log = directory_ + "/kmsg";
  std::ofstream(options.kernel_log) << "NVRM: Xid 1, of yesterday\n";
  Run({{"a",
        "",
        {Shell("one", "echo mine >&2; echo 'NVRM: Xid (PCI:0): 13' >> " +
                          options.kernel_log + "; echo 'usb: x' >> " +
                          options.kernel_log)}}},
      options);
  EXPECT_EQ(Read("a.one.err"), "mine\nkernel log: NVRM: Xid (PCI:0): 13\n");
}

TEST_F(RunnerTest, ShowsTheLastFindingOfAStepThatItKills) {
  const Results results =
      Run({{"a",
            "",
            {Shell("one",
                   "echo finding: so far 1; echo finding: so far 1, 2; "
                   "exec sleep 60",
                   1)}}});
  EXPECT_THAT(results.at("a/one").finding, HasSubstr("so far 1, 2"));
}

TEST_F(RunnerTest, LetsAStepOfADryRunSayWhatItsDriverLacks) {
  CheckStep step = Shell("one", "echo no kernel x >&2; exit 78");
  EXPECT_EQ(Run({{"a", "", {step}}}).at("a/one").outcome, Outcome::kFailed);
  step.may_lack = true;
  const Results results = Run({{"a", "", {step}}});
  EXPECT_EQ(results.at("a/one").outcome, Outcome::kPassed);
  EXPECT_EQ(results.at("a/one").finding, "no kernel x");
}

TEST(HeldGpuTest, SaysWhatIsMissing) {
  const TempDirectory folder;
  EXPECT_EQ(HoldGpu(folder.path()), 1);
  const HeldGpu held("/no/such/program", folder.path());
  EXPECT_THAT(held.about(), HasSubstr("not held open"));
}

TEST(HeldGpuTest, HoldsEachDeviceFileUntilItIsKilled) {
  const TempDirectory folder;
  std::vector<std::string> files;
  for (const char* const name : {"nvidiactl", "nvidia0", "nvidia3"}) {
    files.push_back(folder.path() + "/" + name);
    std::ofstream(files.back()) << "";
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    _exit(HoldGpu(folder.path()));
  }
  close(ends[1]);
  char said[1024] = "";
  const ssize_t size = read(ends[0], said, sizeof(said) - 1);
  std::set<std::string> open;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fmt::format("/proc/{}/fd", child), error)) {
    open.insert(fs::read_symlink(entry.path(), error).string());
  }
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  close(ends[0]);
  EXPECT_TRUE(WIFSIGNALED(status));
  ASSERT_GT(size, 0);
  for (const std::string& file : files) {
    EXPECT_THAT(std::string(said), HasSubstr(file));
    EXPECT_TRUE(open.contains(fs::canonical(file).string())) << file;
  }
}

TEST(HeldGpuTest, EndsWhoHoldsItWithItself) {
  const TempDirectory folder;
  const std::string holder = folder.path() + "/holder";
  std::ofstream(holder) << "#!/bin/sh\necho \"$2 is held by $$\"\n"
                           "exec sleep 600 >/dev/null\n";
  fs::permissions(holder, fs::perms::owner_all);
  pid_t pid = 0;
  {
    const HeldGpu held(holder, "/dev/x");
    ASSERT_EQ(std::sscanf(held.about().c_str(), "/dev/x is held by %d", &pid),
              1)
        << held.about();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(ResultTable, HasALineAPartAndALineAStep) {
  const std::vector<CheckPart> parts = {
      {"single", "", {{.name = "x"}}},
      {"good", "", {{.name = "x"}, {.name = "y"}}},
      {"bad", "", {{.name = "x"}, {.name = "y"}, {.name = "z"}}},
      {"unseen", "", {{.name = "x"}}}};
  const Results results = {{"single/x", {Outcome::kPassed, 1, "alone"}},
                           {"good/x", {Outcome::kPassed, 1, "one"}},
                           {"good/y", {Outcome::kPassed, 2, "two"}},
                           {"bad/x", {Outcome::kPassed, 1, "fine"}},
                           {"bad/y", {Outcome::kTimedOut, 5, "stuck"}},
                           {"bad/z", {Outcome::kNotRun, 0, "no time"}}};
  const std::string table = ResultTable(parts, results);
  const auto line = [](std::string_view name, std::string_view rest) {
    return fmt::format("{:<26} {}\n", name, rest);
  };
  EXPECT_THAT(table, HasSubstr(line("single", "passed        1.0  alone")));
  EXPECT_THAT(table, HasSubstr(line("good", "passed        3.0  all 2 steps")));
  EXPECT_THAT(table, HasSubstr(line("  y", "passed        2.0  two")));
  EXPECT_THAT(table, HasSubstr(line("bad",
                                    "TIMED OUT     6.0  y: stuck (and "
                                    "1 more)")));
  EXPECT_THAT(table, HasSubstr(line("  y", "TIMED OUT     5.0  stuck")));
  EXPECT_THAT(table, HasSubstr(line("unseen", "not run       0.0  ")));
  EXPECT_EQ(LeftOut(results), "not run (--resume goes on): bad/z\n");
  EXPECT_EQ(LeftOut({}), "");
}

TEST(ResultTable, FitsIntoTheEndOfALogWhateverWasFound) {
  CheckPart part{"many", "", {}};
  Results results;
  for (int i = 0; i < 110; ++i) {
    part.steps.push_back({.name = fmt::format("step{}", i)});
    results["many/" + part.steps.back().name] = {Outcome::kPassed, 1,
                                                 std::string(180, 'x')};
  }
  const std::string table = ResultTable({part}, results);
  EXPECT_LT(table.size(), 12'000u);
  EXPECT_THAT(table, HasSubstr("step109"));
  EXPECT_THAT(table, HasSubstr("xxx"));
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
  EXPECT_THAT(names,
              ::testing::ElementsAre(
                  "info", "probes", "kernels", "latency", "load", "quick",
                  "paths", "bench", "sharing", "workloads", "user", "faults",
                  "recovery", "hostile", "narrow", "power", "sanitizer"));
}

TEST(Parts, HaveAStepOfTwentyFiveSecondsForEachPathAndScenario) {
  const auto parts = MakeParts({.self = "/b/gpu_check", .programs = "/b"});
  size_t steps = 0;
  for (const CheckPart& part : parts) {
    if (part.name != "latency" && part.name != "load" && part.name != "paths") {
      continue;
    }
    for (const CheckStep& step : part.steps) {
      ++steps;
      EXPECT_EQ(step.limit, seconds(25)) << step.name;
      EXPECT_EQ(std::ranges::count_if(
                    step.argv,
                    [](const std::string& argument) {
                      return argument.starts_with("--paths=") &&
                             argument.find(',') == std::string::npos;
                    }),
                1)
          << step.name;
    }
  }
  EXPECT_EQ(steps, 8u + 8 + 3 * 8 + 2);
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

TEST(Parts, OfADryRunHaveFewSmsForWhatFillsAGpu) {
  const auto parts = MakeParts({.self = "/b/gpu_check",
                                .programs = "/b",
                                .dry_run = true,
                                .driver = "/driver"});
  size_t small = 0;
  for (const CheckPart& part : parts) {
    for (const CheckStep& step : part.steps) {
      const bool fills = part.name == "sharing" || part.name == "narrow" ||
                         part.name == "recovery" || part.name == "workloads" ||
                         step.name.find("pagoda") != std::string::npos;
      const bool few = std::ranges::any_of(
          step.environment, [](const std::string& variable) {
            return variable.starts_with("CARILLON_FAKE_CUDA=sms=");
          });
      EXPECT_EQ(few, fills) << part.name << "/" << step.name;
      small += few;
    }
  }
  EXPECT_EQ(small, 2u * 5 + 9 + 11 + 6 + 2);
}

TEST(Parts, OfSharingMeasureWaitsAndLossesWithABoundToo) {
  std::vector<std::string> bounded;
  for (const CheckPart& part : MakeParts({.programs = "/b"})) {
    for (const CheckStep& step : part.steps) {
      if (std::ranges::count(step.argv, "--preempt-us=200") == 0) continue;
      EXPECT_EQ(std::ranges::count(step.argv, "--policies=gpes"), 1);
      bounded.push_back(step.name);
    }
  }
  EXPECT_THAT(bounded, ::testing::ElementsAre("wait.bound", "losses.bound"));
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
