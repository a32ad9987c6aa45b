#include "sim/timing/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .entry nothing() { ret; }

.extern .func __wait_threads;
.extern .func __release_threads;

.visible .entry wait(.param .u64 out)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  call.uni __wait_threads;
  red.global.add.u32 [%d0], 1;
  ret;
}

.visible .entry release()
{
  call.uni __release_threads;
  ret;
}

.visible .entry spin(.param .u64 flag)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [flag];
again:
  ld.volatile.global.u32 %r0, [%d0];
  setp.eq.u32 %p0, %r0, 0;
  @%p0 bra again;
  ret;
}

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

.visible .entry wild(.param .u64 address)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [address];
  ld.global.u32 %r0, [%d0];
  ret;
}

.visible .entry stuck(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p0, %r0, 32;
  @%p0 bra other;
  bar.sync 1;
  ret;
other:
  bar.sync 2;
  ret;
}

.visible .entry now(.param .u64 out)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  mov.u64 %d1, %clock64;
  mov.u64 %d2, %globaltimer;
  st.global.u64 [%d0], %d1;
  st.global.u64 [%d0+8], %d2;
  ret;
}

// A lock that lanes of one warp take from each other.
.visible .entry locked(.param .u64 lock)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [lock];
again:
  atom.global.cas.b32 %r0, [%d0], 0, 1;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra again;
  ld.volatile.global.u32 %r1, [%d0+4];
  add.u32 %r1, %r1, 1;
  st.volatile.global.u32 [%d0+4], %r1;
  st.volatile.global.u32 [%d0], 0;
  ret;
}
)";

class GpuTest : public testing::Test {
 protected:
  GpuTest() {
    runner_.Load(kKernels);
    data_ = runner_.Allocate(4096);
  }

  Gpu& gpu() {
    if (gpu_ == nullptr) {
      gpu_ = std::make_unique<Gpu>(config_, &runner_.memory(), options_);
    }
    return *gpu_;
  }
  GridId Submit(const Launch& launch, const SubmitOptions& options = {}) {
    const auto grid = gpu().Submit(launch, options);
    EXPECT_TRUE(grid.ok()) << grid.status();
    return grid.ok() ? *grid : 0;
  }
  Launch Nothing(uint32_t blocks = 1, uint32_t threads = 32) {
    return runner_.MakeLaunch("nothing", {blocks, 1, 1}, {threads, 1, 1}, {});
  }
  Launch Work(uint32_t times, uint32_t blocks = 1, uint32_t threads = 32) {
    return runner_.MakeLaunch("work", {blocks, 1, 1}, {threads, 1, 1}, {data_},
                              {times});
  }
  Launch Wait(uint32_t blocks) {
    return runner_.MakeLaunch("wait", {blocks, 1, 1}, {64, 1, 1}, {data_});
  }
  Launch Release(uint32_t blocks) {
    return runner_.MakeLaunch("release", {blocks, 1, 1}, {32, 1, 1}, {});
  }
  Launch Spin() {
    return runner_.MakeLaunch("spin", {}, {32, 1, 1}, {data_ + 256});
  }
  const GridResult& Result(GridId grid) {
    const GridResult* const result = gpu().result(grid);
    EXPECT_NE(result, nullptr) << grid;
    static const GridResult none;
    return result == nullptr ? none : *result;
  }
  // The status that FunctionalGpu gives.
  absl::Status Functional(const Launch& launch) {
    return FunctionalGpu(&runner_.memory(), {}).Run(launch).status();
  }
  uint32_t& Word(size_t i = 0) { return runner_.At<uint32_t>(data_, 128)[i]; }

  Config config_ = *LoadConfig("tiny");
  Gpu::Options options_;
  KernelRunner runner_;
  DeviceAddress data_ = 0;
  std::unique_ptr<Gpu> gpu_;
};

TEST_F(GpuTest, AGridFromTheHostAndOneFromADevice) {
  const GridId host = Submit(Nothing());
  const GridId device =
      Submit(Nothing(), {.not_before = 1000, .origin = LaunchOrigin::kDevice});
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Result(host).submitted, 0u);
  EXPECT_EQ(Result(host).dispatched, 0u);
  EXPECT_EQ(Result(host).completed, 66u);
  EXPECT_EQ(Result(device).submitted, 1000u);
  EXPECT_EQ(Result(device).dispatched, 1300u);
  EXPECT_EQ(Result(device).completed, 1302u);  // its code is there
  EXPECT_EQ(gpu().cycle(), 1303u);
}

TEST_F(GpuTest, GridsShareAnSM) {
  const GridId first = Submit(Work(50));
  const GridId second = Submit(Work(50));
  gpu().Run();
  EXPECT_EQ(Result(first).dispatched, 0u);
  EXPECT_EQ(Result(second).dispatched, 1u);  // a block a cycle
  EXPECT_LT(Result(second).completed, Result(first).completed + 100);
  EXPECT_EQ(Word(), 64u);
}

