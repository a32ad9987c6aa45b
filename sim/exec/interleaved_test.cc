// Grids that run beside each other, in an order that a seed chooses.
#include "sim/exec/interleaved.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <vector>

#include "fmt/format.h"
#include "sim/exec/op_test_util.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;
using Turn = InterleavedGpu::Turn;

// Each kernel has the address of an array of u32 as its first parameter.
constexpr std::string_view kKernels = R"(
.visible .entry spin(.param .u64 p) {  // until [0] is not 0, then adds to [1]
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
AGAIN:
  ld.relaxed.sys.global.u32 %r1, [%rd1];
  setp.eq.u32 %q, %r1, 0;
  @%q bra AGAIN;
  atom.global.add.u32 %r2, [%rd1+4], 1;
  ret;
}
.visible .entry add(.param .u64 p) {  // adds to [2], not at once
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1+8];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%rd1+8], %r1;
  ret;
}
.visible .entry mark(.param .u64 p, .param .u64 with) {  // [3] = 10 [3] + with
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r2, [with];
  ld.global.u32 %r1, [%rd1+12];
  mad.lo.u32 %r1, %r1, 10, %r2;
  st.global.u32 [%rd1+12], %r1;
  ret;
}
.visible .entry wrong(.param .u64 p) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  mov.u64 %rd1, 64;
  ld.global.u32 %r1, [%rd1];
  ret;
}
.visible .entry apart(.param .u64 p) {  // warps at two barriers
  .reg .b32 %r<4>; .reg .pred %q;
  mov.u32 %r1, %warpid;
  setp.eq.u32 %q, %r1, 0;
  @%q bar.sync 1, 64;
  @!%q bar.sync 2, 64;
  ret;
}
.visible .entry rounds(.param .u64 p, .param .u64 me) {
  // Adds 1 to [0] where it is 2 i + me, 100 times.
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [me];
  add.u32 %r2, %r1, 200;
AGAIN:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.ne.u32 %q, %r3, %r1;
  @%q bra AGAIN;
  add.u32 %r3, %r3, 1;
  st.release.gpu.global.u32 [%rd1], %r3;
  add.u32 %r1, %r1, 2;
  setp.lt.u32 %q, %r1, %r2;
  @%q bra AGAIN;
  ret;
}
.visible .entry follow(.param .u64 p) {  // [2] = **(u32**)p, once that is set
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
AGAIN:
  ld.acquire.sys.global.u64 %rd2, [%rd1];
  setp.eq.u64 %q, %rd2, 0;
  @%q bra AGAIN;
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd1+8], %r1;
  ret;
}
.visible .entry reverse(.param .u64 p) {  // p[i] = the block's thread 63 - i
  .reg .b32 %r<6>; .reg .b64 %rd<4>; .shared .b32 s[64];
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  bar.sync 0;
  mov.u32 %r4, s;
  sub.u32 %r2, 252, %r2;
  add.u32 %r4, %r4, %r2;
  ld.shared.u32 %r5, [%r4];
  mov.u32 %r2, %ctaid.x;
  shl.b32 %r2, %r2, 6;
  add.u32 %r2, %r2, %r1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r5;
  ret;
}
.visible .entry where(.param .u64 p) {  // counts the block at its SM, and spins
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %smid;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd2, %rd1, %rd2;
  atom.global.add.u32 %r2, [%rd2], 1;
AGAIN:
  bra AGAIN;
}
.func together(.param .b64 p) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  bar.warp.sync -1;
  atom.global.add.u32 %r1, [%rd1+4], 1;
  bar.sync 0;
  ret;
}
.visible .entry meet(.param .u64 p) {  // lane 0 comes late to where all call
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  .param .b64 to;
  ld.param.u64 %rd1, [p];
  st.param.b64 [to], %rd1;
  mov.u32 %r1, %laneid;
  setp.ne.u32 %q, %r1, 0;
  @%q bra ALL;
AGAIN:
  ld.relaxed.sys.global.u32 %r2, [%rd1];
  setp.eq.u32 %q, %r2, 0;
  @%q bra AGAIN;
ALL:
  call.uni together, (to);
  call.uni together, (to);
  ret;
}
.extern .func __wait_threads;
.extern .func __release_threads;
.visible .entry waits(.param .u64 p) {  // block 1 releases if [0] is 1
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %q;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %q, %r1, 1;
  @%q bra OTHER;
  call.uni __wait_threads;
  ret;
OTHER:
  ld.global.u32 %r2, [%rd1];
  setp.eq.u32 %q, %r2, 0;
  @%q ret;
AGAIN:
  call.uni __release_threads;
  ld.relaxed.sys.global.u32 %r2, [%rd1+4];
  setp.eq.u32 %q, %r2, 0;
  @%q bra AGAIN;
  ret;
}
)";

