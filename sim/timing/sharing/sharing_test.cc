// The sharing policies of the simulated GPU, and what must hold whichever is in
// force, and whenever it is changed.
#include "sim/timing/sharing/sharing.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "sim/timing/gpu.h"
#include "sim/timing/kernel_runner.h"
#include "sim/timing/sharing/device_turns.h"

namespace carillon::sim::timing {
namespace {

using enum Sharing;
constexpr Sharing kAll[] = {
    kConfigured,  kFirstCome,          kPriority,  kP1,  kP2,
    kReservation, kDynamicReservation, kExclusive, kGpes};

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry work(.param .u64 out, .param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [times];
  mov.u32 %r1, 0;
again:
  div.u32 %r0, %r0, 1;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  red.global.add.u32 [%d0], 1;
  ret;
}

// Waits until as many threads have come.
.visible .entry meet(.param .u64 out, .param .u32 all)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [all];
  red.global.add.u32 [%d0], 1;
again:
  ld.volatile.global.u32 %r1, [%d0];
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  ret;
}
)";

class SharingTest : public testing::Test {
 protected:
  SharingTest() {
    runner_.Load(kKernels);
    data_ = runner_.Allocate(4096);
    config_.sm.count = 2;
  }

  // What happened to blocks, in order.
  struct Step {
    Cycle cycle;
    GridId grid;
    uint32_t sm;
    bool start;
  };

  Gpu& gpu() {
    if (gpu_ != nullptr) return *gpu_;
    gpu_ = std::make_unique<Gpu>(
        config_, &runner_.memory(),
        Gpu::Options{
            .ended =
                [this](const GridResult& result) {
                  EXPECT_FALSE(results_.contains(result.id));
                  results_[result.id] = result;
                  if (on_end_) on_end_(result);
                },
            .observer =
                [this](const Observation& seen) {
                  const bool start =
                      seen.what == Observation::What::kBlockStart;
                  if (!start && seen.what != Observation::What::kBlockEnd) {
                    return;
                  }
                  steps_.push_back({seen.cycle, seen.grid, seen.sm, start});
                }});
    return *gpu_;
  }
  Launch Work(uint32_t times, uint32_t blocks, uint32_t threads = 32) {
    return runner_.MakeLaunch("work", {blocks, 1, 1}, {threads, 1, 1}, {data_},
                              {times});
  }
  GridId Submit(const Launch& launch, const SubmitOptions& options = {}) {
    const auto grid = gpu().Submit(launch, options);
    EXPECT_TRUE(grid.ok()) << grid.status();
    return grid.ok() ? *grid : 0;
  }
  void Share(Sharing sharing, uint32_t reserve_sms = 0) {
    const auto status = gpu().SetSharing(sharing, reserve_sms);
    EXPECT_TRUE(status.ok()) << status;
  }
  uint32_t threads_that_ran() { return runner_.At<uint32_t>(data_, 1)[0]; }
  // For each moment at which a block of `grid` starts, which others have blocks
  // on SMs.
  std::set<GridId> BesideStartsOf(GridId grid) {
    std::set<GridId> beside;
    std::map<GridId, int> running;
    for (const Step& step : steps_) {
      running[step.grid] += step.start ? 1 : -1;
      if (!step.start || step.grid != grid) continue;
      for (const auto& [other, count] : running) {
        if (other != grid && count > 0) beside.insert(other);
      }
    }
    return beside;
  }

