// Launch path pagoda on a driver made of CPU threads: what tests of every path do
// not ask; and of its MTBs and pagoda_ring's, what becomes of a fault, or of a task
// that does not end, while they leave.
#include "gpu_daemon/backends/cuda/paths/pagoda/pagoda_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/backends/cuda/driver/gpu.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

uint32_t CodeOf(const KernelCall& call) {
  uint32_t code = 0;
  if (!call.args().empty()) {
    std::memcpy(&code, call.args().data(), sizeof(code));
  }
  return code;
}

class PagodaLauncherTest : public CudaBackendFixture {
 protected:
  uint64_t Counter(const std::string& name) const {
    const auto counters = path_->counters();
    const auto found = std::ranges::find(counters, name, &PathCounter::name);
    return found == counters.end() ? ~uint64_t{0} : found->value;
  }
  std::string Refusal(const simt::KernelInfo& kernel, simt::Dim3 block,
                      uint32_t shared_bytes = 0) {
    auto event = device_->Register({.kernel = &kernel,
                                    .bindings = {{.writable = true}},
                                    .block = block,
                                    .shared_bytes = shared_bytes});
    const absl::Status status = path_->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
};

TEST_F(PagodaLauncherTest, RefusesWhatNoMtbHolds) {
  OpenPath("pagoda");
  const simt::KernelInfo& fail_if = *simt::FindKernel("fail_if");
  EXPECT_THAT(Refusal(fail_if, {1024, 1, 1}), HasSubstr("1 to 992 threads"));
  EXPECT_THAT(Refusal(fail_if, {32, 1, 1}, 32 * 1024 + 1),
              HasSubstr("an MTB has 32768"));
  simt::KernelInfo large = fail_if;
  large.args_size = 113;
  EXPECT_THAT(Refusal(large, {32, 1, 1}),
              HasSubstr("arguments are 113 bytes, and an entry of pagoda's "
                        "TaskTable has room for 112"));
  auto event = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  EXPECT_EQ(TakeAway(event), 0u);
}

// One MTB has 32 rows. What has no row waits in the order of its doorbell, and no
// successor of the last one comes.
TEST_F(PagodaLauncherTest, MoreEventsThanTheTableHasRowsAllEndOnce) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 6; });
  OpenPath("pagoda");
  constexpr uint32_t kEvents = 128;
  auto event = AddFailIf(*device_, kEvents);
  ASSERT_EQ(Counter("MTBs"), 1u);
  std::atomic<bool> go{false};
  fake_.FaultOn("fail_if", [&go](const KernelCall&) {
    while (!go.load()) std::this_thread::yield();
    return false;
  });
  for (uint32_t i = 0; i < kEvents; ++i) Commit(event, i % 3);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return Counter("tasks") == 32; }));
  go.store(true);
  for (uint32_t i = 0; i < kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).status,
              i % 3 == 0 ? 0 : KernelCode(i % 3));
  }
  EXPECT_EQ(Counter("tasks"), kEvents);
  EXPECT_GT(Counter("copies back"), 0u);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().rung, kEvents);
}

