// The dispatcher of launch path `edge` on a GPU that is played by threads.
#include "gpu_daemon/backends/cuda/edge/edge_dispatch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/edge/edge_testbed.h"

namespace carillon::gpud::edge_test {
namespace {

class EdgeDispatchTest : public testing::TestWithParam<Config> {};

TEST_P(EdgeDispatchTest, EveryRingEndsOnceWithTheRightOutput) {
  Testbed testbed(GetParam());
  testbed.Start();
  Devices(testbed).Join();
  testbed.Stop();
  testbed.CheckLedger();
  // What the configuration is for has happened.
  const EdgeFigures& figures = testbed.report().figures;
  const bool launches = GetParam().name != "AllInline";
  EXPECT_EQ(figures.launched, testbed.gpu().launches());
  EXPECT_EQ(figures.launched != 0, launches);
  EXPECT_EQ(figures.relays != 0, launches);
  if (GetParam().name == "ExecsStayBusy") {
    EXPECT_GT(figures.busy, 0u);
  }
  if (GetParam().real_budget < GetParam().budget ||
      GetParam().error_percent != 0) {
    EXPECT_GT(figures.launch_errors, 0u);
    EXPECT_EQ(figures.last_error, kLaunchError);
  } else {
    EXPECT_EQ(figures.launch_errors, 0u);
  }
}

TEST_P(EdgeDispatchTest, StoppedAndStartedAgainNothingIsLostOrRunTwice) {
  Testbed testbed(GetParam());
  Devices devices(testbed);
  std::mt19937_64 random(GetParam().seed);
  int starts = 0;
  for (; starts < 2 || devices.running(); ++starts) {
    testbed.Start();
    for (uint64_t i = random() % 200; i > 0; --i) sched_yield();
    if (random() % 3 == 0) {
      // At once, without waiting for the acknowledgement.
      testbed.Command(EdgeCommand::kLeave);
      testbed.gpu().Synchronize();
    } else {
      testbed.Stop();
    }
  }
  devices.Join();
  testbed.CheckLedger();
}

std::vector<Config> Configs() {
  return {
      {.name = "OneLaunchAtATime", .budget = 1, .real_budget = 1},
      {.name = "OneDispatcherAlone",
       .dispatchers = 1,
       .event_warps = 3,
       .budget = 8,
       .real_budget = 8,
       .rings = {1, 4}},
      {.name = "EightLaunchesThreeDispatchers",
       .dispatchers = 3,
       .pollers = 2,
       .rings = {2, 16},
       .first_doorbell = 0xffffffe0},
      {.name = "AllLaunches",
       .event_warps = 4,
       .budget = 110,
       .real_budget = 120,
       .rings = {64, 1, 8},
       .events = 400},
      {.name = "FewGraphsForLongRings",
       .event_warps = 3,
       .rings = {16, 2, 8},
       .launch_slots = 4,
       .events = 150},
      {.name = "FewGraphsThatWarpsShareOut",
       .event_warps = 2,
       .rings = {32},
       .launch_slots = 4,
       .longest_retiring = 100,
       .events = 80},
      {.name = "FewerLaunchesThanTold", .budget = 110, .real_budget = 5},
      {.name = "LaunchesFail",
       .budget = 8,
       .real_budget = 8,
       .rings = {4, 4},
       .error_percent = 20},
      {.name = "ExecsStayBusy",
       .event_warps = 3,
       .budget = 110,
       .real_budget = 120,
       .rings = {1, 2},
       .longest_retiring = 400,
       .events = 100},
      {.name = "SeveralDevicesSomeInline",
       .dispatchers = 2,
       .pollers = 2,
       .event_warps = 2,
       .budget = 8,
       .real_budget = 8,
       .inlined = {true, false, false},
       .devices = 3,
       .rings = {8, 2},
       .first_doorbell = 0xfffffff0,
       .events = 300},
      {.name = "AllInline", .inlined = {true}, .rings = {1, 32}},
  };
}

// --- One thing at a time.

TEST(EdgeDispatchOneTest, SomebodyIsUpWhateverKernelsDo) {
  Testbed testbed({.name = "",
                   .dispatchers = 2,
                   .budget = 1,
                   .real_budget = 1,
                   .inlined = {false, false, true},
                   .rings = {4, 4, 4},
                   .events = 200});
  testbed.Start();
  Ring& stuck = *testbed.rings()[0];
  Ring& launched = *testbed.rings()[1];
  Ring& inlined = *testbed.rings()[2];
  const auto ring_stuck = [&](uint64_t n) {
    testbed.Commit(stuck, Parameters(n, kStuck));
    stuck.event.ring->RingDoorbell();
    ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == n; }));
  };
  // One dispatcher waits for an event that does not end: the other one relays
  // with itself.
  ring_stuck(1);
  for (uint64_t n = 1; n <= 50; ++n) {
    ASSERT_EQ(RingAndWait(testbed, launched, Parameters(n, 1)).state,
              EventState::kDone);
  }
  // So does the other one's: it stays up, without launches, for the rest.
  ring_stuck(2);
  testbed.Commit(launched, Parameters(51, 1));
  launched.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] {
    int inline_only = 0;
    for (auto& dispatcher : testbed.report().dispatchers) {
      inline_only += Testbed::Load(dispatcher.state) ==
                     static_cast<uint32_t>(EdgeState::kInlineOnly);
    }
    return inline_only == 1;
  }));
  for (uint64_t n = 1; n <= 50; ++n) {
    ASSERT_EQ(RingAndWait(testbed, inlined, Parameters(n, 1)).state,
              EventState::kDone);
  }
  testbed.Command(EdgeCommand::kHalt);
  ASSERT_TRUE(Testbed::Until([&] { return testbed.Halted(); }));
  testbed.Trap();
  EXPECT_TRUE(Testbed::Until([&] { return !testbed.gpu().alive(); }));
}

