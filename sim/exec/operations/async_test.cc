// cp.async and mbarrier, by single instructions and by kernels that use them
// wrongly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "sim/exec/interleaved.h"
#include "sim/exec/mbarrier.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

TEST(Mbarrier, ItsBitsHoldAllOfIt) {
  EXPECT_FALSE(Mbarrier::Of(0));
  for (const uint32_t count : {1u, 7u, Mbarrier::kMaxCount}) {
    Mbarrier barrier(count);
    EXPECT_EQ(barrier.Expect(-5), "");
    for (int phase = 0; phase < 3; ++phase) {
      const auto read = Mbarrier::Of(barrier.bits());
      ASSERT_TRUE(read);
      EXPECT_EQ(read->bits(), barrier.bits());
      EXPECT_EQ(read->phase(), phase % 2 != 0);
      EXPECT_EQ(read->pending(), count);
      EXPECT_EQ(read->Describe(), barrier.Describe());
      // Bytes that came early are as many as are expected.
      if (phase == 0) {
        EXPECT_EQ(barrier.Expect(5), "");
      }
      EXPECT_EQ(barrier.Arrive(count, false, true), "");
    }
  }
}

TEST(Mbarrier, APhaseWaitsForArrivalsAndBytes) {
  Mbarrier barrier(3);
  EXPECT_EQ(barrier.Expect(64), "");
  EXPECT_EQ(barrier.Arrive(3, false, true), "");
  EXPECT_FALSE(barrier.phase());
  EXPECT_EQ(barrier.Expect(-32), "");
  EXPECT_FALSE(barrier.phase());
  EXPECT_EQ(barrier.Describe(),
            "is in an even phase, and waits for 0 of 3 arrivals and 32 bytes");
  EXPECT_EQ(barrier.Expect(-32), "");
  EXPECT_TRUE(barrier.phase());
  EXPECT_EQ(barrier.pending(), 3u);
}

TEST(Mbarrier, WhoDropsOutIsNotExpectedAgain) {
  Mbarrier barrier(3);
  EXPECT_EQ(barrier.Arrive(1, true, true), "");
  EXPECT_EQ(barrier.Arrive(2, false, true), "");
  EXPECT_TRUE(barrier.phase());
  EXPECT_EQ(barrier.pending(), 2u);
}

TEST(Mbarrier, RefusesWhatPtxLeavesUndefined) {
  Mbarrier barrier(2);
  EXPECT_THAT(barrier.Arrive(0, false, true), HasSubstr("0 arrivals"));
  EXPECT_THAT(barrier.Arrive(3, false, true),
              HasSubstr("3 arrivals at once, at an mbarrier that is in an even "
                        "phase, and waits for 2 of 2 arrivals"));
  EXPECT_THAT(barrier.Arrive(2, false, false), HasSubstr("must not complete"));
  EXPECT_EQ(barrier.Arrive(1, false, false), "");
  EXPECT_THAT(barrier.Expect(Mbarrier::kMaxCount + 1), HasSubstr("the limit"));
}

// Each thread has 16 bytes of %in as its source and reads what it copied.
constexpr char kCopy[] = R"(
.shared .align 16 .b8 buffer[2048];
.visible .entry k(.param .u64 from, .param .u64 to, .param .u64 read) {
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 16;
ld.param.u64 %d2, [from]; add.s64 %d2, %d2, %d1;
ld.param.u64 %d3, [to]; add.s64 %d3, %d3, %d1;
ld.param.u64 %d4, [read]; cvt.u32.u64 %r2, %d4;
mov.u32 %r3, buffer; shl.b32 %r4, %r1, 4; add.s32 %r3, %r3, %r4;
mov.b64 %d5, -1; st.shared.v2.b64 [%r3], {%d5, %d5};
setp.eq.u32 %p1, %r1, 3;
X
cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
ld.shared.v2.b64 {%d6, %d7}, [%r3]; st.global.v2.b64 [%d3], {%d6, %d7};
ret; })";

std::string CopyKernel(std::string_view copy) {
  std::string text = kCopy;
  text.replace(text.find("X"), 1, copy);
  return text;
}

