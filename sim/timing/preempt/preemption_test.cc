// Blocks that make room for a grid of higher priority: what each technique does
// with them, and what the unusual cases come to.
#include "sim/timing/preempt/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using testing::HasSubstr;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64

// out[thread] = times, after so many turns. It stores at the end only.
.visible .entry quiet(.param .u64 out, .param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [times];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  mul.wide.u32 %d1, %r2, 4;
  add.u64 %d0, %d0, %d1;
  mov.u32 %r1, 0;
again:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  st.global.u32 [%d0], %r1;
  ret;
}

// out[thread] += 1, times times: never the same twice, so not to be flushed.
.visible .entry counts(.param .u64 out, .param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [times];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  mul.wide.u32 %d1, %r2, 4;
  add.u64 %d0, %d0, %d1;
  mov.u32 %r1, 0;
again:
  ld.global.u32 %r5, [%d0];
  add.u32 %r5, %r5, 1;
  st.global.u32 [%d0], %r5;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  ret;
}

// As quiet, but the count is in shared memory, of which a block has 1 KB.
.visible .entry shares(.param .u64 out, .param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  .shared .align 16 .b8 words[1024];
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [times];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  mul.wide.u32 %d1, %r2, 4;
  add.u64 %d0, %d0, %d1;
  mov.u32 %r5, words;
  mad.lo.u32 %r5, %r4, 4, %r5;
again:
  ld.shared.u32 %r1, [%r5];
  add.u32 %r1, %r1, 1;
  st.shared.u32 [%r5], %r1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  st.global.u32 [%d0], %r1;
  ret;
}
)";

class PreemptionTest : public testing::Test {
 protected:
  static constexpr uint32_t kBlocks = 8;
  static constexpr uint32_t kThreads = 64;

  PreemptionTest() : config_(*LoadConfig("tiny")) {
    runner_.Load(kKernels);
    low_ = runner_.Allocate(kBlocks * kThreads * 4);
    high_ = runner_.Allocate(16 * kThreads * 4);
    config_.preemption.technique = PreemptionTechnique::kSwitch;
    config_.dispatch.host_cycles = 10;
    // All blocks advance alike.
    config_.scheduler.policy = SchedulerPolicy::kLrr;
  }

  // `tiny` has one SM of 4 blocks, 8 warps.
  Launch Low(const char* kernel, uint32_t times, uint32_t blocks = kBlocks) {
    return runner_.MakeLaunch(kernel, {blocks, 1, 1}, {kThreads, 1, 1}, {low_},
                              {times});
  }
  Launch High(uint32_t blocks = 4, uint32_t times = 20) {
    return runner_.MakeLaunch("quiet", {blocks, 1, 1}, {kThreads, 1, 1},
                              {high_}, {times});
  }
  void ExpectLow(uint32_t value, uint32_t blocks = kBlocks) {
    for (const uint32_t word : runner_.At<uint32_t>(low_, blocks * kThreads)) {
      ASSERT_EQ(word, value);
    }
  }
  void ExpectHigh(uint32_t value = 20, uint32_t blocks = 4) {
    for (const uint32_t word : runner_.At<uint32_t>(high_, blocks * kThreads)) {
      ASSERT_EQ(word, value);
    }
  }
  void ExpectNothingLeft(const Gpu& gpu) {
    for (uint32_t i = 0; i < gpu.config().sm.count; ++i) {
      EXPECT_EQ(gpu.sm(i).free(), ContextsOfSm(gpu.config()));
      EXPECT_EQ(gpu.sm(i).warps().used, 0u);
      EXPECT_EQ(gpu.sm(i).warps().held, 0u);
      EXPECT_TRUE(gpu.sm(i).block_switch()->idle());
      EXPECT_EQ(gpu.sm(i).block_switch()->favored(), nullptr);
    }
  }

