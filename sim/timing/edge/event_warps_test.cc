// Events on `tiny`, with cycles worked out by hand. An event that arrives at T
// takes a free context at T. Otherwise its victim is selected at T, and its
// pipeline is found empty at F, which is T + 1 at the earliest; its context is
// saved at F + 1, and the event is launched at F + 2.
#include "sim/timing/edge/event_warps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using testing::HasSubstr;
using What = Observation::What;

constexpr char kHeader[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry event(.param .u64 out)
{
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  mov.u64 %d1, %clock64;
  st.global.u64 [%d0+1024], %d1;
  ret;
}
.visible .entry background(.param .u64 out)
{
  .reg .pred %p<4>;
  .reg .b32 %r<40>;
  .reg .b64 %d<20>;
  .shared .align 16 .b8 shared[256];
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %tid.x;
)";

// A loop with so much arithmetic that a warp runs for thousands of cycles.
constexpr char kBusy[] = R"(
  mov.u32 %r1, 0;
busy:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, 500;
  @%p0 bra busy;
)";

class EventWarpsTest : public testing::Test {
 protected:
  EventWarpsTest() {
    config_.operands.banks = 64;
    config_.dispatch.device_cycles = 0;
    // One warp, which becomes the victim, and no room beside it.
    config_.sm.warps = 1;
    options_.observer = [this](const Observation& seen) {
      seen_.push_back(seen);
    };
  }

  // Runs the background, and an event at each of these cycles, to their ends.
  void Run(const std::string& body, std::vector<Cycle> at,
           uint32_t threads = 32, uint32_t blocks = 1) {
    Start(body, threads, blocks);
    for (const Cycle cycle : at) RingDoorbell(cycle);
    Finish();
  }
  void Start(const std::string& body, uint32_t threads = 32,
             uint32_t blocks = 1) {
    seen_.clear();
    events_.clear();
    runner_.Load(kHeader + body + " ret; }\n");
    if (out_ == 0) out_ = runner_.Allocate(1 << 16);
    gpu_ = std::make_unique<Gpu>(config_, &runner_.memory(), options_);
    background_ = *gpu_->Submit(runner_.MakeLaunch("background", {blocks, 1, 1},
                                                   {threads, 1, 1}, {out_}),
                                {});
  }
  Launch EventLaunch(uint32_t threads = 32) {
    return runner_.MakeLaunch("event", {}, {threads, 1, 1}, {out_});
  }
  void RingDoorbell(Cycle at, uint32_t registers = 0, uint32_t threads = 32) {
    const auto id =
        gpu_->Submit(EventLaunch(threads),
                     {.not_before = at, .registers = registers, .event = true});
    ASSERT_TRUE(id.ok()) << id.status();
    events_.push_back(*id);
  }
  void Finish() {
    ASSERT_TRUE(gpu_->Run(1'000'000));
    EXPECT_TRUE(gpu_->result(background_)->status.ok())
        << gpu_->result(background_)->status;
    for (const GridId event : events_) {
      EXPECT_TRUE(gpu_->result(event)->status.ok())
          << gpu_->result(event)->status;
    }
  }
  const GridResult& Event(size_t i) { return *gpu_->result(events_[i]); }
  const GridResult& Background() { return *gpu_->result(background_); }
  SmCounters Counters() { return Total(gpu_->statistics()); }
  uint64_t Waited(FlushWait wait) {
    return Counters().flush_waits[static_cast<size_t>(wait)];
  }
  // When it was first seen; if a grid is given, first seen of that grid.
  Cycle When(What what, GridId grid = 0) {
    for (const Observation& seen : seen_) {
      if (seen.what == what && (grid == 0 || seen.grid == grid)) {
        return seen.cycle;
      }
    }
    ADD_FAILURE() << NameOf(what) << " was not seen";
    return kNever;
  }
  // Cycles from the selection of a victim to its empty pipeline.
  uint64_t Latency(size_t i = 0) {
    return Event(i).flushed - Event(i).selected;
  }

