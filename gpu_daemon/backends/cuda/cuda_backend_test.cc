// The CUDA back-end on a driver made of CPU threads.
#include "gpu_daemon/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

using CudaBackendTest = CudaBackendFixture;

class CudaPathsTest : public CudaBackendFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void Open(std::chrono::milliseconds longest_kernel =
                std::chrono::milliseconds(10'000)) {
    OpenPath(GetParam(), longest_kernel);
  }
  static void RingWith(shm::DeviceRing& ring, uint32_t value) {
    std::memcpy(ring.parameters(), &value, sizeof(value));
    ring.Commit();
    ring.RingDoorbell();
  }
};

INSTANTIATE_TEST_SUITE_P(All, CudaPathsTest,
                         ::testing::Values("edge", "baseline", "baseline_flag",
                                           "graph", "stream_wait",
                                           "persistent"),
                         [](const auto& info) { return info.param; });

TEST_P(CudaPathsTest, EveryRungEventEndsOnceWithItsOwnStatus) {
  Open();
  auto event = AddFailIf(*device_);
  for (uint32_t i = 1; i <= 100; ++i) {
    const uint32_t code = i % 3 == 0 ? i : 0;
    RingWith(*event.ring, code);
    const Completion completion = device_->Wait(*event.ring);
    ASSERT_EQ(completion.sequence.value(), i);
    ASSERT_EQ(completion.state,
              code == 0 ? EventState::kDone : EventState::kFailed);
    ASSERT_EQ(completion.status, code == 0 ? 0 : KernelCode(code));
  }
  EXPECT_EQ(TakeAway(event), 0u);
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.rung, 100u);
  EXPECT_EQ(counts.done, 67u);
  EXPECT_EQ(counts.failed, 33u);
}

TEST_P(CudaPathsTest, NoRingOfTwoDevicesIsLostInBursts) {
  constexpr uint64_t kEvents = 1'000;
  Open();
  MappedDevice& other = OtherDevice();
  std::vector<TestDevice::Event> events;
  for (TestDevice* device : {static_cast<TestDevice*>(&*device_),
                             static_cast<TestDevice*>(&other)}) {
    events.push_back(Add(*device, {.kernel = simt::FindKernel("null_event"),
                                   .bindings = {Constant(0)},
                                   .entries = 64}));
  }
  for (uint64_t rung = 0, consumed = 0; consumed < kEvents; ++consumed) {
    while (rung < kEvents && events[0].ring->free_slots() > 0 &&
           events[1].ring->free_slots() > 0) {
      for (auto& event : events) event.ring->Commit();
      ++rung;
    }
    for (auto& event : events) event.ring->RingDoorbell();
    ASSERT_EQ(device_->Wait(*events[0].ring).state, EventState::kDone);
    ASSERT_EQ(other.Wait(*events[1].ring).state, EventState::kDone);
  }
  for (auto& event : events) {
    EXPECT_EQ(TakeAway(event), 0u);
    EXPECT_EQ(event.kernel->counts().done, kEvents);
  }
}

TEST_P(CudaPathsTest, AFaultFailsItsOwnEventAndNoOther) {
  Open();
  auto event = AddFailIf(*device_, 8);
  auto good = Add(OtherDevice(), {.kernel = simt::FindKernel("null_event"),
                                  .bindings = {Constant(0)},
                                  .entries = 8});
  // Whoever runs fail_if with 13 touches memory that is not there; so it does
  // when it runs again.
  fake_.FaultOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  for (const uint32_t code : {0, 7, 13, 0, 13, 9}) {
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit();
    good.ring->Commit();
  }
  event.ring->RingDoorbell();
  good.ring->RingDoorbell();
  const auto expect = [&](EventState state, uint32_t status) {
    const Completion completion = device_->Wait(*event.ring);
    EXPECT_EQ(completion.state, state);
    EXPECT_EQ(completion.status, status);
  };
  const auto fault = static_cast<uint32_t>(EventStatus::kKernelFault);
  expect(EventState::kDone, 0);
  expect(EventState::kFailed, KernelCode(7));
  expect(EventState::kFailed, fault);
  expect(EventState::kDone, 0);
  expect(EventState::kFailed, fault);
  expect(EventState::kFailed, KernelCode(9));
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(others_[0]->Wait(*good.ring).state, EventState::kDone);
  }
  // And life goes on in the new context.
  RingWith(*event.ring, 0);
  expect(EventState::kDone, 0);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(TakeAway(good), 0u);
  EXPECT_EQ(event.kernel->counts().rung, 7u);
  EXPECT_EQ(good.kernel->counts().done, 6u);
}

TEST_P(CudaPathsTest, AKernelThatDoesNotEndIsStoppedAndTheOthersRunAgain) {
  Open(std::chrono::milliseconds(50));
  auto event = AddFailIf(*device_, 8);
  fake_.HangOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  for (const uint32_t code : {13, 0, 5}) {
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit();
  }
  event.ring->RingDoorbell();
  const Completion stopped = device_->Wait(*event.ring);
  EXPECT_EQ(stopped.state, EventState::kFailed);
  EXPECT_EQ(stopped.status, static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(5));
  EXPECT_EQ(TakeAway(event), 0u);
}

