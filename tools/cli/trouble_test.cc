// What the carillon program says of a testbed that is not well.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TroubleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string file = Write(
        "empty.yaml", "name: empty\ngpu: {backend: cpu, memory: 16MiB}\n");
    const CliResult up = RunCli({"up", "-d", "-f", file});
    ASSERT_EQ(up.code, 0) << up.err;
  }
  void TearDown() override { RunCli({"down", "--all"}); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = files_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  // The second folder keeps the tests' files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

TEST_F(TroubleTest, AStoppedSupervisorIsShown) {
  const auto supervisor = testbed::SupervisorOf(testbed::PathsOf("empty"));
  ASSERT_TRUE(supervisor);
  EXPECT_THAT(RunCli({"ps"}).out, Not(HasSubstr("stopped")));
  EXPECT_THAT(RunCli({"status"}).out, Not(HasSubstr("stopped")));
  ASSERT_EQ(kill(supervisor->pid, SIGSTOP), 0);
  ASSERT_TRUE(Eventually([&] {
    const auto facts = testbed::LookAtLiving(*supervisor);
    return facts && facts->state == 'T';
  }));

  const std::string remedy = fmt::format("kill -CONT {}", supervisor->pid);
  const CliResult ps = RunCli({"ps"});
  EXPECT_EQ(ps.code, 0);
  EXPECT_THAT(ps.out, HasSubstr("empty (supervisor stopped)"));
  EXPECT_THAT(ps.err, HasSubstr(remedy));
  EXPECT_THAT(RunCli({"status"}).out, HasSubstr(remedy));
  EXPECT_EQ(
      RunCli({"ps", "-o", "json"}).json()["testbeds"][0]["supervisor_stopped"],
      true);
  EXPECT_EQ(RunCli({"status", "-o", "json"}).json()["supervisor_stopped"],
            true);
}

TEST_F(TroubleTest, ADamagedStateIsShownWithWhatToDo) {
  const std::string state = testbed::PathsOf("empty").state_file();
  std::ofstream(state) << "{\"version\": ";
  const CliResult ps = RunCli({"ps"});
  EXPECT_EQ(ps.code, 0);
  EXPECT_THAT(ps.out, HasSubstr("empty (damaged)"));
  EXPECT_THAT(ps.err, AllOf(HasSubstr(state + " is damaged: it is no JSON"),
                            HasSubstr("carillon down")));
  const CliResult hosts = RunCli({"hosts"});
  EXPECT_EQ(hosts.code, 1);
  EXPECT_THAT(hosts.err, AllOf(HasSubstr(state + " is damaged: it is no JSON"),
                               HasSubstr("carillon cleanup")));
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(TroubleTest, ANameThatSomebodyHasBegunFindsTheKernelsThatBeginSo) {
  const CliResult begun = RunCli({"kernels", "memc"});
  EXPECT_EQ(begun.code, 3);
  EXPECT_THAT(begun.err, HasSubstr("there is no kernel 'memc'; did you mean "
                                   "'memc_"));
}

}  // namespace
}  // namespace carillon::cli