  Config config_ = *LoadConfig("tiny");
  KernelRunner runner_;
  Gpu::Options options_;
  std::vector<Observation> seen_;
  std::unique_ptr<Gpu> gpu_;
  DeviceAddress out_ = 0;
  GridId background_ = 0;
  std::vector<GridId> events_;
};

TEST_F(EventWarpsTest, AFreeContextIsTakenAtOnce) {
  config_.sm.warps = 2;
  config_.dispatch.device_cycles = 300;
  Run(kBusy, {100});
  EXPECT_EQ(Event(0).submitted, 100u);
  EXPECT_EQ(Event(0).arrived, 400u);
  EXPECT_EQ(Event(0).dispatched, 400u);
  EXPECT_EQ(Event(0).place, EventPlace::kFree);
  EXPECT_EQ(Event(0).selected, kNever);
  EXPECT_EQ(Counters().events_free, 1u);
  EXPECT_EQ(Counters().preemptions, 0u);
}

TEST_F(EventWarpsTest, ContextsAndRegistersInUseAreCounted) {
  config_.sm.warps = 2;
  config_.sm.registers = 1024;
  // First one of two contexts, then both, then one.
  Start("nanosleep.u32 1000;");
  RingDoorbell(500, 8);
  Finish();
  const Cycle event = Event(0).completed - Event(0).dispatched;
  const SmCounters counters = Counters();
  EXPECT_EQ(counters.busy_cycles, Background().completed);
  EXPECT_EQ(counters.free_context_cycles, counters.busy_cycles - event);
  EXPECT_EQ(counters.register_cycles, 256 * (counters.busy_cycles + event));
}

TEST_F(EventWarpsTest, EachStateTakesACycle) {
  config_.edge.flush_i_buffer = 1;
  // It sleeps at 100, and nothing of it is under way.
  Run("nanosleep.u32 1000;", {500});
  EXPECT_EQ(Event(0).arrived, 500u);
  EXPECT_EQ(Event(0).selected, 500u);
  EXPECT_EQ(Event(0).flushed, 501u);
  EXPECT_EQ(Event(0).dispatched, 503u);
  EXPECT_EQ(Event(0).place, EventPlace::kPreempted);
  EXPECT_EQ(Event(0).victims, 1u);
  EXPECT_FALSE(Event(0).saved_registers);
  // And it goes on sleeping when the event has gone.
  EXPECT_GT(When(What::kEventRestore), Event(0).dispatched);
  EXPECT_LT(When(What::kEventRestore), 700u);
  EXPECT_GT(Background().completed, 1060u);
  EXPECT_LT(Background().completed, 1100u);
}

TEST_F(EventWarpsTest, AVictimThatSleptLongEnoughWakesWhenItIsBack) {
  config_.edge.flush_i_buffer = 1;
  Run("nanosleep.u32 300;", {340});
  const Cycle back = When(What::kEventRestore);
  EXPECT_GT(back, 380u);  // it slept until 370
  // Its ret must be fetched again.
  EXPECT_EQ(Background().completed, back + 2);
}

TEST_F(EventWarpsTest, TheVictimIsBackWhenItsEventHasEnded) {
  Run(kBusy, {300, 1000});
  EXPECT_EQ(Counters().preemptions, 2u);
  EXPECT_EQ(Counters().events_preempting, 2u);
  EXPECT_EQ(When(What::kEventLaunch, events_[0]), Event(0).dispatched);
  // A store under way does not count.
  EXPECT_EQ(When(What::kEventRestore), Event(0).completed);
  EXPECT_EQ(gpu_->sm(0).free(), ContextsOfSm(config_));
}

// --- What a victim's pipeline waits for.

