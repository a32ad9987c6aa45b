// The resident blocks of launch path persistent, with a thread for each.
#include "gpu_daemon/backends/cuda/edge/persistent_block.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/event/test_device.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;

// What the kernel is asked to do: `fail` is its status, 0 for none.
struct WorkArgs {
  uint64_t value;
  uint32_t fail;
};
constexpr simt::ParamInfo kWorkParams[] = {
    CARILLON_PARAM(WorkArgs, value, "what its blocks add up"),
    CARILLON_PARAM(WorkArgs, fail, "status")};
constexpr simt::KernelInfo kWork = {
    .name = "work",
    .summary = "",
    .params = kWorkParams,
    .args_size = sizeof(WorkArgs),
    .args_align = alignof(WorkArgs),
    .run_block = nullptr,
    .registers_per_thread = 16,
    .static_shared_bytes = 0,
    .uses_barriers = false,
};

// Resident blocks of one event kernel, and the device that rings it. Not on the
// stack: ASan's own does not keep 128-byte alignment.
class Testbed : public EdgeThreadGpu {
 public:
  Testbed(uint32_t blocks, simt::Dim3 grid, uint32_t entries = 4,
          uint32_t doorbell = 0)
      : entries_(entries), grid_(grid), sums_(entries) {
    std::atomic_ref(device_.memory->submission().doorbells()[0])
        .store(doorbell);
    event_ =
        device_.Register({.kernel = &kWork,
                          .bindings = {{.writable = true}, {.writable = true}},
                          .grid = grid,
                          .entries = entries});
    const shm::RingLayout& layout = event_.kernel->ring().layout();
    frames_.resize(entries * 2 * simt::EventFrameBytes(sizeof(WorkArgs)) / 16);
    entry_.entry.esq = device_.memory->submission().At(layout.esq_offset);
    entry_.entry.ecq = event_.kernel->ring().completion_slot(shm::Sequence(0));
    entry_.entry.lives = &event_.kernel->ring().life(shm::Sequence(0));
    entry_.entry.frames = reinterpret_cast<std::byte*>(frames_.data());
    entry_.entry.scratch = &scratch_;
    entry_.entry.arguments = &event_.kernel->arguments().steps();
    entry_.entry.entries = layout.entries;
    entry_.entry.entry_bytes = layout.entry_bytes;
    entry_.entry.parameter_offset = layout.parameter_offset;
    entry_.entry.parameter_bytes = layout.parameter_bytes;
    entry_.entry.generation = layout.generation.value();
    entry_.entry.frame_bytes =
        static_cast<uint32_t>(simt::EventFrameBytes(sizeof(WorkArgs)));
    entry_.doorbell = device_.memory->submission().doorbells();
    entry_.control = &control_;
    entry_.report = &report_;
    entry_.copy = copy_;
    entry_.blocks = blocks;
  }
  ~Testbed() override { Stop(); }

  // From event `first` on, as the host does.
  void Start(uint64_t first = 1) {
    entry_.first = first;
    entry_.ring =
        event_.kernel->cursor().first_ring() + static_cast<uint32_t>(first);
    entry_.turn = entry_.arrived = entry_.ended_turn = 0;
    std::atomic_ref(control_.command).store(PersistentTracing(tracing_));
    for (uint32_t block = 0; block < entry_.blocks; ++block) {
      threads_.emplace_back([this, block] { RunBlocks(block); });
    }
  }
  void Trace(EdgeTracing tracing) {
    tracing_ = tracing;
    std::atomic_ref(control_.command).store(PersistentTracing(tracing));
  }
  // Returns when all blocks have left.
  void Stop() {
    std::atomic_ref(control_.command).store(kPersistentEnd);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void Commit(uint64_t value, uint32_t fail = 0) {
    std::memcpy(event_.ring->parameters(), &value, sizeof(value));
    std::memcpy(event_.ring->parameters() + sizeof(value), &fail, sizeof(fail));
    event_.ring->Commit();
  }
  Completion RingAndPoll(uint64_t value, uint32_t fail = 0) {
    Commit(value, fail);
    event_.ring->RingDoorbell();
    return Poll();
  }
  Completion Poll() {
    const auto limit =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < limit) {
      if (const auto completion = event_.ring->Poll()) {
        event_.ring->Consume();
        return *completion;
      }
      std::this_thread::yield();
    }
    return {};
  }
  // What the blocks of the event have added up.
  uint64_t SumOf(uint64_t sequence) {
    return sums_[sequence % entries_].exchange(0);
  }
  // True if a block ever ran beside one of another event.
  bool mixed() const { return mixed_.load(); }
  uint64_t looks() { return std::atomic_ref(report_.looks).load(); }
  TestDevice& device() { return device_; }
  TestDevice::Event& event() { return event_; }

