#include "sim/timing/op_table.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/timing/kernel_runner.h"
#include "sim/timing/scoreboard.h"

namespace carillon::sim::timing {
namespace {

struct Row {
  const char* text;
  Unit unit;
  OpKind kind;
  uint32_t latency;  // besides the operands'
  uint32_t interval;
};

constexpr char kDeclarations[] = R"(
.version 7.0
.target sm_75
.address_size 64
.const .align 4 .b8 table[64];
.visible .entry k(.param .u64 p)
{
  .reg .pred %p<4>;
  .reg .b16 %h<8>;
  .reg .b32 %r<9>;
  .reg .f32 %f<8>;
  .reg .b64 %d<8>;
  .reg .f64 %e<8>;
  .shared .align 8 .b8 shared[64];
  .local .align 8 .b8 local[64];
)";

TEST(OpTable, OperationsHaveTheirUnitsAndCosts) {
  using enum Unit;
  using enum OpKind;
  // The costs on `tiny`.
  const Row rows[] = {
      {"add.s32 %r1, %r2, 1;", kSp, kArithmetic, 4, 1},
      {"and.b32 %r1, %r2, 1;", kSp, kArithmetic, 4, 1},
      {"setp.lt.s32 %p1, %r2, 1;", kSp, kArithmetic, 4, 1},
      {"selp.f32 %f1, %f2, %f3, %p1;", kSp, kArithmetic, 4, 1},
      {"max.s32 %r1, %r2, 1;", kSp, kArithmetic, 4, 1},
      {"mul.lo.s32 %r1, %r2, 3;", kSp, kArithmetic, 6, 2},
      {"mul.wide.s32 %d1, %r2, 3;", kSp, kArithmetic, 6, 2},
      {"mad.lo.s32 %r1, %r2, 3, 4;", kSp, kArithmetic, 8, 2},
      {"div.u32 %r1, %r2, 3;", kSfu, kArithmetic, 40, 10},
      {"rem.u32 %r1, %r2, 3;", kSfu, kArithmetic, 40, 10},
      {"add.s64 %d1, %d2, 1;", kSp, kArithmetic, 6, 2},
      {"mul.lo.s64 %d1, %d2, 3;", kSp, kArithmetic, 12, 4},
      {"div.u64 %d1, %d2, 3;", kSfu, kArithmetic, 80, 20},
      {"add.f32 %f1, %f2, 0f3F800000;", kSp, kArithmetic, 4, 1},
      {"fma.rn.f32 %f1, %f2, %f3, 0f3F800000;", kSp, kArithmetic, 5, 1},
      {"div.rn.f32 %f1, %f2, 0f3F800000;", kSfu, kArithmetic, 30, 8},
      {"sqrt.rn.f32 %f1, %f2;", kSfu, kArithmetic, 30, 8},
      {"rcp.approx.f32 %f1, %f2;", kSfu, kArithmetic, 20, 8},
      {"sin.approx.f32 %f1, %f2;", kSfu, kArithmetic, 20, 8},
      {"add.f64 %e1, %e2, %e3;", kDp, kArithmetic, 10, 4},
      {"fma.rn.f64 %e1, %e2, %e3, %e4;", kDp, kArithmetic, 12, 4},
      {"div.rn.f64 %e1, %e2, %e3;", kSfu, kArithmetic, 100, 50},
      {"cvt.rn.f32.f64 %f1, %e2;", kDp, kArithmetic, 10, 4},
      {"cvt.rn.f64.s32 %e1, %r2;", kDp, kArithmetic, 10, 4},
      {"mov.f64 %e1, %e2;", kSp, kArithmetic, 6, 2},
      {"mov.u32 %r1, %tid.x;", kSp, kArithmetic, 4, 1},
      {"shfl.sync.down.b32 %r1, %r2, 1, 31, -1;", kSp, kArithmetic, 8, 2},
      {"vote.sync.ballot.b32 %r1, %p1, -1;", kSp, kArithmetic, 8, 2},
      {"ld.param.u64 %d1, [p];", kSp, kArithmetic, 6, 2},
      {"ld.global.u32 %r1, [%d1];", kMemory, kLoad, 0, 1},
      {"ld.shared.u32 %r1, [%r2];", kMemory, kLoad, 0, 1},
      {"ld.const.u32 %r1, [table];", kMemory, kLoad, 0, 1},
      {"ld.local.u32 %r1, [local];", kMemory, kLoad, 0, 1},
      {"st.global.u32 [%d1], %r1;", kMemory, kStore, 0, 1},
      {"atom.global.add.u32 %r1, [%d1], 1;", kMemory, kAtomic, 0, 1},
      {"red.global.add.u32 [%d1], 1;", kMemory, kAtomic, 0, 1},
      {"bar.sync 0;", kNone, kBarrier, 0, 1},
      {"fma.rn.f16 %h1, %h2, %h3, %h4;", kSp, kArithmetic, 5, 1},
      {"add.bf16x2 %r1, %r2, %r3;", kSp, kArithmetic, 4, 1},
      {"tanh.approx.f16x2 %r1, %r2;", kSfu, kArithmetic, 20, 8},
      {"min.s16x2 %r1, %r2, %r3;", kSp, kArithmetic, 4, 1},
      {"vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4;", kSp, kArithmetic, 8, 2},
      {"red.global.add.noftz.f16x2 [%d1], %r1;", kMemory, kAtomic, 0, 1},
      {"ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];", kMemory,
       kLoad, 0, 1},
      {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r3], {%r1};", kMemory,
       kStore, 0, 1},
      {"movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;", kSp, kArithmetic, 8,
       2},
      {"wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%e1}, [%d1];", kMemory,
       kLoad, 0, 1},
      {"wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%d1], {%e1, %e2};",
       kMemory, kStore, 0, 1},
      {"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2},\n"
       "{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2};",
       kTensor, kArithmetic, 10, 4},
      {"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1, %r2},\n"
       "{%r1, %r2}, {%r5}, {%r1, %r2};",
       kTensor, kArithmetic, 8, 2},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32\n"
       "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6},\n"
       "{%f1, %f2, %f3, %f4};",
       kTensor, kArithmetic, 10, 4},
      {"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32\n"
       "{%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r5, %r6},\n"
       "{%r1, %r2, %r3, %r4};",
       kTensor, kArithmetic, 10, 4},
      {"mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%r1, %r2}, {%r1},\n"
       "{%r5}, {%r1, %r2};",
       kTensor, kArithmetic, 7, 1},
      {"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc\n"
       "{%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r5, %r6},\n"
       "{%r1, %r2, %r3, %r4};",
       kTensor, kArithmetic, 10, 4},
      {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%e1, %e2}, {%e3},\n"
       "{%e4}, {%e1, %e2};",
       kTensor, kArithmetic, 14, 8},
      {"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32\n"
       "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, {%r1, %r2}, {%r3, %r4},\n"
       "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};",
       kTensor, kArithmetic, 10, 4},
      {"cp.async.ca.shared.global [%r1], [%d1], 4;", kMemory, kLoad, 0, 1},
      {"cp.async.commit_group;", kNone, kCommitCopies, 0, 1},
      {"cp.async.wait_group 3;", kNone, kAwaitCopies, 0, 1},
      {"cp.async.mbarrier.arrive.shared.b64 [shared];", kNone, kAwaitCopies, 0,
       1},
      {"mbarrier.init.shared.b64 [shared], 1;", kMemory, kAtomic, 0, 1},
      {"mbarrier.arrive.shared.b64 %d1, [shared];", kMemory, kAtomic, 0, 1},
      {"mbarrier.try_wait.shared.b64 %p1, [shared], %d1;", kMemory, kLoad, 0,
       1},
      {"mbarrier.pending_count.b64 %r1, %d1;", kSp, kArithmetic, 4, 1},
      {"bar.warp.sync -1;", kNone, kArithmetic, 0, 1},
      {"membar.gl;", kNone, kFence, 0, 1},
      {"nanosleep.u32 100;", kNone, kSleep, 0, 1},
      {"exit;", kNone, kExit, 0, 1},
      {"ret;", kSp, kControl, 0, 1},
  };
  std::string text = kDeclarations;
  for (const Row& row : rows) text += std::string(row.text) + "\n";
  KernelRunner runner;
  runner.Load(text + "}\n");
  const Config config = *LoadConfig("tiny");
  const auto table = BuildOpTable(runner.program(), config);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_GE(table->size(), std::size(rows));  // and an exit at the end
  for (size_t i = 0; i < std::size(rows); ++i) {
    const OpTiming& op = (*table)[i];
    const Row& row = rows[i];
    EXPECT_EQ(op.unit, row.unit) << row.text;
    EXPECT_EQ(op.kind, row.kind) << row.text;
    EXPECT_EQ(op.interval, row.interval) << row.text;
    // A bank conflict may add to the latency.
    EXPECT_GE(op.latency, config.operands.latency + row.latency) << row.text;
    EXPECT_LE(op.latency, config.operands.latency + row.latency + 2)
        << row.text;
  }
}

