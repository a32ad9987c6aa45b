// `carillon test`, `bench` and `gpu-bundle` with a fake Bazel that writes what
// the test says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TestCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("CARILLON_ROOT", folder_.path().c_str(), 1);
    setenv("PATH", (folder_.path() + ":/usr/bin:/bin").c_str(), 1);
    AllowSkips("# none\n");
  }
  void TearDown() override { unsetenv("CARILLON_ROOT"); }

  // Every run notes its arguments. `summary LABEL STATUS CASES` tells of a test
  // target whose test.xml has that text.
  void MakeBazel(const std::string& script) {
    const std::string path = folder_.path() + "/bazel";
    std::ofstream(path) << R"(#!/bin/sh
echo "$*" >> calls
for a; do case $a in --build_event_json_file=*) events=${a#*=};; esac; done
event() { printf '{"id":{"%s":{"label":"%s"}},%s}\n' "$1" "$2" "$3" >> $events; }
configured() { event targetConfigured $1 '"configured":{"testSize":"SMALL"}'; }
summary() {
  configured $1
  xml=$PWD/$(echo $1$2 | tr -c 'a-zA-Z\n' _).xml
  echo "<testsuites><testsuite>$3</testsuite></testsuites>" > $xml
  event testResult $1 '"testResult":{"testActionOutput":[{"name":"test.xml","uri":"file://'$xml'"}]}'
  event testSummary $1 '"testSummary":{"overallStatus":"'$2'"}'
}
good='<testcase name="Good" classname="S"/>'
bad='<testcase name="Bad" classname="S"><failure message="a.cc:1&#x0A;no"/></testcase>'
skip='<testcase name="Skip" classname="S"><skipped message="a.cc:2&#x0A;no root"/></testcase>'
)" << script;
    chmod(path.c_str(), 0755);
  }
  void AllowSkips(const std::string& list) {
    const std::string testing = folder_.path() + "/tools/cli/testing";
    std::filesystem::create_directories(testing);
    std::ofstream(testing + "/allowed_skips.txt") << list;
  }
  std::string Calls() { return testbed::FileText(folder_.path() + "/calls"); }

  testbed::TestFolder folder_;
};

TEST_F(TestCommand, EndsWithTheVerdictAloneOnTheLastLine) {
  MakeBazel("echo INFO: working\nsummary //a:a PASSED \"$good$good\"\n");
  const CliResult test = RunCli({"test"});
  EXPECT_EQ(test.code, 0) << test.err;
  EXPECT_THAT(test.out,
              EndsWith("INFO: working\n2 passed, 0 failed, 0 skipped\n"));
}

TEST_F(TestCommand, KeepsItsFilesWhereTmpdirSays) {
  MakeBazel("echo $events > where\nsummary //a:a PASSED \"$good\"\n");
  setenv("TMPDIR", folder_.path().c_str(), 1);
  EXPECT_EQ(RunCli({"test"}).code, 0);
  EXPECT_THAT(testbed::FileText(folder_.path() + "/where"),
              StartsWith(folder_.path() + "/carillon-"));
  setenv("TMPDIR", "/nonexistent", 1);
  const CliResult nowhere = RunCli({"test"});
  unsetenv("TMPDIR");
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("TMPDIR names no folder"));
}

TEST_F(TestCommand, RunsEverythingAsItIsBuiltByDefault) {
  MakeBazel("summary //a:a PASSED\n");
  RunCli({"test", "--", "--jobs=1"});
  const std::string calls = Calls();
  EXPECT_THAT(calls, HasSubstr("test --keep_going"));
  EXPECT_THAT(calls, EndsWith("--jobs=1 -- //...\n"));
  EXPECT_THAT(calls, Not(HasSubstr("--config")));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), '\n'), 1) << calls;
}

