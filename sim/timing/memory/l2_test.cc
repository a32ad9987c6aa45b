// A slice of `tiny` alone: a request a cycle, 32 bytes of data a cycle, a queue
// of two to DRAM. Its port does what the test says.
#include "sim/timing/memory/l2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Port {
  bool CanReply() const { return replies.size() < room; }
  void Reply(const MemoryRequest& request) { replies.push_back(request.tag); }
  void Taken() { ++taken; }

  size_t room = 100;
  std::vector<uint32_t> replies;
  int taken = 0;
};

class L2SliceTest : public testing::Test {
 protected:
  using Blocked = L2Slice::Blocked;

  L2Slice Slice() { return {config_, &counters_}; }
  static void Push(L2Slice& slice, uint64_t line, uint32_t tag,
                   RequestKind kind = RequestKind::kLoad) {
    slice.Push({.line = line, .tag = tag, .sectors = 0xf, .kind = kind}, line,
               0);
  }
  // DRAM takes what is asked for and delivers what is read.
  static void Deliver(L2Slice& slice, Cycle now) {
    while (!slice.demands().empty()) {
      const L2Demand demand = slice.demands().front();
      slice.demands().pop();
      if (!demand.write) slice.Fill(demand, now);
    }
  }
  // A slice that holds lines 0 and 128.
  L2Slice Warm() {
    L2Slice slice = Slice();
    Port port;
    for (const uint64_t line : {0, 128}) {
      Push(slice, line, 0);
      slice.Advance(0, port);
      slice.Advance(1, port);
      Deliver(slice, 2);
      slice.Advance(3, port);
    }
    EXPECT_EQ(port.replies.size(), 2u);
    return slice;
  }

  Config config_ = *LoadConfig("tiny");
  MemoryCounters counters_;
  Port port_;
};

TEST_F(L2SliceTest, DataPassesItsPortOneAfterTheOther) {
  L2Slice slice = Warm();
  Push(slice, 0, 1);
  Push(slice, 128, 2);
  Push(slice, 256, 3);
  EXPECT_EQ(slice.Advance(50, port_), 51u);  // the tags
  EXPECT_EQ(slice.Advance(51, port_), 54u);  // a line is 4 cycles of data
  EXPECT_THAT(port_.replies, ElementsAre(1));
  // A miss needs the tags only.
  EXPECT_EQ(slice.Advance(54, port_), 55u);
  EXPECT_THAT(port_.replies, ElementsAre(1, 2));
  EXPECT_EQ(slice.Advance(55, port_), kNever);
  EXPECT_EQ(port_.taken, 3);
}

TEST_F(L2SliceTest, WhatDramDeliversTakesThePortAsWell) {
  L2Slice slice = Warm();
  Push(slice, 256, 1);
  EXPECT_EQ(slice.Advance(50, port_), kNever);
  Deliver(slice, 51);
  Push(slice, 128, 2);
  EXPECT_EQ(slice.Advance(51, port_), 55u);
  EXPECT_THAT(port_.replies, ElementsAre(1));
  EXPECT_EQ(slice.Advance(55, port_), kNever);
  EXPECT_THAT(port_.replies, ElementsAre(1, 2));
}

TEST_F(L2SliceTest, WithoutAPlaceForItsReplyTheFirstHoldsUpTheRest) {
  L2Slice slice = Warm();
  port_.room = 1;
  Push(slice, 0, 1);
  Push(slice, 128, 2);
  Push(slice, 256, 3);  // a miss
  for (Cycle now = 50; now < 60; ++now) slice.Advance(now, port_);
  EXPECT_THAT(port_.replies, ElementsAre(1));
  EXPECT_EQ(slice.blocked(), Blocked::kReply);
  EXPECT_TRUE(slice.demands().empty());
  EXPECT_EQ(counters_.l2_reply_blocked, 1u);
  port_.room = 2;
  EXPECT_EQ(slice.Advance(60, port_), 61u);
  EXPECT_EQ(slice.Advance(61, port_), kNever);
  EXPECT_EQ(slice.blocked(), Blocked::kNothing);
  EXPECT_EQ(slice.demands().size(), 1u);
}

TEST_F(L2SliceTest, AFullQueueToDramHoldsUpMissesAndStoresThatMayPutOutALine) {
  L2Slice slice = Warm();
  for (uint32_t i = 0; i < 3; ++i) Push(slice, 256 + i * 128, i);
  for (Cycle now = 50; now < 60; ++now) slice.Advance(now, port_);
  EXPECT_EQ(slice.demands().size(), 2u);
  EXPECT_EQ(slice.blocked(), Blocked::kDram);
  EXPECT_EQ(counters_.l2_dram_blocked, 1u);
  slice.demands().pop();
  EXPECT_EQ(slice.Advance(60, port_), kNever);
  EXPECT_EQ(slice.blocked(), Blocked::kNothing);
  // A store to a line that is here puts out none.
  Push(slice, 0, 7, RequestKind::kStore);
  Push(slice, 1024, 8, RequestKind::kStore);
  for (Cycle now = 61; now < 70; ++now) slice.Advance(now, port_);
  EXPECT_THAT(port_.replies, ElementsAre(7));
  EXPECT_EQ(slice.blocked(), Blocked::kDram);
}

TEST_F(L2SliceTest, WhatDramDeliversIsTakenEvenIfNothingElseGoesOn) {
  config_.l2_dram_queue = 1;
  config_.l2.ways = 1;
  config_.l2.bytes = 256;  // a line for each of two slices
  L2Slice slice = Slice();
  Push(slice, 0, 1, RequestKind::kStore);
  Push(slice, 128, 2);
  Push(slice, 128, 3);
  for (Cycle now = 0; now < 20; ++now) slice.Advance(now, port_);
  ASSERT_EQ(slice.demands().size(), 1u);
  const L2Demand read = slice.demands().front();
  port_.room = 1;  // the acknowledgement's
  Push(slice, 256, 4);
  slice.Advance(20, port_);
  EXPECT_EQ(slice.blocked(), Blocked::kDram);
  // The line that was stored to is put out, to a queue that is full.
  slice.Fill(read, 21);
  EXPECT_EQ(slice.demands().size(), 2u);
  slice.demands().pop();
  slice.demands().pop();
  // Nothing is served before what has waited for the line is answered.
  EXPECT_EQ(slice.Advance(30, port_), kNever);
  EXPECT_EQ(slice.blocked(), Blocked::kReply);
  EXPECT_EQ(slice.demands().size(), 0u);
  port_.room = 3;
  EXPECT_EQ(slice.Advance(40, port_), kNever);
  EXPECT_THAT(port_.replies, ElementsAre(1, 2, 3));
  EXPECT_EQ(slice.demands().size(), 1u);
}

TEST_F(L2SliceTest, NothingIsServedBeforeItHasCome) {
  L2Slice slice = Slice();
  slice.Push({.line = 0, .tag = 1, .sectors = 0xf}, 0, TicksOf(10));
  EXPECT_EQ(slice.Advance(3, port_), 10u);
  EXPECT_THAT(port_.replies, IsEmpty());
  EXPECT_EQ(slice.Advance(10, port_), kNever);
  EXPECT_EQ(slice.demands().size(), 1u);
}

}  // namespace
}  // namespace carillon::sim::timing
