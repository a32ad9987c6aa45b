// What `carillon postmortem` reports of a real testbed's flight recorders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/log/log_line.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTopology[] = R"(
name: lab
record: 65536
gpu: {backend: cpu, memory: 256MiB}
devices:
  - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true}
  - {name: fpga1, kind: fpga, size: 64x64, fps: 200}
  - {name: host0, kind: cpu_host, kernel: busy, gap_us: 1000, schedule_event_every_ms: 2}
)";

class Postmortem : public ::testing::Test {
 protected:
  void TearDown() override { RunCli({"down", "--all"}); }

  void Up() {
    const std::string file = files_.path() + "/lab.yaml";
    std::ofstream(file) << kTopology;
    const CliResult up = RunCli({"up", "-d", "-f", file});
    ASSERT_EQ(up.code, 0) << up.err;
  }
  static Json Timeline() {
    return RunCli({"postmortem", "--name", "lab", "--last", "0", "-o", "json"})
        .json();
  }
  static std::map<std::string, uint64_t> Ended(const Json& timeline) {
    std::map<std::string, uint64_t> ended;
    for (const Json& ring : timeline["rings"]) {
      ended[ring["device"]] += ring["events"]["ok"].get<uint64_t>();
    }
    return ended;
  }
  static Json Process(const Json& timeline, const std::string& name) {
    for (const Json& process : timeline["processes"]) {
      if (process["process"] == name) return process;
    }
    ADD_FAILURE() << "no recording of " << name << ": " << timeline;
    return Json::object();
  }

  // The second folder keeps the test's files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

TEST_F(Postmortem, TellsOfTheDeadAndTheLivingAndThatNothingIsLost) {
  Up();
  Json timeline;
  ASSERT_TRUE(Eventually([&] {
    timeline = Timeline();
    auto ended = Ended(timeline);
    return ended["fpga0"] > 20 && ended["fpga1"] > 20 && ended["host0"] > 5;
  })) << timeline;
  EXPECT_EQ(timeline["violations"], Json::array()) << timeline["violations"];
  EXPECT_EQ(kill(Process(timeline, "fpga1")["pid"].get<pid_t>(), SIGKILL), 0);
  ASSERT_TRUE(Eventually(
      [&] { return Process(Timeline(), "fpga1")["running"] == false; }));
  const auto before = Ended(timeline)["fpga0"];
  ASSERT_TRUE(Eventually([&] {
    timeline = Timeline();
    return Ended(timeline)["fpga0"] > before + 20;
  }));
  EXPECT_EQ(timeline["violations"], Json::array()) << timeline["violations"];
  EXPECT_EQ(timeline["unreadable"], Json::array());
  EXPECT_NE(timeline["verdict"], "violated");
  EXPECT_EQ(Process(timeline, "gpud")["running"], true);

  // After gpud's death no process is left, but the files are.
  EXPECT_EQ(kill(Process(timeline, "gpud")["pid"].get<pid_t>(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    timeline = Timeline();
    return Process(timeline, "gpud")["running"] == false &&
           Process(timeline, "fpga0")["running"] == false &&
           Process(timeline, "host0")["running"] == false;
  }));
  EXPECT_EQ(timeline["violations"], Json::array()) << timeline["violations"];
  EXPECT_EQ(timeline["events"]["indeterminate"]["still_running"], 0);
  const CliResult text = RunCli({"postmortem", "--name", "lab"});
  EXPECT_THAT(text.code, AnyOf(0, 1));
  EXPECT_THAT(text.out, HasSubstr("sees its session closed: the other process "
                                  "died"));
  EXPECT_THAT(text.out, HasSubstr(" 0 lost, 0 duplicated, 0 unexpected"));
  EXPECT_THAT(text.out, HasSubstr("verdict: "));
}

TEST_F(Postmortem, NamesDevicesKernelsAndLabelsAndTellsTheTimeAsLogsDo) {
  const uint64_t before = RealtimeNs();
  Up();
  Json timeline;
  ASSERT_TRUE(Eventually([&] {
    timeline = Timeline();
    return Ended(timeline)["fpga0"] > 20;
  })) << timeline;
  EXPECT_EQ(kill(Process(timeline, "fpga0")["pid"].get<pid_t>(), SIGKILL), 0);
  EXPECT_EQ(kill(Process(timeline, "gpud")["pid"].get<pid_t>(), SIGKILL), 0);
  ASSERT_TRUE(Eventually([&] {
    timeline = Timeline();
    return Process(timeline, "gpud")["running"] == false &&
           Process(timeline, "fpga0")["running"] == false;
  }));
  const Json ring = {
      {"device", "fpga0"}, {"kernel", "dct8x8"}, {"label", "frames 64x64"}};
  bool found = false;
  for (const Json& report : timeline["rings"]) {
    if (report["device"] != "fpga0") continue;
    EXPECT_EQ(report["ring"], ring) << report;
    found = true;
  }
  EXPECT_TRUE(found) << timeline["rings"];

  const Json story =
      RunCli({"postmortem", "--name", "lab", "--last", "100000", "-o", "json"})
          .json()["story"];
  const uint64_t after = RealtimeNs();
  std::set<std::string> tellers;
  for (const Json& step : story) {
    EXPECT_GE(step["wall_time_ns"], before) << step;
    EXPECT_LE(step["wall_time_ns"], after) << step;
    if (step["ring"] == ring) tellers.insert(step["process"]);
  }
  EXPECT_EQ(tellers, (std::set<std::string>{"fpga0", "gpud"}));

  const CliResult text =
      RunCli({"postmortem", "--name", "lab", "--last", "100000"});
  EXPECT_THAT(text.out, HasSubstr(" fpga0 dct8x8 (frames 64x64): rings "));
  EXPECT_THAT(text.out, HasSubstr(" fpga0 dct8x8 (frames 64x64): ends "));
  // gpud may have seen the end of a session before it was killed; sessions have
  // no names.
  EXPECT_THAT(text.out, Not(ContainsRegex("event [0-9]+ \\(generation ")));
  // Its lines and those of the logs have the same times.
  const std::string step =
      FormatLogTime(story[0]["wall_time_ns"].get<uint64_t>(), 9);
  EXPECT_THAT(text.out, HasSubstr("\n" + step + "  "));
}

TEST_F(Postmortem, ShowsAViolationWithWhatWasAroundItAndEndsWithSix) {
  const std::string directory = files_.path() + "/saved";
  fs::create_directory(directory);
  const std::string recordings = TestbedPaths(directory).recorder_directory();
  auto device = shm::FlightRecorder::Create(recordings, "nic0", 64);
  auto gpud = shm::FlightRecorder::Create(recordings, "gpud", 64);
  ASSERT_TRUE(device.ok() && gpud.ok());
  using shm::EventState;
  using shm::Generation;
  using shm::Step;
  (*device)->Record(Step::kAttached, 0, Generation(1), getpid());
  (*gpud)->Record(Step::kRingMade, 3, Generation(2), getpid(),
                  EventState::kNone, 1);
  (*device)->Record(Step::kRegistered, 3, Generation(2), 0, EventState::kNone,
                    8);
  (*device)->Record(Step::kRung, 3, Generation(2), 1, EventState::kNone, 1);
  (*gpud)->Record(Step::kEnded, 3, Generation(2), 1, EventState::kDone);
  (*device)->Record(Step::kTaken, 3, Generation(2), 1, EventState::kDone);
  CliResult result = RunCli({"postmortem", "--dir", directory});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("events: 1 ok, "));
  EXPECT_THAT(result.out, HasSubstr("verdict: ok"));

