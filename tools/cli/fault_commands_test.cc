// `carillon fault points|list|inject|clear` on boards without a testbed: the
// only process on them is this test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shm/faults/board.h"
#include "tools/cli/command.h"
#include "tools/cli/run_line.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

using faults::Action;
using faults::Board;
using faults::Member;
using faults::Point;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A testbed's directory with a board; this process is nic0 on it.
class FaultCommands : public ::testing::Test {
 protected:
  FaultCommands() {
    const TestbedPaths paths = testbed::PathsOf("lab");
    std::filesystem::create_directory(paths.directory());
    std::filesystem::permissions(paths.directory(),
                                 std::filesystem::perms::owner_all);
    std::ofstream(paths.lock_file()) << "carillon testbed\n999999999 1\n";
    board_ = *Board::Create(paths.fault_board());
    member_ = *Member::Join(paths.fault_board(), "nic0");
  }
  static CliResult RunFault(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "fault");
    arguments.insert(arguments.end(), {"--name", "lab"});
    return RunLine(arguments);
  }
  std::vector<faults::Injected> There() const { return board_->List(); }

  testbed::TestFolder folder_;
  std::unique_ptr<Board> board_;
  std::unique_ptr<Member> member_;
};

TEST_F(FaultCommands, PointsTellsEveryPointAndActionOrOne) {
  CliResult outcome = RunLine({"fault", "points"});
  EXPECT_EQ(outcome.code, 0);
  for (const faults::PointInfo& info : faults::Points()) {
    if (info.point == Point::kNone) continue;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr(std::string(info.name)),
                                   HasSubstr(std::string(info.summary))));
  }
  outcome = RunLine({"fault", "points", "gpud.complete", "-o", "json"});
  ASSERT_EQ(outcome.json()["points"].size(), 1u) << outcome.out;
  EXPECT_EQ(
      outcome.json()["points"][0]["actions"],
      Json({"kill", "stop", "delay", "lose", "double", "reorder", "corrupt"}));
  EXPECT_EQ(outcome.json()["actions"].size(), 7u);
  outcome = RunLine({"fault", "points", "gpud.complet"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'gpud.complete'?"));
}

TEST_F(FaultCommands, InjectPutsAFaultOfTheCommandLineOnTheBoard) {
  CliResult outcome = RunFault({"inject",        "nic0",        "delay",
                                "--at",          "device.ring", "--nth",
                                "1000000",       "--times",     "0",
                                "--for",         "2ms",         "--jitter",
                                "1ms",           "--event",     "3",
                                "--probability", "0.5",         "--as",
                                "slow",          "--seed",      "9"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(There().size(), 1u);
  const faults::Fault fault = There()[0].fault;
  EXPECT_EQ(fault.name, "slow");
  EXPECT_EQ(fault.process, "nic0");
  EXPECT_EQ(fault.action, Action::kDelay);
  EXPECT_EQ(fault.point, Point::kDeviceRing);
  EXPECT_EQ(fault.nth, 1'000'000u);
  EXPECT_EQ(fault.times, 0u);
  EXPECT_EQ(fault.duration_ns, 2'000'000u);
  EXPECT_EQ(fault.jitter_ns, 1'000'000u);
  EXPECT_EQ(fault.event_id, 3u);
  EXPECT_EQ(fault.probability, 0.5);
  EXPECT_EQ(fault.seed, fault::SeedOf(9, "slow"));
  EXPECT_THAT(outcome.err, HasSubstr("slow: delay nic0"));

  // The free names, as JSON.
  const auto name = [](const CliResult& outcome) {
    return outcome.json()["injected"][0]["name"].get<std::string>();
  };
  const std::vector<std::string> hang = {"inject", "nic0",        "lose",
                                         "--at",   "device.ring", "--after",
                                         "1min",   "-o",          "json"};
  EXPECT_EQ(name(RunFault(hang)), "lose-1");
  EXPECT_EQ(name(RunFault(hang)), "lose-2");
  EXPECT_EQ(There().size(), 3u);
  EXPECT_NE(There()[1].fault.seed, There()[2].fault.seed);
}

TEST_F(FaultCommands, InjectSpellsItsOptionsWithDashesAndTakesAPlansSpelling) {
  for (const char* option : {"--after-fault", "--after_fault"}) {
    const CliResult outcome = RunFault(
        {"inject", "nic0", "lose", "--at", "device.ring", option, "kill-1"});
    // The board knows no such fault: the option has arrived there.
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("there is no fault called kill-1"));
  }
  const std::string help = RunFault({"inject", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--after-fault"));
  EXPECT_THAT(help, Not(HasSubstr("--after_fault")));
  const CliResult outcome =
      RunFault({"inject", "plan.yaml", "--after_fault", "kill-1"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--after-fault is of one fault"));
}

TEST_F(FaultCommands, InjectTakesAWholePlanOrNothing) {
  const std::string file = folder_.path() + "/p.yaml";
  std::ofstream(file) << "plan: p\nseed: 4\nfaults:\n"
                         "  - {name: a, target: {process: nic0}, when: {point: "
                         "device.ring}, do: lose}\n"
                         "  - {name: b, target: {process: nic0}, when: "
                         "{point: device.ring, after_fault: a}, do: double}\n";
  EXPECT_EQ(RunFault({"inject", file}).code, 0);
  ASSERT_EQ(There().size(), 2u);
  EXPECT_EQ(There()[1].fault.after_fault, "a");
  EXPECT_EQ(There()[1].fault.seed, fault::SeedOf(4, "b"));
  CliResult outcome = RunFault({"inject", file});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("there are two faults called a"));
  EXPECT_EQ(There().size(), 2u);
  outcome = RunFault({"inject", file, "--times", "3"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--times is of one fault"));
  std::ofstream(file) << "plan: p\nfaults: [{name: c, do: kil}]\n";
  outcome = RunFault({"inject", file});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(file + ":2:24: do: 'kil' is no action"));
  EXPECT_EQ(RunFault({"inject", "/no/such.yaml"}).code, 3);
}

TEST_F(FaultCommands, InjectSaysWhatThereIs) {
  const auto error = [](std::vector<std::string> words) {
    words.insert(words.begin(), "inject");
    const CliResult outcome = RunFault(words);
    EXPECT_NE(outcome.code, 0);
    return outcome.err;
  };
  EXPECT_THAT(error({"nic9", "kill"}),
              HasSubstr("the testbed has no process 'nic9'; did you mean "
                        "'nic0'?"));
  EXPECT_THAT(error({"nic0", "explode"}), HasSubstr("there are kill, stop,"));
  EXPECT_THAT(error({"nic0", "lose", "--at", "device.rin"}),
              HasSubstr("--at: 'device.rin' is no point; did you mean "
                        "'device.ring'?"));
  EXPECT_THAT(error({"nic0", "storm", "--at", "gpud.complete"}),
              HasSubstr("storm has no meaning at gpud.complete; there are "
                        "kill, stop, delay, lose, double"));
  EXPECT_THAT(error({"nic0", "kill", "--for", "1s"}),
              HasSubstr("kill does not take --for"));
  EXPECT_THAT(error({"nic0", "stop", "--for", "1"}),
              HasSubstr("--for: '1' is not a duration"));
  EXPECT_THAT(error({"nic0", "kill", "stop"}), HasSubstr("3 words"));
  EXPECT_TRUE(There().empty());
}

TEST_F(FaultCommands, NoFaultIsForTheDashboard) {
  testbed::TestbedState state;
  for (const std::string name : {"gpud", "nic0", "dashboard"}) {
    state.processes.push_back({.name = name, .kind = name});
  }
  ASSERT_TRUE(
      testbed::WriteState(testbed::PathsOf("lab").state_file(), state).ok());
  const CliResult outcome = RunFault({"inject", "dashboard", "kill"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("no fault can strike the dashboard"),
                    HasSubstr("carillon restart --kill dashboard")));
  EXPECT_TRUE(There().empty());
  EXPECT_EQ(RunFault({"inject", "gpud", "kill"}).code, 0);
  const CliResult completed =
      RunLine({"complete", "--", "fault", "inject", "--name", "lab", ""});
  EXPECT_THAT(completed.out, AllOf(HasSubstr("gpud"), HasSubstr("nic0"),
                                   Not(HasSubstr("dashboard"))));
}

TEST_F(FaultCommands, ListTellsTheBoard) {
  CliResult outcome = RunFault({"list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("on the board: nic0"), HasSubstr("no faults")));
  ASSERT_EQ(RunFault({"inject", "nic0", "lose", "--at", "device.ring"}).code,
            0);
  outcome = RunFault({"list"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("lose-1"), HasSubstr("armed"),
                                 HasSubstr("lose nic0 at device.ring")));
  const Json json = RunFault({"list", "-o", "json"}).json();
  EXPECT_EQ(json["faults"][0]["name"], "lose-1");
  EXPECT_EQ(json["faults"][0]["point"], "device.ring");
  EXPECT_EQ(json["faults"][0]["struck"], 0);
  EXPECT_EQ(json["processes"][0]["process"], "nic0");
  EXPECT_EQ(json["processes"][0]["pid"], getpid());
  EXPECT_EQ(json["strikes"], Json::array());
}

TEST_F(FaultCommands, ClearTakesFaultsOffByNameOrAll) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(RunFault({"inject", "nic0", "lose", "--at", "device.ring", "--as",
                        name})
                  .code,
              0);
  }
  CliResult outcome = RunFault({"clear", "a", "x"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err,
              HasSubstr("there is no fault called 'x'; there are a, b, c"));
  EXPECT_EQ(There().size(), 3u);
  EXPECT_EQ(RunFault({"clear", "a"}).code, 0);
  EXPECT_EQ(There().size(), 2u);
  EXPECT_EQ(RunFault({"clear"}).code, 2);
  outcome = RunFault({"clear", "--all", "-o", "json"});
  EXPECT_EQ(outcome.json()["cleared"], 2);
  EXPECT_TRUE(There().empty());
}

TEST_F(FaultCommands, SaysHowToHaveABoard) {
  std::filesystem::remove(testbed::PathsOf("lab").fault_board());
  const CliResult outcome = RunFault({"list"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("there is no board of faults in"),
                                 HasSubstr("`faults: true` in the topology")));
  EXPECT_THAT(RunLine({"fault", "list", "--name", "nosuch"}).err,
              Not(HasSubstr("board")));
}

}  // namespace
}  // namespace carillon::cli
