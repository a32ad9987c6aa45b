// How a device and gpud notice each other's end, and how soon every call
// returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "devices/sdk/edge.h"
#include "fmt/format.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using edge::Constant;
using edge::Place;
using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBound;
using ::testing::StartsWith;
using testing::Testbed;

// Far above kBound: a call that returns in time was ended, not timed out.
constexpr minutes kForEver{10};
// Hours of work for one thread.
constexpr uint64_t kEndless = uint64_t{1} << 44;

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class PeerLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start({"--workers", "2"});
    ASSERT_TRUE(testbed.ok()) << Message(testbed.status());
    testbed_ = *std::move(testbed);
  }
  std::unique_ptr<edge::Device> Attach(
      const std::string& name = "device0",
      milliseconds timeout = milliseconds(5000)) {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    options.timeout = timeout;
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return device.ok() ? *std::move(device) : nullptr;
  }
  edge::EventQueue* RegisterBusy(edge::Device& device, uint64_t iterations,
                                 uint32_t threads = 64) {
    edge::EventSpec spec;
    spec.kernel = "busy";
    spec.block = {threads, 1, 1};
    spec.parameters = {Constant("iterations", iterations)};
    auto queue = edge::edgeRegisterEvent(device, spec);
    EXPECT_TRUE(queue.ok()) << Message(queue.status());
    return queue.ok() ? *queue : nullptr;
  }
  bool ThreadsBlock(uint32_t blocks) {
    return Eventually(
        [&] { return testbed_->Status().gpu().resident_blocks() >= blocks; });
  }
  std::unique_ptr<testing::Process> StartDevice(
      const std::string& name, const std::string& program,
      const std::vector<std::string>& flags) {
    auto device = testbed_->StartDevice(name, program, flags);
    EXPECT_TRUE(device.ok()) << Message(device.status());
    return *std::move(device);
  }

  std::unique_ptr<Testbed> testbed_;
};

TEST_F(PeerLossTest, KillingGpudEndsEveryWaitAndEveryCall) {
  auto device = Attach();
  edge::EventQueue* quick = RegisterBusy(*device, 1);
  for (int i = 0; i < 3; ++i) {
    quick->RingDoorbell();
    ASSERT_TRUE(quick->Wait(kBound).ok());
    quick->Free();
  }
  edge::EventQueue* endless = RegisterBusy(*device, kEndless);
  endless->RingDoorbell();
  // One thread in each kind of wait. All are asleep by the time of the kill or
  // shortly after it, and all must return.
  absl::Status waited;
  absl::Status launched;
  std::atomic<bool> found{true};
  std::thread in_wait([&] { waited = endless->Wait(kForEver).status(); });
  std::thread in_launch([&] {
    edge::Device::LaunchSpec spec;
    spec.kernel = "busy";
    spec.parameters = {Constant("iterations", kEndless)};
    spec.timeout = kForEver;
    launched = device->LaunchKernel(spec).status();
  });
  std::thread in_any([&] {
    found = device->WaitForCompletion([] { return false; }, kForEver);
  });
  ASSERT_TRUE(ThreadsBlock(2));

  const auto start = std::chrono::steady_clock::now();
  const pid_t gpud = testbed_->gpud().pid();
  testbed_->gpud().Kill();
  in_wait.join();
  in_launch.join();
  in_any.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kBound);
  const std::string dead = fmt::format("PEER_DEAD: gpud (pid {}) died", gpud);
  for (const absl::Status& status : {waited, launched}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(status), StartsWith(dead));
  }
  EXPECT_FALSE(found);
  EXPECT_THAT(Message(waited), HasSubstr("last completed sequence 0"));
  EXPECT_THAT(Message(quick->Wait(kForEver).status()),
              HasSubstr("last completed sequence 3"));
  EXPECT_THAT(Message(device->status()),
              AllOf(StartsWith(dead),
                    HasSubstr("3 (busy, event 0), 0 (busy, event 1)")));

  EXPECT_THAT(Message(device->AllocateBuffer(Place::kInput, 64).status()),
              StartsWith(dead));
  EXPECT_THAT(Message(device->ListKernels().status()), StartsWith(dead));
  EXPECT_THAT(Message(device->ReportReady("")), StartsWith(dead));
  EXPECT_THAT(Message(edge::edgeRegisterEvent(*device, {}).status()),
              StartsWith(dead));
  quick->RingDoorbell();  // rings into the void, harmlessly
  quick->Commit();
  EXPECT_THAT(Message(edge::edgeScheduleEvent(*device, quick)),
              StartsWith(dead));
  EXPECT_THAT(Message(edge::edgeReleaseBarrier(*device, quick)),
              StartsWith(dead));
  EXPECT_THAT(Message(edge::edgeUnregisterEvent(*device, quick)),
              StartsWith(dead));
  pollfd waiter{.fd = device->connection_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiter, 1, 0), 1);
  device.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, kBound);
}

