// Lanes that wait for others of their own warp: what GPUs with independent
// thread scheduling (sm_70 and later) promise.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/exec/functional.h"
#include "sim/lower/lower.h"

namespace carillon::sim {
namespace {

// Every thread takes the lock, adds to the counter in two steps, and releases
// it; then all lanes vote. `pause` is what a thread does while it waits.
std::string LockPtx(std::string_view pause, std::string_view end) {
  return fmt::format(R"(.version 9.0
.target sm_75
.address_size 64
.func (.param .b32 result) take(.param .b64 lock)
{{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [lock];
RETRY:
  atom.acquire.gpu.global.cas.b32 %r1, [%rd1], 0, 1;
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra GOT;
  {}
  bra RETRY;
GOT:
  st.param.b32 [result], 7;
  ret;
}}
.visible .entry count(.param .u64 cells)
{{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<3>;
  .param .b64 to;
  .param .b32 from;
  ld.param.u64 %rd1, [cells];
  st.param.b64 [to], %rd1;
  call.uni (from), take, (to);
  ld.param.b32 %r1, [from];
  ld.global.u32 %r2, [%rd1+4];
  add.s32 %r3, %r2, %r1;
  st.global.u32 [%rd1+4], %r3;
  membar.gl;
  st.global.u32 [%rd1], 0;
  {}
  ret;
}}
)",
                     pause, end);
}

class Yield : public testing::Test {
 protected:
  absl::Status Run(const std::string& text, uint32_t blocks,
                   uint64_t limit = uint64_t{1} << 28) {
    ASSIGN_OR_RETURN(auto module, ptx::ParseModule(text, "yield.ptx"));
    ASSIGN_OR_RETURN(
        auto program,
        Lower(std::make_shared<const ptx::Module>(std::move(module)),
              &memory_));
    program_ = program;
    cells_ = *memory_.Allocate(16, "cells");
    Launch launch{.program = program_.get(),
                  .kernel = program_->FindEntry("count"),
                  .grid = {blocks, 1, 1},
                  .block = {64, 1, 1}};
    launch.parameters.resize(8);
    std::memcpy(launch.parameters.data(), &cells_, 8);
    FunctionalGpu gpu(&memory_, {.no_progress_limit = limit});
    const auto result = gpu.Run(launch);
    if (result.ok()) executed_ = result->warp_instructions;
    return result.status();
  }
  uint32_t Cell(uint32_t which) {
    uint32_t value = 0;
    std::memcpy(&value, memory_.At(cells_, 16)->data() + 4 * which, 4);
    return value;
  }

  Memory memory_;
  std::shared_ptr<const Program> program_;
  DeviceAddress cells_ = 0;
  uint64_t executed_ = 0;
};

TEST_F(Yield, ALockOfLanesOfOneWarpIsTakenByEachInTurn) {
  ASSERT_TRUE(Run(LockPtx("nanosleep.u32 20;", ""), 3).ok());
  EXPECT_EQ(Cell(0), 0u);
  EXPECT_EQ(Cell(1), 7u * 64 * 3);
  // Each of 192 threads waits for few rounds of the others.
  EXPECT_LT(executed_, 192u * 32 * 32);
}

TEST_F(Yield, ItNeedsNoPauseInTheLoop) {
  ASSERT_TRUE(Run(LockPtx("", ""), 1).ok());
  EXPECT_EQ(Cell(1), 7u * 64);
}

TEST_F(Yield, LanesMeetAgainWhereTheyDoSomethingTogether) {
  const std::string together = R"(
  vote.sync.ballot.b32 %r4, 1, -1;
  popc.b32 %r5, %r4;
  atom.global.add.u32 %r6, [%rd1+8], %r5;
  bar.warp.sync -1;
  bar.sync 0;
  mov.u32 %r7, %laneid;
  shfl.sync.idx.b32 %r7, %r7, 3, 31, -1;
  atom.global.add.u32 %r6, [%rd1+12], %r7;
)";
  const absl::Status status = Run(LockPtx("nanosleep.u32 20;", together), 2);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Cell(1), 7u * 64 * 2);
  EXPECT_EQ(Cell(2), 32u * 64 * 2);
  EXPECT_EQ(Cell(3), 3u * 64 * 2);
}

