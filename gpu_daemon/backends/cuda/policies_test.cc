// The sharing policies of the CUDA back-end, on a driver made of CPU threads:
// what of which device is on the GPU at once, by every path on which a CPU thread
// launches.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;

class CudaPoliciesTest : public CudaBackendFixture,
                         public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr uint32_t kDevices = 3;

  void Open(std::string_view policy) {
    OpenPath(GetParam());
    ASSERT_TRUE(backend_->SetPolicy(policy).ok());
    EXPECT_EQ(backend_->policy(), policy);
  }
  // fail_if's argument says whose launch it is; the kernel notes who else is
  // there.
  void NoteWhoMeets() {
    fake_.DefineKernel("carillon_call_fail_if",
                       {sizeof(simt::EventFrame), sizeof(uint32_t)},
                       [this](KernelCall& call) {
                         const uint32_t device = call.param<uint32_t>(1);
                         ++on_gpu_[device];
                         for (int look = 0; look < 20; ++look) {
                           for (uint32_t other = 0; other < kDevices; ++other) {
                             if (other != device && on_gpu_[other] != 0)
                               ++meetings_;
                           }
                           std::this_thread::yield();
                         }
                         --on_gpu_[device];
                         auto frame = call.param<simt::EventFrame>(0);
                         CompleteEvent(frame);
                         return CUDA_SUCCESS;
                       });
  }
  std::unique_ptr<KernelLaunch> LaunchOf(const MappedDevice& device,
                                         uint32_t code, uint32_t priority,
                                         simt::Dim3 grid) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = grid,
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(code));
    std::memcpy(launch->args.get(), &code, sizeof(code));
    launch->memory = device.memory;
    launch->priority = priority;
    launch->from_host = true;
    return launch;
  }
  std::future<LaunchResult> Submit(std::unique_ptr<KernelLaunch> launch) {
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result;
  }

  std::array<std::atomic<int>, kDevices> on_gpu_{};
  std::atomic<uint64_t> meetings_{0};
};

INSTANTIATE_TEST_SUITE_P(All, CudaPoliciesTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaPoliciesTest, ExclusiveLetsOneDeviceAtATimeToTheGpu) {
  NoteWhoMeets();
  ASSERT_NO_FATAL_FAILURE(Open("exclusive"));
  std::vector<MappedDevice*> devices = {&*device_, &OtherDevice(),
                                        &OtherDevice()};
  constexpr uint32_t kEvents = 16;
  std::vector<TestDevice::Event> events;
  for (MappedDevice* device : devices) {
    events.push_back(AddFailIf(*device, kEvents));
  }
  std::vector<std::future<LaunchResult>> background;
  for (uint32_t i = 0; i < kEvents; ++i) {
    for (uint32_t device = 0; device < kDevices; ++device) {
      Commit(events[device], device);
      background.push_back(
          Submit(LaunchOf(*devices[device], device, i % 8, {4, 1, 1})));
    }
  }
  for (const auto& event : events) event.ring->RingDoorbell();
  for (uint32_t i = 0; i < kEvents; ++i) {
    for (uint32_t device = 0; device < kDevices; ++device) {
      EXPECT_EQ(devices[device]->Wait(*events[device].ring).state,
                EventState::kDone);
    }
  }
  for (auto& result : background) {
    EXPECT_EQ(result.get().state, EventState::kDone);
  }
  EXPECT_EQ(meetings_, 0u);
  for (const auto& event : events) EXPECT_EQ(TakeAway(event), 0u);
}

// The other way round: the test above can fail.
TEST_P(CudaPoliciesTest, PriorityLetsDevicesMeet) {
  NoteWhoMeets();
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  MappedDevice& other = OtherDevice();
  auto mine = AddFailIf(*device_, 16);
  auto others = AddFailIf(other, 16);
  EXPECT_TRUE(Until([&] {
    for (int i = 0; i < 16; ++i) {
      Commit(mine, 0);
      Commit(others, 1);
    }
    mine.ring->RingDoorbell();
    others.ring->RingDoorbell();
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(device_->Wait(*mine.ring).state, EventState::kDone);
      EXPECT_EQ(other.Wait(*others.ring).state, EventState::kDone);
    }
    return meetings_ != 0;
  }));
  EXPECT_EQ(TakeAway(mine), 0u);
  EXPECT_EQ(TakeAway(others), 0u);
}

// Events and background kernels of a device that is gone end while another's
// turn goes on.
TEST_P(CudaPoliciesTest, WhatWaitsForATurnIsCancelledWithoutHavingRun) {
  std::atomic<bool> go_on{false};
  std::atomic<uint64_t> ran{0};
  fake_.DefineKernel("carillon_call_fail_if",
                     {sizeof(simt::EventFrame), sizeof(uint32_t)},
                     [&](KernelCall& call) {
                       if (call.param<uint32_t>(1) != 0) ++ran;
                       while (!go_on && !call.stopped()) {
                         std::this_thread::yield();
                       }
                       CompleteEvent(call.param<simt::EventFrame>(0));
                       return CUDA_SUCCESS;
                     });
  ASSERT_NO_FATAL_FAILURE(Open("exclusive"));
  MappedDevice& other = OtherDevice();
  auto holds = AddFailIf(*device_);
  auto waits = AddFailIf(other);
  Commit(holds, 0);
  holds.ring->RingDoorbell();
  ASSERT_TRUE(
      Until([&] { return fake_.launches("carillon_call_fail_if") == 1; }));
  for (int i = 0; i < 3; ++i) Commit(waits, 1);
  waits.ring->RingDoorbell();
  auto background = Submit(LaunchOf(other, 1, 0, {4, 1, 1}));
  const auto waiting = [&] {
    const auto launches = backend_->launches();
    return std::ranges::count_if(launches, [](const LaunchProgress& launch) {
      return launch.device == "other0" && launch.wait_ns != 0 &&
             launch.running == 0;
    });
  };
  EXPECT_TRUE(Until([&] { return waiting() == 4; }));
  backend_->Cancel(LaunchFilter::Of(*other.memory), EventStatus::kDeviceGone);
  EXPECT_EQ(background.get().state, EventState::kAborted);
  EXPECT_EQ(waiting(), 0);
  EXPECT_EQ(waits.kernel->counts().aborted, 3u);
  go_on = true;
  EXPECT_EQ(device_->Wait(*holds.ring).state, EventState::kDone);
  EXPECT_EQ(TakeAway(waits), 3u);
  EXPECT_EQ(TakeAway(holds), 0u);
  EXPECT_EQ(ran, 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
