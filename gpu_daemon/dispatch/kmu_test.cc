#include "gpu_daemon/dispatch/kmu.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/cpu_workers.h"
#include "gpu_daemon/event/gate_kernel.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

std::unique_ptr<SharingPolicy> Policy(std::string_view name) {
  return *MakePolicy(name);
}

std::unique_ptr<KernelLaunch> GateLaunch(
    Gate* gate, uint64_t tag, uint32_t blocks, uint32_t priority,
    std::function<void(const LaunchResult&)> on_end) {
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = {
      .kernel = &kGateKernel, .grid = {blocks, 1, 1}, .block = {64, 1, 1}};
  launch->cost = CostOf(64, kGateKernel.registers_per_thread, 0);
  launch->priority = priority;
  launch->args = std::make_unique<std::byte[]>(sizeof(GateArgs));
  const GateArgs args{reinterpret_cast<uint64_t>(gate), tag};
  std::memcpy(launch->args.get(), &args, sizeof(args));
  launch->from_host = true;
  launch->on_end = std::move(on_end);
  return launch;
}

class KmuTest : public testing::Test {
 protected:
  void Start(const GpuModel& model, std::string_view policy, uint32_t workers) {
    kmu_ = std::make_unique<Kmu>(model, Policy(policy));
    workers_.emplace(workers, kmu_.get(), &runner_);
  }
  std::future<LaunchResult> Submit(uint64_t tag, uint32_t blocks,
                                   uint32_t priority = 0, uint64_t token = 0) {
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    auto launch =
        GateLaunch(&gate_, tag, blocks, priority,
                   [promise](const LaunchResult& r) { promise->set_value(r); });
    launch->token = token;
    kmu_->Submit(std::move(launch));
    return promise->get_future();
  }
  void TearDown() override {
    gate_.LetPass(1000);
    if (kmu_ != nullptr) kmu_->Stop();
    workers_.reset();
  }

  Gate gate_;
  CpuBlockRunner runner_;
  std::unique_ptr<Kmu> kmu_;
  std::optional<CpuWorkers> workers_;
};

