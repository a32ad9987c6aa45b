// Events on the whole GPU: registration, paths, priorities, reservations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/timing/kernel_runner.h"

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kKernels[] = R"(
.version 7.0
.target sm_75
.address_size 64

// out[0] += value, after so many times of 48 cycles at least.
.visible .entry work(.param .u64 out, .param .u32 times, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [times];
  ld.param.u32 %r2, [value];
  mov.u32 %r1, 0;
again:
  div.u32 %r0, %r0, 1;
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p0, %r1, %r0;
  @%p0 bra again;
  red.global.add.u32 [%d0], %r2;
  ret;
}

.visible .entry moves(.param .u32 times)
{
  .reg .pred %p<2>;
  .reg .b32 %r<20>;
  ld.param.u32 %r0, [times];
again:
  sub.u32 %r0, %r0, 1;
  setp.ne.u32 %p0, %r0, 0;
  mov.u32 %r1, 1;
  mov.u32 %r2, 1;
  mov.u32 %r3, 1;
  mov.u32 %r4, 1;
  mov.u32 %r5, 1;
  mov.u32 %r6, 1;
  @%p0 bra again;
  ret;
}

.visible .entry sleeps() { nanosleep.u32 1000000; ret; }

.visible .entry shared(.param .u64 out)
{
  .reg .b32 %r<4>;
  .shared .align 16 .b8 words[256];
  ld.shared.u32 %r0, [words];
  ret;
}

.visible .entry wild()
{
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  mov.u64 %d0, 16;
  ld.global.u32 %r0, [%d0];
  ret;
}
)";

class EventsTest : public testing::Test {
 protected:
  EventsTest() {
    runner_.Load(kKernels);
    data_ = runner_.Allocate(4096);
    config_.sm.warps = 1;
    config_.dispatch.device_cycles = 0;
    config_.dispatch.grids = 32;
    config_.edge.flush_i_buffer = 1;
    options_.observer = [this](const Observation& seen) {
      seen_.push_back(seen);
    };
  }

  Gpu& gpu() {
    if (gpu_ == nullptr) {
      gpu_ = std::make_unique<Gpu>(config_, &runner_.memory(), options_);
    }
    return *gpu_;
  }
  void Again() {
    gpu_.reset();
    seen_.clear();
    Word() = 0;
  }
  Launch Work(uint32_t times, uint32_t blocks = 1, uint32_t threads = 32,
              uint32_t value = 1) {
    return runner_.MakeLaunch("work", {blocks, 1, 1}, {threads, 1, 1}, {data_},
                              {times, value});
  }
  GridId Submit(const Launch& launch, Cycle at = 0) {
    const auto grid = gpu().Submit(launch, {.not_before = at});
    EXPECT_TRUE(grid.ok()) << grid.status();
    return grid.ok() ? *grid : 0;
  }
  GridId Event(const Launch& launch, Cycle at, uint32_t priority = 0) {
    const auto grid = gpu().Submit(
        launch, {.priority = priority, .not_before = at, .event = true});
    EXPECT_TRUE(grid.ok()) << grid.status();
    return grid.ok() ? *grid : 0;
  }
  const GridResult& Result(GridId grid) { return *gpu().result(grid); }
  uint32_t& Word() { return runner_.At<uint32_t>(data_, 1)[0]; }
  SmCounters Counters() { return Total(gpu().statistics()); }
  // The start of each of the grid's blocks, with cycle and SM.
  std::vector<Observation> Starts(GridId grid) {
    std::vector<Observation> starts;
    for (const Observation& seen : seen_) {
      if (seen.what == Observation::What::kBlockStart && seen.grid == grid) {
        starts.push_back(seen);
      }
    }
    return starts;
  }
  // How many of them start in these cycles.
  size_t StartsIn(GridId grid, Cycle from, Cycle to) {
    size_t count = 0;
    for (const Observation& start : Starts(grid)) {
      count += start.cycle >= from && start.cycle < to;
    }
    return count;
  }

  Config config_ = *LoadConfig("tiny");
  Gpu::Options options_;
  std::vector<Observation> seen_;
  KernelRunner runner_;
  DeviceAddress data_ = 0;
  std::unique_ptr<Gpu> gpu_;
};

