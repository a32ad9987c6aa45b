// A user's PTX where there is no GPU: on the cpu and the sim back-end, behind
// every launch path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/sim/sim_backend.h"
#include "gpu_daemon/backends/sim/sim_block_runner.h"
#include "gpu_daemon/event/kernel_catalog.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;

// bump: data[at + thread] += 1. never: stores without an end. stop: traps.
// wait: data[0] = 1, and then waits at the wait-release barrier.
constexpr char kPtx[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry bump(.param .u64 data, .param .u32 at)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [at];
  mov.u32 %r2, %tid.x;
  add.s32 %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r4, [%rd3];
  add.s32 %r5, %r4, 1;
  st.global.u32 [%rd3], %r5;
  ret;
}
.visible .entry never(.param .u64 data, .param .u32 at)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [at];
again:
  st.global.u32 [%rd1], %r1;
  bra again;
}
.visible .entry stop(.param .u64 data, .param .u32 at)
{
  trap;
}
.extern .func __wait_threads;
.visible .entry wait(.param .u64 data, .param .u32 at)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [data];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  call.uni __wait_threads;
  ret;
}
)";

// over: data[2] = 1, and stores for ever where data[0..1] say.
constexpr char kOverPtx[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry over(.param .u64 data, .param .u32 at)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [data];
  ld.global.u64 %rd2, [%rd1];
  mov.u32 %r1, 1;
again:
  ld.global.u32 %r2, [%rd2];
  st.global.u32 [%rd2], %r2;
  st.global.u32 [%rd1+8], %r1;
  bra again;
}
)";

// takes: data[at] = whether malloc() gives its first thread a MiB.
constexpr char kTakesPtx[] = R"(.version 9.0
.target sm_75
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 bytes);
.visible .entry takes(.param .u64 data, .param .u32 at)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 exit;
  { .param .b64 bytes; .param .b64 result;
    st.param.b64 [bytes], 0x100000;
    call.uni (result), malloc, (bytes);
    ld.param.b64 %rd1, [result]; }
  setp.ne.s64 %p1, %rd1, 0;
  selp.u32 %r1, 1, 0, %p1;
  ld.param.u64 %rd2, [data];
  ld.param.u32 %r2, [at];
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r1;
  ret;
}
)";

ModuleSource Source(std::string_view text, std::string symbol,
                    std::string name = "") {
  return {
      .image = std::as_bytes(std::span(text)),
      .file = "user.ptx",
      .kernels = {{.symbol = symbol,
                   .name = name.empty() ? symbol : name,
                   .parameters = {{"data", simt::ParamKind::kWriteBuffer, 4},
                                  {"at", simt::ParamKind::kU32, 0}}}}};
}

uint32_t Number(EventStatus status) { return static_cast<uint32_t>(status); }

absl::StatusOr<std::unique_ptr<Backend>> Make(const std::string& name) {
  const BackendOptions options{.workers = 2, .heap_bytes = 9 << 20};
  return name == "cpu" ? CpuBackend::Create(options)
                       : SimBackend::Create(options);
}

