// Policy gpes: a background kernel's next slice is queued behind the one that runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "gpu_daemon/backends/cuda/paths/sliced_run.h"
#include "gpu_daemon/backends/cuda/policies_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

// The same for all launch paths of events.
class QueuedSlicesTest : public CudaSlicesTest {
 protected:
  // gpes, with slices whose time is known.
  void OpenSlices(const Gpu::Options& gpu = GpuOptions()) {
    NoteBlocks();
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(gpu));
    Use(GetParam());
    ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
    wave_ = static_cast<uint32_t>(Wave());
    grid_ = {4 * wave_, 1, 1};
    Measure();
  }
  void Measure() {
    EXPECT_EQ(Submit(Large(*device_, 0, 0, {2 * wave_, 1, 1})).get().state,
              EventState::kDone);
    before_ = log().size();
  }
  // Two slices of it are in their stream, and the first one runs.
  std::future<LaunchResult> SubmitUntilTwoAreQueued(uint32_t code,
                                                    const MappedDevice& device,
                                                    uint64_t token = 0) {
    ends_ = before_;
    const uint64_t launched = Launched();
    auto launch = Large(device, code, 2, grid_);
    launch->token = token;
    auto result = Submit(std::move(launch));
    EXPECT_TRUE(Until([&] { return Launched() == launched + 2; }));
    EXPECT_TRUE(Until([&] { return log().size() == before_ + 1; }));
    return result;
  }
  // The first one has ended, and gpud has seen that; the second one runs.
  void EndTheFirst() {
    ends_ = before_ + 1;
    EXPECT_TRUE(Until([&] { return log().size() == before_ + 2; }));
    EXPECT_TRUE(Until([&] { return Shown().slices == 1; }));
  }
  // The only background kernel.
  LaunchProgress Shown() {
    for (const LaunchProgress& launch : backend_->launches()) {
      if (!launch.event) return launch;
    }
    return {};
  }
  std::vector<uint32_t> LogSinceThen() {
    const auto all = log();
    return {all.begin() + static_cast<ptrdiff_t>(before_), all.end()};
  }
  static bool IsReady(const std::future<LaunchResult>& result) {
    return result.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }

  uint32_t wave_ = 0;
  simt::Dim3 grid_;
  size_t before_ = 0;  // of log()
};

INSTANTIATE_TEST_SUITE_P(All, QueuedSlicesTest, ::testing::Values("baseline"));

TEST_P(QueuedSlicesTest, WhatIsQueuedIsShownAsLeftAndCostsNoOtherCall) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  const uint64_t launched = Launched();
  auto result = SubmitUntilTwoAreQueued(1, *device_);
  EXPECT_EQ(Shown().blocks, 4 * wave_);
  EXPECT_EQ(Shown().running, wave_);
  EXPECT_EQ(Shown().ended, 0u);
  EXPECT_EQ(Shown().slices, 0u);
  EndTheFirst();
  EXPECT_EQ(Shown().running, wave_);
  EXPECT_EQ(Shown().ended, wave_);
  ends_ = kAllEnd;
  EXPECT_EQ(result.get().state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid_));
  EXPECT_EQ(Launched() - launched, 4u);
  EXPECT_EQ(backend_->figures().slices.slices, 2u + 4);
}

TEST_P(QueuedSlicesTest, AMoreUrgentLaunchWaitsForTheTwoAndForNoThird) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  MappedDevice& other = OtherDevice();
  auto urgent = AddLarge(other, {1, 1, 1}, 5);
  const Nanoseconds began = NowNs();
  auto result = SubmitUntilTwoAreQueued(1, *device_);
  Commit(urgent, 3);
  urgent.ring->RingDoorbell();
  EXPECT_TRUE(Until([&] { return backend_->launches().size() == 2; }));
  EndTheFirst();
  // By then a third one would have been queued: it is not in a hurry to end.
  const Nanoseconds now = NowNs();
  EXPECT_TRUE(Until([&] { return NowNs() - now > 2 * (now - began); }));
  ends_ = kAllEnd;
  EXPECT_EQ(other.Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(result.get().state, EventState::kDone);
  EXPECT_EQ(LogSinceThen(), (std::vector<uint32_t>{1, 1, 3, 1, 1}));
  EXPECT_EQ(times(1), Once(grid_));
  EXPECT_EQ(TakeAway(urgent), 0u);
}

