// Cycles of kernels on `tiny`, worked out by hand. Operands take 2 cycles, so
// the result of an operation of latency L can be used L + 2 cycles after its
// issue. Two operations are fetched at once, into an empty i-buffer, in 2
// cycles.
#include "sim/timing/sm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fmt/format.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

constexpr char kHeader[] = R"(
.version 7.0
.target sm_75
.address_size 64
.const .align 4 .b8 table[4096];
.visible .entry k(.param .u64 out, .param .u64 data, .param .u32 stride)
{
  .reg .pred %p<4>;
  .reg .b32 %r<80>;
  .reg .b64 %d<40>;
  .shared .align 16 .b8 shared[8192];
  .local .align 16 .b8 local[64];
)";

class SmTest : public testing::Test {
 protected:
  // So many banks avoid conflicts, which depend on where registers lie.
  SmTest() { config_.operands.banks = 64; }

  // Runs the kernel to its end.
  GridResult Run(const std::string& body, uint32_t threads = 32,
                 uint32_t stride = 0, uint32_t blocks = 1) {
    runner_.Load(kHeader + body + "}\n");
    if (data_ == 0) data_ = runner_.Allocate(1 << 20);
    if (out_ == 0) out_ = runner_.Allocate(1 << 16);
    gpu_ = std::make_unique<Gpu>(config_, &runner_.memory(), Gpu::Options{});
    const auto grid =
        gpu_->Submit(runner_.MakeLaunch("k", {blocks, 1, 1}, {threads, 1, 1},
                                        {out_, data_}, {stride}),
                     {});
    EXPECT_TRUE(grid.ok()) << grid.status();
    EXPECT_TRUE(gpu_->Run());
    const GridResult result = *gpu_->result(*grid);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result;
  }

  // The cycles between reading the clock before `body` and after it, once all
  // of it is in the i-cache. `before` executes once, at first; %d1 is the
  // data's address, %r1 the stride times the lane.
  uint64_t Measure(const std::string& before, const std::string& body,
                   uint32_t stride = 0) {
    Run(R"(
  ld.param.u64 %d0, [out];
  ld.param.u64 %d1, [data];
  ld.param.u32 %r0, [stride];
  mov.u32 %r1, %laneid;
  mul.lo.u32 %r1, %r1, %r0;
)" + before +
            R"(
  mov.u32 %r2, 0;
again:
  mov.u64 %d2, %clock64;
)" + body + R"(
  mov.u64 %d3, %clock64;
  sub.u64 %d4, %d3, %d2;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p0, %r2, 3;
  @%p0 bra again;
  st.global.u64 [%d0], %d4;
  ret;
)",
        32, stride);
    return runner_.At<uint64_t>(out_, 1)[0];
  }
  // How many cycles one more `op` adds, when each depends on the last.
  uint64_t Each(const std::string& before, const std::string& op,
                uint32_t stride = 0) {
    const auto times = [&](int n) {
      std::string body;
      for (int i = 0; i < n; ++i) body += op + "\n";
      return body;
    };
    const uint64_t ten = Measure(before, times(10), stride);
    const uint64_t twenty = Measure(before, times(20), stride);
    EXPECT_EQ((twenty - ten) % 10, 0u) << op;
    return (twenty - ten) / 10;
  }
  SmCounters Counters() { return Total(gpu_->statistics()); }

  Config config_ = *LoadConfig("tiny");
  KernelRunner runner_;
  std::unique_ptr<Gpu> gpu_;
  DeviceAddress data_ = 0;
  DeviceAddress out_ = 0;
};

TEST_F(SmTest, TheFirstOperationWaitsForItsLineOfCode) {
  // The fetch misses at 0, is filled at 64 (memory_system_test), hits there,
  // and is decoded at 66.
  const GridResult result = Run("ret;");
  EXPECT_EQ(result.dispatched, 0u);
  EXPECT_EQ(result.completed, 66u);
  EXPECT_EQ(Counters().icache_misses, 1u);
  EXPECT_EQ(Counters().icache_hits, 1u);
}

TEST_F(SmTest, ABlockEndsWithItsLastResult) {
  // 66: add, 67: ret, 72: the sum.
  EXPECT_EQ(Run("add.u32 %r1, %r1, 1; ret;").completed, 72u);
}

