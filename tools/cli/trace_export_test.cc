// `carillon trace export` of real testbeds, alive and dead, read by a reader
// that shares nothing with it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/testbed_paths.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/perfetto/test_trace_reader.h"
#include "tools/testbed/supervisor/directory.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

namespace fs = std::filesystem;
using perfetto::CheckFlows;
using perfetto::PathOf;
using perfetto::ReadTrace;
using perfetto::TakenIn;
using shm::FlightRecord;
using shm::FlightRecorder;
using shm::FlightRecording;
using shm::Step;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr char kTopology[] = R"(
name: lab
record: 65536
gpu: {backend: cpu, memory: 256MiB, trace: true}
devices:
  - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true}
  - {name: fpga1, kind: fpga, size: 64x64, fps: 200}
)";

class TraceExport : public ::testing::Test {
 protected:
  void TearDown() override { RunCli({"down", "--all"}); }

  // Brings the testbed up, and waits until events have ended.
  void Up() {
    const std::string file = files_.path() + "/lab.yaml";
    std::ofstream(file) << kTopology;
    const CliResult up = RunCli({"up", "-d", "-f", file});
    ASSERT_EQ(up.code, 0) << up.err;
    ASSERT_TRUE(Eventually([&] {
      const auto recordings = Recordings();
      return recordings.size() == 3 && TakenIn(recordings).size() > 50;
    }));
  }
  std::vector<FlightRecording> Recordings(
      const std::string& directory = "") const {
    std::vector<std::string> unreadable;
    auto recordings = shm::ReadFlightRecordings(
        TestbedPaths(directory.empty() ? folder_.path() + "/lab" : directory)
            .recorder_directory(),
        &unreadable);
    EXPECT_EQ(unreadable, std::vector<std::string>());
    return recordings;
  }
  std::string Out() const { return files_.path() + "/lab.pftrace"; }
  CliResult Export(const std::vector<std::string>& options) const {
    std::vector<std::string> line = {"trace", "export", "--out", Out()};
    line.insert(line.end(), options.begin(), options.end());
    return RunCli(line);
  }
  // Nothing of a trace is left behind.
  void ExpectNoFile() const {
    for (const auto& entry : fs::directory_iterator(files_.path())) {
      EXPECT_EQ(entry.path().string().find("pftrace"), std::string::npos)
          << entry.path();
    }
  }

  // The second folder keeps the test's files out of the runtime directory.
  testbed::TestFolder files_;
  testbed::TestFolder folder_;
};

