// The verdict on runs in which everything is as it must be, by the flight
// recorders and the devices' own comparisons alone: no expectation of progress
// that a hanging device would miss. What is planted in gpud
// (integration_tests/mutations) must turn it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

constexpr char kTopology[] = R"(
topology:
  gpu: {backend: cpu, memory: 256MiB, restart: on_failure}
  devices:
    - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true}
    - {name: fpga1, kind: fpga, size: 64x64, fps: 200, check: true}
    - {name: host0, kind: cpu_host, kernel: matmul, schedule_event_every_ms: 5}
)";

class CheckerAlone : public ::testing::Test {
 protected:
  void TearDown() override { RunCli({"down", "--all"}); }

  void ExpectOk(const std::string& rest) {
    const std::string file = files_.path() + "/p.yaml";
    std::ofstream(file) << "plan: p" << kTopology << rest;
    const CliResult result =
        RunCli({"fault", "run", file, "--keep", files_.path(), "-o", "json"});
    EXPECT_EQ(result.code, 0) << result.err << result.json().dump(1);
  }

 private:
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

TEST_F(CheckerAlone, SaysOkOfARunInWhichNothingGoesWrong) {
  ExpectOk(
      "faults:\n"
      "  - {name: pause, target: {process: fpga1}, when: {after: 300ms}, "
      "do: {stop: {for: 1ms}}}\n"
      "run: {for: 1s, settle: 2s}\n"
      "expect: {ok: '> 200'}\n");
}

// gpud dies between the end of an event and its completion, and right after it.
TEST_F(CheckerAlone, SaysOkOfARunInWhichGpudDies) {
  for (const std::string point : {"gpud.complete", "gpud.completed"}) {
    ExpectOk(
        "faults:\n  - {name: dies, target: {process: gpud, device: fpga0}, "
        "when: {point: " +
        point +
        ", nth: 100}, do: kill}\n"
        "run: {for: 500ms, settle: 15s}\n"
        "expect: {ok: '> 100', bad_exits: any, "
        "indeterminate: {gpud_died: any}}\n");
  }
}

}  // namespace
}  // namespace carillon::cli
