// The CUDA back-end on a driver made of CPU threads.
#include "gpu_daemon/backends/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
                                           "graph", "stream_wait", "persistent",
                                           "pagoda_ring", "pagoda"),
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

// A device rings again as soon as it has seen the end that the replay gave it. What
// serves first after a recovery may then have run a kernel that faults, before the
// others serve.
TEST_F(CudaBackendTest, AFaultWhileOthersBeginToServeAgainIsAFaultAsAnyOther) {
  Gpu::Options gpu = GpuOptions();
  std::atomic<int> unusable{0};
  gpu.on_unusable = [&](const std::string&) { ++unusable; };
  ASSERT_NO_FATAL_FAILURE(Open(gpu));
  Use("edge");
  auto event = AddFailIf(*device_);
  auto good = AddFailIf(OtherDevice());
  std::atomic<int> faults{0};
  fake_.FaultOn("fail_if", [&](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    if (code != 13) return false;
    // The second is the replay's. Only dispatchers are launched so.
    if (++faults == 2) {
      fake_.FailNext("cuGraphLaunch", CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    return true;
  });
  EXPECT_EQ(RingAndWait(*device_, event, 13).status,
            static_cast<uint32_t>(EventStatus::kKernelFault));
  EXPECT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  EXPECT_EQ(RingAndWait(*others_[0], good).state, EventState::kDone);
  EXPECT_EQ(unusable, 0);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 3 times"));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(TakeAway(good), 0u);
}

// Beside what gpud's own code takes in each block.
TEST_P(CudaPathsTest, KernelsMayHaveAllSharedMemoryThatGpudNames) {
  Open();
  const uint32_t most = backend_->gpu().shared_bytes_per_sm;
  std::vector<uint32_t> sizes = {(48u << 10) - 64, 48u << 10, most};
  // An MTB's, which its tasks share.
  if (GetParam().starts_with("pagoda")) {
    sizes = {(32u << 10) - 64, 32u << 10};
  }
  for (const uint32_t bytes : sizes) {
    // It gives out half of each SM.
    if (GetParam() == "persistent" && bytes == most) continue;
    auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}},
                                .shared_bytes = bytes});
    EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5)) << bytes;
    EXPECT_EQ(TakeAway(event), 0u);
  }
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

// Those whose doorbells the GPU looks at.
class GpuPollsTest : public CudaPathsTest {
 protected:
  // The fake's dispatchers report seldom where cores are busy.
  static constexpr std::chrono::seconds kSeen{40};