// A lane of each warp looks and pauses; since it may also exit there, no later
// place is one that all lanes come to.
TEST_F(Yield, LanesGoOnAsOneBehindAPlaceWhereTheyMeet) {
  constexpr uint32_t kRounds = 100;
  constexpr uint32_t kWork = 50;
  std::string work;
  for (uint32_t i = 0; i < kWork; ++i) work += "  add.s32 %r4, %r4, 1;\n";
  const absl::Status status = Run(fmt::format(R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 cells)
{{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<4>;
  ld.param.u64 %rd1, [cells];
  mov.u32 %r1, %laneid;
  setp.eq.s32 %p1, %r1, 0;
  mov.u32 %r2, 0;
  mov.u32 %r4, 0;
AGAIN:
  @%p1 bra LOOK;
  bra.uni MEET;
LOOK:
  ld.relaxed.gpu.global.u32 %r3, [%rd1];
  nanosleep.u32 20;
  setp.ne.s32 %p2, %r3, 0;
  @!%p2 bra MEET;
  ret;
MEET:
  bar.warp.sync -1;
{}
  add.s32 %r2, %r2, 1;
  setp.lt.u32 %p3, %r2, {};
  @%p3 bra AGAIN;
  atom.global.add.u32 %r5, [%rd1+4], %r4;
  ret;
}}
)",
                                              work, kRounds),
                                  1);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Cell(1), 64u * kRounds * kWork);
  // Two warps; apart, a warp's lanes would do all of the work twice.
  EXPECT_LT(executed_, 2u * kRounds * kWork * 3 / 2);
}

// All lanes of a context go where the others wait, and nothing of it is left,
// whose next instruction would be at the end of its path.
TEST_F(Yield, LanesMeetAtTheEndOfAPath) {
  const absl::Status status = Run(R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 cells)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<4>;
  ld.param.u64 %rd1, [cells];
  mov.u32 %r1, %laneid;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra OTHERS;
  nanosleep.u32 20;
  bar.warp.sync -1;
MEET:
  atom.global.add.u32 %r5, [%rd1+4], 1;
  ret;
OTHERS:
  nanosleep.u32 20;
  bar.warp.sync -1;
  bra.uni MEET;
}
)",
                                  1);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Cell(1), 64u);
}

TEST_F(Yield, LanesMeetAtTheEndOfAPathInAFunction) {
  const absl::Status status = Run(R"(.version 9.0
.target sm_75
.address_size 64
.func step(.param .b64 to)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<4>;
  ld.param.u64 %rd1, [to];
  mov.u32 %r1, %laneid;
  setp.ge.s32 %p2, %r1, 16;
  @%p2 ret;
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra OTHERS;
  nanosleep.u32 20;
  bar.warp.sync 0x0000ffff;
  bra.uni MEET;
OTHERS:
  bar.warp.sync 0x0000ffff;
MEET:
  atom.global.add.u32 %r5, [%rd1+4], 1;
  ret;
}
.visible .entry count(.param .u64 cells)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .param .b64 to;
  ld.param.u64 %rd1, [cells];
  st.param.b64 [to], %rd1;
  call.uni step, (to);
  atom.global.add.u32 %r5, [%rd1+8], 1;
  ret;
}
)",
                                  1);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Cell(1), 32u);  // 16 lanes of two warps
  EXPECT_EQ(Cell(2), 64u);
}

TEST_F(Yield, LanesThatExitAreWaitedForByNobody) {
  const std::string some = R"(
  mov.u32 %r4, %laneid;
  setp.lt.u32 %p1, %r4, 5;
  @%p1 ret;
  bar.sync 0;
  atom.global.add.u32 %r6, [%rd1+8], 1;
)";
  const absl::Status status = Run(LockPtx("nanosleep.u32 20;", some), 1);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Cell(2), 2u * 27);
}

TEST_F(Yield, ALockThatNobodyLetsGoIsNoProgress) {
  const std::string keep = "atom.global.exch.b32 %r6, [%rd1], 1;";
  const absl::Status status =
      Run(LockPtx("nanosleep.u32 20;", keep), 1, 1 << 22);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_NE(std::string(status.message()).find("yield.ptx:"),
            std::string::npos);
}

}  // namespace
}  // namespace carillon::sim