class UserPtxTest
    : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  UserPtxTest() : backend_(*Make(std::get<0>(GetParam()))) {
    path_ = backend_->paths().Find(std::get<1>(GetParam()))->path;
    mapping_ =
        *backend_->memory().MapHost(std::as_writable_bytes(std::span(data_)));
  }
  ~UserPtxTest() override {
    backend_->Stop();
    backend_->Join();
  }

  TestDevice::Event Add(const simt::KernelInfo* kernel) {
    auto event = device_.Register(
        {.kernel = kernel,
         .bindings = {{.buffer = {mapping_->data(), sizeof(data_)}},
                      {.writable = true}}});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  const simt::KernelInfo* MustLoad(const std::string& symbol,
                                   const char* text = kPtx) {
    const auto loaded = catalog_.Load(Source(text, symbol), *backend_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? loaded->front() : nullptr;
  }
  Completion Ring(const TestDevice::Event& event, uint32_t at) {
    std::memcpy(event.ring->parameters(), &at, sizeof(at));
    event.ring->Commit();
    event.ring->RingDoorbell();
    return device_.Wait(*event.ring);
  }
  // Returns when the kernel has stored 1 to data_[word].
  void RingAndAwaitBegin(const TestDevice::Event& event, size_t word) {
    std::atomic_ref<uint32_t> began(data_[word]);
    began = 0;
    event.ring->Commit();
    event.ring->RingDoorbell();
    while (began == 0) sched_yield();
  }

  alignas(uint64_t) uint32_t data_[64] = {};
  TestDevice device_;
  std::unique_ptr<Backend> backend_;
  KernelCatalog catalog_;
  std::unique_ptr<HostMapping> mapping_;
  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(
    All, UserPtxTest,
    ::testing::Combine(::testing::Values("cpu", "sim"),
                       ::testing::Values("edge", "baseline", "baseline_flag")),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::get<1>(info.param);
    });

TEST_P(UserPtxTest, RunsAndABadAddressFailsItsEventAlone) {
  auto event = Add(MustLoad("bump"));
  EXPECT_EQ(Ring(event, 0).state, EventState::kDone);
  // Lanes 16 and up are beyond the end.
  const Completion bad = Ring(event, 48);
  EXPECT_EQ(bad.state, EventState::kFailed);
  EXPECT_EQ(bad.status, Number(EventStatus::kKernelFault));
  EXPECT_EQ(Ring(event, 32).state, EventState::kDone);
  // The one that failed has stored nothing.
  EXPECT_THAT(data_, ::testing::Each(1u));
}

TEST_P(UserPtxTest, MallocTakesFromAHeapOfTheSizeThatIsAskedFor) {
  auto event = Add(MustLoad("takes", kTakesPtx));
  // 9 MiB, and a GPU's default would be 8.
  for (uint32_t at = 0; at < 10; ++at) {
    data_[at] = 7;
    ASSERT_EQ(Ring(event, at).state, EventState::kDone);
    EXPECT_EQ(data_[at], at < 9 ? 1u : 0u) << at;
  }
}

TEST_P(UserPtxTest, OneThatTrapsFailsItsEventBesideGpudsOwn) {
  auto trap = Add(MustLoad("stop"));
  auto own = device_.Register({.kernel = simt::FindKernel("fail_if"),
                               .bindings = {{.writable = true}}});
  ASSERT_TRUE(path_->Add(own.kernel).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Ring(trap, 0).status, Number(EventStatus::kKernelFault));
    EXPECT_EQ(Ring(own, 0).state, EventState::kDone);
  }
}

// As another device's memory goes when that device does.
TEST_P(UserPtxTest, OneThatRunsOverMemoryThatGoesFailsAlone) {
  auto over = Add(MustLoad("over", kOverPtx));
  auto own = device_.Register({.kernel = simt::FindKernel("fail_if"),
                               .bindings = {{.writable = true}}});
  ASSERT_TRUE(path_->Add(own.kernel).ok());
  const auto run_over = [&](const std::byte* address, auto take_away) {
    std::memcpy(data_, &address, sizeof(address));
    RingAndAwaitBegin(over, 2);
    EXPECT_EQ(Ring(own, 0).state, EventState::kDone);
    take_away();
    const Completion end = device_.Wait(*over.ring);
    EXPECT_EQ(end.state, EventState::kFailed);
    EXPECT_EQ(end.status, Number(EventStatus::kKernelFault));
    EXPECT_EQ(Ring(own, 0).state, EventState::kDone);
  };
  constexpr size_t kBytes = 4096;
  for (int i = 0; i < 3; ++i) {
    void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    auto mapping =
        *backend_->memory().MapHost({static_cast<std::byte*>(page), kBytes});
    run_over(mapping->data(), [&] {
      mapping.reset();
      munmap(page, kBytes);
    });
    auto memory = *backend_->memory().Allocate(kBytes);
    run_over(memory->data(), [&] { memory.reset(); });
  }
}

TEST_P(UserPtxTest, OneThatWaitsAtTheBarrierLetsMemoryGo) {
  auto event = Add(MustLoad("wait"));
  auto memory = *backend_->memory().Allocate(4096);
  RingAndAwaitBegin(event, 0);
  memory.reset();
  EXPECT_TRUE(backend_->ReleaseBarrier(*device_.memory).ok());
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
}

TEST_P(UserPtxTest, WhatItLacksIsRefusedWithItsPlaceAndNothingElseIsDisturbed) {
  auto event = Add(MustLoad("bump"));
  std::string unknown = kPtx;
  unknown.replace(unknown.find("add.s32 %r3"), 7, "mmm.s32");
  const auto refused =
      catalog_.Load(Source(unknown, "bump", "other"), *backend_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(refused.status().message()),
      HasSubstr("user.ptx:11:3: instruction 'mmm.s32' is not supported"));
  EXPECT_EQ(catalog_.Find("other"), nullptr);
  EXPECT_THAT(
      std::string(catalog_
                      .Load(Source("\x7f"
                                   "ELF....",
                                   "bump", "other"),
                            *backend_)
                      .status()
                      .message()),
      AllOf(HasSubstr("user.ptx is machine code"), HasSubstr("nvcc -ptx")));
  EXPECT_EQ(Ring(event, 0).state, EventState::kDone);
}