  // Of the page with the doorbell.
  void FreePage(MappedDevice& device, const TestDevice::Event& event) {
    const auto address = reinterpret_cast<uintptr_t>(
        &device.memory->submission().doorbells()[event.kernel->event_id()]);
    fake_.FreePages(
        reinterpret_cast<void*>(address / shm::kPageSize * shm::kPageSize),
        shm::kPageSize);
  }
  std::string ViolationOf(const MappedDevice& device) {
    std::lock_guard lock(mutex_);
    for (const auto& [memory, reason] : violations_) {
      if (memory == device.memory) return reason;
    }
    return "";
  }
};
// edgeScheduleEvent: two events that the device does not ring, one that it rings
// too, and a call that comes late.
TEST_P(CudaPathsTest, ScheduledEventsRunWithoutADoorbellOfTheirDevice) {
  Open();
  auto event = AddFailIf(*device_, 8);
  const auto ends = [&](uint64_t sequence) {
    return Until(
        [&] { return event.ring->EndOf(shm::Sequence(sequence)).has_value(); });
  };
  const auto schedule = [&](uint64_t through) {
    ASSERT_TRUE(event.kernel->ScheduleThrough(through));
    path_->Wake(event.kernel);
  };
  for (uint64_t sequence = 1; sequence <= 60; sequence += 3) {
    Commit(event, 4);
    Commit(event, 5);
    schedule(sequence + 1);
    ASSERT_TRUE(ends(sequence) && ends(sequence + 1)) << sequence;
    event.ring->TakeScheduled();
    Commit(event, 6);
    event.ring->RingDoorbell();
    schedule(sequence + 2);
    for (const uint32_t code : {4, 5, 6}) {
      ASSERT_EQ(device_->Wait(*event.ring).status, KernelCode(code));
    }
    schedule(sequence);
  }
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().failed, 60u);
  EXPECT_EQ(violations(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, GpuPollsTest,
                         ::testing::Values("edge", "stream_wait", "persistent",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

TEST_P(GpuPollsTest, ADeviceThatFreesItsDoorbellsPageHarmsOnlyItself) {
  Open(std::chrono::milliseconds(1'000));
  // It comes first, and rings first.
  auto hostile = std::make_unique<MappedDevice>(*backend_, "hostile");
  auto bad = AddFailIf(*hostile);
  auto good = AddFailIf(*device_);
  ASSERT_EQ(RingAndWait(*hostile, bad, 3).status, KernelCode(3));
  FreePage(*hostile, bad);
  Commit(bad, 0);
  bad.ring->RingDoorbell();
  // Nobody waits for it meanwhile.
  EXPECT_TRUE(Until(
      [&] {
        EXPECT_EQ(RingAndWait(*device_, good, 5).status, KernelCode(5));
        return !ViolationOf(*hostile).empty();
      },
      kSeen));
  EXPECT_THAT(ViolationOf(*hostile),
              HasSubstr("rang where the GPU does not see it"));
  EXPECT_EQ(path_->RemoveDevice(hostile->memory.get()).size(), 1u);
  EXPECT_EQ(bad.kernel->AbortUnfinished(EventStatus::kDeviceGone), 1u);
  hostile.reset();
  EXPECT_EQ(RingAndWait(*device_, good, 7).status, KernelCode(7));
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(TakeAway(good), 0u);
}

// Before anybody has noticed.
TEST_P(GpuPollsTest, OthersComeAndGoBesideADeviceThatHasFreedItsDoorbellsPage) {
  Open(std::chrono::milliseconds(1'000));
  auto hostile = std::make_unique<MappedDevice>(*backend_, "hostile");
  auto bad = AddFailIf(*hostile);
  ASSERT_EQ(RingAndWait(*hostile, bad, 3).status, KernelCode(3));
  FreePage(*hostile, bad);
  Commit(bad, 0);
  bad.ring->RingDoorbell();
  auto good = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, good, 7).status, KernelCode(7));
  EXPECT_TRUE(Until([&] { return !ViolationOf(*hostile).empty(); }, kSeen));
  EXPECT_THAT(ViolationOf(*hostile),
              HasSubstr("rang where the GPU does not see it"));
  path_->RemoveDevice(hostile->memory.get());
  bad.kernel->AbortUnfinished(EventStatus::kDeviceGone);
  hostile.reset();
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(TakeAway(good), 0u);
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

// Those whose launches wait in the driver while a stream is full.
class FullStreamTest : public CudaPathsTest {};
INSTANTIATE_TEST_SUITE_P(All, FullStreamTest,
                         ::testing::Values("baseline", "baseline_flag"),
                         [](const auto& info) { return info.param; });

// The front-end's thread stands in the driver, with the lock that the watching
// thread needs to see which kernel is overdue.
TEST_P(FullStreamTest, ALaunchThatWaitsBehindAKernelThatDoesNotEndGoesOn) {
  fake_.ChangeSettings([](FakeSettings& s) { s.stream_depth = 2; });
  Open(std::chrono::milliseconds(50));
  constexpr uint32_t kEvents = 24;  // several a stream, behind the first
  auto event = AddFailIf(*device_, 32);
  fake_.HangOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  for (uint32_t i = 0; i < kEvents; ++i) Commit(event, i == 0 ? 13 : 0);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  for (uint32_t i = 1; i < kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone) << i;
  }
  EXPECT_EQ(TakeAway(event), 0u);
}

// Gpud has few.
TEST_P(HostPathsTest, StreamsGoWithTheLastEventKernelOfTheirPriority) {
  Open();
  const uint64_t before = fake_.live_objects().streams;
  auto event = AddFailIf(*device_, 4);
  auto other = AddFailIf(*device_, 4);
  const uint64_t with_event = fake_.live_objects().streams;
  EXPECT_GT(with_event, before);
  RingAndWait(*device_, event, 0);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(fake_.live_objects().streams, with_event);
  EXPECT_EQ(RingAndWait(*device_, other, 0).state, EventState::kDone);
  EXPECT_EQ(TakeAway(other), 0u);
  EXPECT_EQ(fake_.live_objects().streams, before);
}

// Each has the longest time for itself, however long it has waited.
TEST_P(HostPathsTest, WhatWaitsInAStreamDoesNotRun) {
  Open(std::chrono::milliseconds(500));
  constexpr uint32_t kEvents = 32;
  auto event = AddFailIf(*device_, kEvents);
  fake_.HangOn("fail_if", [](const KernelCall&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return false;
  });
  for (uint32_t i = 0; i < kEvents; ++i) Commit(event, 0);
  event.ring->RingDoorbell();
  for (uint32_t i = 0; i < kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone) << i;
  }
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_P(CudaPathsTest, RegisteringFailsWholeWhenTheGpuHasNoMemory) {
  Open();
  const LiveObjects before = fake_.live_objects();
  auto event = device_->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  // Its TaskTable has room for all event kernels from the beginning.
  if (GetParam() != "pagoda") {
    fake_.FailNext("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(path_->Add(event.kernel).code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(fake_.live_objects(), before);
  // And well with memory.
  EXPECT_TRUE(path_->Add(event.kernel).ok());
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(TakeAway(event), 0u);
}

// Streams.

TEST_F(CudaBackendTest, AllPathsAtOnceHaveHardwareQueuesOfTheirOwn) {
  Open();
  std::vector<std::pair<LaunchPath*, TestDevice::Event>> events;
  for (const char* path : {"edge", "stream_wait", "persistent", "pagoda_ring",
                           "pagoda", "baseline", "baseline_flag", "graph"}) {
    Use(path);
    events.emplace_back(path_, AddFailIf(*device_));
  }
  EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  for (uint32_t code = 1; code < 5; ++code) {
    for (auto& [path, event] : events) {
      EXPECT_EQ(RingAndWait(*device_, event, code).status, KernelCode(code));
    }
  }
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  for (auto& [path, event] : events) {
    path_ = path;
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

TEST_F(CudaBackendTest, AStreamMoreThanTheLimitIsRefused) {
  Open();
  absl::Status refused;
  std::vector<std::pair<LaunchPath*, TestDevice::Event>> events;
  for (const char* name : {"stream_wait", "persistent"}) {
    Use(name);
    refused = absl::OkStatus();
    while (refused.ok()) {
      auto event = device_->Register({.kernel = simt::FindKernel("null_event"),
                                      .bindings = {Constant(0)}});
      refused = path_->Add(event.kernel);
      if (refused.ok()) events.emplace_back(path_, std::move(event));
    }
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  }
  EXPECT_THAT(std::string(refused.message()), HasSubstr("31 CUDA streams"));
  // One that goes makes room for one.
  path_->Remove(events.back().second.kernel);
  events.pop_back();
  events.emplace_back(path_,
                      Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                     .bindings = {{.writable = true}}}));
  EXPECT_EQ(RingAndWait(*device_, events.back().second, 3).status,
            KernelCode(3));
}

TEST_F(CudaBackendTest, WhoGetsTooFewStreamsKeepsNone) {
  Open();
  std::vector<TestDevice::Event> events;
  uint32_t refusals = 0;
  for (const char* name : {"baseline", "graph"}) {
    Use(name);
    for (uint32_t priority = 0; priority < kPriorities; ++priority) {
      const uint64_t before = fake_.live_objects().streams;
      events.push_back(
          device_->Register({.kernel = simt::FindKernel("null_event"),
                             .bindings = {Constant(0)},
                             .priority = priority}));
      const auto status = path_->Add(events.back().kernel);
      if (status.ok()) continue;
      ++refusals;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(fake_.live_objects().streams, before);
    }
  }
  EXPECT_GT(refusals, 0u);
}

TEST_F(CudaBackendTest, KernelsWithAStackRunBesideResidentOnes) {
  fake_.ChangeSettings([](FakeSettings& s) { s.stacks["fail_if"] = 4096; });
  Open();
  Use("persistent");
  LaunchPath* const persistent = path_;
  const auto resident = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                       .bindings = {Constant(0)}});
  for (const char* name : {"baseline", "graph", "stream_wait", "edge"}) {
    Use(name);
    const auto event = AddFailIf(*device_);
    EXPECT_EQ(RingAndWait(*device_, event, 7).status, KernelCode(7)) << name;
    EXPECT_EQ(TakeAway(event), 0u);
  }
  resident.ring->Commit();
  resident.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*resident.ring).state, EventState::kDone);
  path_ = persistent;
  EXPECT_EQ(TakeAway(resident), 0u);
}

// A GPU that cannot be used any more.

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

// A kernel that leaves no room for another one.

constexpr simt::Dim3 kFillsTwoSms = {64, 1, 1};  // of 64 threads

void TwoSms(FakeSettings& settings) { settings.sms = 2; }

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

// Background kernels.

class CudaBackgroundTest : public CudaBackendTest {
 protected:
  std::unique_ptr<KernelLaunch> LaunchOf(uint32_t code) {
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = simt::FindKernel("fail_if"),
                   .grid = {4, 1, 1},
                   .block = {64, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(sizeof(code));
    std::memcpy(launch->args.get(), &code, sizeof(code));
    launch->memory = device_->memory;
    launch->from_host = true;
    return launch;
  }
  std::future<LaunchResult> Submit(uint32_t code, uint32_t priority = 0) {
    auto launch = LaunchOf(code);
    launch->priority = priority;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result;
  }
  std::future<LaunchResult> Copy(CopyDirection direction, std::byte* to,
                                 const std::byte* from, uint64_t bytes) {
    auto copy = std::make_unique<MemoryCopy>();
    copy->direction = direction;
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    copy->memory = device_->memory;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    copy->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    backend_->Submit(std::move(copy));
    return promise->get_future();
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
                                     "baseline_flag", "persistent",
                                     "pagoda_ring", "pagoda"));
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

// What event kernels hand to each other is ordered within a domain only.
TEST_F(CudaBackgroundTest, EventKernelsOfAllPathsHaveOneDomainAndNobodyElse) {
  Open();
  for (const char* path : {"edge", "stream_wait", "persistent", "pagoda_ring",
                           "pagoda", "baseline", "baseline_flag", "graph"}) {
    Use(path);
    auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                .bindings = {Constant(0)},
                                .block = {64, 1, 1}});
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  }
  std::set<int> domains;
  for (const auto& [function, places] : fake_.places()) {
    domains.insert(places.memory_domains.begin(), places.memory_domains.end());
  }
  EXPECT_EQ(domains, std::set<int>{CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT});
  fake_.ForgetLaunches();
  EXPECT_EQ(Submit(0).get().state, EventState::kDone);
  EXPECT_EQ(fake_.places().at("carillon_call_fail_if").memory_domains,
            std::set<int>{CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE});
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
      if (function != "carillon_clock" && function != "carillon_trap" &&
          function != "carillon_take_stack") {
        used.insert(places.sms.begin(), places.sms.end());
      }
    }
    return used;
  }
};

TEST_F(ReservedSmsTest, AreEdgesAndNobodyElses) {
  for (const std::string name :
       {"edge", "graph", "baseline", "baseline_flag", "stream_wait",
        "persistent", "pagoda_ring", "pagoda"}) {
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

TEST_F(CudaBackendTest, PoliciesThatItCannotDoAreRefusedWithThoseThatItCan) {
  Open();
  EXPECT_TRUE(backend_->SetPolicy("priority").ok());
  for (const char* policy : {"first_come", "p1", "p2", "dynamic_reservation"}) {
    const auto refused = backend_->SetPolicy(policy);
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << policy;
    EXPECT_THAT(
        std::string(refused.message()),
        HasSubstr("can do: priority, reservation, exclusive, gpes, ptb"));
  }
  EXPECT_EQ(backend_->SetPolicy("fair").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(backend_->policy(), "priority");
}

}  // namespace
}  // namespace carillon::gpud::cuda