// The pairs are fetched together: (ld, mov) (mov, mov) (div, add) (ret). The
// add waits for the division for 42 cycles, and is done 6 later.
constexpr char kDivision[] = R"(
  mov.u32 %r1, 1000;
  mov.u32 %r2, 3;
  div.u32 %r1, %r1, %r2;
  add.u32 %r1, %r1, 1;
)";

TEST_F(EventWarpsTest, WhatIsIssuedIsFinished) {
  Run(kDivision, {});
  const Cycle division = Background().completed - 48;
  config_.edge.flush_i_buffer = 1;
  Run(kDivision, {division + 2});
  EXPECT_EQ(Event(0).flushed, division + 42);
  EXPECT_EQ(Latency(), 40u);
  EXPECT_EQ(Waited(FlushWait::kPipeline), 40u);
  EXPECT_EQ(Waited(FlushWait::kScoreboard), 40u);
  EXPECT_EQ(Waited(FlushWait::kLoad), 0u);
  EXPECT_EQ(Counters().flush_cycles, 40u);
}

TEST_F(EventWarpsTest, WhatIsDecodedIsIssuedUnlessItIsFlushed) {
  Run(kDivision, {});
  const Cycle division = Background().completed - 48;
  Run(kDivision, {division + 2});
  EXPECT_EQ(Event(0).flushed, division + 42 + 6);
  EXPECT_EQ(Waited(FlushWait::kPipeline), Latency());
}

// Two divisions of 42 cycles, of which the second may begin 10 after the first.
TEST_F(EventWarpsTest, WhatIsFlushedIsNotIssued) {
  // Both decoded at once, or the second while the first is under way.
  for (const char* const between : {"", "mov.u32 %r5, 1;"}) {
    const std::string body = fmt::format(R"(
      mov.u32 %r1, 1000;
      {}
      mov.u32 %r2, 3;
      div.u32 %r3, %r1, %r2;
      div.u32 %r4, %r1, %r2;
    )",
                                         between);
    config_.edge.flush_i_buffer = 0;
    Run(body, {});
    const Cycle first = Background().completed - 52;
    if (*between == 0) {
      Run(body, {first + 1});
      EXPECT_EQ(Event(0).flushed, first + 52);
    }
    config_.edge.flush_i_buffer = 1;
    Run(body, {first + 1});
    EXPECT_EQ(Event(0).flushed, first + 42) << between;
  }
}

TEST_F(EventWarpsTest, ALoadIsAwaitedUnlessItIsReplayed) {
  const char* body = R"(
    mov.u32 %r1, 1000;
    mov.u32 %r2, 3;
    ld.volatile.global.u32 %r3, [%d0];
    add.u32 %r3, %r3, 1;
  )";
  config_.edge.flush_i_buffer = 1;
  // To the DRAM and back it takes 65. The add is done 6 later.
  Run(body, {});
  const Cycle load = Background().completed - 65 - 6;
  Run(body, {load + 20});
  EXPECT_EQ(Event(0).flushed, load + 65);
  EXPECT_EQ(Waited(FlushWait::kLoad), 45u);
  EXPECT_EQ(Waited(FlushWait::kScoreboard), 45u);
  EXPECT_EQ(Waited(FlushWait::kPipeline), 0u);
  EXPECT_EQ(Counters().loads_dropped, 0u);
  config_.edge.replay_loads = 1;
  Run(body, {load + 20});
  EXPECT_EQ(Latency(), 1u);
  EXPECT_EQ(Counters().loads_dropped, 1u);
  EXPECT_EQ(Counters().loads_replayed, 1u);
  EXPECT_EQ(Waited(FlushWait::kLoad), 0u);
  // Done again when it is back: its line is in the L2 now.
  EXPECT_EQ(Background().completed, When(What::kEventRestore) + 35 + 6);
}