  LaunchOutcome Launch(uint32_t, uint64_t, uint64_t*) override {
    return LaunchOutcome::kError;
  }
  bool Relaunch(uint32_t, uint64_t*) override { return false; }
  void RunInline(const EdgeEntry&, const std::byte*, uint32_t*) override {}
  void Trap() override {}
  bool alive() const override { return true; }

 private:
  void RunBlocks(uint32_t block) {
    EdgeThreadPort port(this, 0);
    PersistentBlock<EdgeThreadPort> resident(port, entry_, block);
    while (resident.NextTurn()) {
      simt::EventFrame& frame = *entry_.entry.Frame(0, 0);
      WorkArgs args;
      std::memcpy(&args, frame.args(), sizeof(args));
      for (uint64_t b = block; b < grid_.count(); b += entry_.blocks) {
        now_.store(frame.sequence);
        std::this_thread::yield();
        sums_[frame.sequence % entries_].fetch_add(args.value * (b + 1));
        if (args.fail != 0) {
          uint32_t none = 0;
          std::atomic_ref(frame.scratch->fail_status)
              .compare_exchange_strong(none, args.fail);
        }
        if (now_.load() != frame.sequence) mixed_.store(true);
      }
      resident.EndTurn();
    }
  }

  struct alignas(16) Unit {
    std::byte bytes[16];
  };

  const uint32_t entries_;
  const simt::Dim3 grid_;
  TestDevice device_;
  TestDevice::Event event_;
  std::vector<Unit> frames_;
  simt::EventScratch scratch_{};
  PersistentControl control_{};
  EdgeTracing tracing_ = EdgeTracing::kOff;
  PersistentReport report_{};
  PersistentEntry entry_{};
  alignas(16) std::byte copy_[256] = {};
  std::vector<std::atomic<uint64_t>> sums_;
  std::atomic<uint64_t> now_{0};
  std::atomic<bool> mixed_{false};
  std::vector<std::thread> threads_;
};

uint64_t SumTo(uint64_t n) { return n * (n + 1) / 2; }

class PersistentBlocksTest : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Resident, PersistentBlocksTest,
                         ::testing::Values(1, 2, 3));

TEST_P(PersistentBlocksTest, EveryEventRunsItsWholeGridOnceAndAlone) {
  const auto owner = std::make_unique<Testbed>(GetParam(), simt::Dim3{3, 2, 1});
  Testbed& testbed = *owner;
  testbed.Start();
  for (uint64_t n = 1; n <= 300; ++n) {
    const Completion completion = testbed.RingAndPoll(n);
    ASSERT_EQ(completion.sequence.value(), n);
    ASSERT_EQ(completion.state, EventState::kDone);
    ASSERT_EQ(testbed.SumOf(n), n * SumTo(6));
  }
  testbed.Stop();
  EXPECT_FALSE(testbed.mixed());
}

TEST_P(PersistentBlocksTest, BurstsAreTakenInOrderAcrossTheDoorbellsOverflow) {
  const auto owner = std::make_unique<Testbed>(GetParam(), simt::Dim3{3, 1, 1},
                                               8, ~uint32_t{0} - 20);
  Testbed& testbed = *owner;
  testbed.Start();
  for (uint64_t n = 0; n < 20; ++n) {
    for (uint64_t i = 1; i <= 8; ++i) testbed.Commit(n * 8 + i);
    testbed.event().ring->RingDoorbell();
    for (uint64_t i = 1; i <= 8; ++i) {
      const uint64_t sequence = n * 8 + i;
      ASSERT_EQ(testbed.Poll().sequence.value(), sequence);
      ASSERT_EQ(testbed.SumOf(sequence), sequence * SumTo(3));
    }
  }
  EXPECT_FALSE(testbed.mixed());
}

TEST_P(PersistentBlocksTest, AFailureIsItsOwnEventsOnly) {
  const auto owner = std::make_unique<Testbed>(GetParam(), simt::Dim3{4, 1, 1});
  Testbed& testbed = *owner;
  testbed.Start();
  for (uint32_t n = 1; n <= 40; ++n) {
    const uint32_t fail = n % 3 == 0 ? n : 0;
    const Completion completion = testbed.RingAndPoll(1, fail);
    ASSERT_EQ(completion.state,
              fail == 0 ? EventState::kDone : EventState::kFailed);
    ASSERT_EQ(completion.status, simt::CompletionStatus(fail));
  }
}