TEST(CopyAsync, CopiesAndFillsWithZeros) {
  for (const uint32_t bytes : {4u, 8u, 16u}) {
    for (uint32_t read = 0; read <= bytes; ++read) {
      Bench bench;
      ASSERT_TRUE(
          bench
              .Load(CopyKernel(fmt::format(
                  "cp.async.ca.shared.global [%r3], [%d2], {}, %r2;", bytes)))
              .ok());
      // The last thread's bytes end where it may read at all.
      constexpr uint32_t kThreads = 40;
      const uint64_t size = 16 * (kThreads - 1) + read;
      const DeviceAddress from = bench.Allocate(size);
      const auto source = bench.At<uint8_t>(from, size);
      std::iota(source.begin(), source.end(), uint8_t{1});
      const DeviceAddress to = bench.Allocate(16 * kThreads);
      const auto ran =
          bench.Run("k", {1, 1, 1}, {kThreads, 1, 1}, {from, to, read});
      ASSERT_TRUE(ran.ok()) << ran.status();
      const auto got = bench.At<uint8_t>(to, 16 * kThreads);
      for (uint32_t i = 0; i < got.size(); ++i) {
        const uint32_t at = i % 16;
        const uint8_t expected = at < read    ? source[i]
                                 : at < bytes ? uint8_t{0}
                                              : uint8_t{0xff};
        ASSERT_EQ(got[i], expected) << bytes << " " << read << " " << i;
      }
    }
  }
}

TEST(CopyAsync, APredicateIgnoresTheSource) {
  Bench bench;
  ASSERT_TRUE(
      bench
          .Load(CopyKernel(
              "cp.async.cg.shared.global.L2::128B [%r3+0], [%d2], 16, %p1;"))
          .ok());
  const DeviceAddress from = bench.Allocate(16 * 8);
  const auto source = bench.At<uint8_t>(from, 16 * 8);
  std::iota(source.begin(), source.end(), uint8_t{1});
  const DeviceAddress to = bench.Allocate(16 * 8);
  ASSERT_TRUE(bench.Run("k", {1, 1, 1}, {8, 1, 1}, {from, to, 0}).ok());
  const auto got = bench.At<uint8_t>(to, 16 * 8);
  for (uint32_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], i / 16 == 3 ? 0 : source[i]) << i;
  }
}

std::string FailureOfCopy(std::string_view copy, uint64_t read,
                          uint64_t bytes = 16 * 8) {
  Bench bench;
  const absl::Status loaded = bench.Load(CopyKernel(copy));
  if (!loaded.ok()) return std::string(loaded.message());
  const DeviceAddress from = bench.Allocate(bytes);
  const DeviceAddress to = bench.Allocate(16 * 8);
  return std::string(bench.Run("k", {1, 1, 1}, {8, 1, 1}, {from, to, read})
                         .status()
                         .message());
}

TEST(CopyAsync, NamesWhatIsWrong) {
  EXPECT_THAT(
      FailureOfCopy("cp.async.ca.shared.global [%r3], [%d2], 8, %r2;", 9),
      HasSubstr("reads 9 bytes, where 8 are copied; lane 0"));
  EXPECT_THAT(
      FailureOfCopy("cp.async.cg.shared.global [%r3], [%d2+8], 16, 16;", 0),
      HasSubstr("misaligned address"));
  // Also if fewer bytes are read.
  EXPECT_THAT(
      FailureOfCopy("cp.async.cg.shared.global [%r3], [%d2+8], 16, %r2;", 3),
      HasSubstr("misaligned address"));
  EXPECT_THAT(
      FailureOfCopy("cp.async.cg.shared.global [%r3+4], [%d2], 16, 0;", 0),
      HasSubstr("misaligned address 0x4"));
  EXPECT_THAT(
      FailureOfCopy("cp.async.ca.shared.global [%r3], [%d2], 4;", 0, 16 * 7),
      HasSubstr("lane 7"));
  EXPECT_THAT(
      FailureOfCopy("cp.async.ca.shared.global [%r3+2048], [%d2], 4;", 0),
      HasSubstr("shared"));
  for (const char* const copy :
       {"cp.async.cg.shared.global [%r3], [%d2], 8;",
        "cp.async.ca.shared.global [%r3], [%d2], 12;",
        "cp.async.shared.global [%r3], [%d2], 4;",
        "cp.async.ca.global.shared [%d2], [%r3], 4, 4, 4;",
        "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], 16;",
        "cp.reduce.async.bulk.commit_group;", "cp.async.wait_group %r1;"}) {
    EXPECT_NE(FailureOfCopy(copy, 0), "") << copy;
  }
}