  // Runs until nothing is left, and expects that all went well.
  void Finish(Gpu& gpu, std::vector<GridId> grids) {
    EXPECT_TRUE(gpu.Run());
    for (const GridId grid : grids) {
      EXPECT_TRUE(gpu.result(grid)->status.ok()) << gpu.result(grid)->status;
    }
    ExpectNothingLeft(gpu);
  }
  // The low grid from cycle 0, and the high one at `at`, announced before.
  struct Both {
    GridId low = 0;
    GridId high = 0;
  };
  Both Announced(Gpu& gpu, const Launch& low, Cycle announced, Cycle at) {
    Both both;
    both.low = *gpu.Submit(low, {});
    SubmitOptions options{.priority = 1, .not_before = at};
    options.announcement = *gpu.Announce(High(), options, announced);
    both.high = *gpu.Submit(High(), options);
    return both;
  }
  const ProgramFunction* Kernel(const char* name) {
    return runner_.program().FindEntry(name);
  }
  static uint64_t CountOf(const PreemptionRecord& record, PreemptionCase way) {
    return static_cast<uint64_t>(
        std::ranges::count(record.blocks, way, &PreemptedBlock::way));
  }

  KernelRunner runner_;
  Config config_;
  DeviceAddress low_ = 0;
  DeviceAddress high_ = 0;
};

TEST_F(PreemptionTest, ABlockIsSwitchedOutAndIn) {
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  Finish(gpu, {low, high});
  ExpectLow(1000);
  ExpectHigh();
  ASSERT_EQ(gpu.preemption()->records().size(), 1u);
  const PreemptionRecord& record = gpu.preemption()->records()[0];
  EXPECT_EQ(record.grid, high);
  EXPECT_EQ(record.arrived, 2000u);
  EXPECT_EQ(record.blocks.size(), 4u);
  EXPECT_EQ(gpu.preemption()->counters().switched, 4u);
  EXPECT_EQ(gpu.preemption()->counters().restored, 4u);
  EXPECT_GE(gpu.result(high)->dispatched, record.blocks[0].left);
  EXPECT_LT(gpu.result(high)->completed, gpu.result(low)->completed);
}

TEST_F(PreemptionTest, ASwitchSendsTheWholeContextToMemoryAndLoadsItAgain) {
  const auto totals = [&](bool preempted) {
    Gpu gpu(config_, &runner_.memory(), {});
    std::vector<GridId> grids = {*gpu.Submit(Low("shares", 1000), {})};
    grids.push_back(*gpu.Submit(
        High(), {.priority = preempted ? 1u : 0u, .not_before = 2000}));
    Finish(gpu, grids);
    uint64_t lines = 0;
    for (const PreemptionRecord& record : gpu.preemption()->records()) {
      for (const PreemptedBlock& block : record.blocks) {
        lines += block.saved.base;
      }
    }
    const SmCounters total = Total(gpu.statistics());
    return std::array<uint64_t, 3>{
        lines, total.l1_stores,
        total.l1_load_hits + total.l1_load_misses + total.l1_loads_past};
  };
  const auto alone = totals(false);
  const auto preempted = totals(true);
  const Contexts block = ContextsOfBlock(Low("shares", 1), 0, config_);
  const uint64_t lines =
      block.registers / 32 + block.warps + block.shared_bytes / 128;
  EXPECT_EQ(alone[0], 0u);
  EXPECT_EQ(preempted[0], 4 * lines);
  EXPECT_EQ(preempted[1] - alone[1], 4 * lines);
  EXPECT_EQ(preempted[2] - alone[2], 4 * lines);
}

TEST_F(PreemptionTest, WithDirtyBitsOnlyWrittenRegistersAreSaved) {
  config_.preemption.dirty = 1;
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  Finish(gpu, {low, high});
  const PreemptionRecord& record = gpu.preemption()->records()[0];
  const uint64_t written =
      2 * (Kernel("quiet")->registers + config_.preemption.control_lines);
  const Contexts block = ContextsOfBlock(Low("quiet", 1), 0, config_);
  ASSERT_LT(written, block.registers / 32);
  EXPECT_EQ(record.blocks[0].saved.base, written);
}

TEST_F(PreemptionTest, ADrainStartsNoBlockOfTheOthers) {
  config_.preemption.technique = PreemptionTechnique::kDrain;
  std::vector<Cycle> starts;
  GridId low = 0;
  Gpu gpu(config_, &runner_.memory(),
          {.observer = [&](const Observation& observation) {
            if (observation.what == Observation::What::kBlockStart &&
                observation.grid == low) {
              starts.push_back(observation.cycle);
            }
          }});
  low = *gpu.Submit(Low("quiet", 1000), {});
  // A block of it does not fit beside two of the others, which end first.
  const Launch wide =
      runner_.MakeLaunch("quiet", {1, 1, 1}, {256, 1, 1}, {high_}, {20});
  const GridId high = *gpu.Submit(wide, {.priority = 1, .not_before = 2000});
  Finish(gpu, {low, high});
  ExpectLow(1000);
  EXPECT_EQ(gpu.preemption()->counters().drained, 4u);
  for (const Cycle start : starts) {
    EXPECT_TRUE(start < 2000 || start >= gpu.result(high)->dispatched) << start;
  }
}