TEST_F(PeerLossTest, AnOrderlyShutdownIsNotCalledADeath) {
  auto device = Attach();
  edge::EventQueue* queue = RegisterBusy(*device, 1);
  testbed_->gpud().Signal(SIGTERM);
  const absl::Status status = queue->Wait(kForEver).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), StartsWith("SHUTDOWN"));
  EXPECT_EQ(testbed_->gpud().Wait(), 0);
  EXPECT_THAT(Message(device->status()), StartsWith("SHUTDOWN"));
}

TEST_F(PeerLossTest, EventsInFlightAreAbortedByAShutdown) {
  auto device = Attach();
  edge::EventQueue* queue = RegisterBusy(*device, kEndless);
  for (int i = 0; i < 4; ++i) queue->RingDoorbell();
  ASSERT_TRUE(ThreadsBlock(2));
  testbed_->gpud().Signal(SIGTERM);
  for (int i = 0; i < 4; ++i) {
    const auto done = queue->Wait(kForEver);
    ASSERT_TRUE(done.ok()) << i << ": " << Message(done.status());
    EXPECT_EQ(done->state, edge::EventState::kAborted);
    EXPECT_EQ(done->status,
              static_cast<uint32_t>(edge::EventStatus::kShutdown));
    queue->Free();
  }
}

TEST_F(PeerLossTest, AnEndlessSingleWarpEventHoldsNobodyUp) {
  auto culprit = Attach("culprit");
  RegisterBusy(*culprit, kEndless, 1)->RingDoorbell();
  ASSERT_TRUE(ThreadsBlock(1));
  // Control calls and events of another device.
  auto other = Attach("other");
  edge::EventQueue* queue = RegisterBusy(*other, 1);
  queue->RingDoorbell();
  EXPECT_TRUE(queue->Wait(kBound).ok());
  culprit.reset();
  EXPECT_TRUE(Eventually([&] { return testbed_->Status().devices() == 1; }));
  // gpud's end.
  testbed_->gpud().Signal(SIGTERM);
  EXPECT_EQ(testbed_->gpud().Wait(), 0);
}