TEST(EdgeDispatchOneTest, AnInlineKernelThatDoesNotEndIsSeenAndStopped) {
  Testbed testbed({.name = "", .dispatchers = 1, .inlined = {true}});
  testbed.Start();
  Ring& ring = *testbed.rings()[0];
  testbed.Commit(ring, Parameters(1, kStuck));
  ring.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == 1; }));
  // The other event warp goes on.
  testbed.Commit(ring, Parameters(2, 1));
  ring.event.ring->RingDoorbell();
  EXPECT_TRUE(Testbed::Until(
      [&] { return ring.event.kernel->ring().LoadCompletedSequence(2) == 2; }));
  const uint64_t beat =
      Testbed::Load(testbed.report().dispatchers[0].heartbeat);
  EXPECT_TRUE(Testbed::Until([&] {
    return Testbed::Load(testbed.report().dispatchers[0].heartbeat) > beat + 2;
  }));
  testbed.Command(EdgeCommand::kHalt);
  testbed.Trap();
  EXPECT_TRUE(Testbed::Until([&] { return !testbed.gpu().alive(); }));
  EXPECT_FALSE(testbed.Halted());
}

// Or the next dispatcher would run the same event again.
TEST(EdgeDispatchOneTest, TheTokenWaitsForAnInlineKernel) {
  Testbed testbed({.name = "",
                   .dispatchers = 2,
                   .event_warps = 2,
                   .budget = 1,
                   .real_budget = 1,
                   .inlined = {true, false},
                   .rings = {4, 4}});
  testbed.Start();
  Ring& inlined = *testbed.rings()[0];
  Ring& launched = *testbed.rings()[1];
  const auto in_state = [&](EdgeState state) {
    uint32_t count = 0;
    for (auto& dispatcher : testbed.report().dispatchers) {
      count += Testbed::Load(dispatcher.state) == static_cast<uint32_t>(state);
    }
    return count;
  };
  // One dispatcher waits for its event; so would the other one, and has no
  // launch left. The third may be launched before the second, by another warp;
  // then the fourth waits.
  for (const uint64_t n : {1, 2, 3, 4}) {
    testbed.Commit(launched, Parameters(n, n < 3 ? kStuck : 1));
  }
  launched.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] {
    return testbed.gpu().stuck() == 2 && in_state(EdgeState::kInlineOnly) == 1;
  }));
  const uint64_t launches = testbed.gpu().launches();
  testbed.Commit(inlined, Parameters(1, kStuckToo));
  inlined.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck(true) == 1; }));
  // The first one comes back and waits; the other one would hand over.
  testbed.gpu().LetStuckEnd();
  ASSERT_TRUE(
      Testbed::Until([&] { return in_state(EdgeState::kStandby) == 1; }));
  const auto beats = [&] {
    return Testbed::Load(testbed.report().dispatchers[0].heartbeat) +
           Testbed::Load(testbed.report().dispatchers[1].heartbeat);
  };
  const uint64_t before = beats();
  ASSERT_TRUE(Testbed::Until([&] { return beats() > before + 100; }));
  EXPECT_EQ(testbed.gpu().stuck(true), 1u);
  EXPECT_EQ(testbed.gpu().launches(), launches);
  testbed.gpu().LetStuckEnd(true);
  EXPECT_EQ(Poll(inlined).state, EventState::kDone);
  for (const uint64_t n : {1, 2, 3, 4}) {
    EXPECT_EQ(Poll(launched).sequence, Sequence(n));
  }
  EXPECT_EQ(testbed.gpu().runs[0][1], 1);
}

