// The launch paths of the CPU back-end: the same promises on each of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/baseline_launcher.h"
#include "gpu_daemon/dispatch/cpu_workers.h"
#include "gpu_daemon/event/gate_kernel.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }
ParameterBinding Writable() { return {.writable = true}; }

void RingWith(shm::DeviceRing& ring, uint32_t value) {
  std::memcpy(ring.parameters(), &value, sizeof(value));
  ring.Commit();
  ring.RingDoorbell();
}

class CpuPathsTest : public ::testing::TestWithParam<std::string> {
 protected:
  CpuPathsTest() {
    backend_ = *CpuBackend::Create({.workers = 2});
    path_ = backend_->paths().Find(GetParam())->path;
  }
  ~CpuPathsTest() override {
    gate_.LetPass(100'000);
    backend_->Stop();
    backend_->Join();
  }

  TestDevice::Event Add(TestDevice& device, const TestDevice::Spec& spec) {
    auto event = device.Register(spec);
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  // As the control plane unregisters. Returns how many events were aborted.
  uint64_t TakeAway(const TestDevice::Event& event) {
    path_->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
    event.kernel->AbortUnfinished(EventStatus::kUnregistered);
    return event.kernel->counts().aborted;
  }

  Gate gate_;
  TestDevice device_;
  std::unique_ptr<Backend> backend_;
  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, CpuPathsTest,
                         ::testing::Values("edge", "baseline", "baseline_flag",
                                           "persistent", "pagoda",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

TEST_P(CpuPathsTest, EveryRungEventEndsOnceWithItsOwnStatus) {
  for (const uint32_t blocks : {1, 5}) {
    auto event = Add(device_, {.kernel = simt::FindKernel("fail_if"),
                               .bindings = {Writable()},
                               .grid = {blocks, 1, 1},
                               .entries = 4});
    for (uint32_t i = 1; i <= 200; ++i) {
      const uint32_t code = i % 3 == 0 ? i : 0;
      RingWith(*event.ring, code);
      const Completion completion = device_.Wait(*event.ring);
      ASSERT_EQ(completion.sequence.value(), i);
      ASSERT_EQ(completion.state,
                code == 0 ? EventState::kDone : EventState::kFailed);
      ASSERT_EQ(
          completion.status,
          code == 0
              ? 0
              : static_cast<uint32_t>(EventStatus::kKernelStatusBase) + code);
    }
    const EventCounts counts = event.kernel->counts();
    EXPECT_EQ(counts.rung, 200u);
    EXPECT_EQ(counts.done, 134u);
    EXPECT_EQ(counts.failed, 66u);
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

TEST_P(CpuPathsTest, NoRingOfTwoDevicesIsLostInBursts) {
  constexpr uint64_t kEvents = 5'000;
  TestDevice other("test1");
  std::vector<TestDevice::Event> events;
  for (TestDevice* device : {&device_, &other}) {
    events.push_back(Add(*device, {.kernel = simt::FindKernel("null_event"),
                                   .bindings = {Constant(0)},
                                   .grid = {2, 1, 1},
                                   .entries = 256}));
  }
  for (uint64_t rung = 0, consumed = 0; consumed < kEvents; ++consumed) {
    while (rung < kEvents && events[0].ring->free_slots() > 0 &&
           events[1].ring->free_slots() > 0) {
      for (auto& event : events) event.ring->Commit();
      ++rung;
    }
    for (auto& event : events) event.ring->RingDoorbell();
    ASSERT_EQ(device_.Wait(*events[0].ring).state, EventState::kDone);
    ASSERT_EQ(other.Wait(*events[1].ring).state, EventState::kDone);
  }
  for (auto& event : events) {
    EXPECT_EQ(event.kernel->counts().done, kEvents);
    EXPECT_EQ(event.kernel->in_flight(), 0u);
  }
}

// Nothing waits on the path "persistent": its polling threads run the events.
using WaitingPathsTest = CpuPathsTest;
INSTANTIATE_TEST_SUITE_P(All, WaitingPathsTest,
                         ::testing::Values("edge", "baseline", "baseline_flag",
                                           "pagoda", "pagoda_ring"),
                         [](const auto& info) { return info.param; });

TEST_P(WaitingPathsTest, WhatWaitsWhenItsEventKernelGoesIsAbortedOnce) {
  auto event = Add(
      device_,
      {.kernel = &kGateKernel,
       .bindings = {Constant(reinterpret_cast<uint64_t>(&gate_)), Constant(7)},
       .block = {64, 1, 1}});
  for (int i = 0; i < 6; ++i) event.ring->Commit();
  event.ring->RingDoorbell();
  // Two workers: two run, and four wait.
  ASSERT_TRUE(gate_.WaitEntered(2));
  EXPECT_EQ(TakeAway(event), 6u);
  gate_.LetPass(100);
  for (int i = 0; i < 6; ++i) {
    const Completion completion = device_.Wait(*event.ring);
    EXPECT_EQ(completion.state, EventState::kAborted);
    EXPECT_EQ(completion.status,
              static_cast<uint32_t>(EventStatus::kUnregistered));
  }
  const EventCounts counts = event.kernel->counts();
  EXPECT_EQ(counts.aborted, 6u);
  EXPECT_EQ(counts.done, 0u);
}

TEST_P(CpuPathsTest, ADeviceThatRingsTooOftenIsReportedAndOthersGoOn) {
  std::promise<std::string> reported;
  auto backend = *CpuBackend::Create(
      {.workers = 1,
       .on_violation = [&](const std::shared_ptr<DeviceMemory>& memory,
                           const std::string& reason) {
         reported.set_value(memory->name() + ": " + reason);
       }});
  LaunchPath* path = backend->paths().Find(GetParam())->path;
  TestDevice rogue("rogue");
  const TestDevice::Spec spec{.kernel = simt::FindKernel("null_event"),
                              .bindings = {Constant(0)},
                              .entries = 4};
  auto bad = rogue.Register(spec);
  auto good = device_.Register(spec);
  ASSERT_TRUE(path->Add(bad.kernel).ok());
  ASSERT_TRUE(path->Add(good.kernel).ok());
  std::atomic_ref<uint32_t>(rogue.memory->submission().doorbells()[0])
      .store(100);
  good.ring->Commit();
  good.ring->RingDoorbell();
  EXPECT_EQ(device_.Wait(*good.ring).state, EventState::kDone);
  auto report = reported.get_future();
  ASSERT_EQ(report.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  EXPECT_THAT(report.get(), HasSubstr("rogue: doorbell"));
  backend->Stop();
}

TEST(CpuBackendTest, AnUnknownLaunchPathIsRefusedWithThoseThereAre) {
  auto backend = *CpuBackend::Create({.workers = 1});
  const auto found = backend->paths().Find("graph");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("no launch path 'graph'; there are: edge, baseline, "
                        "baseline_flag, persistent, pagoda, pagoda_ring"));
  EXPECT_EQ(backend->paths().Find("")->name, "edge");
  backend->Stop();
  EXPECT_EQ(backend->paths().Find("edge").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(CpuBackendTest, ReservesNoSms) {
  EXPECT_EQ(CpuBackend::Create({.reserved_sms = 8}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(CpuBackendTest, PersistentThreadsRefuseAKernelThatNothingCanStop) {
  auto backend = *CpuBackend::Create({.workers = 1});
  TestDevice device;
  auto event = device.Register(
      {.kernel = simt::FindKernel("busy"), .bindings = {Constant(1)}});
  const auto status =
      backend->paths().Find("persistent")->path->Add(event.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'busy'"));
}

// What sets the two baselines apart: who tells the device.
class BaselineLauncherTest : public ::testing::Test {
 protected:
  // Launches one event and returns when its kernel has ended.
  void LaunchAndEnd(BaselineLauncher& launcher) {
    event_ = device_.Register(
        {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
    event_.ring->Commit();
    event_.ring->RingDoorbell();
    const shm::Sequence sequence = event_.kernel->cursor().TakeRing();
    CheckedEntry entry;
    ASSERT_EQ(CheckEntry(*event_.kernel, sequence, 0, GpuModel{}, entry),
              EventStatus::kOk);
    EXPECT_FALSE(launcher.Launch(event_.kernel, sequence, entry));
    CpuBlockRunner runner;
    CpuWorkers workers(1, &kmu_, &runner);
    while (!kmu_.idle()) sched_yield();
    kmu_.Stop();
  }

  TestDevice device_;
  TestDevice::Event event_;
  Kmu kmu_{GpuModel{}, *MakePolicy("first_come")};
};

TEST_F(BaselineLauncherTest, WithEventPollingOnlyItsThreadEndsAnEvent) {
  BaselineLauncher launcher(&kmu_, BaselineLauncher::Completion::kEventPolling);
  LaunchAndEnd(launcher);
  EXPECT_FALSE(event_.ring->Poll());
  EXPECT_TRUE(launcher.must_poll());
  EXPECT_TRUE(launcher.Reap());
  EXPECT_FALSE(launcher.must_poll());
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
}

TEST_F(BaselineLauncherTest, WithTheEpiloguesFlagTheKernelEndsIt) {
  BaselineLauncher launcher(&kmu_, BaselineLauncher::Completion::kEpilogue);
  LaunchAndEnd(launcher);
  EXPECT_EQ(event_.ring->Poll()->state, EventState::kDone);
  EXPECT_FALSE(launcher.must_poll());
}

}  // namespace
}  // namespace carillon::gpud
