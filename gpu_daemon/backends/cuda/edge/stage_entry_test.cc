#include "gpu_daemon/backends/cuda/edge/stage_entry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "gpu_daemon/backends/cuda/edge/edge_testbed.h"

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

}  // namespace
}  // namespace carillon::gpud::edge_test