// Those that launch when the event is there, through the driver.
class HostPathsTest : public CudaPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, HostPathsTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

TEST_P(HostPathsTest, ALaunchThatTheDriverRefusesFailsThatEventOnly) {
  Open();
  auto event = AddFailIf(*device_);
  fake_.FailNext(GetParam() == "graph" ? "cuGraphLaunch" : "cuLaunchKernel",
                 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  for (const bool first : {true, false}) {
    RingWith(*event.ring, 0);
    const Completion completion = device_->Wait(*event.ring);
    EXPECT_EQ(completion.state,
              first ? EventState::kFailed : EventState::kDone);
    EXPECT_EQ(completion.status,
              first ? static_cast<uint32_t>(EventStatus::kNotLaunched) : 0);
  }
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaPathsTest, RegisteringFailsWholeWhenTheGpuHasNoMemory) {
  Open();
  const LiveObjects before = fake_.live_objects();
  fake_.FailNext("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  auto event = device_->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  EXPECT_EQ(path_->Add(event.kernel).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake_.live_objects(), before);
  // And well with memory.
  EXPECT_TRUE(path_->Add(event.kernel).ok());
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(TakeAway(event), 0u);
}

// Background kernels.

class CudaBackgroundTest : public CudaBackendTest {
 protected:
  std::future<LaunchResult> Submit(uint32_t code) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = {4, 1, 1},
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(code));
    std::memcpy(launch->args.get(), &code, sizeof(code));
    launch->memory = device_->memory;
    launch->from_host = true;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result;
  }
};

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

// The default path, and what takes its place.

class DefaultPathTest : public CudaBackendTest {
 protected:
  absl::StatusOr<StartedPath> Serve(TestDevice& device,
                                    TestDevice::Spec spec = {}) {
    spec.kernel = simt::FindKernel("null_event");
    spec.bindings = {Constant(0)};
    return backend_->paths().Serve("", [&](const StartedPath& path) {
      event_ = device.Register(spec);
      return path.path->Add(event_.kernel);
    });
  }
  // Of the last that was served.
  void ExpectServed(TestDevice& device, const StartedPath& served) {
    event_.ring->Commit();
    event_.ring->RingDoorbell();
    EXPECT_EQ(device.Wait(*event_.ring).state, EventState::kDone);
    path_ = served.path;
    EXPECT_EQ(TakeAway(event_), 0u);
  }
  TestDevice::Event event_;
};

TEST_F(DefaultPathTest, WhereEdgeCannotStartItsStreamsAreArmed) {
  Open();
  fake_.FailNext("cuStreamCreateWithPriority", CUDA_ERROR_NOT_SUPPORTED);
  const auto found = backend_->paths().Find("");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->name, "stream_wait");
  const auto described = backend_->paths().Describe();
  EXPECT_EQ(described[0].info.name, "edge");
  EXPECT_THAT(described[0].unavailable, HasSubstr("CUDA_ERROR_NOT_SUPPORTED"));
  std::vector<std::string_view> names;
  for (const auto& path : described) names.push_back(path.info.name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("edge", "stream_wait", "graph", "baseline",
                                     "baseline_flag", "persistent"));
}

TEST_F(DefaultPathTest, AGpuThatLaunchesNothingByItselfArmsStreamsForMore) {
  fake_.ChangeSettings([](FakeSettings& s) { s.device_graphs = false; });
  Open();
  const auto warp = Serve(*device_);
  ASSERT_TRUE(warp.ok()) << warp.status();
  EXPECT_EQ(warp->name, "edge");
  ExpectServed(*device_, *warp);
  const auto larger = Serve(*device_, {.block = {64, 1, 1}});
  ASSERT_TRUE(larger.ok()) << larger.status();
  EXPECT_EQ(larger->name, "stream_wait");
  ExpectServed(*device_, *larger);
}

TEST_F(DefaultPathTest, AKernelThatItRefusesIsServedByTheNextThatTakesIt) {
  Open();
  const auto plain = Serve(*device_);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->name, "edge");
  ExpectServed(*device_, *plain);
  const auto modifyable = Serve(*device_, {.modifyable = true});
  ASSERT_TRUE(modifyable.ok()) << modifyable.status();
  EXPECT_EQ(modifyable->name, "graph");
  ExpectServed(*device_, *modifyable);
}

TEST_F(DefaultPathTest, WhenItsLinesAreFullTheNextPathServes) {
  Open();
  std::vector<TestDevice::Event> events;
  for (uint32_t i = 0; i < kEdgeMaxLines; ++i) {
    const auto served = Serve(OtherDevice());
    ASSERT_TRUE(served.ok()) << served.status();
    ASSERT_EQ(served->name, "edge");
    events.push_back(std::move(event_));
  }
  const auto beyond = Serve(*device_);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_EQ(beyond->name, "stream_wait");
  ExpectServed(*device_, *beyond);
  Use("edge");
  for (const auto& event : events) TakeAway(event);
}

