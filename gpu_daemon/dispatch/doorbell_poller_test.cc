#include "gpu_daemon/dispatch/doorbell_poller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/doorbell_line.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/dispatch/kmu.h"
#include "gpu_daemon/dispatch/policy.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::EventState;

// As docs/data_plane.md and docs/guarantees.md promise it.
constexpr int kLooksToAll = 64;
constexpr int kEventsToAll = 256;
// Those of one look, which may be under way.
constexpr int kBurst = 32;

// Whatever this machine does meanwhile, events run in the thread that polls:
// there is no other.
class InlineLauncher final : public EdgeLauncher {
 public:
  using EdgeLauncher::EdgeLauncher;
  void TookLong(EventKernel&, Nanoseconds) override {}
  void Release(EventKernel& event) override { released.push_back(&event); }
  std::vector<const EventKernel*> released;
};

class DoorbellPollerTest : public testing::Test {
 protected:
  DoorbellPollerTest() { Restart("first_come"); }

  void Restart(std::string_view policy) {
    poller_.reset();
    launcher_.reset();
    kmu_ = std::make_unique<Kmu>(GpuModel{}, *MakePolicy(policy));
    launcher_ = std::make_unique<InlineLauncher>(kmu_.get(), &runner_);
    poller_ = std::make_unique<DoorbellPoller>(
        DoorbellPoller::Options{
            .on_violation = [this](const auto&, std::string) { ++violations_; },
            .ticks = NoTicks},
        launcher_.get());
  }

  TestDevice& AddDevice(uint64_t heap_bytes = 4 << 20) {
    devices_.push_back(std::make_unique<TestDevice>("many", heap_bytes));
    return *devices_.back();
  }
  shm::DeviceRing& Add(TestDevice& device, uint32_t entries = 8,
                       uint32_t priority = 0) {
    events_.push_back(device.Register({.kernel = simt::FindKernel("null_event"),
                                       .bindings = {{.constant_bits = 0}},
                                       .entries = entries,
                                       .priority = priority}));
    EXPECT_TRUE(poller_->Add(events_.back().kernel).ok());
    return *events_.back().ring;
  }
  void AddMany(TestDevice& device, size_t count, uint32_t priority = 0) {
    for (size_t i = 0; i < count; ++i) Add(device, 8, priority);
  }
  // The newcomers' first looks are over, and no line is hot.
  void Settle() {
    for (int i = 0; i < 64 * 300; ++i) poller_->PollOnce();
  }

  static void Ring(shm::DeviceRing& ring, int count = 1) {
    for (int i = 0; i < count; ++i) ring.Commit();
    ring.RingDoorbell();
  }
  // True if its oldest event has ended; takes it then.
  static bool Take(shm::DeviceRing& ring) {
    const auto completion = ring.Poll();
    if (!completion) return false;
    EXPECT_EQ(completion->state, EventState::kDone);
    ring.Consume();
    return true;
  }

  // Takes an event that may be found by any look but a late one.
  bool LookAndTake(shm::DeviceRing& ring) {
    for (int look = 0; look <= kLooksToAll; ++look) {
      if (Take(ring)) return true;
      poller_->PollOnce();
    }
    return Take(ring);
  }

