#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "shm/testing/event_pattern.h"
#include "shm/testing/ring_fixture.h"

namespace carillon::shm {
namespace {

using Options = RingFixture::Options;

std::unique_ptr<RingFixture> MakeRings(const Options& options) {
  auto rings = RingFixture::Make(options);
  EXPECT_TRUE(rings.ok()) << rings.status();
  return rings.ok() ? *std::move(rings) : nullptr;
}

class RingTest : public testing::Test {
 protected:
  std::unique_ptr<RingFixture> rings_ = MakeRings({.entries = 4});
  DeviceRing device_ = rings_->device_ring(0);
  const GpuRing gpu_ = rings_->gpu_ring(0);
};

TEST_F(RingTest, AnEventIsSeenOnlyAfterItsDoorbellRang) {
  const uint32_t before = gpu_.LoadDoorbell();
  EXPECT_EQ(device_.Commit(), Sequence(1));
  EXPECT_EQ(device_.Commit(), Sequence(2));
  EXPECT_EQ(gpu_.LoadDoorbell(), before);
  EXPECT_EQ(device_.in_flight(), 0u);
  device_.RingDoorbell();
  EXPECT_EQ(gpu_.LoadDoorbell(), before + 2);
  EXPECT_EQ(device_.in_flight(), 2u);
  device_.RingDoorbell();
  EXPECT_EQ(gpu_.LoadDoorbell(), before + 2) << "nothing new was committed";
}

TEST_F(RingTest, AnEntryCarriesItsSequenceGenerationAndParameters) {
  std::memset(device_.parameters(), 0x5a, 96);
  device_.Commit(nullptr, 77);
  device_.RingDoorbell();
  std::array<std::byte, 128> entry;
  gpu_.CopyEntry(Sequence(1), entry.data(), entry.size());
  EsqEntryHeader header;
  std::memcpy(&header, entry.data(), sizeof(header));
  EXPECT_EQ(header.sequence, 1u);
  EXPECT_EQ(header.generation, rings_->layout(0).generation.value());
  EXPECT_EQ(header.flags, 0u);
  EXPECT_EQ(header.rung_ns, 77u);
  for (size_t i = sizeof(header); i < entry.size(); ++i) {
    EXPECT_EQ(entry[i], std::byte{0x5a});
  }
}

TEST(ModifyableRingTest, AKmdOverrideLiesBetweenHeaderAndParameters) {
  const auto rings = MakeRings({.parameter_bytes = 8, .modifyable = true});
  DeviceRing device = rings->device_ring(0);
  const uint64_t parameter = 0x1234;
  std::memcpy(device.parameters(), &parameter, sizeof(parameter));
  const KmdOverride kmd{
      .grid = {1, 2, 3}, .block = {4, 5, 6}, .shared_bytes = 7, .reserved = 0};
  device.Commit(&kmd);
  device.RingDoorbell();
  struct {
    EsqEntryHeader header;
    KmdOverride kmd;
    uint64_t parameter;
  } entry;
  rings->gpu_ring(0).CopyEntry(Sequence(1), &entry, sizeof(entry));
  EXPECT_EQ(entry.header.flags, kEsqKmdOverride);
  EXPECT_EQ(std::memcmp(&entry.kmd, &kmd, sizeof(kmd)), 0);
  EXPECT_EQ(entry.parameter, parameter);
}

TEST_F(RingTest, SlotsAreFreeAgainOnlyWhenConsumed) {
  for (int i = 0; i < 4; ++i) device_.Commit();
  device_.RingDoorbell();
  EXPECT_EQ(device_.free_slots(), 0u);
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  ASSERT_TRUE(device_.Poll().has_value());
  EXPECT_EQ(device_.free_slots(), 0u) << "polled, but not consumed";
  device_.Consume();
  EXPECT_EQ(device_.free_slots(), 1u);
  EXPECT_EQ(device_.next_slot(), rings_->layout(0).SlotOf(Sequence(5)));
  EXPECT_EQ(gpu_.LoadConsumed(), 1u);
}

TEST_F(RingTest, CompletionsOutOfOrderAreHandedOutInOrder) {
  for (int i = 0; i < 3; ++i) device_.Commit();
  device_.RingDoorbell();
  gpu_.Complete(Sequence(3), EventState::kDone, 30);
  gpu_.Complete(Sequence(2), EventState::kFailed, 20);
  EXPECT_FALSE(device_.Poll().has_value());
  gpu_.Complete(Sequence(1), EventState::kAborted, 10);
  const std::array<std::tuple<EventState, uint32_t>, 3> expected = {
      {{EventState::kAborted, 10},
       {EventState::kFailed, 20},
       {EventState::kDone, 30}}};
  for (uint64_t i = 0; i < expected.size(); ++i) {
    const auto completion = device_.Poll();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->sequence, Sequence(i + 1));
    EXPECT_EQ(std::tie(completion->state, completion->status), expected[i]);
    device_.Consume();
  }
  EXPECT_FALSE(device_.Poll().has_value());
}

TEST_F(RingTest, AnEventThatWasNotRungCannotBeCompleted) {
  device_.Commit();
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  EXPECT_FALSE(device_.Poll().has_value());
}

TEST_F(RingTest, ScheduledEventsMoveTheDoorbellToo) {
  const uint32_t before = gpu_.LoadDoorbell();
  device_.Commit();
  device_.Commit();
  EXPECT_EQ(device_.last_committed().value(), 2u);
  EXPECT_EQ(device_.in_flight(), 0u);
  device_.TakeScheduled();
  device_.TakeScheduled();
  EXPECT_EQ(gpu_.LoadDoorbell(), before + 2);
  EXPECT_EQ(device_.in_flight(), 2u);
  device_.Commit();
  device_.RingDoorbell();
  EXPECT_EQ(gpu_.LoadDoorbell(), before + 3);
}

TEST_F(RingTest, ASecondRingOnTheDoorbellContinuesItsCounter) {
  for (int i = 0; i < 3; ++i) device_.Commit();
  device_.RingDoorbell();
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  device_.Consume();
  const uint32_t left = gpu_.LoadDoorbell();

  DeviceRing second = rings_->device_ring(0);
  EXPECT_EQ(gpu_.LoadConsumed(), 0u);
  EXPECT_EQ(second.Commit(), Sequence(1));
  second.RingDoorbell();
  EXPECT_EQ(gpu_.LoadDoorbell(), left + 1);
}

TEST_F(RingTest, TheLifeOfAnEventTravelsWithItsCompletion) {
  device_.Commit();
  device_.RingDoorbell();
  gpu_.life(Sequence(1)) = {.rung_ns = 1,
                            .seen_ns = 2,
                            .queued_ns = 3,
                            .dispatched_ns = 4,
                            .finished_ns = 5,
                            .reserved = {}};
  gpu_.Complete(Sequence(1), EventState::kDone, 0);
  ASSERT_TRUE(device_.Poll().has_value());
  EXPECT_EQ(device_.life().rung_ns, 1u);
  EXPECT_EQ(device_.life().finished_ns, 5u);
}

TEST_F(RingTest, TheCompletedSequenceOfEverySlotSurvivesItsWriter) {
  for (int i = 0; i < 4; ++i) device_.Commit();
  device_.RingDoorbell();
  for (const uint64_t sequence : {1, 2, 4}) {
    gpu_.Complete(Sequence(sequence), EventState::kDone, 0);
  }
  const GpuRing restarted = rings_->gpu_ring(0);
  EXPECT_EQ(restarted.LoadCompletedSequence(1), 1u);
  EXPECT_EQ(restarted.LoadCompletedSequence(2), 2u);
  EXPECT_EQ(restarted.LoadCompletedSequence(3), 0u);
  EXPECT_EQ(restarted.LoadCompletedSequence(4), 4u) << "slot 0 again";
}

// Hostile memory: nothing that a device writes moves gpud out of the ring, or
// reaches what gpud wrote.
TEST_F(RingTest, GarbageInTheSubmissionApertureStaysThere) {
  const Aperture& submission = rings_->device_submission();
  const Aperture& completion = rings_->gpud_completion();
  const std::vector<std::byte> before(completion.At(0),
                                      completion.At(completion.size()));
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  for (int round = 0; round < 200; ++round) {
    for (uint64_t at = 0; at < submission.size(); at += 8) {
      const uint64_t garbage = random();
      std::memcpy(submission.At(at), &garbage, sizeof(garbage));
    }
    gpu_.LoadDoorbell();
    gpu_.LoadConsumed();
    for (int i = 0; i < 100; ++i) {
      std::array<std::byte, 128> entry;
      const Sequence any(random());
      gpu_.Prefetch(any);
      gpu_.CopyEntry(any, entry.data(), entry.size());
      EXPECT_EQ(std::memcmp(entry.data(),
                            submission.At(rings_->layout(0).esq_offset +
                                          any.value() % 4 * 128),
                            entry.size()),
                0);
    }
  }
  EXPECT_EQ(rings_->gpud_submission().size(), submission.size());
  EXPECT_EQ(rings_->gpud_submission().doorbell_count(), kDoorbellsPerLine);
  EXPECT_EQ(rings_->gpud_submission().heap_offset(), kSubmissionHeapOffset);
  EXPECT_EQ(std::memcmp(before.data(), completion.At(0), before.size()), 0);
}

TEST_F(RingTest, GarbageInTheEcqNeverMovesTheDevicesCounters) {
  for (int i = 0; i < 4; ++i) device_.Commit();
  device_.RingDoorbell();
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  for (int round = 0; round < 10'000; ++round) {
    const uint64_t garbage = random() | (uint64_t{1} << 63);
    std::memcpy(rings_->gpud_completion().At(rings_->layout(0).ecq_offset +
                                             random() % 8 * 8),
                &garbage, sizeof(garbage));
    EXPECT_FALSE(device_.Poll().has_value());
  }
  EXPECT_EQ(device_.in_flight(), 4u);
  EXPECT_EQ(device_.free_slots(), 0u);
}

TEST_F(RingTest, AHolePunchedIntoTheSubmissionApertureReadsAsZeros) {
  device_.Commit();
  device_.RingDoorbell();
  ASSERT_EQ(fallocate(rings_->device_submission().fd(),
                      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(rings_->device_submission().size())),
            0);
  EsqEntryHeader header;
  gpu_.CopyEntry(Sequence(1), &header, sizeof(header));
  EXPECT_EQ(header.sequence, 0u);
  EXPECT_EQ(gpu_.LoadDoorbell(), 0u);
}

// --- Both ends at full speed, in two threads.

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSlowdown = 20;
#else
constexpr uint64_t kSlowdown = 1;
#endif

// Of a loop that may find nothing to do for a while, but not for ever.
class Patience {
 public:
  void Progress() { since_ = NowNs(); }
  // A turn without progress: two spinning threads must also get on when they
  // share a core. False once there was none for half a minute.
  bool Idle() {
    CpuRelax();
    if (++turns_ % 64 != 0) return true;
    sched_yield();
    return NowNs() - since_ < 30'000'000'000;
  }

