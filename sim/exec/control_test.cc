// Where warps go: divergence, calls, barriers, exits, and what stops a kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

// Runs a kernel in which %t is the thread's index in its block. The value that
// the thread leaves in %o goes to its word of `p`.
class ControlTest : public testing::Test {
 protected:
  absl::Status Load(const std::string& body,
                    const std::string& functions = "") {
    return bench_.Load(
        functions +
        "\n.visible .entry k(.param .u64 p) {\n"
        ".reg .b32 %t, %o, %r<20>, %n; .reg .b64 %rd<9>; .reg .pred %q<9>;\n"
        "mov.u32 %t, %tid.x; mov.u32 %o, 0; mov.u32 %n, 0;\n" +
        body +
        "\nEND: ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %t, 4;\n"
        "add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %o; ret; }");
  }
  absl::Status Launch(uint32_t threads, Dim3 grid = {1, 1, 1}) {
    at_ = bench_.Allocate(4096);
    return bench_.Run("k", grid, {threads, 1, 1}, {at_}).status();
  }
  absl::Status Run(const std::string& body, uint32_t threads = 32,
                   const std::string& functions = "") {
    const absl::Status status = Load(body, functions);
    return status.ok() ? Launch(threads) : status;
  }
  std::string Error(absl::StatusCode code, const std::string& body,
                    uint32_t threads = 32, const std::string& functions = "") {
    const absl::Status status = Run(body, threads, functions);
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
  uint32_t Out(uint32_t thread) {
    return bench_.At<uint32_t>(at_, 1024)[thread];
  }

  Bench bench_;
  DeviceAddress at_ = 0;
};

// --- Divergence. %n counts how often the warp comes by where they meet.

TEST_F(ControlTest, SidesOfABranchMeetAgain) {
  // Four ways, by bits 0 and 1; then all lanes together.
  ASSERT_EQ(
      Run("and.b32 %r1, %t, 1; setp.eq.u32 %q1, %r1, 0;\n"
          "and.b32 %r2, %t, 2; setp.eq.u32 %q2, %r2, 0;\n"
          "@%q1 bra EVEN; @%q2 bra ONE; add.s32 %o, %o, 3; bra ODD;\n"
          "ONE: add.s32 %o, %o, 1; ODD: activemask.b32 %r3; bra JOIN;\n"
          "EVEN: @!%q2 bra TWO; bra EVENS; TWO: add.s32 %o, %o, 2;\n"
          "EVENS: activemask.b32 %r3;\n"
          "JOIN: activemask.b32 %r4; popc.b32 %r3, %r3;\n"
          "popc.b32 %r4, %r4; shl.b32 %r3, %r3, 8; shl.b32 %r4, %r4, 16;\n"
          "or.b32 %o, %o, %r3; or.b32 %o, %o, %r4;"),
      absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t)
    EXPECT_EQ(Out(t), t % 4 | 16 << 8 | 32 << 16);
}

TEST_F(ControlTest, LanesLeaveALoopOneByOneAndMeetBehindIt) {
  // t + 1 rounds; each round all that are left are together.
  ASSERT_EQ(
      Run("mov.u32 %r1, 0;\nLOOP: activemask.b32 %r2; popc.b32 %r2, %r2;\n"
          "add.s32 %o, %o, %r2; add.s32 %r1, %r1, 1;\n"
          "setp.le.u32 %q1, %r1, %t; @%q1 bra LOOP;\n"
          "activemask.b32 %r3; popc.b32 %r3, %r3; shl.b32 %r3, %r3, 16;\n"
          "or.b32 %o, %o, %r3;"),
      absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t sum = 0;
    for (uint32_t round = 0; round <= t; ++round) sum += 32 - round;
    EXPECT_EQ(Out(t), sum | 32 << 16) << t;
  }
}

TEST_F(ControlTest, LoopsWithinLoopsAndWaysOut) {
  // for (i = 0; i < 10; ++i) for (j = 0; j < t; ++j) {
  //   if (j == 5) break; if (i * j == t) goto out; ++o; }
  ASSERT_EQ(Run("mov.u32 %r1, 0;\nI: setp.ge.u32 %q1, %r1, 10; @%q1 bra OUT;\n"
                "mov.u32 %r2, 0;\nJ: setp.ge.u32 %q2, %r2, %t; @%q2 bra NEXT;\n"
                "setp.eq.u32 %q3, %r2, 5; @%q3 bra NEXT;\n"
                "mul.lo.u32 %r3, %r1, %r2; setp.eq.u32 %q4, %r3, %t;\n"
                "@%q4 bra OUT; add.s32 %o, %o, 1; add.s32 %r2, %r2, 1; bra J;\n"
                "NEXT: add.s32 %r1, %r1, 1; bra I;\n"
                "OUT: activemask.b32 %r4; setp.eq.u32 %q5, %r4, -1;\n"
                "@%q5 add.s32 %o, %o, 1000;"),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t count = 1000;
    for (uint32_t i = 0; i < 10; ++i) {
      for (uint32_t j = 0; j < t && j != 5; ++j) {
        if (i * j == t) goto out;
        ++count;
      }
    }
  out:
    EXPECT_EQ(Out(t), count) << t;
  }
}

// --- 128 bits: two registers of 64, and memory, both ways.

TEST_F(ControlTest, MovesSixteenBytesAtOnce) {
  ASSERT_EQ(Run(".shared .align 16 .b8 box[512]; .reg .b128 %w<3>;\n"
                "mov.u64 %rd1, box; mul.wide.u32 %rd2, %t, 16;\n"
                "add.s64 %rd1, %rd1, %rd2; cvt.u64.u32 %rd3, %t;\n"
                "add.s64 %rd4, %rd3, 100; mov.b128 %w0, {%rd3, %rd4};\n"
                "st.shared.b128 [%rd1], %w0; ld.shared.b128 %w1, [%rd1];\n"
                "mov.b128 %w2, %w1; mov.b128 {%rd5, %rd6}, %w2;\n"
                "ld.shared.u32 %r1, [%rd1+8];\n"
                "cvt.u32.u64 %o, %rd6; shl.b32 %o, %o, 8;\n"
                "cvt.u32.u64 %r2, %rd5; add.s32 %o, %o, %r2;\n"
                "shl.b32 %r1, %r1, 20; add.s32 %o, %o, %r1;"),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(Out(t), t + ((t + 100) << 8) + ((t + 100) << 20));
  }
}

// --- The stack: what is allocated between a save and its restore is gone.

TEST_F(ControlTest, ARestoredStackGivesTheSamePlacesAgain) {
  ASSERT_EQ(Run("mad.lo.u32 %r1, %t, 8, 8; cvt.u64.u32 %rd1, %r1;\n"
                "alloca.u64 %rd2, %rd1; st.local.u32 [%rd2], %t;\n"
                "stacksave.u64 %rd3;\n"
                "alloca.u64 %rd4, %rd1; st.local.u32 [%rd4], 7;\n"
                "stackrestore.u64 %rd3;\n"
                "alloca.u64 %rd5, 16; alloca.u64 %rd6, 16;\n"
                "sub.s64 %rd6, %rd6, %rd5; cvt.u32.u64 %r2, %rd6;\n"
                "sub.s64 %rd5, %rd5, %rd4; cvt.u32.u64 %r3, %rd5;\n"
                "shl.b32 %r3, %r3, 16; ld.local.u32 %o, [%rd2];\n"
                "shl.b32 %r2, %r2, 8; add.s32 %o, %o, %r2;\n"
                "add.s32 %o, %o, %r3;"),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(Out(t), t + (16 << 8)) << t;
}

TEST_F(ControlTest, ALoopThatRestoresItsStackMayAllocateForEver) {
  const auto loop = [](const char* restore) {
    return fmt::format(
        "mov.u32 %r1, 0;\nLOOP: stacksave.u64 %rd1; alloca.u64 %rd2, 1024;\n"
        "st.local.u32 [%rd2], %r1; {}\n"
        "add.s32 %r1, %r1, 1; setp.lt.u32 %q1, %r1, 2000; @%q1 bra LOOP;\n"
        "ld.local.u32 %o, [%rd2];",
        restore);
  };
  EXPECT_EQ(Run(loop("stackrestore.u64 %rd1;")), absl::OkStatus());
  EXPECT_EQ(Out(31), 1999u);
  EXPECT_THAT(Run(loop("")).message(), HasSubstr("the stack overflows"));
}

TEST_F(ControlTest, OnlyAnEndThatTheStackHadIsRestored) {
  EXPECT_THAT(Run("mov.u64 %rd1, 1048576; stackrestore.u64 %rd1;").message(),
              HasSubstr("0x100000 is no end of the stack"));
}

// --- Calls by address.

constexpr char kTwice[] =
    ".func (.param .b32 r) twice(.param .b32 a) {\n"
    ".reg .b32 %x; ld.param.b32 %x, [a]; add.s32 %x, %x, %x;\n"
    "st.param.b32 [r], %x; ret; }\n"
    ".func (.param .b32 r) next(.param .b32 a) {\n"
    ".reg .b32 %x; ld.param.b32 %x, [a]; add.s32 %x, %x, 1;\n"
    "st.param.b32 [r], %x; ret; }\n"
    ".func nothing() { ret; }\n"
    ".global .align 8 .u64 table[3] = {twice, next, nothing};\n";

// Calls what is at %rd2 with the thread's index.
constexpr char kCall[] =
    "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %t;\n"
    "PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "call (out), %rd2, (in), PROTO; ld.param.b32 %o, [out]; }\n";

TEST_F(ControlTest, CallsWhatIsAtAnAddress) {
  ASSERT_EQ(Run(std::string("mov.u64 %rd2, twice;\n") + kCall, 32, kTwice),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(Out(t), 2 * t);
}

TEST_F(ControlTest, LanesThatCallDifferentFunctionsMeetBehindTheCall) {
  ASSERT_EQ(Run(std::string("and.b32 %r1, %t, 1; mul.wide.u32 %rd1, %r1, 8;\n"
                            "mov.u64 %rd2, table; add.s64 %rd2, %rd2, %rd1;\n"
                            "ld.global.u64 %rd2, [%rd2];\n"
                            "setp.lt.u32 %q1, %t, 20; @!%q1 bra JOIN;\n") +
                    kCall +
                    "activemask.b32 %r2; popc.b32 %r2, %r2;\n"
                    "shl.b32 %r2, %r2, 8; add.s32 %o, %o, %r2; JOIN:",
                32, kTwice),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(Out(t), t >= 20 ? 0 : (20 << 8) + (t % 2 == 0 ? 2 * t : t + 1));
  }
}

TEST_F(ControlTest, WhatIsNoFunctionIsNotCalled) {
  EXPECT_THAT(Error(absl::StatusCode::kInternal,
                    std::string("mov.u64 %rd2, 0x1234;\n") + kCall, 32, kTwice),
              HasSubstr("there is no function at 0x1234"));
  EXPECT_THAT(
      Error(
          absl::StatusCode::kInternal,
          std::string("mov.u64 %rd2, twice; add.s64 %rd2, %rd2, 8;\n") + kCall,
          32, kTwice),
      HasSubstr("there is no function at"));
  EXPECT_THAT(
      Error(absl::StatusCode::kInternal,
            std::string("mov.u64 %rd2, nothing;\n") + kCall, 32, kTwice),
      HasSubstr("'nothing' has other parameters or results"));
}

TEST_F(ControlTest, AFunctionThatIsRefusedIsNotCalledByItsAddress) {
  const std::string bad =
      ".func bad() { .reg .b32 %r<4>; tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3},\n"
      "[t, {%r0}]; ret; }";
  ASSERT_EQ(Load("mov.u64 %rd1, 0x400000010;\n"
                 "{ P: .callprototype _ (); call %rd1, (), P; }",
                 bad)
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Launch(32).message()),
              HasSubstr("instruction 'tex.1d.v4.s32.s32' is not supported"));
}

TEST_F(ControlTest, NoKernelLaunchesGraphsByItself) {
  EXPECT_THAT(Error(absl::StatusCode::kUnimplemented,
                    "{ .param .b64 exec; .param .b64 stream; .param .b32 r;\n"
                    "st.param.b64 [exec], 0; st.param.b64 [stream], 0;\n"
                    "call (r), cudaGraphLaunch, (exec, stream); }",
                    32,
                    ".extern .func (.param .b32 r) cudaGraphLaunch(\n"
                    ".param .b64 e, .param .b64 s);\n"),
              HasSubstr("'cudaGraphLaunch' is not defined here"));
}

TEST_F(ControlTest, AnEarlyReturnLeavesTheOthers) {
  ASSERT_EQ(Run("mov.u32 %o, 9; setp.lt.u32 %q1, %t, 7; @%q1 ret;\n"
                "setp.eq.u32 %q2, %t, 20; @!%q2 bra ON; exit;\n"
                "ON: activemask.b32 %o;"),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    EXPECT_EQ(Out(t), t < 7 || t == 20 ? 0 : ~0x7fu & ~(1u << 20)) << t;
  }
}

TEST_F(ControlTest, AGuardedBranchThatNobodyTakesGoesOn) {
  ASSERT_EQ(Run("setp.gt.u32 %q1, %t, 100; @%q1 bra END; mov.u32 %o, 1;\n"
                "@!%q1 bra END; mov.u32 %o, 2;"),
            absl::OkStatus());
  EXPECT_EQ(Out(0), 1u);
}

// The loop has no end and is left only by exit; its lanes still meet in it.
TEST_F(ControlTest, SidesMeetInALoopThatNeverEnds) {
  ASSERT_EQ(
      Run("ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %t, 4;\n"
          "add.s64 %rd1, %rd1, %rd2; and.b32 %r1, %t, 1;\n"
          "setp.eq.u32 %q1, %r1, 0; mov.u32 %r2, 0;\n"
          "FOREVER: @%q1 bra SKIP; add.s32 %o, %o, 1;\n"
          "SKIP: bar.sync 0; add.s32 %r2, %r2, 1; setp.lt.u32 %q2, %r2, 5;\n"
          "@%q2 bra FOREVER; st.global.u32 [%rd1], %o; @!%q2 exit;\n"
          "bra FOREVER;"),
      absl::OkStatus());
  EXPECT_EQ(Out(1), 5u);
  EXPECT_EQ(Out(2), 0u);
}

// --- Calls.

constexpr char kFunctions[] =
    ".func (.param .b32 out) fib(.param .b32 n) { .reg .b32 %r<9>;\n"
    ".reg .pred %p; ld.param.b32 %r1, [n]; setp.lt.u32 %p, %r1, 2;\n"
    "@%p bra SMALL; { .param .b32 a; .param .b32 b; sub.s32 %r2, %r1, 1;\n"
    "st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }\n"
    "{ .param .b32 a; .param .b32 b; sub.s32 %r2, %r1, 2;\n"
    "st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }\n"
    "add.s32 %r5, %r3, %r4; st.param.b32 [out], %r5; ret;\n"
    "SMALL: st.param.b32 [out], %r1; ret; }\n"
    ".func (.param .b32 out) odd(.param .b32 n) { .reg .b32 %r<9>;\n"
    ".reg .pred %p; .local .b32 box; ld.param.b32 %r1, [n];\n"
    "st.local.b32 [box], %r1; setp.eq.u32 %p, %r1, 13; @%p exit;\n"
    "activemask.b32 %r2; ld.local.b32 %r3, [box]; popc.b32 %r2, %r2;\n"
    "mad.lo.s32 %r2, %r3, 100, %r2; st.param.b32 [out], %r2; }\n";

std::string Call(const char* function) {
  return fmt::format(
      "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;\n"
      "call (b), {}, (a); ld.param.b32 %o, [b]; }}\n",
      function);
}

TEST_F(ControlTest, EachLaneRecursesAsDeepAsItMust) {
  ASSERT_EQ(Run("rem.u32 %r1, %t, 12;" + Call("fib"), 64, kFunctions),
            absl::OkStatus());
  const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(Out(t), fib[t % 12]) << t;
}

TEST_F(ControlTest, ACallUnderDivergenceIsOfItsLanes) {
  ASSERT_EQ(Run("and.b32 %r2, %t, 1; setp.eq.u32 %q1, %r2, 0; @%q1 bra NO;\n"
                "mov.u32 %r1, %t;" +
                    Call("odd") +
                    "bra MEET; NO: mov.u32 %o, 1; MEET: activemask.b32 %r3;\n"
                    "popc.b32 %r3, %r3; shl.b32 %r3, %r3, 16;\n"
                    "or.b32 %o, %o, %r3;",
                32, kFunctions),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) {
    // Thread 13 left the kernel from within the function.
    EXPECT_EQ(Out(t), t == 13      ? 0
                      : t % 2 == 0 ? 1u | 31 << 16
                                   : (t * 100 + 15) | 31 << 16)
        << t;
  }
}

TEST_F(ControlTest, AnEndlessRecursionOverflowsTheStack) {
  const absl::Status status =
      Run("call deep;", 32,
          ".func deep() { .local .align 16 .b8 x[256]; call deep; ret; }");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("deep: test.ptx:2: call: the stack overflows"));
}

