// Background kernels, copies and memory, on a driver made of CPU threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/background_fixture.h"
#include "gpu_daemon/backends/cuda/cuda_backend.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

TEST_F(CudaBackgroundTest, EachEndsOnceWithItsStatus) {
  Open();
  std::vector<std::future<LaunchResult>> results;
  for (uint32_t i = 0; i < 100; ++i) results.push_back(Submit(i));
  for (uint32_t i = 0; i < 100; ++i) {
    const LaunchResult result = results[i].get();
    EXPECT_EQ(result.state, i == 0 ? EventState::kDone : EventState::kFailed);
    EXPECT_EQ(result.status, i == 0 ? 0 : KernelCode(i));
  }
  EXPECT_EQ(backend_->figures().background_kernels, 100u);
  EXPECT_EQ(backend_->figures().background_blocks, 400u);
  EXPECT_TRUE(backend_->idle());
}

// A driver may make no stream beside a kernel that stays.
TEST_F(CudaBackgroundTest, EachPriorityGetsAStreamBesideResidentKernels) {
  Open();
  Use("edge");
  auto event = AddFailIf(*device_);
  std::vector<std::future<LaunchResult>> results;
  for (int round = 0; round < 2; ++round) {
    // More than there are streams; then one of each.
    for (int i = 0; i < 20; ++i) results.push_back(Submit(0));
    for (uint32_t p = 0; p < kPriorities; ++p) results.push_back(Submit(0, p));
    EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  }
  for (auto& result : results) {
    EXPECT_EQ(result.get().state, EventState::kDone);
  }
  EXPECT_EQ(fake_.places().at("carillon_call_fail_if").priorities,
            (std::set<int>{-5, -4, -3, -2, -1, 0}));
  TakeAway(event);
}

