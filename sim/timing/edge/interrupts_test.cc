#include "sim/timing/edge/interrupts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using isr::Vector;
using testing::HasSubstr;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64

.extern .func __wait_threads_on(.param .b32 barrier);

.visible .entry add(.param .u64 to)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [to];
  red.global.add.u32 [%d0], 1;
  ret;
}

// As long as the word is 0.
.visible .entry spin(.param .u64 flag)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [flag];
again:
  ld.volatile.global.u32 %r0, [%d0];
  setp.eq.u32 %p0, %r0, 0;
  @%p0 bra again;
  ret;
}

// A persistent kernel: adds one whenever it is released, to the end of `times`.
.visible .entry persist(.param .u64 to, .param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [to];
  ld.param.u32 %r0, [times];
again:
  { .param .b32 barrier; st.param.b32 [barrier], 3;
    call.uni __wait_threads_on, (barrier); }
  red.global.add.u32 [%d0], 1;
  sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra again;
  ret;
}
)";

std::string RoutineText() {
  std::ifstream file("sim/timing/edge/isr.ptx");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class InterruptsTest : public testing::Test {
 protected:
  InterruptsTest() {
    isr_.Load(RoutineText());
    runner_.Load(kKernels);
    data_ = runner_.Allocate(4096);
  }

  // The first call makes the GPU.
  Gpu& gpu() {
    if (gpu_ != nullptr) return *gpu_;
    gpu_ = std::make_unique<Gpu>(
        config_, &runner_.memory(),
        Gpu::Options{.ended = [this](const GridResult& grid) {
          interrupts_->Ended(grid);
        }});
    auto interrupts =
        Interrupts::Create(gpu_.get(), &runner_.memory(), &isr_.program());
    EXPECT_TRUE(interrupts.ok()) << interrupts.status();
    interrupts_ = *std::move(interrupts);
    return *gpu_;
  }
  Interrupts& interrupts() {
    gpu();
    return *interrupts_;
  }
  Launch Of(const char* kernel, uint32_t blocks = 1, uint32_t threads = 32,
            std::vector<uint32_t> narrow = {}) {
    return runner_.MakeLaunch(kernel, {blocks, 1, 1}, {threads, 1, 1}, {data_},
                              narrow);
  }
  EventId AddEvent() { return *gpu().RegisterEvent({.launch = Of("add")}); }
  const InterruptResult& Result(InterruptId id) {
    const InterruptResult* const result = interrupts().result(id);
    EXPECT_NE(result, nullptr) << id;
    static const InterruptResult none;
    return result == nullptr ? none : *result;
  }
  InterruptId Raise(const Interrupt& interrupt, Cycle at = 0) {
    const auto id = interrupts().Raise(interrupt, at);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }
  uint32_t& Word(size_t i = 0) { return runner_.At<uint32_t>(data_, 128)[i]; }

  Config config_ = *LoadConfig("tiny");
  KernelRunner isr_;
  KernelRunner runner_;
  DeviceAddress data_ = 0;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<Interrupts> interrupts_;
};

TEST_F(InterruptsTest, TheRoutineLaunchesTheEvent) {
  const EventId event = AddEvent();
  const InterruptId id =
      Raise({.vector = Vector::kLaunchEvent, .event = event}, 1000);
  EXPECT_EQ(interrupts().pending(), 1u);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(interrupts().pending(), 0u);
  EXPECT_EQ(Word(), 32u);
  const InterruptResult& result = Result(id);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.raised, 1000u);
  ASSERT_EQ(result.routines.size(), 1u);
  const GridResult& routine = result.routines[0];
  EXPECT_EQ(routine.arrived, 1000 + config_.edge.interrupt_cycles);
  EXPECT_EQ(routine.place, EventPlace::kFree);
  ASSERT_TRUE(result.event.has_value());
  EXPECT_EQ(result.event->submitted, routine.completed);
  EXPECT_EQ(result.event->place, EventPlace::kTbScheduler);
  EXPECT_EQ(result.event->dispatched,
            routine.completed + 1 + config_.dispatch.device_cycles);
}