TEST_F(PeerLossTest, AStoppedGpudCostsADeadlineAndNothingElse) {
  auto device = Attach("device0", milliseconds(200));
  edge::EventQueue* queue = RegisterBusy(*device, 1);
  testbed_->gpud().Stop();
  EXPECT_EQ(device->ReportReady("").code(),
            absl::StatusCode::kDeadlineExceeded);
  queue->RingDoorbell();
  EXPECT_EQ(queue->Wait(milliseconds(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(device->status().ok());
  testbed_->gpud().Signal(SIGCONT);
  EXPECT_TRUE(queue->Wait(kBound).ok());
  EXPECT_TRUE(Eventually([&] { return device->ReportReady("again").ok(); }));
}

TEST_F(PeerLossTest, AStoppedDeviceGrowsSilentAndALivingOneDoesNot) {
  auto living = Attach("living");
  auto stopped = StartDevice("stopped", "devices/fpga/fpga", {});
  const auto silent_for = [&](const std::string& name) {
    const v1::ListDevicesResponse devices = testbed_->Devices();
    for (const v1::Device& device : devices.devices()) {
      if (device.name() == name)
        return milliseconds(device.silent_ns() / 1000'000);
    }
    return milliseconds(-1);  // not attached yet
  };
  ASSERT_TRUE(Eventually(
      [&] { return testbed_->Counter("stopped", "frames_done") > 0; }));
  stopped->Stop();
  ASSERT_TRUE(
      Eventually([&] { return silent_for("stopped") > milliseconds(2000); }));
  EXPECT_TRUE(
      Eventually([&] { return silent_for("living") < milliseconds(1000); }));
  stopped->Signal(SIGCONT);
  EXPECT_TRUE(
      Eventually([&] { return silent_for("stopped") < milliseconds(1000); }));
}

TEST_F(PeerLossTest, AKilledDeviceLeavesNothingAndDisturbsNobody) {
  auto survivor = Attach("survivor");
  edge::EventQueue* queue = RegisterBusy(*survivor, 1);
  const v1::GetStatusResponse before = testbed_->Status();
  auto victim = StartDevice("victim", "devices/fpga/fpga", {"--ring", "64"});
  ASSERT_TRUE(Eventually(
      [&] { return testbed_->Counter("victim", "frames_done") > 100; }));
  EXPECT_EQ(testbed_->Status().ekt_used(), 2u);
  victim->Kill();

  ASSERT_TRUE(Eventually([&] {
    const v1::GetStatusResponse after = testbed_->Status();
    return after.devices() == 1 && after.ekt_used() == 1 &&
           after.memory_used() == before.memory_used();
  }));
  // The ledger balances: what the victim rang ended, one way or another.
  ASSERT_TRUE(Eventually([&] {
    const v1::EventCounts events = testbed_->Status().events();
    return events.rung() == events.done() + events.failed() + events.aborted();
  }));
  for (int i = 0; i < 100; ++i) {
    queue->RingDoorbell();
    const auto done = queue->Wait(kBound);
    ASSERT_TRUE(done.ok()) << Message(done.status());
    ASSERT_EQ(done->state, edge::EventState::kDone);
    queue->Free();
  }
  // The name is free again.
  EXPECT_NE(Attach("victim"), nullptr);
}

TEST_F(PeerLossTest, AKilledHostsLaunchIsCancelled) {
  // 32 blocks of about a second; two run at a time.
  auto host = StartDevice("host", "devices/cpu_host/cpu_host",
                          {"--kernel", "busy", "--size", "5000000"});
  ASSERT_TRUE(ThreadsBlock(2));
  host->Kill();
  // Blocks that run go on to their end, and hold the memory until then; the
  // others never begin.
  ASSERT_TRUE(Eventually([&] {
    const v1::GetStatusResponse status = testbed_->Status();
    return status.devices() == 0 && status.memory_used() == 0 &&
           status.gpu().resident_blocks() == 0;
  }));
  EXPECT_LT(testbed_->Status().background_blocks(), 32u);
}

TEST_F(PeerLossTest, DevicesEndWithTheirExitCodes) {
  auto streams =
      StartDevice("fpga0", "devices/fpga/fpga", {"--fps", "200", "--check"});
  auto host = StartDevice("host0", "devices/cpu_host/cpu_host",
                          {"--size", "64", "--schedule-event-every-ms", "5"});
  auto stopped = StartDevice("fpga1", "devices/fpga/fpga", {"--fps", "10"});
  ASSERT_TRUE(Eventually([&] {
    return testbed_->Counter("fpga0", "frames_done") > 20 &&
           testbed_->Counter("host0", "launches") > 20 &&
           testbed_->Counter("host0", "scheduled_events") > 5 &&
           testbed_->Counter("fpga1", "frames_done") > 1;
  }));
  EXPECT_EQ(testbed_->Counter("fpga0", "mismatches"), 0u);
  EXPECT_EQ(testbed_->Counter("host0", "verify_failures"), 0u);
  EXPECT_EQ(testbed_->Counter("host0", "scheduled_failures"), 0u);
  stopped->Signal(SIGTERM);
  EXPECT_EQ(stopped->Wait(), 0);
  EXPECT_TRUE(Eventually([&] { return testbed_->Status().devices() == 2; }));

  testbed_->gpud().Kill();
  EXPECT_EQ(streams->Wait(), 4);
  EXPECT_EQ(host->Wait(), 4);
  EXPECT_THAT(streams->output(), HasSubstr("PEER_DEAD"));
  EXPECT_THAT(host->output(), HasSubstr("PEER_DEAD"));
}

TEST_F(PeerLossTest, ANewGpudServesInTheSameDirectory) {
  auto device = Attach();
  testbed_->gpud().Kill();
  ASSERT_TRUE(testbed_->RestartGpud().ok());
  // The old session stays ended, a new one of the same name begins.
  EXPECT_FALSE(device->status().ok());
  EXPECT_EQ(device->ReportReady("").code(), absl::StatusCode::kUnavailable);
  device = Attach();
  EXPECT_TRUE(device->ReportReady("").ok());
}

}  // namespace
}  // namespace carillon
