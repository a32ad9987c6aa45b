#include "shm/simulated_time.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "shm/testing/ring_fixture.h"
#include "shm/wakeups.h"

namespace carillon::shm {
namespace {

using std::chrono::seconds;

class SimulatedTimeTest : public ::testing::TestWithParam<bool> {
 protected:
  SimulatedTimeTest()
      : rings_(*RingFixture::Make({.one_mapping = GetParam()})),
        giver_(&rings_->gpud_submission(), &rings_->gpud_completion()),
        taker_(&rings_->device_submission(), &rings_->device_completion()) {}

  std::unique_ptr<RingFixture> rings_;
  TurnGiver giver_;
  TurnTaker taker_;
};

INSTANTIATE_TEST_SUITE_P(Mappings, SimulatedTimeTest,
                         ::testing::Values(false, true), [](const auto& info) {
                           return info.param ? "One" : "Two";
                         });

TEST_P(SimulatedTimeTest, ThereIsNoTurnInWallTime) {
  EXPECT_FALSE(taker_.Take());
}

TEST_P(SimulatedTimeTest, ATurnIsTakenOnceAndAnsweredOnce) {
  giver_.Give(700);
  EXPECT_FALSE(giver_.Answer());
  EXPECT_TRUE(taker_.Take());
  EXPECT_EQ(taker_.now(), 700u);
  EXPECT_FALSE(taker_.Take());
  EXPECT_FALSE(giver_.Answer());
  taker_.Answer(900);
  EXPECT_EQ(giver_.Answer(), 900u);
  giver_.Give(800);
  EXPECT_FALSE(giver_.Answer()) << "the answer was to the turn before";
  EXPECT_TRUE(taker_.Take());
  EXPECT_EQ(taker_.now(), 800u);
}

// Two threads that both sleep whenever they wait; the doorbell of each turn must
// be there with its answer.
TEST_P(SimulatedTimeTest, TurnsCarryWhatWasDoneBeforeThem) {
  constexpr uint64_t kTurns = 20'000;
  DeviceRing ring = rings_->device_ring(0);
  const GpuRing gpu = rings_->gpu_ring(0);
  const uint32_t before = gpu.LoadDoorbell();
  ClosedWord closed;
  std::thread device([&] {
    CompletionWaiter waiter(&rings_->device_submission(),
                            &rings_->device_completion(), &closed);
    for (uint64_t turn = 1; turn <= kTurns; ++turn) {
      ASSERT_TRUE(waiter.WaitUntil([&] { return taker_.Take(); }, seconds(60),
                                   seconds(0)));
      ASSERT_EQ(taker_.now(), turn * 10);
      if (ring.Poll()) ring.Consume();
      ring.Commit(nullptr, taker_.now());
      ring.RingDoorbell();
      taker_.Answer(turn * 10 + 5);
    }
  });
  const CompletionBell bell(&rings_->gpud_submission(),
                            &rings_->gpud_completion(), -1);
  DoorbellWaiter doorbells;
  doorbells.Watch(rings_->gpud_submission(), rings_->gpud_completion());
  const std::atomic<uint32_t> nothing{0};
  for (uint64_t turn = 1; turn <= kTurns; ++turn) {
    giver_.Give(turn * 10);
    bell.Signal();
    std::optional<Nanoseconds> next;
    while (!(next = giver_.Answer())) {
      doorbells.SleepUnless([&] { return giver_.Answer().has_value(); },
                            {reinterpret_cast<const uint32_t*>(&nothing), 0},
                            seconds(60));
    }
    ASSERT_EQ(*next, turn * 10 + 5);
    ASSERT_EQ(gpu.LoadDoorbell(), before + turn);
    gpu.Complete(Sequence(turn), EventState::kDone, 0);
  }
  device.join();
}

}  // namespace
}  // namespace carillon::shm