 private:
  Nanoseconds since_ = NowNs();
  uint32_t turns_ = 0;
};

struct Load {
  uint32_t entries;
  uint64_t events;
  bool one_mapping;
  // gpud completes nothing before it holds this many events.
  uint32_t hold_back;
};

void PrintTo(const Load& load, std::ostream* out) {
  *out << load.entries << " entries, " << load.events << " events, "
       << (load.one_mapping ? "one mapping" : "two mappings") << ", hold back "
       << load.hold_back;
}

class RingLoadTest : public testing::TestWithParam<Load> {};

TEST_P(RingLoadTest, EveryEventArrivesWholeInOrderAndOnce) {
  const Load load = GetParam();
  const uint64_t events = load.events / kSlowdown;
  // The doorbell's 32 bits run over on the way.
  const auto rings =
      MakeRings({.entries = load.entries,
                 .first_doorbell = static_cast<uint32_t>(0 - events / 2),
                 .one_mapping = load.one_mapping});
  std::atomic<uint64_t> broken{0};

  const GpuRing gpu = rings->gpu_ring(0);
  uint32_t seen = gpu.LoadDoorbell();
  std::thread gpud([&] {
    uint64_t launched = 0;
    uint64_t completed = 0;
    Patience patience;
    while (completed < events && broken == 0) {
      const uint32_t doorbell = gpu.LoadDoorbell();
      if (doorbell != seen) {
        patience.Progress();
      } else if (!patience.Idle()) {
        ++broken;
      }
      if (doorbell - seen > load.entries) ++broken;
      for (; seen != doorbell; ++seen) {
        ++launched;
        EventPattern::Entry entry;
        gpu.CopyEntry(Sequence(launched), &entry, sizeof(entry));
        if (!EventPattern::Matches(entry, launched)) ++broken;
      }
      // The last events may never fill the ring.
      if (launched - completed < load.hold_back && launched < events) continue;
      while (completed < launched) {
        ++completed;
        EventPattern::FillOutput(
            rings->gpud_output(0, rings->layout(0).SlotOf(Sequence(completed))),
            completed);
        gpu.Complete(Sequence(completed), EventState::kDone,
                     EventPattern::Status(completed));
      }
    }
  });

  DeviceRing device = rings->device_ring(0);
  std::minstd_rand random(load.entries);
  uint64_t rung = 0;
  uint64_t consumed = 0;
  Patience patience;
  while (consumed < events && broken == 0) {
    bool moved = false;
    // Batches of any size up to the ring's.
    uint64_t batch = random() % load.entries + 1;
    for (; device.free_slots() > 0 && rung < events && batch > 0; --batch) {
      ++rung;
      EventPattern::FillParameters(device.parameters(), rung);
      device.Commit();
      moved = true;
    }
    device.RingDoorbell();
    while (const auto completion = device.Poll()) {
      ++consumed;
      moved = true;
      const uint32_t slot = rings->layout(0).SlotOf(Sequence(consumed));
      if (completion->sequence != Sequence(consumed) ||
          completion->state != EventState::kDone ||
          completion->status != EventPattern::Status(consumed) ||
          !EventPattern::OutputMatches(rings->device_output(0, slot),
                                       consumed)) {
        ++broken;
      }
      device.Consume();
    }
    if (moved) {
      patience.Progress();
    } else if (!patience.Idle()) {
      ++broken;
    }
  }
  gpud.join();
  EXPECT_EQ(broken, 0u);
  EXPECT_EQ(gpu.LoadDoorbell(), static_cast<uint32_t>(0 - events / 2 + events));
  EXPECT_EQ(gpu.LoadConsumed(), events);
}

INSTANTIATE_TEST_SUITE_P(Pipelined, RingLoadTest,
                         testing::Values(Load{1, 100'000, true, 1},
                                         Load{1, 100'000, false, 1},
                                         Load{2, 400'000, true, 1},
                                         Load{2, 400'000, false, 1},
                                         Load{64, 4'000'000, true, 1},
                                         Load{64, 4'000'000, false, 1}));

// The device runs into a full ring all the time.
INSTANTIATE_TEST_SUITE_P(SlowConsumer, RingLoadTest,
                         testing::Values(Load{2, 200'000, true, 2},
                                         Load{64, 1'000'000, true, 64},
                                         Load{64, 1'000'000, false, 64}));

}  // namespace
}  // namespace carillon::shm
