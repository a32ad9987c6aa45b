// The sharing policies of the CUDA back-end, on a driver made of CPU threads:
// what of which device is on the GPU at once, by every path on which a CPU thread
// launches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"
#include "gpu_daemon/backends/cuda/paths/sliced_run.h"
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

  // Kernels look at what this object has, also those of a test that has failed.
  void TearDown() override {
    holds_ = kNothing;
    Close();
  }
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

  static constexpr int kNothing = -1;
  std::atomic<int> holds_{kNothing};  // the kernel with this code does not end
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
  holds_ = 0;
  fake_.DefineKernel(
      "carillon_call_fail_if", {sizeof(simt::EventFrame), sizeof(uint32_t)},
      [this](KernelCall& call) {
        const uint32_t code = call.param<uint32_t>(1);
        if (code != 0) ++meetings_;
        while (holds_ == static_cast<int>(code) && !call.stopped()) {
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
  holds_ = kNothing;
  EXPECT_EQ(device_->Wait(*holds.ring).state, EventState::kDone);
  EXPECT_EQ(TakeAway(waits), 3u);
  EXPECT_EQ(TakeAway(holds), 0u);
  EXPECT_EQ(meetings_, 0u);
}

// What runs of a launch is noted block by block. Its code, fail_if's argument,
// says which it is.
class CudaSlicesTest : public CudaPoliciesTest {
 protected:
  static constexpr uint32_t kCodes = 32;
  // Of a launch with 1024 threads a block.
  uint64_t Wave() const {
    return SmOccupancy(backend_->gpu())
        .Capacity(
            CostOf(1024, simt::FindKernel("fail_if")->registers_per_thread, 0));
  }
  void NoteBlocks() {
    fake_.DefineKernel(
        "carillon_call_fail_if",
        {sizeof(simt::EventFrame), sizeof(uint32_t), sizeof(simt::GridPart)},
        [this](KernelCall& call) {
          const auto code = call.param<uint32_t>(1);
          const auto part = call.param<simt::GridPart>(2);
          {
            std::lock_guard lock(log_mutex_);
            log_.push_back(code);
            std::vector<int>& times = times_[code];
            times.resize(part.grid.count());
            for (uint64_t i = 0; i < call.grid().count(); ++i) {
              const uint64_t x = part.first.x + i % call.grid().x;
              const uint64_t y =
                  part.first.y + i / call.grid().x % call.grid().y;
              const uint64_t z =
                  part.first.z + i / call.grid().x / call.grid().y;
              ++times.at((z * part.grid.y + y) * part.grid.x + x);
            }
          }
          while (holds_ == static_cast<int>(code) && !call.stopped()) {
            std::this_thread::yield();
          }
          int faulty = static_cast<int>(code);
          if (faults_.compare_exchange_strong(faulty, kNothing)) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
          }
          CompleteEvent(call.param<simt::EventFrame>(0));
          return CUDA_SUCCESS;
        });
  }
  std::unique_ptr<KernelLaunch> Large(const MappedDevice& device, uint32_t code,
                                      uint32_t priority, simt::Dim3 grid,
                                      uint32_t threads = 1024) {
    auto launch = LaunchOf(device, code, priority, grid);
    launch->kmd.block = {threads, 1, 1};
    return launch;
  }
  TestDevice::Event AddLarge(MappedDevice& device, simt::Dim3 grid,
                             uint32_t priority = 0) {
    return Add(device, {.kernel = simt::FindKernel("fail_if"),
                        .bindings = {{.writable = true}},
                        .grid = grid,
                        .block = {1024, 1, 1},
                        .priority = priority});
  }
  std::vector<uint32_t> log() {
    std::lock_guard lock(log_mutex_);
    return log_;
  }
  std::vector<int> times(uint32_t code) {
    std::lock_guard lock(log_mutex_);
    return times_[code];
  }
  // Calls of the driver that launch.
  uint64_t Launched() {
    auto calls = fake_.calls();
    return calls["cuLaunchKernel"] + calls["cuGraphLaunch"];
  }
  static std::vector<int> Once(const simt::Dim3& grid) {
    return std::vector<int>(grid.count(), 1);
  }

  std::atomic<int> faults_{kNothing};  // the kernel with this code, once
  std::mutex log_mutex_;
  std::vector<uint32_t> log_;  // codes, a launch or slice each
  std::array<std::vector<int>, kCodes> times_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaSlicesTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaSlicesTest, EachBlockRunsOnceForEverySliceSize) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  const simt::Dim3 grids[] = {{1, 1, 1},        {wave, 1, 1},
                              {wave + 1, 1, 1}, {5 * wave, 1, 1},
                              {3, wave, 1},     {wave / 2 + 1, 5, 3},
                              {1, 1, 3 * wave}, {2 * wave + 3, 2, 2}};
  uint32_t code = 0;
  for (const simt::Dim3& grid : grids) {
    // Blocks of other sizes have waves of other sizes.
    for (const uint32_t threads : {512u, 1024u}) {
      EXPECT_EQ(Submit(Large(*device_, code, 0, grid, threads)).get().state,
                EventState::kDone);
      EXPECT_EQ(times(code), Once(grid)) << code;
      ++code;
    }
    auto event = AddLarge(*device_, grid);
    EXPECT_EQ(RingAndWait(*device_, event, code).state, EventState::kDone);
    EXPECT_EQ(times(code), Once(grid)) << code;
    ++code;
    EXPECT_EQ(TakeAway(event), 0u);
  }
  EXPECT_GT(log().size(), 2 * code) << "they were sliced";
}