TEST_F(TraceExport, OfALivingTestbedHasEachEventThatWasTakenBefore) {
  Up();
  const auto before = TakenIn(Recordings());
  const CliResult result = Export({"--name", "lab"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(" of 3 processes, "));
  const auto after = TakenIn(Recordings());
  const Json trace = ReadTrace(Out());
  const auto shown = TakenIn(trace);
  EXPECT_TRUE(std::ranges::includes(shown, before));
  EXPECT_TRUE(std::ranges::includes(after, shown));
  EXPECT_GE(CheckFlows(trace), before.size());

  const CliResult json = Export({"--name", "lab", "-o", "json"});
  EXPECT_EQ(json.json()["processes"], 3);
  EXPECT_EQ(json.json()["rings"], 2);
  EXPECT_GE(json.json()["events"], before.size());
  EXPECT_EQ(json.json()["lost_records"], 0);
}

TEST_F(TraceExport, InACopyOfALivingOneAllLookDead) {
  Up();
  const std::string copy = files_.path() + "/copy";
  fs::create_directory(copy);
  fs::copy(folder_.path() + "/lab/recorder",
           TestbedPaths(copy).recorder_directory(),
           fs::copy_options::recursive);
  const auto dead = [&](const std::vector<std::string>& options) {
    EXPECT_EQ(Export(options).code, 0);
    const Json trace = ReadTrace(Out());
    return std::ranges::count_if(trace["instants"], [](const Json& mark) {
      return mark["name"] == "died: this was its last step";
    });
  };
  EXPECT_EQ(dead({"--name", "lab"}), 0);
  EXPECT_EQ(dead({"--dir", copy}), 3);
}

TEST_F(TraceExport, OfADeadOneEqualsItsRecordersToTheNanosecond) {
  Up();
  for (const FlightRecording& recording : Recordings()) {
    if (recording.name == "gpud") {
      EXPECT_EQ(kill(static_cast<pid_t>(recording.pid), SIGKILL), 0);
    }
  }
  ASSERT_TRUE(Eventually([&] {
    return std::ranges::none_of(Recordings(), &FlightRecording::running);
  }));
  const std::string copy = files_.path() + "/copy";
  fs::create_directory(copy);
  fs::copy(folder_.path() + "/lab/recorder",
           TestbedPaths(copy).recorder_directory(),
           fs::copy_options::recursive);
  const auto recordings = Recordings(copy);
  ASSERT_EQ(Export({"--dir", copy}).code, 0);
  const Json trace = ReadTrace(Out());
  EXPECT_EQ(TakenIn(trace), TakenIn(recordings));

  // What gpud did last is there, and so is its death.
  std::multiset<uint64_t> stored;
  std::multiset<uint64_t> shown;
  std::multiset<uint64_t> seen;
  std::multiset<uint64_t> seen_shown;
  std::multiset<uint64_t> dispatched;
  std::multiset<uint64_t> dispatched_shown;
  std::vector<std::string> words;
  Nanoseconds last = 0;
  for (const FlightRecording& recording : recordings) {
    if (recording.name != "gpud") continue;
    for (const FlightRecord& record : recording.records) {
      last = std::max(last, record.time_ns);
      if (record.step == Step::kEnded) stored.insert(record.time_ns);
      if (record.step == Step::kSeen) seen.insert(record.time_ns);
      if (record.step == Step::kDispatched) dispatched.insert(record.time_ns);
    }
  }
  for (const char* const kind : {"slices", "instants"}) {
    for (const Json& mark : trace[kind]) {
      const std::string path = PathOf(trace, mark);
      const Json& end = mark.contains("end") ? mark["end"] : mark["at"];
      if (!path.starts_with("gpud/")) continue;
      if (path == "gpud/steps") {
        words.push_back(mark["name"]);
        if (mark["name"].get<std::string>().starts_with("died")) {
          EXPECT_EQ(end, last);
        }
      } else if (mark["name"] == "runs") {
        dispatched_shown.insert(mark["begin"].get<uint64_t>());
      } else if (mark["args"].contains("sequence")) {
        // gpud may have died before it recorded the last end.
        if (mark["args"]["end"] != "not recorded") {
          shown.insert(end.get<uint64_t>());
        }
        if (mark.contains("begin")) {
          seen_shown.insert(mark["begin"].get<uint64_t>());
        }
      }
    }
  }
  EXPECT_EQ(shown, stored);
  EXPECT_GT(seen.size(), 50u);
  EXPECT_EQ(seen_shown, seen);
  EXPECT_EQ(dispatched_shown, dispatched);
  EXPECT_THAT(words, Contains("died: this was its last step"));
  // And the last of its steps are what --last 1ns shows.
  const CliResult one = Export({"--dir", copy, "--last", "1ns", "-o", "json"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_LE(one.json()["events"], 16);
  ReadTrace(Out());
}

TEST_F(TraceExport, BadInputIsOneErrorAndLeavesNoFile) {
  CliResult result = Export({"--dir", files_.path()});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("nothing was recorded in"));
  EXPECT_EQ(Export({"--name", "nosuch"}).code, 3);
  ExpectNoFile();

  const std::string saved = files_.path() + "/saved";
  fs::create_directory(saved);
  const std::string recordings = TestbedPaths(saved).recorder_directory();
  const auto nic = FlightRecorder::Create(recordings, "nic0", 64);
  ASSERT_TRUE(nic.ok());
  (*nic)->Record(Step::kAttached, 0, shm::Generation(1), 100);
  const auto torn = FlightRecorder::Create(recordings, "nic1", 64);
  ASSERT_TRUE(torn.ok());
  (*torn)->Record(Step::kAttached, 0, shm::Generation(2), 100);
  ASSERT_EQ(truncate((*torn)->path().c_str(), 1000), 0);
  result = Export({"--dir", saved});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr((*torn)->path()));
  EXPECT_THAT(result.err, HasSubstr("its size is 0x3e8"));
  EXPECT_THAT(result.err, HasSubstr("all processes look dead in it"));
  ExpectNoFile();
  fs::remove((*torn)->path());

  for (const char* const last : {"soon", "5", "-1s", "2 days", ""}) {
    result = Export({"--dir", saved, fmt::format("--last={}", last)});
    EXPECT_EQ(result.code, 2) << last;
    EXPECT_THAT(result.err, HasSubstr("--last: "));
  }
  ExpectNoFile();
  EXPECT_EQ(RunCli({"trace", "export"}).code, 2);
  const auto to = [&](const std::string& out) {
    return RunCli({"trace", "export", "--dir", saved, "--out", out});
  };
  result = to(files_.path() + "/no/where.pftrace");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("cannot write the trace"));
  result = to(files_.path());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("is no regular file"));
  EXPECT_EQ(to("/dev/null").code, 2);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  EXPECT_EQ(Export({"--dir", saved}).code, 0);
  ReadTrace(Out());
}

}  // namespace
}  // namespace carillon::cli
