// Cycles on `tiny`, worked out by hand. All clocks are alike. A request of h
// bytes of header (32) and data takes (h + data) / 32 flits, one per cycle, and
// 5 cycles; the L2 takes 20; DRAM 10 to activate a row, 10 to precharge, 10 for
// a column, and a cycle for each 16 bytes.
#include "sim/timing/memory/memory_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::Pair;

struct Sent {
  Cycle at = 0;
  MemoryRequest request;
};

// When the reply for each tag comes, in that order.
std::vector<std::pair<uint32_t, Cycle>> Replies(MemorySystem& memory,
                                                std::vector<Sent> sent) {
  std::vector<std::pair<uint32_t, Cycle>> replies;
  size_t next = 0;
  for (Cycle now = 0; replies.size() < sent.size() && now < 100000; ++now) {
    memory.Advance(now, [&](const MemoryRequest& reply) {
      replies.emplace_back(reply.tag, now);
    });
    for (; next < sent.size() && sent[next].at == now; ++next) {
      memory.Send(sent[next].request, now);
    }
  }
  return replies;
}

MemoryRequest Load(uint64_t line, uint32_t tag, Sectors sectors = 0xf) {
  return {.line = line, .tag = tag, .sectors = sectors};
}
MemoryRequest Store(uint64_t line, uint32_t tag, Sectors sectors = 0xf) {
  return {.line = line,
          .tag = tag,
          .sectors = sectors,
          .kind = RequestKind::kStore};
}

class MemorySystemTest : public testing::Test {
 protected:
  Config config_ = *LoadConfig("tiny");
};

TEST_F(MemorySystemTest, AColdLoadTakesAllOfTheWay) {
  MemorySystem memory(config_);
  // 6 there, 20, 10 + 10 + 128 / 16, 10 back.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}}), ElementsAre(Pair(1, 64)));
  EXPECT_EQ(memory.counters().l2_load_misses, 1u);
  EXPECT_EQ(memory.counters().dram_bytes, 128u);
}

TEST_F(MemorySystemTest, ASectorIsLessToMove) {
  MemorySystem memory(config_);
  // 6, 20, 10 + 10 + 2, 7.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1, 0x4)}}),
              ElementsAre(Pair(1, 55)));
  EXPECT_EQ(memory.counters().dram_bytes, 32u);
}

TEST_F(MemorySystemTest, TheL2KeepsWhatItFetched) {
  MemorySystem memory(config_);
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}, {100, Load(0, 2)}}),
              ElementsAre(Pair(1, 64), Pair(2, 136)));  // 6, 20, 10
  EXPECT_EQ(memory.counters().l2_load_hits, 1u);
}

TEST_F(MemorySystemTest, OnlyMissingSectorsAreFetched) {
  MemorySystem memory(config_);
  // The second: 6, 20, a row that is open: 10 + 96 / 16, 10.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1, 0x1)}, {100, Load(0, 2, 0xf)}}),
              ElementsAre(Pair(1, 55), Pair(2, 152)));
  EXPECT_EQ(memory.counters().dram_bytes, 128u);
}

TEST_F(MemorySystemTest, RowsCostWhenTheyChange) {
  MemorySystem memory(config_);
  // Lines 0 and 128 share a row; DRAM's rows 1 and 2 share a bank.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}, {100, Load(128, 2)}}),
              ElementsAre(Pair(1, 64), Pair(2, 154)));  // without activate
  EXPECT_EQ(memory.counters().dram_row_hits, 1u);
  EXPECT_EQ(memory.counters().dram_row_misses, 1u);
}

TEST_F(MemorySystemTest, LoadsOfALineOnItsWayWaitForIt) {
  MemorySystem memory(config_);
  // One line from DRAM; the second reply's five flits follow the first's.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}, {3, Load(0, 2)}}),
              ElementsAre(Pair(1, 64), Pair(2, 69)));
  EXPECT_EQ(memory.counters().l2_load_merges, 1u);
  EXPECT_EQ(memory.counters().dram_reads, 1u);
}

