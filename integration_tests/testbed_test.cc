// Tests the test library: its actions have their effect, and its reports are
// true.
#include "integration_tests/testbed.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "tools/testbed/ledger/test_timeline.h"
#include "tools/testbed/supervisor/process_identity.h"

namespace carillon::testing {
namespace {

namespace fs = std::filesystem;
using faults::Action;
using faults::Fault;
using faults::Point;
using ledger::TestTimeline;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kEcho[] = "integration_tests/echo_device";
// An exit code of `carillon postmortem`.
constexpr int kIndeterminate = 1;
// The limit for a wait that is known to fail.
constexpr milliseconds kShort{50};

std::string Explain(const LedgerReading& reading) {
  ::testing::StringMatchResultListener listener;
  ::testing::ExplainMatchResult(NothingLost(), reading, &listener);
  return listener.str();
}

LedgerReading Reading(const TestTimeline& timeline) {
  return LedgerReading(testbed::TimelineOf("lab", timeline.recordings));
}

class NothingLostTest : public ::testing::Test {
 protected:
  NothingLostTest()
      : device_(timeline_.AddDevice("nic0", 200)),
        ring_(timeline_.Register(device_, 3)) {}
  void Finish() {
    timeline_.Unregister(ring_);
    timeline_.Detach(device_);
  }

  TestTimeline timeline_;
  size_t device_;
  TestTimeline::Ring ring_;
};

TEST_F(NothingLostTest, HoldsWhereEveryEventEndsOnce) {
  for (int i = 0; i < 20; ++i) timeline_.Live(ring_);
  Finish();
  EXPECT_THAT(Reading(timeline_), NothingLost());
}

TEST_F(NothingLostTest, ShowsTheFirstViolationAndWhatWasAroundIt) {
  for (int i = 0; i < 20; ++i) timeline_.Live(ring_);
  timeline_.Take(ring_, 20);
  Finish();
  const LedgerReading reading = Reading(timeline_);
  EXPECT_THAT(reading, Not(NothingLost()));
  EXPECT_THAT(Explain(reading), StartsWith("1 events are not as promised; "));
  EXPECT_THAT(reading.ToString(),
              AllOf(HasSubstr("1 duplicated"),
                    HasSubstr("first violation, duplicated: "),
                    HasSubstr("nic0 (pid 200)"), HasSubstr("gpud (pid 100)")));
}

TEST_F(NothingLostTest, FailsWhereNothingIsProven) {
  EXPECT_THAT(Explain(LedgerReading(testbed::Timeline())),
              HasSubstr("no event has ended"));
  for (int i = 0; i < 20; ++i) timeline_.Live(ring_);
  timeline_.Overwrite(device_, 10);
  EXPECT_THAT(Explain(Reading(timeline_)),
              HasSubstr("10 records are overwritten"));
  testbed::Timeline unreadable =
      testbed::TimelineOf("lab", timeline_.recordings);
  unreadable.report.overwritten = 0;
  unreadable.unreadable = {"nic0-1.rec is empty"};
  EXPECT_THAT(Explain(LedgerReading(unreadable)),
              HasSubstr("nic0-1.rec is empty"));
}

class FaultTestbedTest : public ::testing::Test {
 protected:
  void Up(const std::string& topology) {
    auto testbed = FaultTestbed::Up(topology);
    ASSERT_TRUE(testbed.ok()) << testbed.status();
    lab_ = *std::move(testbed);
  }
  void UpFpga() {
    Up("gpu: {backend: cpu, memory: 64MiB}\n"
       "devices:\n"
       "  - {name: fpga0, kind: fpga, size: 64x64, fps: 500, check: true}\n");
  }
  // A device that echoes `events` messages, as the test's own process.
  std::unique_ptr<Process> StartEcho(uint64_t events) {
    auto echo =
        lab_->StartDevice("echo0", kEcho, {"--events", std::to_string(events)});
    EXPECT_TRUE(echo.ok()) << echo.status();
    return echo.ok() ? *std::move(echo) : nullptr;
  }

  char StateOf(const std::string& process) const {
    const auto facts = testbed::LookAtLiving(lab_->ProcessOf(process).identity);
    return facts ? facts->state : 'X';
  }

  std::unique_ptr<FaultTestbed> lab_;
};

TEST_F(FaultTestbedTest, SaysWhatIsWrongWithATopology) {
  const auto none = FaultTestbed::Up("gpu: {backend: cpu}\ndevice: []\n");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr(":2:"), HasSubstr("device")));
}

TEST_F(FaultTestbedTest, ADeviceOfTheTestsOwnIsJudgedToo) {
  ASSERT_NO_FATAL_FAILURE(Up("gpu: {backend: cpu, memory: 64MiB}\n"));
  EXPECT_THAT(Explain(lab_->Ledger()), HasSubstr("no event has ended"));
  ASSERT_TRUE(lab_->Inject({.name = "dies",
                            .process = "echo0",
                            .point = Point::kDeviceTake,
                            .nth = 50,
                            .action = Action::kKill}));
  EXPECT_EQ(StartEcho(500)->Wait(), -SIGKILL);
  EXPECT_TRUE(lab_->WaitForStrike("dies"));
  EXPECT_EQ(StartEcho(500)->Wait(), 0);
  const LedgerReading reading = lab_->Ledger();
  EXPECT_THAT(reading, NothingLost());
  EXPECT_GE(reading.report().total.ok, 500u);
  EXPECT_THAT(reading.timeline().strikes, ::testing::SizeIs(1));
  EXPECT_TRUE(lab_->Down());
}

