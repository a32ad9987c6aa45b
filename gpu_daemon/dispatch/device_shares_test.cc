// Which device is served when: by a clock that only kernels advance.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/front_end_budget.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

constexpr Ticks kRound = FrontEndBudget::kRound;
constexpr uint32_t kEntries = 64;

// Of the one thread of these tests.
Ticks now = 0;
// The tags of the kernels that have run.
std::vector<uint64_t> ran;

// A null_event whose token says how many ticks it takes, and its tag.
struct Token {
  uint32_t ticks;
  uint32_t tag;
};
simt::KernelInfo TickingKernel() {
  simt::KernelInfo kernel = *simt::FindKernel("null_event");
  kernel.run_block = [](const simt::BlockLaunch&, const void* args) {
    const Token token = *static_cast<const Token*>(args);
    now += token.ticks;
    ran.push_back(token.tag);
  };
  return kernel;
}

// Whatever this machine does meanwhile, events run in the thread that polls:
// there is no other.
class InlineLauncher final : public EdgeLauncher {
 public:
  using EdgeLauncher::EdgeLauncher;
  void TookLong(EventKernel&, Nanoseconds) override {}
};

class DeviceSharesTest : public testing::Test {
 protected:
  struct Ring {
    TestDevice* device;
    TestDevice::Event event;
    uint64_t ended = 0;
  };

  DeviceSharesTest() {
    now = 1;
    ran.clear();
    Restart("first_come");
  }
  void Restart(std::string_view policy) {
    kmu_.emplace(GpuModel{}, *MakePolicy(policy));
    launcher_.emplace(&*kmu_, &runner_);
    poller_.emplace(DoorbellPoller::Options{.ticks = [] { return now; }},
                    &*launcher_);
  }
  TestDevice& Device(std::string name) {
    return *devices_.emplace_back(
        std::make_unique<TestDevice>(std::move(name)));
  }
  // With as many rings as nearly all of the table has.
  void AddMany(uint32_t ticks, uint32_t tag) {
    TestDevice& device = *devices_.emplace_back(
        std::make_unique<TestDevice>("many", uint64_t{32} << 20));
    for (uint32_t i = 0; i < kMany; ++i) Add(device, ticks, tag);
  }
  Ring& Add(TestDevice& device, uint32_t ticks, uint32_t tag,
            uint32_t priority = 0) {
    const Token token{ticks, tag};
    auto event = device.Register(
        {.kernel = &kernel_,
         .bindings = {{.constant_bits = std::bit_cast<uint64_t>(token)}},
         .entries = kEntries,
         .priority = priority});
    EXPECT_TRUE(poller_->Add(event.kernel).ok());
    return rings_.emplace_back(Ring{&device, std::move(event)});
  }
  // Rings as often as there is room.
  static void Fill(Ring& ring) {
    while (ring.event.ring->Poll()) {
      ring.event.ring->Consume();
      ++ring.ended;
    }
    while (ring.event.ring->free_slots() > 0) ring.event.ring->Commit();
    ring.event.ring->RingDoorbell();
  }
  static void RingOnce(Ring& ring) {
    ring.event.ring->Commit();
    ring.event.ring->RingDoorbell();
  }
  static bool TakeEnd(Ring& ring) {
    if (!ring.event.ring->Poll()) return false;
    ring.event.ring->Consume();
    return true;
  }
  static uint64_t RunsOf(uint64_t tag) {
    return static_cast<uint64_t>(std::count(ran.begin(), ran.end(), tag));
  }

  static constexpr uint32_t kMany = 900;

  const simt::KernelInfo kernel_ = TickingKernel();
  CpuBlockRunner runner_;
  std::optional<Kmu> kmu_;
  std::optional<InlineLauncher> launcher_;
  std::vector<std::unique_ptr<TestDevice>> devices_;
  std::deque<Ring> rings_;
  std::optional<DoorbellPoller> poller_;
};

TEST_F(DeviceSharesTest, ADeviceThatRingsWithoutEndKeepsOthersForOneRound) {
  constexpr uint32_t kLong = 30'000;
  TestDevice& greedy = Device("greedy");
  for (uint32_t i = 0; i < 100; ++i) Add(greedy, kLong, 1);
  Ring& honest = Add(Device("honest"), 100, 2);
  for (int turn = 0; turn < 100; ++turn) {
    for (Ring& ring : rings_) {
      if (&ring != &honest) Fill(ring);
    }
    // Wherever the greedy one is in its round.
    for (int i = 0; i < turn % 7; ++i) ASSERT_TRUE(poller_->PollOnce());
    RingOnce(honest);
    const Ticks rung = now;
    while (!TakeEnd(honest)) ASSERT_TRUE(poller_->PollOnce());
    // Its end is seen after the look that has served it.
    ASSERT_LE(now - rung, 2 * (kRound + kLong)) << turn;
  }
}

TEST_F(DeviceSharesTest, DevicesThatRingWithoutEndGetTheSameTime) {
  constexpr uint32_t kTicks[] = {300, 4'000, 90'000};
  for (uint32_t i = 0; i < 3; ++i) {
    TestDevice& device = Device("device" + std::to_string(i));
    for (uint32_t k = 0; k < 1 + 5 * i; ++k) Add(device, kTicks[i], i);
  }
  for (int i = 0; i < 3000; ++i) {
    for (Ring& ring : rings_) Fill(ring);
    ASSERT_TRUE(poller_->PollOnce());
  }
  Ticks least = ~Ticks{0};
  Ticks most = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const Ticks used = RunsOf(i) * kTicks[i];
    least = std::min(least, used);
    most = std::max(most, used);
  }
  EXPECT_GT(least, 10'000'000u);
  EXPECT_LE(most - least, 90'000 + 2 * kRound);
}