TEST_F(SmTest, AChainWaitsForEachResult) {
  EXPECT_EQ(Each("", "add.u32 %r3, %r3, 1;"), 6u);
  EXPECT_EQ(Each("", "mul.lo.u32 %r3, %r3, 3;"), 8u);
  EXPECT_EQ(Each("", "mad.lo.u32 %r3, %r3, 3, 1;"), 10u);
  EXPECT_EQ(Each("", "div.u32 %r3, %r3, 3;"), 42u);
  EXPECT_EQ(Each("", "add.u64 %d9, %d9, 1;"), 8u);
  EXPECT_EQ(Each("", "shfl.sync.idx.b32 %r3, %r3, 0, 31, -1;"), 10u);
}

TEST_F(SmTest, WithoutHazardsAWarpIsBoundByFetch) {
  // Two operations, and two cycles until the next two, of which the first
  // overlaps with the second operation.
  std::string before, ten, twenty;
  for (int i = 10; i < 30; ++i) {
    before += fmt::format("mov.u32 %r{}, 1;\n", i);
    (i < 20 ? ten : twenty) += fmt::format("add.u32 %r{0}, %r{0}, 1;\n", i);
  }
  EXPECT_EQ(Measure(before, ten + twenty) - Measure(before, ten), 15u);
}

TEST_F(SmTest, AUnitTakesAnOperationEachInterval) {
  config_.fetch.width = 8;
  config_.fetch.buffer = 8;
  std::string before, eight, sixteen;
  for (int i = 10; i < 26; ++i) {
    before += fmt::format("mov.u32 %r{}, 1;\n", i);
    (i < 18 ? eight : sixteen) +=
        fmt::format("mul.lo.u32 %r{0}, %r{0}, 3;\n", i);
  }
  // Eight intervals of 2; the next eight are fetched while the last one runs.
  EXPECT_EQ(Measure(before, eight + sixteen) - Measure(before, eight), 16u);
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kPipeline)], 0u);
}

// mma.m16n8k16 has a latency of 10 and an interval of 4.
constexpr char kMma[] =
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{%r{0}, %r{1}}},\n"
    "{{%r3, %r4, %r5, %r6}}, {{%r7, %r8}}, {{%r{0}, %r{1}}};\n";

TEST_F(SmTest, AProductOfMatricesTakesATensorCore) {
  EXPECT_EQ(Each("", fmt::format(fmt::runtime(kMma), 10, 11)), 12u);
  // An m16n8k8 has half of the work.
  EXPECT_EQ(Each("",
                 "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 "
                 "{%r10, %r11}, {%r3, %r4}, {%r7}, {%r10, %r11};"),
            10u);
  std::string four, eight;
  for (int i = 0; i < 8; ++i) {
    (i < 4 ? four : eight) +=
        fmt::format(fmt::runtime(kMma), 10 + 2 * i, 11 + 2 * i);
  }
  config_.fetch.width = 8;
  config_.fetch.buffer = 8;
  EXPECT_EQ(Measure("", four + eight) - Measure("", four), 4u * 4);
  EXPECT_EQ(Counters().tensor, 3u * 4);
  // Beside it, other units are free.
  EXPECT_EQ(Counters().sp + Counters().tensor + Counters().memory +
                Counters().control,
            Counters().instructions);
}

