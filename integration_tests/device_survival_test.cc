// Devices go on when gpud has died and another one has come: their clients see
// only a pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "integration_tests/memc_testing.h"
#include "integration_tests/testbed_process.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using testing::MemcPorts;
using testing::MemcTcpClient;
using testing::Process;
using testing::Testbed;

constexpr const char* kResume = "--resume-within=60";

class DeviceSurvivalTest : public ::testing::Test {
 protected:
  // All processes record what they do.
  void SetUp() override {
    setenv(shm::FlightRecorder::kVariable, "262144", 1);
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  void TearDown() override { unsetenv(shm::FlightRecorder::kVariable); }

  // The ledger of all processes, once the devices have left.
  ledger::Report Ledger() {
    std::vector<std::string> unreadable;
    const auto recordings = shm::ReadFlightRecordings(
        testbed_->paths().recorder_directory(), &unreadable);
    EXPECT_THAT(unreadable, ::testing::IsEmpty());
    return ledger::Check(recordings);
  }
  void ExpectEveryEventEndedOnce(uint64_t at_least) {
    const ledger::Report report = Ledger();
    for (const auto& violation : report.violations) {
      ADD_FAILURE() << violation.sentence;
    }
    EXPECT_EQ(ledger::VerdictName(report.verdict()), "ok");
    EXPECT_EQ(report.total.indeterminate(), 0u);
    EXPECT_GE(report.total.ok, at_least);
    EXPECT_EQ(report.total.failed, 0u);
  }
  void KillGpud() {
    testbed_->gpud().Kill();
    const auto status = testbed_->RestartGpud();
    ASSERT_TRUE(status.ok()) << std::string(status.message());
  }
  bool IsReady(const std::string& name) {
    return Eventually([&] {
      const auto devices = testbed_->Devices();
      for (const auto& device : devices.devices()) {
        if (device.name() == name && device.state() == "ready") return true;
      }
      return false;
    });
  }

  std::unique_ptr<Testbed> testbed_;
};

TEST_F(DeviceSurvivalTest, ARequestDuringThePauseIsAnsweredAfterIt) {
  MemcPorts ports;
  auto nic = testing::StartNic(*testbed_, {kResume}, &ports);
  MemcTcpClient client(ports.tcp);
  EXPECT_EQ(client.Ask("set a 0 0 1\r\nx\r\n", "STORED\r\n"), "STORED\r\n");
  testbed_->gpud().Kill();
  ASSERT_TRUE(nic->WaitForOutput("waiting for another gpud"));
  client.Send("set b 0 0 1\r\ny\r\n");
  ASSERT_TRUE(testbed_->RestartGpud().ok());
  EXPECT_EQ(client.ReceiveLine(), "STORED\r\n");
  const std::string found = "VALUE b 0 1\r\ny\r\nEND\r\n";
  EXPECT_EQ(client.Ask("get b\r\n", found), found);
  // GPU memory is lost with its gpud, so the cache is empty.
  EXPECT_EQ(client.Ask("get a\r\n", "END\r\n"), "END\r\n");
  ASSERT_TRUE(IsReady("nic0"));
  nic->Signal(SIGTERM);
  EXPECT_EQ(nic->Wait(), 0);
}

TEST_F(DeviceSurvivalTest, ClientsUnderLoadSeeNoWrongAnswer) {
  constexpr int kDeaths = 4;
  MemcPorts ports;
  auto nic = testing::StartNic(*testbed_, {kResume}, &ports);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> answers{0};
  std::atomic<uint64_t> wrong{0};
  std::thread load([&] {
    MemcTcpClient client(ports.tcp);
    for (uint64_t i = 0; !stop.load(); ++i) {
      const std::string key = fmt::format("key{}", i % 50);
      const std::string value = fmt::format("{:08}", i);
      client.Send(fmt::format("set {} 0 0 8\r\n{}\r\n", key, value));
      if (client.ReceiveLine() != "STORED\r\n") ++wrong;
      client.Send(fmt::format("get {}\r\n", key));
      const std::string line = client.ReceiveLine();
      // The key is found, or was lost with the store meanwhile.
      if (line == fmt::format("VALUE {} 0 8\r\n", key)) {
        if (client.ReceiveLine() != value + "\r\n") ++wrong;
        if (client.ReceiveLine() != "END\r\n") ++wrong;
      } else if (line != "END\r\n") {
        ++wrong;
      }
      answers += 2;
    }
  });
  for (int death = 0; death < kDeaths && !HasFailure(); ++death) {
    const uint64_t before = answers;
    EXPECT_TRUE(Eventually([&] { return answers > before + 200; }));
    KillGpud();
  }
  const uint64_t before = answers;
  EXPECT_TRUE(Eventually([&] { return answers > before + 200; }));
  stop = true;
  load.join();
  EXPECT_EQ(wrong.load(), 0u);
  nic->Signal(SIGTERM);
  EXPECT_EQ(nic->Wait(), 0);
  ExpectEveryEventEndedOnce(answers);
}

TEST_F(DeviceSurvivalTest, AHostBeginsItsPieceOfWorkAnew) {
  constexpr int kDeaths = 4;
  for (const std::string kernel : {"matmul", "bfs"}) {
    auto started =
        testbed_->StartDevice("host0", "devices/cpu_host/cpu_host",
                              {kResume, "--kernel=" + kernel, "--size=64",
                               "--schedule-event-every-ms=1"});
    ASSERT_TRUE(started.ok()) << started.status();
    const auto host = *std::move(started);
    const auto get_on = [&] {
      const uint64_t runs = testbed_->Counter("host0", "runs");
      const uint64_t events = testbed_->Counter("host0", "scheduled_events");
      return Eventually([&] {
        return testbed_->Counter("host0", "runs") > runs + 5 &&
               testbed_->Counter("host0", "scheduled_events") > events + 5;
      });
    };
    ASSERT_TRUE(IsReady("host0"));
    for (int death = 0; death < kDeaths && !HasFailure(); ++death) {
      EXPECT_TRUE(get_on());
      KillGpud();
      ASSERT_TRUE(IsReady("host0"));
    }
    EXPECT_TRUE(get_on());
    EXPECT_EQ(testbed_->Counter("host0", "scheduled_failures"), 0u);
    host->Signal(SIGTERM);
    EXPECT_EQ(host->Wait(), 0) << host->output();
  }
  ExpectEveryEventEndedOnce(kDeaths * 10);
}

TEST_F(DeviceSurvivalTest, EveryFrameIsProcessedAndRight) {
  auto fpga = testbed_->StartDevice(
      "fpga0", "devices/fpga/fpga",
      {kResume, "--frames=3000", "--check", "--size=64x64"});
  ASSERT_TRUE(fpga.ok()) << std::string(fpga.status().message());
  for (const uint64_t frames : {200u, 900u, 1600u}) {
    ASSERT_TRUE(Eventually(
        [&] { return testbed_->Counter("fpga0", "frames_done") >= frames; }));
    ASSERT_NO_FATAL_FAILURE(KillGpud());
  }
  EXPECT_EQ((*fpga)->Wait(), 0);
  EXPECT_THAT((*fpga)->output(), HasSubstr("3000 frames in"));
  EXPECT_THAT((*fpga)->output(), HasSubstr("0 dropped, 0 failed, 0 wrong"));
  ExpectEveryEventEndedOnce(3000);
}

TEST_F(DeviceSurvivalTest, AStopIsNotKeptWaitingByAPause) {
  MemcPorts ports;
  auto nic = testing::StartNic(*testbed_, {kResume}, &ports);
  testbed_->gpud().Kill();
  ASSERT_TRUE(nic->WaitForOutput("waiting for another gpud"));
  nic->Signal(SIGTERM);
  EXPECT_EQ(nic->Wait(), 0) << "it was asked to";
  EXPECT_THAT(nic->output(), HasSubstr("stopped while it waited"));
}

TEST_F(DeviceSurvivalTest, WhoWaitsInVainEnds) {
  MemcPorts ports;
  auto nic = testing::StartNic(*testbed_, {"--resume-within=0.1"}, &ports);
  testbed_->gpud().Kill();
  EXPECT_EQ(nic->Wait(), 4);
  EXPECT_THAT(nic->output(), HasSubstr("PEER_DEAD"));
}

}  // namespace
}  // namespace carillon
