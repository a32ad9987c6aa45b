// `carillon fault run` with real testbeds: the examples hold, a plan that does
// not hold is reported, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A device that rings, and a second device.
constexpr char kTopology[] =
    "  gpu: {backend: cpu, memory: 256MiB}\n"
    "  devices:\n"
    "    - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true}\n"
    "    - {name: fpga1, kind: fpga, size: 64x64, fps: 200, check: true}\n";

class FaultRun : public ::testing::Test {
 protected:
  void TearDown() override { RunCli({"down", "--all"}); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string file = files_.path() + "/" + name;
    std::ofstream(file) << text;
    return file;
  }
  // A plan whose topology is kTopology.
  std::string WritePlan(const std::string& rest) {
    return Write("p.yaml",
                 "plan: p\ntopology:\n" + std::string(kTopology) + rest);
  }
  // What testbeds leave in the runtime directory.
  std::vector<std::string> LeftOver() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_.path(), error)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  static Json Expectation(const Json& run, const std::string& name) {
    for (const Json& one : run["expectations"]) {
      if (one["expectation"] == name) return one;
    }
    return Json();
  }

  // The second folder keeps the test's files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

class Examples : public FaultRun,
                 public ::testing::WithParamInterface<std::string> {};

// What gpud does wrong in an example, with the one expectation that fails.
const std::map<std::string, std::string> kViolated = {
    {"corrupt-completion", "contradicted"},
    {"doubled-completion", "duplicated"},
    {"lost-completion", "lost"},
    {"scribbled-output", "wrong"}};

TEST_P(Examples, HasItsTrueVerdict) {
  const CliResult result = RunCli(
      {"fault", "run", GetParam(), "--keep", files_.path(), "-o", "json"});
  const Json run = result.json()["plans"][0];
  EXPECT_GT(run["strikes"].size(), 0u);
  EXPECT_EQ(LeftOver(), std::vector<std::string>());
  const auto violated = kViolated.find(fs::path(GetParam()).stem());
  if (violated == kViolated.end()) {
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(run["verdict"], "ok") << run.dump(1);
    EXPECT_EQ(run["kept"], "");
    return;
  }
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_EQ(run["verdict"], "violated");
  for (const Json& one : run["expectations"]) {
    EXPECT_EQ(one["ok"], one["expectation"] != violated->second) << one.dump();
  }
  EXPECT_EQ(Expectation(run, violated->second)["found"], "1");
  EXPECT_NE(run["kept"], "");
}

std::vector<std::string> ExampleFiles() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator("docs/examples")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Plans, Examples, ::testing::ValuesIn(ExampleFiles()),
                         [](const auto& info) {
                           std::string name = fs::path(info.param).stem();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(FaultRun, TellsWhatStrikesAndWhatHolds) {
  const std::string plan = WritePlan(
      "seed: 3\nfaults:\n"
      "  - {name: dies, target: {process: fpga0}, when: {point: device.ring, "
      "nth: 50}, do: kill}\n"
      "run: {for: 200ms}\n"
      "expect: {running: [gpud, fpga1], progress: [fpga1], indeterminate: "
      "{device_died: any}}\n");
  const CliResult result = RunCli({"fault", "run", plan});
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, AllOf(HasSubstr("plan p ("), HasSubstr(", seed 3"),
                                HasSubstr("dies strikes fpga0 (pid "),
                                HasSubstr(", passage 50")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("dies: struck"), HasSubstr("lost"),
                                HasSubstr("progress of fpga1"),
                                HasSubstr("verdict of p: ok")));
  EXPECT_THAT(result.out, Not(HasSubstr("VIOLATED")));
}

// A plan that does not hold ends with 6; its files are kept, and it can be
// replayed.
TEST_F(FaultRun, KeepsWhatDoesNotHold) {
  const std::string plan = WritePlan(
      "seed: 4\nfaults:\n"
      "  - {name: dies, target: {process: fpga0}, when: {point: device.ring, "
      "nth: 50}, do: kill}\n"
      "run: {for: 200ms, settle: 200ms}\n"
      "expect: {running: [fpga0], restarts: {fpga0: 1}, indeterminate: "
      "{device_died: any}}\n");
  const std::string junit = files_.path() + "/j.xml";
  const CliResult result =
      RunCli({"fault", "run", plan, "--junit", junit, "-o", "json"});
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("what must hold does not hold with plan p"),
                    HasSubstr("replay with: carillon fault run " + plan +
                              " --seed 4")));
  const Json run = result.json()["plans"][0];
  EXPECT_EQ(run["verdict"], "violated");
  EXPECT_EQ(Expectation(run, "fpga0")["ok"], false);
  EXPECT_EQ(Expectation(run, "restarts of fpga0")["found"], "0");
  EXPECT_EQ(Expectation(run, "lost")["ok"], true);
  EXPECT_THAT(testbed::FileText(junit),
              AllOf(HasSubstr("failures=\"2\""),
                    HasSubstr("name=\"restarts of fpga0\"")));

  const std::string kept = run["kept"];
  EXPECT_THAT(kept, HasSubstr(folder_.path() + "/failed-plans/p-"));
  EXPECT_THAT(testbed::FileText(kept + "/logs/gpud.log"), HasSubstr("fpga0"));
  EXPECT_TRUE(fs::exists(kept + "/state.json"));
  // fpga1 lived, and gpud says of its ring what it said before the end.
  const Json rings =
      Json::parse(testbed::FileText(kept + "/rings.json"))["rings"];
  ASSERT_EQ(rings.size(), 1u) << rings.dump();
  EXPECT_EQ(rings[0]["device"], "fpga1");
  EXPECT_EQ(rings[0]["entries"].is_number(), true);
  EXPECT_EQ(RunCli({"validate", kept + "/plan.yaml"}).code, 0);
  const CliResult story =
      RunCli({"postmortem", "--dir", kept, "--last", "100000"});
  EXPECT_THAT(story.out, HasSubstr("fpga0 (pid"));
  EXPECT_THAT(story.out,
              HasSubstr("IS STRUCK by dies: kill at device.ring, passage 50"));
  EXPECT_EQ(LeftOver(), std::vector<std::string>{"failed-plans"});
}

