// Launch path pagoda_ring on a driver made of CPU threads: what tests of every path
// do not ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <ranges>
#include <string>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_ring.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

class PagodaRingPathTest : public CudaBackendFixture {
 protected:
  void Open(std::chrono::milliseconds longest_kernel =
                std::chrono::milliseconds(10'000)) {
    OpenPath("pagoda_ring", longest_kernel);
  }
  uint64_t Counter(const std::string& name) const {
    const auto counters = path_->counters();
    const auto found = std::ranges::find(counters, name, &PathCounter::name);
    return found == counters.end() ? ~uint64_t{0} : found->value;
  }
  void HangOnCode13() {
    fake_.HangOn("fail_if", [](const KernelCall& call) {
      uint32_t code = 0;
      if (call.args().empty()) return false;
      std::memcpy(&code, call.args().data(), sizeof(code));
      return code == 13;
    });
  }
  // One of them does not end, and fills an MTB; the others do meanwhile.
  void RunBesideOneThatHangs(uint32_t threads, uint32_t shared_bytes) {
    fake_.ChangeSettings([](FakeSettings& s) { s.sms = 7; });
    Open(std::chrono::milliseconds(4'000));
    constexpr uint32_t kEvents = 16;
    auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}},
                                .block = {threads, 1, 1},
                                .shared_bytes = shared_bytes,
                                .entries = kEvents});
    // Two MTBs, whatever the ring needs.
    auto more = AddFailIf(*device_, 32);
    ASSERT_EQ(Counter("MTBs"), 2u);
    HangOnCode13();
    Commit(event, 13);
    for (uint32_t i = 1; i < kEvents; ++i) Commit(event, 4);
    event.ring->RingDoorbell();
    const shm::GpuRing& ring = event.kernel->ring();
    EXPECT_TRUE(Until([&] {
      for (uint32_t s = 2; s <= kEvents; ++s) {
        if (ring.LoadCompletedSequence(s % kEvents) != s) return false;
      }
      return true;
    })) << "an event waits in the MTB that is full";
    EXPECT_EQ(ring.LoadCompletedSequence(1), 0u) << "it has ended";
    EXPECT_EQ(device_->Wait(*event.ring).status,
              static_cast<uint32_t>(EventStatus::kTimedOut));
    for (uint32_t i = 1; i < kEvents; ++i) {
      EXPECT_EQ(device_->Wait(*event.ring).status, KernelCode(4));
    }
    EXPECT_EQ(TakeAway(event), 0u);
    EXPECT_EQ(TakeAway(more), 0u);
  }
  // Why a kernel of this shape is not taken.
  std::string Refusal(const simt::KernelInfo& kernel, simt::Dim3 block,
                      uint32_t shared_bytes = 0, bool modifyable = false) {
    const ParameterBinding any = {
        .buffer = {device_->memory->completion().At(0), 64}};
    auto event = device_->Register(
        {.kernel = &kernel,
         .bindings = std::vector<ParameterBinding>(kernel.params.size(), any),
         .block = block,
         .shared_bytes = shared_bytes,
         .modifyable = modifyable});
    const absl::Status status = path_->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
};