TEST_P(CudaSlicesTest, SlicesOfAOneBlockGridAreOneLaunchCountedAsWhole) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const simt::Dim3 grid = {1, 1, 1};
  auto event = AddLarge(*device_, grid);
  const uint64_t launched = Launched();
  EXPECT_EQ(RingAndWait(*device_, event, 1).state, EventState::kDone);
  EXPECT_EQ(Submit(Large(*device_, 2, 0, grid)).get().state, EventState::kDone);
  EXPECT_EQ(Launched() - launched, 2u);
  EXPECT_EQ(times(1), Once(grid));
  EXPECT_EQ(times(2), Once(grid));
  const SliceFigures figures = backend_->figures().slices;
  EXPECT_EQ(figures.sliced, 0u);
  EXPECT_EQ(figures.slices, 0u);
  const auto whole =
      std::ranges::find(figures.whole, "one_slice", &PathCounter::name);
  ASSERT_NE(whole, figures.whole.end());
  EXPECT_EQ(whole->value, 2u);
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaSlicesTest, AMoreUrgentLaunchGoesFirstAtTheNextSlicesEnd) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  MappedDevice& other = OtherDevice();
  auto urgent = AddLarge(other, {1, 1, 1}, 5);
  auto less = AddLarge(other, {1, 1, 1}, 1);
  holds_ = 1;
  auto background = Submit(Large(*device_, 1, 2, {4 * wave, 1, 1}));
  ASSERT_TRUE(Until([&] { return log().size() == 1; }));
  const auto wait_in_queue = [&](size_t count) {
    return Until([&] {
      const auto launches = backend_->launches();
      return std::ranges::count_if(launches, [](const LaunchProgress& launch) {
               return launch.event && launch.wait_ns != 0;
             }) == static_cast<int>(count);
    });
  };
  Commit(less, 2);
  less.ring->RingDoorbell();
  EXPECT_TRUE(wait_in_queue(1));
  Commit(urgent, 3);
  urgent.ring->RingDoorbell();
  EXPECT_TRUE(wait_in_queue(2));
  holds_ = kNothing;
  EXPECT_EQ(other.Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(other.Wait(*less.ring).state, EventState::kDone);
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3, 1, 1, 1, 2}));
  EXPECT_EQ(times(1), Once({4 * wave, 1, 1}));
  EXPECT_EQ(TakeAway(urgent), 0u);
  EXPECT_EQ(TakeAway(less), 0u);
}

// Events count from 1, and a whole background launch completes with 1.
TEST(SlicedRunTest, CompletesWithNoNumberOfAnEventOrAWholeLaunch) {
  SlicedRun run;
  run.Begin({4, 1, 1}, 2);
  EXPECT_GT(run.sequence(), uint64_t{1} << 62);
  shm::EcqEntry before{.sequence = 1};
  EXPECT_FALSE(run.HasEnded(before));
}

TEST_P(CudaSlicesTest, ASwitchInMidSliceLosesAndDoublesNothing) {
  NoteBlocks();
  for (const char* next : {"priority", "exclusive", "gpes"}) {
    ASSERT_NO_FATAL_FAILURE(Open("gpes"));
    const auto wave = static_cast<uint32_t>(Wave());
    const simt::Dim3 grid = {wave / 2 + 1, 7, 3};
    auto event = AddLarge(*device_, grid);
    log_.clear();
    for (auto& times : times_) times.clear();
    holds_ = 1;
    Commit(event, 1);
    event.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return log().size() == 1; }));
    auto waits = Submit(Large(*device_, 2, 1, grid));
    ASSERT_TRUE(backend_->SetPolicy(next).ok());
    holds_ = kNothing;
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    EXPECT_EQ(waits.get().state, EventState::kDone);
    EXPECT_EQ(times(1), Once(grid)) << next;
    EXPECT_EQ(times(2), Once(grid)) << next;
    EXPECT_EQ(TakeAway(event), 0u);
    Close();
  }
}

TEST_P(CudaSlicesTest, WhatIsCancelledInMidSliceEndsWithThatSlice) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  holds_ = 1;
  auto launch = Large(*device_, 1, 0, {5 * wave, 1, 1});
  launch->token = 77;
  auto result = Submit(std::move(launch));
  ASSERT_TRUE(Until([&] { return log().size() == 1; }));
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  holds_ = kNothing;
  EXPECT_EQ(result.get().state, EventState::kAborted);
  EXPECT_EQ(log().size(), 1u);
  // The GPU is the others' again.
  EXPECT_EQ(Submit(Large(*device_, 2, 0, {2 * wave, 1, 1})).get().state,
            EventState::kDone);
}

