// Launch path `edge`'s budget: what one event waits for between the device's
// store to the doorbell and the completion that the device sees, counted in the
// PTX that a GPU gets. Some of the costs are estimates (WireCosts), no count is.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/sim_driver/edge_world.h"
#include "gpu_daemon/backends/cuda/sim_driver/wire_clock.h"

namespace carillon::gpud::cuda {
namespace {

constexpr uint32_t kEvents = 64;

constexpr const char* kNames[kWireSteps] = {
    "host read",      "host write", "system fence", "system release",
    "device release", "acquire",    "L2",           "atomic",
    "shared",         "launch",     "instruction",  "seen"};

// Averages over events that ring at all points of the pollers' round, and the
// slowest of them.
struct Budget {
  WireTrip mean;  // its counts are the largest ones
  double slowest = 0;
  double fastest = 1e9;
};

class EdgeWireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ptx = PtxOfFatbin(CudaModule().data());
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    ptx_ = *std::move(ptx);
    Load(ptx_);
  }
  void Load(const std::string& ptx) {
    auto code = WorldCode::Load(ptx);
    ASSERT_TRUE(code.ok()) << code.status();
    code_ = *std::move(code);
  }

  // As gpud sets it up (EdgePath::Options), with one device.
  static WorldConfig WorldOf(uint32_t blocks) {
    return {.dispatchers = 3,
            .pollers = 2,
            .event_warps = 8,
            .budget = 110,
            .real_budget = 120,
            .devices = 1,
            .rings = 4,
            .launched_blocks = blocks,
            .entries = 64,
            .launch_slots = 32,
            .events = 0,
            .restarts = 0,
            .tracing = false,
            .timed = true};
  }
  Budget Count(bool launched, uint32_t blocks = 2) {
    EdgeWorld world(code_.get(), WorldOf(blocks));
    const auto trips = world.TimeEvents(launched, kEvents);
    EXPECT_TRUE(trips.ok()) << trips.status();
    Budget budget;
    if (!trips.ok()) return budget;
    for (const WireTrip& trip : *trips) {
      for (size_t i = 0; i < kWireSteps; ++i) {
        budget.mean.ns[i] += trip.ns[i] / kEvents;
        budget.mean.counts[i] = std::max(budget.mean.counts[i], trip.counts[i]);
      }
      budget.slowest = std::max(budget.slowest, trip.total());
      budget.fastest = std::min(budget.fastest, trip.total());
    }
    for (size_t i = 0; i < kWireSteps; ++i) {
      fmt::print("{:>16} {:8.0f} ns {:5}\n", kNames[i], budget.mean.ns[i],
                 budget.mean.counts[i]);
    }
    fmt::print("{:>16} {:8.0f} ns, from {:.0f} to {:.0f}\n", "all",
               budget.mean.total(), budget.fastest, budget.slowest);
    return budget;
  }

  const WireCosts costs_;
  std::string ptx_;
  std::unique_ptr<WorldCode> code_;
};

TEST_F(EdgeWireTest, OneWarpInline) {
  const Budget budget = Count(false);
  const WireTrip& mean = budget.mean;
  EXPECT_EQ(mean.Count(WireStep::kHostWrite), 1u);
  EXPECT_EQ(mean.Count(WireStep::kSystemFence), 0u);
  EXPECT_EQ(mean.Count(WireStep::kSystemRelease), 1u);
  EXPECT_LE(mean.host_reads(costs_), 1.25);
  EXPECT_LE(mean.total(), 3000);
}

// An entry is looked at without its doorbell: one that was committed, and has not
// rung, waits for it, for longer than a warp waits for a doorbell at a time.
TEST_F(EdgeWireTest, WhatIsThereEarlyWaitsForItsDoorbell) {
  for (const bool launched : {false, true}) {
    EdgeWorld world(code_.get(), WorldOf(/*blocks=*/1));
    const auto trips = world.TimeEvents(launched, 10, /*early=*/5'000);
    ASSERT_TRUE(trips.ok()) << trips.status();
  }
}

// Blocks that end together cost one more trip, for the last of them to know it.
TEST_F(EdgeWireTest, LaunchedByGraph) {
  for (const uint32_t blocks : {1, 2}) {
    SCOPED_TRACE(blocks);
    const WireTrip mean = Count(true, blocks).mean;
    EXPECT_EQ(mean.Count(WireStep::kHostWrite), 1u);
    EXPECT_EQ(mean.Count(WireStep::kSystemFence), 0u);
    EXPECT_EQ(mean.Count(WireStep::kSystemRelease), 1u);
    // Before the launch; and of each block, if another one may be the last.
    EXPECT_EQ(mean.Count(WireStep::kDeviceRelease), blocks);
    // The frame with its arguments.
    EXPECT_LE(mean.l2_trips(costs_), 1.0);
    EXPECT_LE(mean.host_reads(costs_), 1.25);
    EXPECT_LE(mean.total(), blocks == 1 ? 6300 : 6700);
  }
}

// The status of the only block is in shared memory: its epilogue needs no answer
// from L2.
TEST_F(EdgeWireTest, AKernelOfOneBlockEndsWithoutAnAtomicsResult) {
  const WireTrip one = Count(true, 1).mean;
  const WireTrip several = Count(true, 2).mean;
  EXPECT_LT(one.Ns(WireStep::kAtomic), costs_.l2_atomic);
  EXPECT_GE(several.Ns(WireStep::kAtomic), costs_.l2_atomic);
  EXPECT_LT(one.total(), several.total());
}

// The count itself: what the budget forbids, it finds.
TEST_F(EdgeWireTest, AFullFenceBeforeTheEventIsPublishedIsCounted) {
  if (CUDA_VERSION < 13000) GTEST_SKIP() << "older toolkits know no other";
  const std::string acquire = "fence.acquire.sys;";
  size_t fences = 0;
  for (size_t at = 0; (at = ptx_.find(acquire, at)) != std::string::npos;) {
    ptx_.replace(at, acquire.size(), "fence.acq_rel.sys;");
    ++fences;
  }
  ASSERT_GT(fences, 0u);
  Load(ptx_);
  const Budget budget = Count(false);
  // The poller's, and the event warp's behind the entry.
  EXPECT_EQ(budget.mean.Count(WireStep::kSystemFence), 2u);
  EXPECT_GE(budget.mean.Ns(WireStep::kSystemFence), costs_.release_system);
}

}  // namespace
}  // namespace carillon::gpud::cuda