TEST_F(DefaultPathTest, WhatNoPathCouldMendIsRefusedByTheFirst) {
  Open();
  ASSERT_TRUE(backend_->paths().Find("").ok());
  const LiveObjects before = fake_.live_objects();
  fake_.FailNext("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Serve(*device_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake_.live_objects(), before);
  // More than any GPU has.
  const auto refused =
      Serve(*device_, {.grid = {2, 1, 1}, .shared_bytes = 300 << 10});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fake_.live_objects(), before);
  for (const auto& path : backend_->paths().Describe()) {
    EXPECT_EQ(path.counters.empty(), path.info.name != "edge")
        << path.info.name << " has started";
  }
}

TEST_F(CudaBackendTest, EdgesGraphsHaveTheirEventKernelsPriority) {
  Open();
  Use("edge");
  for (const uint32_t priority : {0u, kPriorities - 1}) {
    auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                .bindings = {Constant(0)},
                                .block = {64, 1, 1},
                                .priority = priority});
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  }
  const auto places = fake_.places();
  EXPECT_EQ(places.at("carillon_event_null_event").priorities,
            (std::set<int>{-5, 0}));
  EXPECT_EQ(places.at("carillon_edge_dispatcher").priorities,
            std::set<int>{-5});
  // What one hands to the other is ordered within a domain.
  EXPECT_EQ(places.at("carillon_event_null_event").memory_domains,
            places.at("carillon_edge_dispatcher").memory_domains);
}

// Reserved SMs.

class ReservedSmsTest : public CudaBackgroundTest {
 protected:
  static Gpu::Options Options(uint32_t sms) {
    Gpu::Options options = GpuOptions();
    options.reserved_sms = sms;
    return options;
  }
  void SetUp() override { fake_.ChangeSettings(&FewSms); }
  static void FewSms(FakeSettings& settings) { settings.sms = 32; }

  // On how many SMs kernels began since the last call; without those of gpud's
  // own that belong to no path.
  std::set<uint32_t> SmsUsed() {
    std::set<uint32_t> used;
    for (const auto& [function, places] : fake_.places()) {
      if (function != "carillon_clock" && function != "carillon_trap") {
        used.insert(places.sms.begin(), places.sms.end());
      }
    }
    return used;
  }
};

TEST_F(ReservedSmsTest, AreEdgesAndNobodyElses) {
  for (const std::string name : {"edge", "graph", "baseline", "baseline_flag",
                                 "stream_wait", "persistent"}) {
    SCOPED_TRACE(name);
    fake_.ForgetLaunches();
    Open(Options(5));
    Use(name);
    // One that an event warp runs, and one that needs a launch.
    for (const uint32_t threads : {32u, 64u}) {
      auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                  .bindings = {Constant(0)},
                                  .block = {threads, 1, 1}});
      for (int i = 0; i < 3; ++i) {
        event.ring->Commit();
        event.ring->RingDoorbell();
        EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
      }
      TakeAway(event);
    }
    EXPECT_EQ(SmsUsed(), (std::set<uint32_t>{name == "edge" ? 6u : 26u}));
    EXPECT_THAT(backend_->description(),
                HasSubstr("6 SMs reserved for launch path edge"));
    Close();
  }
}

TEST_F(ReservedSmsTest, ServeBackgroundKernelsNever) {
  Open(Options(8));
  EXPECT_EQ(Submit(0).get().state, EventState::kDone);
  EXPECT_EQ(SmsUsed(), std::set<uint32_t>{24});
}

TEST_F(ReservedSmsTest, AreReservedAgainInANewContext) {
  Open(Options(8));
  Use("edge");
  auto event = AddFailIf(*device_);
  fake_.FaultOn("fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, event);
  fake_.ForgetLaunches();
  EXPECT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  EXPECT_EQ(SmsUsed(), std::set<uint32_t>{8});
  TakeAway(event);
}

TEST_F(ReservedSmsTest, MoreThanTheGpuCanSpareAreRefused) {
  for (const uint32_t sms : {31u, 32u, 1000u}) {
    const auto backend =
        CudaBackend::CreateOn(fake_.driver(), {}, Options(sms));
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument)
        << sms;
    EXPECT_THAT(std::string(backend.status().message()),
                HasSubstr("of 32 SMs"));
  }
  fake_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  const auto backend = CudaBackend::CreateOn(fake_.driver(), {}, Options(8));
  EXPECT_THAT(std::string(backend.status().message()),
              HasSubstr("reserve 8 of 32 SMs"));
}

TEST_F(CudaBackendTest, OtherPoliciesThanTheHardwaresAreRefused) {
  Open();
  EXPECT_TRUE(backend_->SetPolicy("priority").ok());
  EXPECT_EQ(backend_->SetPolicy("first_come").code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace carillon::gpud::cuda