// An event and a background kernel of a device that is killed wait for their
// next slices, since a more urgent launch has the GPU.
TEST_P(CudaSlicesTest, WhatIsCancelledBetweenSlicesRunsNoFurther) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  MappedDevice& killed = OtherDevice();
  auto low = AddLarge(killed, {5 * wave, 1, 1});
  auto high = AddLarge(*device_, {1, 1, 1}, 7);
  const auto between_slices = [&](bool event) {
    const auto launches = backend_->launches();
    return std::ranges::any_of(launches, [&](const LaunchProgress& launch) {
      return launch.event == event && launch.slices == 1 &&
             launch.ended == wave && launch.running == 0;
    });
  };
  holds_ = 1;
  Commit(low, 1);
  low.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return log().size() == 1; }));
  auto background = Submit(Large(killed, 2, 5, {5 * wave, 1, 1}));
  holds_ = 2;  // it is next, then high
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  Commit(high, 3);
  high.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] {
    const auto launches = backend_->launches();
    return std::ranges::any_of(launches, [](const LaunchProgress& launch) {
      return launch.priority == 7;
    });
  }));
  holds_ = 3;
  ASSERT_TRUE(Until([&] { return log().size() == 3; }));
  EXPECT_TRUE(Until([&] { return between_slices(true); }));
  EXPECT_TRUE(Until([&] { return between_slices(false); }));
  backend_->Cancel(LaunchFilter::Of(*killed.memory), EventStatus::kDeviceGone);
  EXPECT_EQ(background.get().state, EventState::kAborted);
  EXPECT_EQ(low.kernel->counts().aborted, 1u);
  holds_ = kNothing;
  EXPECT_EQ(device_->Wait(*high.ring).state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(TakeAway(low), 1u);
  EXPECT_EQ(TakeAway(high), 0u);
}

// A buffer of the GPU's, for one: to free it may wait for residents to pause, for
// who has paused them, and for a context.
TEST_P(CudaSlicesTest, WhatALaunchOwnsIsLetGoOfWhereItMayWaitForTheGpu) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  std::vector<std::future<void>> waits;
  std::atomic<int> waited{0};
  std::atomic<int> gone{0};
  const auto submit = [&](uint32_t code, simt::Dim3 grid) {
    auto launch = Large(*device_, code, 0, grid);
    launch->token = code;
    auto owned = std::shared_ptr<void>(nullptr, [&](void*) {
      waits.push_back(std::async(std::launch::async, [&] {
        backend_->queue_lengths();
        const MappedDevice maps_and_frees(*backend_, "owned");
      }));
      const auto has_waited = [&] {
        return waits.back().wait_for(std::chrono::seconds(0)) ==
               std::future_status::ready;
      };
      if (Until(has_waited, std::chrono::seconds(20))) ++waited;
      ++gone;
    });
    launch->on_end = [owned](const LaunchResult&) {};
    backend_->Submit(std::move(launch));
  };
  submit(1, {1, 1, 1});
  EXPECT_TRUE(Until([&] { return gone == 1; }));
  holds_ = faults_ = 2;
  submit(2, {5 * wave, 1, 1});
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  backend_->Cancel(LaunchFilter::OfToken(2), EventStatus::kDeviceGone);
  holds_ = kNothing;
  EXPECT_TRUE(Until([&] { return gone == 2; }));
  EXPECT_EQ(waited, 2);
  EXPECT_THAT(backend_->description(),
              testing::HasSubstr("context lost 1 time"));
}

// Nobody wants it any more: it does not run again, and does not end as done.
TEST_P(CudaSlicesTest, WhatIsCancelledBeforeItsContextIsLostEndsAborted) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  holds_ = faults_ = 1;
  auto launch = Large(*device_, 1, 0, {5 * wave, 1, 1});
  launch->token = 77;
  auto result = Submit(std::move(launch));
  ASSERT_TRUE(Until([&] { return log().size() == 1; }));
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  holds_ = kNothing;
  const LaunchResult ended = result.get();
  EXPECT_EQ(ended.state, EventState::kAborted);
  EXPECT_EQ(ended.status, static_cast<uint32_t>(EventStatus::kDeviceGone));

  MappedDevice& killed = OtherDevice();
  auto event = AddLarge(killed, {5 * wave, 1, 1});
  holds_ = faults_ = 2;
  Commit(event, 2);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  Commit(event, 3);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return backend_->launches().size() == 2; }));
  auto cancel = std::async(std::launch::async, [&] {
    backend_->Cancel(LaunchFilter::Of(*killed.memory),
                     EventStatus::kDeviceGone);
  });
  // The one that waits ends at once, and with that the other one is marked.
  EXPECT_TRUE(Until([&] { return event.kernel->counts().aborted == 1; }));
  holds_ = kNothing;
  cancel.get();
  EXPECT_TRUE(Until([&] { return event.kernel->counts().aborted == 2; }));
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 2}));
  EXPECT_THAT(backend_->description(),
              testing::HasSubstr("context lost 2 times"));
  EXPECT_EQ(TakeAway(event), 2u);
}