  KernelRunner runner_;
  DeviceAddress data_ = 0;
  Config config_ = *LoadConfig("tiny");
  std::map<GridId, GridResult> results_;
  std::vector<Step> steps_;
  std::function<void(const GridResult&)> on_end_;
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(SharingTest, FirstComeGoesByArrivalAndPriorityByPriority) {
  for (const Sharing sharing : {kFirstCome, kPriority}) {
    gpu_.reset();
    results_.clear();
    Share(sharing);
    const GridId first = Submit(Work(50, 20));
    const GridId low = Submit(Work(50, 20), {.not_before = 10});
    const GridId high = Submit(Work(50, 20), {.priority = 5, .not_before = 20});
    gpu().Run();
    EXPECT_LT(results_[first].dispatched, results_[low].dispatched);
    EXPECT_EQ(results_[high].dispatched < results_[low].dispatched,
              sharing == kPriority);
  }
}

TEST_F(SharingTest, P2StartsNoOtherBlockUntilTheEventHasEnded) {
  Share(kP2);
  const GridId background = Submit(Work(50, 60), {.priority = 7});
  const GridId event =
      Submit(Work(400, 1), {.not_before = 2000, .event = true});
  gpu().Run();
  ASSERT_EQ(results_.size(), 2u);
  for (const Step& step : steps_) {
    if (step.grid != background || !step.start) continue;
    EXPECT_FALSE(step.cycle > results_[event].arrived &&
                 step.cycle < results_[event].completed)
        << step.cycle;
  }
  EXPECT_GT(results_[background].completed, results_[event].completed);
}

TEST_F(SharingTest, AReservationKeepsEachSideOnItsSms) {
  config_.sm.count = 3;
  Share(kReservation, 1);
  const GridId background = Submit(Work(50, 40));
  Submit(Work(50, 9), {.event = true});
  gpu().Run();
  ASSERT_EQ(results_.size(), 2u);
  for (const Step& step : steps_) {
    EXPECT_EQ(step.grid == background, step.sm != 2) << step.sm;
  }
  EXPECT_EQ(gpu().SetSharing(kReservation, 3).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SharingTest, ExclusiveRunsNoTwoDevicesTogetherAndEndsWhatHasBegun) {
  Share(kExclusive);
  std::vector<GridId> grids;
  for (uint64_t i = 0; i < 12; ++i) {
    grids.push_back(Submit(Work(300, 20), {.device = 1 + i % 2}));
  }
  gpu().Run();
  ASSERT_EQ(results_.size(), grids.size());
  for (size_t i = 0; i < grids.size(); ++i) {
    for (const GridId other : BesideStartsOf(grids[i])) {
      EXPECT_EQ((other - grids[0]) % 2, i % 2);
    }
  }
}

TEST_F(SharingTest, GpesGivesTheGpuToOneSliceAtATimeTheMostUrgentNext) {
  Share(kGpes);
  const GridId low = Submit(Work(100, 50));
  const GridId high = Submit(Work(100, 10), {.priority = 1, .not_before = 500});
  gpu().Run(400);
  EXPECT_EQ(gpu().progress(low)->slices, 0u);
  gpu().Run();
  ASSERT_EQ(results_.size(), 2u);
  EXPECT_TRUE(BesideStartsOf(low).empty());
  EXPECT_TRUE(BesideStartsOf(high).empty());
  EXPECT_LT(results_[high].completed, results_[low].completed);
  EXPECT_GT(results_[high].dispatched, results_[low].dispatched);
  EXPECT_EQ(threads_that_ran(), 60u * 32);
  // 2 SMs of 4 blocks: after each 8 blocks of the low one it stands empty.
  uint64_t started = 0;
  int running = 0;
  for (const Step& step : steps_) {
    if (step.grid != low) continue;
    EXPECT_TRUE(!step.start || running != 0 || started % 8 == 0) << started;
    started += step.start;
    running += step.start ? 1 : -1;
    EXPECT_LE(running, 8);
  }
}

TEST_F(SharingTest, SlicesOfAOneBlockGridAreOneAndLeaveTheGpuToIt) {
  Share(kGpes);
  const GridId one = Submit(Work(100, 1));
  const GridId next = Submit(Work(100, 1));
  gpu().Run();
  ASSERT_EQ(results_.size(), 2u);
  EXPECT_TRUE(BesideStartsOf(one).empty());
  EXPECT_TRUE(BesideStartsOf(next).empty());
  EXPECT_EQ(threads_that_ran(), 2u * 32);
}

TEST_F(SharingTest,
       BlocksThatWaitForEachOtherHaveOneSliceAlsoWhenHalfHaveBegun) {
  Share(kFirstCome);
  const GridId before = Submit(Work(100, 4));
  Launch launch =
      runner_.MakeLaunch("meet", {8, 1, 1}, {32, 1, 1}, {data_ + 8}, {8 * 32});
  launch.grid_workspace = 1;
  const GridId meeting = Submit(launch, {.not_before = 10});
  const GridId urgent = Submit(Work(1, 8), {.priority = 7, .not_before = 20});
  while (gpu().progress(meeting)->started == 0) gpu().Run(gpu().cycle() + 1);
  Share(kGpes);
  gpu().Run(100'000);
  EXPECT_TRUE(results_.contains(before));
  EXPECT_TRUE(results_.contains(meeting));
  EXPECT_TRUE(results_.contains(urgent));
}

TEST_F(SharingTest, WithAPreemptionTechniqueTheConfigurationDecides) {
  config_.preemption.technique = PreemptionTechnique::kDrain;
  EXPECT_EQ(gpu().SetSharing(kGpes, 0).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(gpu().SetSharing(kConfigured, 0).ok());
}

TEST_F(SharingTest,
       WhateverIsSwitchedWhenEachBlockRunsOnceAndEachGridEndsOnce) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t below) {
      return static_cast<uint32_t>(random() % below);
    };
    gpu_.reset();
    results_.clear();
    config_.sm.count = 2 + pick(3);
    config_.dispatch.grids = 2 + pick(8);
    runner_.At<uint32_t>(data_, 1)[0] = 0;
    uint32_t threads = 0;
    std::map<GridId, uint64_t> blocks;
    const uint32_t wanted = 10 + pick(30);
    for (uint32_t i = 0; i < wanted; ++i) {
      const uint32_t count = 1 + pick(16);
      const uint32_t block = 32u << pick(3);
      threads += count * block;
      const GridId grid =
          Submit(Work(1 + pick(60), count, block), {.priority = pick(8),
                                                    .not_before = pick(6000),
                                                    .event = pick(2) == 0,
                                                    .device = pick(3),
                                                    .weight = 1 + pick(3)});
      blocks[grid] = count;
    }
    for (int step = 0; step < 60; ++step) {
      gpu().Run(gpu().cycle() + 1 + pick(400));
      Share(kAll[pick(std::size(kAll))]);
    }
    gpu().Run();
    ASSERT_EQ(results_.size(), blocks.size()) << "seed " << seed;
    for (const auto& [grid, result] : results_) {
      ASSERT_TRUE(result.status.ok()) << result.status << ", seed " << seed;
      ASSERT_EQ(result.blocks, blocks[grid]) << "seed " << seed;
    }
    ASSERT_EQ(threads_that_ran(), threads) << "seed " << seed;
  }
}

// It is a slice and the rest of one, a turn, a side of a reservation; and it is on
// an SM when the policy changes, or has not begun.
TEST_F(SharingTest, AGridOfOneBlockRunsOnceUnderEveryPolicyAndChange) {
  for (const Sharing from : kAll) {
    for (const Sharing to : kAll) {
      for (const bool has_begun : {false, true}) {
        SCOPED_TRACE(static_cast<int>(from) * 100 + static_cast<int>(to));
        gpu_.reset();
        results_.clear();
        runner_.At<uint32_t>(data_, 1)[0] = 0;
        Share(from);
        const GridId alone = Submit(Work(60, 1));
        const GridId event = Submit(Work(60, 1), {.event = true, .device = 1});
        while (has_begun && gpu().progress(alone)->started == 0) {
          gpu().Run(gpu().cycle() + 1);
        }
        EXPECT_EQ(gpu().progress(alone)->slices, 0u) << "it has not ended";
        Share(to);
        const GridId large = Submit(Work(20, 30), {.device = 2});
        const GridId behind = Submit(Work(60, 1), {.priority = 7, .device = 1});
        gpu().Run();
        ASSERT_EQ(results_.size(), 4u);
        for (const GridId one : {alone, event, behind}) {
          EXPECT_TRUE(results_[one].status.ok()) << results_[one].status;
          EXPECT_EQ(results_[one].blocks, 1u);
        }
        EXPECT_EQ(results_[large].blocks, 30u);
        EXPECT_EQ(threads_that_ran(), 33u * 32);
      }
    }
  }
}

// One grid of large blocks beside small and urgent ones of another device that
// never stop coming.
TEST_F(SharingTest, ALargeBlockIsNotKeptOutForEver) {
  // There is always a small block that is ready.
  config_.dispatch.grids = 64;
  for (const Sharing sharing :
       {kFirstCome, kReservation, kDynamicReservation, kExclusive}) {
    gpu_.reset();
    results_.clear();
    Share(sharing);
    // Of many lengths, so that an SM does not happen to stand empty.
    uint32_t made = 0;
    const auto flood = [this, &made] {
      Submit(Work(20 + 7 * (++made % 17), 1),
             {.priority = 7, .not_before = gpu().cycle(), .device = 2});
    };
    on_end_ = [&](const GridResult& result) {
      if (result.blocks == 1) flood();
    };
    for (int i = 0; i < 40; ++i) flood();
    gpu().Run(3000);
    const GridId large =
        Submit(Work(20, 3, 256), {.not_before = 3000, .device = 1});
    gpu().Run(2'000'000);
    EXPECT_TRUE(results_.contains(large)) << static_cast<int>(sharing);
    on_end_ = nullptr;
    gpu().Run();
  }
}

// A GPU whose kernels are as long as a quantum, and that is one device's at a
// time: what each device has had of it.
class Turns {
 public:
  static constexpr uint64_t kQuantum = 1000;
  struct Client {
    uint32_t weight = 1;
    bool busy = true;  // else one launch at a time, with nothing between
    bool here = true;
    bool away = false;
    uint64_t ran = 0;
  };

