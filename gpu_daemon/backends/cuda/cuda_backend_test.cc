// The CUDA back-end on a driver made of CPU threads: events, by each launch path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;
using ::testing::Not;

using CudaBackendTest = CudaBackendFixture;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

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
