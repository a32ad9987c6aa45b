// A testbed in the simulated GPU's time: real processes, and the same times in
// every run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "base/testbed_paths.h"
#include "devices/sdk/edge.h"
#include "integration_tests/testbed_process.h"
#include "tools/testbed/client/admin_client.h"

namespace carillon {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Testbed;

constexpr int kFailed = 1;

std::string Text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class SimulatedTimeTest : public ::testing::Test {
 protected:
  void Start(uint32_t devices) {
    StartWith({"--first-devices", std::to_string(devices)});
  }
  void StartWith(std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--backend", "sim", "--timing", "tiny", "--event-log", log_});
    auto testbed = Testbed::Start(flags);
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  // Waits until it is ready, so that the next one attaches later.
  void StartDevice(const std::string& name, const std::string& program,
                   const std::vector<std::string>& flags) {
    auto device = testbed_->StartDevice(name, program, flags);
    ASSERT_TRUE(device.ok()) << std::string(device.status().message());
    devices_.push_back(*std::move(device));
    ASSERT_TRUE(Eventually([&] {
      const auto known = testbed_->Devices();
      return devices_.back()->ended() ||
             std::any_of(known.devices().begin(), known.devices().end(),
                         [&](const v1::Device& one) {
                           return one.name() == name && one.state() == "ready";
                         });
    }));
  }
  std::unique_ptr<edge::Device> Attach(const std::string& name) {
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = name;
    options.kind = "test";
    options.takes_simulated_time = true;
    auto device = edge::Device::Attach(options);
    EXPECT_TRUE(device.ok()) << std::string(device.status().message());
    return *std::move(device);
  }
  edge::EventQueue* RegisterEcho(edge::Device& device) {
    const auto in = *device.AllocateBuffer(edge::Place::kInput, 64);
    const auto out = *device.AllocateBuffer(edge::Place::kOutput, 64);
    return *edgeRegisterEvent(
        device,
        {.kernel = "echo",
         .parameters = {edge::Fixed("in", in), edge::Fixed("out", out)}});
  }

  const std::string log_ = ::testing::TempDir() + "/events.csv";
  std::unique_ptr<Testbed> testbed_;
  std::vector<std::unique_ptr<testing::Process>> devices_;
};

// Reads snapshots of a testbed as often as it may, while it lives.
class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& directory)
      : client_(TestbedPaths(directory)), thread_([this] {
          v1::StreamSnapshotsRequest request;
          request.set_interval_ms(50);
          request.set_histograms_ms(500);
          // It ends with its gpud.
          client_
              .StreamSnapshots(request,
                               [this](const v1::Snapshot* snapshot) {
                                 if (snapshot != nullptr) ++read_;
                                 return !ended_;
                               })
              .IgnoreError();
        }) {}
  ~SnapshotReader() {
    ended_ = true;
    thread_.join();
  }
  uint64_t read() const { return read_; }

 private:
  testbed::AdminClient client_;
  // Writer: the thread; reader: the test.
  std::atomic<uint64_t> read_{0};
  // Writer: the test; reader: the thread.
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

TEST_F(SimulatedTimeTest, TheSameTestbedHasTheSameTimesTwiceWhoeverReads) {
  std::string first;
  for (int run = 0; run < 2; ++run) {
    Start(3);
    std::optional<SnapshotReader> reader;
    if (run == 1) {
      reader.emplace(testbed_->directory());
      ASSERT_TRUE(Eventually([&] { return reader->read() != 0; }));
    }
    StartDevice("fpga0", "devices/fpga/fpga",
                {"--frames", "12", "--fps", "20000", "--size", "32x32",
                 "--check", "--priority", "3"});
    StartDevice("fpga1", "devices/fpga/fpga",
                {"--frames", "9", "--fps", "15000", "--size", "24x16",
                 "--kernel", "conv5x5", "--check"});
    StartDevice("host0", "devices/cpu_host/cpu_host",
                {"--size", "32", "--launches", "4", "--gap-us", "25"});
    for (const auto& device : devices_) {
      EXPECT_EQ(device->Wait(), 0) << device->output();
    }
    if (reader) {
      EXPECT_TRUE(Eventually([&] { return reader->read() > 2; }));
    }
    devices_.clear();
    testbed_->gpud().Signal(SIGTERM);
    EXPECT_EQ(testbed_->gpud().Wait(), 0);
    EXPECT_THAT(testbed_->gpud().output(), HasSubstr("simulated 0."));
    const std::string log = Text(log_);
    if (run == 0) first = log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 12 + 9 + 4);
    EXPECT_EQ(log, first);
  }
}