TEST_F(ControlTest, WhatIsCalledMustFit) {
  const std::string f = ".func (.param .b32 r) f(.param .b64 x) { ret; }";
  EXPECT_THAT(std::string(Run("{ .param .b32 a; .param .b32 b;\n"
                              "call (b), f, (a); }",
                              32, f)
                              .message()),
              HasSubstr("parameters 1 of 'f' has 8 bytes, not 4"));
  EXPECT_THAT(std::string(Run("call f;", 32, f).message()),
              HasSubstr("'f' has 1 parameters, not 0"));
  EXPECT_THAT(std::string(Run("call g;", 32, ".extern .func g();").message()),
              HasSubstr("'g' is not defined here"));
}

// --- Barriers.

TEST_F(ControlTest, ABarrierHoldsAllWarpsOfTheBlock) {
  // Each thread reads what its counterpart in another warp wrote.
  ASSERT_EQ(Run(".shared .b32 box[100]; mov.u32 %r1, box; shl.b32 %r2, %t, 2;\n"
                "add.s32 %r3, %r1, %r2; add.s32 %r4, %t, 7;\n"
                "st.shared.u32 [%r3], %r4; bar.sync 0; sub.s32 %r5, 99, %t;\n"
                "shl.b32 %r5, %r5, 2; add.s32 %r5, %r5, %r1;\n"
                "ld.shared.u32 %o, [%r5]; barrier.sync.aligned 3;\n"
                "bar.cta.sync 0;",
                100),
            absl::OkStatus());
  for (uint32_t t = 0; t < 100; ++t) EXPECT_EQ(Out(t), 99 - t + 7);
}