TEST_F(PreemptionTest, ABlockThatWroteNothingIsFlushedAndStartsAgain) {
  config_.preemption.technique = PreemptionTechnique::kFlush;
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  Finish(gpu, {low, high});
  ExpectLow(1000);
  EXPECT_EQ(gpu.preemption()->counters().flushed, 4u);
  EXPECT_EQ(gpu.preemption()->records()[0].vacated, 2000u);
  EXPECT_EQ(gpu.result(low)->blocks, kBlocks);
}

TEST_F(PreemptionTest, ABlockThatHasWrittenIsSwitchedInstead) {
  config_.preemption.technique = PreemptionTechnique::kFlush;
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("counts", 100), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 6000});
  Finish(gpu, {low, high});
  ExpectLow(100);  // a block that ran twice would have counted on
  EXPECT_EQ(gpu.preemption()->counters().flushed, 0u);
  EXPECT_EQ(gpu.preemption()->counters().flushes_refused, 4u);
  EXPECT_EQ(gpu.preemption()->counters().switched, 4u);
}

TEST_F(PreemptionTest, AnSmIsHandedOverAsAWholeOrBlockByBlock) {
  config_.preemption.technique = PreemptionTechnique::kDrain;
  for (const uint32_t whole_sm : {0, 1}) {
    config_.preemption.whole_sm = whole_sm;
    Gpu gpu(config_, &runner_.memory(), {});
    const GridId brief = *gpu.Submit(Low("quiet", 500, 2), {});
    const GridId lasting = *gpu.Submit(Low("quiet", 2000, 2), {});
    const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 500});
    Finish(gpu, {brief, lasting, high});
    ExpectHigh();
    // A block leaves before its store is done.
    const Cycle first = gpu.result(high)->dispatched + 100;
    EXPECT_GE(first, gpu.result(brief)->completed);
    EXPECT_EQ(first >= gpu.result(lasting)->completed, whole_sm == 1) << first;
  }
}

TEST_F(PreemptionTest, ChimeraDrainsWhatMeetsTheDeadline) {
  config_.preemption.technique = PreemptionTechnique::kChimera;
  const auto counters = [&](uint64_t instructions, uint32_t deadline_ns,
                            uint32_t flush) {
    config_.preemption.deadline_ns = deadline_ns;
    config_.preemption.flush = flush;
    Gpu gpu(config_, &runner_.memory(), {});
    EXPECT_TRUE(
        gpu.SetBlockProfile(Kernel("quiet"), {.instructions = instructions})
            .ok());
    const GridId low = *gpu.Submit(Low("quiet", 1000), {});
    const GridId high =
        *gpu.Submit(High(), {.priority = 1, .not_before = 4000});
    Finish(gpu, {low, high});
    ExpectLow(1000);
    return gpu.preemption()->counters();
  };
  // A block has 2 warps and 3 operations a turn: 6,000 and some. A profile that
  // is nearly reached means an early end.
  EXPECT_EQ(counters(500, 100, 0).drained, 4u);
  EXPECT_EQ(counters(6000, 1'000'000, 0).drained, 4u);
  EXPECT_EQ(counters(6000, 100, 0).switched, 4u);
  // Nothing is known: a drain might take for ever.
  EXPECT_EQ(counters(0, 1'000'000, 0).switched, 4u);
  EXPECT_EQ(counters(6000, 100, 1).flushed, 4u);
}

// --- PEP.

class PepTest : public PreemptionTest {
 protected:
  PepTest() {
    config_.preemption.technique = PreemptionTechnique::kPep;
    config_.preemption.trap_ns = 100;
    config_.preemption.predicted_ns = 2000;
    config_.preemption.timeout_ns = 20000;
  }
};