TEST_F(EventWarpsTest, ALoadIsNotDroppedBeforeItIsAtTheLsu) {
  const char* body = R"(
    mov.u32 %r1, 1000;
    mov.u32 %r2, 3;
    ld.volatile.global.u32 %r3, [%d0];
    add.u32 %r3, %r3, 1;
  )";
  config_.operands.latency = 10;
  config_.edge.flush_i_buffer = 1;
  config_.edge.replay_loads = 1;
  Run(body, {});
  const Cycle load = Background().completed - 73 - 14;
  Run(body, {load + 1});
  EXPECT_EQ(Event(0).flushed, load + 10);
  EXPECT_EQ(Waited(FlushWait::kPipeline), 9u);
  EXPECT_EQ(Counters().loads_dropped, 1u);
}

TEST_F(EventWarpsTest, AStoreIsAwaitedOnlyUntilItIsSent) {
  config_.edge.flush_i_buffer = 1;
  const std::string body = R"(
    mov.u32 %r1, 1000;
    mov.u32 %r2, 3;
    st.global.u32 [%d0], %r1;
    add.u32 %r1, %r1, 1;
  )";
  Run(body, {});
  const Cycle store = Background().completed - 35;  // until it is acknowledged
  Run(body + "nanosleep.u32 500;", {store + 2});
  EXPECT_EQ(Event(0).flushed, store + 1 + 6);  // the add is done
  Run(body + "nanosleep.u32 500;", {store + 10});
  EXPECT_EQ(Latency(), 1u);
}

TEST_F(EventWarpsTest, AnAtomicIsAwaited) {
  config_.edge.flush_i_buffer = 1;
  config_.edge.replay_loads = 1;
  const std::string body = R"(
    mov.u32 %r1, 1000;
    mov.u32 %r2, 3;
    red.global.add.u32 [%d0], %r1;
  )";
  Run(body, {});
  const Cycle end = Background().completed;
  Run(body + "nanosleep.u32 500;", {end - 20});
  EXPECT_EQ(Event(0).flushed, end);
  EXPECT_EQ(Waited(FlushWait::kPipeline), 20u);
}

TEST_F(EventWarpsTest, ALineOfCodeIsAwaited) {
  config_.edge.flush_i_buffer = 1;
  Run("", {10});
  EXPECT_EQ(Event(0).flushed, 64u);  // sm_test: when the first line is there
  EXPECT_EQ(Waited(FlushWait::kInstructionCache), 54u);
}

TEST_F(EventWarpsTest, AFenceIsAwaited) {
  config_.edge.flush_i_buffer = 1;
  const char* body = R"(
    mov.u32 %r1, 1000;
    mov.u32 %r2, 3;
    st.global.u32 [%d0], %r1;
    membar.gl;
    mov.u32 %r2, 3;
  )";
  Run(body, {});
  const Cycle acknowledged = Background().completed - 6;
  Run(body, {acknowledged - 20});
  EXPECT_EQ(Event(0).flushed, acknowledged);
  EXPECT_EQ(Waited(FlushWait::kMemoryBarrier), 20u);
}

// The first warp, which is the older one, waits for the second.
constexpr char kMeet[] = R"(
  setp.lt.u32 %p0, %r0, 32;
  @%p0 bra meet;
  mov.u32 %r1, 0;
late:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, 50;
  @%p0 bra late;
meet:
  bar.sync 0;
  st.global.u32 [%d0], %r1;
)";

TEST_F(EventWarpsTest, ABarrierIsAwaitedUnlessItIsSkipped) {
  config_.sm.warps = 2;
  config_.edge.flush_i_buffer = 1;
  Run(kMeet, {200}, 64);
  EXPECT_GT(Latency(), 300u);
  EXPECT_EQ(Waited(FlushWait::kBarrier), Latency());
  EXPECT_EQ(Waited(FlushWait::kPipeline), 0u);
  config_.edge.skip_barriers = 1;
  Run(kMeet, {200}, 64);
  EXPECT_EQ(Latency(), 1u);
  EXPECT_EQ(Counters().barriers_skipped, 1u);
  EXPECT_EQ(Waited(FlushWait::kBarrier), 0u);
}

