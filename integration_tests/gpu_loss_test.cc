// A kernel that faults or does not end takes the GPU away from gpud, and only
// another gpud gets it back: a whole gpud on the fake driver, whose faults stay as an
// H200's do (docs/decisions/032-a-fault-ends-gpud.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sysexits.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "devices/sdk/edge.h"
#include "integration_tests/fake_driver.h"
#include "integration_tests/testbed_process.h"
#include "shm/layout.h"

namespace carillon {
namespace {

using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Program;
using testing::Testbed;

// fail_if with these codes.
constexpr uint32_t kFaults = 77;
constexpr uint32_t kHangs = 78;
constexpr uint64_t kBusy = 5'000'000;  // some 0.3 s

// A device with one event kernel. Each of its events ends, once and in order.
struct Player {
  std::unique_ptr<edge::Device> device;
  edge::EventQueue* queue = nullptr;
  uint64_t taken = 0;

  void TakeOne(EventState state, uint32_t status) {
    const auto ended = queue->Wait(kBound);
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->sequence.value(), ++taken);
    EXPECT_EQ(ended->state, state);
    EXPECT_EQ(ended->status, status);
    queue->Free();
  }
};

class GpuLossTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    setenv("CARILLON_FAKE_CUDA", "sms=8,fault=fail_if:=77,hang=fail_if:=78", 1);
    auto testbed = Testbed::Start({"--backend", "cuda"});
    ASSERT_TRUE(testbed.ok()) << testbed.status();
    testbed_ = *std::move(testbed);
    rogue_ = Attach("rogue", {.kernel = "fail_if",
                              .max_in_flight = 4,
                              .launch_path = GetParam(),
                              .parameters = {edge::Writable("code")}});
    honest_ = Attach("honest", {.kernel = "busy",
                                .max_in_flight = 4,
                                .launch_path = "baseline",
                                .parameters = {edge::Writable("iterations")}});
  }
  void TearDown() override { unsetenv("CARILLON_FAKE_CUDA"); }

  Player Attach(const std::string& name, const edge::EventSpec& spec) {
    Player player;
    auto device =
        edge::Device::Attach({.testbed_directory = testbed_->directory(),
                              .name = name,
                              .kind = "t"});
    EXPECT_TRUE(device.ok()) << device.status();
    player.device = *std::move(device);
    const auto queue = edgeRegisterEvent(*player.device, spec);
    EXPECT_TRUE(queue.ok()) << queue.status();
    player.queue = *queue;
    return player;
  }
  static void Ring(Player& player, uint64_t value) {
    const edge::WritableParameter& parameter = player.queue->writable()[0];
    player.queue->SetBytes(
        parameter.offset,
        std::as_bytes(std::span(&value, 1)).first(parameter.bytes));
    player.queue->RingDoorbell();
  }
  // gpud ends to be started again; so it is.
  void FollowGpud() {
    ASSERT_EQ(testbed_->gpud().Wait(), EX_TEMPFAIL);
    last_words_ = testbed_->gpud().output();
    ASSERT_TRUE(absl::IsUnavailable(rogue_.device->WaitForEnd(kBound)));
    EXPECT_TRUE(rogue_.device->gpud_restarts());
    const auto restarted = testbed_->RestartGpud({"--backend", "cuda"});
    ASSERT_TRUE(restarted.ok()) << restarted;
  }
  static void Resume(Player& player) {
    const auto resumed = player.device->Resume(kBound);
    ASSERT_TRUE(resumed.ok()) << resumed;
  }
  // Both are served.
  void ExpectAllIsWell() {
    Ring(rogue_, 0);
    rogue_.TakeOne(EventState::kDone, 0);
    Ring(honest_, 0);
    honest_.TakeOne(EventState::kDone, 0);
  }

  const testing::FakeDriver driver_;
  std::unique_ptr<Testbed> testbed_;
  Player rogue_;
  Player honest_;
  std::string last_words_;
};

constexpr uint32_t Status(EventStatus status) {
  return static_cast<uint32_t>(status);
}

TEST_P(GpuLossTest, TheOnlyEventThatRanFailsAndAnotherGpudServes) {
  Ring(rogue_, kFaults);
  rogue_.TakeOne(EventState::kFailed, Status(EventStatus::kKernelFault));
  ASSERT_NO_FATAL_FAILURE(FollowGpud());
  EXPECT_THAT(last_words_,
              HasSubstr("('fail_if') of device 'rogue', sequence 1"));
  ASSERT_NO_FATAL_FAILURE(Resume(rogue_));
  ASSERT_NO_FATAL_FAILURE(Resume(honest_));
  ExpectAllIsWell();
}

TEST_P(GpuLossTest, OfSeveralTheOneThatFaultsAgainFailsAndTheOthersEnd) {
  Ring(honest_, kBusy);
  Ring(rogue_, kFaults);
  ASSERT_NO_FATAL_FAILURE(FollowGpud());
  ASSERT_NO_FATAL_FAILURE(Resume(honest_));
  honest_.TakeOne(EventState::kDone, 0);
  // The one that ran alone, if the other one had ended by then.
  if (!rogue_.queue->Poll()) {
    EXPECT_THAT(last_words_, HasSubstr("one of the 2 launches"));
    ASSERT_NO_FATAL_FAILURE(Resume(rogue_));
    rogue_.TakeOne(EventState::kFailed, Status(EventStatus::kKernelFault));
    ASSERT_NO_FATAL_FAILURE(FollowGpud());
    ASSERT_NO_FATAL_FAILURE(Resume(honest_));
  } else {
    rogue_.TakeOne(EventState::kFailed, Status(EventStatus::kKernelFault));
  }
  EXPECT_THAT(last_words_, HasSubstr("of device 'rogue', sequence 1"));
  ASSERT_NO_FATAL_FAILURE(Resume(rogue_));
  ExpectAllIsWell();
}

TEST_P(GpuLossTest, AKernelThatDoesNotEndTimesOutAndAnotherGpudServes) {
  Ring(rogue_, kHangs);
  rogue_.TakeOne(EventState::kFailed, Status(EventStatus::kTimedOut));
  ASSERT_NO_FATAL_FAILURE(FollowGpud());
  EXPECT_THAT(last_words_,
              HasSubstr("('fail_if') of device 'rogue', sequence 1"));
  ASSERT_NO_FATAL_FAILURE(Resume(rogue_));
  ASSERT_NO_FATAL_FAILURE(Resume(honest_));
  ExpectAllIsWell();
}

INSTANTIATE_TEST_SUITE_P(Paths, GpuLossTest,
                         ::testing::Values("edge", "baseline_flag", "baseline",
                                           "persistent", "graph", "stream_wait",
                                           "pagoda_ring", "pagoda"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace carillon
