// Peers that neither answer nor die: stopped devices, a stopped gpud, and a
// device that takes its completions late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/hostile/checksum_events.h"
#include "integration_tests/testbed_process.h"
#include "shm/recorder/flight_recorder.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon {
namespace {

using std::chrono::milliseconds;
using testing::Checksums;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Neighbour;
using testing::Process;
using testing::Testbed;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class SilentPeersTest : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv(shm::FlightRecorder::kVariable); }

  void StartGpud(const std::vector<std::string>& flags = {}) {
    auto testbed = Testbed::Start(flags);
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
  }
  std::unique_ptr<edge::Device> Attach(
      const std::string& name, milliseconds timeout = milliseconds(5000)) {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    options.timeout = timeout;
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }
  std::unique_ptr<Process> StartDevice(const std::string& name,
                                       const std::string& program,
                                       const std::vector<std::string>& flags) {
    auto device = testbed_->StartDevice(name, program, flags);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return *std::move(device);
  }
  // A device that checks every result and has many events in flight.
  std::unique_ptr<Process> StartFpga() {
    auto fpga = StartDevice("fpga0", "devices/fpga/fpga",
                            {"--ring", "64", "--check", "--size", "32x32"});
    EXPECT_TRUE(Eventually(
        [&] { return testbed_->Counter("fpga0", "frames_done") > 100; }));
    return fpga;
  }
  size_t DescriptorsOfGpud() {
    const std::filesystem::directory_iterator files(
        fmt::format("/proc/{}/fd", testbed_->gpud().pid()));
    return std::distance(begin(files), end(files));
  }

  std::unique_ptr<Testbed> testbed_;
};

TEST_F(SilentPeersTest, AStoppedDeviceIsClosedWhenItsLeaseIsOver) {
  StartGpud({"--lease-timeout", "1"});
  Neighbour neighbour(Attach("neighbour"));
  auto fpga = StartFpga();
  fpga->Stop();
  ASSERT_TRUE(testbed_->gpud().WaitForOutput(
      fmt::format("device 'fpga0' (pid {}) is gone: it gave no sign of life",
                  fpga->pid())));
  EXPECT_TRUE(Eventually([&] {
    const v1::GetStatusResponse status = testbed_->Status();
    const v1::EventCounts& events = status.events();
    return status.devices() == 1 && status.ekt_used() == 2 &&
           events.rung() - events.done() - events.aborted() <=
               2 * Checksums::kRing;
  }));
  EXPECT_TRUE(neighbour.GoesOn());
  // Its name is free, and the old device has nothing to do with a new one of
  // that name.
  auto successor = Attach("fpga0");
  ASSERT_NE(successor, nullptr);
  fpga->Signal(SIGCONT);
  EXPECT_EQ(fpga->Wait(), 4);
  EXPECT_THAT(fpga->output(), HasSubstr("SILENT: gpud"));
  EXPECT_TRUE(successor->status().ok());
  EXPECT_TRUE(neighbour.Stop().ok());
}

TEST_F(SilentPeersTest, ADeviceUnderADebuggerKeepsItsSession) {
  StartGpud({"--lease-timeout", "1"});
  auto fpga = StartFpga();
  fpga->Stop();
  ASSERT_EQ(ptrace(PTRACE_SEIZE, fpga->pid(), nullptr, nullptr), 0)
      << strerror(errno);
  // More than once: its lease begins anew.
  const std::string kept =
      fmt::format("keeps its session: process {} debugs it", getpid());
  const auto times_kept = [&] {
    const std::string log = testbed_->gpud().output();
    int times = 0;
    for (size_t at = 0; (at = log.find(kept, at)) != std::string::npos; ++at) {
      ++times;
    }
    return times;
  };
  EXPECT_TRUE(Eventually([&] { return times_kept() >= 1; }));
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(Eventually([&] { return times_kept() >= 4; }));
  // Said once in each lease, of 1 s; the first was perhaps seen late.
  EXPECT_GE(std::chrono::steady_clock::now() - began,
            std::chrono::milliseconds(1000));
  EXPECT_EQ(testbed_->Status().devices(), 1u);
  ASSERT_EQ(ptrace(PTRACE_DETACH, fpga->pid(), nullptr, nullptr), 0)
      << strerror(errno);
  fpga->Signal(SIGCONT);
  const uint64_t frames = testbed_->Counter("fpga0", "frames_done");
  EXPECT_TRUE(Eventually([&] {
    return testbed_->Counter("fpga0", "frames_done") > frames + 100;
  }));
}