TEST_F(InterruptsTest, TheEventHasTheParametersOfTheInterrupt) {
  const EventId event = AddEvent();
  const DeviceAddress other = data_ + 64;
  std::vector<std::byte> parameters(8);
  std::memcpy(parameters.data(), &other, 8);
  Raise({.vector = Vector::kLaunchEvent,
         .event = event,
         .parameters = parameters});
  Raise({.vector = Vector::kLaunchEvent, .event = event});
  gpu().Run();
  EXPECT_EQ(Word(0), 32u);
  EXPECT_EQ(Word(16), 32u);
}

TEST_F(InterruptsTest, ARoutinePreemptsWhereNothingIsFree) {
  config_.edge.victim = VictimPolicy::kNewest;
  const GridId spin = *gpu().Submit(Of("spin", 4, 64), {});
  const InterruptId id = Raise({}, 3000);
  EXPECT_FALSE(gpu().Run(20000));
  const GridResult& routine = Result(id).routines.at(0);
  EXPECT_EQ(routine.place, EventPlace::kPreempted);
  EXPECT_LT(routine.completed, 20000u);
  Word() = 1;
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(gpu().result(spin)->status.ok()) << gpu().result(spin)->status;
}

TEST_F(InterruptsTest, TheRoutineReadsItsRegistersWithoutMemory) {
  const InterruptId id = Raise({});
  gpu().Run();
  const Statistics statistics = gpu().statistics();
  EXPECT_EQ(statistics.memory.dram_reads, statistics.sms[0].icache_fills);
  EXPECT_EQ(statistics.sms[0].memory, 3u);
  EXPECT_EQ(statistics.sms[0].global_operations, 0u);
  EXPECT_TRUE(Result(id).status.ok());
}

TEST_F(InterruptsTest, ADelayMakesTheRoutineLonger) {
  const auto cycles = [&](uint32_t delay) {
    const InterruptId id = Raise({.delay = delay});
    gpu().Run();
    const GridResult& routine = Result(id).routines.at(0);
    return routine.completed - routine.dispatched;
  };
  cycles(0);  // fills the i-cache
  const Cycle none = cycles(0);
  EXPECT_GT(cycles(100), none + 300);
  EXPECT_EQ(cycles(0), none);
}

TEST_F(InterruptsTest, ReservedLinesSurviveOtherCode) {
  const auto second = [&](uint32_t lines) {
    gpu_.reset();
    config_.edge.reserve_icache_lines = lines;
    // Each of the two ways goes to another program as soon as that one runs.
    config_.icache.bytes = 2 * config_.icache.line_bytes;
    config_.icache.ways = 2;
    Raise({});
    gpu().Run();
    EXPECT_TRUE(gpu().Submit(Of("persist", 1, 32, {1}), {}).ok());
    Raise({.vector = Vector::kReleaseBarrier, .barrier = 3});
    EXPECT_TRUE(gpu().Run());
    const InterruptId id = Raise({});
    gpu().Run();
    const GridResult& routine = Result(id).routines.at(0);
    return routine.completed - routine.dispatched;
  };
  EXPECT_LT(second(1), second(0));
}

TEST_F(InterruptsTest, MoreLinesThanTheICacheKeepsAreRefused) {
  config_.icache.bytes = 2 * config_.icache.line_bytes;
  config_.icache.ways = 1;
  config_.edge.reserve_icache_lines = 1;
  Gpu gpu(config_, &runner_.memory(), {});
  const auto interrupts =
      Interrupts::Create(&gpu, &runner_.memory(), &isr_.program());
  EXPECT_EQ(interrupts.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(interrupts.status().message()),
      HasSubstr("edge.reserve_icache_lines: 1: the i-cache has no room"));
}

TEST_F(InterruptsTest, AReleaseGoesToAllSms) {
  config_.sm.count = 3;
  // Two blocks of each SM, three times.
  const GridId persist = *gpu().Submit(Of("persist", 6, 64, {3}), {});
  EXPECT_FALSE(gpu().Run(3000));
  EXPECT_EQ(Word(), 0u);
  for (uint32_t turn = 1; turn <= 3; ++turn) {
    const InterruptId id =
        Raise({.vector = Vector::kReleaseBarrier, .barrier = 3});
    EXPECT_EQ(gpu().Run(turn * 10000), turn == 3);
    EXPECT_EQ(Word(), turn * 6 * 64);
    EXPECT_EQ(Result(id).routines.size(), 3u);
  }
  EXPECT_TRUE(gpu().result(persist)->status.ok());
}