TEST_F(EventWarpsTest, ABarrierThatIsSkippedIsNeitherMissedNorPassed) {
  config_.sm.warps = 2;
  config_.edge.flush_i_buffer = 1;
  config_.edge.skip_barriers = 1;
  Run(kMeet, {}, 64);
  const Cycle alone = Background().completed;
  // Back before the other comes: it waits on.
  Run(kMeet, {200}, 64);
  EXPECT_LT(When(What::kEventRestore), alone - 100);
  EXPECT_GE(Background().completed, alone);
  EXPECT_LT(Background().completed, alone + 30);
  // Back after the other has come: it goes on at once.
  Run(kMeet, {alone - 60}, 64);
  EXPECT_EQ(Counters().barriers_skipped, 1u);
  EXPECT_GT(When(What::kEventRestore), alone - 30);
  EXPECT_GT(Background().completed, When(What::kEventRestore));
}

TEST_F(EventWarpsTest, AVictimGoesFirstIfItHasThePriority) {
  config_.sm.warps = 8;
  config_.edge.victim = VictimPolicy::kNewest;
  config_.fetch.width = 8;
  config_.fetch.buffer = 8;
  // Nothing waits for anything except the unit.
  std::string body = R"(
    mov.u32 %r39, 0;
  again:
    add.u32 %r39, %r39, 1;
    setp.lt.u32 %p0, %r39, 40;
  )";
  for (int i = 0; i < 29; ++i) body += fmt::format("mov.u32 %r{}, 1;\n", 1 + i);
  body += "@%p0 bra again;\n";
  // Events arrive at 40 different moments. The newest of eight warps has to
  // wait until the others are through.
  const auto all = [&] {
    uint64_t cycles = 0;
    for (Cycle at = 1000; at < 1400; at += 10) {
      Run(body, {at}, 256);
      cycles += Latency();
    }
    return cycles;
  };
  const uint64_t without = all();
  config_.edge.victim_priority = 1;
  const uint64_t with = all();
  EXPECT_LT(2 * with, without);
}

// --- Which victim.

// Two warps: the older one's ret follows a division and is decoded with it.
constexpr char kExits[] = R"(
  setp.ge.u32 %p0, %r0, 32;
  @%p0 bra busy;
  mov.u32 %r1, 1000;
  mov.u32 %r2, 3;
  div.u32 %r1, %r1, %r2;
  div.u32 %r1, %r1, %r2;
  @%p0 add.u32 %r1, %r1, 1;
  ret;
busy:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p0, %r3, 100;
  @%p0 bra busy;
)";

TEST_F(EventWarpsTest, AnotherVictimIsSelectedIfItExits) {
  config_.sm.warps = 2;
  Run(kExits, {}, 64);
  const Cycle exits = When(What::kWarpEnd);
  Run(kExits, {exits - 10}, 64);
  EXPECT_EQ(Event(0).place, EventPlace::kPreempted);
  EXPECT_EQ(Event(0).reselections, 1u);
  EXPECT_EQ(Counters().reselections, 1u);
  std::vector<uint32_t> slots;
  for (const Observation& seen : seen_) {
    if (seen.what == What::kEventSelect) slots.push_back(seen.slot);
  }
  EXPECT_THAT(slots, testing::ElementsAre(0, 1));
}

TEST_F(EventWarpsTest, ThePolicyNamesTheVictim) {
  config_.sm.warps = 4;
  config_.edge.flush_i_buffer = 1;
  const auto victim = [&](VictimPolicy policy, Cycle at) {
    config_.edge.victim = policy;
    Run(kBusy, {at}, 32, 4);
    for (const Observation& seen : seen_) {
      if (seen.what == What::kEventSelect) return seen.slot;
    }
    return 99u;
  };
  EXPECT_EQ(victim(VictimPolicy::kOldest, 500), 0u);
  EXPECT_EQ(victim(VictimPolicy::kNewest, 500), 3u);
  EXPECT_EQ(victim(VictimPolicy::kDedicated, 500), 0u);
  // All wait for the first line: the oldest is as good as any.
  EXPECT_EQ(victim(VictimPolicy::kBest, 5), 0u);
}