// `quiet` writes one register and a predicate in each turn.
TEST_F(PepTest, AfterTheBaseOnlyWhatChangedIsSaved) {
  Gpu gpu(config_, &runner_.memory(), {});
  const Both both = Announced(gpu, Low("quiet", 1000), 1000, 4000);
  Finish(gpu, {both.low, both.high});
  ExpectLow(1000);
  ExpectHigh();
  EXPECT_EQ(gpu.preemption()->counters().bases, 4u);
  const PreemptionRecord& record = gpu.preemption()->records()[0];
  EXPECT_EQ(CountOf(record, PreemptionCase::kTwoCheckpoints), 4u);
  for (const PreemptedBlock& block : record.blocks) {
    EXPECT_EQ(block.saved.incremental,
              2 * (1 + config_.preemption.control_lines));
    EXPECT_LT(block.saved.incremental, block.saved.base);
    EXPECT_LT(block.incremental_cycles, block.base_cycles);
  }
  EXPECT_EQ(record.announced, 1000u);
}

// A block's 64 words of shared memory lie in two lines, of eight.
TEST_F(PepTest, SharedMemoryIsSavedByWrittenLinesOrWhole) {
  for (const uint32_t by_lines : {1u, 0u}) {
    config_.preemption.shared_lines = by_lines;
    Gpu gpu(config_, &runner_.memory(), {});
    const Both both = Announced(gpu, Low("shares", 400), 1000, 4000);
    Finish(gpu, {both.low, both.high});
    ExpectLow(400);
    const PreemptionRecord& record = gpu.preemption()->records()[0];
    ASSERT_EQ(CountOf(record, PreemptionCase::kTwoCheckpoints), 4u);
    for (const PreemptedBlock& block : record.blocks) {
      EXPECT_EQ(block.saved.shared_written, 2u);
      EXPECT_EQ(block.saved.shared_whole, 8u);
      EXPECT_EQ(
          block.saved.incremental,
          2 * (1 + config_.preemption.control_lines) + (by_lines != 0 ? 2 : 8));
    }
  }
}

TEST_F(PepTest, AKernelThatArrivesDuringTheBaseNeedsNoOther) {
  Gpu gpu(config_, &runner_.memory(), {});
  const Both both = Announced(gpu, Low("quiet", 1000), 1000, 1120);
  Finish(gpu, {both.low, both.high});
  ExpectLow(1000);
  const PreemptionRecord& record = gpu.preemption()->records()[0];
  EXPECT_EQ(CountOf(record, PreemptionCase::kOneCheckpoint), 4u);
  EXPECT_EQ(record.blocks[0].saved.incremental, 0u);
}

TEST_F(PepTest, ShortBlocksDrain) {
  Gpu gpu(config_, &runner_.memory(), {});
  ASSERT_TRUE(gpu.SetBlockProfile(Kernel("quiet"), {.cycles = 50}).ok());
  const Both both = Announced(gpu, Low("quiet", 1000), 1000, 4000);
  Finish(gpu, {both.low, both.high});
  EXPECT_EQ(gpu.preemption()->counters().bases, 0u);
  const PreemptionRecord& record = gpu.preemption()->records()[0];
  EXPECT_EQ(CountOf(record, PreemptionCase::kDrain), 4u);
}

TEST_F(PepTest, WithoutATimeTheInstructionsDecide) {
  Gpu gpu(config_, &runner_.memory(), {});
  ASSERT_TRUE(gpu.SetBlockProfile(Kernel("quiet"), {.instructions = 10}).ok());
  const Both both = Announced(gpu, Low("quiet", 1000), 1000, 4000);
  Finish(gpu, {both.low, both.high});
  EXPECT_EQ(gpu.preemption()->counters().bases, 0u);
}

// The blocks are nearly done when the launch is announced, so they drain. Those
// that start after them are saved when they have run a little.
TEST_F(PepTest, WhatStartsAfterADrainIsSavedInItsTurn) {
  Cycle first_end = kNever;
  {
    Gpu alone(config_, &runner_.memory(),
              {.observer = [&](const Observation& observation) {
                if (observation.what != Observation::What::kBlockEnd) return;
                first_end = std::min(first_end, observation.cycle);
              }});
    Finish(alone, {*alone.Submit(Low("quiet", 1000), {})});
  }
  config_.preemption.predicted_ns = 3000;
  const auto cases = [&](Cycle arrives_after) {
    Gpu gpu(config_, &runner_.memory(), {});
    EXPECT_TRUE(
        gpu.SetBlockProfile(Kernel("quiet"), {.cycles = first_end}).ok());
    const Both both = Announced(gpu, Low("quiet", 1000), first_end - 500,
                                first_end + arrives_after);
    Finish(gpu, {both.low, both.high});
    ExpectLow(1000);
    return gpu.preemption()->records()[0];
  };
  EXPECT_EQ(CountOf(cases(4000), PreemptionCase::kDrainTwoCheckpoints), 4u);
  EXPECT_EQ(CountOf(cases(200), PreemptionCase::kDrainOneCheckpoint), 4u);
}