TEST_F(TestCommand, AllRunsTheUnitsUnderBothSanitizersToo) {
  MakeBazel("summary //a:a PASSED\n");
  RunCli({"test", "--all", "--", "--jobs=1"});
  std::istringstream calls(Calls());
  std::string plain;
  std::string asan;
  std::string tsan;
  std::getline(calls, plain);
  std::getline(calls, tsan);
  std::getline(calls, asan);
  EXPECT_THAT(plain, EndsWith("--jobs=1 -- //..."));
  for (const auto& [line, name] : {std::pair(asan, "asan"), {tsan, "tsan"}}) {
    EXPECT_THAT(line, HasSubstr(std::string("--config=") + name));
    EXPECT_THAT(line, HasSubstr("-integration"));
  }
  EXPECT_THAT(asan, Not(HasSubstr("-one-thread")));
  EXPECT_THAT(tsan, HasSubstr("-one-thread"));
  EXPECT_THAT(asan, HasSubstr("--jobs=1 -- //... -//integration_tests/..."));
  // These are the folders in which our own threads share memory.
  EXPECT_THAT(tsan, HasSubstr("--jobs=1 -- //shm/... //gpu_daemon/dispatch/"));
}

TEST_F(TestCommand, SanitizersSeeWholeTestbedsToo) {
  MakeBazel("summary //a:a PASSED \"$good\"\n");
  EXPECT_THAT(RunCli({"test", "--sanitizers", "--", "--jobs=1"}).out,
              EndsWith("2 passed, 0 failed, 0 skipped\n"));
  std::istringstream calls(Calls());
  for (const char* name : {"asan", "tsan"}) {
    std::string line;
    ASSERT_TRUE(std::getline(calls, line));
    EXPECT_THAT(line, HasSubstr(std::string("--config=") + name));
    EXPECT_THAT(line, HasSubstr("--jobs=1 -- //... "));
    EXPECT_THAT(line, Not(HasSubstr("-integration")));
    EXPECT_THAT(line, Not(HasSubstr("-//integration_tests")));
  }
  EXPECT_EQ(RunCli({"test", "--sanitizers", "--all"}).code, 2);
}

TEST_F(TestCommand, QuickRunsTheUnitsOnce) {
  MakeBazel("summary //a:a PASSED \"$good\"\n");
  const CliResult test = RunCli({"test", "--quick"});
  EXPECT_EQ(test.out, "1 passed, 0 failed, 0 skipped\n");
  EXPECT_THAT(Calls(), HasSubstr("--test_tag_filters=-integration"));
  EXPECT_EQ(RunCli({"test", "--quick", "--all"}).code, 2);
}

TEST_F(TestCommand, CountsFailuresOfAllConfigurations) {
  MakeBazel(
      "summary //a:a PASSED \"$good\"\n"
      "case $* in *tsan*) summary //a:b FAILED \"$good$bad\"\n"
      "configured //a:c; exit 3;; esac\n");
  const CliResult test = RunCli({"test", "--all"});
  EXPECT_EQ(test.code, 1);
  EXPECT_THAT(test.out, EndsWith("4 passed, 2 failed, 0 skipped\n"));
  EXPECT_THAT(test.err, HasSubstr("failed: //a:b S.Bad (tsan): FAILED: no\n"));
  EXPECT_THAT(test.err, HasSubstr("failed: //a:c (tsan): NOT RUN\n"));
}

TEST_F(TestCommand, FailsForASkipThatTheListDoesNotAllow) {
  MakeBazel("summary //a:a PASSED \"$good$skip\"\n");
  const CliResult forbidden = RunCli({"test"});
  EXPECT_EQ(forbidden.code, 1);
  EXPECT_THAT(forbidden.out, EndsWith("1 passed, 1 failed, 0 skipped\n"));
  EXPECT_THAT(
      forbidden.err,
      HasSubstr("//a:a S.Skip: skipped, which is not allowed: no root"));
  AllowSkips("default //a:a S.Skip no root\n");
  const CliResult allowed = RunCli({"test"});
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_THAT(allowed.out, EndsWith("1 passed, 0 failed, 1 skipped\n"));
  EXPECT_THAT(allowed.err, HasSubstr("skipped: //a:a S.Skip: no root\n"));
}