  // The hot ring's events, and the looks, until the cold one's has ended; the
  // hot one has `hot_rings` more whenever a look begins.
  struct Wait {
    int looks = 0;
    int hot_events = 0;
  };
  Wait RingBeside(shm::DeviceRing& hot, int hot_rings, shm::DeviceRing& cold) {
    const auto look = [&] {
      int ended = 0;
      const auto free = static_cast<int>(hot.free_slots());
      Ring(hot, std::min(free, hot_rings));
      poller_->PollOnce();
      while (Take(hot)) ++ended;
      return ended;
    };
    // It has been hot for some time.
    for (int i = 0; i < 100; ++i) look();
    Ring(cold);
    Wait wait;
    while (!Take(cold)) {
      ++wait.looks;
      wait.hot_events += look();
      if (wait.looks > 10'000) break;
    }
    return wait;
  }

  CpuBlockRunner runner_;
  std::unique_ptr<Kmu> kmu_;
  std::unique_ptr<InlineLauncher> launcher_;
  int violations_ = 0;
  std::vector<std::unique_ptr<TestDevice>> devices_;
  std::vector<TestDevice::Event> events_;
  std::unique_ptr<DoorbellPoller> poller_;
};

TEST_F(DoorbellPollerTest, AColdRingIsServedHoweverHotAnotherIs) {
  TestDevice& device = AddDevice(16 << 20);
  shm::DeviceRing& hot = Add(device, 64);
  AddMany(device, 1023);
  Settle();
  // In each line, and at each place of one.
  for (size_t cold = 31; cold < 1024; cold += 31) {
    SCOPED_TRACE(cold);
    const Wait wait = RingBeside(hot, 64, *events_[cold].ring);
    EXPECT_LE(wait.hot_events, kEventsToAll + 2 * kBurst);
  }
}

TEST_F(DoorbellPollerTest, AColdRingIsServedBesideOneThatRingsForEachLook) {
  TestDevice& device = AddDevice(16 << 20);
  shm::DeviceRing& hot = Add(device, 1);
  AddMany(device, 1023);
  Settle();
  for (size_t cold = 31; cold < 1024; cold += 31) {
    SCOPED_TRACE(cold);
    const Wait wait = RingBeside(hot, 1, *events_[cold].ring);
    EXPECT_LE(wait.looks, kLooksToAll + 1);
  }
}

TEST_F(DoorbellPollerTest, ADeviceIsServedHoweverHotAnotherIs) {
  shm::DeviceRing& hot = Add(AddDevice(1 << 18), 64);
  while (devices_.size() < DoorbellPoller::kMaxDevices) {
    AddMany(AddDevice(1 << 16), 1);
  }
  Settle();
  for (size_t cold = 1; cold < events_.size(); ++cold) {
    SCOPED_TRACE(cold);
    const Wait wait = RingBeside(hot, 64, *events_[cold].ring);
    EXPECT_LE(wait.hot_events, kEventsToAll + 2 * kBurst);
  }
}

TEST_F(DoorbellPollerTest, AColdRingOfAHigherPriorityOvertakesAHotOne) {
  Restart("priority");
  TestDevice& device = AddDevice(16 << 20);
  shm::DeviceRing& hot = Add(device, 64, 1);
  AddMany(device, 900, 2);
  Settle();
  const Wait wait = RingBeside(hot, 64, *events_.back().ring);
  EXPECT_LE(wait.hot_events, kEventsToAll + 2 * kBurst);
}

TEST_F(DoorbellPollerTest, AmongThoseThatRangAHigherPriorityIsServedFirst) {
  Restart("priority");
  TestDevice& device = AddDevice();
  for (const uint32_t priority : {1, 3, 2}) AddMany(device, 10, priority);
  for (const auto& event : events_) Ring(*event.ring);
  for (const size_t first : {10, 20, 0}) {
    EXPECT_TRUE(poller_->PollOnce());
    for (size_t i = 0; i < events_.size(); ++i) {
      EXPECT_EQ(Take(*events_[i].ring), i / 10 == first / 10) << i;
    }
  }
  EXPECT_FALSE(poller_->PollOnce());
}

TEST_F(DoorbellPollerTest, ALookCostsTheSameWhateverIsRegistered) {
  const auto lines_an_event = [&](shm::DeviceRing& hot, int rings) {
    constexpr int kEvents = 6400;
    const uint64_t before = poller_->lines_looked_at();
    for (int i = 0; i < kEvents; i += rings) {
      Ring(hot, rings);
      int left = rings;
      for (int look = 0; look < kLooksToAll && left > 0; ++look) {
        poller_->PollOnce();
        while (Take(hot)) --left;
      }
      EXPECT_EQ(left, 0);
      if (left > 0) break;
    }
    return static_cast<double>(poller_->lines_looked_at() - before) / kEvents;
  };
  TestDevice& device = AddDevice(16 << 20);
  shm::DeviceRing& hot = Add(device, 64);
  // Its own line is the only one.
  EXPECT_NEAR(lines_an_event(hot, 1), 1, 0.01);
  AddMany(device, 1023);
  Settle();
  // Its own, and one in turn.
  EXPECT_LE(lines_an_event(hot, 1), 2);
  EXPECT_LE(lines_an_event(hot, 64), 0.35);
  while (devices_.size() < 33) AddMany(AddDevice(1 << 16), 1);
  Settle();
  EXPECT_LE(lines_an_event(hot, 1), 2);
  EXPECT_LE(lines_an_event(hot, 64), 0.35);
}

TEST_F(DoorbellPollerTest, LinesThatRingNoMoreAreLookedAtInTurnAgain) {
  TestDevice& device = AddDevice(16 << 20);
  AddMany(device, 1024);
  // All of them were hot for a while.
  for (int round = 0; round < 3; ++round) {
    for (const auto& event : events_) {
      Ring(*event.ring);
      ASSERT_TRUE(LookAndTake(*event.ring));
    }
  }
  Settle();
  const uint64_t before = poller_->lines_looked_at();
  for (int look = 0; look < 1000; ++look) poller_->PollOnce();
  // One in turn, and none that is hot.
  EXPECT_EQ(poller_->lines_looked_at() - before, 1000u);
}

TEST_F(DoorbellPollerTest, MoreRingsThanABurstAreServedInTheNextLooks) {
  TestDevice& device = AddDevice();
  shm::DeviceRing& ring = Add(device, 128);
  Ring(ring, 100);
  std::atomic<uint64_t> sleeps{0};
  const uint32_t own = 1;
  for (int look = 0; look < 4; ++look) {
    EXPECT_FALSE(
        poller_->SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps));
    EXPECT_TRUE(poller_->PollOnce()) << look;
  }
  EXPECT_FALSE(poller_->PollOnce());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Take(ring)) << i;
}

