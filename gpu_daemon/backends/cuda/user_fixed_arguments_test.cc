// A user's own kernels on the launch paths that launch without gpud's CPU: their
// arguments are each slot's own, and fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/user_kernels_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

// Paths where the GPU launches: no argument comes from an entry, but each slot has
// its own quarter of x and y.
class UserEdgeTest : public UserKernelsTest {
 protected:
  explicit UserEdgeTest(std::string path = "edge") : name_(std::move(path)) {}

  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kQuarter = kFloats / kSlots;

  TestDevice::Event AddSaxpy(const simt::KernelInfo* kernel,
                             simt::Dim3 grid = {1, 1, 1},
                             simt::Dim3 block = {kQuarter, 1, 1}) {
    path_ = backend_->paths().Find(name_)->path;
    const auto quarters = [](float* data) {
      constexpr uint64_t kBytes = kQuarter * sizeof(float);
      return ParameterBinding{
          .buffer = {reinterpret_cast<std::byte*>(data), kBytes},
          .slot_stride = kBytes};
    };
    auto event = device_->Register(
        {.kernel = kernel,
         .bindings = {quarters(device_->x), quarters(device_->y),
                      Constant(std::bit_cast<uint32_t>(2.0f)),
                      Constant(kQuarter)},
         .grid = grid,
         .block = block,
         .entries = kSlots});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  // So many events, and how each ended.
  std::vector<Completion> Ring(const TestDevice::Event& event,
                               uint32_t events = kSlots) {
    for (uint32_t i = 0; i < events; ++i) event.ring->Commit();
    event.ring->RingDoorbell();
    std::vector<Completion> ends;
    for (uint32_t i = 0; i < events; ++i) {
      ends.push_back(device_->Wait(*event.ring));
    }
    return ends;
  }
  // Of the kernel that sees the quarter of slot `slot`.
  std::function<bool(const KernelCall&)> OnSlot(uint32_t slot) {
    return [y = device_->y + slot * kQuarter](const KernelCall& call) {
      return call.param<float*>(1) == y;
    };
  }

  const std::string name_;
  LaunchPath* path_ = nullptr;
};

class UserFixedTest : public UserEdgeTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  UserFixedTest() : UserEdgeTest(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(All, UserFixedTest,
                         ::testing::Values("edge", "stream_wait"),
                         [](const auto& info) { return info.param; });

TEST_P(UserFixedTest, EveryEventComputesWithItsSlotsArguments) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  constexpr int kLaps = 40;  // beyond what one dispatcher may launch
  for (int lap = 1; lap <= kLaps; ++lap) {
    for (const Completion& end : Ring(event)) {
      ASSERT_EQ(end.state, EventState::kDone) << end.status;
    }
    for (uint32_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(device_->y[i], 1 + 2 * lap * static_cast<float>(i));
    }
  }
  path_->Remove(event.kernel);
  EXPECT_EQ(event.kernel->counts().done, uint64_t{kLaps} * kSlots);
  EXPECT_EQ(fake_.launches("saxpy"), uint64_t{kLaps} * kSlots)
      << "what waits for a ring is let go without one";
}

TEST_P(UserFixedTest, ARefusedEntryRunsNothing) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  ASSERT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  const shm::RingLayout& layout = event.ring->layout();
  auto* header =
      reinterpret_cast<shm::EsqEntryHeader*>(device_->memory->submission().At(
          layout.esq_offset + event.ring->next_slot() * layout.entry_bytes));
  event.ring->Commit();
  header->generation += 1;
  event.ring->RingDoorbell();
  const Completion refused = device_->Wait(*event.ring);
  EXPECT_EQ(refused.state, EventState::kFailed);
  EXPECT_EQ(refused.status,
            static_cast<uint32_t>(EventStatus::kStaleGeneration));
  EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  path_->Remove(event.kernel);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  EXPECT_EQ(event.kernel->counts().refused, 1u);
}

TEST_P(UserFixedTest, AFaultFailsItsOwnEventAndTheModuleIsLoadedAgain) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.FaultOn("saxpy", OnSlot(2));
  const uint32_t slot_of_first = event.ring->next_slot();
  for (int lap = 0; lap < 2; ++lap) {
    const auto ends = Ring(event);
    for (uint32_t i = 0; i < kSlots; ++i) {
      const bool bad = (slot_of_first + i) % kSlots == 2;
      EXPECT_EQ(ends[i].state, bad ? EventState::kFailed : EventState::kDone);
      if (!bad) continue;
      EXPECT_EQ(ends[i].status,
                static_cast<uint32_t>(EventStatus::kKernelFault));
    }
  }
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  path_->Remove(event.kernel);
}

TEST_P(UserFixedTest, OneThatDoesNotEndIsStopped) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.HangOn("saxpy", OnSlot(event.ring->next_slot()));
  const auto ends = Ring(event, 2);
  EXPECT_EQ(ends[0].status, static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(ends[1].state, EventState::kDone);
  path_->Remove(event.kernel);
}

// The dispatchers keep their room beside it, and one of them traps.
TEST_F(UserEdgeTest, OneThatFillsTheGpuAndDoesNotEndIsStopped) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()), {64, 1, 1}, {64, 1, 1});
  fake_.HangOn("saxpy", FakeGpu::Nth(1));
  EXPECT_EQ(Ring(event, 1)[0].status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
  path_->Remove(event.kernel);
}

TEST_P(UserFixedTest, ModulesAreLoadedWhileEverythingIsResident) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
    auto later = AddSaxpy(MustLoad(Saxpy("later" + std::to_string(i))));
    EXPECT_EQ(Ring(later, 1)[0].state, EventState::kDone);
    EXPECT_EQ(Ring(event, 1)[0].state, EventState::kDone);
    path_->Remove(later.kernel);
  }
  path_->Remove(event.kernel);
}

}  // namespace
}  // namespace carillon::gpud::cuda