TEST_F(PepTest, InPlaceTheIncrementalCheckpointStaysOnTheSm) {
  const auto record = [&](uint32_t in_place, uint32_t registers) {
    config_.preemption.in_place = in_place;
    config_.sm.registers = registers;
    Gpu gpu(config_, &runner_.memory(), {});
    const Both both = Announced(gpu, Low("quiet", 1000), 1000, 4000);
    Finish(gpu, {both.low, both.high});
    ExpectLow(1000);
    return gpu.preemption()->records()[0];
  };
  const PreemptionRecord kept = record(1, 8192);
  const PreemptionRecord sent = record(0, 8192);
  for (const PreemptedBlock& block : kept.blocks) {
    EXPECT_EQ(block.saved.incremental, 0u);
    EXPECT_EQ(block.saved.in_place, sent.blocks[0].saved.incremental);
  }
  EXPECT_LT(kept.vacated, sent.vacated);
  // The four blocks of the new grid need all registers: none may be kept back.
  const Contexts block = ContextsOfBlock(High(), 0, config_);
  config_.sm.shared_bytes = 0;
  const PreemptionRecord full = record(1, 4 * block.registers);
  for (const PreemptedBlock& one : full.blocks) {
    EXPECT_EQ(one.saved.in_place, 0u);
    EXPECT_NE(one.saved.incremental, 0u);
  }
}

TEST_F(PepTest, ALaunchThatNeverArrivesIsCountedAndForgotten) {
  config_.preemption.timeout_ns = 3000;
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  ASSERT_TRUE(gpu.Announce(High(), {.priority = 1}, 1000).ok());
  Finish(gpu, {low});
  ExpectLow(1000);
  EXPECT_EQ(gpu.preemption()->counters().bases, 4u);
  EXPECT_EQ(gpu.preemption()->counters().launches_lost, 1u);
  EXPECT_EQ(gpu.preemption()->counters().bases_unused, 4u);
  EXPECT_TRUE(gpu.preemption()->records().empty());
}

// What was saved for it still serves.
TEST_F(PepTest, ALaunchThatArrivesTooLateIsOneWithoutAnnouncement) {
  config_.preemption.timeout_ns = 1000;
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  SubmitOptions options{.priority = 1};
  options.announcement = *gpu.Announce(High(), options, 1000);
  gpu.Run(4000);
  const GridId high = *gpu.Submit(High(), options);
  Finish(gpu, {low, high});
  ExpectLow(1000);
  EXPECT_EQ(gpu.preemption()->counters().launches_lost, 1u);
  EXPECT_EQ(gpu.preemption()->counters().launches_late, 1u);
  EXPECT_EQ(
      CountOf(gpu.preemption()->records()[0], PreemptionCase::kTwoCheckpoints),
      4u);
}

TEST_F(PepTest, ALaunchThatArrivesBeforeTheTrapIsSavedOnce) {
  config_.preemption.trap_ns = 500;
  Gpu gpu(config_, &runner_.memory(), {});
  const Both both = Announced(gpu, Low("quiet", 1000), 1000, 1200);
  Finish(gpu, {both.low, both.high});
  EXPECT_EQ(gpu.preemption()->counters().launches_early, 1u);
  EXPECT_EQ(gpu.preemption()->counters().bases, 0u);
  EXPECT_EQ(
      CountOf(gpu.preemption()->records()[0], PreemptionCase::kOneCheckpoint),
      4u);
}

