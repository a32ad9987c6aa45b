#include "shm/wakeups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "shm/testing/event_pattern.h"
#include "shm/testing/ring_fixture.h"

namespace carillon::shm {
namespace {

using std::chrono::nanoseconds;

// A wait that takes this long has missed its wake-up.
constexpr nanoseconds kBound = std::chrono::seconds(30);

std::unique_ptr<RingFixture> MakeRings(const RingFixture::Options& options) {
  auto rings = RingFixture::Make(options);
  EXPECT_TRUE(rings.ok()) << rings.status();
  return rings.ok() ? *std::move(rings) : nullptr;
}

bool Readable(int fd, int timeout_ms) {
  pollfd waiter{.fd = fd, .events = POLLIN, .revents = 0};
  int ready;
  do {
    ready = poll(&waiter, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

class BellsTest : public testing::Test {
 protected:
  std::unique_ptr<RingFixture> rings_ = MakeRings({});
  DeviceRing device_ = rings_->device_ring(0);
  const GpuRing gpu_ = rings_->gpu_ring(0);
  const CompletionBell bell_ = rings_->bell();
  ClosedWord closed_;
  CompletionWaiter waiter_ = rings_->waiter(&closed_);

  bool Ready() const { return device_.Poll().has_value(); }
  void RingOne() {
    device_.Commit();
    device_.RingDoorbell();
  }
  void CloseByGpud(CloseReason reason) {
    std::atomic_ref<uint32_t>(
        rings_->gpud_completion().completion_control().closed)
        .store(static_cast<uint32_t>(reason));
    bell_.SignalAlways();
  }
  uint32_t armed() const {
    return std::atomic_ref<uint32_t>(
               rings_->gpud_submission().submission_control().completion_armed)
        .load();
  }
  // Waits for what never comes; false if only the timeout ended that.
  static bool EndsInTime(CompletionWaiter& waiter) {
    const Nanoseconds start = NowNs();
    EXPECT_FALSE(
        waiter.WaitUntil([] { return false; }, kBound, nanoseconds(0)));
    return NowNs() - start < Nanoseconds(kBound.count());
  }
};

TEST_F(BellsTest, WhatIsReadyIsFoundWithoutWaiting) {
  RingOne();
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  EXPECT_TRUE(waiter_.WaitUntil([&] { return Ready(); }, nanoseconds(0),
                                nanoseconds(0)));
}

TEST_F(BellsTest, TimeoutsThatAreOverEndTheWait) {
  RingOne();
  for (const nanoseconds timeout :
       {nanoseconds::min(), nanoseconds(-1), nanoseconds(0), nanoseconds(1)}) {
    EXPECT_FALSE(waiter_.WaitUntil([&] { return Ready(); }, timeout,
                                   nanoseconds::max()));
    EXPECT_FALSE(waiter_.WaitUntil([&] { return Ready(); }, timeout,
                                   nanoseconds::min()));
  }
  EXPECT_EQ(armed(), 0u);
}

TEST_F(BellsTest, NobodyIsWokenWhoDidNotAsk) {
  RingOne();
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  const uint32_t before =
      rings_->gpud_completion().completion_control().summary;
  bell_.Signal();
  EXPECT_EQ(rings_->gpud_completion().completion_control().summary, before);
  EXPECT_FALSE(Readable(rings_->event().reader.get(), 0));
}

TEST_F(BellsTest, AClosedApertureEndsEveryWaitAndSaysWhy) {
  std::atomic<int> late{0};
  // In most rounds all of them sleep by the time of the end.
  for (int round = 0; round < 100 && late == 0; ++round) {
    std::atomic_ref<uint32_t>(
        rings_->gpud_completion().completion_control().closed)
        .store(0);
    std::vector<std::thread> waiting;
    for (int i = 0; i < 3; ++i) {
      waiting.emplace_back([&] { late += !EndsInTime(waiter_); });
    }
    while (armed() != 3) sched_yield();
    CloseByGpud(CloseReason::kEvicted);
    for (auto& thread : waiting) thread.join();
  }
  EXPECT_EQ(late, 0);
  EXPECT_EQ(waiter_.close_reason(), CloseReason::kEvicted);
  EXPECT_EQ(armed(), 0u);
}

TEST_F(BellsTest, GpudsDeathEndsEveryWait) {
  std::atomic<int> late{0};
  for (int round = 0; round < 100 && late == 0; ++round) {
    ClosedWord closed;
    CompletionWaiter waiter = rings_->waiter(&closed);
    std::thread waiting([&] { late += !EndsInTime(waiter); });
    while (armed() != 1) sched_yield();
    closed.Close();
    waiting.join();
    EXPECT_EQ(waiter.close_reason(), CloseReason::kPeerDied);
  }
  EXPECT_EQ(late, 0);
}

TEST_F(BellsTest, EvenADeviceThatSaysItIsAwakeIsToldOfTheEnd) {
  ASSERT_EQ(armed(), 0u);
  const uint32_t before =
      rings_->gpud_completion().completion_control().summary;
  CloseByGpud(CloseReason::kShutdown);
  EXPECT_EQ(rings_->gpud_completion().completion_control().summary, before + 1);
  EXPECT_TRUE(Readable(rings_->event().reader.get(), 0));
}

TEST_F(BellsTest, AClosedApertureEndsTheSpinToo) {
  CloseByGpud(CloseReason::kShutdown);
  EXPECT_FALSE(waiter_.WaitUntil([] { return false; }, nanoseconds::max(),
                                 nanoseconds::max()));
}

TEST_F(BellsTest, WhatWasCompletedBeforeTheEndStillCounts) {
  RingOne();
  CloseByGpud(CloseReason::kShutdown);
  // Completed between the first look and the last.
  bool first = true;
  EXPECT_TRUE(waiter_.WaitUntil(
      [&] {
        if (!first) return Ready();
        first = false;
        gpu_.Complete(Sequence(1), EventState::kAborted, 0);
        return false;
      },
      kBound, kBound));
}

TEST_F(BellsTest, WhatWasCompletedJustBeforeTheEndStillCounts) {
  RingOne();
  // Completed and closed after the last look before the sleep.
  bool done = false;
  EXPECT_TRUE(waiter_.WaitUntil(
      [&] {
        if (done || armed() == 0) return Ready();
        done = true;
        gpu_.Complete(Sequence(1), EventState::kAborted, 0);
        CloseByGpud(CloseReason::kShutdown);
        return false;
      },
      kBound, nanoseconds(0)));
}

TEST_F(BellsTest, AWakeUpAfterTheLastLookIsNotMissed) {
  RingOne();
  const Nanoseconds start = NowNs();
  // The whole waker runs between the last look and the sleep.
  bool done = false;
  EXPECT_TRUE(waiter_.WaitUntil(
      [&] {
        if (done || armed() == 0) return Ready();
        done = true;
        gpu_.Complete(Sequence(1), EventState::kDone, 0);
        bell_.Signal();
        return false;
      },
      kBound, nanoseconds(0)));
  EXPECT_TRUE(done);
  EXPECT_LT(NowNs() - start, Nanoseconds(kBound.count()));
}

TEST_F(BellsTest, AnArmedEventTurnsReadableAndDrains) {
  RingOne();
  waiter_.ArmCompletionEvent();
  EXPECT_FALSE(Readable(rings_->event().reader.get(), 0));
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  bell_.Signal();
  bell_.Signal();
  EXPECT_TRUE(Readable(rings_->event().reader.get(), 0));
  DrainCompletionEvent(rings_->event().reader.get());
  EXPECT_FALSE(Readable(rings_->event().reader.get(), 0));
  waiter_.DisarmCompletionEvent();
  bell_.Signal();
  EXPECT_FALSE(Readable(rings_->event().reader.get(), 0));
}

TEST_F(BellsTest, ADeviceThatNeverDrainsItsEventDoesNotHoldGpudUp) {
  waiter_.ArmCompletionEvent();
  // The device makes its end blocking, as far as it can.
  const int reader = rings_->event().reader.get();
  ASSERT_EQ(fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) & ~O_NONBLOCK), 0);
  for (int i = 0; i < 50'000; ++i) bell_.Signal();
  EXPECT_TRUE(Readable(reader, 0));
  ASSERT_EQ(fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) | O_NONBLOCK), 0);
  DrainCompletionEvent(reader);
  EXPECT_FALSE(Readable(reader, 0));
}

// gpud's word for "look elsewhere"; nobody touches it here.
constexpr uint32_t kOwnWord = 0;

TEST_F(BellsTest, GpudDoesNotSleepOverARing) {
  RingOne();
  DoorbellWaiter gpud = rings_->doorbell_waiter();
  const auto rung = [&] {
    EXPECT_EQ(rings_->gpud_completion().completion_control().gpud_armed, 1u);
    return gpu_.LoadDoorbell() != 0;
  };
  const Nanoseconds start = NowNs();
  EXPECT_FALSE(gpud.SleepUnless(rung, {&kOwnWord, 0}, kBound));
  EXPECT_LT(NowNs() - start, Nanoseconds(kBound.count()));
  EXPECT_EQ(rings_->gpud_completion().completion_control().gpud_armed, 0u);
}

TEST_F(BellsTest, ARingAfterGpudsLastLookIsNotMissed) {
  DoorbellWaiter gpud = rings_->doorbell_waiter();
  const Nanoseconds start = NowNs();
  // The whole ring comes between the last look and the sleep.
  const auto rung = [&] {
    const bool found = gpu_.LoadDoorbell() != 0;
    RingOne();
    return found;
  };
  EXPECT_TRUE(gpud.SleepUnless(rung, {&kOwnWord, 0}, kBound));
  EXPECT_LT(NowNs() - start, Nanoseconds(kBound.count()));
}

TEST_F(BellsTest, EveryWatchedDeviceWakesGpud) {
  const auto other = MakeRings({});
  DoorbellWaiter gpud = rings_->doorbell_waiter();
  gpud.Watch(other->gpud_submission(), other->gpud_completion());
  DeviceRing others_ring = other->device_ring(0);
  const auto rung = [&] {
    others_ring.Commit();
    others_ring.RingDoorbell();
    return false;
  };
  const Nanoseconds start = NowNs();
  EXPECT_TRUE(gpud.SleepUnless(rung, {&kOwnWord, 0}, kBound));
  EXPECT_LT(NowNs() - start, Nanoseconds(kBound.count()));

  const uint32_t summary =
      other->gpud_submission().submission_control().summary;
  gpud.WatchNone();
  EXPECT_TRUE(gpud.SleepUnless(rung, {&kOwnWord, 0}, nanoseconds(1)));
  EXPECT_EQ(other->gpud_submission().submission_control().summary, summary)
      << "told to wake gpud, which does not watch";
}

TEST_F(BellsTest, GpudsOwnWordEndsItsSleep) {
  DoorbellWaiter gpud = rings_->doorbell_waiter();
  const Nanoseconds start = NowNs();
  EXPECT_TRUE(gpud.SleepUnless([] { return false; }, {&kOwnWord, 1}, kBound));
  EXPECT_LT(NowNs() - start, Nanoseconds(kBound.count()));
}

// --- The hunt for lost wake-ups: both sides sleep whenever they can, after
// spins of random length around that of a wake-up.

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSlowdown = 10;
#else
constexpr uint64_t kSlowdown = 1;
#endif

enum class Sleep { kFutex, kEvent };

// How one side waits.
struct Waiting {
  int64_t spin_ns;
  // Up to so many empty turns before it arms: a wake-up is lost in a window of
  // nanoseconds, and both sides must meet in it.
  uint32_t jitter;
};
constexpr Waiting kSleepsAtOnce{0, 400};
// Arms only now and then, so that the other side still has the armed word of
// last time in its cache.
constexpr Waiting kSleepsNowAndThen{0, 2'000};
constexpr Waiting kAnswersAtOnce{50'000, 0};
constexpr Waiting kSpinsALittle{3'000, 400};

struct Hunt {
  Sleep sleep;
  uint32_t rings;    // one device thread each, all sharing one armed word
  uint32_t entries;  // pipeline depth
  uint64_t events;   // each ring
  Waiting device;
  Waiting gpud;
};

void PrintTo(const Hunt& hunt, std::ostream* out) {
  *out << (hunt.sleep == Sleep::kFutex ? "futex, " : "event, ") << hunt.rings
       << " rings of " << hunt.entries << ", spins of " << hunt.device.spin_ns
       << " and " << hunt.gpud.spin_ns << " ns";
}

// Random moments for one thread.
class Chance {
 public:
  explicit Chance(uint32_t seed) : random_(seed) {}
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  nanoseconds Spin(const Waiting& waiting) {
    return nanoseconds(Below(waiting.spin_ns + 1));
  }
  void Jitter(const Waiting& waiting) {
    for (uint64_t turns = Below(waiting.jitter + 1); turns > 0; --turns) {
      asm volatile("");
    }
  }

 private:
  std::minstd_rand random_;
};

class LostWakeUpTest : public testing::TestWithParam<Hunt> {
 protected:
  // One device thread: rings in random batches, waits for each completion.
  void RunDevice(uint32_t index) {
    const Hunt hunt = GetParam();
    DeviceRing ring = rings_->device_ring(index);
    CompletionWaiter waiter = rings_->waiter(&closed_);
    Chance chance(index + 1);
    const uint64_t events = hunt.events / kSlowdown;
    uint64_t rung = 0;
    while (ring.last_consumed() < Sequence(events)) {
      uint64_t batch = chance.Below(hunt.entries) + 1;
      for (; batch > 0 && ring.free_slots() > 0 && rung < events; --batch) {
        ++rung;
        EventPattern::FillParameters(ring.parameters(), rung);
        ring.Commit();
      }
      ring.RingDoorbell();
      const auto ready = [&] { return ring.Poll().has_value(); };
      chance.Jitter(hunt.device);
      if (hunt.sleep == Sleep::kFutex) {
        const Nanoseconds start = NowNs();
        if (!waiter.WaitUntil(ready, kBound, chance.Spin(hunt.device)) ||
            NowNs() - start >= Nanoseconds(kBound.count())) {
          return Fail("futex");
        }
      } else {
        while (!ready()) {
          waiter.ArmCompletionEvent();
          if (!ready() &&
              !Readable(
                  rings_->event().reader.get(),
                  static_cast<int>(kBound / std::chrono::milliseconds(1)))) {
            return Fail("event");
          }
          DrainCompletionEvent(rings_->event().reader.get());
          waiter.DisarmCompletionEvent();
        }
      }
      while (const auto completion = ring.Poll()) {
        if (completion->status !=
            EventPattern::Status(completion->sequence.value())) {
          return Fail("status");
        }
        ring.Consume();
      }
    }
  }

  // gpud: one thread for all rings. Signals after a random number of
  // completions, but always before it sleeps.
  void RunGpud() {
    const Hunt hunt = GetParam();
    std::vector<GpuRing> rings;
    std::vector<uint32_t> seen;
    std::vector<uint64_t> ended(hunt.rings, 0);
    for (uint32_t i = 0; i < hunt.rings; ++i) {
      rings.push_back(rings_->gpu_ring(i));
      seen.push_back(0);
    }
    const CompletionBell bell = rings_->bell();
    DoorbellWaiter waiter = rings_->doorbell_waiter();
    Chance chance(99);
    const auto rung = [&] {
      for (uint32_t i = 0; i < hunt.rings; ++i) {
        if (rings[i].LoadDoorbell() != seen[i]) return true;
      }
      return false;
    };
    uint64_t left = hunt.rings * (hunt.events / kSlowdown);
    while (left > 0) {
      chance.Jitter(hunt.gpud);
      if (!WaitForDoorbell(waiter, gpud_closed_, rung, kBound,
                           chance.Spin(hunt.gpud))) {
        return Fail("gpud");
      }
      for (uint32_t i = 0; i < hunt.rings; ++i) {
        const uint32_t doorbell = rings[i].LoadDoorbell();
        for (; seen[i] != doorbell; ++seen[i], --left) {
          ++ended[i];
          EventPattern::Entry entry;
          rings[i].CopyEntry(Sequence(ended[i]), &entry, sizeof(entry));
          if (!EventPattern::Matches(entry, ended[i])) return Fail("entry");
          rings[i].Complete(Sequence(ended[i]), EventState::kDone,
                            EventPattern::Status(ended[i]));
          if (chance.Below(2) == 0) bell.Signal();
        }
      }
      bell.Signal();
    }
  }

  // Ends the other threads as well.
  void Fail(const char* where) {
    if (closed_.closed()) return;
    ADD_FAILURE() << "lost: " << where;
    closed_.Close();
    gpud_closed_.Close();
  }

  const std::unique_ptr<RingFixture> rings_ =
      MakeRings({.entries = GetParam().entries,
                 .rings = GetParam().rings,
                 .one_mapping = true});
  ClosedWord closed_;
  ClosedWord gpud_closed_;
};

TEST_P(LostWakeUpTest, WhoeverSleepsWithWorkWakes) {
  std::vector<std::thread> threads;
  threads.emplace_back([&] { RunGpud(); });
  for (uint32_t i = 0; i < GetParam().rings; ++i) {
    threads.emplace_back([&, i] { RunDevice(i); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(rings_->gpud_submission().submission_control().completion_armed,
            0u);
  if (GetParam().sleep == Sleep::kFutex) {
    EXPECT_FALSE(Readable(rings_->event().reader.get(), 0)) << "nobody asked";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Hunt, LostWakeUpTest,
    testing::Values(
        Hunt{Sleep::kFutex, 1, 1, 100'000, kSleepsAtOnce, kAnswersAtOnce},
        Hunt{Sleep::kFutex, 1, 1, 100'000, kAnswersAtOnce, kSleepsAtOnce},
        Hunt{Sleep::kFutex, 1, 1, 100'000, kSleepsNowAndThen, kAnswersAtOnce},
        Hunt{Sleep::kFutex, 1, 1, 100'000, kAnswersAtOnce, kSleepsNowAndThen},
        Hunt{Sleep::kFutex, 1, 1, 50'000, kSleepsAtOnce, kSleepsAtOnce},
        Hunt{Sleep::kFutex, 1, 4, 50'000, kSpinsALittle, kSpinsALittle},
        Hunt{Sleep::kFutex, 3, 2, 30'000, kSpinsALittle, kSpinsALittle},
        Hunt{Sleep::kEvent, 1, 1, 50'000, kSleepsAtOnce, kAnswersAtOnce},
        Hunt{Sleep::kEvent, 1, 4, 50'000, kSleepsAtOnce, kSleepsAtOnce}));

}  // namespace
}  // namespace carillon::shm
