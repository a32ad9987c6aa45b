// What Pagoda's paths have on the CPU back-end beside what all paths have
// (cpu_paths_test): tasks, MTBs, and what these cannot hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/cpu_backend.h"
#include "gpu_daemon/event/gate_kernel.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

constexpr uint32_t kWorkers = 2;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

bool Until(const std::function<bool()>& holds) {
  const Nanoseconds end = NowNs() + 20'000'000'000;
  while (!holds()) {
    if (NowNs() > end) return false;
    sched_yield();
  }
  return true;
}

// How many blocks run at once.
struct Crowd {
  std::atomic<uint32_t> inside{0};
  std::atomic<uint32_t> most{0};
};
struct CrowdArgs {
  uint64_t crowd;  // a Crowd*
};
constexpr simt::ParamInfo kCrowdParams[] = {
    CARILLON_PARAM(CrowdArgs, crowd, "which crowd")};
constexpr simt::KernelInfo kCrowdKernel = {
    .name = "crowd",
    .summary = "counts itself",
    .params = kCrowdParams,
    .args_size = sizeof(CrowdArgs),
    .args_align = alignof(CrowdArgs),
    .run_block =
        [](const simt::BlockLaunch&, const void* args) {
          auto& crowd = *reinterpret_cast<Crowd*>(
              static_cast<const CrowdArgs*>(args)->crowd);
          const uint32_t inside = ++crowd.inside;
          for (int i = 0; i < 20; ++i) sched_yield();
          uint32_t most = crowd.most;
          while (most < inside &&
                 !crowd.most.compare_exchange_weak(most, inside)) {
          }
          --crowd.inside;
        },
    .registers_per_thread = 16,
    .static_shared_bytes = 0,
    .uses_barriers = false,
};

class PagodaPathsTest : public ::testing::TestWithParam<std::string> {
 protected:
  PagodaPathsTest() {
    backend_ = *CpuBackend::Create({.workers = kWorkers});
    path_ = backend_->paths().Find(GetParam())->path;
  }
  ~PagodaPathsTest() override {
    gate_.LetPass(1'000'000);
    backend_->Stop();
    backend_->Join();
  }