  explicit Turns(std::vector<Client> of) : clients(std::move(of)) {}

  // The next kernel, of whoever's turn it is.
  void RunOne() {
    Look(std::nullopt);
    for (Client& client : clients) client.away = false;
    const auto owner = turns_.owner();
    if (!owner) return Look(std::nullopt);
    Look(*owner);
    now_ += kQuantum;
    ++clients[*owner].ran;
    clients[*owner].away = !clients[*owner].busy;
  }

  std::vector<Client> clients;

 private:
  void Look(std::optional<uint64_t> running) {
    std::vector<DeviceTurns::Party> parties;
    for (uint64_t i = 0; i < clients.size(); ++i) {
      const Client& client = clients[i];
      if (!client.here || client.away) continue;
      const bool begun = running == i;
      parties.push_back({.device = i,
                         .weight = client.weight,
                         .waits = client.busy || !begun,
                         .begun = begun});
    }
    turns_.Advance(now_, parties);
  }

  DeviceTurns turns_{kQuantum};
  uint64_t now_ = 0;
};

TEST(DeviceTurnsTest, TimeThatNobodyElseWantedIsNotPaidBack) {
  Turns turns({Turns::Client{}, Turns::Client{.here = false}});
  for (int i = 0; i < 10'000; ++i) turns.RunOne();
  ASSERT_EQ(turns.clients[0].ran, 10'000u);
  turns.clients[1].here = true;
  for (int i = 0; i < 20; ++i) turns.RunOne();
  EXPECT_GE(turns.clients[0].ran, 10'009u);
  EXPECT_GE(turns.clients[1].ran, 9u);
}

TEST(DeviceTurnsTest, NorIsThatOfALongLaunchFromBeforeTheOtherCame) {
  DeviceTurns turns(100);
  using Party = DeviceTurns::Party;
  turns.Advance(0, std::vector{Party{.device = 1, .waits = true}});
  turns.Advance(0, std::vector{Party{.device = 1, .begun = true}});
  ASSERT_EQ(turns.owner(), 1u);
  const Party both[] = {{.device = 1, .begun = true},
                        {.device = 2, .waits = true}};
  turns.Advance(1'000'000, both);
  // It ends at once, and both want the GPU from now on.
  uint64_t now = 1'000'010;
  uint64_t had[3] = {};
  for (int i = 0; i < 100; ++i) {
    turns.Advance(now, std::vector{Party{.device = 1, .waits = true},
                                   Party{.device = 2, .waits = true}});
    ASSERT_TRUE(turns.owner());
    ++had[*turns.owner()];
    now += 10;
  }
  EXPECT_GE(had[1], 40u);
  EXPECT_GE(had[2], 40u);
}
TEST(DeviceTurnsTest, OneLaunchAtATimeIsChargedByItsDevicesWeight) {
  Turns turns({Turns::Client{.weight = 100, .busy = false}, Turns::Client{},
               Turns::Client{}});
  for (int i = 0; i < 1000; ++i) turns.RunOne();
  // Whoever is there when it has nothing has the next kernel.
  EXPECT_GE(turns.clients[0].ran, 450u);
  EXPECT_GE(turns.clients[1].ran, 200u);
  EXPECT_GE(turns.clients[2].ran, 200u);
}

}  // namespace
}  // namespace carillon::sim::timing