// edgeReleaseBarrier.
TEST_P(UserPtxTest, AnEventWaitsUntilTheBarrierIsReleased) {
  auto event = Add(MustLoad("wait"));
  const auto release = [&] {
    const absl::Status released = backend_->ReleaseBarrier(*device_.memory);
    EXPECT_TRUE(released.ok()) << released;
  };
  for (int i = 0; i < 3; ++i) {
    RingAndAwaitBegin(event, 0);
    EXPECT_EQ(event.ring->Poll(), std::nullopt);
    release();
    EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  }
  // One that comes early is not lost, and lets one event pass.
  release();
  EXPECT_EQ(Ring(event, 0).state, EventState::kDone);
  RingAndAwaitBegin(event, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(event.ring->Poll(), std::nullopt);
  release();
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
}

// A release goes by launches, not by who runs when.
class ReleaseTest : public ::testing::TestWithParam<std::string> {
 protected:
  ReleaseTest()
      : backend_(*(GetParam() == "cpu" ? CpuBackend::Create({.workers = 1})
                                       : SimBackend::Create({.workers = 1}))) {
    mapping_ =
        *backend_->memory().MapHost(std::as_writable_bytes(std::span(data_)));
    kernel_ = catalog_.Load(Source(kPtx, "wait"), *backend_)->front();
  }
  ~ReleaseTest() override {
    backend_->Stop();
    backend_->Join();
  }
  TestDevice::Event Add(TestDevice& device, uint32_t blocks) {
    auto event = device.Register(
        {.kernel = kernel_,
         .bindings = {{.buffer = {mapping_->data(), sizeof(data_)}},
                      {.writable = true}},
         .grid = {blocks, 1, 1}});
    EXPECT_TRUE(
        backend_->paths().Find("baseline")->path->Add(event.kernel).ok());
    return event;
  }
  void Ring(const TestDevice::Event& event) {
    event.ring->Commit();
    event.ring->RingDoorbell();
  }
  void AwaitBegin() {
    std::atomic_ref<uint32_t> began(data_[0]);
    while (began == 0) sched_yield();
  }
  void Release(const TestDevice& device) {
    EXPECT_TRUE(backend_->ReleaseBarrier(*device.memory).ok());
  }

  uint32_t data_[64] = {};
  TestDevice device_{"a"};
  TestDevice other_{"b"};
  std::unique_ptr<Backend> backend_;
  KernelCatalog catalog_;
  std::unique_ptr<HostMapping> mapping_;
  const simt::KernelInfo* kernel_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, ReleaseTest, ::testing::Values("cpu", "sim"));

TEST_P(ReleaseTest, OneLetsAllBlocksPassHoweverFewRunAtOnce) {
  auto event = Add(device_, 3);
  Ring(event);
  AwaitBegin();
  Release(device_);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  // One that came before them as well.
  Release(device_);
  Ring(event);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
}

TEST_P(ReleaseTest, OneIsForEachLaunchThatWasSubmittedBefore) {
  auto event = Add(device_, 1);
  Ring(event);
  AwaitBegin();
  // Behind it, since there is one worker.
  std::promise<EventState> state;
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = {.kernel = kernel_, .grid = {1, 1, 1}, .block = {32, 1, 1}};
  launch->cost = CostOf(32, 1, 0);
  launch->args = std::make_unique<std::byte[]>(kernel_->args_size);
  std::byte* const data = mapping_->data();
  std::memcpy(launch->args.get(), &data, sizeof(data));
  launch->memory = device_.memory;
  launch->on_end = [&](const LaunchResult& result) {
    state.set_value(result.state);
  };
  backend_->Submit(std::move(launch));
  Release(device_);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(state.get_future().get(), EventState::kDone);
}

TEST_P(ReleaseTest, AnotherDevicesReleaseIsNotTakenAndTakesNone) {
  auto own = Add(device_, 1);
  auto others = Add(other_, 1);
  Release(device_);
  Ring(others);
  AwaitBegin();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(others.ring->Poll(), std::nullopt);
  Release(other_);
  EXPECT_EQ(other_.Wait(*others.ring).state, EventState::kDone);
  Ring(own);
  EXPECT_EQ(device_.Wait(*own.ring).state, EventState::kDone);
}

TEST(UserPtx, ARefusedFileLeavesNoMemoryBehind) {
  PtxEngine ptx(sim::Addresses::kHost);
  const size_t before = ptx.memory.table()->size();
  const auto refuse = [&](std::string text, const std::string& symbol) {
    const absl::Status status = ptx.kernels.Load(Source(text, symbol)).status();
    EXPECT_EQ(ptx.memory.table()->size(), before) << status;
    return status;
  };
  const std::string with =
      std::string(kPtx) + ".visible .global .align 4 .b8 table[4096];\n";
  EXPECT_EQ(refuse(with, "bumb").code(), absl::StatusCode::kNotFound);
  std::string unknown = with;
  unknown.replace(unknown.find("add.s32 %r3"), 7, "mmm.s32");
  EXPECT_EQ(refuse(unknown, "bump").code(), absl::StatusCode::kUnimplemented);
  const absl::Status large = refuse(
      with + ".visible .global .align 4 .b8 huge[1000000000];\n", "bump");
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(large.message()),
      AllOf(HasSubstr("user.ptx:45:"), HasSubstr("with 'huge' the file's"),
            HasSubstr("the limit is 268435456")));
  EXPECT_TRUE(ptx.kernels.Load(Source(with, "bump")).ok());
  EXPECT_EQ(ptx.memory.table()->size(), before + 1);
}