  TestDevice::Event Add(const TestDevice::Spec& spec) {
    auto event = device_.Register(spec);
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  TestDevice::Event AddGate(TestDevice::Spec spec) {
    spec.kernel = &kGateKernel;
    spec.bindings = {Constant(reinterpret_cast<uint64_t>(&gate_)), Constant(7)};
    return Add(spec);
  }
  // As the control plane unregisters. Returns how many events were aborted.
  uint64_t TakeAway(const TestDevice::Event& event) {
    path_->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
    event.kernel->AbortUnfinished(EventStatus::kUnregistered);
    return event.kernel->counts().aborted;
  }
  static void Ring(const TestDevice::Event& event, int times) {
    for (int i = 0; i < times; ++i) event.ring->Commit();
    event.ring->RingDoorbell();
  }
  uint64_t Counter(std::string_view name) {
    for (const PathCounter& counter : path_->counters()) {
      if (counter.name == name) return counter.value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  std::string Refusal(const simt::KernelInfo* kernel, simt::Dim3 grid,
                      simt::Dim3 block, uint32_t shared_bytes = 0) {
    const std::vector<ParameterBinding> bindings(kernel->params.size(),
                                                 Constant(1));
    const auto event = device_.Register({.kernel = kernel,
                                         .bindings = bindings,
                                         .grid = grid,
                                         .block = block,
                                         .shared_bytes = shared_bytes});
    const absl::Status status = path_->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  Gate gate_;
  Crowd crowd_;
  TestDevice device_;
  std::unique_ptr<Backend> backend_;
  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, PagodaPathsTest,
                         ::testing::Values("pagoda", "pagoda_ring"),
                         [](const auto& info) { return info.param; });

TEST_P(PagodaPathsTest, WhatNoMtbHoldsIsRefusedWithItsLimit) {
  const auto* const null_event = simt::FindKernel("null_event");
  EXPECT_THAT(Refusal(null_event, {1, 1, 1}, {993, 1, 1}),
              HasSubstr("kernel 'null_event' cannot be a task of an MTB: a "
                        "task with thread blocks of 993 threads"));
  EXPECT_THAT(Refusal(null_event, {1, 1, 1}, {993, 1, 1}),
              HasSubstr("must have 1 to 992 threads"));
  EXPECT_THAT(Refusal(null_event, {1, 1, 1}, {32, 1, 1}, 32 * 1024 + 1),
              HasSubstr("an MTB has 32768"));
  EXPECT_THAT(Refusal(null_event, {256, 256, 1}, {32, 1, 1}),
              HasSubstr("65536 thread blocks: it must have 1 to 65535"));
  EXPECT_THAT(Refusal(null_event, {65536, 65536, 1}, {32, 1, 1}),
              HasSubstr("it must have 1 to 65535"));
  EXPECT_THAT(Refusal(simt::FindKernel("busy"), {1, 1, 1}, {32, 1, 1}),
              HasSubstr("for as long as its arguments say"));
  simt::KernelInfo many_arguments = kGateKernel;
  many_arguments.args_size = 209;
  EXPECT_THAT(Refusal(&many_arguments, {1, 1, 1}, {32, 1, 1}),
              HasSubstr("an entry of the TaskTable has 208"));
  simt::KernelInfo users = kGateKernel;
  users.symbol = "gate";
  EXPECT_THAT(Refusal(&users, {1, 1, 1}, {32, 1, 1}),
              HasSubstr("a user's own"));
  // The largest that it holds.
  auto event = Add({.kernel = null_event,
                    .bindings = {Constant(0)},
                    .grid = {65535, 1, 1},
                    .block = {992, 1, 1},
                    .shared_bytes = 32 * 1024});
  EXPECT_EQ(Counter("tasks"), 0u);
}

TEST_P(PagodaPathsTest, AnEntryThatOutgrowsAnMtbIsCountedAndRunsAsAKernel) {
  auto event = Add({.kernel = simt::FindKernel("null_event"),
                    .bindings = {Constant(0)},
                    .modifyable = true});
  const shm::KmdOverride large{.grid = {1, 1, 1}, .block = {1024, 1, 1}};
  const shm::KmdOverride small{.grid = {3, 1, 1}, .block = {992, 1, 1}};
  for (const shm::KmdOverride* kmd : {&small, &large, &small}) {
    event.ring->Commit(kmd);
    event.ring->RingDoorbell();
    EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  }
  EXPECT_EQ(Counter("tasks"), 2u);
  EXPECT_EQ(Counter("kernels"), 1u);
}

TEST_P(PagodaPathsTest, WhatTheTableCannotHoldWaitsAndRunsOnce) {
  constexpr int kEvents = 100;  // of 32 rows
  auto event = AddGate({.entries = 128});
  Ring(event, kEvents);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  // Doorbells are looked at meanwhile.
  auto other = Add(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  Ring(other, 1);
  ASSERT_TRUE(Until([&] { return Counter("tasks") == kEvents + 1; }));
  EXPECT_FALSE(other.ring->Poll());
  gate_.LetPass(kEvents);
  for (int i = 1; i <= kEvents; ++i) {
    const Completion completion = device_.Wait(*event.ring);
    ASSERT_EQ(completion.sequence.value(), static_cast<uint64_t>(i));
    ASSERT_EQ(completion.state, EventState::kDone);
  }
  EXPECT_EQ(device_.Wait(*other.ring).state, EventState::kDone);
  EXPECT_EQ(gate_.entered().size(), static_cast<size_t>(kEvents));
  EXPECT_TRUE(Until([&] { return backend_->idle(); }));
}

TEST_P(PagodaPathsTest, LaunchesSayWhatRunsAndWhatWaits) {
  auto event = AddGate({.grid = {3, 1, 1}, .entries = 128});
  Ring(event, 2);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  ASSERT_TRUE(Until([&] { return Counter("tasks") == 2; }));
  std::vector<LaunchProgress> launches;
  ASSERT_TRUE(Until([&] {
    launches = backend_->launches();
    return launches.size() == 2 && launches[1].wait_ns != 0;
  }));
  EXPECT_EQ(launches[0].device, device_.memory->name());
  EXPECT_EQ(launches[0].kernel, "gate");
  EXPECT_TRUE(launches[0].event);
  EXPECT_EQ(launches[0].sequence, 1u);
  EXPECT_EQ(launches[0].blocks, 3u);
  EXPECT_EQ(launches[0].running, kWorkers);
  EXPECT_EQ(launches[0].ended, 0u);
  EXPECT_NE(launches[0].wait_ns, 0u);
  EXPECT_EQ(launches[1].sequence, 2u);
  EXPECT_EQ(launches[1].running, 0u);
  gate_.LetPass(6);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_TRUE(Until([&] { return backend_->launches().empty(); }));
}

TEST_P(PagodaPathsTest, ATableThatIsFullForEverIsLeftByWhoGoes) {
  auto event = AddGate({.entries = 128});
  Ring(event, 100);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  EXPECT_EQ(TakeAway(event), 100u);
  auto next = Add(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  Ring(next, 1);
  // The two blocks that run hold their executors, and nothing else is run.
  gate_.LetPass(kWorkers);
  EXPECT_EQ(device_.Wait(*next.ring).state, EventState::kDone);
  EXPECT_EQ(gate_.entered().size(), kWorkers);
  EXPECT_TRUE(Until([&] { return backend_->idle(); }));
}

TEST_P(PagodaPathsTest,
       ADeviceThatGoesTakesItsMemoryAlongThoughOthersAreStuck) {
  auto stuck = AddGate({.entries = 128});
  Ring(stuck, 100);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  auto guest = std::make_unique<TestDevice>("guest");
  auto event = guest->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  ASSERT_TRUE(path_->Add(event.kernel).ok());
  Ring(event, 3);
  ASSERT_TRUE(Until([&] { return Counter("tasks") == 103; }));
  EXPECT_EQ(TakeAway(event), 3u);
  const std::weak_ptr<DeviceMemory> memory = guest->memory;
  event = {};
  guest.reset();
  EXPECT_TRUE(Until([&] { return memory.expired(); }));
  EXPECT_EQ(gate_.inside(), kWorkers);
}

TEST_P(PagodaPathsTest, ATaskThatDoesNotEndHoldsItsExecutorOnly) {
  auto stuck = AddGate({});
  Ring(stuck, 1);
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto event = Add({.kernel = simt::FindKernel("null_event"),
                    .bindings = {Constant(0)},
                    .grid = {3, 1, 1}});
  for (int i = 0; i < 100; ++i) {
    Ring(event, 1);
    ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  }
  EXPECT_EQ(TakeAway(stuck), 1u);
  EXPECT_EQ(device_.Wait(*stuck.ring).state, EventState::kAborted);
  EXPECT_EQ(backend_->figures().resident_blocks, 1u);
  EXPECT_FALSE(backend_->idle());
  // Launching ends although the block goes on.
  backend_->Stop();
  EXPECT_EQ(gate_.inside(), 1u);
}

TEST_P(PagodaPathsTest, ACancelledTaskBeginsNoFurtherBlock) {
  auto event = AddGate({.grid = {50, 1, 1}});
  Ring(event, 1);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  EXPECT_FALSE(event.ring->Poll()) << "its blocks run";
  gate_.LetPass(100);
  const Completion completion = device_.Wait(*event.ring);
  EXPECT_EQ(completion.state, EventState::kAborted);
  EXPECT_EQ(completion.status,
            static_cast<uint32_t>(EventStatus::kUnregistered));
  EXPECT_TRUE(Until([&] { return backend_->idle(); }));
  EXPECT_EQ(gate_.entered().size(), kWorkers);
  EXPECT_EQ(event.kernel->counts().aborted, 1u);
}

TEST_P(PagodaPathsTest, WhatWaitsWhenGpudStopsIsToldAndWhatRunsEnds) {
  auto event = AddGate({.entries = 64});
  Ring(event, 40);
  ASSERT_TRUE(gate_.WaitEntered(kWorkers));
  ASSERT_TRUE(Until([&] { return Counter("tasks") == 40; }));
  backend_->Stop();
  gate_.LetPass(100);
  backend_->Join();
  uint32_t done = 0;
  for (int i = 0; i < 40; ++i) {
    const Completion completion = device_.Wait(*event.ring);
    if (completion.state == EventState::kDone) {
      ++done;
    } else {
      EXPECT_EQ(completion.state, EventState::kAborted);
      EXPECT_EQ(completion.status,
                static_cast<uint32_t>(EventStatus::kShutdown));
    }
  }
  EXPECT_EQ(done, kWorkers);
  EXPECT_EQ(gate_.entered().size(), kWorkers);
}

TEST_P(PagodaPathsTest, ADeviceThatGoesLeavesNoTaskThatWaitsForSharedMemory) {
  auto stuck = AddGate({.grid = {3, 1, 1}, .shared_bytes = 32 * 1024});
  Ring(stuck, 2);
  ASSERT_TRUE(gate_.WaitEntered(1));
  auto other = Add(
      {.kernel = simt::FindKernel("null_event"), .bindings = {Constant(0)}});
  Ring(other, 1);
  ASSERT_TRUE(Until([&] { return Counter("tasks") == 3; }));
  EXPECT_EQ(TakeAway(stuck), 2u);
  EXPECT_EQ(device_.Wait(*other.ring).state, EventState::kDone);
  EXPECT_EQ(gate_.inside(), 1u);
  EXPECT_EQ(gate_.entered().size(), 1u);
  // Shared memory that its block had is there for others when it has ended.
  auto next = Add({.kernel = simt::FindKernel("null_event"),
                   .bindings = {Constant(0)},
                   .shared_bytes = 32 * 1024});
  gate_.LetPass(1);
  Ring(next, 1);
  EXPECT_EQ(device_.Wait(*next.ring).state, EventState::kDone);
  EXPECT_TRUE(Until([&] { return backend_->idle(); }));
}

TEST_P(PagodaPathsTest, BlocksRunAtOnceAsFarAsAnMtbsSharedMemoryGoes) {
  auto event = AddGate({.grid = {20, 1, 1}, .shared_bytes = 16 * 1024});
  Ring(event, 1);
  ASSERT_TRUE(gate_.WaitEntered(2));
  EXPECT_EQ(gate_.inside(), 2u);
  gate_.LetPass(20);
  EXPECT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
}

TEST_P(PagodaPathsTest, NoTwoBlocksRunAtOnceThatShareTooMuch) {
  auto event = Add({.kernel = &kCrowdKernel,
                    .bindings = {Constant(reinterpret_cast<uint64_t>(&crowd_))},
                    .grid = {200, 1, 1},
                    .shared_bytes = 16 * 1024 + 1});
  Ring(event, 1);
  ASSERT_EQ(device_.Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(crowd_.most, 1u);
}

}  // namespace
}  // namespace carillon::gpud