TEST(EdgeDispatchOneTest, ADeviceThatRingsTooOftenStopsItsOwnEntryOnly) {
  for (const bool inlined : {false, true}) {
    Testbed testbed({.name = "",
                     .dispatchers = 1,
                     .inlined = {inlined, false},
                     .rings = {2, 2}});
    testbed.Start();
    Ring& hostile = *testbed.rings()[0];
    Ring& honest = *testbed.rings()[1];
    uint32_t* doorbell = &hostile.device->memory->submission()
                              .doorbells()[hostile.layout().doorbell.value()];
    // More than the ring has slots, and all of them at once.
    std::atomic_ref<uint32_t>(*doorbell).store(1 << 30);
    ASSERT_TRUE(Testbed::Until([&] {
      return Testbed::Load(testbed.report().violations[hostile.index]) == 1;
    }));
    EXPECT_EQ(RingAndWait(testbed, honest, Parameters(1, 1)).state,
              EventState::kDone);
    testbed.Stop();
    EXPECT_EQ(testbed.report().violations[honest.index], 0u);
    // Both event warps saw it at their own event, at once.
    EXPECT_EQ(testbed.table().totals[hostile.index].refused, 0u);
  }
}

TEST(EdgeDispatchOneTest, AFrameInUseIsNeverWrittenAgain) {
  Testbed testbed({.name = "", .dispatchers = 1, .budget = 8, .rings = {2, 2}});
  testbed.Start();
  Ring& hostile = *testbed.rings()[0];
  Ring& honest = *testbed.rings()[1];
  for (const uint64_t n : {1, 2}) {
    testbed.Commit(hostile, Parameters(n, kStuck));
  }
  hostile.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] { return testbed.gpu().stuck() == 2; }));
  // One more, whose entry is flawless, into the first one's slot.
  uint32_t* doorbell = &hostile.device->memory->submission()
                            .doorbells()[hostile.layout().doorbell.value()];
  auto* header = reinterpret_cast<shm::EsqEntryHeader*>(
      hostile.device->memory->submission().At(
          hostile.layout().esq_offset +
          hostile.layout().SlotOf(Sequence(3)) * hostile.layout().entry_bytes));
  header->sequence = 3;
  std::atomic_ref<uint32_t>(*doorbell).store(3);
  ASSERT_TRUE(Testbed::Until([&] {
    return Testbed::Load(testbed.report().violations[hostile.index]) == 1;
  }));
  EXPECT_EQ(RingAndWait(testbed, honest, Parameters(1, 1)).state,
            EventState::kDone);
  EXPECT_EQ(testbed.gpu().launches(), 3u);
  testbed.gpu().LetStuckEnd();
  EXPECT_EQ(Poll(hostile).state, EventState::kDone);
}