  (*device)->Record(Step::kRung, 3, Generation(2), 2, EventState::kNone, 1);
  result = RunCli({"postmortem", "--dir", directory});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 indeterminate: in flight"));

  (*device)->Record(Step::kTaken, 3, Generation(2), 1, EventState::kDone);
  result = RunCli({"postmortem", "--dir", directory, "--last", "0"});
  EXPECT_EQ(result.code, 6) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("first violation, duplicated: nic0"));
  EXPECT_THAT(result.out, HasSubstr("takes sequence 1 twice"));
  EXPECT_THAT(result.out, HasSubstr("gpud (pid"));
  EXPECT_THAT(result.out, HasSubstr("ends sequence 1, done"));
  const CliResult json =
      RunCli({"postmortem", "--dir", directory, "-o", "json"});
  EXPECT_EQ(json.code, 6);
  EXPECT_EQ(json.json()["verdict"], "violated");
  EXPECT_EQ(json.json()["events"]["duplicated"], 1);
  EXPECT_EQ(json.json()["violations"][0]["at"]["step"], "taken");
  EXPECT_EQ(json.json()["story"].size(), 8u);
}

TEST_F(Postmortem, SaysHowToRecordWhenNothingWas) {
  const CliResult none = RunCli({"postmortem", "--dir", files_.path()});
  EXPECT_EQ(none.code, 3);
  EXPECT_THAT(none.err, HasSubstr("nothing was recorded"));
  EXPECT_THAT(none.err, HasSubstr("record: 4096"));
  EXPECT_EQ(RunCli({"postmortem", "--name", "nosuch"}).code, 3);
}

}  // namespace
}  // namespace carillon::cli
