// `carillon demo` as a whole, with Debian's own client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/marks.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<testbed::ProcessIdentity> Marked(const std::string& testbed) {
  return testbed::MarkedProcesses(testbed::PathsOf(testbed));
}

// A demo that runs until something ends it.
class EndlessDemo : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Eventually([&] {
      return demo_.err().find("requests/s") != std::string::npos;
    })) << demo_.err();
    // gpud, three devices and the client.
    EXPECT_THAT(Marked("endless"), SizeIs(5));
  }
  static void Kill(const std::string& name) {
    const Json processes =
        RunCli({"ps", "--name", "endless", "-o", "json"}).json();
    for (const Json& process : processes["testbeds"][0]["processes"]) {
      if (process["name"] == name) kill(process["pid"], SIGKILL);
    }
  }
  void ExpectNothingLeft() {
    EXPECT_TRUE(fs::is_empty(folder_.path()));
    EXPECT_THAT(Marked("endless"), IsEmpty());
  }

  testbed::TestFolder folder_;
  CliRun demo_{{"demo", "--seconds", "600", "--name", "endless"}};
};

TEST(Demo, ServesRealClientsAndLeavesNothing) {
  testbed::TestFolder folder;
  // It writes nothing outside of its testbed.
  setenv("TMPDIR", "/nonexistent", 1);
  const CliResult demo =
      RunCli({"demo", "--seconds", "2", "--name", "short", "-o", "json"});
  unsetenv("TMPDIR");
  ASSERT_EQ(demo.code, 0) << demo.err;
  const Json report = demo.json();
  ASSERT_TRUE(report.is_object()) << demo.out;
  EXPECT_EQ(report["ok"], true);
  EXPECT_GT(report["client"]["hits"], 0);
  EXPECT_EQ(report["client"]["verify_failures"], 0);
  EXPECT_EQ(report["ledger"]["rung"], report["ledger"]["done"]);
  EXPECT_GT(report["ledger"]["rung"], 0);
  EXPECT_GT(report["fpga"]["frames_done"], 0);
  EXPECT_EQ(report["fpga"]["mismatches"], 0);
  EXPECT_GT(report["background"]["launches"], 0);
  // The policy was changed while the clients asked.
  ASSERT_EQ(report["policies"].size(), 2u);
  EXPECT_EQ(report["policies"][0]["policy"], "priority");
  EXPECT_EQ(report["policies"][1]["policy"], "exclusive");
  for (const char* stage :
       {"rung_to_seen", "seen_to_dispatched", "dispatched_to_finished",
        "finished_to_completion_seen", "rung_to_completion_seen"}) {
    EXPECT_GT(report["stages"][stage]["count"], 0) << stage;
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THAT(Marked("short"), IsEmpty());
}

TEST(Demo, ServesRealClientsOnASimulatedGpu) {
  testbed::TestFolder folder;
  const CliResult demo = RunCli({"demo", "--seconds", "2", "--backend", "sim",
                                 "--name", "simulated", "-o", "json"});
  ASSERT_EQ(demo.code, 0) << demo.err;
  const Json report = demo.json();
  EXPECT_EQ(report["ok"], true);
  EXPECT_GT(report["client"]["hits"], 0);
  EXPECT_EQ(report["client"]["verify_failures"], 0);
  EXPECT_EQ(report["ledger"]["rung"], report["ledger"]["done"]);
  EXPECT_GT(report["fpga"]["frames_done"], 0);
  EXPECT_EQ(report["fpga"]["mismatches"], 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST_F(EndlessDemo, EndsInOrderWhenInterrupted) {
  kill(demo_.pid(), SIGINT);
  const CliResult result = demo_.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("down in "));
  ExpectNothingLeft();
}

TEST_F(EndlessDemo, ADeviceThatDiesIsABrokenPromise) {
  Kill("fpga0");
  const CliResult result = demo_.Wait();
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_THAT(result.err, HasSubstr("fpga0 (SIGKILL)"));
  ExpectNothingLeft();
}

TEST_F(EndlessDemo, AGpudThatDiesIsABrokenPromise) {
  Kill("gpud");
  const CliResult result = demo_.Wait();
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_THAT(result.err, HasSubstr("gpud (SIGKILL)"));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace carillon::cli