TEST_P(CudaSlicesTest, AFailureInOneSliceIsTheLaunchsAndTheOthersRun) {
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  auto event = AddLarge(*device_, {3 * wave, 1, 1});
  for (const uint32_t code : {7u, 0u, 9u}) {
    EXPECT_EQ(RingAndWait(*device_, event, code).status,
              code == 0 ? 0 : KernelCode(code));
    EXPECT_EQ(Submit(Large(*device_, code, 0, {3 * wave, 1, 1})).get().status,
              code == 0 ? 0 : KernelCode(code));
  }
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 18u);
  const SliceFigures slices = backend_->figures().slices;
  EXPECT_EQ(slices.sliced, 6u);
  EXPECT_EQ(slices.slices, 18u);
  EXPECT_TRUE(slices.whole.empty());
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaSlicesTest, AContextLostInMidSliceRunsTheLaunchAgain) {
  ASSERT_NO_FATAL_FAILURE(Open("gpes"));
  const auto wave = static_cast<uint32_t>(Wave());
  auto event = AddLarge(*device_, {4 * wave, 1, 1});
  fake_.FaultOn("fail_if", FakeGpu::Nth(2));
  fake_.ForgetLaunches();
  EXPECT_EQ(RingAndWait(*device_, event, 0).state, EventState::kDone);
  // The second of four slices, and then all: each has the usual time again.
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 2u + 4);
  fake_.FaultOn("fail_if", FakeGpu::Nth(3));
  fake_.ForgetLaunches();
  EXPECT_EQ(Submit(Large(*device_, 0, 0, {4 * wave, 1, 1})).get().state,
            EventState::kDone);
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 3u + 4);
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_THAT(backend_->description(),
              testing::HasSubstr("context lost 2 times"));
  EXPECT_EQ(TakeAway(event), 0u);
}

// Of a launch of persistent blocks, kResident run at once.
class CudaPtbTest : public CudaSlicesTest {
 protected:
  static constexpr uint32_t kResident = 3;

  void NoteBlocks() {
    CudaSlicesTest::NoteBlocks();
    fake_.DefineKernel(
        "carillon_ptb_fail_if",
        {sizeof(simt::EventFrame), sizeof(uint32_t), sizeof(simt::BlockSupply)},
        [this](KernelCall& call) {
          const auto code = call.param<uint32_t>(1);
          const auto supply = call.param<simt::BlockSupply>(2);
          const auto resident = static_cast<uint32_t>(call.grid().count());
          {
            std::lock_guard lock(log_mutex_);
            log_.push_back(code);
            times_[code].resize(supply.grid.count());
          }
          stop_ = supply.stop;
          std::atomic<bool> faulted{false};
          const bool left = RunPtb(
              supply, std::min(kResident, resident), [&](uint64_t block) {
                {
                  std::lock_guard lock(log_mutex_);
                  ++times_[code].at(block);
                }
                while (holds_ == static_cast<int>(code) && !call.stopped()) {
                  std::this_thread::yield();
                }
                int faulty = static_cast<int>(code);
                if (faults_.compare_exchange_strong(faulty, kNothing)) {
                  faulted = true;
                }
                return !faulted && !call.stopped();
              });
          if (faulted) {
            std::lock_guard lock(log_mutex_);
            times_[code].clear();
            return CUDA_ERROR_ILLEGAL_ADDRESS;
          }
          if (left) EndPtb(call.param<simt::EventFrame>(0), supply);
          return CUDA_SUCCESS;
        });
  }
  // Blocks that have begun.
  uint64_t Begun(uint32_t code) {
    uint64_t begun = 0;
    for (const int times : times(code)) begun += static_cast<uint64_t>(times);
    return begun;
  }
  bool IsStopped() const {
    return std::atomic_ref(const_cast<uint32_t&>(*stop_.load())) != 0;
  }

  std::atomic<const uint32_t*> stop_{nullptr};  // the last launch's
};

INSTANTIATE_TEST_SUITE_P(All, CudaPtbTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaPtbTest, EachBlockRunsOnceForEveryGrid) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  const simt::Dim3 grids[] = {{wave, 1, 1},
                              {wave + 1, 1, 1},
                              {3, wave, 1},
                              {wave / 2 + 1, 5, 3},
                              {1, 1, 3 * wave}};
  uint32_t code = 0;
  for (const simt::Dim3& grid : grids) {
    for (const uint32_t priority : {6u, 7u}) {
      EXPECT_EQ(Submit(Large(*device_, code, priority, grid)).get().state,
                EventState::kDone);
      EXPECT_EQ(times(code), Once(grid)) << code;
      ++code;
    }
    auto event = AddLarge(*device_, grid);
    EXPECT_EQ(RingAndWait(*device_, event, code).state, EventState::kDone);
    EXPECT_EQ(times(code), Once(grid)) << code;
    ++code;
    EXPECT_EQ(TakeAway(event), 0u);
  }
  EXPECT_EQ(fake_.launches("carillon_ptb_fail_if"), 8u);
  const PtbCounts counts = backend_->figures().ptb;
  EXPECT_EQ(counts.launches, 8u);
  EXPECT_EQ(counts.stops, 0u);
  ASSERT_EQ(counts.whole.size(), 2u);
  EXPECT_EQ(counts.whole[0].name, "all_fit");
  EXPECT_EQ(counts.whole[0].value, 2u);
  EXPECT_EQ(counts.whole[1].name, "most_urgent");
  EXPECT_EQ(counts.whole[1].value, 5u);
}