// A kernel of one block whose threads have an mbarrier for %d9 arrivals.
std::string BarrierKernel(std::string_view body) {
  return fmt::format(R"(
.shared .align 8 .b64 other;
.shared .align 8 .b64 barrier;
.visible .entry k(.param .u64 to, .param .u64 count) {{
.reg .b32 %r<9>; .reg .b64 %d<10>; .reg .pred %p<3>;
mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 8;
ld.param.u64 %d3, [to]; add.s64 %d3, %d3, %d1;
ld.param.u64 %d9, [count]; cvt.u32.u64 %r8, %d9;
setp.ne.u32 %p1, %r1, 0; @%p1 bra BEGUN;
mbarrier.init.shared.b64 [barrier], %r8;
BEGUN: bar.sync 0;
{}
ret; }})",
                     body);
}
std::string BarrierFailure(std::string_view body, uint32_t threads,
                           uint64_t count, uint64_t limit = 1 << 20) {
  Bench bench;
  bench.options.no_progress_limit = limit;
  const absl::Status loaded = bench.Load(BarrierKernel(body));
  if (!loaded.ok()) return std::string(loaded.message());
  const DeviceAddress to = bench.Allocate(8 * threads);
  return std::string(bench.Run("k", {1, 1, 1}, {threads, 1, 1}, {to, count})
                         .status()
                         .message());
}

TEST(Mbarrier, NamesAWaitThatNeverEnds) {
  const std::string failure = BarrierFailure(
      "mbarrier.arrive.shared.b64 %d4, [barrier];\n"
      "AGAIN: mbarrier.try_wait.shared.b64 %p2, [barrier], %d4;\n"
      "@!%p2 bra AGAIN;",
      64, 65);
  EXPECT_THAT(failure, HasSubstr("k: no progress for"));
  EXPECT_THAT(failure,
              HasSubstr("mbarrier.try_wait.shared.b64: the mbarrier at shared "
                        "address 0x8 is in an even phase, and waits for 1 of "
                        "65 arrivals and 0 bytes"));
  EXPECT_THAT(failure, HasSubstr("of block (0, 0, 0) is at test.ptx:"));
}

TEST(Mbarrier, NamesWhatIsWrong) {
  EXPECT_THAT(BarrierFailure("mbarrier.arrive.shared.b64 _, [other];", 1, 1),
              HasSubstr("shared address 0x0: there is no initialized"));
  EXPECT_THAT(BarrierFailure(
                  "mbarrier.test_wait.shared.b64 %p2, [barrier], %d1;", 1, 1),
              HasSubstr("no arrive has returned that state"));
  EXPECT_THAT(
      BarrierFailure("mbarrier.arrive.shared.b64 _, [barrier], 3;", 1, 2),
      HasSubstr("3 arrivals at once"));
  EXPECT_THAT(BarrierFailure("", 1, 0),
              HasSubstr("an mbarrier for 0 arrivals: must be from 1 to"));
  EXPECT_THAT(
      BarrierFailure("mbarrier.arrive.noComplete.shared.b64 %d4, [barrier], 1;",
                     1, 1),
      HasSubstr("must not complete"));
  EXPECT_THAT(BarrierFailure("mbarrier.arrive.b64 _, [%d3];", 1, 1),
              HasSubstr("an mbarrier lies in shared memory"));
  EXPECT_THAT(
      BarrierFailure("mbarrier.arrive.shared.b64 _, [barrier+4];", 1, 1),
      HasSubstr("misaligned"));
  EXPECT_THAT(
      BarrierFailure("mbarrier.arrive.shared.b64.foo _, [barrier];", 1, 1),
      HasSubstr("not supported"));
}