// And an empty update is all that the last one needs.
TEST_F(PagodaLauncherTest, ATaskWithoutASuccessorStartsByAnEmptyUpdate) {
  OpenPath("pagoda");
  auto event = AddFailIf(*device_);
  for (uint32_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(RingAndWait(*device_, event, i).status, KernelCode(i));
  }
  EXPECT_EQ(Counter("tasks"), 5u);
  EXPECT_TRUE(Until([&] { return Counter("empty updates") == 5; }));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_F(PagodaLauncherTest, ATaskThatDoesNotEndHoldsUpNoOtherOfItsRing) {
  OpenPath("pagoda", std::chrono::milliseconds(2'000));
  auto event = AddFailIf(*device_, 8);
  fake_.HangOn("fail_if",
               [](const KernelCall& call) { return CodeOf(call) == 13; });
  for (const uint32_t code : {13, 4, 0}) Commit(event, code);
  event.ring->RingDoorbell();
  const shm::GpuRing& ring = event.kernel->ring();
  EXPECT_TRUE(Until([&] {
    return ring.LoadCompletedSequence(2) == 2 &&
           ring.LoadCompletedSequence(3) == 3;
  }));
  EXPECT_EQ(ring.LoadCompletedSequence(1), 0u) << "it has ended";
  EXPECT_EQ(device_->Wait(*event.ring).status,
            static_cast<uint32_t>(EventStatus::kTimedOut));
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(4));
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  EXPECT_EQ(TakeAway(event), 0u);
}

// Behind others in its column for longer than a kernel may take: it has not begun,
// and nobody stops it. Nor has a column that serves them fallen silent.
TEST_F(PagodaLauncherTest, ATaskThatWaitsForExecutorsIsNotOverdue) {
  constexpr std::chrono::milliseconds kLongest{600};
  constexpr std::chrono::milliseconds kTask{100};
  constexpr uint32_t kEvents = 9;  // the last one waits for longer than that
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 6; });
  OpenPath("pagoda", kLongest);
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .block = {992, 1, 1},
                              .entries = 16});
  fake_.FaultOn("fail_if", [=](const KernelCall&) {
    std::this_thread::sleep_for(kTask);
    return false;
  });
  for (uint32_t i = 1; i <= kEvents; ++i) Commit(event, i);
  event.ring->RingDoorbell();
  for (uint32_t i = 1; i <= kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(i));
  }
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(Counter("restarts"), 0u);
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_F(PagodaLauncherTest, EventsThatNoEntryHasEndWhenTheirRingGoes) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 6; });
  OpenPath("pagoda");
  constexpr uint32_t kEvents = 64;
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .entries = kEvents});
  std::atomic<bool> go{false};
  std::atomic<uint32_t> runs{0};
  fake_.FaultOn("fail_if", [&](const KernelCall&) {
    ++runs;
    while (!go.load()) std::this_thread::yield();
    return false;
  });
  for (uint32_t i = 0; i < kEvents; ++i) Commit(event, 1);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] {
    return Counter("tasks") == 32 && event.kernel->launched() == kEvents;
  }));
  path_->Remove(event.kernel);
  std::thread ends([&] {
    Until([&] {
      return event.kernel->ring().LoadCompletedSequence(kEvents - 1) != 0;
    });
    go.store(true);
  });
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  ends.join();
  EXPECT_EQ(event.kernel->AbortUnfinished(EventStatus::kUnregistered), 0u);
  // Those that an entry had and that had not begun are aborted, too.
  EXPECT_LE(event.kernel->counts().failed, 32u);
  EXPECT_EQ(event.kernel->counts().failed, runs.load());
  EXPECT_EQ(event.kernel->counts().aborted, kEvents - runs.load());
  auto later = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, later, 2).status, KernelCode(2));
  EXPECT_EQ(TakeAway(later), 0u);
  EXPECT_EQ(event.kernel->counts().failed + 1, runs.load()) << "one ran late";
  EXPECT_EQ(Counter("MTBs"), 0u) << "they stay for nobody";
}

TEST_F(PagodaLauncherTest, AnEntryThatNoMtbHoldsIsRefused) {
  OpenPath("pagoda");
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .modifyable = true});
  const shm::KmdOverride large{.grid = {1, 1, 1}, .block = {1024, 1, 1}};
  const shm::KmdOverride fits{.grid = {2, 1, 1}, .block = {992, 1, 1}};
  const auto run = [&](const shm::KmdOverride& own) {
    const uint32_t code = 6;
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit(&own);
    event.ring->RingDoorbell();
    return device_->Wait(*event.ring).status;
  };
  EXPECT_EQ(run(large), static_cast<uint32_t>(EventStatus::kBadKmd));
  EXPECT_EQ(run(fits), KernelCode(6));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().refused, 1u);
}

TEST_F(PagodaLauncherTest, WithoutRoomForAllMtbsNoTaskIsSpawnedAndItGivesUp) {
  fake_.DefineKernel(
      "carillon_pagoda", {sizeof(PagodaRingTable)}, [](KernelCall& call) {
        const auto table = call.param<PagodaRingTable>(0);
        std::atomic_ref command(const_cast<uint32_t&>(table.control->command));
        std::atomic_ref(table.report->any).store(1);
        while (!call.stopped() && command.load() == 0) {
          std::this_thread::yield();
        }
        return CUDA_SUCCESS;
      });
  OpenPath("pagoda", std::chrono::milliseconds(1'000));
  auto event = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status,
            static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_EQ(Counter("restarts"), 2u);
  EXPECT_EQ(Counter("tasks"), 0u);
  auto other = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                  .bindings = {{.writable = true}}});
  const absl::Status refused = path_->Add(other.kernel);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("not all of its 1 MTBs have found room"));
  EXPECT_EQ(TakeAway(event), 0u);
}