TEST_F(PagodaRingPathTest, RefusesWhatNoMtbHolds) {
  Open();
  const simt::KernelInfo& fail_if = *simt::FindKernel("fail_if");
  EXPECT_THAT(Refusal(fail_if, {1024, 1, 1}), HasSubstr("1 to 992 threads"));
  EXPECT_THAT(Refusal(fail_if, {32, 1, 1}, 32 * 1024 + 1),
              HasSubstr("an MTB has 32768"));
  EXPECT_THAT(Refusal(*simt::FindKernel("reduce"), {40, 1, 1}),
              HasSubstr("a block of 40 threads has a part of a warp"));
  EXPECT_THAT(Refusal(*simt::FindKernel("busy"), {32, 1, 1}),
              HasSubstr("as long as its arguments say"));
  for (const char* const large : {"dct8x8", "sgemm"}) {
    EXPECT_THAT(Refusal(*simt::FindKernel(large), {32, 1, 1}),
                HasSubstr("more than the 32 registers"));
  }
  simt::KernelInfo leaves_apart = fail_if;
  leaves_apart.uses_barriers = true;
  EXPECT_THAT(Refusal(leaves_apart, {64, 1, 1}), HasSubstr("leave together"));
  simt::KernelInfo users = fail_if;
  users.symbol = "fail_if";
  EXPECT_THAT(Refusal(users, {32, 1, 1}),
              HasSubstr("no function of another module"));
  simt::KernelInfo formless = fail_if;
  formless.name = "formless";
  EXPECT_THAT(Refusal(formless, {32, 1, 1}), HasSubstr("has no task form"));
  simt::KernelInfo checks = fail_if;
  checks.check_shape = [](const simt::LaunchShape&) -> const char* {
    return nullptr;
  };
  EXPECT_THAT(Refusal(checks, {32, 1, 1}, 0, true),
              HasSubstr("only a CPU can make"));
  auto event = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_F(PagodaRingPathTest, AnEntryMayBringItsOwnDimensionsAsFarAsAnMtbHasThem) {
  Open();
  constexpr uint32_t kElements = 3 * 64;
  constexpr uint64_t kBytes = kElements * sizeof(float);
  auto* const in = reinterpret_cast<float*>(device_->memory->submission().At(
      *device_->submission_heap->Allocate(kBytes)));
  auto* const sums = reinterpret_cast<float*>(device_->memory->completion().At(
      *device_->completion_heap->Allocate(kBytes)));
  for (uint32_t i = 0; i < kElements; ++i) in[i] = static_cast<float>(i);
  const auto buffer = [](float* at) {
    return ParameterBinding{
        .buffer = {reinterpret_cast<std::byte*>(at), kBytes}};
  };
  auto event =
      Add(*device_, {.kernel = simt::FindKernel("vector_add"),
                     .bindings = {buffer(in), buffer(in), buffer(sums)},
                     .grid = {6, 1, 1},
                     .block = {32, 1, 1},
                     .modifyable = true});
  const auto run = [&](const shm::KmdOverride* own) {
    std::fill_n(sums, kElements, -1.0f);
    event.ring->Commit(own);
    event.ring->RingDoorbell();
    return device_->Wait(*event.ring);
  };
  const auto all_are_there = [&] {
    return std::ranges::all_of(
        std::views::iota(0u, kElements),
        [&](uint32_t i) { return sums[i] == 2 * in[i]; });
  };
  const shm::KmdOverride two{.grid = {2, 1, 1}, .block = {96, 1, 1}};
  const shm::KmdOverride whole{.grid = {1, 1, 1}, .block = {992, 1, 1}};
  for (const shm::KmdOverride* own :
       {static_cast<const shm::KmdOverride*>(nullptr), &two, &whole}) {
    EXPECT_EQ(run(own).state, EventState::kDone);
    EXPECT_TRUE(all_are_there());
  }
  EXPECT_TRUE(Until([&] { return Counter("tasks") == 3; }));
  const shm::KmdOverride bad[] = {
      {.grid = {1, 1, 1}, .block = {1024, 1, 1}},
      {.grid = {0, 1, 1}, .block = {32, 1, 1}},
      {.grid = {1, 1, 1}, .block = {1u << 31, 2, 1}},
      {.grid = {1u << 16, 1u << 16, 1}, .block = {32, 1, 1}},
      {.grid = {256, 256, 1}, .block = {32, 1, 1}},
      {.grid = {1, 1, 1}, .block = {1, 1, 65}},
      {.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 32 * 1024 + 1},
      {.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = ~0u},
  };
  for (const shm::KmdOverride& own : bad) {
    EXPECT_EQ(run(&own).status, static_cast<uint32_t>(EventStatus::kBadKmd));
    EXPECT_EQ(sums[0], -1.0f);
  }
  EXPECT_EQ(run(&two).state, EventState::kDone);
  EXPECT_TRUE(all_are_there());
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().refused, std::size(bad));
  EXPECT_EQ(Counter("tasks"), 4u);
}