TEST_P(CudaPtbTest, AMoreUrgentLaunchWaitsForOneBlock) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  MappedDevice& other = OtherDevice();
  auto urgent = AddLarge(other, {1, 1, 1}, 5);
  auto less = AddLarge(other, {1, 1, 1}, 1);
  holds_ = 1;
  auto background = Submit(Large(*device_, 1, 2, {4 * wave, 1, 1}));
  ASSERT_TRUE(Until([&] { return Begun(1) == kResident; }));
  ASSERT_EQ(backend_->launches().size(), 1u);
  EXPECT_EQ(backend_->launches()[0].running, wave) << "not all that are left";
  Commit(less, 2);
  less.ring->RingDoorbell();
  EXPECT_TRUE(Until([&] {
    const auto launches = backend_->launches();
    return std::ranges::any_of(launches, [](const LaunchProgress& launch) {
      return launch.event && launch.wait_ns != 0;
    });
  }));
  EXPECT_FALSE(IsStopped()) << "nobody more urgent has come";
  Commit(urgent, 3);
  urgent.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return IsStopped(); }));
  holds_ = 3;
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(Begun(1), kResident) << "those that ran, and no other";
  holds_ = kNothing;
  EXPECT_EQ(other.Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(other.Wait(*less.ring).state, EventState::kDone);
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3, 1, 2}));
  EXPECT_EQ(times(1), Once({4 * wave, 1, 1}));
  EXPECT_EQ(TakeAway(urgent), 0u);
  EXPECT_EQ(TakeAway(less), 0u);
}

TEST_P(CudaPtbTest, EachBlockRunsOnceHoweverOftenItIsStopped) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const simt::Dim3 grid = {7, static_cast<uint32_t>(Wave()), 2};
  auto urgent = AddLarge(OtherDevice(), {1, 1, 1}, 5);
  auto event = AddLarge(*device_, grid, 2);
  holds_ = 1;
  Commit(event, 1);
  event.ring->RingDoorbell();
  constexpr uint32_t kRounds = 12;
  for (uint32_t round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(Until([&] { return Begun(1) == kResident * (round + 1); }));
    ASSERT_EQ(backend_->launches().size(), 1u);
    EXPECT_EQ(backend_->launches()[0].running, Wave());
    EXPECT_EQ(backend_->launches()[0].ended, kResident * round);
    Commit(urgent, 3);
    urgent.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return IsStopped(); }));
    holds_ = 3;
    ASSERT_TRUE(Until([&] { return log().back() == 3; }));
    holds_ = 1;
    EXPECT_EQ(others_[0]->Wait(*urgent.ring).state, EventState::kDone);
  }
  holds_ = kNothing;
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid));
  EXPECT_EQ(backend_->figures().ptb.stops, kRounds);
  EXPECT_EQ(TakeAway(urgent), 0u);
  EXPECT_EQ(TakeAway(event), 0u);
}

// More of them than gpud has streams for background kernels.
TEST_P(CudaPtbTest, StoppedLaunchesLeaveStreamsToTheOneTheyWereStoppedFor) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  const simt::Dim3 grid = {4 * wave, 1, 1};
  holds_ = 1;
  std::vector<std::future<LaunchResult>> results;
  for (int i = 0; i < 12; ++i) {
    results.push_back(Submit(Large(*device_, 1, 0, grid)));
  }
  ASSERT_TRUE(Until([&] { return Begun(1) >= kResident; }));
  auto urgent = Submit(Large(*device_, 3, 3, {1, 1, 1}));
  ASSERT_TRUE(Until([&] { return IsStopped(); }));
  holds_ = kNothing;
  EXPECT_EQ(urgent.get().state, EventState::kDone);
  for (auto& result : results) {
    EXPECT_EQ(result.get().state, EventState::kDone);
  }
  EXPECT_EQ(times(1), std::vector<int>(grid.count(), 12));
}

// Whoever comes as urgent, waits its turn.
TEST_P(CudaPtbTest, AnEquallyUrgentLaunchStopsNobody) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  auto event = AddLarge(*device_, {1, 1, 1}, 2);
  holds_ = 1;
  auto background = Submit(Large(*device_, 1, 2, {4 * wave, 1, 1}));
  ASSERT_TRUE(Until([&] { return Begun(1) == kResident; }));
  const uint64_t before = Launched();
  Commit(event, 2);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Launched() == before + 1; }));
  EXPECT_FALSE(IsStopped());
  holds_ = kNothing;
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaPtbTest, ASwitchInMidRunLosesAndDoublesNothing) {
  NoteBlocks();
  const char* const all[] = {"priority", "reservation", "exclusive", "gpes",
                             "ptb"};
  for (const char* from : all) {
    for (const char* to : all) {
      if (from != std::string_view("ptb") && to != std::string_view("ptb")) {
        continue;
      }
      SCOPED_TRACE(from + std::string(" to ") + to);
      ASSERT_NO_FATAL_FAILURE(Open("reservation"));  // all is there from now on
      ASSERT_TRUE(backend_->SetPolicy(from).ok());
      const auto wave = static_cast<uint32_t>(Wave());
      const simt::Dim3 grid = {wave / 2 + 1, 7, 3};
      auto event = AddLarge(*device_, grid);
      // Its stream is there.
      EXPECT_EQ(Submit(Large(*device_, 4, 1, {1, 1, 1})).get().state,
                EventState::kDone);
      log_.clear();
      for (auto& times : times_) times.clear();
      holds_ = 1;
      Commit(event, 1);
      event.ring->RingDoorbell();
      ASSERT_TRUE(Until([&] { return !log().empty(); }));
      auto waits = Submit(Large(*device_, 2, 1, grid));
      ASSERT_TRUE(backend_->SetPolicy(to).ok());
      holds_ = kNothing;
      EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
      EXPECT_EQ(waits.get().state, EventState::kDone);
      EXPECT_EQ(times(1), Once(grid));
      EXPECT_EQ(times(2), Once(grid));
      EXPECT_EQ(TakeAway(event), 0u);
      Close();
    }
  }
}