TEST_F(ControlTest, ReductionsCountThreads) {
  ASSERT_EQ(Run("setp.lt.u32 %q1, %t, 37; bar.red.popc.u32 %r1, 1, %q1;\n"
                "bar.red.popc.u32 %r2, 1, !%q1; bar.red.and.pred %q2, 2, %q1;\n"
                "bar.red.or.pred %q3, 2, %q1; setp.lt.u32 %q4, %t, 70;\n"
                "bar.red.and.pred %q5, 2, %q4; mad.lo.s32 %o, %r1, 100, %r2;\n"
                "@%q2 add.s32 %o, %o, 10000; @%q3 add.s32 %o, %o, 20000;\n"
                "@%q5 add.s32 %o, %o, 40000;",
                70),
            absl::OkStatus());
  for (uint32_t t = 0; t < 70; ++t) EXPECT_EQ(Out(t), 37u * 100 + 33 + 60000);
}

TEST_F(ControlTest, ABarrierOfSomeWarpsLeavesTheOthers) {
  // Warps 0 and 1 produce and go on; 2 and 3 wait for all four.
  ASSERT_EQ(Run(".shared .b32 sum; setp.ge.u32 %q1, %t, 64; @%q1 bra WAIT;\n"
                "atom.shared.add.u32 %r1, [sum], 1; bar.arrive 5, 128;\n"
                "bra END;\nWAIT: bar.sync 5, 128; ld.shared.u32 %o, [sum];\n"
                "bar.sync 6, 64;",
                128),
            absl::OkStatus());
  for (uint32_t t = 64; t < 128; ++t) EXPECT_EQ(Out(t), 64u);
}