LaunchResult Get(std::future<LaunchResult> result) {
  if (result.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
    return {};
  return result.get();
}

TEST_F(KmuTest, ALaunchEndsOnceAllItsBlocksHaveRun) {
  Start({}, "first_come", 2);
  auto result = Submit(1, 5);
  gate_.LetPass(5);
  EXPECT_EQ(Get(std::move(result)).state, EventState::kDone);
  EXPECT_EQ(gate_.entered().size(), 5u);
  EXPECT_EQ(kmu_->background_blocks(), 5u);
  EXPECT_TRUE(kmu_->idle());
}

TEST_F(KmuTest, NoMoreBlocksRunAtOnceThanTheGpuHasSlots) {
  Start({.sms = 1, .blocks_per_sm = 2}, "first_come", 4);
  auto result = Submit(1, 4);
  ASSERT_TRUE(gate_.WaitEntered(2));
  EXPECT_EQ(kmu_->blocks_of_sms(), std::vector<uint32_t>{2});
  gate_.LetPass(1);
  ASSERT_TRUE(gate_.WaitEntered(3));
  EXPECT_LE(gate_.inside(), 2u);
  gate_.LetPass(3);
  EXPECT_EQ(Get(std::move(result)).state, EventState::kDone);
}

TEST_F(KmuTest, FirstComeServesTheOlderLaunchFirstWhateverItsPriority) {
  Start({}, "first_come", 1);
  auto low = Submit(1, 3, 0);
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto high = Submit(2, 1, 7);
  gate_.LetPass(4);
  Get(std::move(high));
  Get(std::move(low));
  EXPECT_EQ(gate_.entered(), (std::vector<uint64_t>{1, 1, 1, 2}));
}

TEST_F(KmuTest, PriorityServesTheHighestNextAndDisturbsNothingThatRuns) {
  Start({}, "priority", 1);
  auto low = Submit(1, 3, 0);
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto middle = Submit(3, 1, 3);
  auto high = Submit(2, 1, 7);
  gate_.LetPass(5);
  Get(std::move(middle));
  Get(std::move(high));
  Get(std::move(low));
  EXPECT_EQ(gate_.entered(), (std::vector<uint64_t>{1, 2, 3, 1, 1}));
}

TEST_F(KmuTest, MoreLaunchesThanKduEntriesWaitInThePendingQueues) {
  Start({}, "first_come", 1);
  std::vector<std::future<LaunchResult>> results;
  for (uint64_t i = 0; i < kKduEntries + 5; ++i)
    results.push_back(Submit(i, 1, 2));
  uint32_t waiting = 0;
  for (const QueueLength& queue : kmu_->queue_lengths()) {
    if (queue.priority == 2 && !queue.event) waiting = queue.kernels;
  }
  EXPECT_EQ(waiting, 5u);
  gate_.LetPass(results.size());
  for (auto& result : results)
    EXPECT_EQ(Get(std::move(result)).state, EventState::kDone);
}

TEST_F(KmuTest, AFullKduHoldsNothingMoreUrgentBack) {
  Start({}, "priority", 1);
  std::vector<std::future<LaunchResult>> low;
  low.push_back(Submit(1, 2, 0));
  for (uint64_t tag = 2; tag <= 40; ++tag) low.push_back(Submit(tag, 1, 0));
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto high = Submit(100, 1, 7);
  gate_.LetPass(42);
  EXPECT_EQ(Get(std::move(high)).state, EventState::kDone);
  for (auto& result : low) {
    EXPECT_EQ(Get(std::move(result)).state, EventState::kDone);
  }
  std::vector<uint64_t> expected = {1, 100, 1};
  for (uint64_t tag = 2; tag <= 40; ++tag) expected.push_back(tag);
  EXPECT_EQ(gate_.entered(), expected);
}

TEST_F(KmuTest, ACancelledLaunchRunsNoFurtherBlocksAndEndsAsAborted) {
  Start({}, "first_come", 1);
  auto running = Submit(1, 3, 0, 11);
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto queued = Submit(2, 1, 0, 12);
  EXPECT_EQ(kmu_->Cancel(LaunchFilter::OfToken(12), EventStatus::kDeviceGone),
            1u);
  const LaunchResult second = Get(std::move(queued));
  EXPECT_EQ(second.state, EventState::kAborted);
  EXPECT_EQ(second.status, static_cast<uint32_t>(EventStatus::kDeviceGone));
  EXPECT_EQ(kmu_->Cancel(LaunchFilter::OfToken(11), EventStatus::kDeviceGone),
            1u);
  ASSERT_EQ(kmu_->launches().size(), 1u);
  EXPECT_EQ(kmu_->launches()[0].blocks, 1u) << "no further one will run";
  gate_.LetPass(1);
  const LaunchResult first = Get(std::move(running));
  EXPECT_EQ(first.state, EventState::kAborted);
  EXPECT_EQ(first.status, static_cast<uint32_t>(EventStatus::kDeviceGone));
  EXPECT_EQ(gate_.entered().size(), 1u);
  EXPECT_TRUE(kmu_->idle());
}

TEST_F(KmuTest, AfterStopEveryLaunchIsAborted) {
  Start({}, "first_come", 1);
  auto running = Submit(1, 2);
  ASSERT_TRUE(gate_.WaitEntered(1));
  kmu_->Stop();
  gate_.LetPass(1);
  EXPECT_EQ(Get(std::move(running)).state, EventState::kAborted);
  EXPECT_EQ(Get(Submit(2, 1)).state, EventState::kAborted);
}

TEST(SmOccupancyTest, EveryResourceLimitsOnItsOwn) {
  const GpuModel model{.sms = 1,
                       .blocks_per_sm = 4,
                       .threads_per_sm = 256,
                       .registers_per_sm = 1024,
                       .shared_bytes_per_sm = 1000};
  const auto fits = [&](const BlockCost& cost) {
    SmOccupancy sms(model);
    uint32_t placed = 0;
    while (sms.Place(cost)) ++placed;
    return placed;
  };
  EXPECT_EQ(fits({.threads = 32, .registers = 1, .shared_bytes = 1}), 4u);
  EXPECT_EQ(fits({.threads = 128, .registers = 1, .shared_bytes = 1}), 2u);
  EXPECT_EQ(fits({.threads = 32, .registers = 512, .shared_bytes = 1}), 2u);
  EXPECT_EQ(fits({.threads = 32, .registers = 1, .shared_bytes = 400}), 2u);
  EXPECT_EQ(fits({.threads = 257, .registers = 1, .shared_bytes = 1}), 0u);
}

TEST(SmOccupancyTest, ReleaseMakesRoomAgain) {
  SmOccupancy sms({.sms = 2, .blocks_per_sm = 1});
  const BlockCost cost{.threads = 32, .registers = 32, .shared_bytes = 0};
  const auto first = sms.Place(cost);
  const auto second = sms.Place(cost);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  EXPECT_FALSE(sms.Place(cost));
  sms.Release(*first, cost);
  EXPECT_EQ(sms.Place(cost), first);
}

TEST(PolicyTest, AnUnknownPolicyIsRefusedWithTheListOfThoseThereAre) {
  const auto policy = MakePolicy("fastest");
  ASSERT_EQ(policy.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(policy.status().message().find("first_come, priority, p1"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace carillon::gpud