// What nobody could stop any more goes on as the new policy has it.
TEST_P(CudaPtbTest, AnotherPolicyStopsPersistentBlocks) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  holds_ = 1;
  auto background = Submit(Large(*device_, 1, 0, {4 * wave, 1, 1}));
  ASSERT_TRUE(Until([&] { return Begun(1) == kResident; }));
  ASSERT_TRUE(backend_->SetPolicy("priority").ok());
  EXPECT_TRUE(IsStopped());
  holds_ = kNothing;
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(fake_.launches("carillon_ptb_fail_if"), 1u);
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 1u);
  EXPECT_EQ(times(1), Once({4 * wave, 1, 1}));
}

TEST_P(CudaPtbTest, WhatIsCancelledInMidRunEndsWithTheBlocksThatRun) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  holds_ = 1;
  auto launch = Large(*device_, 1, 0, {5 * wave, 1, 1});
  launch->token = 77;
  auto result = Submit(std::move(launch));
  ASSERT_TRUE(Until([&] { return Begun(1) == kResident; }));
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  holds_ = kNothing;
  EXPECT_EQ(result.get().state, EventState::kAborted);
  EXPECT_EQ(Begun(1), kResident);

  MappedDevice& killed = OtherDevice();
  auto event = AddLarge(killed, {5 * wave, 1, 1});
  holds_ = 2;
  Commit(event, 2);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Begun(2) == kResident; }));
  auto cancel = std::async(std::launch::async, [&] {
    backend_->Cancel(LaunchFilter::Of(*killed.memory),
                     EventStatus::kDeviceGone);
  });
  ASSERT_TRUE(Until([&] { return IsStopped(); }));
  holds_ = kNothing;
  cancel.get();
  EXPECT_EQ(event.kernel->counts().aborted, 1u);
  EXPECT_EQ(Begun(2), kResident);
  // The GPU is the others' again.
  EXPECT_EQ(Submit(Large(*device_, 3, 0, {2 * wave, 1, 1})).get().state,
            EventState::kDone);
  EXPECT_EQ(TakeAway(event), 1u);
}

// It waits while a more urgent one has the GPU.
TEST_P(CudaPtbTest, WhatIsCancelledAfterItWasStoppedRunsNoFurther) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  MappedDevice& killed = OtherDevice();
  auto low = AddLarge(killed, {5 * wave, 1, 1});
  auto high = AddLarge(*device_, {1, 1, 1}, 7);
  holds_ = 1;
  Commit(low, 1);
  low.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Begun(1) == kResident; }));
  Commit(high, 3);
  high.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return IsStopped(); }));
  holds_ = 3;
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  ASSERT_TRUE(Until([&] {
    const auto launches = backend_->launches();
    return std::ranges::any_of(launches, [](const LaunchProgress& launch) {
      return launch.event && launch.running == 0 && launch.ended == kResident;
    });
  }));
  backend_->Cancel(LaunchFilter::Of(*killed.memory), EventStatus::kDeviceGone);
  EXPECT_EQ(low.kernel->counts().aborted, 1u);
  holds_ = kNothing;
  EXPECT_EQ(device_->Wait(*high.ring).state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(TakeAway(low), 1u);
  EXPECT_EQ(TakeAway(high), 0u);
}

TEST_P(CudaPtbTest, AContextLostInMidRunRunsTheLaunchAgainUnlessItIsCancelled) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  const simt::Dim3 grid = {4 * wave, 1, 1};
  auto event = AddLarge(*device_, grid);
  faults_ = 1;
  EXPECT_EQ(RingAndWait(*device_, event, 1).state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid)) << "of the launch that was replayed";
  faults_ = 2;
  EXPECT_EQ(Submit(Large(*device_, 2, 0, grid)).get().state, EventState::kDone);
  EXPECT_EQ(times(2), Once(grid));
  // In the new context they are taken as before.
  EXPECT_EQ(RingAndWait(*device_, event, 4).state, EventState::kDone);
  EXPECT_EQ(times(4), Once(grid));

  holds_ = faults_ = 5;
  auto launch = Large(*device_, 5, 0, grid);
  launch->token = 77;
  auto result = Submit(std::move(launch));
  ASSERT_TRUE(Until([&] { return Begun(5) == kResident; }));
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  holds_ = kNothing;
  EXPECT_EQ(result.get().state, EventState::kAborted);
  EXPECT_EQ(times(5), std::vector<int>());
  EXPECT_THAT(backend_->description(),
              testing::HasSubstr("context lost 3 times"));
  EXPECT_EQ(TakeAway(event), 0u);
}