TEST_F(ControlTest, WarpsThatHaveExitedAreNotWaitedFor) {
  ASSERT_EQ(
      Run("setp.ge.u32 %q1, %t, 32; @%q1 ret; bar.sync 0; mov.u32 %o, 1;", 96),
      absl::OkStatus());
  EXPECT_EQ(Out(31), 1u);
  // They come to the barrier first, and are let go by the exits.
  ASSERT_EQ(Run("setp.lt.u32 %q1, %t, 64; @%q1 bra B; ret; B: bar.sync 0;\n"
                "mov.u32 %o, 1;",
                96),
            absl::OkStatus());
  EXPECT_EQ(Out(63), 1u);
}

// CUDA's `if (i >= n) return;` before __syncthreads() and its like.
TEST_F(ControlTest, LanesThatReturnCountForNoBarrier) {
  ASSERT_EQ(Run("setp.ge.u32 %q1, %t, 40; @%q1 bra END; bar.sync 0;\n"
                "setp.lt.u32 %q2, %t, 33; bar.red.popc.u32 %r1, 0, %q2;\n"
                "bar.red.and.pred %q3, 0, %q2; setp.lt.u32 %q4, %t, 40;\n"
                "bar.red.and.pred %q5, 0, %q4;\n"
                "vote.sync.ballot.b32 %r2, 1, -1; popc.b32 %r2, %r2;\n"
                "mad.lo.s32 %o, %r1, 100, %r2; @%q3 add.s32 %o, %o, 10000;\n"
                "@%q5 add.s32 %o, %o, 20000;",
                64),
            absl::OkStatus());
  for (uint32_t t = 0; t < 64; ++t) {
    EXPECT_EQ(Out(t), t >= 40 ? 0 : 20000 + 3300 + (t < 32 ? 32 : 8)) << t;
  }
}