TEST_F(TestCommand, FailsForAnAllowedSkipOfNoTarget) {
  MakeBazel("summary //a:a PASSED \"$good\"\n");
  AllowSkips("default //a:gone S.Skip no root\n");
  const CliResult test = RunCli({"test"});
  EXPECT_EQ(test.code, 1);
  EXPECT_THAT(test.err, HasSubstr("no target is named by 'default //a:gone"));
  EXPECT_EQ(RunCli({"test", "--quick"}).code, 0) << "knows but a part of them";
}

TEST_F(TestCommand, NamesWhatPassedAtAnotherAttempt) {
  MakeBazel("summary //a:a FLAKY \"$bad\"\nsummary //a:a FLAKY \"$good\"\n");
  const CliResult test = RunCli({"test"});
  EXPECT_EQ(test.code, 0) << test.err;
  EXPECT_THAT(test.err, HasSubstr("retried: //a:a"));
}

TEST_F(TestCommand, TakesABrokenBuildForAFailure) {
  MakeBazel("exit 1\n");
  const CliResult test = RunCli({"test", "--quick"});
  EXPECT_EQ(test.code, 1);
  EXPECT_EQ(test.out, "0 passed, 1 failed, 0 skipped\n");
}

TEST_F(TestCommand, StopsWhenBazelWasInterrupted) {
  MakeBazel("summary //a:a PASSED\nexit 8\n");
  const CliResult test = RunCli({"test", "--all"});
  EXPECT_EQ(test.code, 130);
  EXPECT_THAT(Calls(), Not(HasSubstr("asan")));
}

TEST_F(TestCommand, SaysWhatAnInterruptedRunLeftOut) {
  MakeBazel(
      "summary //a:a PASSED \"$good\"\n"
      "case $* in *tsan*) configured //a:b; exit 8;; esac\n");
  const CliResult test = RunCli({"test", "--all"});
  EXPECT_EQ(test.code, 130);
  EXPECT_THAT(test.out, EndsWith("2 passed, 0 failed, 0 skipped\n"));
  EXPECT_THAT(test.err, HasSubstr("not run: 1 of 2 targets (tsan)\n"));
  EXPECT_THAT(test.err, HasSubstr("not run: all targets (asan)\n"));
}

TEST_F(TestCommand, FailsForWhatFailedBeforeItWasInterrupted) {
  MakeBazel("summary //a:a FAILED \"$bad\"\nconfigured //a:b\nexit 8\n");
  EXPECT_EQ(RunCli({"test"}).code, 1);
}

TEST_F(TestCommand, PrintsOneDocumentForPrograms) {
  MakeBazel(
      "echo INFO: working\nsummary //a:a PASSED \"$good\"\n"
      "summary //a:b TIMEOUT\nexit 3\n");
  const CliResult test = RunCli({"test", "--quick", "-o", "json"});
  EXPECT_EQ(test.code, 1);
  EXPECT_THAT(test.err, HasSubstr("INFO: working"));
  const Json json = test.json();
  ASSERT_FALSE(json.is_discarded()) << test.out;
  EXPECT_EQ(json["passed"], 1);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["skipped"], 0);
  EXPECT_EQ(json["failures"][0], "//a:b: TIMEOUT");
  EXPECT_EQ(json["runs"][0]["targets"]["//a:b"], "TIMEOUT");
}