// The kernel's own code, in which a block may fail.
TEST_P(CudaPtbTest, AFailureInOneBlockIsTheLaunchsAndTheOthersRun) {
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const auto wave = static_cast<uint32_t>(Wave());
  auto event = AddLarge(*device_, {3 * wave, 1, 1});
  for (const uint32_t code : {7u, 0u, 9u}) {
    EXPECT_EQ(RingAndWait(*device_, event, code).status,
              code == 0 ? 0 : KernelCode(code));
    EXPECT_EQ(Submit(Large(*device_, code, 0, {3 * wave, 1, 1})).get().status,
              code == 0 ? 0 : KernelCode(code));
  }
  EXPECT_EQ(fake_.launches("carillon_ptb_fail_if"), 6u);
  EXPECT_EQ(TakeAway(event), 0u);
}

// Policy reservation, on a GPU of 40 SMs, which gives whole eights of them. Each
// launch notes where it runs.
class CudaReservationTest : public CudaPoliciesTest {
 protected:
  static constexpr uint32_t kCodes = 8;
  static constexpr SmRange kAll{0, 40};
  static constexpr SmRange kEvents{0, 24};
  static constexpr SmRange kBackground{24, 16};

  void SetUp() override {
    fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 40; });
    fake_.DefineKernel(
        "carillon_call_fail_if", {sizeof(simt::EventFrame), sizeof(uint32_t)},
        [this](KernelCall& call) {
          const auto code = call.param<uint32_t>(1);
          {
            std::lock_guard lock(places_mutex_);
            places_[code].push_back(call.sms());
          }
          while (holds_ == static_cast<int>(code) && !call.stopped()) {
            std::this_thread::yield();
          }
          CompleteEvent(call.param<simt::EventFrame>(0));
          return CUDA_SUCCESS;
        });
  }
  void OpenReserved(uint32_t sms) {
    Gpu::Options options = GpuOptions();
    options.reserved_sms = sms;
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(options));
    Use(GetParam());
  }
  void Set(std::string_view policy) {
    const absl::Status status = backend_->SetPolicy(policy);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Where the launches with this code have begun.
  std::vector<SmRange> places(uint32_t code) {
    std::lock_guard lock(places_mutex_);
    return places_[code];
  }
  // Code 0: an event; 1: a background kernel.
  void ExpectPlaces(const TestDevice::Event& event, const SmRange& events,
                    const SmRange& background) {
    {
      std::lock_guard lock(places_mutex_);
      places_ = {};
    }
    EXPECT_EQ(RingAndWait(*device_, event, 0).state, EventState::kDone);
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, 3, {4, 1, 1})).get().state,
              EventState::kDone);
    EXPECT_EQ(places(0), std::vector{events});
    EXPECT_EQ(places(1), std::vector{background});
  }
  // Calls of the driver that make something.
  uint64_t Made() {
    auto calls = fake_.calls();
    return calls["cuStreamCreateWithPriority"] +
           calls["cuGreenCtxStreamCreate"] + calls["cuGreenCtxCreate"] +
           calls["cuGraphInstantiateWithParams"] + calls["cuMemAlloc"] +
           calls["cuMemHostAlloc"];
  }

  std::mutex places_mutex_;
  std::array<std::vector<SmRange>, kCodes> places_;
};

INSTANTIATE_TEST_SUITE_P(All, CudaReservationTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaReservationTest, EventsAndBackgroundKernelsHaveSmsOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  auto before = AddFailIf(*device_);
  ExpectPlaces(before, kAll, kAll);
  Set("reservation");
  ExpectPlaces(before, kEvents, kBackground);
  EXPECT_THAT(
      backend_->description(),
      testing::HasSubstr(", 24 SMs for events and 16 for background kernels"));
  auto after = AddFailIf(*device_);
  ExpectPlaces(after, kEvents, kBackground);
  EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  Set("priority");
  ExpectPlaces(before, kAll, kAll);
  ExpectPlaces(after, kAll, kAll);
  EXPECT_THAT(backend_->description(),
              testing::Not(testing::HasSubstr("SMs for events")));
  EXPECT_EQ(TakeAway(before), 0u);
  EXPECT_EQ(TakeAway(after), 0u);
}

// Of background kernels, only once they have a stream.
TEST_P(CudaReservationTest, EachSideGoesByArrivalWhateverThePriority) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  for (uint32_t priority : {0u, 7u}) {
    auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}},
                                .priority = priority});
    EXPECT_EQ(RingAndWait(*device_, event, 0).state, EventState::kDone);
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, priority, {4, 1, 1})).get().state,
              EventState::kDone);
    EXPECT_EQ(TakeAway(event), 0u);
  }
  EXPECT_EQ(fake_.places().at("carillon_call_fail_if").priorities.size(), 1u);
}