TEST_F(ControlTest, LanesOfAWarpComeToABarrierFromSeveralPlaces) {
  // Each thread reads what its counterpart wrote, in the other warp.
  const std::string share =
      ".shared .b32 box[64]; mov.u32 %r1, box; shl.b32 %r2, %t, 2;\n"
      "add.s32 %r3, %r1, %r2; add.s32 %r4, %t, 7; st.shared.u32 [%r3], %r4;\n"
      "and.b32 %r5, %t, 3; setp.eq.u32 %q1, %r5, 0; setp.eq.u32 %q2, %r5, 1;\n";
  const std::string read =
      "sub.s32 %r5, 63, %t; shl.b32 %r5, %r5, 2; add.s32 %r5, %r5, %r1;\n"
      "ld.shared.u32 %o, [%r5];";
  for (const char* places :
       {"@%q1 bra ZERO; @%q2 bra ONE; bar.sync 0; bra ALL;\n"
        "ONE: add.s32 %n, %n, 1; bar.sync 0; bra ALL;\n"
        "ZERO: add.s32 %n, %n, 2; bar.sync 0; ALL: ",
        "@%q1 bar.sync 0; @!%q1 bar.sync 0;\n",
        // One of them within a call.
        "@%q1 bra ZERO; call.uni there; bra ALL; ZERO: bar.sync 0; ALL: "}) {
    ASSERT_EQ(
        Run(share + places + read, 64, ".func there() { bar.sync 0; ret; }"),
        absl::OkStatus())
        << places;
    for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(Out(t), 63 - t + 7) << places;
  }
}