TEST_F(MemorySystemTest, ASliceWithoutMshrsWaits) {
  config_.l2.mshrs = 2;  // one for each slice
  MemorySystem memory(config_);
  ASSERT_EQ(memory.LocationOf(0).slice, memory.LocationOf(128).slice);
  // The second reaches DRAM when the first has left it, at 54: 10 + 8, 10.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}, {0, Load(128, 2)}}),
              ElementsAre(Pair(1, 64), Pair(2, 82)));
  EXPECT_GT(memory.counters().l2_blocked, 0u);
}

TEST_F(MemorySystemTest, DramGivesItsBandwidthAndNoMore) {
  config_.l2.mshrs = 256;
  config_.dram.row_bytes = 65536;
  MemorySystem memory(config_);
  std::vector<Sent> sent;
  for (uint32_t i = 0; i < 64; ++i) sent.push_back({0, Load(i * 128, i)});
  const auto replies = Replies(memory, sent);
  ASSERT_EQ(replies.size(), 64u);
  EXPECT_EQ(replies.back().second, 64u + 63 * 8);
}

TEST_F(MemorySystemTest, AnSMsPortGivesItsBandwidthAndNoMore) {
  config_.l2.mshrs = 256;
  config_.l2.merges = 64;
  MemorySystem memory(config_);
  std::vector<Sent> sent;
  for (uint32_t i = 0; i < 64; ++i) sent.push_back({0, Load(0, i)});
  const auto replies = Replies(memory, sent);
  ASSERT_EQ(replies.size(), 64u);
  // DRAM delivers at 54; those that come later hit. Five flits each.
  EXPECT_EQ(replies.back().second, 64u + 63 * 5);
}

TEST_F(MemorySystemTest, StoresAreAcknowledgedByTheL2) {
  MemorySystem memory(config_);
  // 5 flits: 10 there, 20, 6 back. A load then finds it.
  EXPECT_THAT(Replies(memory, {{0, Store(0, 1)}, {100, Load(0, 2)}}),
              ElementsAre(Pair(1, 36), Pair(2, 136)));
  EXPECT_EQ(memory.counters().dram_reads, 0u);
  EXPECT_EQ(memory.counters().dram_writes, 0u);
}

TEST_F(MemorySystemTest, WhatWasStoredIsWrittenBackWhenItsLineGoes) {
  MemorySystem memory(config_);
  std::vector<Sent> sent;
  // Stores of twice the L2's size.
  for (uint32_t i = 0; i < 128; ++i) {
    sent.push_back({i * 50, Store(i * 128, i)});
  }
  Replies(memory, sent);
  EXPECT_EQ(memory.counters().l2_write_backs, 64u);
  EXPECT_EQ(memory.counters().dram_bytes, 64u * 128);
}

TEST_F(MemorySystemTest, AtomicsTakeASliceForEachLane) {
  MemorySystem memory(config_);
  MemoryRequest atomic = Store(0, 2, 0x1);
  atomic.kind = RequestKind::kAtomic;
  atomic.lanes = 32;
  MemoryRequest load = Load(0, 3, 0x1);
  // The atomic: 128 bytes of operands are 5 flits: 10, 20, 10 back. The load is
  // there 2 later, and waits for 1 + 32 * 2 cycles from 130 on; then 7.
  EXPECT_THAT(Replies(memory, {{0, Load(0, 1)}, {100, atomic}, {102, load}}),
              ElementsAre(Pair(1, 64), Pair(2, 140), Pair(3, 202)));
  EXPECT_EQ(memory.counters().l2_atomics, 1u);
}

// --- Full queues.

// Sends loads of lines of one slice, all of them misses, as fast as the SM may,
// until nothing goes any more or `most` are under way. Returns the cycle.
Cycle SendUntilFull(MemorySystem& memory, uint32_t sm, uint32_t slice,
                    uint32_t most, uint32_t& sent) {
  Cycle now = 0;
  uint64_t line = 0;
  for (Cycle idle = 0; idle < 8 && sent < most; ++now, ++idle) {
    memory.Advance(now, [](const MemoryRequest&) {});
    while (sent < most && memory.CanSend(sm, now)) {
      while (memory.LocationOf(line).slice != slice) line += 128;
      MemoryRequest load = Load(line, sent++);
      load.sm = static_cast<uint16_t>(sm);
      memory.Send(load, now);
      line += 128;
      idle = 0;
    }
  }
  return now;
}