TEST_F(PepTest, ALaunchThatFitsPreemptsNobody) {
  Gpu gpu(config_, &runner_.memory(), {});
  const Both both = Announced(gpu, Low("quiet", 1000, 1), 1000, 4000);
  gpu.Run(1);
  // Three blocks' room is left, and one block more would not fit.
  Finish(gpu, {both.low, both.high});
  EXPECT_EQ(gpu.preemption()->records().size(), 1u);
  Gpu roomy(config_, &runner_.memory(), {});
  const GridId low = *roomy.Submit(Low("quiet", 1000, 1), {});
  SubmitOptions options{.priority = 1, .not_before = 4000};
  options.announcement = *roomy.Announce(High(3), options, 1000);
  const GridId high = *roomy.Submit(High(3), options);
  Finish(roomy, {low, high});
  EXPECT_EQ(roomy.preemption()->counters().launches_fit, 1u);
  EXPECT_TRUE(roomy.preemption()->records().empty());
}

TEST_F(PepTest, AnAnnouncementIsForOneLaunch) {
  Gpu gpu(config_, &runner_.memory(), {});
  SubmitOptions options{.priority = 1};
  options.announcement = 7;
  EXPECT_EQ(gpu.Submit(High(), options).status().code(),
            absl::StatusCode::kNotFound);
  options.announcement = *gpu.Announce(High(), options, 0);
  EXPECT_TRUE(gpu.Submit(High(), options).ok());
  const auto again = gpu.Submit(High(), options);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(again.status().message(), HasSubstr("another grid"));
  EXPECT_TRUE(gpu.Run());
}

TEST_F(PepTest, WithoutATechniqueNothingCanBeAnnounced) {
  config_.preemption.technique = PreemptionTechnique::kNone;
  Gpu gpu(config_, &runner_.memory(), {});
  const auto id = gpu.Announce(High(), {}, 0);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(id.status().message(), HasSubstr("preemption.technique: none"));
  EXPECT_EQ(gpu.preemption(), nullptr);
}

// --- Things that happen in the middle of it.

// The grid of the highest priority arrives while blocks are saved for another.
TEST_F(PreemptionTest, APreemptionDuringAPreemptionWaitsForIt) {
  const DeviceAddress highest = runner_.Allocate(4 * kThreads * 4);
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high =
      *gpu.Submit(High(4, 500), {.priority = 1, .not_before = 2000});
  const GridId last = *gpu.Submit(
      runner_.MakeLaunch("quiet", {4, 1, 1}, {kThreads, 1, 1}, {highest}, {7}),
      {.priority = 2, .not_before = 2040});
  Finish(gpu, {low, high, last});
  ExpectLow(1000);
  ExpectHigh(500);
  for (const uint32_t word : runner_.At<uint32_t>(highest, 4 * kThreads)) {
    ASSERT_EQ(word, 7u);
  }
  EXPECT_GT(gpu.preemption()->counters().waits, 0u);
  EXPECT_LT(gpu.result(last)->completed, gpu.result(high)->completed);
  EXPECT_LT(gpu.result(high)->completed, gpu.result(low)->completed);
}

TEST_F(PreemptionTest, TwoGridsMayWaitForTheSameBlocksToDrain) {
  config_.preemption.technique = PreemptionTechnique::kDrain;
  const DeviceAddress highest = runner_.Allocate(4 * kThreads * 4);
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  const GridId last = *gpu.Submit(
      runner_.MakeLaunch("quiet", {4, 1, 1}, {kThreads, 1, 1}, {highest}, {7}),
      {.priority = 2, .not_before = 2100});
  Finish(gpu, {low, high, last});
  ASSERT_EQ(gpu.preemption()->records().size(), 2u);
  // The first one's blocks are the second one's since its arrival.
  EXPECT_EQ(gpu.preemption()->records()[0].vacated, 2100u);
  EXPECT_EQ(gpu.preemption()->records()[1].blocks.size(), 4u);
  EXPECT_LT(gpu.result(last)->completed, gpu.result(high)->completed);
}