// Half of the turns have one instruction: 100,000 turns are far more than any
// of these kernels needs.
constexpr int kTurns = 100'000;

class Interleaved : public testing::Test {
 protected:
  Interleaved() {
    const absl::Status loaded = bench_.Load(kKernels);
    EXPECT_TRUE(loaded.ok()) << loaded;
    at_ = bench_.Allocate(1024);
  }
  void Start(InterleavedGpu::Options options) {
    gpu_.emplace(&bench_.memory(), std::move(options));
  }
  Launch Of(std::string_view kernel, Dim3 grid = {}, Dim3 block = {},
            uint64_t second = 0) {
    Launch launch{.program = &bench_.program(),
                  .kernel = bench_.program().FindEntry(kernel),
                  .grid = grid,
                  .block = block};
    const std::vector<uint64_t> parameters{at_, second};
    const auto bytes = std::as_bytes(std::span(parameters));
    launch.parameters.assign(
        bytes.begin(),
        bytes.begin() +
            static_cast<ptrdiff_t>(launch.kernel->source->ParameterBytes()));
    return launch;
  }
  // `status` becomes what ends the grid.
  uint64_t Begin(const Launch& launch, absl::Status* status, int priority = 0) {
    *status = absl::UnknownError("it runs");
    const auto grid =
        gpu_->Begin(launch, priority, [=](absl::Status how) { *status = how; });
    EXPECT_TRUE(grid.ok()) << grid.status();
    return grid.value_or(0);
  }
  bool RunUntil(const std::function<bool()>& done) {
    for (int i = 0; i < kTurns && !done(); ++i) gpu_->Step();
    return done();
  }
  bool RunAll() {
    return RunUntil([this] { return gpu_->grids() == 0; });
  }
  uint32_t& Word(size_t i) { return bench_.At<uint32_t>(at_, 256)[i]; }

  Bench bench_;
  DeviceAddress at_ = 0;
  std::optional<InterleavedGpu> gpu_;
};

struct Executed {
  uint32_t warp = 0;
  Pc pc = 0;
  LaneMask lanes = 0;
  bool operator==(const Executed&) const = default;
};

TEST_F(Interleaved, ASeedGivesTheSameRunInstructionByInstruction) {
  const auto run = [this](uint64_t seed) {
    std::vector<Executed> trace;
    for (uint32_t i = 0; i < 4; ++i) Word(i) = 0;
    Start({.seed = seed,
           .longest_turn = 8,
           .executed = [&](const Warp& warp, const Op& op, LaneMask lanes) {
             trace.push_back({warp.index(), op.pc, lanes});
           }});
    absl::Status first, second;
    Begin(Of("add", {4}, {64}), &first);
    Begin(Of("reverse", {1}, {64}), &second);
    EXPECT_TRUE(RunAll());
    EXPECT_TRUE(first.ok() && second.ok()) << first << second;
    return trace;
  };
  const std::vector<Executed> once = run(1);
  EXPECT_EQ(run(1), once);
  int others = 0;
  for (uint64_t seed = 2; seed < 12; ++seed) others += run(seed) != once;
  EXPECT_EQ(others, 10);
}

