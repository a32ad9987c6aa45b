// Policy ptb: launches as persistent blocks, which are stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_ptb.h"
#include "gpu_daemon/backends/cuda/policies_fixture.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;

// Of a launch of persistent blocks, kRunners run at once, and one watches.
class CudaPtbTest : public CudaSlicesTest {
 protected:
  static constexpr uint32_t kRunners = 3;

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
            supplies_.push_back(supply);
          }
          std::atomic<bool> faulted{false};
          const bool left = RunPtb(
              supply, std::min(kRunners + 1, resident), [&](uint64_t block) {
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
  // The last launch.
  bool IsStopped() {
    std::lock_guard lock(log_mutex_);
    return IsStopped(supplies_.back());
  }
  // The one that watches has seen it, too: no block is taken any more.
  bool StopIsSeen() {
    std::lock_guard lock(log_mutex_);
    return StopIsSeen(supplies_.back());
  }
  static bool IsStopped(const simt::BlockSupply& supply) {
    return std::atomic_ref(const_cast<uint32_t&>(*supply.stop)) != 0;
  }
  static bool StopIsSeen(const simt::BlockSupply& supply) {
    return IsStopped(supply) &&
           std::atomic_ref(supply.taken->stopped).load() != 0;
  }

  std::vector<simt::BlockSupply> supplies_;  // of each launch; with log_mutex_
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
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
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
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
  holds_ = 3;
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(Begun(1), kRunners) << "those that ran, and no other";
  holds_ = kNothing;
  EXPECT_EQ(other.Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(other.Wait(*less.ring).state, EventState::kDone);
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(log(), (std::vector<uint32_t>{1, 3, 1, 2}));
  EXPECT_EQ(times(1), Once({4 * wave, 1, 1}));
  EXPECT_EQ(TakeAway(urgent), 0u);
  EXPECT_EQ(TakeAway(less), 0u);
}

// A background kernel that runs, and an event behind it in a stream of its own.
TEST_P(CudaPtbTest, ADeviceIsSuspendedWithAllItsStreams) {
  NoteBlocks();
  ASSERT_NO_FATAL_FAILURE(Open("ptb"));
  const simt::Dim3 grid = {4 * static_cast<uint32_t>(Wave()), 1, 1};
  auto event = AddLarge(*device_, grid, 2);
  auto urgent = AddLarge(OtherDevice(), {1, 1, 1}, 5);
  holds_ = 1;
  auto background = Submit(Large(*device_, 1, 2, grid));
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
  const uint64_t before = Launched();
  Commit(event, 2);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Launched() == before + 1; }));
  Commit(urgent, 3);
  urgent.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
  holds_ = 3;
  EXPECT_TRUE(Until([&] {
    const auto launches = backend_->launches();
    return std::ranges::count_if(launches, [&](const LaunchProgress& launch) {
             return launch.running == 0 && launch.ended < grid.count();
           }) == 2;
  })) << "each of its streams";
  holds_ = kNothing;
  EXPECT_EQ(others_[0]->Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(background.get().state, EventState::kDone);
  EXPECT_EQ(times(1), Once(grid));
  EXPECT_EQ(times(2), Once(grid));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(TakeAway(urgent), 0u);
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
    ASSERT_TRUE(Until([&] { return Begun(1) == kRunners * (round + 1); }));
    ASSERT_EQ(backend_->launches().size(), 1u);
    EXPECT_EQ(backend_->launches()[0].running, Wave());
    EXPECT_EQ(backend_->launches()[0].ended, kRunners * round);
    Commit(urgent, 3);
    urgent.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
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
  ASSERT_TRUE(Until([&] { return Begun(1) >= kRunners; }));
  auto urgent = Submit(Large(*device_, 3, 3, {1, 1, 1}));
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
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
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
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
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
  ASSERT_TRUE(backend_->SetPolicy("priority").ok());
  EXPECT_TRUE(IsStopped());
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
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
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
  backend_->Cancel(LaunchFilter::OfToken(77), EventStatus::kDeviceGone);
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
  holds_ = kNothing;
  EXPECT_EQ(result.get().state, EventState::kAborted);
  EXPECT_EQ(Begun(1), kRunners);

  MappedDevice& killed = OtherDevice();
  auto event = AddLarge(killed, {5 * wave, 1, 1});
  holds_ = 2;
  Commit(event, 2);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Begun(2) == kRunners; }));
  auto cancel = std::async(std::launch::async, [&] {
    backend_->Cancel(LaunchFilter::Of(*killed.memory),
                     EventStatus::kDeviceGone);
  });
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
  holds_ = kNothing;
  cancel.get();
  EXPECT_EQ(event.kernel->counts().aborted, 1u);
  EXPECT_EQ(Begun(2), kRunners);
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
  ASSERT_TRUE(Until([&] { return Begun(1) == kRunners; }));
  Commit(high, 3);
  high.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return StopIsSeen(); }));
  holds_ = 3;
  ASSERT_TRUE(Until([&] { return log().size() == 2; }));
  ASSERT_TRUE(Until([&] {
    const auto launches = backend_->launches();
    return std::ranges::any_of(launches, [](const LaunchProgress& launch) {
      return launch.event && launch.running == 0 && launch.ended == kRunners;
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
  ASSERT_TRUE(Until([&] { return Begun(5) == kRunners; }));
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

}  // namespace
}  // namespace carillon::gpud::cuda