// A MasterKernel all of whose MTBs are there, and whose first one says nothing.
bool IsSilent(const KernelCall& call, bool until_told) {
  const auto table = call.param<PagodaRingTable>(0);
  const std::atomic_ref command(const_cast<uint32_t&>(table.control->command));
  std::atomic_ref(table.report->up).store(table.tasks.columns);
  while (until_told && !call.stopped() && command.load() == 0) {
    std::this_thread::yield();
  }
  return true;
}

TEST_F(PagodaLauncherTest, MtbsThatGiveNoSignOfLifeAreLaunchedAnew) {
  std::atomic<bool> silent{false};
  fake_.FaultOn("carillon_pagoda", [&](const KernelCall& call) {
    // Then it is the true one, which leaves.
    return silent.exchange(false) && !IsSilent(call, /*until_told=*/true);
  });
  OpenPath("pagoda", std::chrono::milliseconds(1'000));
  silent.store(true);
  auto event = AddFailIf(*device_);
  // The first may still be run by those that leave.
  for (const uint32_t code : {3, 4}) {
    EXPECT_EQ(RingAndWait(*device_, event, code).status, KernelCode(code));
  }
  EXPECT_EQ(Counter("restarts"), 1u);
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_F(PagodaLauncherTest, SilentMtbsThatDoNotLeaveAreStopped) {
  std::atomic<bool> silent{false};
  fake_.HangOn("carillon_pagoda", [&](const KernelCall& call) {
    return silent.exchange(false) && IsSilent(call, /*until_told=*/false);
  });
  OpenPath("pagoda", std::chrono::milliseconds(500));
  silent.store(true);
  auto event = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  EXPECT_EQ(RingAndWait(*device_, event, 4).status, KernelCode(4));
  EXPECT_EQ(TakeAway(event), 0u);
}

// A registration that goes needs the thread that polls doorbells.
TEST_F(PagodaLauncherTest, WhileMtbsThatFoundNoRoomLeaveNobodyWaits) {
  std::atomic<bool> slow{false};
  std::atomic<bool> told{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> stopped{false};
  fake_.DefineKernel(
      "carillon_pagoda", {sizeof(PagodaRingTable)}, [&](KernelCall& call) {
        const auto table = call.param<PagodaRingTable>(0);
        std::atomic_ref command(const_cast<uint32_t&>(table.control->command));
        while (!call.stopped() && command.load() == 0) {
          std::this_thread::yield();
        }
        if (!slow.load()) return CUDA_SUCCESS;
        told.store(true);
        while (!call.stopped() && !let_go.load()) std::this_thread::yield();
        stopped.store(!let_go.load());
        return CUDA_SUCCESS;
      });
  OpenPath("pagoda", std::chrono::milliseconds(2'000));
  auto event = AddFailIf(*device_);
  auto goes = AddFailIf(*device_);
  slow.store(true);
  Commit(event, 3);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] { return told.load(); }));
  path_->Remove(goes.kernel);
  EXPECT_FALSE(stopped.load()) << "it has waited until they were stopped";
  let_go.store(true);
  EXPECT_TRUE(Until([&] { return Counter("restarts") == 1; }));
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(TakeAway(event), 1u);
  EXPECT_EQ(TakeAway(goes), 0u);
}

TEST(PagodaLauncher, WhatWasPreparedAndIsNotAddedLeavesNoMtbOnTheGpu) {
  FakeGpu fake;
  auto gpu = Gpu::Open(
      fake.driver(),
      {.image = FakeGpu::Image(), .look_every = std::chrono::milliseconds(5)});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  CudaMemory memory(gpu->get());
  MappedDevice device(memory, "refused");
  auto launcher = PagodaLauncher::Create(gpu->get());
  ASSERT_TRUE(launcher.ok()) << launcher.status();
  const auto mtbs = [&] {
    const auto counters = (*launcher)->counters();
    return std::ranges::find(counters, "MTBs", &PathCounter::name)->value;
  };
  auto first = device.Register({.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}}});
  auto second = device.Register({.kernel = simt::FindKernel("fail_if"),
                                 .bindings = {{.writable = true}}});
  ASSERT_TRUE((*launcher)->Prepare(*first.kernel).ok());
  ASSERT_TRUE((*launcher)->Prepare(*second.kernel).ok());
  // The others' stay.
  (*launcher)->Release(*second.kernel);
  (*launcher)->NotAdded();
  EXPECT_EQ(mtbs(), 1u);
  (*launcher)->Release(*first.kernel);
  EXPECT_EQ(mtbs(), 1u);
  (*launcher)->NotAdded();
  EXPECT_EQ(mtbs(), 0u);
}

// Half of each SM is pagoda_ring's, the other half pagoda's.
TEST_F(PagodaLauncherTest, APathWithoutRoomBesideOthersThatStayNamesThem) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 1; });
  CudaBackendFixture::Open();
  Use("pagoda_ring");
  auto ring = AddFailIf(*device_);
  LaunchPath* const ring_path = path_;
  Use("pagoda");
  auto spawned = AddFailIf(*device_);
  for (const char* const path : {"persistent", "edge"}) {
    auto third = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                    .bindings = {{.writable = true}}});
    const auto found = backend_->paths().Find(path);
    ASSERT_TRUE(found.ok()) << found.status();
    const absl::Status refused = found->path->Add(third.kernel);
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("pagoda_ring holds 1 block with 1024 threads"),
                      HasSubstr("pagoda holds 1 block with 1024 threads")));
  }
  // Both serve.
  EXPECT_EQ(RingAndWait(*device_, ring, 5).status, KernelCode(5));
  EXPECT_EQ(RingAndWait(*device_, spawned, 6).status, KernelCode(6));
  EXPECT_EQ(TakeAway(spawned), 0u);
  // With its last event kernel goes its room.
  Use("persistent");
  auto third = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, third, 7).status, KernelCode(7));
  EXPECT_EQ(TakeAway(third), 0u);
  path_ = ring_path;
  EXPECT_EQ(TakeAway(ring), 0u);
}