TEST(EdgeDispatchOneTest, AnEventWaitsForItsLaunchSlotAndNobodyElseDoes) {
  Testbed testbed({.name = "",
                   .dispatchers = 1,
                   .budget = 8,
                   .rings = {4, 2},
                   .launch_slots = 2});
  testbed.Start();
  Ring& slow = *testbed.rings()[0];
  Ring& other = *testbed.rings()[1];
  for (const uint64_t n : {1, 2, 3}) {
    testbed.Commit(slow, Parameters(n, n == 1 ? kStuck : 1));
  }
  slow.event.ring->RingDoorbell();
  ASSERT_TRUE(Testbed::Until([&] {
    return testbed.gpu().stuck() == 1 &&
           slow.event.kernel->ring().LoadCompletedSequence(
               slow.layout().SlotOf(Sequence(2))) == 2;
  }));
  for (const uint64_t n : {1, 2, 3}) {
    EXPECT_EQ(RingAndWait(testbed, other, Parameters(n, 1)).state,
              EventState::kDone);
  }
  EXPECT_EQ(testbed.gpu().launches(), 5u) << "the third is not among them";
  testbed.gpu().LetStuckEnd();
  for (const uint64_t n : {1, 2, 3}) {
    const shm::Completion completion = Poll(slow);
    EXPECT_EQ(completion.sequence, Sequence(n));
    EXPECT_EQ(completion.state, EventState::kDone);
  }
  testbed.Stop();
  EXPECT_EQ(testbed.report().violations[slow.index], 0u);
}

TEST(EdgeDispatchOneTest, BadHeadersAreRefusedAsOnACpu) {
  for (const bool inlined : {false, true}) {
    Testbed testbed(
        {.name = "", .dispatchers = 1, .inlined = {inlined}, .rings = {4}});
    testbed.Start();
    Ring& ring = *testbed.rings()[0];
    uint64_t n = 0;
    const auto refused = [&](auto spoil) {
      ++n;
      testbed.Commit(ring, Parameters(n, 1));
      spoil(*reinterpret_cast<shm::EsqEntryHeader*>(
          ring.device->memory->submission().At(
              ring.layout().esq_offset +
              ring.layout().SlotOf(Sequence(n)) * ring.layout().entry_bytes)));
      ring.event.ring->RingDoorbell();
      const shm::Completion completion = Poll(ring);
      EXPECT_EQ(completion.sequence, Sequence(n));
      EXPECT_EQ(completion.state, EventState::kFailed);
      return static_cast<EventStatus>(completion.status);
    };
    EXPECT_EQ(refused([](auto& header) { ++header.generation; }),
              EventStatus::kStaleGeneration);
    EXPECT_EQ(refused([](auto& header) { ++header.sequence; }),
              EventStatus::kBadSequence);
    EXPECT_EQ(refused([](auto& header) { header.flags = 2; }),
              EventStatus::kBadFlags);
    EXPECT_EQ(
        refused([](auto& header) { header.flags = shm::kEsqKmdOverride; }),
        EventStatus::kBadFlags);
    EXPECT_EQ(RingAndWait(testbed, ring, Parameters(5, 1)).state,
              EventState::kDone);
    testbed.Stop();
    EXPECT_EQ(testbed.table().totals[0].refused, 4u);
    EXPECT_EQ(testbed.gpu().launches(), inlined ? 0u : 1u);
  }
}

// After a fault: the host ends what was rung by other means and lets the GPU go
// on after it.
TEST(EdgeDispatchOneTest, GoesOnAtALaterSequence) {
  Testbed testbed({.name = "",
                   .event_warps = 3,
                   .rings = {4},
                   .first_doorbell = 0xfffffffd});
  Ring& ring = *testbed.rings()[0];
  for (uint64_t first = 1; first < 40; first += 5) {
    testbed.SetFirst(ring, first,
                     ring.rings_before + static_cast<uint32_t>(first - 1));
    testbed.Start();
    for (uint64_t n = first; n < first + 3; ++n) {
      ASSERT_EQ(RingAndWait(testbed, ring, Parameters(n, 1)).sequence,
                Sequence(n));
    }
    testbed.Stop();
    for (uint64_t n = first + 3; n < first + 5; ++n) {
      testbed.Commit(ring, Parameters(n, 1));
      ring.event.ring->RingDoorbell();
      ring.event.kernel->ring().Complete(Sequence(n), EventState::kDone, 0);
      ASSERT_EQ(Poll(ring).sequence, Sequence(n));
      EXPECT_EQ(testbed.gpu().runs[0][n], 0);
    }
  }
}