TEST_F(MemorySystemTest, ASliceThatDoesNotGetOnStopsTheSMsThatSendToIt) {
  config_.sm.count = 2;
  config_.l2.mshrs = 2;  // one for each slice
  config_.dram.latency = 1000;
  MemorySystem memory(config_);
  // The slice has one in its MSHR, and credits for two that wait and the 25
  // that the way of 25 cycles holds. The SM has two in its queue.
  uint32_t sent = 0;
  Cycle now = SendUntilFull(memory, 0, 0, 100, sent);
  EXPECT_EQ(sent, 1u + 2 + 25 + 2);
  EXPECT_FALSE(memory.CanSend(0, now));
  // Nothing else goes from this SM, not even to the other slice. Another SM's
  // request to that is not held up.
  EXPECT_TRUE(memory.CanSend(1, now));
  uint64_t other = 0;
  while (memory.LocationOf(other).slice != 1) other += 128;
  MemoryRequest load = Load(other, 1000);
  load.sm = 1;
  memory.Send(load, now);
  load.tag = 2000;
  load.sm = 0;
  load.kind = RequestKind::kFetch;  // which the SM may always send
  memory.Send(load, now);
  EXPECT_GT(memory.counters().request_stalls, 0u);
  // SM 1's request is answered first. The fetch of the same line goes when two of
  // slice 0's have got on and given credits to the two before it. SM 0 is told
  // once that there is room.
  std::vector<uint32_t> order;
  int rooms = 0;
  for (const Cycle end = now + 50000; ++now < end && !memory.idle();) {
    memory.Advance(now, [&](const MemoryRequest& reply) {
      if (reply.kind == RequestKind::kRoom) {
        ++rooms;
        EXPECT_EQ(reply.sm, 0);
        return;
      }
      order.push_back(reply.tag);
    });
  }
  EXPECT_EQ(rooms, 1);
  ASSERT_EQ(order.size(), sent + 2);
  EXPECT_EQ(std::ranges::find(order, 2000u) - order.begin(), 3);
  EXPECT_LT(std::ranges::find(order, 1000u) - order.begin(), 3);
}

TEST_F(MemorySystemTest, AnSMIsToldOfRoomInTheCycleForWhichItAsked) {
  config_.l2.mshrs = 2;  // one for each slice
  config_.dram.latency = 1000;
  // The cycles in which it is told, if it asks in cycle `in` for cycle `at`, and
  // if `early` also as soon as all is full.
  const auto told = [&](Cycle in, Cycle at, bool early) {
    MemorySystem memory(config_);
    uint32_t sent = 0;
    Cycle now = 0;
    for (uint64_t line = 0; now < 100; ++now) {
      memory.Advance(now, [](const MemoryRequest&) {});
      while (memory.CanSend(0, kNever)) {
        while (memory.LocationOf(line).slice != 0) line += 128;
        memory.Send(Load(line, sent++), now);
        line += 128;
      }
    }
    EXPECT_FALSE(memory.CanSend(0, early ? now : kNever));
    std::vector<Cycle> cycles;
    for (; now < 5000; ++now) {
      memory.Advance(now, [&](const MemoryRequest& reply) {
        if (reply.kind == RequestKind::kRoom) cycles.push_back(now);
      });
      EXPECT_TRUE(now != in || !memory.CanSend(0, at));
    }
    return cycles;
  };
  const std::vector<Cycle> late = told(kNever, kNever, true);
  ASSERT_EQ(late.size(), 1u);
  const Cycle has_room = late[0] - 1;
  EXPECT_THAT(told(has_room - 1, has_room, false), ElementsAre(has_room));
  EXPECT_THAT(told(has_room - 2, has_room - 1, false),
              ElementsAre(has_room + 1));
  EXPECT_THAT(told(has_room - 1, has_room, true),
              ElementsAre(has_room, has_room + 1));
}