// Lanes of one warp wait for others of it, and for another warp.
TEST(Mbarrier, LanesWaitForOthersOfTheirWarp) {
  Bench bench;
  const std::string text = BarrierKernel(
      "setp.lt.u32 %p2, %r1, 5; @%p2 bra FEW;\n"
      "mov.u64 %d6, barrier; cvta.shared.u64 %d6, %d6;\n"
      "mbarrier.arrive.release.cta.b64 %d4, [%d6];\n"
      "bra WAIT;\n"
      "FEW: mbarrier.arrive.shared.b64 %d4, [barrier];\n"
      "FIRST: mbarrier.test_wait.shared.b64 %p2, [barrier], %d4;\n"
      "@!%p2 bra FIRST;\n"
      "WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [barrier], 0;\n"
      "@!%p2 bra WAIT;\n"
      "mbarrier.pending_count.b64 %r2, %d4; cvt.u64.u32 %d4, %r2;\n"
      "st.global.u64 [%d3], %d4;");
  const absl::Status loaded = bench.Load(text);
  ASSERT_TRUE(loaded.ok()) << loaded;
  const DeviceAddress to = bench.Allocate(8 * 64);
  const auto ran = bench.Run("k", {1, 1, 1}, {64, 1, 1}, {to, 64});
  ASSERT_TRUE(ran.ok()) << ran.status();
  // Each arrival found another number of pending ones, its own included.
  const auto got = bench.At<uint64_t>(to, 64);
  EXPECT_EQ(std::accumulate(got.begin(), got.end(), uint64_t{0}), 64 * 65 / 2);
  // Whoever waits does not run its whole slice.
  EXPECT_LT(ran->warp_instructions, 1000u);
}

// What is stored before an arrive is seen behind the wait, however weak memory
// is; without them it is not.
TEST(Mbarrier, OrdersMemoryOfItsBlock) {
  for (const bool waits : {true, false}) {
    int stale = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      Bench bench;
      const std::string text = BarrierKernel(fmt::format(
          "ld.param.u64 %d5, [to];\n"
          "st.global.u64 [%d3], %d3;\n"
          "mbarrier.arrive.shared.b64 %d4, [barrier];\n"
          "WAIT: mbarrier.try_wait.shared.b64 %p2, [barrier], %d4;\n"
          "{}\n"
          "xor.b32 %r2, %r1, 33; mul.wide.u32 %d6, %r2, 8;\n"
          "add.s64 %d6, %d6, %d5; ld.global.u64 %d7, [%d6];\n"
          "st.global.u64 [%d3+512], %d7;",
          waits ? "@!%p2 bra WAIT;" : ""));
      const absl::Status loaded = bench.Load(text);
      ASSERT_TRUE(loaded.ok()) << loaded;
      const DeviceAddress to = bench.Allocate(8 * 128);
      Launch launch{.program = &bench.program(),
                    .kernel = bench.program().FindEntry("k"),
                    .block = {64, 1, 1}};
      const std::vector<uint64_t> parameters = {to, 64};
      const auto bytes = std::as_bytes(std::span(parameters));
      launch.parameters.assign(bytes.begin(), bytes.end());
      InterleavedGpu gpu(&bench.memory(), {.seed = seed, .weak_memory = true});
      absl::Status ended;
      ASSERT_TRUE(
          gpu.Begin(launch, 0,
                    [&](absl::Status status) { ended = std::move(status); })
              .ok());
      while (gpu.Step() != InterleavedGpu::Turn::kIdle) {
      }
      ASSERT_TRUE(ended.ok()) << ended;
      const auto got = bench.At<uint64_t>(to, 128);
      for (uint64_t i = 0; i < 64; ++i)
        stale += got[64 + i] != to + 8 * (i ^ 33);
    }
    EXPECT_EQ(stale == 0, waits) << stale;
  }
}

}  // namespace
}  // namespace carillon::sim
