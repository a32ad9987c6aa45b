// The machine code's source, run: gpud's PTX on the simulated GPU, behind every
// launch path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/read_file.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using ::testing::AllOf;
using ::testing::HasSubstr;

// wait: data = 1, and then waits at the barrier for a release. bad: stores nowhere.
constexpr std::string_view kPtx = R"(.version 9.0
.target sm_75
.address_size 64
.global .align 8 .u64 carillon_releases;
.visible .entry wait(.param .u64 data)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [data];
  ld.global.u64 %rd2, [carillon_releases];
  ld.volatile.global.u64 %rd3, [%rd2];
  mov.u32 %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
$again:
  ld.volatile.global.u64 %rd4, [%rd2];
  setp.eq.s64 %p1, %rd4, %rd3;
  @%p1 bra $again;
  ret;
}
.visible .entry bad(.param .u64 data)
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 0;
  st.global.u64 [%rd1], %rd1;
  ret;
}
)";

class SimDriverTest : public CudaBackendFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void Open() {
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(GpuOptions(CudaModule())));
    Use(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SimDriverTest,
                         ::testing::Values("baseline", "baseline_flag", "graph",
                                           "stream_wait", "persistent",
                                           "pagoda_ring", "pagoda", "edge"),
                         [](const auto& info) { return info.param; });

TEST_P(SimDriverTest, ServesEventsAndTheirFailures) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto event = AddFailIf(*device_, 4);
  for (uint32_t i = 0; i < 20; ++i) {
    const uint32_t code = i % 3 == 0 ? i : 0;
    const shm::Completion completion = RingAndWait(*device_, event, code);
    ASSERT_EQ(completion.sequence.value(), i + 1);
    ASSERT_EQ(completion.status, code != 0 ? KernelCode(code) : 0u);
    ASSERT_EQ(completion.state,
              code != 0 ? EventState::kFailed : EventState::kDone);
  }
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(violations(), 0u);
}

// Named barriers and parts of the MTB's shared memory.
class SimTasksTest : public SimDriverTest {};

INSTANTIATE_TEST_SUITE_P(All, SimTasksTest,
                         ::testing::Values("pagoda_ring", "pagoda"),
                         [](const auto& info) { return info.param; });

TEST_P(SimTasksTest, TasksWhoseThreadsMeetRunAtOnceAndComputeTheSame) {
  constexpr uint32_t kWords = 2'000;
  constexpr uint32_t kEvents = 6;
  ASSERT_NO_FATAL_FAILURE(Open());
  auto* const in = reinterpret_cast<uint32_t*>(device_->memory->completion().At(
      *device_->completion_heap->Allocate(kWords * sizeof(uint32_t))));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kWords; ++i) sum += in[i] = i * 2654435761u;
  std::byte* const out = device_->memory->completion().At(
      *device_->completion_heap->Allocate(sizeof(uint64_t)));
  std::memset(out, 0, sizeof(uint64_t));
  // Six blocks of two warps an event, with parts of 5 KB.
  auto event =
      Add(*device_, {.kernel = simt::FindKernel("reduce"),
                     .bindings = {{.buffer = {reinterpret_cast<std::byte*>(in),
                                              kWords * sizeof(uint32_t)}},
                                  {.buffer = {out, sizeof(uint64_t)}}},
                     .grid = {3, 2, 1},
                     .block = {8, 4, 2},
                     .shared_bytes = 5 << 10,
                     .entries = 8});
  for (uint32_t i = 0; i < kEvents; ++i) event.ring->Commit();
  event.ring->RingDoorbell();
  for (uint32_t i = 0; i < kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  }
  uint64_t found = 0;
  std::memcpy(&found, out, sizeof(found));
  EXPECT_EQ(found, kEvents * sum);
  EXPECT_EQ(TakeAway(event), 0u);
}

// Of gpud's own code, a box of the grid at a time, or a block at a time. Each block
// adds its part once.
class SimSlicesTest : public SimDriverTest {
 protected:
  static constexpr uint32_t kWords = 20'000;
  void Open() {
    ASSERT_NO_FATAL_FAILURE(SimDriverTest::Open());
    in_ = reinterpret_cast<uint32_t*>(device_->memory->completion().At(
        *device_->completion_heap->Allocate(kWords * sizeof(uint32_t))));
    out_ = device_->memory->completion().At(
        *device_->completion_heap->Allocate(sizeof(uint64_t)));
    for (uint32_t i = 0; i < kWords; ++i) sum_ += in_[i] = i * 2654435761u;
  }
  TestDevice::Event AddSum(const simt::Dim3& grid) {
    return Add(*device_,
               {.kernel = simt::FindKernel("reduce"),
                .bindings = {{.buffer = {reinterpret_cast<std::byte*>(in_),
                                         kWords * sizeof(uint32_t)}},
                             {.buffer = {out_, sizeof(uint64_t)}}},
                .grid = grid,
                // One block an SM, so that a wave is 132 of them.
                .shared_bytes = backend_->gpu().shared_bytes_per_sm / 2});
  }
  uint64_t Found() const {
    uint64_t found = 0;
    std::memcpy(&found, out_, sizeof(found));
    return found;
  }