TEST_F(SmTest, MatricesAreRowsOfSharedMemory) {
  // Every lane of %r1 has the address of its row. A pass has eight rows.
  const auto passes = [&](const std::string& body) {
    Run("mov.u32 %r1, %laneid; shl.b32 %r1, %r1, 4;\n" + body + "\nret;");
    return Counters().shared_passes;
  };
  EXPECT_EQ(passes("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];"),
            1u);
  EXPECT_EQ(passes("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                   "{%r3, %r4, %r5, %r6}, [%r1];"),
            4u);
  EXPECT_EQ(passes("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r1], "
                   "{%r3, %r4};"),
            2u);
  // Rows 128 bytes apart are in the same banks.
  EXPECT_EQ(passes("shl.b32 %r1, %r1, 3;\n"
                   "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];"),
            8u);
  // A fragment of 16 x 16 words.
  EXPECT_EQ(passes("mov.u32 %r1, 0;\nwmma.load.c.sync.aligned.row.m16n16k16."
                   "shared.s32 {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, "
                   "[%r1];"),
            8u);
  // In global memory it is 8 lines of 128 bytes, or 16 if its rows are apart.
  const auto lines = [&](int stride) {
    Run(
        fmt::format("ld.param.u64 %d1, [data];\n"
                    "wmma.load.c.sync.aligned.row.m16n16k16.global.s32 "
                    "{{%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}}, [%d1], {};\n"
                    "ret;",
                    stride));
    return Counters().transactions;
  };
  EXPECT_EQ(lines(16), 8u);
  EXPECT_EQ(lines(64), 16u);
}

// Half of the lanes wait for the others, which come in the next round. An
// operation that waits takes one pass, and touches nothing.
TEST_F(SmTest, LanesThatComeOneByOneLoadTogether) {
  Run(R"(
    mov.u32 %r1, %laneid;
    shl.b32 %r2, %r1, 4;
    mov.u32 %r3, 0;
    setp.lt.u32 %p0, %r1, 16;
    st.shared.u32 [%r2], %r1;
  ROUND:
    setp.eq.u32 %p1, %r3, 0;
    xor.pred %p1, %p1, %p0;
    @%p1 bra NEXT;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r2];
  NEXT:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, 2;
    @%p1 bra ROUND;
    ret;
  )");
  EXPECT_EQ(Counters().shared_operations, 3u);
  EXPECT_EQ(Counters().shared_passes, 4u + 1 + 4);
}

TEST_F(SmTest, CodeBeyondTheICacheIsFetchedAgain) {
  std::string body;
  for (int i = 0; i < 16 * 10; ++i) body += "mov.u32 %r3, 1;\n";
  Measure("", body);
  // Ten lines and more in a loop of three, in a cache of eight.
  EXPECT_GE(Counters().icache_fills, 22u);
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kInstructionCache)],
            20u * 60);
  config_.icache.bytes = 4096;
  Measure("", body);
  EXPECT_LE(Counters().icache_fills, 13u);
}

TEST_F(SmTest, SharedMemoryTakesAPassForEachConflict) {
  for (const uint32_t ways : {1u, 2u, 4u, 8u, 16u, 32u}) {
    // Every lane follows a pointer to itself.
    EXPECT_EQ(Each("st.shared.u32 [%r1], %r1;", "ld.shared.u32 %r1, [%r1];",
                   4 * ways),
              12u + ways - 1)
        << ways;
  }
}

// The SM sleeps while only its LSU works, and issues the next load in the cycle
// in which there is room for it.
TEST_F(SmTest, WarpsThatWaitForTheLsuKeepItBusy) {
  config_.lsu.queue = 1;
  const auto cycles = [&](int loads) {
    std::string body = "mov.u32 %r1, %laneid; shl.b32 %r1, %r1, 4;\n";
    for (int i = 0; i < loads; ++i) {
      body += fmt::format("ld.shared.u32 %r{}, [%r1];\n", 10 + i);
    }
    return Run(body + "ret;", /*threads=*/256).completed;
  };
  // Four passes for each, of eight warps.
  EXPECT_EQ(cycles(16) - cycles(8), 8u * 8 * 4);
}

TEST_F(SmTest, ConstantMemoryTakesAPassForEachWord) {
  for (const uint32_t words : {1u, 2u, 32u}) {
    // The zeros of the table are added to their own index.
    EXPECT_EQ(Each(fmt::format("rem.u32 %r4, %r1, {}; cvt.u64.u32 %d8, %r4; "
                               "mov.u64 %d9, table; add.u64 %d9, %d9, %d8;",
                               8 * words),
                   "ld.const.u64 %d8, [%d9]; add.u64 %d9, %d9, %d8;", 8),
              8u + words - 1 + 8)
        << words;
  }
}

TEST_F(SmTest, ALoadHitsInTheL1) {
  EXPECT_EQ(Each("st.global.u64 [%d1], %d1; mov.u64 %d9, %d1;",
                 "ld.global.u64 %d9, [%d9];"),
            12u);
}