TEST_F(DoorbellPollerTest, AScheduledEventIsServedByTheNextLook) {
  TestDevice& device = AddDevice(16 << 20);
  AddMany(device, 1024);
  Settle();
  for (size_t i = 5; i < events_.size(); i += 97) {
    auto& [kernel, ring] = events_[i];
    ring->Commit();
    ASSERT_TRUE(kernel->ScheduleThrough(1));
    // The doorbell does not say it yet.
    poller_->LookAt(*kernel);
    EXPECT_TRUE(poller_->PollOnce()) << i;
    ring->TakeScheduled();
    EXPECT_TRUE(Take(*ring)) << i;
  }
  // Of one that has gone meanwhile, nothing is looked at.
  poller_->Remove(events_.back().kernel);
  poller_->LookAt(*events_.back().kernel);
  EXPECT_FALSE(poller_->PollOnce());
}

TEST_F(DoorbellPollerTest, AnEventKernelThatWasRungBeforeItCameIsServed) {
  TestDevice& device = AddDevice();
  auto event = device.Register({.kernel = simt::FindKernel("null_event"),
                                .bindings = {{.constant_bits = 0}}});
  Ring(*event.ring, 3);
  ASSERT_TRUE(poller_->Add(event.kernel).ok());
  EXPECT_TRUE(poller_->PollOnce());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Take(*event.ring));
}

TEST_F(DoorbellPollerTest, DoorbellsOfNobodyCostNothingAndHideNothing) {
  TestDevice& device = AddDevice();
  shm::DeviceRing& ring = Add(device);
  std::atomic<uint64_t> sleeps{0};
  const uint32_t own = 1;
  for (uint32_t garbage = 1; garbage < 100; ++garbage) {
    for (uint32_t i = 1; i < shm::kMaxDoorbells; ++i) {
      std::atomic_ref<uint32_t>(device.memory->submission().doorbells()[i])
          .store(garbage * 7919, std::memory_order_relaxed);
    }
    poller_->PollOnce();
    EXPECT_FALSE(poller_->PollOnce());
    EXPECT_TRUE(
        poller_->SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps));
    Ring(ring);
    EXPECT_FALSE(
        poller_->SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps));
    EXPECT_TRUE(poller_->PollOnce());
    EXPECT_TRUE(Take(ring));
  }
  EXPECT_EQ(violations_, 0);
}

TEST_F(DoorbellPollerTest, SleepsOverNoRingOfAnyLine) {
  std::atomic<uint64_t> sleeps{0};
  // It has changed already: a sleep ends at once.
  const uint32_t own = 1;
  for (int i = 0; i < 5; ++i) AddMany(AddDevice(), 70);
  Settle();
  for (const auto& event : events_) {
    EXPECT_TRUE(
        poller_->SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps));
    Ring(*event.ring);
    EXPECT_FALSE(
        poller_->SleepUnlessRung({&own, 0}, std::chrono::hours(1), &sleeps));
    ASSERT_TRUE(LookAndTake(*event.ring));
  }
  EXPECT_EQ(sleeps, events_.size());
}