  uint32_t* in_ = nullptr;
  std::byte* out_ = nullptr;
  uint64_t sum_ = 0;
};

INSTANTIATE_TEST_SUITE_P(All, SimSlicesTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(SimSlicesTest, ASlicedKernelComputesWhatAWholeOneDoes) {
  ASSERT_NO_FATAL_FAILURE(Open());
  for (const simt::Dim3& grid :
       {simt::Dim3{200, 3, 1}, {7, 13, 5}, {1, 1, 300}}) {
    auto event = AddSum(grid);
    for (const char* policy : {"priority", "gpes", "ptb"}) {
      ASSERT_TRUE(backend_->SetPolicy(policy).ok());
      std::memset(out_, 0, sizeof(uint64_t));
      event.ring->Commit();
      event.ring->RingDoorbell();
      EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
      EXPECT_EQ(Found(), sum_) << policy << ", " << grid.x << " blocks a row";
    }
    EXPECT_EQ(TakeAway(event), 0u);
  }
  // 6 rows in parts, 5 planes, and a column in parts.
  const SliceFigures slices = backend_->figures().slices;
  EXPECT_EQ(slices.sliced, 3u);
  EXPECT_EQ(slices.slices, 14u);
  EXPECT_TRUE(slices.whole.empty());
  const PtbCounts ptb = backend_->figures().ptb;
  EXPECT_EQ(ptb.launches, 3u);
  EXPECT_EQ(ptb.stops, 0u);
  EXPECT_TRUE(ptb.whole.empty());
}

// A user's, whose PTX gpud has rewritten: by their own place in the grid, in
// functions that they call, and by counting in a variable of their module, which
// both versions share.
TEST_P(SimSlicesTest, ASlicedUsersKernelComputesWhatAWholeOneDoes) {
  constexpr uint32_t kWords = 4096;
  constexpr uint64_t kBytes = kWords * sizeof(uint32_t);
  ASSERT_NO_FATAL_FAILURE(Open());
  std::byte* const out = device_->memory->completion().At(
      *device_->completion_heap->Allocate(kBytes));
  const auto ptx =
      ReadFile("gpu_daemon/backends/cuda/driver/testdata/grids.ptx", "kernels");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  ModuleSource source{.image = std::as_bytes(std::span(*ptx)),
                      .file = "grids.ptx"};
  for (const char* kernel :
       {"strides", "turned", "cells", "calls", "last_one"}) {
    source.kernels.push_back(
        {.symbol = kernel,
         .name = kernel,
         .summary = "",
         .parameters = {{"out", simt::ParamKind::kWriteBuffer, 4},
                        {"n", simt::ParamKind::kU32}}});
  }
  const auto kernels = backend_->LoadKernels(source);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  // One block an SM, so that a wave is 132 of them.
  const uint32_t shared = backend_->gpu().shared_bytes_per_sm / 2;
  for (const simt::KernelInfo* kernel : *kernels) {
    for (const simt::Dim3& grid :
         {simt::Dim3{300, 1, 1}, {7, 40, 1}, {7, 13, 3}}) {
      auto event = Add(*device_, {.kernel = kernel,
                                  .bindings = {{.buffer = {out, kBytes}},
                                               {.constant_bits = kWords}},
                                  .grid = grid,
                                  .block = {32, 1, 1},
                                  .shared_bytes = shared});
      std::vector<std::byte> whole;
      for (const char* policy : {"priority", "gpes"}) {
        ASSERT_TRUE(backend_->SetPolicy(policy).ok());
        std::memset(out, 0, kBytes);
        event.ring->Commit();
        event.ring->RingDoorbell();
        EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
        const std::vector<std::byte> found(out, out + kBytes);
        if (whole.empty()) whole = found;
        EXPECT_TRUE(found == whole)
            << kernel->name << ", " << grid.x << " blocks a row";
      }
      EXPECT_NE(whole, std::vector<std::byte>(kBytes));
      EXPECT_EQ(TakeAway(event), 0u);
    }
  }
  const SliceFigures slices = backend_->figures().slices;
  EXPECT_EQ(slices.sliced, 15u);
  EXPECT_GT(slices.slices, 2 * slices.sliced);
  EXPECT_TRUE(slices.whole.empty());
}

TEST_P(SimSlicesTest, PersistentBlocksThatAreStoppedGoOnWhereTheyWere) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(backend_->SetPolicy("ptb").ok());
  auto sum = AddSum({200, 3, 1});
  auto urgent = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                               .bindings = {{.writable = true}},
                               .priority = 5});
  // The event may come too late to stop anybody.
  EXPECT_TRUE(Until([&] {
    std::memset(out_, 0, sizeof(uint64_t));
    sum.ring->Commit();
    sum.ring->RingDoorbell();
    EXPECT_TRUE(Until([&] { return !backend_->launches().empty(); }));
    EXPECT_EQ(RingAndWait(*device_, urgent, 7).status, KernelCode(7));
    EXPECT_EQ(device_->Wait(*sum.ring).state, EventState::kDone);
    EXPECT_EQ(Found(), sum_);
    return backend_->description().find("stopped 0 times") == std::string::npos;
  }));
  EXPECT_EQ(TakeAway(urgent), 0u);
  EXPECT_EQ(TakeAway(sum), 0u);
}