TEST_F(Interleaved, SeedsFindTheRacesOfACounter) {
  std::vector<int> sums(9);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Word(2) = 0;
    Start({.seed = seed});
    absl::Status status;
    Begin(Of("add", {8}), &status);
    ASSERT_TRUE(RunAll());
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_LE(Word(2), 8u);
    ++sums[Word(2)];
  }
  // Every sum that eight additions that are not atomic can give, but for the
  // rarest.
  EXPECT_EQ(sums[0], 0);
  for (size_t sum = 2; sum < 8; ++sum) EXPECT_GT(sums[sum], 0) << sum;
}

TEST_F(Interleaved, BarriersHoldForEverySeed) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Start({.seed = seed, .longest_turn = 4, .sms = 1, .blocks_per_sm = 2});
    absl::Status status;
    Begin(Of("reverse", {4}, {64}), &status);
    ASSERT_TRUE(RunAll());
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(Word(i), 63 - i % 64);
    for (uint32_t i = 0; i < 256; ++i) Word(i) = 0;
  }
}

TEST_F(Interleaved, GridsExchangeThroughMemory) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Word(0) = 0;
    Start({.seed = seed});
    absl::Status first, second;
    Begin(Of("rounds", {}, {}, 1), &second);
    Begin(Of("rounds", {}, {}, 0), &first);
    ASSERT_TRUE(RunAll());
    EXPECT_TRUE(first.ok() && second.ok()) << first << second;
    EXPECT_EQ(Word(0), 200u);
  }
}

TEST_F(Interleaved, AGridThatFindsNoRoomWaitsUntilBlocksEnd) {
  Start({.sms = 2, .blocks_per_sm = 2});
  absl::Status fills, waits;
  Begin(Of("spin", {4}), &fills);
  Begin(Of("add"), &waits);
  for (int i = 0; i < 10'000; ++i) gpu_->Step();
  EXPECT_TRUE(absl::IsUnknown(fills)) << fills;
  EXPECT_TRUE(absl::IsUnknown(waits)) << waits;
  EXPECT_EQ(Word(2), 0u);
  Word(0) = 1;
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(fills.ok() && waits.ok()) << fills << waits;
  EXPECT_EQ(Word(1), 4u);
  EXPECT_EQ(Word(2), 1u);
}

TEST_F(Interleaved, ThreadsAndSharedMemoryAreRoomToo) {
  for (const bool threads : {false, true}) {
    Start({.sms = 1,
           .threads_per_sm = threads ? 96u : 2048u,
           .shared_bytes_per_sm = threads ? 100u << 10 : 2300u});
    absl::Status fills, waits;
    const uint64_t grid = Begin(Of("spin", {2}, {33}), &fills);
    Begin(Of("add"), &waits);
    // One block has 64 threads' room and 1 KiB, so `spin` has one of its two.
    for (int i = 0; i < 10'000; ++i) gpu_->Step();
    EXPECT_TRUE(absl::IsUnknown(waits)) << threads;
    ASSERT_TRUE(gpu_->Stop(grid).ok());
    ASSERT_TRUE(RunAll());
    EXPECT_TRUE(waits.ok()) << waits;
  }
}

TEST_F(Interleaved, AHigherPriorityGetsRoomFirst) {
  Start({.sms = 1, .blocks_per_sm = 1});
  absl::Status fills, low, equal, high;
  Begin(Of("spin"), &fills);
  gpu_->Step();
  Begin(Of("mark", {}, {}, 2), &low);
  Begin(Of("mark", {}, {}, 3), &equal);
  Begin(Of("mark", {}, {}, 1), &high, 5);
  Word(0) = 1;
  ASSERT_TRUE(RunAll());
  EXPECT_EQ(Word(3), 123u);
}

TEST_F(Interleaved, ABlockThatNoSmCanHoldIsRefused) {
  Start({.sms = 2, .threads_per_sm = 64, .shared_bytes_per_sm = 2048});
  EXPECT_TRUE(absl::IsResourceExhausted(
      gpu_->Begin(Of("add", {}, {65}), 0, {}).status()));
  Launch launch = Of("add");
  launch.dynamic_shared_bytes = 1025;
  const absl::Status status = gpu_->Begin(launch, 0, {}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2049 bytes"));
  EXPECT_TRUE(
      absl::IsInvalidArgument(gpu_->Begin(Of("add", {0}), 0, {}).status()));
  EXPECT_EQ(gpu_->Step(), Turn::kIdle);
}

TEST_F(Interleaved, BlocksAreSpreadOverTheSms) {
  Start({.sms = 4});
  absl::Status status;
  Begin(Of("where", {8}), &status);
  ASSERT_TRUE(
      RunUntil([this] { return Word(0) + Word(1) + Word(2) + Word(3) == 8; }));
  for (size_t sm = 0; sm < 4; ++sm) EXPECT_EQ(Word(sm), 2u);
}

TEST_F(Interleaved, AFaultEndsItsGridAndNoOther) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Word(0) = Word(1) = 0;
    Start({.seed = seed});
    absl::Status healthy, wrong;
    Begin(Of("spin", {3}, {64}), &healthy);
    Begin(Of("wrong", {3}, {64}), &wrong);
    ASSERT_TRUE(RunUntil([&] { return !absl::IsUnknown(wrong); }));
    EXPECT_TRUE(absl::IsInternal(wrong)) << wrong;
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("wrong: test.ptx:"));
    EXPECT_TRUE(absl::IsUnknown(healthy));
    EXPECT_EQ(gpu_->grids(), 1u);
    Word(0) = 1;
    ASSERT_TRUE(RunAll());
    EXPECT_TRUE(healthy.ok()) << healthy;
    EXPECT_EQ(Word(1), 192u);
  }
}