TEST(UserPtx, OneThatWaitsForNobodyIsStopped) {
  PtxEngine ptx(sim::Addresses::kHost);
  SimBlockRunner runner(&ptx, std::chrono::milliseconds(50));
  std::vector<uint32_t> data(1);
  ASSERT_TRUE(ptx.memory
                  .Map(std::as_writable_bytes(std::span(data)),
                       /*writable=*/true, "data")
                  .ok());
  const auto kernels = ptx.kernels.Load(Source(kPtx, "wait"));
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  struct {
    uint32_t* data;
    uint32_t at;
  } args{data.data(), 0};
  const KernelMetadata kmd{.kernel = kernels->front()};
  LaunchRun run;
  runner.Run(kmd, 0, &args, &run);
  EXPECT_EQ(run.fail_status, simt::kFailBarrierDeadlock);
}

TEST(UserPtx, OneThatNeverEndsIsStoppedWithAllItsBlocks) {
  PtxEngine ptx(sim::Addresses::kHost);
  const auto load = [&](const std::string& symbol) {
    return ptx.kernels.Load(Source(kPtx, symbol)).value().front();
  };
  SimBlockRunner runner(&ptx, std::chrono::milliseconds(50));
  std::vector<uint32_t> data(32);
  const auto mapped = ptx.memory.Map(std::as_writable_bytes(std::span(data)),
                                     /*writable=*/true, "data");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  struct {
    uint32_t* data;
    uint32_t at;
  } args{data.data(), 0};
  KernelMetadata kmd{
      .kernel = load("never"), .grid = {1'000'000, 1, 1}, .block = {32, 1, 1}};
  LaunchRun run;
  for (uint64_t block = 0; block < kmd.blocks(); ++block) {
    runner.Run(kmd, block, &args, &run);
    ASSERT_EQ(run.fail_status, simt::kFailNoProgress);
  }
  kmd.kernel = load("bump");
  data.assign(data.size(), 0);
  LaunchRun next;
  runner.Run(kmd, 0, &args, &next);
  EXPECT_EQ(next.fail_status, simt::kFailNone);
  EXPECT_THAT(data, ::testing::Each(1u));
}

std::atomic<Nanoseconds> clock_ns{0};

TEST(UserPtx, ALaunchOfManyBlocksIsStoppedAsAWhole) {
  PtxEngine ptx(sim::Addresses::kHost);
  // Each look at the clock takes a millisecond.
  SimBlockRunner runner(&ptx, std::chrono::milliseconds(100),
                        [] { return clock_ns += 1'000'000; });
  std::vector<uint32_t> data(1);
  ASSERT_TRUE(ptx.memory
                  .Map(std::as_writable_bytes(std::span(data)),
                       /*writable=*/true, "data")
                  .ok());
  struct {
    uint32_t* data;
    uint32_t at;
  } args{data.data(), 0};
  const KernelMetadata kmd{
      .kernel = ptx.kernels.Load(Source(kPtx, "bump")).value().front(),
      .grid = {1000, 1, 1}};
  LaunchRun run;
  for (uint64_t block = 0; block < kmd.blocks(); ++block) {
    runner.Run(kmd, block, &args, &run);
    // For an hour the workers run other launches, which is none of its time.
    clock_ns += Nanoseconds{3600} * 1'000'000'000;
  }
  EXPECT_EQ(run.fail_status, simt::kFailNoProgress);
  EXPECT_GT(data[0], 1u);
  EXPECT_LE(data[0], 100u);
}

}  // namespace
}  // namespace carillon::gpud