TEST_F(EventWarpsTest, TheBestVictimIsOneThatWaitsForNothing) {
  config_.sm.warps = 2;
  config_.edge.flush_i_buffer = 1;
  config_.edge.victim = VictimPolicy::kBest;
  // The second one sleeps.
  Run(R"(
    setp.lt.u32 %p0, %r0, 32;
    @%p0 bra first;
    nanosleep.u32 2000;
    ret;
  first:
    div.u32 %r1, %r1, 3;
    bra first2;
  first2:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p0, %r2, 20;
    @%p0 bra first;
  )",
      {600}, 64);
  EXPECT_EQ(Latency(), 1u);
  for (const Observation& seen : seen_) {
    if (seen.what == What::kEventSelect) {
      EXPECT_EQ(seen.slot, 1u);
    }
  }
}

TEST_F(EventWarpsTest, AReservedContextIsForEventsOnly) {
  config_.sm.warps = 2;
  config_.edge.victim = VictimPolicy::kReserved;
  Run(kBusy, {500, 501}, 32, 4);
  EXPECT_EQ(Event(0).place, EventPlace::kReserved);
  EXPECT_EQ(Event(0).dispatched, 500u);
  // The other one waits for the first to end.
  EXPECT_EQ(Event(1).place, EventPlace::kReserved);
  EXPECT_GE(Event(1).dispatched, Event(0).completed);
  EXPECT_EQ(Counters().preemptions, 0u);
  // One warp at a time is the background's.
  EXPECT_LT(Counters().warp_cycles, Counters().busy_cycles + 500);
}

// --- Registers.

TEST_F(EventWarpsTest, RegistersAreSavedAndBroughtBack) {
  config_.lsu.queue = 16;
  config_.lsu.stores = 64;
  config_.edge.flush_i_buffer = 1;
  config_.edge.registers = EventRegisters::kSave;
  const char* body = "nanosleep.u32 1000; mov.u32 %r30, %r31;";
  Start(body);
  RingDoorbell(500, 8);
  Finish();
  EXPECT_EQ(Event(0).flushed, 501u);
  // A store a cycle, from the next one on.
  EXPECT_EQ(Event(0).dispatched, 501u + 8 + 1);
  EXPECT_TRUE(Event(0).saved_registers);
  EXPECT_EQ(Counters().registers_saved, 8u);
  EXPECT_EQ(Counters().registers_restored, 8u);
  EXPECT_EQ(Counters().l1_stores, 8u + 1);
  EXPECT_EQ(gpu_->statistics().memory.l2_stores, 8u + 1);
  // The last of the loads takes its time: 35 cycles from the L2.
  EXPECT_GE(When(What::kEventRestore), Event(0).completed + 8 + 35 - 40);
}

TEST_F(EventWarpsTest, FreeRegistersNeedNotBeSaved) {
  config_.edge.flush_i_buffer = 1;
  const char* body = "nanosleep.u32 1000;";
  Start(body);
  RingDoorbell(500, 8);
  Finish();
  EXPECT_FALSE(Event(0).saved_registers);
  EXPECT_EQ(Event(0).dispatched, 503u);
  EXPECT_EQ(Counters().registers_saved, 0u);
  // There are none.
  config_.sm.registers = 256;
  Start(body);
  RingDoorbell(500, 8);
  Finish();
  EXPECT_TRUE(Event(0).saved_registers);
  EXPECT_EQ(Counters().registers_saved, 8u);
}