// And what never ends costs its own context, after which the others have run.
TEST_F(PagodaRingPathTest, ATaskThatDoesNotEndHoldsUpNoOtherOfItsRing) {
  Open(std::chrono::milliseconds(2'000));
  auto event = AddFailIf(*device_, 8);
  HangOnCode13();
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
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().rung, 4u);
}

TEST_F(PagodaRingPathTest, AnMtbWithoutExecutorsLeavesEventsToAnother) {
  RunBesideOneThatHangs(992, 0);
}

TEST_F(PagodaRingPathTest, AnMtbWithoutSharedMemoryLeavesEventsToAnother) {
  RunBesideOneThatHangs(32, kTaskSharedBytes);
}

TEST_F(PagodaRingPathTest, AsManyMtbsStayAsTheRingsFillAndSomeSmsStayWhole) {
  // Five: edge's dispatchers may be four.
  fake_.ChangeSettings([](FakeSettings& s) { s.sms = 3 + 5; });
  Open();
  // Three warps an event.
  auto small = AddFailIf(*device_, 8);
  EXPECT_EQ(Counter("MTBs"), 1u);
  auto large = AddFailIf(*device_, 16);
  EXPECT_EQ(Counter("MTBs"), 3u);  // 72 warps
  auto larger = AddFailIf(*device_, 64);
  EXPECT_EQ(Counter("MTBs"), 3u);
  for (auto* event : {&small, &large, &larger}) {
    EXPECT_EQ(RingAndWait(*device_, *event, 7).status, KernelCode(7));
    EXPECT_EQ(TakeAway(*event), 0u);
  }
}

// By what runs out first in an MTB, be it barriers or shared memory.
TEST_F(PagodaRingPathTest, WhatTheRingsFillIsMoreThanExecutors) {
  Open();
  const auto mtbs = [&](const TestDevice::Spec& spec) {
    auto event = Add(*device_, spec);
    const uint64_t found = Counter("MTBs");
    EXPECT_EQ(TakeAway(event), 0u);
    return found;
  };
  const auto of = [&](const char* kernel, uint32_t threads,
                      uint32_t shared_bytes, uint32_t entries) {
    const simt::KernelInfo* const info = simt::FindKernel(kernel);
    return TestDevice::Spec{
        .kernel = info,
        .bindings = std::vector<ParameterBinding>(
            info->params.size(),
            {.buffer = {device_->memory->completion().At(0), 64}}),
        .block = {threads, 1, 1},
        .shared_bytes = shared_bytes,
        .entries = entries};
  };
  // 16 KB each, as the buddy tree has it.
  EXPECT_EQ(mtbs(of("fail_if", 32, 9 * 1024, 8)), 4u);
  TestDevice::Spec meets = of("reduce", 64, 0, 2);
  meets.grid = {23, 1, 1};  // 46 barriers, and 92 warps
  EXPECT_EQ(mtbs(meets), 4u);
}

TEST_F(PagodaRingPathTest, AGpuWhoseSmsHoldNoMtbHasNoSuchPath) {
  fake_.ChangeSettings([](FakeSettings& s) { s.threads_per_sm = 1536; });
  CudaBackendFixture::Open();
  const auto found = backend_->paths().Find("pagoda_ring");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(found.status().message()),
              HasSubstr("does not fit in half of an SM"));
}

// A MasterKernel of which a part has no room: it takes nothing, and says so.
TEST_F(PagodaRingPathTest,
       WithoutRoomForAllMtbsNoEventIsTakenAndThePathGivesUp) {
  fake_.DefineKernel(
      "carillon_pagoda_ring", {sizeof(PagodaRingTable)}, [](KernelCall& call) {
        const auto table = call.param<PagodaRingTable>(0);
        std::atomic_ref command(const_cast<uint32_t&>(table.control->command));
        std::atomic_ref(table.report->any).store(1);
        while (!call.stopped() && (command.load() & kPagodaLeave) == 0) {
          std::this_thread::yield();
        }
        return CUDA_SUCCESS;
      });
  // Longer than a sanitizer needs to load the module.
  Open(std::chrono::milliseconds(2'000));
  auto event = AddFailIf(*device_);
  Commit(event, 3);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).status,
            static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_EQ(Counter("restarts"), 2u);
  EXPECT_THAT(path_->notice(),
              HasSubstr("not all of its 1 MTBs have found room"));
  auto other = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                  .bindings = {{.writable = true}}});
  EXPECT_EQ(path_->Add(other.kernel).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(TakeAway(event), 0u);
}

// One that finds no room at all cannot be told to leave: each try costs the
// context, and recovery ends the events.
TEST_F(PagodaRingPathTest, WithoutRoomForAnyMtbThePathGivesUp) {
  std::atomic<int> launches = 0;
  fake_.DefineKernel(
      "carillon_pagoda_ring", {sizeof(PagodaRingTable)},
      [&launches](KernelCall& call) {
        const auto table = call.param<PagodaRingTable>(0);
        std::atomic_ref command(const_cast<uint32_t&>(table.control->command));
        // The first is asked whether it comes to rest.
        const bool there = ++launches == 1;
        while (!call.stopped() &&
               !(there && (command.load() & kPagodaLeave) != 0)) {
          std::this_thread::yield();
        }
        return CUDA_SUCCESS;
      });
  Open(std::chrono::milliseconds(1'000));
  auto event = AddFailIf(*device_);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  EXPECT_TRUE(Until([&] { return !path_->notice().empty(); }));
  EXPECT_THAT(path_->notice(), HasSubstr("none of its 1 MTBs have found room"));
  // When there is a context again.
  auto other = device_->Register({.kernel = simt::FindKernel("fail_if"),
                                  .bindings = {{.writable = true}}});
  EXPECT_EQ(path_->Add(other.kernel).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RingAndWait(*device_, event, 3).status,
            static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_EQ(TakeAway(event), 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