// --- Registration.

TEST_F(EventsTest, AnEventIsRegisteredOnceAndRungOften) {
  config_.dispatch.device_cycles = 300;
  const auto event = gpu().RegisterEvent({.launch = Work(1)});
  ASSERT_TRUE(event.ok()) << event.status();
  const GridId first = *gpu().RingDoorbell(*event, 1000);
  // These parameters add another value than the registered ones.
  std::vector<std::byte> parameters = Work(1, 1, 32, 100).parameters;
  const GridId second = *gpu().RingDoorbell(*event, 2000, parameters);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Word(), 32u * 101);
  EXPECT_TRUE(Result(first).event);
  EXPECT_EQ(Result(first).submitted, 1000u);
  EXPECT_EQ(Result(first).arrived, 1300u);
  EXPECT_EQ(Result(first).dispatched, 1300u);
  EXPECT_EQ(Result(second).arrived, 2300u);
  // A cycle that has passed means now.
  const GridId third = *gpu().RingDoorbell(*event, 5);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Result(third).arrived, Result(third).submitted + 300);
  EXPECT_GT(Result(third).submitted, 2300u);
}

TEST_F(EventsTest, TheTableHoldsSoManyEvents) {
  config_.edge.ekt = 3;
  std::vector<EventId> events;
  for (int i = 0; i < 3; ++i) {
    events.push_back(*gpu().RegisterEvent({.launch = Work(1)}));
  }
  const auto full = gpu().RegisterEvent({.launch = Work(1)});
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(full.status().message(), HasSubstr("3 entries (edge.ekt)"));
  EXPECT_TRUE(gpu().UnregisterEvent(events[1]).ok());
  const auto next = gpu().RegisterEvent({.launch = Work(1)});
  EXPECT_TRUE(next.ok());
  // The id of an unregistered event does not find the new event.
  EXPECT_EQ(gpu().RingDoorbell(events[1], 0).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(gpu().UnregisterEvent(events[1]).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(gpu().RingDoorbell(*next, 0).ok());
  EXPECT_TRUE(gpu().Run());
}

TEST_F(EventsTest, AnEventThatNoSmHoldsIsRefused) {
  const auto event = gpu().RegisterEvent({.launch = Work(1, 1, 64)});
  EXPECT_EQ(event.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(event.status().message(), HasSubstr("(it lacks warps)"));
}

// --- Paths.

TEST_F(EventsTest, SharedMemoryTakesTheTbSchedulersWay) {
  Submit(Work(20));
  const GridId event =
      Event(runner_.MakeLaunch("shared", {}, {32, 1, 1}, {data_}), 500);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Result(event).place, EventPlace::kTbScheduler);
  EXPECT_EQ(Counters().preemptions, 0u);
}

TEST_F(EventsTest, EventsGoToSMsInTurnWhereTheyFindRoomFirst) {
  config_.sm.count = 4;
  config_.sm.warps = 2;
  Submit(Work(60, 6));  // the last two SMs have a free context
  std::vector<GridId> events;
  for (int i = 0; i < 4; ++i) events.push_back(Event(Work(30), 500));
  EXPECT_TRUE(gpu().Run());
  std::vector<uint32_t> sms;
  for (const GridId event : events) sms.push_back(Result(event).sm);
  EXPECT_THAT(sms, ElementsAre(2, 3, 0, 1));
  EXPECT_EQ(Result(events[0]).place, EventPlace::kFree);
  EXPECT_EQ(Result(events[1]).place, EventPlace::kFree);
  EXPECT_EQ(Result(events[2]).place, EventPlace::kPreempted);
  EXPECT_EQ(Word(), 32u * 10);
}

TEST_F(EventsTest, TheTbSchedulerGivesBlocksToSMsInTurn) {
  config_.sm.count = 4;
  config_.edge.path = EventPath::kTbScheduler;
  config_.edge.reserve_sms = 2;
  std::vector<uint32_t> sms;
  for (const Cycle at : {500, 3000, 6000, 9000}) {
    const GridId event = Event(Work(1), at);
    EXPECT_TRUE(gpu().Run());
    sms.push_back(Result(event).sm);
  }
  EXPECT_THAT(sms, ElementsAre(2, 3, 2, 3));
}

// Beside a background whose blocks start all the time.
TEST_F(EventsTest, SingleEventsCrowdOnOneSmUnlessTheyHaveATurnOfTheirOwn) {
  config_.sm.count = 5;
  config_.edge.path = EventPath::kTbScheduler;
  config_.edge.reserve_sms = 3;
  const auto sms = [&](EventTurn turn) {
    Again();
    config_.dispatch.event_turn = turn;
    const GridId background = Submit(Work(5, 80));
    std::vector<GridId> events;
    for (Cycle at = 2000; at < 9000; at += 1000) {
      events.push_back(Event(Work(1), at));
    }
    EXPECT_TRUE(gpu().Run());
    EXPECT_GT(Result(background).completed, 10'000u);
    // The background's blocks go on in turn.
    EXPECT_EQ(Starts(background)[70].sm + Starts(background)[71].sm, 1u);
    std::vector<uint32_t> sms;
    for (const GridId event : events) sms.push_back(Result(event).sm);
    return sms;
  };
  EXPECT_THAT(sms(EventTurn::kShared), ElementsAre(2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(sms(EventTurn::kOwn), ElementsAre(2, 3, 4, 2, 3, 4, 2));
}

TEST_F(EventsTest, AnOwnTurnIsNeitherMovedByOthersNorMovesTheirs) {
  config_.sm.count = 4;
  config_.edge.path = EventPath::kTbScheduler;
  const auto sms = [&](EventTurn turn) {
    Again();
    config_.dispatch.event_turn = turn;
    std::vector<uint32_t> sms;
    for (const Cycle at : {1000, 3000}) {
      const GridId event = Event(Work(1), at);
      EXPECT_TRUE(gpu().Run());
      const GridId other = Submit(Work(1), at + 1000);
      EXPECT_TRUE(gpu().Run());
      sms.push_back(Result(event).sm);
      sms.push_back(Starts(other).front().sm);
    }
    return sms;
  };
  EXPECT_THAT(sms(EventTurn::kShared), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sms(EventTurn::kOwn), ElementsAre(0, 0, 1, 1));
}

TEST_F(EventsTest, AnOwnTurnDoesNotLetEventsPassEarlierBlocks) {
  config_.edge.path = EventPath::kTbScheduler;
  config_.dispatch.event_turn = EventTurn::kOwn;
  const GridId background = Submit(Work(5, 12));
  const GridId event = Event(Work(1), 500);
  EXPECT_TRUE(gpu().Run());
  EXPECT_GT(Result(event).dispatched, Starts(background).back().cycle);
  EXPECT_EQ(Starts(background).size(), 12u);
}

TEST_F(EventsTest, AnOwnTurnGivesAnSmNoMoreBlocksInACycle) {
  config_.sm.warps = 8;
  config_.sm.blocks = 16;
  config_.edge.path = EventPath::kTbScheduler;
  config_.dispatch.event_turn = EventTurn::kOwn;
  const GridId event = Event(Work(20), 500);
  const GridId background = Submit(Work(20, 2), 500);
  EXPECT_TRUE(gpu().Run());
  std::vector<Cycle> starts = {Result(event).dispatched,
                               Starts(background)[0].cycle,
                               Starts(background)[1].cycle};
  std::ranges::sort(starts);
  EXPECT_LT(starts[0], starts[1]);
  EXPECT_LT(starts[1], starts[2]);
}

TEST_F(EventsTest, EventsDoNotPreemptEvents) {
  const GridId first = Event(Work(30), 500);
  const GridId second = Event(Work(1), 600);
  EXPECT_TRUE(gpu().Run());
  EXPECT_GE(Result(second).dispatched, Result(first).completed);
  EXPECT_EQ(Counters().preemptions, 0u);
}

TEST_F(EventsTest, WhereAllTablesAreFullThePreferredEventGoesNext) {
  config_.edge.event_warps = 1;
  Submit(Work(60));
  const GridId first = Event(Work(10), 500);
  const GridId second = Event(Work(10), 501);
  const GridId third = Event(Work(10), 502, 1);
  EXPECT_TRUE(gpu().Run());
  EXPECT_LT(Result(first).dispatched, Result(third).dispatched);
  EXPECT_LT(Result(third).dispatched, Result(second).dispatched);
}

TEST_F(EventsTest, AnEventThatFaultsGivesItsPlaceBack) {
  const GridId background = Submit(Work(60));
  const GridId event =
      Event(runner_.MakeLaunch("wild", {}, {32, 1, 1}, {}), 500);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Result(event).place, EventPlace::kPreempted);
  EXPECT_EQ(Result(event).status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Result(background).status.ok());
  EXPECT_EQ(Word(), 32u);
  EXPECT_EQ(gpu().sm(0).free(), ContextsOfSm(config_));
}

// --- Priorities.

// Blocks of some 1,000 cycles, and an event that arrives during the third.
class PriorityTest : public EventsTest {
 protected:
  void Go(EventPriority priority, EventPath path) {
    Again();
    config_.edge.event_priority = priority;
    config_.edge.path = path;
    background_ = Submit(Work(20, 12));
    event_ = Event(Work(60), 1500);
    EXPECT_TRUE(gpu().Run());
    EXPECT_EQ(Word(), 32u * 13);
  }
  GridId background_ = 0;
  GridId event_ = 0;
};

TEST_F(PriorityTest, WithoutOneTheTbSchedulerTakesWhatCameFirst) {
  Go(EventPriority::kNone, EventPath::kTbScheduler);
  EXPECT_GT(Result(event_).dispatched, Starts(background_).back().cycle);
}

TEST_F(PriorityTest, P1LetsNobodyBeginBeforeTheEvent) {
  config_.sm.count = 2;
  Go(EventPriority::kP1, EventPath::kTbScheduler);
  EXPECT_EQ(StartsIn(background_, 1500, Result(event_).dispatched), 0u);
  EXPECT_LT(Result(event_).dispatched, 2800u);
  // The other SM goes on when the event has begun.
  EXPECT_GT(StartsIn(background_, Result(event_).dispatched,
                     Result(event_).completed),
            0u);
}

TEST_F(PriorityTest, P1KeepsTheRoomThatALargerBlockWaitsFor) {
  config_.sm.warps = 2;
  const auto dispatched = [&](EventPriority priority) {
    Again();
    config_.edge.event_priority = priority;
    background_ = Submit(Work(20, 13));
    event_ = Event(Work(1, 1, 64), 1500);
    EXPECT_TRUE(gpu().Run());
    EXPECT_EQ(Result(event_).place, EventPlace::kTbScheduler);
    return Result(event_).dispatched;
  };
  EXPECT_LT(dispatched(EventPriority::kP1), 2800u);
  EXPECT_GT(dispatched(EventPriority::kNone), Starts(background_).back().cycle);
}

TEST_F(PriorityTest, P2LetsNobodyBeginBeforeTheEventHasEnded) {
  config_.sm.count = 2;
  for (const EventPath path : {EventPath::kTbScheduler, EventPath::kWarp}) {
    Go(EventPriority::kP2, path);
    EXPECT_EQ(StartsIn(background_, 1500, Result(event_).completed), 0u);
    EXPECT_GT(Starts(background_).back().cycle, Result(event_).completed);
  }
}

TEST_F(PriorityTest, P3LetsNobodyIssueBesideTheEvent) {
  config_.sm.warps = 2;
  const auto slowed = [&](EventPriority priority, EventPath path) {
    Again();
    config_.edge.event_priority = priority;
    config_.edge.path = path;
    const GridId background = Submit(Work(50));
    EXPECT_TRUE(gpu().Run());
    const Cycle alone = Result(background).completed;
    Again();
    const GridId disturbed = Submit(Work(50));
    event_ = Event(Work(20), 1000);
    EXPECT_TRUE(gpu().Run());
    return static_cast<int64_t>(Result(disturbed).completed) -
           static_cast<int64_t>(alone);
  };
  for (const EventPath path : {EventPath::kTbScheduler, EventPath::kWarp}) {
    EXPECT_LT(slowed(EventPriority::kP2, path), 100);
    const int64_t by = slowed(EventPriority::kP3, path);
    const auto took = static_cast<int64_t>(Result(event_).completed -
                                           Result(event_).dispatched);
    EXPECT_GT(took, 900);
    // The event's last operation waits for memory, which stops nobody else.
    EXPECT_LT(by, took);
    EXPECT_GT(by, took - 150);
  }
}

TEST_F(PriorityTest, P3EndsWithAnEventThatIsCancelled) {
  config_.sm.warps = 2;
  config_.edge.event_priority = EventPriority::kP3;
  for (const EventPath path : {EventPath::kTbScheduler, EventPath::kWarp}) {
    Again();
    config_.edge.path = path;
    const GridId alone = Submit(Work(50));
    EXPECT_TRUE(gpu().Run());
    const Cycle took = Result(alone).completed;
    Again();
    const GridId background = Submit(Work(50));
    event_ = Event(runner_.MakeLaunch("sleeps", {}, {32, 1, 1}, {}), 1000);
    EXPECT_FALSE(gpu().Run(5000));
    EXPECT_TRUE(gpu().Cancel(event_).ok());
    EXPECT_TRUE(gpu().Run(20'000));
    EXPECT_LT(Result(background).completed, 5000 + (took - 1000) + 60);
    EXPECT_EQ(Word(), 32u);
  }
}

TEST_F(PriorityTest, P1FetchesForEventsFirst) {
  config_.sm.warps = 8;
  config_.sm.blocks = 16;
  // Only one operation is fetched per cycle, which limits all of them.
  config_.fetch.width = 1;
  config_.fetch.buffer = 1;
  const auto took = [&](EventPriority priority) {
    Again();
    config_.edge.event_priority = priority;
    Submit(runner_.MakeLaunch("moves", {7, 1, 1}, {32, 1, 1}, {}, {200}));
    event_ = Event(runner_.MakeLaunch("moves", {}, {32, 1, 1}, {}, {20}), 1000);
    EXPECT_TRUE(gpu().Run());
    return Result(event_).completed - Result(event_).dispatched;
  };
  const Cycle first = took(EventPriority::kP1);
  EXPECT_LT(first * 3 / 2, took(EventPriority::kNone));
}

TEST_F(PriorityTest, P1KeepsTheRoomThatAnEventWaitsFor) {
  config_.sm.warps = 8;
  config_.sm.blocks = 16;
  config_.sm.registers = 9 * 256;
  // 60 registers need the room of eight blocks, and no victim has so many.
  const auto dispatched = [&](EventPriority priority) {
    Again();
    config_.edge.event_priority = priority;
    background_ = Submit(Work(20, 60));
    const auto event = gpu().Submit(
        Work(1), {.not_before = 1500, .registers = 60, .event = true});
    EXPECT_TRUE(gpu().Run());
    EXPECT_EQ(Result(*event).place, EventPlace::kFree);
    return Result(*event).dispatched;
  };
  EXPECT_LT(dispatched(EventPriority::kP1), 3800u);
  EXPECT_GT(dispatched(EventPriority::kNone), Starts(background_).back().cycle);
}

// --- Reservations.

TEST_F(EventsTest, AReservedSmIsForEventsOnlyAndTheyForIt) {
  config_.sm.count = 3;
  config_.edge.reserve_sms = 1;
  for (const EventPath path : {EventPath::kTbScheduler, EventPath::kWarp}) {
    Again();
    config_.edge.path = path;
    const GridId background = Submit(Work(20, 12));
    std::vector<GridId> events;
    for (int i = 0; i < 3; ++i) {
      events.push_back(Event(Work(20), 500 + static_cast<Cycle>(i)));
    }
    EXPECT_TRUE(gpu().Run());
    for (const Observation& start : Starts(background)) {
      EXPECT_LT(start.sm, 2u);
    }
    for (const GridId event : events) EXPECT_EQ(Result(event).sm, 2u);
    EXPECT_EQ(Result(events[0]).dispatched, 500u);
    EXPECT_GE(Result(events[2]).dispatched, Result(events[1]).completed);
    EXPECT_EQ(Counters().preemptions, 0u);
    EXPECT_EQ(Word(), 32u * 15);
    if (path == EventPath::kWarp) {
      EXPECT_EQ(Result(events[0]).place, EventPlace::kReserved);
    }
  }
}

TEST_F(EventsTest, ReservedBlocksAreForEventsOnly) {
  config_.sm.warps = 4;
  config_.edge.reserve_blocks = 1;
  config_.edge.reserve_registers = 16;
  for (const EventPath path : {EventPath::kTbScheduler, EventPath::kWarp}) {
    Again();
    config_.edge.path = path;
    const GridId background = Submit(Work(20, 12));
    const GridId event = Event(Work(20), 500);
    EXPECT_TRUE(gpu().Run());
    EXPECT_EQ(Result(event).dispatched, 500u);
    // Three run at once: the fourth begins when one has ended.
    EXPECT_GT(Starts(background)[3].cycle, 900u);
    if (path == EventPath::kWarp) {
      EXPECT_EQ(Result(event).place, EventPlace::kReserved);
    }
  }
  // A request that can never be met is refused with a reason.
  const auto refused = gpu().Submit(Work(1, 1, 128), {});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("where some are kept for events"));
}

TEST_F(EventsTest, AReservationIsAsLargeAsTheLargestRegisteredEvent) {
  config_.sm.warps = 4;
  config_.sm.registers = 1024;
  config_.edge.victim = VictimPolicy::kReserved;
  const auto event = gpu().RegisterEvent({.launch = Work(20), .registers = 16});
  ASSERT_TRUE(event.ok());
  const GridId background = Submit(Work(20, 12));
  const GridId grid = *gpu().RingDoorbell(*event, 500);
  EXPECT_TRUE(gpu().Run());
  EXPECT_EQ(Result(grid).dispatched, 500u);
  EXPECT_EQ(Result(grid).place, EventPlace::kReserved);
  // 512 registers are the event's: two at once.
  EXPECT_GT(Starts(background)[2].cycle, 900u);
}

TEST_F(EventsTest, TheDynamicReservationFollowsTheEvents) {
  config_.sm.count = 4;
  config_.edge.reservation = Reservation::kDynamic;
  config_.edge.reserve_sms = 2;
  config_.edge.reserve_window = 1000;
  config_.edge.reserve_load = 1;
  config_.edge.reserve_hold = 2;
  const GridId background = Submit(Work(20, 120));
  // Nearly two events are under way at any time from 5,000 to 15,000.
  std::vector<GridId> events;
  for (Cycle at = 5000; at < 15000; at += 500) {
    events.push_back(Event(Work(14), at));
  }
  EXPECT_TRUE(gpu().Run());
  const auto starts = [&](uint32_t sm, Cycle from, Cycle to) {
    size_t count = 0;
    for (const Observation& start : Starts(background)) {
      count += start.sm == sm && start.cycle >= from && start.cycle < to;
    }
    return count;
  };
  EXPECT_GT(starts(3, 0, 5000), 3u);
  EXPECT_EQ(starts(3, 7000, 15000), 0u);
  EXPECT_EQ(starts(2, 8000, 15000), 0u);
  EXPECT_GT(starts(1, 8000, 15000), 4u);
  EXPECT_GT(starts(2, 20000, 25000), 3u);
  EXPECT_GT(starts(3, 21000, 26000), 3u);
  // Once the SMs have drained, no warp need be preempted.
  for (size_t i = 8; i < events.size(); ++i) {
    EXPECT_EQ(Result(events[i]).place, EventPlace::kReserved) << i;
    EXPECT_GE(Result(events[i]).sm, 2u);
  }
  EXPECT_EQ(Result(events[0]).place, EventPlace::kPreempted);
}

TEST_F(EventsTest, EventsGoToReservedSMsFirst) {
  config_.sm.count = 2;
  config_.sm.warps = 4;
  config_.edge.reservation = Reservation::kDynamic;
  config_.edge.reserve_sms = 1;
  config_.edge.reserve_window = 1000;
  config_.edge.reserve_load = 1;
  std::vector<GridId> events;
  for (Cycle at = 0; at < 8000; at += 500)
    events.push_back(Event(Work(14), at));
  EXPECT_TRUE(gpu().Run());
  // In turn, until one is reserved.
  EXPECT_EQ(Result(events[0]).sm, 0u);
  EXPECT_EQ(Result(events[1]).sm, 1u);
  for (size_t i = 4; i < events.size(); ++i) {
    EXPECT_EQ(Result(events[i]).sm, 1u);
  }
}

}  // namespace
}  // namespace carillon::sim::timing