// Users' kernels.
class SimUserTest : public SimDriverTest {
 protected:
  void Open() {
    ASSERT_NO_FATAL_FAILURE(SimDriverTest::Open());
    data_ = device_->memory->completion().At(
        *device_->completion_heap->Allocate(kBytes));
  }
  TestDevice::Event AddUsers(const char* symbol) {
    const auto loaded = backend_->LoadKernels(
        {.image = std::as_bytes(std::span(kPtx)),
         .file = "user.ptx",
         .kernels = {
             {.symbol = symbol,
              .name = symbol,
              .summary = "",
              .parameters = {{"data", simt::ParamKind::kWriteBuffer, 4}}}}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return Add(*device_, {.kernel = loaded->front(),
                          .bindings = {{.buffer = {data_, kBytes}}},
                          .block = {1, 1, 1}});
  }
  // Has an event begun that waits, and lets it go.
  void ExpectOneWaits(const TestDevice::Event& event) {
    const std::atomic_ref began(*reinterpret_cast<uint32_t*>(data_));
    began = 0;
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return began == 1; }));
    EXPECT_EQ(event.ring->Poll(), std::nullopt);
    const absl::Status released = backend_->ReleaseBarrier(*device_->memory);
    EXPECT_TRUE(released.ok()) << released;
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  }

  static constexpr uint32_t kBytes = 64;
  std::byte* data_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, SimUserTest,
                         ::testing::Values("baseline", "baseline_flag", "graph",
                                           "stream_wait", "edge"),
                         [](const auto& info) { return info.param; });

TEST_P(SimUserTest, WaitsForAReleaseAlsoInANewContext) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const absl::Status none = backend_->ReleaseBarrier(*device_->memory);
  EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(none.message()), HasSubstr("'carillon_releases'"));
  auto waits = AddUsers("wait");
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(ExpectOneWaits(waits));
  auto bad = AddUsers("bad");
  bad.ring->Commit();
  bad.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*bad.ring).status,
            static_cast<uint32_t>(shm::EventStatus::kKernelFault));
  ASSERT_NO_FATAL_FAILURE(ExpectOneWaits(waits));
  EXPECT_EQ(TakeAway(bad), 0u);
  EXPECT_EQ(TakeAway(waits), 0u);
}

class SimModuleTest : public CudaBackendFixture {
 protected:
  // Stores a word there.
  CUresult Store(CUfunction store, CUdeviceptr at) {
    void* parameters[] = {&at};
    CUresult result = driver_.cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0,
                                             nullptr, parameters, nullptr);
    if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(nullptr);
    return result;
  }
  const Driver driver_ = fake_.driver();
};

TEST_F(SimModuleTest, MemoryThatAVariableHasHadInBetweenIsTheDriversAgain) {
  constexpr char kStore[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry store(.param .u64 at)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [at];
  st.global.u64 [%rd1], %rd1;
  ret;
}
)";
  constexpr char kVariable[] = R"(.version 9.0