// --- While MTBs leave.

// Of the MasterKernel that was launched last.
std::atomic<PagodaWords*> last_words{nullptr};

// All of them know it.

bool MtbsLeave() {
  PagodaWords* const words = last_words.load();
  return words != nullptr &&
         (std::atomic_ref(words->command).load() & kPagodaLeave) != 0;
}

CUresult NotedLaunch(CUfunction function, unsigned x, unsigned y, unsigned z,
                     unsigned block_x, unsigned block_y, unsigned block_z,
                     unsigned shared_bytes, CUstream stream, void** parameters,
                     void** extra) {
  if (block_x == 1024) {
    last_words.store(static_cast<const PagodaRingTable*>(parameters[0])->words);
  }
  return cuLaunchKernel(function, x, y, z, block_x, block_y, block_z,
                        shared_bytes, stream, parameters, extra);
}

class LeavingMtbsTest : public CudaBackendFixture,
                        public ::testing::WithParamInterface<std::string> {
 protected:
  void OpenNoted(std::chrono::milliseconds longest_kernel) {
    Driver driver = fake_.driver();
    driver.cuLaunchKernel = &NotedLaunch;
    Gpu::Options gpu = GpuOptions();
    gpu.longest_kernel = longest_kernel;
    auto backend = CudaBackend::CreateOn(driver, {}, gpu);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    device_.emplace(*backend_);
    Use(GetParam());
  }
  // Rings 4, 13 and 5. 13 has begun when they are told to leave, for the memory of
  // another device.
  void LeaveBeside13(const TestDevice::Event& event,
                     const std::atomic<bool>& begun) {
    for (const uint32_t code : {4, 13, 5}) Commit(event, code);
    event.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return begun.load(); }));
    MappedDevice other(*backend_, "other");
  }
};

INSTANTIATE_TEST_SUITE_P(All, LeavingMtbsTest,
                         ::testing::Values("pagoda", "pagoda_ring"),
                         [](const auto& info) { return info.param; });