TEST_F(SimulatedTimeTest, TheTimesAreTheSameWhicheverDeviceComesFirst) {
  using Flags = std::vector<std::string>;
  const std::vector<std::pair<std::string, Flags>> devices = {
      {"fpga", {"--frames", "12", "--fps", "20000", "--size", "32x32"}},
      {"fpga",
       {"--frames", "9", "--fps", "15000", "--size", "24x16", "--kernel",
        "conv5x5"}},
      {"cpu_host", {"--size", "32", "--launches", "4", "--gap-us", "25"}}};
  std::string first;
  for (const auto& order :
       {std::vector<size_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    StartWith({"--device-order", "dev0,dev1,dev2"});
    // One that is not in the order, and that nobody waits for.
    const auto visitor = Attach("visitor");
    std::thread waits([&] {
      visitor->WaitForCompletion([] { return false; }, seconds(3600));
    });
    for (const size_t i : order) {
      if (i == order.back()) {
        EXPECT_THAT(
            testbed_->Status().backend_description(),
            HasSubstr("now 0.000000 ms; waits for dev" + std::to_string(i)));
      }
      const auto& [kind, flags] = devices[i];
      StartDevice("dev" + std::to_string(i), "devices/" + kind + "/" + kind,
                  flags);
    }
    for (const auto& device : devices_) {
      EXPECT_EQ(device->Wait(), 0) << device->output();
    }
    devices_.clear();
    waits.join();
    testbed_->gpud().Signal(SIGTERM);
    EXPECT_EQ(testbed_->gpud().Wait(), 0);
    const std::string log = Text(log_);
    if (first.empty()) first = log;
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 12 + 9 + 4);
    EXPECT_EQ(log, first);
  }
}

TEST_F(SimulatedTimeTest, ADeviceOfWallTimeIsRefused) {
  Start(1);
  StartDevice("nic0", "devices/nic/nic", {});
  EXPECT_EQ(devices_.back()->Wait(), kFailed);
  EXPECT_THAT(devices_.back()->output(),
              AllOf(HasSubstr("lives in simulated time"),
                    HasSubstr("device 'nic0' (nic) in wall time")));
}

TEST_F(SimulatedTimeTest, StatusSaysForWhomTimeWaits) {
  Start(1);
  EXPECT_THAT(testbed_->Status().backend_description(),
              HasSubstr("waits for 0 of 1 devices"));
  const auto slow = Attach("slow");
  EXPECT_TRUE(Eventually([&] {
    return testbed_->Status().backend_description().find("waits for slow") !=
           std::string::npos;
  }));
}

TEST_F(SimulatedTimeTest, ADeviceThatDiesInItsTurnHoldsNobodyUp) {
  Start(2);
  auto dead = Attach("dead");
  StartDevice("fpga0", "devices/fpga/fpga",
              {"--frames", "3", "--size", "16x16", "--check"});
  EXPECT_FALSE(devices_.back()->ended());
  dead.reset();
  EXPECT_EQ(devices_.back()->Wait(), 0) << devices_.back()->output();
}

TEST_F(SimulatedTimeTest, TheSdkWaitsInTheTestbedsTime) {
  Start(1);
  const auto device = Attach("dev0");
  ASSERT_TRUE(device->in_simulated_time());
  EXPECT_EQ(device->Now(), 0u);
  edge::EventQueue* const queue = RegisterEcho(*device);
  // A day of simulated time passes if nothing else happens.
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(queue->Wait(std::chrono::hours(24)).status()));
  const auto day = static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::hours(24)).count());
  EXPECT_EQ(device->Now(), day);
  queue->RingDoorbell();
  // Too short for the event.
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      queue->Wait(std::chrono::nanoseconds(100)).status()));
  EXPECT_EQ(device->Now(), day + 100);
  const auto done = queue->Wait(seconds(1));
  ASSERT_TRUE(done.ok()) << std::string(done.status().message());
  EXPECT_EQ(done->state, edge::EventState::kDone);
  const edge::EventLife life = queue->life();
  EXPECT_EQ(life.rung_ns, day);
  EXPECT_GT(life.finished_ns, life.dispatched_ns);
  EXPECT_GE(device->Now(), life.finished_ns);
  EXPECT_LT(device->Now(), day + 1'000'000);
  queue->Free();

  const uint64_t before = device->Now();
  const auto times =
      device->LaunchKernel({.kernel = "busy",
                            .grid = {4, 1, 1},
                            .block = {64, 1, 1},
                            .parameters = {edge::Constant("iterations", 50)}});
  ASSERT_TRUE(times.ok()) << std::string(times.status().message());
  EXPECT_GT(times->finished_ns, times->dispatched_ns);
  EXPECT_GE(device->Now(), before + times->finished_ns);

  // A refused launch leaves the turn unchanged.
  EXPECT_FALSE(device->LaunchKernel({.kernel = "no such"}).ok());
  EXPECT_FALSE(
      device->WaitForCompletion([] { return false; }, microseconds(10)));
  EXPECT_GE(device->Now(), before + times->finished_ns + 10'000);
}

TEST_F(SimulatedTimeTest, TheDeathOfGpudEndsIt) {
  Start(1);
  const auto device = Attach("dev0");
  edge::EventQueue* const queue = RegisterEcho(*device);
  testbed_->gpud().Kill();
  EXPECT_TRUE(absl::IsUnavailable(queue->Wait(seconds(1)).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(device->Resume(std::chrono::milliseconds(1))));
}

}  // namespace
}  // namespace carillon