TEST_F(SmTest, AVolatileLoadGoesToTheL2) {
  // 2, 6 there, 20, 7 back with a sector.
  EXPECT_EQ(Each("st.global.u64 [%d1], %d1; mov.u64 %d9, %d1;",
                 "ld.volatile.global.u64 %d9, [%d9];"),
            35u);
}

TEST_F(SmTest, GlobalLoadsGoPastTheL1WhereItIsNotForThem) {
  config_.l1_global_loads = 0;
  EXPECT_EQ(Each("st.global.u64 [%d1], %d1; mov.u64 %d9, %d1;",
                 "ld.global.u64 %d9, [%d9];"),
            35u);
  EXPECT_EQ(Counters().l1_load_hits, 0u);
}

TEST_F(SmTest, LocalMemoryStaysInTheL1) {
  EXPECT_EQ(Each("mov.u64 %d9, local; st.local.u64 [%d9], %d9;",
                 "ld.local.u64 %d9, [%d9];"),
            13u);                                      // two lines of 32 words
  EXPECT_EQ(gpu_->statistics().memory.l2_stores, 1u);  // of the result
}

TEST_F(SmTest, EachLineOfALoadTakesACycle) {
  const auto after = [&](uint32_t stride) {
    return Measure("cvt.u64.u32 %d9, %r1; add.u64 %d9, %d1, %d9;",
                   "ld.global.u32 %r5, [%d9]; add.u32 %r6, %r5, 1;", stride);
  };
  config_.l1.bytes = 32768;
  config_.l1.mshrs = 64;
  config_.l2.bytes = 32768;
  const uint64_t one = after(4);
  EXPECT_EQ(after(8), one + 1);
  EXPECT_EQ(after(32), one + 7);
  EXPECT_EQ(after(128), one + 31);
}

TEST_F(SmTest, LoadsOfALineOnItsWayMerge) {
  const char* body = R"(
    ld.param.u64 %d1, [data];
    ld.global.u32 %r1, [%d1];
    ret;
  )";
  config_.l1.merges = 2;
  Run(body, 64);
  EXPECT_EQ(Counters().l1_load_misses, 2u);
  EXPECT_EQ(Counters().l1_load_merges, 1u);
  EXPECT_EQ(Counters().merge_full_cycles, 0u);
  Run(body, 96);
  EXPECT_EQ(Counters().l1_load_merges, 1u);
  EXPECT_EQ(Counters().l1_load_hits, 1u);  // it waited, and then found it
  EXPECT_GT(Counters().merge_full_cycles, 40u);
}

TEST_F(SmTest, TheMshrsBoundWhatIsOnItsWay) {
  const char* body = R"(
    ld.param.u64 %d1, [data];
    ld.param.u32 %r0, [stride];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, %r0;
    add.u64 %d3, %d1, %d2;
    ld.global.u32 %r2, [%d3];
    ret;
  )";
  Run(body, 4, 128);
  EXPECT_EQ(Counters().l1_load_misses, 4u);
  EXPECT_EQ(Counters().mshr_full_cycles, 0u);
  Run(body, 5, 128);
  EXPECT_EQ(Counters().l1_load_misses, 5u);
  EXPECT_GT(Counters().mshr_full_cycles, 40u);
}

TEST_F(SmTest, StoresThatAreNotAcknowledgedAreBounded) {
  const char* body = R"(
    ld.param.u64 %d1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 128;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r1;
    ret;
  )";
  Run(body, 4);
  EXPECT_EQ(Counters().stores_full_cycles, 0u);
  Run(body, 5);
  EXPECT_GT(Counters().stores_full_cycles, 20u);
}

TEST_F(SmTest, AFullQueueOfTheNetworkHoldsUpTheLsu) {
  const char* body = R"(
    ld.param.u64 %d1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 128;
    add.u64 %d3, %d1, %d2;
    st.global.u32 [%d3], %r1;
    ret;
  )";
  Run(body, 4);
  EXPECT_EQ(Counters().network_full_cycles, 0u);
  // A store of a sector takes 64 cycles of the port. The first is on its way at
  // once, and the second waits in the queue until 64. The third asks at 2, and
  // the SM hears at 65 that there is room; the fourth asks at 66 and has room
  // at 129.
  config_.interconnect.sm_queue = 1;
  config_.interconnect.request_bytes = 1;
  Run(body, 4);
  EXPECT_EQ(Counters().network_full_cycles, 63u + 63);
  // Loads and what the L1 puts out wait in the same way.
  Run(R"(
    ld.param.u64 %d1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 128;
    add.u64 %d3, %d1, %d2;
    ld.global.u32 %r2, [%d3];
    ret;
  )",
      4);
  EXPECT_GT(Counters().network_full_cycles, 60u);
}