TEST(EdgeDispatchOneTest, ADispatcherThatCannotRelaunchLeavesTheTokenToOthers) {
  Testbed testbed(
      {.name = "", .dispatchers = 2, .budget = 1, .real_budget = 1});
  testbed.gpu().FailRelaunches(1);
  testbed.Start();
  Ring& ring = *testbed.rings()[0];
  for (uint64_t n = 1; n <= 20; ++n) {
    ASSERT_EQ(RingAndWait(testbed, ring, Parameters(n, 1)).state,
              EventState::kDone);
  }
  testbed.Stop();
  EXPECT_EQ(testbed.report().figures.last_error, kRelaunchError);
  int lost = 0;
  for (const auto& dispatcher : testbed.report().dispatchers) {
    lost += dispatcher.state == static_cast<uint32_t>(EdgeState::kLost);
  }
  EXPECT_EQ(lost, 1);
}

TEST(EdgeDispatchOneTest, LivesAreStampedWhileTracingAndClearedAfterwards) {
  for (const bool inlined : {false, true}) {
    Testbed testbed({.name = "", .inlined = {inlined}, .rings = {1}});
    testbed.Trace(EdgeTracing::kOn);
    testbed.Start();
    Ring& ring = *testbed.rings()[0];
    const auto life_of = [&](uint64_t n) {
      testbed.Commit(ring, Parameters(n, 1));
      ring.event.ring->RingDoorbell();
      EXPECT_TRUE(
          Testbed::Until([&] { return ring.event.ring->Poll().has_value(); }));
      const shm::EventLife life = ring.event.ring->life();
      ring.event.ring->Consume();
      return life;
    };
    const Nanoseconds before = NowNs();
    const shm::EventLife life = life_of(1);
    EXPECT_GE(life.seen_ns, before);
    EXPECT_GE(life.queued_ns, life.seen_ns);
    EXPECT_GE(life.dispatched_ns, life.queued_ns);
    EXPECT_GE(life.finished_ns, life.dispatched_ns);
    EXPECT_LE(life.finished_ns, NowNs());
    testbed.Trace(EdgeTracing::kClear);
    uint64_t n = 1;
    EXPECT_TRUE(Testbed::Until([&] { return life_of(++n).seen_ns == 0; }) ||
                n > 300);
    EXPECT_EQ(life_of(++n).finished_ns, 0u);
  }
}

TEST(EdgeHeadTest, WarpsShareTheSequencesFromAnyFirstOneOn) {
  for (uint32_t warps = 1; warps <= kEdgeMaxEventWarps; ++warps) {
    for (uint64_t first = 1; first < 40; ++first) {
      for (uint32_t warp = 0; warp < warps; ++warp) {
        const EdgeHead head = FirstHead(first, 0xfffffffe, warp, warps, 0);
        EXPECT_EQ(head.next % warps, warp);
        EXPECT_GE(head.next, first);
        EXPECT_LT(head.next, first + warps);
        // Event `first` is rung when the doorbell shows 0xffffffff.
        EXPECT_EQ(head.ring,
                  static_cast<uint32_t>(0xffffffffu + head.next - first));
      }
      for (const uint32_t entries : {1u, 4u, 16u}) {
        for (uint64_t n = first; n < first + entries; ++n) {
          EXPECT_EQ(FirstSlotEnded(first, n % entries, entries), n - entries);
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, EdgeDispatchTest, testing::ValuesIn(Configs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carillon::gpud::edge_test
