// Policy gpes: launches in slices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/driver/grid_slice.h"
#include "gpu_daemon/backends/cuda/driver/launch_sequence.h"
#include "gpu_daemon/backends/cuda/paths/sliced_run.h"
#include "gpu_daemon/backends/cuda/policies_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

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

TEST(LaunchSequenceTest, WhatIsNoSliceOfTheGridIsRefusedAndNotLaunched) {
  FakeGpu fake;
  const auto gpu = Gpu::Open(fake.driver(), {.image = FakeGpu::Image()});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  const Gpu::ContextLease use = (*gpu)->Enter();
  const KernelMetadata kmd = {.kernel = simt::FindKernel("fail_if"),
                              .grid = {4, 3, 2},
                              .block = {32, 1, 1}};
  const auto sequence = LaunchSequence::Make(**gpu, kmd);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  std::array<std::byte, sizeof(uint32_t)> args{};
  const GridSlice none[] = {
      {{2, 0, 0}, {~0u, 1, 1}},  // to block 1: from > to
      {{2, 0, 0}, {0, 1, 1}},    // from = to
      {{4, 0, 0}, {1, 1, 1}},    // behind the last one
      {{2, 0, 0}, {3, 1, 1}},    // beyond it
      {{0, 0, 2}, {1, 1, 1}},
  };
  for (const GridSlice& slice : none) {
    EXPECT_EQ(sequence->LaunchSlice(fake.driver(), kmd, {}, args.data(),
                                    nullptr, slice),
              CUDA_ERROR_INVALID_VALUE)
        << slice.first.x << " " << slice.size.x;
  }
  EXPECT_EQ(fake.launches("carillon_call_fail_if"), 0u);
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
  preempt_us_ = 1;  // no slice is queued behind another
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
  preempt_us_ = 1;  // no slice is queued behind another
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

}  // namespace
}  // namespace carillon::gpud::cuda