// One task has all executors when they are told to leave: it ends, and no other
// begins before they are back.
TEST_P(LeavingMtbsTest, WhatHasNotBegunWhenTheyLeaveRunsOnceAfterwards) {
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 6; });
  OpenNoted(std::chrono::milliseconds(10'000));
  constexpr uint32_t kEvents = 16;
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .block = {992, 1, 1},
                              .entries = kEvents});
  std::atomic<uint32_t> runs{0};
  std::atomic<uint32_t> late{0};
  fake_.FaultOn("fail_if", [&](const KernelCall& call) {
    if (runs++ != 0) {
      if (MtbsLeave()) ++late;
      return false;
    }
    while (!call.stopped() && !MtbsLeave()) std::this_thread::yield();
    return false;
  });
  for (uint32_t i = 1; i <= kEvents; ++i) Commit(event, i);
  event.ring->RingDoorbell();
  ASSERT_TRUE(Until([&] {
    return runs.load() == 1 && (GetParam() == "pagoda_ring" ||
                                path_->counters()[2].value == kEvents);
  }));
  // One quiet.
  auto other = AddFailIf(*device_);
  for (uint32_t i = 1; i <= kEvents; ++i) {
    EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(i));
  }
  // On pagoda the next one has waited for executors already.
  EXPECT_LE(late.load(), GetParam() == "pagoda" ? 1u : 0u);
  EXPECT_EQ(runs.load(), kEvents);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(TakeAway(other), 0u);
  EXPECT_EQ(fake_.launches("carillon_call_fail_if"), 0u) << "replayed";
}

TEST_P(LeavingMtbsTest, AFaultWhileTheyLeaveFailsItsOwnEventAndNoOther) {
  OpenNoted(std::chrono::milliseconds(10'000));
  auto event = AddFailIf(*device_);
  std::atomic<bool> begun{false};
  std::atomic<uint32_t> left{0};
  fake_.FaultOn("fail_if", [&](const KernelCall& call) {
    if (CodeOf(call) != 13) return false;
    // The second time it runs alone.
    if (!begun.exchange(true)) {
      while (!call.stopped() && !MtbsLeave()) std::this_thread::yield();
      if (MtbsLeave()) ++left;
    }
    return true;
  });
  LeaveBeside13(event, begun);
  EXPECT_EQ(left.load(), 1u);
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(4));
  EXPECT_EQ(device_->Wait(*event.ring).status,
            static_cast<uint32_t>(EventStatus::kKernelFault));
  EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(5));
  EXPECT_EQ(RingAndWait(*device_, event, 7).status, KernelCode(7));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().rung, 4u);
}

// Another kernel's trap finds no room: MTB 0's ends the context, though it has
// nothing else to do any more.
TEST_P(LeavingMtbsTest, ATaskThatDoesNotEndIsStoppedByTheLastMtb) {
  OpenNoted(std::chrono::milliseconds(2'000));
  auto event = AddFailIf(*device_);
  std::atomic<bool> begun{false};
  std::atomic<uint32_t> hangs{0};
  fake_.HangOn("fail_if", [&](const KernelCall& call) {
    if (CodeOf(call) != 13) return false;
    ++hangs;
    begun.store(true);
    return true;
  });
  // But for the one that runs alone afterwards.
  fake_.HangOn("carillon_trap",
               [&](const KernelCall&) { return hangs.load() < 2; });
  uint32_t losses = 0;  // a hang, a context
  // Stopped while they leave, it is nobody's fault yet, and runs once more, alone.
  // A machine that tells them too late finds it overdue before they leave: then it
  // ends at once, and is tried again.
  ASSERT_TRUE(Until([&] {
    begun.store(false);
    hangs.store(0);
    LeaveBeside13(event, begun);
    EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(4));
    EXPECT_EQ(device_->Wait(*event.ring).status,
              static_cast<uint32_t>(EventStatus::kTimedOut));
    EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(5));
    losses += hangs.load();
    EXPECT_THAT(backend_->description(),
                AllOf(HasSubstr("context lost " + std::to_string(losses)),
                      Not(HasSubstr("UNUSABLE"))));
    return hangs.load() == 2 || HasFailure();
  }));
  EXPECT_EQ(RingAndWait(*device_, event, 7).status, KernelCode(7));
  EXPECT_EQ(TakeAway(event), 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