TEST_P(CudaReservationTest, AChangeInMidRunMovesTheNextLaunchesOnly) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  Set("priority");
  auto event = AddFailIf(*device_);
  // Their streams are there from now on.
  for (uint32_t priority : {3u, 4u}) {
    EXPECT_EQ(Submit(LaunchOf(*device_, 1, priority, {4, 1, 1})).get().state,
              EventState::kDone);
  }
  holds_ = 2;
  Commit(event, 2);
  event.ring->RingDoorbell();
  auto in_flight = Submit(LaunchOf(*device_, 2, 3, {4, 1, 1}));
  ASSERT_TRUE(Until([&] { return places(2).size() == 2; }));
  const uint64_t made = Made();
  Set("reservation");
  EXPECT_EQ(Made(), made) << "both layouts are there";
  // Behind those in flight, in other streams: they begin before these end.
  Commit(event, 3);
  event.ring->RingDoorbell();
  EXPECT_EQ(Submit(LaunchOf(*device_, 4, 4, {4, 1, 1})).get().state,
            EventState::kDone);
  ASSERT_TRUE(Until([&] { return places(3).size() == 1; }));
  holds_ = kNothing;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  }
  EXPECT_EQ(in_flight.get().state, EventState::kDone);
  EXPECT_EQ(places(2), (std::vector{kAll, kAll})) << "once each, where it was";
  EXPECT_EQ(places(3), std::vector{kEvents});
  EXPECT_EQ(places(4), std::vector{kBackground});
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ReserveSmsIsHowManyEventsHave) {
  ASSERT_NO_FATAL_FAILURE(OpenReserved(5));
  auto event = AddFailIf(*device_);
  // Launch path edge's, and nobody else's.
  ExpectPlaces(event, {6, 34}, {6, 34});
  const uint64_t made = Made();
  Set("reservation");
  ExpectPlaces(event, {0, 6}, {6, 34});
  EXPECT_EQ(Made(), made);
  EXPECT_THAT(
      backend_->description(),
      testing::HasSubstr(", 6 SMs for events and 34 for background kernels"));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ThePartsAreThereAgainInANewContext) {
  ASSERT_NO_FATAL_FAILURE(Open("reservation"));
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kEvents, kBackground);
  fake_.FaultOn("carillon_call_fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, event, 5);
  EXPECT_THAT(backend_->description(), testing::HasSubstr("context lost"));
  ExpectPlaces(event, kEvents, kBackground);
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaReservationTest, ADriverWithoutGreenContextsRefusesItByName) {
  fake_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  const absl::Status refused = backend_->SetPolicy("reservation");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("sharing policy 'reservation'"),
                             testing::HasSubstr("reserve 20 of 40 SMs"),
                             testing::HasSubstr("CUDA_ERROR_NOT_SUPPORTED")));
  EXPECT_EQ(backend_->policy(), "priority");
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kAll, kAll);
  EXPECT_EQ(TakeAway(event), 0u);
  Close();
  BackendOptions options;
  options.policy = "reservation";
  EXPECT_EQ(CudaBackend::CreateOn(fake_.driver(), options, GpuOptions())
                .status()
                .message(),
            refused.message());
}

// A path that cannot be prepared leaves the policy as it is.
TEST_P(CudaReservationTest, WhatCannotBePreparedIsRefusedAndMayBeTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  auto event = AddFailIf(*device_);
  ExpectPlaces(event, kAll, kAll);
  const LiveObjects before = fake_.live_objects();
  std::vector<std::string> calls = {"cuGreenCtxCreate",
                                    "cuGreenCtxStreamCreate"};
  if (GetParam() == "graph") calls.push_back("cuGraphInstantiateWithParams");
  for (const std::string& call : calls) {
    fake_.FailNext(call, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(backend_->SetPolicy("reservation").code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(backend_->policy(), "priority");
    EXPECT_EQ(fake_.live_objects(), before) << call;
    ExpectPlaces(event, kAll, kAll);
  }
  Set("reservation");
  ExpectPlaces(event, kEvents, kBackground);
  EXPECT_EQ(TakeAway(event), 0u);
}

// There are kMaxStreams: two of the Gpu's own, four for each priority of events,
// one of the background kernel's, and so not five more for the parts.
TEST_P(CudaReservationTest, ARefusalLeavesTheStreamsToThoseWhoComeLater) {
  ASSERT_NO_FATAL_FAILURE(Open("priority"));
  std::vector<TestDevice::Event> events;
  const auto add = [&] {
    events.push_back(
        Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                       .bindings = {{.writable = true}},
                       .priority = static_cast<uint32_t>(events.size())}));
  };
  for (int i = 0; i < 6; ++i) add();
  ExpectPlaces(events[0], kAll, kAll);
  const LiveObjects before = fake_.live_objects();
  EXPECT_EQ(before.streams, 27u);
  const absl::Status refused = backend_->SetPolicy("reservation");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(fake_.live_objects(), before);
  add();
  ExpectPlaces(events[6], kAll, kAll);
  // All of this is there again in a new context.
  fake_.FaultOn("carillon_call_fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, events[6], 5);
  EXPECT_THAT(backend_->description(), testing::HasSubstr("context lost"));
  ExpectPlaces(events[6], kAll, kAll);
  // With fewer in use, there are enough.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(TakeAway(events.back()), 0u);
    events.pop_back();
  }
  Set("reservation");
  for (const auto& event : events) {
    ExpectPlaces(event, kEvents, kBackground);
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

}  // namespace
}  // namespace carillon::gpud::cuda