TEST_F(GpuTest, BlocksWaitForRoom) {
  // Four blocks, eight warps, all at once.
  const GridId few = Submit(Nothing(4));
  gpu().Run();
  EXPECT_EQ(Result(few).completed, 66u + 3);
  gpu_.reset();
  const GridId many = Submit(Work(20, 8, 128));  // two at once
  gpu().Run();
  EXPECT_EQ(Result(many).blocks, 8u);
  EXPECT_EQ(gpu().sm(0).free(), ContextsOfSm(config_));
}

TEST_F(GpuTest, ThePreferredGridTakesTheNextRoom) {
  const GridId background = Submit(Work(100, 16, 128));
  const GridId urgent =
      Submit(Work(10, 1, 128), {.priority = 1, .not_before = 3000});
  const GridId patient = Submit(Work(10, 1, 128), {.not_before = 3000});
  gpu().Run();
  EXPECT_GE(Result(urgent).dispatched, 3000u);
  EXPECT_LT(Result(urgent).completed, Result(background).completed / 2);
  EXPECT_GT(Result(patient).dispatched, Result(urgent).completed);
  EXPECT_GE(Result(patient).completed + 6000, Result(background).completed);
}

TEST_F(GpuTest, TheKduHoldsSoManyGridsAndNoMore) {
  const GridId first = Submit(Work(200));
  const GridId second = Submit(Work(20));
  const GridId third = Submit(Nothing());
  gpu().Run();
  ASSERT_EQ(config_.dispatch.grids, 2u);
  EXPECT_LT(Result(second).completed, Result(first).completed);
  EXPECT_EQ(Result(third).dispatched, Result(second).completed + 1);
}

TEST_F(GpuTest, BlocksGoToSMsInTurn) {
  config_.sm.count = 4;
  Submit(Work(10, 8));
  gpu().Run();
  const Statistics statistics = gpu().statistics();
  for (const SmCounters& sm : statistics.sms) EXPECT_EQ(sm.blocks, 2u);
}

TEST_F(GpuTest, AnEventsWarpsAreTakenFirst) {
  const auto of = [&](WarpClass warp_class) {
    gpu_.reset();
    Word() = 0;
    Submit(Work(300, 1, 224));
    const GridId event =
        Submit(Work(30), {.not_before = 2000, .warp_class = warp_class});
    gpu().Run();
    return Result(event).completed - Result(event).dispatched;
  };
  EXPECT_LT(of(WarpClass::kEvent), of(WarpClass::kNormal));
}

TEST_F(GpuTest, OneGridsEndMayBeginAnother) {
  std::vector<std::pair<GridId, Cycle>> ended;
  options_.ended = [&](const GridResult& result) {
    ended.emplace_back(result.id, gpu_->cycle());
    if (result.id < 3) Submit(Nothing());
  };
  Submit(Nothing());
  EXPECT_TRUE(gpu().Run());
  EXPECT_THAT(
      ended, ElementsAre(std::pair(1, 66), std::pair(2, 69), std::pair(3, 72)));
}

// Each SM has its own releases; whoever runs there makes them.
TEST_F(GpuTest, AReleaseLetsTheBlocksOfItsSmGoOn) {
  const uint32_t sms = config_.sm.count = 2;
  Submit(Wait(2 * sms));
  EXPECT_FALSE(gpu().Run(5000));
  EXPECT_EQ(Word(), 0u);
  EXPECT_GT(
      Total(gpu().statistics()).stalls[static_cast<size_t>(Stall::kBarrier)],
      4000u);
  Submit(Release(1));
  EXPECT_FALSE(gpu().Run(10000));
  EXPECT_EQ(Word(), 2u * 64) << "of one SM";
  Submit(Release(sms));
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Word(), 2u * 64 * sms);
}

TEST_F(GpuTest, AReleaseFromOutsideLetsTheBlocksOfEverySmGoOn) {
  const uint32_t sms = config_.sm.count = 2;
  Submit(Wait(2 * sms));
  EXPECT_FALSE(gpu().Run(5000));
  EXPECT_TRUE(gpu().stands_still());
  gpu().ReleaseThreads(6000);
  EXPECT_FALSE(gpu().Run(6000));
  EXPECT_EQ(Word(), 0u) << "too early";
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Word(), 2u * 64 * sms);
}

TEST_F(GpuTest, AWaitThatNobodyEndsIsAnError) {
  const GridId grid = Submit(Wait(1));
  gpu().Run();
  EXPECT_EQ(Result(grid).status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(Result(grid).status.message()),
              HasSubstr("waits for a __release_threads() that never comes"));
}

