// Cycles on `tiny`, worked out by hand. All clocks are alike. A request of h
// bytes of header (32) and data takes (h + data) / 32 flits, one per cycle, and
// 5 cycles; the L2 takes 20; DRAM 10 to activate a row, 10 to precharge, 10 for
// a column, and a cycle for each 16 bytes.
#include "sim/timing/memory/memory_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const MemorySystem memory(*LoadConfig("edge_table2"));
  for (uint64_t stride = 128; stride <= 1 << 16; stride *= 2) {
    std::set<uint32_t> slices;
    for (uint64_t i = 0; i < 64; ++i) {
      slices.insert(memory.LocationOf(i * stride).slice);
    }
    EXPECT_GE(slices.size(), 7u) << stride;
  }
}

// --- A channel alone. Rows 1 and 2 share a bank, row 0 has the other.

std::vector<std::pair<uint32_t, Cycle>> Serve(DramChannel& channel,
                                              std::vector<uint64_t> rows) {
  for (uint32_t i = 0; i < rows.size(); ++i) {
    channel.Push({.address = rows[i] * 1024,
                  .bytes = 128,
                  .demand = {.mshr = i, .write = false}});
  }
  std::vector<std::pair<uint32_t, Cycle>> done;
  for (Cycle now = 0; now != kNever;) {
    now = channel.Advance(now, [&](const DramRequest& request, Cycle at) {
      done.emplace_back(request.demand.mshr, at);
    });
  }
  return done;
}

TEST(DramChannel, BanksWorkAtTheSameTime) {
  MemoryCounters counters;
  DramChannel channel(*LoadConfig("tiny"), &counters);
  EXPECT_THAT(Serve(channel, {0, 1}), ElementsAre(Pair(0, 28), Pair(1, 36)));
}

TEST(DramChannel, ARowThatIsOpenGoesFirst) {
  MemoryCounters counters;
  DramChannel channel(*LoadConfig("tiny"), &counters);
  // The second's row is opened when the first's was open for 20 and has given
  // its last column, at 26: 10 + 10 + 10 + 8.
  EXPECT_THAT(Serve(channel, {1, 2, 1}),
              ElementsAre(Pair(0, 28), Pair(2, 36), Pair(1, 64)));
}

TEST(DramChannel, OnlyTheWindowIsLookedAt) {
  Config config = *LoadConfig("tiny");
  config.dram.window = 1;
  MemoryCounters counters;
  DramChannel channel(config, &counters);
  const auto done = Serve(channel, {1, 2, 1});
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[1].first, 1u);
  EXPECT_EQ(counters.dram_row_misses, 3u);
}

}  // namespace
}  // namespace carillon::sim::timing