TEST_F(SilentPeersTest, ADeviceThatGivesSignsOfLifeKeepsItsLease) {
  StartGpud({"--lease-timeout", "1"});
  auto device = Attach("idle");
  auto fpga = StartFpga();
  fpga->Stop();
  ASSERT_TRUE(testbed_->gpud().WaitForOutput("gave no sign of life"));
  EXPECT_TRUE(device->status().ok()) << Message(device->status());
  EXPECT_EQ(testbed_->Status().devices(), 1u);
}

TEST_F(SilentPeersTest, AGpudThatWasStoppedHoldsItsAbsenceAgainstNobody) {
  StartGpud({"--lease-timeout", "3"});
  auto witness = Attach("witness", milliseconds(100));
  auto fpga = StartFpga();
  fpga->Stop();
  // gpud has seen the device's last sign of life.
  ASSERT_TRUE(Eventually([&] {
    const v1::ListDevicesResponse devices = testbed_->Devices();
    for (const v1::Device& device : devices.devices()) {
      if (device.name() == "fpga0") return device.silent_ns() > 500'000'000;
    }
    return false;
  }));
  testbed_->gpud().Stop();
  // Longer than the lease.
  ASSERT_TRUE(Eventually([&] {
    const std::string message = Message(witness->ReportReady("x"));
    return message.find("silent for 4") != std::string::npos;
  }));
  testbed_->gpud().Signal(SIGCONT);
  // gpud has checked its devices since, and fpga0 is still stopped.
  ASSERT_TRUE(Eventually([&] { return witness->ReportReady("x").ok(); }));
  EXPECT_EQ(testbed_->Status().devices(), 2u);
  fpga->Signal(SIGCONT);
  const uint64_t frames = testbed_->Counter("fpga0", "frames_done");
  EXPECT_TRUE(Eventually([&] {
    return testbed_->Counter("fpga0", "frames_done") > frames + 100;
  }));
  EXPECT_TRUE(witness->status().ok());
}

