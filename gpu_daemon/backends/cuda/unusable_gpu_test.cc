// A GPU that cannot be used any more, and kernels that leave no room on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "gpu_daemon/backends/cuda/cuda_backend.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using shm::EventStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using CudaBackendTest = CudaBackendFixture;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

void FaultAndEnd(const char* function) {
  FakeGpu fake;
  fake.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
  Gpu::Options options{.image = FakeGpu::Image(),
                       .recovers = true,
                       .look_every = std::chrono::milliseconds(5),
                       .on_unusable = [](const std::string& why) {
                         std::fprintf(stderr, "%s\n", why.c_str());
                         CudaBackend::EndToStartAgain(why);
                       }};
  Driver driver = fake.driver();
  if (std::string_view(function) == "cuDevicePrimaryCtxReset") {
    options.longest_step = std::chrono::milliseconds(100);
    driver.cuDevicePrimaryCtxReset = [](CUdevice) -> CUresult {
      while (true) pause();  // for a kernel that does not leave the GPU
    };
  }
  auto backend = CudaBackend::CreateOn(driver, {}, options);
  if (!backend.ok()) std::_Exit(1);
  fake.FailNext(function, CUDA_ERROR_OUT_OF_MEMORY, 100);
  fake.FaultOn("null_event", FakeGpu::Always());
  auto launch = std::make_unique<KernelLaunch>();
  launch->kmd = {.kernel = simt::FindKernel("null_event"),
                 .grid = {1, 1, 1},
                 .block = {32, 1, 1}};
  launch->args = std::make_unique<std::byte[]>(launch->kmd.kernel->args_size);
  launch->from_host = true;
  launch->on_end = [](const LaunchResult&) {
    std::fprintf(stderr, "it has ended\n");
  };
  (*backend)->Submit(std::move(launch));
  while (true) pause();
}

TEST(CudaBackendDeathTest, ARecoveryThatFailsEndsTheProcessToBeStartedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FaultAndEnd("cuDevicePrimaryCtxRetain"),
              testing::ExitedWithCode(kStartAgainCode),
              AllOf(HasSubstr("make a CUDA context: CUDA_ERROR_OUT_OF_MEMORY"),
                    Not(HasSubstr("it has ended"))));
}

TEST(CudaBackendDeathTest, ARecoveryThatStandsStillEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FaultAndEnd("cuDevicePrimaryCtxReset"),
              testing::ExitedWithCode(kStartAgainCode),
              AllOf(HasSubstr("stood still for 100 ms"),
                    Not(HasSubstr("it has ended"))));
}

TEST_F(CudaBackendTest, AResidentDispatcherStopsAKernelThatFillsTheGpu) {
  fake_.ChangeSettings(&TwoSms);
  OpenPath("edge", std::chrono::milliseconds(100));
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .grid = kFillsTwoSms,
                              .block = {64, 1, 1}});
  // Beside the dispatchers fewer have room.
  fake_.HangOn("carillon_event_fail_if", FakeGpu::Nth(1));
  EXPECT_EQ(RingAndWait(*device_, event).status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  TakeAway(event);
}

// It is asked first, too. Edge's dispatchers stop the one that fills the GPU.
TEST_F(CudaBackendTest, WhoWaitsForTheRoomOfAKernelThatDoesNotEndIsNotBlamed) {
  fake_.ChangeSettings(&TwoSms);
  Gpu::Options gpu = GpuOptions();
  gpu.longest_kernel = std::chrono::milliseconds(400);
  gpu.look_every = std::chrono::milliseconds(100);
  ASSERT_NO_FATAL_FAILURE(Open(gpu));
  Use("edge");
  auto resident = AddFailIf(*device_);
  Use("graph");
  auto waits = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .block = {64, 1, 1}});
  Use("baseline");
  auto fills = Add(OtherDevice(), {.kernel = simt::FindKernel("null_event"),
                                   .bindings = {Constant(0)},
                                   .grid = kFillsTwoSms,
                                   .block = {64, 1, 1}});
  std::atomic<bool> runs{false};
  fake_.HangOn("null_event",
               [&runs](const KernelCall&) { return !runs.exchange(true); });
  fills.ring->Commit();
  fills.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return runs.load(); }));
  EXPECT_EQ(RingAndWait(*device_, waits).state, EventState::kDone);
  // So it has waited.
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  EXPECT_EQ(others_[0]->Wait(*fills.ring).status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  TakeAway(fills);
  Use("graph");
  TakeAway(waits);
  Use("edge");
  TakeAway(resident);
}