TEST_F(FaultRun, RunsOnATestbedThatIsUp) {
  const std::string topology =
      Write("t.yaml",
            "name: lab\nfaults: true\nrecord: 65536\ngpu: {backend: cpu, "
            "memory: 256MiB}\ndevices:\n  - {name: fpga0, kind: fpga, "
            "size: 64x64, fps: 200}\n");
  const std::string plan = Write(
      "p.yaml",
      "plan: p\nfaults:\n  - {name: slow, target: {process: fpga0}, when: "
      "{point: device.ring}, do: {delay: {for: 1ms}}, times: 20}\n"
      "run: {for: 200ms}\nexpect: {progress: [fpga0], running: [gpud], "
      "indeterminate: {still_running: any, not_taken: any}}\n");
  const CliResult none = RunCli({"fault", "run", plan});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("it needs a testbed that is up"));
  ASSERT_EQ(RunCli({"up", "-d", "-f", topology}).code, 0);
  const CliResult result = RunCli({"fault", "run", plan, "-o", "json"});
  EXPECT_EQ(result.code, 0) << result.err << result.out;
  EXPECT_EQ(Expectation(result.json()["plans"][0], "slow: struck")["found"],
            "20");
  EXPECT_TRUE(Expectation(result.json()["plans"][0], "leaks").is_null());
  // The testbed is as before: up, with nothing on the board.
  EXPECT_EQ(RunCli({"fault", "list", "-o", "json"}).json()["faults"],
            Json::array());
  EXPECT_EQ(RunCli({"down"}).code, 0);
}

TEST_F(FaultRun, CtrlCTakesEverythingDown) {
  const std::string plan = WritePlan(
      "faults:\n  - {name: never, target: {process: fpga0}, when: {point: "
      "device.ring, nth: 1000000000}, do: kill}\nrun: {within: 10min}\n");
  CliRun run({"fault", "run", plan});
  ASSERT_TRUE(Eventually([&] {
    return run.err().find("fault never: kill fpga0") != std::string::npos;
  })) << run.err();
  kill(run.pid(), SIGINT);
  const CliResult result = run.Wait();
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_EQ(LeftOver(), std::vector<std::string>());
}

TEST_F(FaultRun, RefusesWrongPlansBeforeAnythingStarts) {
  const std::string plan = WritePlan("faults: [{name: a, do: kil}]\n");
  const CliResult result = RunCli({"fault", "run", plan});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("do: 'kil' is no action"));
  EXPECT_EQ(RunCli({"fault", "run", "/no/such.yaml"}).code, 3);
  EXPECT_EQ(RunCli({"fault", "run", plan, "--seed", "x"}).code, 2);
  EXPECT_EQ(LeftOver(), std::vector<std::string>());
}

// Only one of the three faults does harm.
TEST_F(FaultRun, ShrinksToTheFaultThatDoesIt) {
  const std::string plan = WritePlan(
      "faults:\n"
      "  - {name: slow, target: {process: fpga1}, when: {point: device.ring, "
      "every: 3}, do: {delay: {for: 1ms}}, times: 5}\n"
      "  - {name: dies, target: {process: fpga0}, when: {point: device.ring, "
      "nth: 40}, do: kill}\n"
      "  - {name: late, target: {process: gpud}, when: {point: gpud.complete}, "
      "do: {delay: {for: 1ms}}, times: 5}\n"
      "run: {for: 100ms, settle: 100ms}\n"
      "expect: {running: [fpga0, fpga1]}\n");
  const std::string smallest = files_.path() + "/s.yaml";
  const CliResult result =
      RunCli({"fault", "run", plan, "--shrink", smallest, "--tries", "1"});
  EXPECT_EQ(result.code, 6) << result.err;
  const std::string text = testbed::FileText(smallest);
  EXPECT_THAT(text,
              AllOf(HasSubstr("name: dies"), Not(HasSubstr("name: slow")),
                    Not(HasSubstr("name: late")), Not(HasSubstr("nth:"))));
  EXPECT_EQ(RunCli({"validate", smallest}).code, 0);
}

}  // namespace
}  // namespace carillon::cli