TEST_F(Interleaved, StopEndsAGridAtAnyInstruction) {
  for (uint64_t steps = 0; steps < 300; ++steps) {
    Word(0) = Word(1) = Word(2) = 0;
    Start({.seed = steps, .longest_turn = 3});
    absl::Status stopped, other;
    const uint64_t grid = Begin(Of("reverse", {4}, {64}), &stopped);
    const uint64_t second = Begin(Of("where"), &other);
    for (uint64_t i = 0; i < steps && absl::IsUnknown(stopped); ++i) {
      gpu_->Step();
    }
    if (absl::IsUnknown(stopped)) {
      ASSERT_TRUE(gpu_->Stop(grid).ok());
      EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
    }
    EXPECT_TRUE(absl::IsNotFound(gpu_->Stop(grid)));
    EXPECT_TRUE(absl::IsUnknown(other));
    ASSERT_TRUE(gpu_->Stop(second).ok());
    EXPECT_EQ(gpu_->Step(), Turn::kIdle);
  }
}

TEST_F(Interleaved, AGridMayBeginWhereAnotherEnds) {
  Start({});
  absl::Status last = absl::UnknownError("");
  const auto begun = gpu_->Begin(Of("add"), 0, [&](const absl::Status& first) {
    EXPECT_TRUE(first.ok());
    EXPECT_TRUE(gpu_->Begin(Of("add"), 0,
                            [&](absl::Status how) { last = std::move(how); })
                    .ok());
  });
  ASSERT_TRUE(begun.ok());
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(last.ok()) << last;
  EXPECT_EQ(Word(2), 2u);
}

TEST_F(Interleaved, AGridMayBeginWhileAnInstructionRuns) {
  absl::Status last;
  bool begun = false;
  Start({.executed = [&](const Warp&, const Op&, LaneMask) {
    if (!std::exchange(begun, true)) Begin(Of("add"), &last);
  }});
  absl::Status first;
  Begin(Of("add"), &first);
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(first.ok() && last.ok());
}

