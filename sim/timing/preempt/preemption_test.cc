// Blocks that make room for a grid of higher priority: what each technique does
// with them, and what the unusual cases come to.
#include "sim/timing/preempt/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  static constexpr uint32_t kBlocks = 6;
  static constexpr uint32_t kThreads = 64;

  PreemptionTest() : config_(*LoadConfig("tiny")) {
    runner_.Load(kKernels);
    low_ = runner_.Allocate(kBlocks * kThreads * 4);
    high_ = runner_.Allocate(16 * kThreads * 4);
    config_.preemption.technique = PreemptionTechnique::kSwitch;
    config_.dispatch.host_cycles = 10;
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

  KernelRunner runner_;
  Config config_;
  DeviceAddress low_ = 0;
  DeviceAddress high_ = 0;
};

TEST_F(PreemptionTest, ABlockIsSwitchedOutAndIn) {
  Gpu gpu(config_, &runner_.memory(), {});
  const GridId low = *gpu.Submit(Low("quiet", 1000), {});
  const GridId high = *gpu.Submit(High(), {.priority = 1, .not_before = 2000});
  EXPECT_TRUE(gpu.Run());
  EXPECT_TRUE(gpu.result(low)->status.ok()) << gpu.result(low)->status;
  EXPECT_TRUE(gpu.result(high)->status.ok()) << gpu.result(high)->status;
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
  ExpectNothingLeft(gpu);
}

}  // namespace
}  // namespace carillon::sim::timing