struct Fill {
  const char* path = "baseline";
  bool tracing = false;
  // Nobody looks for it before gpud lets the GPU come to rest.
  bool pauses = false;
};

void FillAndEnd(const Fill& fill) {
  FakeGpu fake;
  fake.ChangeSettings(&TwoSms);
  auto device = std::make_shared<std::optional<MappedDevice>>();
  auto event = std::make_shared<TestDevice::Event>();
  auto backend = CudaBackend::CreateOn(
      fake.driver(), BackendOptions{.tracing = fill.tracing},
      {.image = FakeGpu::Image(),
       .longest_kernel = std::chrono::milliseconds(100),
       .look_every = std::chrono::milliseconds(fill.pauses ? 60'000 : 5),
       .on_unusable = [&](const std::string& why) {
         std::fprintf(stderr, "%s; status %u\n", why.c_str(),
                      (*device)->Wait(*event->ring).status);
         CudaBackend::EndToStartAgain(why);
       }});
  if (!backend.ok()) std::_Exit(1);
  device->emplace(**backend);
  *event = (*device)->Register({.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}},
                                .grid = kFillsTwoSms,
                                .block = {64, 1, 1}});
  const auto path = (*backend)->paths().Find(fill.path);
  if (!path.ok() || !path->path->Add(event->kernel).ok()) std::_Exit(1);
  // Nobody looks between the end of an event and the next one's hanging.
  if (fill.pauses) {
    event->ring->Commit();
    event->ring->RingDoorbell();
    if ((*device)->Wait(*event->ring).state != EventState::kDone) std::_Exit(1);
  }
  std::atomic<bool> runs{false};
  fake.HangOn("fail_if", [&runs](const KernelCall&) {
    runs.store(true);
    return true;
  });
  event->ring->Commit();
  event->ring->RingDoorbell();
  if (fill.pauses) {
    while (!runs.load()) std::this_thread::yield();
    MappedDevice other(**backend, "other");
  }
  while (true) pause();
}

// The device knows before: the next gpud does not run it. Tracing, too: what
// would measure the GPU's clock finds no room there, and nobody waits for it.
TEST(CudaBackendDeathTest, AKernelThatFillsTheGpuAndDoesNotEndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Fill& fill : {Fill{}, Fill{.tracing = true},
                           Fill{.path = "stream_wait", .pauses = true}}) {
    EXPECT_EXIT(
        FillAndEnd(fill), testing::ExitedWithCode(kStartAgainCode),
        AllOf(HasSubstr("event 0 ('fail_if') of device 'test0'"),
              HasSubstr("status " + std::to_string(static_cast<uint32_t>(
                                        EventStatus::kTimedOut)))))
        << fill.path << ", tracing " << fill.tracing;
  }
}

// Neither the launch nor what would stop it comes back.
void LaunchForEver() {
  static std::atomic<bool> stuck{false};
  FakeGpu fake;
  Driver driver = fake.driver();
  driver.cuLaunchKernel = [](auto... arguments) -> CUresult {
    while (stuck.load()) pause();
    return ::cuLaunchKernel(arguments...);
  };
  std::optional<MappedDevice> device;
  auto backend =
      CudaBackend::CreateOn(driver, {},
                            {.image = FakeGpu::Image(),
                             .longest_kernel = std::chrono::milliseconds(100),
                             .look_every = std::chrono::milliseconds(5),
                             .longest_step = std::chrono::milliseconds(100),
                             .on_unusable = [](const std::string& why) {
                               std::fprintf(stderr, "%s\n", why.c_str());
                               CudaBackend::EndToStartAgain(why);
                             }});
  if (!backend.ok()) std::_Exit(1);
  device.emplace(**backend);
  auto event = device->Register({.kernel = simt::FindKernel("fail_if"),
                                 .bindings = {{.writable = true}},
                                 .grid = {1, 1, 1}});
  const auto path = (*backend)->paths().Find("baseline");
  if (!path.ok() || !path->path->Add(event.kernel).ok()) std::_Exit(1);
  stuck.store(true);
  event.ring->Commit();
  event.ring->RingDoorbell();
  while (true) pause();
}

TEST(CudaBackendDeathTest, ALaunchThatNeverComesBackEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LaunchForEver(), testing::ExitedWithCode(kStartAgainCode),
              HasSubstr("has stood still for 2200 ms"));
}

}  // namespace
}  // namespace carillon::gpud::cuda