TEST_F(SmTest, AFenceWaitsForTheAcknowledgement) {
  // The store follows the clock by 1, takes 2 + 7 + 20 + 6.
  EXPECT_EQ(Measure("", "st.global.u32 [%d1], %r1; membar.gl;"), 36u);
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kMemoryBarrier)], 60u);
  EXPECT_LT(Measure("", "st.global.u32 [%d1], %r1;"), 5u);
}

TEST_F(SmTest, SleepTakesItsTime) {
  // At 1 GHz.
  EXPECT_EQ(Measure("", "nanosleep.u32 100;"), 101u);
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kSleep)], 290u);
}

TEST_F(SmTest, NobodyPassesABarrierBeforeTheLastComes) {
  Run(R"(
    ld.param.u64 %d0, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 16;
    add.u64 %d0, %d0, %d1;
    setp.lt.u32 %p0, %r1, 96;
    @%p0 bra short;
    mov.u32 %r3, 1000;
    div.u32 %r3, %r3, 3;
    div.u32 %r3, %r3, 3;
    div.u32 %r3, %r3, 3;
    add.u32 %r3, %r3, 1;
    add.u32 %r3, %r3, 1;
  short:
    mov.u64 %d2, %clock64;
    bar.sync 0;
    mov.u64 %d3, %clock64;
    st.global.u64 [%d0], %d2;
    st.global.u64 [%d0+8], %d3;
    ret;
  )",
      128);
  const auto clocks = runner_.At<uint64_t>(out_, 256);
  const uint64_t last = clocks[96 * 2];
  EXPECT_GT(last, clocks[0] + 120);
  for (uint32_t warp = 0; warp < 4; ++warp) {
    EXPECT_GT(clocks[warp * 64 + 1], last) << warp;
    EXPECT_LT(clocks[warp * 64 + 1], last + 12) << warp;
  }
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kBarrier)], 100u);
}

TEST_F(SmTest, StallsAreNamedByTheirCause) {
  const auto stall = [&](Stall which) {
    return Counters().stalls[static_cast<size_t>(which)];
  };
  Measure("", "div.u32 %r3, %r3, 3; add.u32 %r4, %r3, 1;");
  EXPECT_GE(stall(Stall::kScoreboard), 3 * 39u);
  const uint64_t without = stall(Stall::kLoad);
  Measure("", "ld.volatile.global.u32 %r3, [%d1]; add.u32 %r4, %r3, 1;");
  EXPECT_GE(stall(Stall::kLoad), without + 3 * 32u);
  EXPECT_LT(stall(Stall::kScoreboard), 100u);
}

TEST_F(SmTest, EveryCycleOfASchedulerIsCounted) {
  const GridResult result =
      Run("ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1]; ret;", 64);
  const SmCounters counters = Counters();
  EXPECT_EQ(counters.busy_cycles, result.completed);
  EXPECT_EQ(
      counters.issue_cycles + counters.stall_cycles + counters.idle_cycles,
      counters.busy_cycles);
  EXPECT_EQ(counters.instructions, 6u);
  EXPECT_EQ(counters.thread_instructions, 6u * 32);
  EXPECT_EQ(counters.issue_cycles, 6u);
}