// Lanes 0 to 7 wait for 8 to 15, these for the upper half, which returns.
TEST_F(ControlTest, EachExitLetsThoseGoWhoWaitForIt) {
  ASSERT_EQ(Run("setp.ge.u32 %q1, %t, 16; setp.ge.u32 %q2, %t, 8;\n"
                "@%q1 bra HIGH; @%q2 bra MIDDLE;\n"
                "vote.sync.ballot.b32 %o, 1, 0x0000ffff; bra END;\n"
                "MIDDLE: bar.warp.sync 0xffffff00;\n"
                "bar.warp.sync 0x0000ff00; exit;\n"
                "HIGH: nanosleep.u32 20; exit;"),
            absl::OkStatus());
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(Out(t), t < 8 ? 0xffu : 0u) << t;
}

TEST_F(ControlTest, WrongBarriersAreFaults) {
  EXPECT_EQ(Error(absl::StatusCode::kInternal,
                  "setp.eq.u32 %q1, %t, 4; @%q1 bra FOUR;\nbar.sync 0;\n"
                  "bra END; FOUR: bar.sync 1;"),
            "k: test.ptx:8: bar.sync: lanes 0x00000010 wait for lanes "
            "0xffffffef of the warp, which never come; lane 0 of warp 0, block "
            "(0, 0, 0)");
  // Barriers with different results are not copies of each other.
  EXPECT_THAT(Error(absl::StatusCode::kInternal,
                    "setp.eq.u32 %q1, %t, 4; @%q1 bra FOUR;\n"
                    "bar.red.popc.u32 %o, 0, %q1; bra END;\n"
                    "FOUR: bar.red.and.pred %q2, 0, %q1;"),
              HasSubstr("which never come"));
  EXPECT_THAT(
      Error(absl::StatusCode::kInternal, "and.b32 %r1, %t, 1; bar.sync %r1;"),
      HasSubstr("barrier 1, where lane 0 is at barrier 0; lane 1"));
  EXPECT_EQ(Error(absl::StatusCode::kInternal, "bar.sync 16;"),
            "k: test.ptx:6: bar.sync: barrier 16: a block has 16; lane 0 of "
            "warp 0, block (0, 0, 0)");
  EXPECT_THAT(Error(absl::StatusCode::kInternal, "bar.sync 1, 33;"),
              HasSubstr("a barrier for 33 threads: must be a multiple of 32"));
  EXPECT_THAT(Error(absl::StatusCode::kInternal,
                    "setp.lt.u32 %q1, %t, 32; @%q1 bra A; bar.sync 1, 96;\n"
                    "bra END; A: bar.sync 1, 64;",
                    64),
              HasSubstr("barrier 1 for 96 threads, where others wait for 64 "
                        "threads"));
}