TEST_F(GpuTest, RunsUpToACycleAndOn) {
  const GridId grid = Submit(Work(100));
  EXPECT_FALSE(gpu().Run(1000));
  EXPECT_EQ(gpu().cycle(), 1000u);
  EXPECT_EQ(gpu().result(grid), nullptr);
  EXPECT_TRUE(gpu().Run(20000));
  EXPECT_EQ(gpu().cycle(), 20000u);
  const Cycle completed = Result(grid).completed;
  EXPECT_GT(completed, 4000u);
  EXPECT_LT(completed, 6000u);
  // Time passes without work.
  EXPECT_TRUE(gpu().Run(30000));
  EXPECT_EQ(gpu().cycle(), 30000u);
  const GridId later = Submit(Nothing());
  gpu().Run();
  EXPECT_EQ(Result(later).dispatched, 30000u);
}

TEST_F(GpuTest, KernelsReadTheGpusTime) {
  config_.clock.core_mhz = 500;
  options_.nanoseconds = 1'000'000;
  Submit(runner_.MakeLaunch("now", {}, {1, 1, 1}, {data_}),
         {.not_before = 10'000});
  gpu().Run();
  const auto read = runner_.At<uint64_t>(data_, 2);
  EXPECT_GT(read[0], 10'000u);
  EXPECT_LT(read[0], 10'200u);
  EXPECT_NEAR(static_cast<double>(read[1]),
              1'000'000 + static_cast<double>(read[0]) * 2, 200);
}

// --- Failures.

TEST_F(GpuTest, AFaultEndsItsGridAndNoOther) {
  const Launch wild =
      runner_.MakeLaunch("wild", {4, 1, 1}, {64, 1, 1}, {data_ + 4096});
  const GridId good = Submit(Work(50, 2));
  const GridId bad = Submit(wild);
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(Result(good).status.ok());
  EXPECT_EQ(Word(), 64u);
  EXPECT_EQ(Result(bad).status, Functional(wild));
  EXPECT_EQ(Result(bad).status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Result(bad).status.message(), HasSubstr("ld.global.u32"));
  EXPECT_EQ(gpu().sm(0).free(), ContextsOfSm(config_));
}

TEST_F(GpuTest, ABarrierThatNotAllReachEndsItsGrid) {
  const Launch stuck = runner_.MakeLaunch("stuck", {}, {64, 1, 1}, {data_});
  const GridId other = Submit(Work(50));
  const GridId grid = Submit(stuck);
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(Result(other).status.ok());
  EXPECT_EQ(Result(grid).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Result(grid).status, Functional(stuck));
}

TEST_F(GpuTest, AGridThatOnlySpinsIsEnded) {
  options_.no_progress_limit = 1000;
  const GridId grid = Submit(Spin());
  const GridId other = Submit(Work(100));
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(Result(other).status.ok());
  EXPECT_EQ(Result(grid).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Result(grid).status.message(),
              HasSubstr("spin: no progress for 1001 warp instructions; warp 0 "
                        "of block (0, 0, 0) is at test.ptx:"));
}

TEST_F(GpuTest, AStoreOfTheHostEndsASpin) {
  const GridId grid = Submit(Spin());
  EXPECT_FALSE(gpu().Run(10'000));
  Word(64) = 1;
  EXPECT_TRUE(gpu().Run(20'000));
  EXPECT_GE(Result(grid).completed, 10'000u);
  EXPECT_LT(Result(grid).completed, 10'100u);
}

TEST_F(GpuTest, LanesOfAWarpMayWaitForEachOther) {
  const GridId grid =
      Submit(runner_.MakeLaunch("locked", {}, {4, 1, 1}, {data_}));
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(Result(grid).status.ok()) << Result(grid).status;
  EXPECT_EQ(Word(1), 4u);
}

TEST_F(GpuTest, ACancelledGridLeavesItsRoom) {
  const GridId spins = Submit(Spin());
  const GridId waits = Submit(Nothing(), {.not_before = 100'000});
  EXPECT_FALSE(gpu().Run(500));
  EXPECT_TRUE(gpu().Cancel(spins).ok());
  EXPECT_TRUE(gpu().Cancel(waits).ok());
  EXPECT_EQ(Result(spins).status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Result(spins).completed, 500u);
  EXPECT_EQ(Result(waits).dispatched, kNever);
  EXPECT_EQ(gpu().sm(0).free(), ContextsOfSm(config_));
  EXPECT_EQ(gpu().Cancel(spins).code(), absl::StatusCode::kNotFound);
  // Operations that a cancelled grid left under way harm no later grid.
  const GridId next = Submit(Work(50, 4, 64));
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(Result(next).status.ok());
  EXPECT_EQ(Word(), 256u);
}

TEST_F(GpuTest, ABlockThatNoSMHoldsIsRefused) {
  const auto refused = gpu().Submit(Nothing(1, 288), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("nothing: a block has 9 warps"));
  EXPECT_THAT(refused.status().message(), HasSubstr("(it lacks warps)"));
  EXPECT_THAT(gpu().Submit(Nothing(), {.registers = 300}).status().message(),
              HasSubstr("(it lacks registers)"));
  EXPECT_EQ(gpu().Submit(Nothing(0), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(gpu().Run());
}

}  // namespace
}  // namespace carillon::sim::timing
