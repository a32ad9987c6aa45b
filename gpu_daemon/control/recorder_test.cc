// What gpud's flight recorder keeps of its sessions.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/temp_directory.h"
#include "base/testbed_paths.h"
#include "gpu_daemon/control/control_plane.h"
#include "gpu_daemon/control/testing/test_testbed.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;
using shm::FlightRecord;
using shm::Step;

shm::FlightRecording RecordingOf(const TestTestbed& testbed) {
  std::vector<std::string> unreadable;
  const auto all = shm::ReadFlightRecordings(
      testbed.paths().recorder_directory(), &unreadable);
  EXPECT_EQ(all.size(), 1u);
  EXPECT_EQ(unreadable, std::vector<std::string>());
  return all.empty() ? shm::FlightRecording() : all[0];
}

TEST(Recorder, KeepsWhatBecameOfEveryEventAndSession) {
  TestTestbed testbed({.record = 64});
  std::vector<FlightRecord> expected;
  const auto pid = static_cast<uint64_t>(getpid());
  {
    AttachedDevice device(&testbed, "nic0");
    shm::DeviceRing ring = device.RingOf(device.NullEvent());
    const uint32_t ring_generation = ring.layout().generation.value();
    for (int i = 0; i < 2; ++i) {
      ring.Commit();
      ring.RingDoorbell();
      ASSERT_TRUE(AttachedDevice::Await(ring).has_value());
    }
    ASSERT_TRUE(device.Unregister(0, 100).ok());
    shm::DeviceRing second = device.RingOf(device.NullEvent());
    const uint32_t second_generation = second.layout().generation.value();
    ASSERT_TRUE(device.Detach().ok());
    const auto session = static_cast<uint32_t>(shm::CloseReason::kDetached);
    const auto of = [](Step step, uint32_t generation, uint64_t sequence,
                       uint32_t status, EventState state = EventState::kNone) {
      return FlightRecord{.sequence = sequence,
                          .generation = generation,
                          .status = status,
                          .step = step,
                          .state = state};
    };
    expected = {
        of(Step::kSessionBegan, device.generation(), pid, 0),
        of(Step::kRingMade, ring_generation, pid, 1),
        of(Step::kEnded, ring_generation, 1, 0, EventState::kDone),
        of(Step::kEnded, ring_generation, 2, 0, EventState::kDone),
        of(Step::kRingRemoved, ring_generation, 0, 0),
        of(Step::kRingMade, second_generation, pid, 1),
        of(Step::kSessionEnded, device.generation(), pid, session),
    };
  }
  const shm::FlightRecording recording = RecordingOf(testbed);
  EXPECT_EQ(recording.name, "gpud");
  EXPECT_TRUE(recording.running);
  std::vector<FlightRecord> steps = recording.records;
  for (FlightRecord& step : steps) step.time_ns = 0;
  EXPECT_EQ(steps, expected);
}

TEST(Recorder, TellsWhenATracedEventWasSeenAndDispatched) {
  TestTestbed testbed({.backend_options = {.tracing = true}, .record = 64});
  const Nanoseconds before = NowNs();
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  ring.Commit();
  ring.RingDoorbell();
  ASSERT_TRUE(Eventually([&] { return ring.Poll().has_value(); }));
  const shm::EventLife life = ring.life();
  ring.Consume();
  // Its end is recorded after it can be seen.
  std::vector<FlightRecord> steps;
  ASSERT_TRUE(Eventually([&] {
    steps = RecordingOf(testbed).records;
    return steps.back().step == Step::kEnded;
  }));
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[2].step, Step::kSeen);
  EXPECT_EQ(steps[2].time_ns, life.seen_ns);
  EXPECT_EQ(steps[3].step, Step::kDispatched);
  EXPECT_EQ(steps[3].time_ns, life.dispatched_ns);
  EXPECT_LT(before, life.seen_ns);
  EXPECT_LE(life.seen_ns, life.dispatched_ns);
  EXPECT_LT(life.dispatched_ns, steps[4].time_ns);
  for (size_t i : {2, 3, 4}) {
    EXPECT_EQ(steps[i].sequence, 1u);
    EXPECT_EQ(steps[i].generation, ring.layout().generation.value());
  }
}

TEST(Recorder, IsOffUnlessItIsAskedFor) {
  TestTestbed testbed;
  std::vector<std::string> unreadable;
  EXPECT_TRUE(shm::ReadFlightRecordings(testbed.paths().recorder_directory(),
                                        &unreadable)
                  .empty());
}

// As on a full disk, which a test without root cannot make.
TEST(Recorder, ThatCannotBeMadeKeepsNobodyFromTheirGpud) {
  const TempDirectory folder;
  const TestbedPaths paths(folder.path());
  std::ofstream(paths.recorder_directory()) << "no folder";
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  ControlPlane::Options options;
  options.directory = folder.path();
  options.memory_bytes = 16 << 20;
  options.backend_options.workers = 1;
  options.record = 64;
  // It ends at once, and all of its threads with it.
  const absl::Status started = ControlPlane::Start(options).status();
  spdlog::set_default_logger(before);
  EXPECT_TRUE(started.ok()) << started;
  EXPECT_NE(log.str().find("gpud starts without its flight recorder"),
            std::string::npos)
      << log.str();
  options.record = 1;
  EXPECT_EQ(ControlPlane::Start(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace carillon::gpud