TEST_F(MemorySystemTest, AnSMThatIsSlowToTakeRepliesStopsTheSlice) {
  config_.sm.count = 2;
  config_.interconnect.reply_bytes = 1;  // 160 cycles for a line
  config_.l2.mshrs = 256;
  config_.l2.merges = 64;
  MemorySystem memory(config_);
  // SM 0 asks for the same line so often that its replies fill the slice.
  std::vector<Sent> sent;
  for (uint32_t i = 0; i < 16; ++i) sent.push_back({0, Load(0, i)});
  MemoryRequest load = Load(0, 100);
  load.sm = 1;
  sent.push_back({200, load});
  const auto replies = Replies(memory, sent);
  ASSERT_EQ(replies.size(), 17u);
  EXPECT_GT(memory.counters().reply_stalls, 0u);
  EXPECT_GT(memory.counters().l2_reply_blocked, 0u);
  // The first reply is complete at 54 + 5 + 160, and one more each 160 cycles.
  // There are credits for 2 + 1, so 11 of SM 0's others have gone on their way
  // before the one behind them can: that is when the 13th of its 16 arrives...
  Cycle at = 0;
  for (const auto& [tag, cycle] : replies) {
    if (tag == 100) at = cycle;
  }
  EXPECT_GT(at, 54 + 5 + 160 * 12u);
  // ... and otherwise it would be there at once.
  MemorySystem empty(config_);
  const auto alone = Replies(empty, {{0, Load(0, 1)}, {200, load}});
  EXPECT_EQ(alone.back().second, 200u + 6 + 20 + 5 + 160);
}

TEST_F(MemorySystemTest, AFetchWaitsBehindABusyChannelAsALoadDoes) {
  const auto took = [&](RequestKind kind) {
    MemorySystem memory(config_);
    std::vector<Sent> sent;
    for (uint32_t i = 0; i < 40; ++i) sent.push_back({i, Load(i * 1024, i)});
    MemoryRequest probe = Load(uint64_t{1} << 30, 1000);
    probe.kind = kind;
    sent.push_back({60, probe});
    for (const auto& [tag, cycle] : Replies(memory, sent)) {
      if (tag == 1000) return cycle - 60;
    }
    return Cycle{0};
  };
  EXPECT_GT(took(RequestKind::kFetch), 500u);  // alone it is 64
  EXPECT_EQ(took(RequestKind::kFetch), took(RequestKind::kLoad));
}

TEST_F(MemorySystemTest, WritesComeInBetweenReads) {
  // 32 stores fill the L2's half of one slice, and what follows puts them out.
  MemorySystem memory(config_);
  std::vector<Sent> sent;
  for (uint32_t i = 0; i < 64; ++i) sent.push_back({i * 40, Store(i * 128, i)});
  for (uint32_t i = 64; i < 128; ++i) {
    sent.push_back({64 * 40 + i, Load(i * 128, i)});
  }
  EXPECT_EQ(Replies(memory, sent).size(), 128u);
  EXPECT_EQ(memory.counters().dram_reads, 64u);
  EXPECT_EQ(memory.counters().l2_write_backs, 64u);
  EXPECT_GT(memory.counters().dram_turns, 2u);
}

TEST_F(MemorySystemTest, NoTwoLinesShareAPlace) {
  for (const char* preset : {"tiny", "edge_table2", "gtx980"}) {
    const MemorySystem memory(*LoadConfig(preset));
    std::set<std::pair<uint32_t, uint64_t>> places;
    std::map<uint32_t, int> in_slice;
    for (uint64_t line = 0; line < 8192; ++line) {
      const auto location = memory.LocationOf((uint64_t{1} << 40) + line * 128);
      EXPECT_TRUE(places.emplace(location.slice, location.line).second) << line;
      ++in_slice[location.slice];
    }
    for (const auto& [slice, lines] : in_slice) {
      EXPECT_NEAR(lines, 8192 / static_cast<double>(in_slice.size()), 4);
    }
  }
}

TEST_F(MemorySystemTest, StridesOfAPowerOfTwoUseAllSlices) {
  Config config = *LoadConfig("gtx980");
  ASSERT_EQ(config.l2_slices, 16u);
  const MemorySystem memory(config);
  for (uint64_t stride = 128; stride <= 1 << 16; stride *= 2) {
    std::set<uint32_t> slices;
    for (uint64_t i = 0; i < 128; ++i) {
      slices.insert(memory.LocationOf(i * stride).slice);
    }
    EXPECT_GE(slices.size(), 15u) << stride;
  }
}

}  // namespace
}  // namespace carillon::sim::timing