TEST_F(DoorbellPollerTest, WhoLeavesIsLookedAtNoMoreAndHisPlaceMayBeTaken) {
  TestDevice& device = AddDevice();
  TestDevice& other = AddDevice();
  AddMany(device, 40);
  AddMany(other, 40);
  for (const auto& event : events_) Ring(*event.ring);
  for (size_t i = 0; i < 33; ++i) poller_->Remove(events_[i].kernel);
  for (int look = 0; look <= kLooksToAll; ++look) {
    poller_->PollOnce();
  }
  for (size_t i = 0; i < events_.size(); ++i) {
    EXPECT_EQ(Take(*events_[i].ring), i >= 33) << i;
    // A ring that nobody will serve is an event in flight, for who removed it.
    EXPECT_EQ(events_[i].kernel->in_flight(), i < 33 ? 1u : 0u) << i;
  }
  EXPECT_EQ(poller_->RemoveDevice(device.memory.get()).size(), 7u);
  EXPECT_EQ(poller_->RemoveDevice(device.memory.get()).size(), 0u);
  device.next_doorbell = 0;
  shm::DeviceRing& ring = Add(device);
  Ring(ring);
  EXPECT_TRUE(LookAndTake(ring));
  EXPECT_EQ(poller_->RemoveDevice(other.memory.get()).size(), 40u);
}

// A launcher keeps what Prepare() took by the event kernel's address.
TEST_F(DoorbellPollerTest, AnEventKernelThatIsRefusedIsReleasedAtOnce) {
  for (size_t i = 0; i < DoorbellPoller::kMaxDevices; ++i) {
    Add(AddDevice(1 << 16));
  }
  ASSERT_TRUE(launcher_->released.empty());
  const auto refused =
      AddDevice(1 << 16).Register({.kernel = simt::FindKernel("null_event"),
                                   .bindings = {{.constant_bits = 0}}});
  EXPECT_EQ(poller_->Add(refused.kernel).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(launcher_->released,
            std::vector<const EventKernel*>{refused.kernel.get()});
}

TEST_F(DoorbellPollerTest, ADoorbellThatJumpsTakesItsDeviceAlongAndNoOther) {
  TestDevice& device = AddDevice();
  AddMany(device, 70);
  shm::DeviceRing& innocent = Add(AddDevice());
  Settle();
  Ring(*events_[3].ring);
  std::atomic_ref<uint32_t>(device.memory->submission().doorbells()[69])
      .store(9);
  for (int look = 0; violations_ == 0 && look <= kLooksToAll; ++look) {
    poller_->PollOnce();
  }
  EXPECT_EQ(violations_, 1);
  EXPECT_TRUE(poller_->RemoveDevice(device.memory.get()).empty());
  Ring(innocent);
  EXPECT_TRUE(LookAndTake(innocent));
}

TEST(DoorbellLine, ShowsEachDoorbellThatChanged) {
  TestDevice device("line", 1 << 18);
  std::vector<TestDevice::Event> events;
  for (uint32_t i = 0; i < 2 * DoorbellLine::kDoorbells; ++i) {
    events.push_back(device.Register({.kernel = simt::FindKernel("null_event"),
                                      .bindings = {{.constant_bits = 0}}}));
  }
  DoorbellLine line(*events[40].kernel);
  EXPECT_EQ(line.first(), &device.memory->submission().doorbells()[32]);
  EXPECT_TRUE(line.empty());
  uint32_t registered = 0;
  for (uint32_t i = 0; i < DoorbellLine::kDoorbells; i += 3) {
    line.Add(events[32 + i].kernel);
    registered |= 1u << i;
  }
  EXPECT_EQ(line.Changed(), registered) << "newcomers are looked at";
  const auto settle = [&] {
    for (uint32_t i = 0; i < DoorbellLine::kDoorbells; ++i) {
      line.Looked(i, device.memory->submission().doorbells()[32 + i], false);
    }
  };
  settle();
  EXPECT_EQ(line.Changed(), 0u);
  for (uint32_t i = 0; i < DoorbellLine::kDoorbells; ++i) {
    const uint32_t bit = 1u << i & registered;
    std::atomic_ref<uint32_t> doorbell(
        device.memory->submission().doorbells()[32 + i]);
    // As small, and as high, as a change may be.
    for (const uint32_t value : {1u, 0u, 0x80000000u, 0xffffffffu}) {
      doorbell.store(value);
      EXPECT_EQ(line.Changed(), bit) << i;
      settle();
      EXPECT_EQ(line.Changed(), 0u) << i;
    }
  }
  line.MarkRung(3);
  EXPECT_EQ(line.Changed(), 1u << 3);
  line.Looked(3, 0xffffffff, true);
  EXPECT_EQ(line.Changed(), 1u << 3) << "it has more";
  line.Remove(3);
  EXPECT_EQ(line.Changed(), 0u);
  EXPECT_FALSE(line.Has(*events[35].kernel));
  EXPECT_TRUE(line.Has(*events[38].kernel));
}

}  // namespace
}  // namespace carillon::gpud