TEST_P(QueuedSlicesTest, WhereTwoSlicesTakeLongerThanTheBoundNoneIsQueued) {
  preempt_us_ = 1;
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  ends_ = before_;
  const uint64_t launched = Launched();
  auto result = Submit(Large(*device_, 1, 2, grid_));
  ASSERT_TRUE(Until([&] { return log().size() == before_ + 1; }));
  const Nanoseconds now = NowNs();
  EXPECT_TRUE(Until([&] { return NowNs() - now > 100'000'000; }));
  EXPECT_EQ(Launched(), launched + 1);
  ends_ = kAllEnd;
  EXPECT_EQ(result.get().state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid_));
}

TEST_P(QueuedSlicesTest, ASwitchWithTwoInFlightLosesAndDoublesNothing) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  MappedDevice& other = OtherDevice();
  for (const char* next : {"priority", "exclusive", "gpes"}) {
    ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
    Measure();
    auto result = SubmitUntilTwoAreQueued(1, *device_);
    auto waits = Submit(Large(other, 2, 1, grid_));
    ASSERT_TRUE(backend_->SetPolicy(next).ok());
    ends_ = before_ + 1;
    ASSERT_TRUE(Until([&] { return log().size() >= before_ + 2; }));
    ends_ = kAllEnd;
    EXPECT_EQ(result.get().state, EventState::kDone);
    EXPECT_EQ(waits.get().state, EventState::kDone);
    EXPECT_EQ(times(1), Once(grid_)) << next;
    EXPECT_EQ(times(2), Once(grid_)) << next;
    for (auto& times : times_) times.clear();
  }
}

// A launch by its token, and all of a client that was killed: its memory is in use
// to the end of the second one.
TEST_P(QueuedSlicesTest, WhatIsCancelledEndsBehindTheTwoThatAreInFlight) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  MappedDevice& killed = OtherDevice();
  for (const LaunchFilter& which :
       {LaunchFilter::OfToken(77), LaunchFilter::Of(*killed.memory)}) {
    Measure();
    auto result = SubmitUntilTwoAreQueued(1, killed, 77);
    backend_->Cancel(which, EventStatus::kDeviceGone);
    EndTheFirst();
    EXPECT_FALSE(IsReady(result));
    ends_ = kAllEnd;
    const LaunchResult ended = result.get();
    EXPECT_EQ(ended.state, EventState::kAborted);
    EXPECT_EQ(ended.status, static_cast<uint32_t>(EventStatus::kDeviceGone));
    EXPECT_EQ(LogSinceThen(), (std::vector<uint32_t>{1, 1}));
    // The GPU is the others' again.
    EXPECT_EQ(Submit(Large(*device_, 2, 0, grid_)).get().state,
              EventState::kDone);
  }
}

TEST_P(QueuedSlicesTest, AContextLostWithTwoInFlightRunsTheLaunchAgain) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  for (const bool in_the_second : {false, true}) {
    Measure();
    auto result = SubmitUntilTwoAreQueued(1, *device_);
    if (in_the_second) EndTheFirst();
    faults_ = 1;
    ends_ = kAllEnd;
    EXPECT_EQ(result.get().state, EventState::kDone);
    EXPECT_EQ(times(1), Once(grid_)) << "all of them again";
    times_[1].clear();
  }
  EXPECT_THAT(backend_->description(),
              testing::HasSubstr("context lost 2 times"));
}

TEST_P(QueuedSlicesTest,
       WhatWasCancelledBeforeItsContextIsLostDoesNotRunAgain) {
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  auto result = SubmitUntilTwoAreQueued(1, *device_, 77);
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  faults_ = 1;
  ends_ = kAllEnd;
  EXPECT_EQ(result.get().state, EventState::kAborted);
  EXPECT_EQ(LogSinceThen(), (std::vector<uint32_t>{1}));
}