TEST_F(EventWarpsTest, AVictimHasAsManyRegistersAsTheEvent) {
  config_.edge.flush_i_buffer = 1;
  const char* body = "nanosleep.u32 1000;";
  Start(body);
  RingDoorbell(500, 40);
  Finish();
  // It waits for a free context.
  EXPECT_EQ(Event(0).place, EventPlace::kFree);
  EXPECT_GE(Event(0).dispatched, Background().completed);
  config_.edge.larger_events = 1;
  Start(body);
  RingDoorbell(500, 40);
  Finish();
  EXPECT_EQ(Event(0).place, EventPlace::kPreempted);
  EXPECT_EQ(Event(0).dispatched, 503u);
  // Not where they are not free.
  config_.sm.registers = 40 * 32;
  Start(body);
  RingDoorbell(500, 40);
  Finish();
  EXPECT_EQ(Event(0).place, EventPlace::kFree);
}

// --- Larger events.

TEST_F(EventWarpsTest, AnEventOfSeveralWarpsTakesTheTbSchedulersWay) {
  config_.sm.warps = 2;
  Start(kBusy, 64);
  RingDoorbell(500, 0, 64);
  Finish();
  EXPECT_EQ(Event(0).place, EventPlace::kTbScheduler);
  EXPECT_GE(Event(0).dispatched, Background().completed);
  EXPECT_EQ(Counters().events_tb_scheduler, 1u);
}

TEST_F(EventWarpsTest, OrHasSeveralVictims) {
  config_.sm.warps = 3;
  config_.edge.several_victims = 1;
  config_.edge.flush_i_buffer = 1;
  Start("nanosleep.u32 1000;", 96);
  RingDoorbell(500, 0, 64);
  Finish();
  EXPECT_EQ(Event(0).place, EventPlace::kPreempted);
  EXPECT_EQ(Event(0).victims, 2u);
  EXPECT_EQ(Event(0).dispatched, 503u);
  EXPECT_EQ(Counters().preemptions, 2u);
  EXPECT_EQ(Counters().events_preempting, 1u);
}

TEST_F(EventWarpsTest, SeveralVictimsDoNotWaitForEachOther) {
  config_.sm.warps = 2;
  config_.edge.several_victims = 1;
  // One of them waits for the other at a barrier, or is about to.
  for (Cycle at = 60; at < 220; ++at) {
    Start(kMeet, 64);
    RingDoorbell(at, 0, 64);
    Finish();
    EXPECT_EQ(gpu_->sm(0).free(), ContextsOfSm(config_)) << at;
    if (HasFailure()) return;
  }
}

TEST_F(EventWarpsTest, OrTheRegistersOfSeveral) {
  config_.sm.warps = 3;
  config_.sm.registers = 3 * 256;
  config_.edge.several_victims = 1;
  config_.edge.flush_i_buffer = 1;
  Start("nanosleep.u32 1000;", 96);
  RingDoorbell(500, 16);
  Finish();
  EXPECT_EQ(Event(0).place, EventPlace::kPreempted);
  EXPECT_EQ(Event(0).victims, 2u);
  EXPECT_EQ(Counters().registers_saved, 16u);
  EXPECT_EQ(Counters().registers_restored, 16u);
  EXPECT_EQ(Counters().preemptions, 2u);
}

TEST_F(EventWarpsTest, TheTableHoldsEventsUntilTheirVictimsAreBack) {
  config_.sm.warps = 2;
  config_.edge.event_warps = 1;
  Run(kBusy, {500, 500}, 64);
  EXPECT_GE(Event(1).dispatched, Event(0).completed);
  config_.edge.event_warps = 2;
  Run(kBusy, {500, 500}, 64);
  EXPECT_LT(Event(1).dispatched, Event(0).completed);
  EXPECT_EQ(Counters().preemptions, 2u);
}

}  // namespace
}  // namespace carillon::sim::timing