TEST_F(ControlTest, WarpsThatWaitForEachOtherAreFound) {
  EXPECT_EQ(
      Error(absl::StatusCode::kAborted,
            "setp.lt.u32 %q1, %t, 32; @%q1 bra A;\nbar.sync 1;\nbra END;\n"
            "A: bar.sync 2;",
            64),
      "k: test.ptx:9: bar.sync: warp 0 of block (0, 0, 0) waits for "
      "warps that never come: they wait at other barriers");
  EXPECT_THAT(Error(absl::StatusCode::kAborted, "bar.sync 1, 64;"),
              HasSubstr("k: test.ptx:6: bar.sync: warp 0"));
}

// --- Kernels that are stopped.

TEST_F(ControlTest, ATrapNamesItsPlace) {
  EXPECT_EQ(Error(absl::StatusCode::kInternal,
                  "setp.eq.u32 %q1, %t, 40;\n@%q1 trap;", 64),
            "k: test.ptx:7: trap: trapped; lane 8 of warp 1, block (0, 0, 0)");
  EXPECT_EQ(Run("setp.eq.u32 %q1, %t, 40; @%q1 trap;"), absl::OkStatus());
}

TEST_F(ControlTest, AnEndlessSpinIsFound) {
  bench_.options.no_progress_limit = 100'000;
  EXPECT_THAT(
      Error(absl::StatusCode::kDeadlineExceeded,
            "ld.param.u64 %rd1, [p];\nSPIN: ld.volatile.global.u32 %r1,\n"
            "[%rd1+4000];\nsetp.eq.u32 %q1, %r1, 0;\n@%q1 bra SPIN;"),
      HasSubstr("k: no progress for "));
  // A lock that is never given back is none, either.
  EXPECT_THAT(Error(absl::StatusCode::kDeadlineExceeded,
                    "ld.param.u64 %rd1, [p]; st.global.u32 [%rd1+4000], 1;\n"
                    "SPIN: atom.global.cas.b32 %r1, [%rd1+4000], 0, 1;\n"
                    "setp.ne.u32 %q1, %r1, 0;\n@%q1 bra SPIN;"),
              HasSubstr("warp 0 of block (0, 0, 0) is at test.ptx:"));
  // Whoever stores gets on.
  EXPECT_EQ(Run("ld.param.u64 %rd1, [p]; SPIN: add.s32 %n, %n, 1;\n"
                "st.global.u32 [%rd1+4000], %n; setp.lt.u32 %q1, %n, 200000;\n"
                "@%q1 bra SPIN;"),
            absl::OkStatus());
}

// What a call passes is no progress, and lets the lanes that are waited for run.
TEST_F(ControlTest, ASpinThatCallsIsNoProgress) {
  const std::string ready =
      ".func (.param .b32 r) ready(.param .b64 at) { .reg .b32 %r; .reg .b64 "
      "%a;\n"
      "ld.param.u64 %a, [at]; ld.volatile.global.u32 %r, [%a];\n"
      "st.param.b32 [r], %r; ret; }";
  const std::string spin =
      "ld.param.u64 %rd1, [p]; setp.eq.u32 %q1, %t, 5; @%q1 bra FIVE;\n"
      "SPIN: { .param .b64 a; .param .b32 r; st.param.b64 [a], %rd1;\n"
      "call (r), ready, (a); ld.param.b32 %o, [r]; }\n"
      "setp.eq.u32 %q2, %o, 0; @%q2 bra SPIN; bra END; FIVE: ";
  bench_.options.no_progress_limit = 10'000'000;
  ASSERT_EQ(Run(spin + "st.volatile.global.u32 [%rd1], 5; bra END;", 32, ready),
            absl::OkStatus());
  EXPECT_NE(Out(6), 0u);
  EXPECT_THAT(
      Error(absl::StatusCode::kDeadlineExceeded, spin + "bra END;", 32, ready),
      HasSubstr("k: no progress for "));
}

TEST_F(ControlTest, ABlockThatSpinsLetsOthersRun) {
  // Block 0 waits for what block 1 stores.
  ASSERT_EQ(Load("mov.u32 %r1, %ctaid.x; ld.param.u64 %rd1, [p];\n"
                 "setp.eq.u32 %q1, %r1, 1; @%q1 bra TELL;\n"
                 "SPIN: ld.volatile.global.u32 %o, [%rd1+4000];\n"
                 "setp.eq.u32 %q2, %o, 0; @%q2 bra SPIN; bra END;\n"
                 "TELL: st.global.u32 [%rd1+4000], 5; ret;"),
            absl::OkStatus());
  bench_.options.no_progress_limit = 10'000'000;
  ASSERT_EQ(Launch(32, {2, 1, 1}), absl::OkStatus());
  EXPECT_EQ(Out(0), 5u);
}