TEST(OpTable, RegistersOfOneBankAreReadOneAfterTheOther) {
  KernelRunner runner;
  runner.Load(std::string(kDeclarations) + R"(
    mov.u32 %r1, 1;
    mov.u32 %r2, 2;
    mov.u32 %r3, 3;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mad.lo.s32 %r5, %r1, %r1, %r4;
    add.s32 %r6, %r4, %r5;
    add.s32 %r6, %r6, %r3;
    ret;
  })");
  Config config = *LoadConfig("tiny");
  config.operands.banks = 64;
  EXPECT_EQ((*BuildOpTable(runner.program(), config))[3].latency, 2u + 8);
  config.operands.banks = 1;
  EXPECT_EQ((*BuildOpTable(runner.program(), config))[3].latency, 2u + 8 + 2);
}

TEST(OpTable, KnowsWhatIsReadAndWritten) {
  KernelRunner runner;
  runner.Load(std::string(kDeclarations) + R"(
    setp.eq.u64 %p1, %d1, %d2;
    @%p1 atom.global.cas.b64 %d3, [%d4], %d1, %d2;
    st.global.u64 [%d4], %d3;
    ret;
  })");
  const auto table = *BuildOpTable(runner.program(), *LoadConfig("tiny"));
  EXPECT_EQ(table[0].writes, 1u);
  EXPECT_EQ(table[0].places_used, 5u);
  EXPECT_EQ(table[1].writes, 2u);
  EXPECT_EQ(table[1].places_used, 2u + 2 + 2 + 2 + 1);
  EXPECT_EQ(table[2].writes, 0u);
  EXPECT_EQ(table[2].places_used, 4u);
  Scoreboard board;
  board.Reserve(table[0], false);
  EXPECT_EQ(board.Check(table[1]), Hazard::kRegister);  // its guard
  EXPECT_EQ(board.Check(table[2]), Hazard::kNone);
  board.Reserve(table[1], true);
  EXPECT_EQ(board.Check(table[2]), Hazard::kLoad);
}

TEST(OpTable, VolatileLoadsGoPastTheL1) {
  KernelRunner runner;
  runner.Load(std::string(kDeclarations) + R"(
    ld.global.u32 %r1, [%d1];
    ld.volatile.global.u32 %r1, [%d1];
    ld.relaxed.sys.global.u32 %r1, [%d1];
    ret;
  })");
  const auto table = *BuildOpTable(runner.program(), *LoadConfig("tiny"));
  EXPECT_FALSE(table[0].past_l1);
  EXPECT_TRUE(table[1].past_l1);
  EXPECT_TRUE(table[2].past_l1);
}

}  // namespace
}  // namespace carillon::sim::timing