TEST_F(CudaBackgroundTest, AStreamThatIsRefusedCostsOneLaunch) {
  Open();
  fake_.FailNext("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY);
  const LaunchResult refused = Submit(0).get();
  EXPECT_EQ(refused.state, EventState::kFailed);
  EXPECT_EQ(refused.status, static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_EQ(Submit(0).get().state, EventState::kDone);
}

// A driver may wait for an idle GPU to make one.
TEST_F(CudaBackgroundTest, NobodyWaitsWhileTheDriverMakesAStream) {
  static std::atomic<bool> held;
  static std::atomic<bool> making;
  held = making = false;
  Driver driver = fake_.driver();
  driver.cuStreamCreateWithPriority = [](auto... arguments) -> CUresult {
    making = true;
    held.wait(true);
    return ::cuStreamCreateWithPriority(arguments...);
  };
  auto backend = CudaBackend::CreateOn(driver, {}, GpuOptions());
  ASSERT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  device_.emplace(*backend_);
  held = true;
  making = false;
  auto first = Submit(0);
  // Until its stream is being made: no sooner is anybody in the driver.
  ASSERT_TRUE(Until([&] { return making.load(); }));
  auto second = std::async(std::launch::async, [&] { return Submit(5, 1); });
  const bool returned =
      second.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  held = false;
  held.notify_all();
  EXPECT_TRUE(returned);
  EXPECT_EQ(first.get().state, EventState::kDone);
  EXPECT_EQ(second.get().get().status, KernelCode(5));
}

// It is found so when it runs again, alone.
TEST_F(CudaBackgroundTest, OneThatNothingStopsEndsOnce) {
  fake_.ChangeSettings([](FakeSettings& s) {
    TwoSms(s);
    s.free_waits_for_idle = false;  // it runs until the context goes
  });
  Gpu::Options options = GpuOptions();
  options.longest_kernel = std::chrono::milliseconds(100);
  ASSERT_NO_FATAL_FAILURE(Open(options));
  fake_.FaultOn("fail_if", FakeGpu::Nth(1));
  fake_.HangOn("fail_if", FakeGpu::Always());
  std::atomic<uint32_t> ends{0};
  std::atomic<uint32_t> status{0};
  auto launch = LaunchOf(0);
  launch->kmd.grid = kFillsTwoSms;
  launch->on_end = [&](const LaunchResult& result) {
    status = result.status;
    ++ends;
  };
  backend_->Submit(std::move(launch));
  ASSERT_TRUE(Until([&] { return ends != 0; }));
  EXPECT_EQ(status, static_cast<uint32_t>(EventStatus::kTimedOut));
  // The recovery is over.
  EXPECT_EQ(Submit(0).get().status,
            static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_EQ(ends, 1u);
  EXPECT_TRUE(backend_->idle());
}

TEST_F(CudaBackgroundTest, AFaultFailsTheCulpritAndTheOthersRunAgain) {
  Open();
  fake_.FaultOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  std::vector<std::future<LaunchResult>> results;
  for (uint32_t i = 10; i < 20; ++i) results.push_back(Submit(i));
  for (uint32_t i = 10; i < 20; ++i) {
    EXPECT_EQ(results[i - 10].get().status,
              i == 13 ? static_cast<uint32_t>(EventStatus::kKernelFault)
                      : KernelCode(i));
  }
}

// Memory.

TEST_F(CudaBackendTest, BuffersAreZerosBeforeSomebodyWritesToThem) {
  Open();
  constexpr uint64_t kBytes = uint64_t{16} << 20;
  const auto buffer = backend_->memory().Allocate(kBytes);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  // As a kernel in any stream may, from now on.
  std::byte& last = (*buffer)->data()[kBytes - 1];
  last = std::byte{1};
  const Driver driver = fake_.driver();
  CUcontext context = nullptr;
  driver.cuDevicePrimaryCtxRetain(&context, 0);
  driver.cuCtxSetCurrent(context);
  EXPECT_EQ(driver.cuCtxSynchronize(), CUDA_SUCCESS);
  driver.cuDevicePrimaryCtxRelease(0);
  EXPECT_EQ(last, std::byte{1});
}

// A driver frees and registers nothing beside a kernel that stays; it copies.
TEST_F(CudaBackgroundTest, CopiesGoInAndOutBesideResidentKernels) {
  Open();
  Use("edge");
  auto event = AddFailIf(*device_);
  constexpr uint64_t kBytes = 3000;
  std::byte* const in = device_->memory->submission().At(
      *device_->submission_heap->Allocate(kBytes));
  std::byte* const out = device_->memory->completion().At(
      *device_->completion_heap->Allocate(kBytes));
  for (uint64_t i = 0; i < kBytes; ++i) in[i] = std::byte(i * 3 + i / 256);
  auto memory = *backend_->memory().Allocate(kBytes);
  EXPECT_EQ(Copy(CopyDirection::kIn, memory->data(), in, kBytes).get().state,
            EventState::kDone);
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_EQ(Copy(CopyDirection::kOut, out, memory->data(), kBytes).get().state,
            EventState::kDone);
  EXPECT_EQ(std::memcmp(in, out, kBytes), 0);
  TakeAway(event);
  memory.reset();
}

TEST_F(CudaBackgroundTest, ACopyThatLosesTheContextFailsAndTheNextOneDoesNot) {
  Open();
  auto memory = *backend_->memory().Allocate(100);
  std::byte* const in = device_->memory->submission().At(
      *device_->submission_heap->Allocate(100));
  fake_.FailNext("cuMemcpyHtoDAsync", CUDA_ERROR_ILLEGAL_ADDRESS);
  const LaunchResult lost =
      Copy(CopyDirection::kIn, memory->data(), in, 100).get();
  EXPECT_EQ(lost.state, EventState::kFailed);
  EXPECT_EQ(lost.status, static_cast<uint32_t>(EventStatus::kKernelFault));
  EXPECT_EQ(Copy(CopyDirection::kIn, memory->data(), in, 100).get().state,
            EventState::kDone);
  memory.reset();
}

TEST_F(CudaBackendTest,
       GpuMemoryIsZerosAtAnAddressThatALostContextDoesNotMove) {
  Open();
  const uint64_t before = fake_.memory_used();
  auto memory = backend_->memory().Allocate(5'000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::byte* const data = (*memory)->data();
  // A fault, and what follows from it.
  fake_.FaultOn("null_event", FakeGpu::Nth(1));
  path_ = backend_->paths().Find("baseline_flag")->path;
  auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                              .bindings = {Constant(0)}});
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone)
      << "it faulted once only";
  EXPECT_EQ((*memory)->data(), data);
  TakeAway(event);
  memory->reset();
  EXPECT_EQ(fake_.memory_used(), before);
}

TEST_F(CudaBackendTest, MoreMemoryThanTheGpuHasIsRefused) {
  Open();
  const auto memory = backend_->memory().Allocate(uint64_t{1} << 50);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.status().message()),
              HasSubstr("bytes of GPU memory"));
}

}  // namespace
}  // namespace carillon::gpud::cuda
