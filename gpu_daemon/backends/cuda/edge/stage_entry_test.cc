#include "gpu_daemon/backends/cuda/edge/stage_entry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "gpu_daemon/backends/cuda/edge/edge_testbed.h"
#include "gpu_daemon/backends/cuda/edge/launch_staged.h"

namespace carillon::gpud::edge_test {
namespace {

TEST(StageEntryTest, BuildsTheFrameOrEndsTheEvent) {
  Testbed testbed({.name = "", .dispatchers = 1, .rings = {4}});
  Ring& ring = *testbed.rings()[0];
  const EdgeEntry& entry = testbed.table().entries[ring.index];
  simt::EventTotals totals = {};
  EdgeThreadPort port(nullptr, 0);
  alignas(16) std::byte copy[256];
  MixParameters bad = Parameters(2, 1);
  bad.in.offset = kInBytes + 1;
  testbed.Commit(ring, Parameters(1, 7));
  testbed.Commit(ring, bad);
  ring.event.ring->RingDoorbell();
  StageEntry(port, entry, &totals, nullptr, 1, copy);
  StageEntry(port, entry, &totals, nullptr, 2, copy);

  simt::EventFrame& good = *entry.Frame(1, 0);
  EXPECT_EQ(good.sequence, 1u);
  EXPECT_EQ(good.ecq, &entry.ecq[1]);
  EXPECT_EQ(good.scratch, &entry.scratch[2]);
  MixArgs args;
  std::memcpy(&args, good.args(), sizeof(args));
  EXPECT_EQ(args.b, 7u);
  EXPECT_EQ(args.out.data, ring.out + 1);
  EXPECT_FALSE(ring.event.ring->Poll().has_value());
  EXPECT_EQ(entry.Frame(2, 0)->ecq, nullptr);
  EXPECT_EQ(ring.event.kernel->ring().LoadCompletedSequence(2), 2u);
  EXPECT_EQ(static_cast<EventStatus>(entry.ecq[2].status),
            EventStatus::kBadBufferRef);
  EXPECT_EQ(totals.launched, 1u);
  EXPECT_EQ(totals.refused, 1u);
}

// The host lets a stream go whose doorbell has not rung.
TEST(StageEntryTest, AClosedGateRunsAndEndsNothing) {
  Testbed testbed({.name = "", .dispatchers = 1, .rings = {4}});
  Ring& ring = *testbed.rings()[0];
  const EdgeEntry& entry = testbed.table().entries[ring.index];
  EdgeThreadPort port(&testbed.gpu(), 0);
  alignas(16) std::byte copy[256];
  // A sanitizer's stack is not aligned so far.
  const auto on_heap = std::make_unique<StageGate>();
  StageGate& gate = *on_heap;
  testbed.Commit(ring, Parameters(1, 7));
  StageEntry(port, entry, nullptr, &gate, 1, copy);
  EXPECT_EQ(gate.staged, 1u);
  EXPECT_NE(entry.Frame(1, 0)->ecq, nullptr) << "open";
  gate.closed = 1;
  // One that is there and one that nobody has written.
  for (const uint64_t sequence : {1, 2}) {
    StageEntry(port, entry, nullptr, &gate, sequence, copy);
    EXPECT_EQ(gate.staged, sequence);
    EXPECT_EQ(entry.Frame(entry.SlotOf(sequence), 0)->ecq, nullptr);
    EXPECT_EQ(entry.ecq[entry.SlotOf(sequence)].sequence, 0u);
  }
}

// A user's kernel, which its graph launches.
TEST(LaunchStagedTest, LaunchesOnlyWhatIsThereAndSaysWhatIsNotLaunched) {
  class OneLaunch : public EdgeThreadGpu {
   public:
    LaunchOutcome Launch(uint32_t, uint64_t exec, uint64_t*) override {
      launched.push_back(exec);
      return outcome;
    }
    bool Relaunch(uint32_t, uint64_t*) override { return false; }
    void RunInline(const EdgeEntry&, const std::byte*, uint32_t*) override {}
    void Trap() override {}
    bool alive() const override { return true; }

    LaunchOutcome outcome = LaunchOutcome::kLaunched;
    std::vector<uint64_t> launched;
  } gpu;
  EdgeThreadPort port(&gpu, 0);
  shm::EcqEntry entry = {};
  shm::EventLife life = {.rung_ns = 1};
  simt::EventFrame frame = {};
  LaunchStaged(port, frame, 5);
  EXPECT_TRUE(gpu.launched.empty()) << "there is no event";
  frame.ecq = &entry;
  frame.life = &life;
  frame.sequence = 9;
  LaunchStaged(port, frame, 6);
  EXPECT_EQ(gpu.launched, std::vector<uint64_t>{6});
  EXPECT_EQ(entry.sequence, 0u) << "its graph completes it";
  for (const LaunchOutcome outcome :
       {LaunchOutcome::kBusy, LaunchOutcome::kError}) {
    gpu.outcome = outcome;
    LaunchStaged(port, frame, 6);
    EXPECT_EQ(entry.sequence, frame.sequence);
    EXPECT_EQ(entry.state, EventState::kFailed);
    EXPECT_EQ(entry.status, static_cast<uint32_t>(EventStatus::kNotLaunched));
    EXPECT_EQ(life.rung_ns, 0u);
    ++frame.sequence;
  }
}

}  // namespace
}  // namespace carillon::gpud::edge_test