TEST_F(SilentPeersTest, EverythingGoesOnAfterAStoppedGpud) {
  setenv(shm::FlightRecorder::kVariable, "262144", 1);
  StartGpud();
  auto fpga = StartFpga();
  {
    auto device = Attach("device", milliseconds(200));
    auto events = Checksums::Register(*device, 32);
    ASSERT_TRUE(events.ok()) << Message(events.status());
    for (int pause = 0; pause < 3; ++pause) {
      testbed_->gpud().Stop();
      (*events)->RingDoorbell();
      // Every call and every wait ends within its own limit, and says why.
      absl::Status call;
      ASSERT_TRUE(Eventually([&] {
        call = device->ReportReady("x");
        return Message(call).find("has been silent for") != std::string::npos;
      })) << Message(call);
      EXPECT_EQ(call.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(Message(call), HasSubstr("is it stopped?"));
      const absl::Status wait =
          (*events)->queue().Wait(milliseconds(10)).status();
      EXPECT_EQ(wait.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(Message(wait), HasSubstr("gpud (pid"));
      EXPECT_THAT(Message(wait), HasSubstr("has been silent for"));
      EXPECT_EQ(device->AllocateBuffer(edge::Place::kInput, 64).status().code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_EQ(edge::edgeRegisterEvent(*device, {.kernel = "null_event"})
                    .status()
                    .code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_FALSE(
          device->WaitForCompletion([] { return false; }, milliseconds(10)));
      EXPECT_TRUE(device->status().ok());
      // A new device must not wait for ever either.
      edge::AttachOptions options;
      options.testbed_directory = testbed_->directory();
      options.name = "newcomer";
      options.kind = "test";
      options.timeout = milliseconds(200);
      const absl::Status newcomer = edge::Device::Attach(options).status();
      EXPECT_TRUE(absl::IsDeadlineExceeded(newcomer) ||
                  absl::IsUnavailable(newcomer))
          << Message(newcomer);

      testbed_->gpud().Signal(SIGCONT);
      for (uint32_t i = 0; i < Checksums::kRing; ++i) {
        const absl::Status taken = (*events)->Take();
        ASSERT_TRUE(taken.ok()) << Message(taken);
      }
      const uint64_t frames = testbed_->Counter("fpga0", "frames_done");
      EXPECT_TRUE(Eventually([&] {
        return testbed_->Counter("fpga0", "frames_done") > frames + 10;
      }));
    }
    EXPECT_TRUE(Eventually([&] { return device->ReportReady("again").ok(); }));
  }
  EXPECT_EQ(testbed_->Counter("fpga0", "mismatches"), 0u);
  fpga->Signal(SIGTERM);
  EXPECT_EQ(fpga->Wait(), 0);
  std::vector<std::string> unreadable;
  const ledger::Report report = ledger::Check(shm::ReadFlightRecordings(
      testbed_->paths().recorder_directory(), &unreadable));
  EXPECT_THAT(unreadable, ::testing::IsEmpty());
  for (const auto& violation : report.violations) {
    ADD_FAILURE() << violation.sentence;
  }
  EXPECT_EQ(ledger::VerdictName(report.verdict()), "ok");
  EXPECT_EQ(report.total.failed, 0u);
  EXPECT_GT(report.total.ok, 100u);
}

TEST_F(SilentPeersTest, AStoppedVisitorOfTheHandOverIsShownOut) {
  StartGpud();
  Neighbour neighbour(Attach("neighbour"));
  ASSERT_TRUE(neighbour.GoesOn());
  const size_t before = DescriptorsOfGpud();
  auto visitor = StartDevice(
      "visitor", "integration_tests/hostile/hostile_device",
      {"--dir", testbed_->directory(), "--trick", "silent-handover"});
  ASSERT_TRUE(visitor->WaitForOutput("holding"));
  EXPECT_GT(DescriptorsOfGpud(), before);
  visitor->Stop();
  EXPECT_TRUE(Eventually([&] { return DescriptorsOfGpud() <= before; }));
  EXPECT_TRUE(neighbour.GoesOn());
}

TEST_F(SilentPeersTest, GpudEndsInOrderAlthoughItsPeersAreStopped) {
  StartGpud();
  auto fpga = StartFpga();
  // These streams and calls are not read any more.
  auto caller =
      StartDevice("caller", "integration_tests/hostile/hostile_device",
                  {"--dir", testbed_->directory(), "--trick", "flood-calls"});
  ASSERT_TRUE(caller->WaitForOutput("holding"));
  fpga->Stop();
  caller->Stop();
  // More changes than a stream buffers.
  for (int i = 0; i < 700; ++i) ASSERT_NE(Attach("visitor"), nullptr);
  testbed_->gpud().Signal(SIGTERM);
  EXPECT_EQ(testbed_->gpud().Wait(), 0);
  fpga->Signal(SIGCONT);
  EXPECT_EQ(fpga->Wait(), 4);
  EXPECT_THAT(fpga->output(), HasSubstr("SHUTDOWN"));
}

TEST_F(SilentPeersTest, ASlowConsumerHoldsOnlyItselfUp) {
  StartGpud();
  Neighbour neighbour(Attach("neighbour"));
  auto slow = Attach("slow");
  for (const uint32_t threads : {32u, 64u}) {
    auto events = Checksums::Register(*slow, threads);
    ASSERT_TRUE(events.ok()) << Message(events.status());
    for (int lap = 0; lap < 3; ++lap) {
      (*events)->RingDoorbell();
      EXPECT_EQ((*events)->queue().free_slots(), 0u);
      // Nothing is taken meanwhile, though all of it has ended long ago.
      EXPECT_TRUE(neighbour.GoesOn(1000));
      for (uint32_t i = 0; i < Checksums::kRing; ++i) {
        const absl::Status taken = (*events)->Take();
        ASSERT_TRUE(taken.ok()) << Message(taken);
      }
    }
  }
  EXPECT_TRUE(slow->status().ok());
  const absl::Status end = neighbour.Stop();
  EXPECT_TRUE(end.ok()) << Message(end);
}

}  // namespace
}  // namespace carillon