TEST_F(Interleaved, MemoryMappedWhileAGridSpinsIsSeen) {
  Start({});
  absl::Status status;
  Begin(Of("follow"), &status);
  for (int i = 0; i < 1000; ++i) gpu_->Step();
  alignas(256) std::array<uint32_t, 64> mapped{42};
  // So that the segments' indices change under the grid.
  const DeviceAddress before = bench_.Allocate(64);
  const auto at = bench_.memory().Map(std::as_writable_bytes(std::span(mapped)),
                                      true, "mapped");
  ASSERT_TRUE(at.ok() && bench_.memory().Free(before).ok());
  bench_.At<uint64_t>(at_, 1)[0] = *at;
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Word(2), 42u);
}

TEST_F(Interleaved, FreedMemoryIsAFaultForTheGridThatUsesIt) {
  Start({});
  absl::Status status;
  const DeviceAddress other = bench_.Allocate(64);
  Begin(Of("follow"), &status);
  for (int i = 0; i < 1000; ++i) gpu_->Step();
  bench_.At<uint64_t>(at_, 1)[0] = other;
  ASSERT_TRUE(bench_.memory().Free(other).ok());
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

TEST_F(Interleaved, SaysThatAllWarpsWait) {
  Start({});
  EXPECT_EQ(gpu_->Step(), Turn::kIdle);
  absl::Status status;
  Begin(Of("spin", {2}), &status);
  int waits = 0;
  for (int i = 0; i < 10'000; ++i) waits += gpu_->Step() == Turn::kWaits;
  EXPECT_GT(waits, 10);
  EXPECT_LT(waits, 5000);
  // Two warps that exchange do more than wait.
  Start({});
  absl::Status other;
  Begin(Of("rounds", {}, {}, 1), &other);
  Begin(Of("rounds", {}, {}, 0), &other);
  while (gpu_->grids() != 0) ASSERT_NE(gpu_->Step(), Turn::kWaits);
}

TEST_F(Interleaved, LanesThatDivergedMeetInAFunctionThatEachCalls) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const bool weak : {false, true}) {
      Word(0) = Word(1) = 0;
      bool apart = false;
      LaneMask last = 0;
      Start({.seed = seed,
             .weak_memory = weak,
             .executed = [&](const Warp& warp, const Op&, LaneMask) {
               if (warp.live() == kAllLanes) last = warp.active();
               apart |= last != kAllLanes && last != 0 && last != 1;
             }});
      absl::Status status;
      Begin(Of("meet", {}, {64}), &status);
      for (int i = 0; i < 500; ++i) gpu_->Step();
      Word(0) = 1;
      ASSERT_TRUE(RunAll());
      ASSERT_TRUE(status.ok()) << status << seed;
      EXPECT_EQ(Word(1), 128u);
      EXPECT_TRUE(apart);
      EXPECT_EQ(last, kAllLanes);  // they are one group again
    }
  }
}

TEST_F(Interleaved, WarpsAtDifferentBarriersEndTheirGrid) {
  Start({});
  absl::Status status;
  Begin(Of("apart", {}, {64}), &status);
  ASSERT_TRUE(RunAll());
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bar.sync"));
}

TEST_F(Interleaved, AWaitThatNobodyReleasesEndsItsGrid) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const bool releases : {false, true}) {
      Start({.seed = seed});
      Word(0) = releases;
      Word(1) = 0;
      absl::Status status;
      Begin(Of("waits", {2}, {64}), &status);
      for (int i = 0; i < 10'000; ++i) gpu_->Step();
      Word(1) = 1;
      ASSERT_TRUE(RunAll());
      EXPECT_EQ(status.code(),
                releases ? absl::StatusCode::kOk : absl::StatusCode::kAborted)
          << status;
    }
  }
}

}  // namespace
}  // namespace carillon::sim