TEST_F(InterruptsTest, AReleaseOfOneSmIsNotTheOthers) {
  config_.sm.count = 3;
  EXPECT_TRUE(gpu().Submit(Of("persist", 3, 64, {1}), {}).ok());
  const InterruptId id =
      Raise({.vector = Vector::kReleaseBarrier, .barrier = 3, .sm = 1}, 3000);
  EXPECT_FALSE(gpu().Run(10'000));
  EXPECT_EQ(Word(), 64u);
  ASSERT_EQ(Result(id).routines.size(), 1u);
  EXPECT_EQ(Result(id).routines[0].sm, 1u);
}

// Events run on the reserved SM only; the waiting blocks are on the others.
TEST_F(InterruptsTest, AReleaseReachesSmsThatTakeNoEvents) {
  config_.sm.count = 3;
  config_.edge.reserve_sms = 1;
  const GridId persist = *gpu().Submit(Of("persist", 4, 64, {1}), {});
  EXPECT_FALSE(gpu().Run(3000));
  Raise({.vector = Vector::kReleaseBarrier, .barrier = 3});
  EXPECT_TRUE(gpu().Run(10'000));
  EXPECT_EQ(Word(), 4u * 64);
  EXPECT_TRUE(gpu().result(persist)->status.ok());
}

TEST_F(InterruptsTest, AnotherBarriersReleaseIsNotTheirs) {
  EXPECT_TRUE(gpu().Submit(Of("persist", 1, 64, {1}), {}).ok());
  Raise({.vector = Vector::kReleaseBarrier, .barrier = 2});
  EXPECT_FALSE(gpu().Run(5000));
  EXPECT_EQ(Word(), 0u);
}

TEST_F(InterruptsTest, ATimerRaisesAgainAndAgain) {
  const EventId event = AddEvent();
  const GridId spin = *gpu().Submit(
      runner_.MakeLaunch("spin", {1, 1, 1}, {32, 1, 1}, {data_ + 64}), {});
  ASSERT_TRUE(interrupts()
                  .Every(1000, {.vector = Vector::kLaunchEvent, .event = event})
                  .ok());
  EXPECT_FALSE(gpu().Run(10'900));
  EXPECT_EQ(Word(), 10u * 32);
  interrupts().StopTimers();
  EXPECT_FALSE(gpu().Run(15'000));
  EXPECT_EQ(Word(), 10u * 32);
  EXPECT_EQ(interrupts().refused(), 0u);
  Word(16) = 1;
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(gpu().result(spin)->status.ok());
}

TEST_F(InterruptsTest, WhatIsWrongIsRefused) {
  const auto refused = [&](const Interrupt& interrupt) {
    return interrupts().Raise(interrupt, 0).status();
  };
  EXPECT_EQ(refused({.vector = Vector::kLaunchEvent, .event = 7}).message(),
            "event 7: there is none");
  EXPECT_EQ(
      refused({.vector = Vector::kReleaseBarrier, .barrier = 16}).message(),
      "wait-release barrier 16: there are 16");
  EXPECT_EQ(refused({.sm = 1}).message(), "SM 1: there are 1");
  EXPECT_EQ(interrupts().Every(0, {}).message(),
            "a timer's period is 1 cycle at least");
  for (uint32_t i = 0; i < Interrupts::kMaxPending; ++i) Raise({});
  EXPECT_EQ(refused({}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(gpu().Run());
  EXPECT_TRUE(refused({}).ok());
}

// The event existed when the interrupt was raised.
TEST_F(InterruptsTest, AnEventThatHasGoneFailsTheInterrupt) {
  const EventId event = AddEvent();
  const InterruptId id =
      Raise({.vector = Vector::kLaunchEvent, .event = event});
  ASSERT_TRUE(gpu().UnregisterEvent(event).ok());
  gpu().Run();
  EXPECT_EQ(Result(id).status.code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Result(id).event.has_value());
}

}  // namespace
}  // namespace carillon::sim::timing