TEST_F(DeviceSharesTest, WhoRegistersAnewPaysItsDebtsAllTheSame) {
  constexpr uint32_t kLong = 90'000;
  TestDevice& greedy = Device("greedy");
  Ring& honest = Add(Device("honest"), 1'000, 2);
  const auto again = [&] {
    Ring& ring = Add(greedy, kLong, 1);
    RingOnce(ring);
    return &ring;
  };
  Ring* ring = again();
  // No more: a test device takes no ring's memory back.
  for (int i = 0; i < 100; ++i) {
    Fill(honest);
    ASSERT_TRUE(poller_->PollOnce());
    if (!TakeEnd(*ring)) continue;
    poller_->Remove(ring->event.kernel);
    ring = again();
  }
  EXPECT_LE(RunsOf(1) * kLong, RunsOf(2) * 1'000 + 2 * (kRound + kLong));
}

TEST_F(DeviceSharesTest, TimeThatNobodyElseWantsIsAnybodys) {
  Ring& alone = Add(Device("alone"), 90'000, 1);
  Add(Device("idle"), 1, 2);
  Fill(alone);
  int looks = 0;
  while (RunsOf(1) < kEntries) {
    ASSERT_TRUE(poller_->PollOnce()) << "the front-end would sleep";
    ++looks;
  }
  EXPECT_EQ(looks, static_cast<int>(kEntries));
  EXPECT_FALSE(poller_->PollOnce());
}

TEST_F(DeviceSharesTest, EveryRingOfADeviceThatUsesUpItsShareHasItsTurn) {
  for (const std::string_view policy : {"first_come", "priority"}) {
    Restart(policy);
    rings_.clear();
    ran.clear();
    TestDevice& device = Device("device");
    // More than one line of doorbells.
    constexpr uint32_t kRings = 40;
    for (uint32_t i = 0; i < kRings; ++i) Add(device, 5'000, i);
    for (int i = 0; i < 1000; ++i) {
      for (Ring& ring : rings_) Fill(ring);
      ASSERT_TRUE(poller_->PollOnce());
    }
    uint64_t least = ran.size();
    uint64_t most = 0;
    for (uint32_t i = 0; i < kRings; ++i) {
      least = std::min(least, RunsOf(i));
      most = std::max(most, RunsOf(i));
    }
    EXPECT_GT(least, 50u);
    // A burst, which the share cuts to ten events.
    EXPECT_LE(most - least, 20u) << policy;
  }
}

TEST_F(DeviceSharesTest, APriorityGoesFirstWithinItsDevicesShare) {
  Restart("priority");
  TestDevice& high = Device("high");
  Ring& first = Add(high, 10'000, 7, /*priority=*/7);
  Ring& third = Add(high, 10'000, 3, /*priority=*/3);
  Ring& second = Add(Device("low"), 10'000, 5, /*priority=*/5);
  for (Ring* ring : {&third, &second, &first}) Fill(*ring);
  while (ran.size() < 3 * kEntries) ASSERT_TRUE(poller_->PollOnce());
  // A round of each device in turn, and the lowest ring when its device has
  // nothing else.
  const auto run_at = [](size_t round) { return ran[round * 5]; };
  EXPECT_EQ(run_at(0), 7u);
  EXPECT_EQ(run_at(1), 5u);
  EXPECT_EQ(run_at(2), 7u);
  EXPECT_EQ(run_at(3), 5u);
  const auto last_high = std::find(ran.rbegin(), ran.rend(), 7u);
  const auto first_low = std::find(ran.begin(), ran.end(), 3u);
  EXPECT_GT(first_low, last_high.base() - 1);
}

TEST_F(DeviceSharesTest, WhatIsHeldBackIsNotSorted) {
  AddMany(10 * kRound, 1);
  Ring& honest = Add(Device("honest"), 1'000, 2);
  for (Ring& ring : rings_) Fill(ring);
  for (int look = 0; look < 2000; ++look) {
    Fill(honest);
    ASSERT_TRUE(poller_->PollOnce());
  }
  EXPECT_GT(RunsOf(1), 50u);
  // A look for each of its turns, which one event ends.
  EXPECT_LE(poller_->rings_sorted(), RunsOf(1) * (kMany + 1));
}

TEST_F(DeviceSharesTest, SortingIsOnTheAccountOfWhoHasRung) {
  static const DoorbellPoller* poller;
  // To sort 900 rings takes two rounds.
  const auto clock = [] { return now + 100 * poller->rings_sorted(); };
  poller_.emplace(DoorbellPoller::Options{.ticks = clock}, &*launcher_);
  poller = &*poller_;
  AddMany(200, 1);
  Add(Device("honest"), 1'000, 2);
  for (int look = 0; look < 2000; ++look) {
    for (Ring& ring : rings_) Fill(ring);
    ASSERT_TRUE(poller_->PollOnce());
  }
  const Ticks of_honest = RunsOf(2) * 1'000;
  const Ticks of_many = clock() - of_honest;
  EXPECT_GT(RunsOf(1), 5'000u);
  EXPECT_LE(of_many, of_honest + of_honest / 20);
  EXPECT_GE(of_many, of_honest - of_honest / 20);
}

TEST_F(DeviceSharesTest, WhereNoTimePassesNobodyWaits) {
  poller_.emplace(DoorbellPoller::Options{.ticks = NoTicks}, &*launcher_);
  TestDevice& device = Device("device");
  for (uint32_t i = 0; i < 4; ++i) Add(device, 1'000'000, i);
  for (Ring& ring : rings_) Fill(ring);
  EXPECT_TRUE(poller_->PollOnce());
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(RunsOf(i), 32u) << "a burst";
}

}  // namespace
}  // namespace carillon::gpud