TEST_F(SmTest, GreedyFinishesOneWarpAfterTheOther) {
  config_.fetch.width = 8;
  config_.fetch.buffer = 8;
  // Sixteen operations, a line; then eight that begin the next one.
  std::string body = R"(
    ld.param.u64 %d0, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d1, %r1, 8;
    add.u64 %d0, %d0, %d1;
  )";
  for (int i = 10; i < 16; ++i) body += fmt::format("mov.u32 %r{}, 1;\n", i);
  for (int i = 0; i < 6; ++i) body += "bar.sync 0;\n";
  body += "mov.u64 %d2, %clock64;\n";
  for (int i = 10; i < 16; ++i) {
    body += fmt::format("add.u32 %r{0}, %r{0}, 1;\n", i);
  }
  body += R"(
    mov.u64 %d3, %clock64;
    sub.u64 %d4, %d3, %d2;
    st.global.u64 [%d0], %d4;
    ret;
  )";
  // Both have eight operations in their i-buffers when the first begins.
  config_.scheduler.policy = SchedulerPolicy::kGto;
  Run(body, 64);
  // The clock's 64 bits take the unit for two cycles.
  EXPECT_EQ(runner_.At<uint64_t>(out_, 64)[0], 8u);
  config_.scheduler.policy = SchedulerPolicy::kLrr;
  Run(body, 64);
  EXPECT_GE(runner_.At<uint64_t>(out_, 64)[0], 12u);
}

TEST_F(SmTest, AnOperationThatNoLaneDoesTouchesNoMemory) {
  Run(R"(
    setp.eq.u32 %p0, %r1, 1;
    @%p0 ld.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, 1;
    ret;
  )");
  EXPECT_EQ(Counters().global_operations, 0u);
  EXPECT_EQ(Counters().memory, 1u);
}

// A copy is done when a load would be.
TEST_F(SmTest, AWaitForCopiesWaitsForMemory) {
  const uint64_t load =
      Measure("", "ld.global.u32 %r5, [%d1]; mov.u32 %r6, %r5;");
  EXPECT_EQ(Measure("",
                    "cp.async.ca.shared.global [shared], [%d1], 4; "
                    "cp.async.wait_all;"),
            load);
  EXPECT_LT(Measure("",
                    "cp.async.ca.shared.global [shared], [%d1], 4; "
                    "cp.async.commit_group;"),
            load);
}

TEST_F(SmTest, TheNewestGroupsOfCopiesAreNotWaitedFor) {
  // The first copy finds its line in the L1, and the second never does.
  const auto cycles = [&](const std::string& wait) {
    // None is left of an earlier round.
    Measure("mov.u64 %d9, %d1;",
            "cp.async.wait_all; mov.u64 %d10, %clock64; "
            "cp.async.ca.shared.global [shared], [%d1], 4; "
            "cp.async.commit_group; add.u64 %d9, %d9, 4224; "
            "cp.async.ca.shared.global [shared], [%d9], 4; "
            "cp.async.commit_group;" +
                wait +
                "mov.u64 %d11, %clock64; sub.u64 %d12, %d11, %d10; "
                "st.global.u64 [%d0+8], %d12;");
    return runner_.At<uint64_t>(out_, 2)[1];
  };
  const uint64_t first = cycles("cp.async.wait_group 1;");
  const uint64_t all = cycles("cp.async.wait_group 0;");
  EXPECT_GT(Counters().stalls[static_cast<size_t>(Stall::kLoad)], 40u);
  EXPECT_GT(first, cycles(""));
  EXPECT_GT(all, first + 40);
  // More groups than there are: nothing to wait for.
  EXPECT_LE(cycles("cp.async.wait_group 2;"), first);
}

// Warp 1 waits for warp 0's copy, which arrives when memory has answered.
TEST_F(SmTest, APhaseCompletesWithItsCopies) {
  const auto cycles = [&](const std::string& copy) {
    Run(R"(
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [data];
  mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; setp.gt.u32 %p2, %r1, 31;
  @%p1 bra begun;
  mbarrier.init.shared.b64 [shared], 32;
begun:
  bar.sync 0;
  mov.u64 %d2, %clock64;
  @%p2 bra wait;
)" + copy + R"(
  cp.async.mbarrier.arrive.noinc.shared.b64 [shared];
  ret;
wait:
  mbarrier.try_wait.parity.shared.b64 %p3, [shared], 0;
  @!%p3 bra wait;
  mov.u64 %d3, %clock64; sub.u64 %d4, %d3, %d2; st.global.u64 [%d0], %d4;
  ret;
)",
        64);
    return runner_.At<uint64_t>(out_, 1)[0];
  };
  EXPECT_GT(cycles("cp.async.ca.shared.global [shared+16], [%d1], 4;"),
            cycles("") + 40);
}

}  // namespace
}  // namespace carillon::sim::timing