TEST_P(PersistentBlocksTest, ARefusedEntryEndsWithoutATurn) {
  const auto owner = std::make_unique<Testbed>(GetParam(), simt::Dim3{2, 1, 1});
  Testbed& testbed = *owner;
  testbed.Start();
  const shm::RingLayout& layout = testbed.event().kernel->ring().layout();
  for (uint64_t n = 1; n <= 12; ++n) {
    testbed.Commit(n);
    if (n % 2 == 0) {
      reinterpret_cast<shm::EsqEntryHeader*>(
          testbed.device().memory->submission().At(layout.esq_offset +
                                                   n % 4 * layout.entry_bytes))
          ->generation += 1;
    }
    testbed.event().ring->RingDoorbell();
    const Completion completion = testbed.Poll();
    ASSERT_EQ(
        completion.status,
        n % 2 == 0 ? static_cast<uint32_t>(EventStatus::kStaleGeneration) : 0u);
    ASSERT_EQ(testbed.SumOf(n), n % 2 == 0 ? 0 : n * SumTo(2));
  }
}

TEST_P(PersistentBlocksTest, BlocksLeaveBetweenEventsAndOthersGoOn) {
  const auto owner =
      std::make_unique<Testbed>(GetParam(), simt::Dim3{3, 1, 1}, 8);
  Testbed& testbed = *owner;
  uint64_t ended = 0;
  for (uint64_t rung = 0; ended < 100;) {
    testbed.Start(ended + 1);
    while (rung < 100 && testbed.event().ring->free_slots() > 0) {
      testbed.Commit(++rung);
      testbed.event().ring->RingDoorbell();
    }
    const Completion completion = testbed.Poll();
    ASSERT_EQ(completion.sequence.value(), ++ended);
    // All that they took has completed when they are gone.
    testbed.Stop();
    while (const auto next = testbed.event().ring->Poll()) {
      ASSERT_EQ(next->sequence.value(), ++ended);
      testbed.event().ring->Consume();
      ASSERT_EQ(testbed.SumOf(ended), ended * SumTo(3));
    }
    testbed.SumOf(completion.sequence.value());
  }
  EXPECT_EQ(ended, 100u);
  EXPECT_FALSE(testbed.mixed());
}

TEST_P(PersistentBlocksTest, LivesAreStampedWhileTracingAndThenCleared) {
  const auto owner =
      std::make_unique<Testbed>(GetParam(), simt::Dim3{3, 1, 1}, 1);
  Testbed& testbed = *owner;
  const auto life = [&]() -> shm::EventLife& {
    return testbed.event().kernel->ring().life(shm::Sequence(0));
  };
  // Nobody writes there before somebody traces.
  life().finished_ns = 1;
  testbed.Start();
  ASSERT_EQ(testbed.RingAndPoll(1).state, EventState::kDone);
  EXPECT_EQ(life().finished_ns, 1u);
  testbed.Trace(EdgeTracing::kOn);
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = NowNs();
    ASSERT_EQ(testbed.RingAndPoll(1).state, EventState::kDone);
    // The first may have been taken by a look before that.
    if (i == 0) continue;
    EXPECT_GE(life().seen_ns, before);
    EXPECT_GE(life().finished_ns, life().dispatched_ns);
    EXPECT_LE(life().finished_ns, NowNs());
  }
  testbed.Trace(EdgeTracing::kClear);
  testbed.RingAndPoll(1);
  ASSERT_EQ(testbed.RingAndPoll(1).state, EventState::kDone);
  EXPECT_EQ(life().seen_ns, 0u);
  EXPECT_EQ(life().finished_ns, 0u);
}

TEST_P(PersistentBlocksTest, ADoorbellBeyondTheRingIsNotFollowed) {
  const auto owner = std::make_unique<Testbed>(GetParam(), simt::Dim3{2, 1, 1});
  Testbed& testbed = *owner;
  testbed.Start();
  ASSERT_EQ(testbed.RingAndPoll(1).state, EventState::kDone);
  testbed.Commit(2);
  std::atomic_ref doorbell(
      testbed.device().memory->submission().doorbells()[0]);
  doorbell.fetch_add(6);
  const uint64_t looks = testbed.looks();
  while (testbed.looks() < looks + 512) std::this_thread::yield();
  // Not what the device sees, which has not rung for it.
  EXPECT_EQ(testbed.event().kernel->ring().LoadCompletedSequence(2), 0u);
  testbed.Stop();  // and they leave as always
}

}  // namespace
}  // namespace carillon::gpud
