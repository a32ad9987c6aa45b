// `carillon demo` as a whole, with Debian's own client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tools/cli/cli_runner.h"
#include "tools/cli/testbed/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Demo, ServesRealClientsAndLeavesNothing) {
  TestFolder folder;
  const CliResult demo = RunCli({"demo", "--seconds", "2", "-o", "json"});
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
  for (const char* stage :
       {"rung_to_seen", "seen_to_dispatched", "dispatched_to_finished",
        "finished_to_completion_seen", "rung_to_completion_seen"}) {
    EXPECT_GT(report["stages"][stage]["count"], 0) << stage;
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Demo, EndsInOrderWhenInterrupted) {
  TestFolder folder;
  CliRun demo({"demo", "--seconds", "600"});
  ASSERT_TRUE(Eventually([&] {
    return demo.err().find("requests/s") != std::string::npos;
  })) << demo.err();
  kill(demo.pid(), SIGINT);
  const CliResult result = demo.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("down in "));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace carillon::cli