// `tiny` hands out blocks of two grids at a time. A third of a higher priority
// takes the place of one whose blocks it preempts.
TEST_F(PreemptionTest, AGridWaitsForNoPlaceAmongThoseThatItPreempts) {
  ASSERT_EQ(config_.dispatch.grids, 2u);
  const DeviceAddress other = runner_.Allocate(kBlocks * kThreads * 4);
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId low_too =
      *gpu.Submit(runner_.MakeLaunch("quiet", {kBlocks, 1, 1}, {kThreads, 1, 1},
                                     {other}, {1000}),
                  {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  Finish(gpu, {low, low_too, high});
  ExpectLow(1000);
  EXPECT_LT(gpu.result(high)->completed, gpu.result(low)->completed);
}

// Its last operations are under way when it is told to stop.
TEST_F(PreemptionTest, ABlockMayEndWhileItIsStopped) {
  Cycle end = 0;
  {
    Gpu alone(config_, &runner_.memory(), {});
    const GridId low = *alone.Submit(Low("counts", 2, 4), {});
    Finish(alone, {low});
    end = alone.result(low)->completed;
  }
  uint64_t ended = 0;
  for (Cycle at = end - 60; at < end; ++at) {
    std::ranges::fill(runner_.At<uint32_t>(low_, kBlocks * kThreads), 0);
    Gpu gpu(config_, &runner_.memory(), {});
    const GridId low = *gpu.Submit(Low("counts", 2, 4), {});
    const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = at});
    Finish(gpu, {low, high});
    ExpectLow(2, 4);
    ended += gpu.preemption()->counters().ended_stopping;
  }
  EXPECT_GT(ended, 0u);
}

TEST_F(PreemptionTest, AKernelMayBeCancelledDuringItsCheckpoint) {
  for (Cycle at = 2001; at < 2800; at += 40) {
    Gpu gpu(config_, &runner_.memory(), {});
    const GridId low = *gpu.Submit(Low("quiet", 1000), {});
    const GridId high =
        *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
    gpu.Run(at);
    ASSERT_TRUE(gpu.Cancel(low).ok());
    EXPECT_TRUE(gpu.Run());
    EXPECT_EQ(gpu.result(low)->status.code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(gpu.result(high)->status.ok());
    ExpectNothingLeft(gpu);
  }
}

// --- Turns.

TEST_F(PreemptionTest, GridsOfEqualPriorityTakeTurns) {
  for (const uint32_t quantum_ns : {0u, 2000u}) {
    config_.preemption.quantum_ns = quantum_ns;
    Gpu gpu(config_, &runner_.memory(), {});
    const GridId first = *gpu.Submit(Low("quiet", 3000, 4), {});
    const GridId second = *gpu.Submit(High(4, 3000), {.not_before = 100});
    Finish(gpu, {first, second});
    ExpectLow(3000, 4);
    ExpectHigh(3000);
    const GridResult& a = *gpu.result(first);
    const GridResult& b = *gpu.result(second);
    if (quantum_ns == 0) {
      EXPECT_GT(b.dispatched, a.completed / 2);
      EXPECT_EQ(gpu.preemption()->counters().slices, 0u);
      continue;
    }
    EXPECT_LT(b.dispatched, a.completed / 10);
    EXPECT_GT(gpu.preemption()->counters().slices, 3u);
    // Both end late, since both got about half.
    EXPECT_GT(a.completed * 4, b.completed * 3);
  }
}

TEST(BlockProfiles, MeansAreOfGivenAndOfMeasuredBlocks) {
  BlockProfiles profiles;
  ProgramFunction kernel;
  EXPECT_EQ(profiles.LeftByTime(&kernel, 10), kNever);
  EXPECT_EQ(profiles.LeftByInstructions(&kernel, 10, 5), kNever);
  profiles.Set(&kernel, {.cycles = 100});
  EXPECT_EQ(profiles.LeftByTime(&kernel, 30), 70u);
  EXPECT_EQ(profiles.LeftByTime(&kernel, 130), 0u);
  EXPECT_EQ(profiles.LeftByInstructions(&kernel, 10, 5), kNever);
  profiles.Add(&kernel, 200, 40);
  EXPECT_EQ(profiles.Of(&kernel).cycles, 150u);
  EXPECT_EQ(profiles.Of(&kernel).instructions, 40u);
  // 30 instructions are left, at 5 cycles each.
  EXPECT_EQ(profiles.LeftByInstructions(&kernel, 50, 10), 150u);
  EXPECT_EQ(profiles.LeftByInstructions(&kernel, 50, 40), 0u);
  // What is known of many blocks outweighs the few that end first.
  profiles.Set(&kernel, {.cycles = 100, .instructions = 40, .blocks = 9});
  profiles.Add(&kernel, 200, 140);
  EXPECT_EQ(profiles.Of(&kernel).cycles, 110u);
  EXPECT_EQ(profiles.Of(&kernel).instructions, 50u);
  EXPECT_EQ(profiles.Of(&kernel).blocks, 10u);
}

}  // namespace
}  // namespace carillon::sim::timing