TEST_F(FaultTestbedTest, ProcessesAreStoppedAndRestarted) {
  ASSERT_NO_FATAL_FAILURE(UpFpga());
  EXPECT_TRUE(lab_->WaitForProgress("fpga0", 10));
  ASSERT_TRUE(lab_->Signal("fpga0", SIGSTOP));
  EXPECT_EQ(StateOf("fpga0"), 'T');
  ASSERT_TRUE(lab_->Signal("fpga0", SIGCONT));
  EXPECT_TRUE(lab_->WaitForProgress("fpga0", 10));
  const pid_t first = lab_->ProcessOf("fpga0").identity.pid;
  ASSERT_TRUE(lab_->Restart("fpga0", /*kill=*/true));
  EXPECT_TRUE(lab_->WaitForRestart("fpga0"));
  EXPECT_NE(lab_->ProcessOf("fpga0").identity.pid, first);
  EXPECT_TRUE(lab_->WaitForProgress("fpga0", 10));
  EXPECT_THAT(lab_->Ledger(), NothingLost());
  const std::string directory = lab_->directory();
  EXPECT_TRUE(lab_->Down());
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_EQ(lab_->Keep().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FaultTestbedTest, ADeviceFindsItsNameInItsEnvironment) {
  ASSERT_NO_FATAL_FAILURE(Up("gpu: {backend: cpu, memory: 64MiB}\n"));
  const auto echo = StartEcho(1'000'000'000);
  std::ifstream file(fmt::format("/proc/{}/environ", echo->pid()));
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(environment, HasSubstr("CARILLON_DEVICE_NAME=echo0"));
}

TEST_F(FaultTestbedTest, WhatDoesNotComeIsSaid) {
  ASSERT_NO_FATAL_FAILURE(UpFpga());
  EXPECT_THAT(lab_->Inject({.name = "No Name"}).message(), HasSubstr("name"));
  EXPECT_THAT(lab_->WaitForStrike("nobody").message(),
              HasSubstr("no fault nobody was injected"));
  ASSERT_TRUE(lab_->Inject({.name = "late",
                            .process = "fpga0",
                            .point = Point::kDeviceRing,
                            .nth = 1'000'000'000,
                            .action = Action::kKill}));
  EXPECT_THAT(lab_->WaitForStrike("late", 1, kShort).message(),
              HasSubstr("has struck 0 times in 50 ms, after"));
  EXPECT_EQ(lab_->Struck("late"), 0u);
  EXPECT_THAT(lab_->WaitForRestart("fpga0", 1, kShort).message(),
              HasSubstr("fpga0 is ready, restarted 0 times"));
  EXPECT_THAT(lab_->WaitForProgress("fpga7").message(),
              HasSubstr("there is no device fpga7; there are gpud and fpga0"));
  EXPECT_THAT(
      lab_->WaitForProgress("fpga0", 1'000'000'000'000, kShort).message(),
      HasSubstr("of 1000000000000 events within 50 ms"));
  const auto echo = StartEcho(3);
  ASSERT_EQ(echo->Wait(), 0);
  EXPECT_THAT(lab_->WaitForProgress("echo0").message(), HasSubstr("has ended"));
  ASSERT_TRUE(lab_->Signal("fpga0", SIGKILL));
  EXPECT_THAT(lab_->WaitForProgress("fpga0", 1'000'000'000).message(),
              HasSubstr("fpga0 has ended (SIGKILL)"));
  EXPECT_THAT(lab_->Restart("fpga7").message(), HasSubstr("fpga0"));
  EXPECT_THAT(lab_->StartLoad("fpga0").message(), HasSubstr("of kind 'fpga'"));
}

TEST_F(FaultTestbedTest, WhatIsKeptTellsTheTimeline) {
  // At full speed, so that there is always something in flight.
  ASSERT_NO_FATAL_FAILURE(
      Up("gpu: {backend: cpu, memory: 64MiB}\n"
         "devices:\n"
         "  - {name: fpga0, kind: fpga, size: 16x16, check: true}\n"));
  ASSERT_TRUE(lab_->WaitForProgress("fpga0", 10));
  const auto kept = lab_->Keep();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(lab_->WaitForProgress("fpga0", 10));  // it has gone on
  lab_.reset();
  for (const char* file : {"state.json", "faults", "rings.txt",
                           "supervisor.txt", "logs/fpga0.log"}) {
    EXPECT_TRUE(fs::exists(fmt::format("{}/{}", *kept, file))) << file;
  }
  EXPECT_THAT(ReadLedger(TestbedPaths(*kept)), NothingLost());
  auto postmortem = Process::Start(
      "postmortem",
      {Program("tools/cli/carillon"), "postmortem", "--dir", *kept});
  ASSERT_TRUE(postmortem.ok()) << postmortem.status();
  EXPECT_THAT((*postmortem)->Wait(),
              ::testing::AnyOf(0, kIndeterminate));  // what was in flight
  EXPECT_THAT((*postmortem)->output(), HasSubstr("fpga0 (pid"));
  fs::remove_all(*kept);
}

}  // namespace
}  // namespace carillon::testing