.target sm_75
.address_size 64
.visible .global .align 8 .b8 variable[1048576];
)";
  constexpr size_t kBytes = 1 << 20;
  CUcontext context = nullptr;
  ASSERT_EQ(driver_.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUmodule code = nullptr;
  CUfunction store = nullptr;
  ASSERT_EQ(driver_.cuModuleLoadDataEx(&code, kStore, 0, nullptr, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuModuleGetFunction(&store, code, "store"), CUDA_SUCCESS);
  // Each in pages of its own, of which nothing small takes a part in between.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  // Until the host gives all three the same place.
  bool same = false;
  for (int i = 0; i < 100 && !same; ++i) {
    CUdeviceptr first = 0;
    ASSERT_EQ(driver_.cuMemAlloc(&first, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(Store(store, first), CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuMemFree(first), CUDA_SUCCESS);
    CUmodule module = nullptr;
    ASSERT_EQ(
        driver_.cuModuleLoadDataEx(&module, kVariable, 0, nullptr, nullptr),
        CUDA_SUCCESS);
    CUdeviceptr variable = 0;
    size_t bytes = 0;
    ASSERT_EQ(driver_.cuModuleGetGlobal(&variable, &bytes, module, "variable"),
              CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuModuleUnload(module), CUDA_SUCCESS);
    CUdeviceptr again = 0;
    ASSERT_EQ(driver_.cuMemAlloc(&again, kBytes), CUDA_SUCCESS);
    same = again == first && variable < first + kBytes &&
           first < variable + kBytes;
    EXPECT_EQ(Store(store, again), CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuMemFree(again), CUDA_SUCCESS);
  }
#ifndef __SANITIZE_ADDRESS__  // which gives freed memory to nobody for long
  EXPECT_TRUE(same);
#endif
  EXPECT_EQ(driver_.cuModuleUnload(code), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

TEST_F(SimModuleTest, GpudsOwnVariablesHaveTheirFirstValuesInEachContext) {
  std::array<uint64_t, 2> values = {};
  for (uint64_t& value : values) {
    CUcontext context = nullptr;
    ASSERT_EQ(driver_.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUmodule module = nullptr;
    ASSERT_EQ(driver_.cuModuleLoadDataEx(&module, CudaModule().data(), 0,
                                         nullptr, nullptr),
              CUDA_SUCCESS);
    CUdeviceptr variable = 0;
    size_t bytes = 0;
    ASSERT_EQ(driver_.cuModuleGetGlobal(&variable, &bytes, module,
                                        "carillon_inline_fail_if"),
              CUDA_SUCCESS);
    ASSERT_EQ(bytes, sizeof(value));
    ASSERT_EQ(driver_.cuMemcpyDtoH(&value, variable, bytes), CUDA_SUCCESS);
    const uint64_t changed = ~value;
    ASSERT_EQ(driver_.cuMemcpyHtoD(variable, &changed, bytes), CUDA_SUCCESS);
    // What is on its way is lost with the context.
    ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuModuleUnload(module), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_F(SimModuleTest, AKernelsNeedsAreThoseOfItsCode) {
  ASSERT_NO_FATAL_FAILURE(Open(GpuOptions(CudaModule())));
  constexpr std::string_view kShares = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry shares()
{
  .shared .align 4 .b8 part[12288];
  .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, part;
  st.shared.u32 [%r2], %r1;
  ret;
}
)";
  const auto loaded =
      backend_->LoadKernels({.image = std::as_bytes(std::span(kShares)),
                             .file = "shares.ptx",
                             .kernels = {{.symbol = "shares",
                                          .name = "shares",
                                          .summary = "",
                                          .parameters = {}}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->front()->static_shared_bytes, 12288u);
  EXPECT_EQ(loaded->front()->registers_per_thread, 2u);
}

// Its memory is the host's, of which a file could take all.
TEST_F(SimModuleTest,
       MoreVariablesThanTheHostGivesAreRefusedBeforeTheyTakeAny) {
  ASSERT_NO_FATAL_FAILURE(Open(GpuOptions(CudaModule())));
  constexpr std::string_view kBig = R"(.version 9.0
.target sm_75
.address_size 64
.visible .global .align 8 .b8 small[4096];
.visible .global .align 8 .b8 big[1000000000];
.visible .entry empty() { ret; }
)";
  const auto loaded =
      backend_->LoadKernels({.image = std::as_bytes(std::span(kBig)),
                             .file = "big.ptx",
                             .kernels = {{.symbol = "empty",
                                          .name = "empty",
                                          .summary = "",
                                          .parameters = {}}}});
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(loaded.status().message()),
              AllOf(HasSubstr("big.ptx"), HasSubstr(":5:10: with 'big'"),
                    HasSubstr("1000004096 bytes"),
                    HasSubstr("the limit is 268435456")));
}

}  // namespace
}  // namespace carillon::gpud::cuda