// From when it was queued it only waits.
TEST_P(QueuedSlicesTest, TheTimeOfTheSecondBeginsWhenTheFirstHasEnded) {
  constexpr std::chrono::milliseconds kLongest(2'000);
  Gpu::Options gpu = GpuOptions();
  gpu.longest_kernel = kLongest;
  gpu.recovers = false;  // nothing finds room to stop it
  ASSERT_NO_FATAL_FAILURE(OpenSlices(gpu));
  auto result = SubmitUntilTwoAreQueued(1, *device_);
  std::this_thread::sleep_for(kLongest / 4);
  const auto ends = std::chrono::steady_clock::now();
  EndTheFirst();
  EXPECT_EQ(result.get().status, static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_GE(std::chrono::steady_clock::now() - ends, kLongest);
  // No context is left to take anything back from.
  ends_ = kAllEnd;
  backend_->Stop();
  device_.reset();
  backend_.reset();
}

TEST_P(QueuedSlicesTest, OneThatTheDriverDoesNotQueueIsLaunchedAtTheEnd) {
  static std::atomic<int> calls_until_failure;
  calls_until_failure = 1'000'000;
  driver_.emplace(fake_.driver()).cuLaunchKernel =
      [](auto... arguments) -> CUresult {
    if (--calls_until_failure == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    return ::cuLaunchKernel(arguments...);
  };
  ASSERT_NO_FATAL_FAILURE(OpenSlices());
  ends_ = before_;
  calls_until_failure = 2;  // the first slice is launched
  auto result = Submit(Large(*device_, 1, 2, grid_));
  ASSERT_TRUE(Until([&] { return calls_until_failure <= 0; }));
  ends_ = kAllEnd;
  EXPECT_EQ(result.get().state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid_));
}

TEST(SlicedRunTest, TheFirstFailureIsKeptWhenTheNextSliceHasEndedToo) {
  const simt::Dim3 grid = {4, 1, 1};
  SlicedRun run;
  run.Begin(grid, 2);
  ASSERT_TRUE(run.HasMore(grid));
  EXPECT_EQ(run.Queue(grid, 2).first.x, 2u);
  EXPECT_FALSE(run.HasMore(grid));
  shm::EcqEntry first = {.sequence = run.sequence()};
  first.state = EventState::kFailed;
  first.status = 7;
  const shm::EcqEntry second = {.sequence = run.queued_sequence()};
  EXPECT_FALSE(run.HasEnded(second)) << "each has its own number";
  EXPECT_TRUE(run.HasEnded(first));
  EXPECT_TRUE(run.QueuedHasEnded(second));
  EXPECT_EQ(run.End(first, 0, /*late=*/true), std::nullopt);
  EXPECT_EQ(run.ended_blocks(), 2u);
  EXPECT_TRUE(run.HasEnded(second));
  EXPECT_EQ(run.End(second, 0), std::nullopt) << "nobody saw it begin";
  EXPECT_EQ(run.ended_blocks(), 4u);
  EXPECT_EQ(run.state(), EventState::kFailed);
  EXPECT_EQ(run.status(), 7u);
}

// What runs is the front one, and the other one is cut off with its launch.
TEST(SlicedRunTest, AnUnqueuedSliceIsTheNextAgain) {
  const simt::Dim3 grid = {5, 1, 1};
  SlicedRun run;
  run.Begin(grid, 2);
  run.Queue(grid, 2);
  run.Unqueue();
  EXPECT_TRUE(run.HasMore(grid));
  EXPECT_TRUE(run.End({.sequence = run.sequence()}, 0).has_value());
  EXPECT_EQ(run.Begin(grid, 2).first.x, 2u);
  EXPECT_EQ(run.Queue(grid, 2).first.x, 4u);
  EXPECT_FALSE(run.HasMore(grid));
}

}  // namespace
}  // namespace carillon::gpud::cuda