TEST_F(ControlTest, AKernelIsCancelled) {
  int asked = 0;
  bench_.options.cancelled = [&] { return ++asked == 3; };
  EXPECT_EQ(Error(absl::StatusCode::kCancelled, "SPIN: bra SPIN;"),
            "k was cancelled");
}

// --- The wait-release barrier.

constexpr char kWaitRelease[] =
    ".extern .func __wait_threads; .extern .func __release_threads;\n"
    ".extern .func __wait_threads_on(.param .b32 b);\n"
    ".extern .func __release_threads_on(.param .b32 b);\n";

TEST_F(ControlTest, ARunOfBlocksWaitsForTheLastToRelease) {
  ASSERT_TRUE(Load("mov.u32 %r1, %ctaid.x; setp.eq.u32 %q1, %r1, 2;\n"
                   "@%q1 bra LAST; call.uni __wait_threads; bra AFTER;\n"
                   "LAST: call.uni __release_threads;\n"
                   "AFTER: ld.param.u64 %rd1, [p];\n"
                   "atom.global.add.u32 %o, [%rd1+2048], 1; bra END;",
                   kWaitRelease)
                  .ok());
  ASSERT_TRUE(Launch(64, {3, 1, 1}).ok());
  // The last block's went first.
  EXPECT_EQ(bench_.At<uint32_t>(at_, 1024)[512], 3u * 64);
}

TEST_F(ControlTest, AWaitThatNobodyEndsIsAnError) {
  EXPECT_THAT(
      Error(absl::StatusCode::kAborted,
            "call.uni __wait_threads; add.s32 %o, %o, 1;", 64, kWaitRelease),
      HasSubstr("k: test.ptx:9: call.uni: warp 0 of block (0, 0, 0) "
                "waits for a __release_threads() that never comes"));
}

TEST_F(ControlTest, ABarrierThatIsReleasedByItsNumberLeavesTheOthersLocked) {
  const std::string body =
      "setp.ge.u32 %q1, %t, 32; @%q1 bra SECOND;\n"
      "{ .param .b32 b; st.param.b32 [b], 3; call.uni __wait_threads_on, (b); "
      "}\nbra END;\n"
      "SECOND: { .param .b32 b; st.param.b32 [b], WHICH;\n"
      "call.uni __release_threads_on, (b); }\n";
  const auto with = [&](std::string which) {
    return std::string(body).replace(body.find("WHICH"), 5, which);
  };
  EXPECT_EQ(Run(with("3"), 64, kWaitRelease), absl::OkStatus());
  EXPECT_EQ(Run(with("2"), 64, kWaitRelease).code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(Run(with("16"), 64, kWaitRelease).message(),
            "k: test.ptx:13: call.uni: wait-release barrier 16: there are 16; "
            "lane 0 of warp 1, block (0, 0, 0)");
}

TEST_F(ControlTest, AWaitOfSomeLanesOnlyIsAnError) {
  EXPECT_THAT(Error(absl::StatusCode::kInternal,
                    "setp.lt.u32 %q1, %t, 4; @%q1 call __wait_threads;\n"
                    "bar.warp.sync -1;",
                    32, kWaitRelease),
              HasSubstr("lanes 0xfffffff0 wait for lanes 0x0000000f of the "
                        "warp, which never come"));
}

TEST_F(ControlTest, AnAssertionSaysWhatFailed) {
  const absl::Status status = Run(
      "setp.eq.u32 %q1, %t, 2; @!%q1 bra END; { .param .b64 a; .param .b64 f;\n"
      ".param .b32 l; .param .b64 n; .param .b64 s; mov.u64 %rd1, why;\n"
      "st.param.b64 [a], %rd1; st.param.b64 [f], %rd1; st.param.b32 [l], 1;\n"
      "st.param.b64 [n], %rd1; st.param.b64 [s], 1;\n"
      "call __assertfail, (a, f, l, n, s); }",
      32,
      ".global .align 1 .b8 why[4] = {120, 62, 48, 0}; .extern .func "
      "__assertfail(.param .b64 a, .param .b64 f, .param .b32 l, .param .b64 "
      "n, .param .b64 s);");
  EXPECT_EQ(std::string(status.message()),
            "k: test.ptx:10: call: assertion failed: x>0; lane 2 of warp 0, "
            "block (0, 0, 0)");
}

}  // namespace
}  // namespace carillon::sim