TEST_F(TestCommand, MutationsAreTheScripts) {
  const std::string directory = folder_.path() + "/integration_tests/mutations";
  const auto make_script = [&](const std::string& body) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/check.sh") << "#!/bin/sh\n" << body;
    chmod((directory + "/check.sh").c_str(), 0755);
  };
  EXPECT_EQ(RunCli({"test", "--mutations"}).code, 3) << "no script";
  make_script("echo table \"$*\" in $(basename $PWD)\n");
  const CliResult found = RunCli({"test", "--mutations", "--", "--jobs=1"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_EQ(found.out,
            "table -- --jobs=1 in " +
                std::filesystem::path(folder_.path()).filename().string() +
                "\n");
  make_script("exit 1\n");
  EXPECT_EQ(RunCli({"test", "--mutations"}).code, 1);
  make_script("exit 130\n");
  EXPECT_EQ(RunCli({"test", "--mutations"}).code, 130);
  EXPECT_EQ(RunCli({"test", "--mutations", "-o", "json"}).code, 2);
  EXPECT_EQ(RunCli({"test", "--mutations", "--quick"}).code, 2);
  EXPECT_EQ(RunCli({"test", "--mutations", "--all"}).code, 2);
  EXPECT_EQ(RunCli({"test", "--mutations", "--sanitizers"}).code, 2);
}

TEST_F(TestCommand, SaysThatThereIsNoBazel) {
  setenv("PATH", folder_.path().c_str(), 1);
  const CliResult test = RunCli({"test"});
  EXPECT_EQ(test.code, 3);
  EXPECT_THAT(test.err, HasSubstr("cannot run bazel: no such program in PATH"));
}

class BenchCommand : public TestCommand {
 protected:
  // A benchmark in place of the real one.
  void MakeBenchmark(const std::string& script,
                     const std::string& name = "event") {
    const std::string path = folder_.path() + "/" + name + "_bench";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    chmod(path.c_str(), 0755);
    setenv("CARILLON_BIN_DIR", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("CARILLON_BIN_DIR");
    TestCommand::TearDown();
  }
};

TEST_F(BenchCommand, BuildsAndRunsTheChosen) {
  MakeBazel("exit 0\n");
  MakeBenchmark("echo ran \"$*\"\n");
  const CliResult bench = RunCli({"bench", "event", "--quick", "--out", "dir"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(bench.out, "ran --out=dir --quick\n");
  EXPECT_THAT(Calls(), HasSubstr("//tools/bench:event_bench"));
}

TEST_F(BenchCommand, GathersDocuments) {
  MakeBazel("exit 0\n");
  MakeBenchmark("echo '{\"a\": 1}'\n");
  const CliResult bench = RunCli({"bench", "event", "-o", "json"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(bench.json()["event"]["a"], 1);
  MakeBenchmark("echo no document\n");
  EXPECT_EQ(RunCli({"bench", "event", "-o", "json"}).code, 1);
}

TEST_F(BenchCommand, FailsWithTheBenchmark) {
  MakeBazel("exit 0\n");
  MakeBenchmark("exit 3\n");
  const CliResult bench = RunCli({"bench", "event"});
  EXPECT_EQ(bench.code, 1);
  EXPECT_THAT(bench.err, HasSubstr("event_bench failed (exit code 3)"));
  MakeBazel("exit 1\n");
  EXPECT_THAT(RunCli({"bench", "event"}).err,
              HasSubstr("the benchmarks do not build"));
}

TEST_F(BenchCommand, TellsLaunchTheBackEndAndNobodyElse) {
  MakeBazel("exit 0\n");
  MakeBenchmark("echo event \"$*\"\n");
  MakeBenchmark("echo launch \"$*\"\n", "launch");
  const CliResult both =
      RunCli({"bench", "launch", "event", "--backend", "cpu"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, "launch --backend=cpu\nevent \n");
  EXPECT_EQ(RunCli({"bench", "event", "--backend", "cpu"}).code, 2);
  EXPECT_EQ(RunCli({"bench", "launch", "--backend", "vax"}).code, 2);
}

TEST_F(BenchCommand, TellsNobodyABackEndThatItHasNot) {
  MakeBazel("exit 0\n");
  for (const char* name : {"dashboard", "event", "ipc", "launch", "link",
                           "memcached", "narrow", "carillon_sdk", "sharing"}) {
    MakeBenchmark(fmt::format("echo {} \"$*\"\n", name), name);
  }
  EXPECT_EQ(RunCli({"bench", "sharing", "--backend", "sim"}).out,
            "sharing --backend=sim\n");
  const CliResult launch = RunCli({"bench", "launch", "--backend", "sim"});
  EXPECT_EQ(launch.code, 2);
  EXPECT_THAT(launch.err,
              HasSubstr("launch runs on --backend auto, cpu, cuda, not sim"));
  EXPECT_EQ(RunCli({"bench", "sharing", "--backend", "auto"}).code, 2);
  EXPECT_EQ(RunCli({"bench", "--backend", "auto"}).out,
            "dashboard \nevent \nipc \nlaunch --backend=auto\nlink \n"
            "memcached \nnarrow --backend=auto\ncarillon_sdk \nsharing \n");
}

TEST_F(BenchCommand, TellsABrokenInvariantAndAnInterruptFromAFailure) {
  MakeBazel("exit 0\n");
  MakeBenchmark("exit 6\n");
  EXPECT_EQ(RunCli({"bench", "event"}).code, 6);
  MakeBenchmark("exit 130\n");
  EXPECT_EQ(RunCli({"bench", "event"}).code, 130);
  MakeBenchmark("kill -INT $$\n");
  EXPECT_EQ(RunCli({"bench", "event"}).code, 130);
}

TEST_F(BenchCommand, KnowsItsBenchmarks) {
  EXPECT_THAT(RunCli({"bench", "--list"}).out, HasSubstr("memcached"));
  const CliResult bench = RunCli({"bench", "evnet"});
  EXPECT_EQ(bench.code, 3);
  EXPECT_THAT(bench.err,
              HasSubstr("no benchmark 'evnet'; did you mean 'event'?"));
}

using GpuBundleCommand = TestCommand;

TEST_F(GpuBundleCommand, HasBazelMakeTheBundleWhereTheUserSays) {
  MakeBazel("echo made: 54.0 MB\n");
  const CliResult made =
      RunCli({"gpu-bundle", "--out", folder_.path() + "/x/../b"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("54.0 MB"));
  EXPECT_THAT(Calls(), HasSubstr("//tools/gpu_check:make_bundle -- --out=" +
                                 folder_.path() + "/b\n"));
}

TEST_F(GpuBundleCommand, PrintsOnlyADocumentForPrograms) {
  const std::string out = folder_.path() + "/b";
  MakeBazel("mkdir " + out + "; echo '{\"revision\": \"abc\"}' > " + out +
            "/MANIFEST.json; echo made\n");
  const CliResult made = RunCli({"gpu-bundle", "-o", "json", "--out", out});
  EXPECT_EQ(made.code, 0) << made.err;
  const Json document = Json::parse(made.out, nullptr, false);
  EXPECT_EQ(document.value("revision", ""), "abc") << made.out;
  EXPECT_EQ(document.value("directory", ""), out);
  EXPECT_EQ(document.value("bytes", 0), 20);
}

TEST_F(GpuBundleCommand, PacksItIntoOneFileIfAsked) {
  const std::string out = folder_.path() + "/b";
  MakeBazel("mkdir " + out + "; echo '{}' > " + out +
            "/MANIFEST.json; printf 12345 > " + out + ".tar.gz\n");
  const CliResult made =
      RunCli({"gpu-bundle", "--tar", "-o", "json", "--out", out});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(Calls(), HasSubstr("--out=" + out + " --tar\n"));
  const Json document = Json::parse(made.out, nullptr, false);
  EXPECT_EQ(document.value("archive", ""), out + ".tar.gz") << made.out;
  EXPECT_EQ(document.value("archive_bytes", 0), 5);
}

TEST_F(GpuBundleCommand, TellsAMissingToolkitFromAFailure) {
  MakeBazel("exit 3\n");
  const CliResult none = RunCli({"gpu-bundle"});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("CUDA_HOME"));
  MakeBazel("exit 1\n");
  EXPECT_EQ(RunCli({"gpu-bundle"}).code, 1);
  MakeBazel("exit 8\n");
  EXPECT_EQ(RunCli({"gpu-bundle"}).code, 130);
}

}  // namespace
}  // namespace carillon::cli
