// A channel of `tiny`, in cycles worked out by hand: 10 to open a row, 10 to
// close one, 10 from a read to its data, 8 from a write to its data, a cycle for
// each 16 bytes. A row stays open for 20. Rows 1 and 2 share a bank, rows 0 and
// 3 the other.
#include "sim/timing/memory/dram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class DramChannelTest : public testing::Test {
 protected:
  using Done = std::vector<std::pair<uint32_t, Cycle>>;

  DramChannel Channel() { return {config_, &counters_}; }
  static void Push(DramChannel& channel, uint64_t row, uint32_t id, bool write,
                   uint32_t bytes = 128) {
    channel.Push({.address = row * 1024,
                  .bytes = bytes,
                  .demand = {.mshr = id, .write = write}});
  }
  // All that the channel does from `now` on, as (id, when it is done).
  static Done Run(DramChannel& channel, Cycle now = 0) {
    Done done;
    while (now != kNever) {
      now = channel.Advance(
          now,
          [&](const DramRequest& request, Cycle at) {
            done.emplace_back(request.demand.mshr, at);
          },
          [] {});
    }
    return done;
  }
  // Reads of whole lines, which are there at the beginning.
  Done Read(const std::vector<uint64_t>& rows) {
    DramChannel channel = Channel();
    for (uint32_t i = 0; i < rows.size(); ++i) {
      Push(channel, rows[i], i, false);
    }
    return Run(channel);
  }

  Config config_ = *LoadConfig("tiny");
  MemoryCounters counters_;
};

TEST_F(DramChannelTest, BanksWorkAtTheSameTime) {
  EXPECT_THAT(Read({0, 1}), ElementsAre(Pair(0, 28), Pair(1, 36)));
}

TEST_F(DramChannelTest, RowsAreOpenedApart) {
  config_.dram.activate_gap = 30;
  // Opened at 30: 30 + 10 + 10 + 8.
  EXPECT_THAT(Read({0, 1}), ElementsAre(Pair(0, 28), Pair(1, 58)));
}

TEST_F(DramChannelTest, TheFifthRowIsOpenedLongAfterTheFirst) {
  config_.dram.banks = 8;
  config_.dram.four_activates = 100;
  // The first four are opened at 0, 4, 8 and 12, and share the bus. The fifth is
  // opened at 100.
  EXPECT_THAT(Read({0, 1, 2, 3, 4}),
              ElementsAre(Pair(0, 28), Pair(1, 36), Pair(2, 44), Pair(3, 52),
                          Pair(4, 128)));
}

TEST_F(DramChannelTest, ARowThatIsOpenGoesFirst) {
  // The third is a hit. Its last column is at 26; 2 later row 1 is closed:
  // 28 + 10 + 10 + 10 + 8.
  EXPECT_THAT(Read({1, 2, 1}),
              ElementsAre(Pair(0, 28), Pair(2, 36), Pair(1, 66)));
  EXPECT_EQ(counters_.dram_row_hits, 1u);
  EXPECT_EQ(counters_.dram_row_misses, 2u);
}

TEST_F(DramChannelTest, RowHitsPassAnOlderRequestOnlySoOften) {
  // Two pass the second. It has its data at 74: 44 - 10 + 2 when row 1 is
  // closed, then 10 + 10 + 10 + 8. The last one must open row 1 again: row 2 may
  // be closed at 66, 20 after it was opened.
  EXPECT_THAT(Read({1, 2, 1, 1, 1}),
              ElementsAre(Pair(0, 28), Pair(2, 36), Pair(3, 44), Pair(1, 74),
                          Pair(4, 104)));
}

TEST_F(DramChannelTest, WithoutRowHitsTheOldestGoesFirst) {
  config_.dram.row_hits = 0;
  const auto done = Read({1, 2, 1});
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[1].first, 1u);
  EXPECT_EQ(counters_.dram_row_misses, 3u);
}

TEST_F(DramChannelTest, WithoutARowHitTheBankThatIsReadyFirstGoesFirst) {
  // Row 2 must wait for row 1's bank, row 0 need not.
  const auto done = Read({1, 2, 0});
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[1], (std::pair<uint32_t, Cycle>(2, 36)));
}

TEST_F(DramChannelTest, AReadWaitsForTheWriteBefore) {
  DramChannel channel = Channel();
  Push(channel, 0, 0, true);
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 26)));  // 10 + 8 + 8
  Push(channel, 0, 1, false);
  // 5 after the write's data, its command: 26 + 5 + 10 + 8.
  EXPECT_THAT(Run(channel, 1), ElementsAre(Pair(1, 49)));
  EXPECT_EQ(counters_.dram_turns, 2u);
}

TEST_F(DramChannelTest, AWriteLeavesTheBusToTheReadBefore) {
  DramChannel channel = Channel();
  Push(channel, 0, 0, false);
  Push(channel, 0, 1, true);
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 28), Pair(1, 28 + 2 + 8)));
}

TEST_F(DramChannelTest, ARowIsClosedSomeTimeAfterItWasWritten) {
  DramChannel channel = Channel();
  Push(channel, 1, 0, true);
  Push(channel, 2, 1, true);
  // 26 + 6, then 10 + 10 + 8 + 8.
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 26), Pair(1, 68)));
}

TEST_F(DramChannelTest, WritesWaitForEachOther) {
  config_.dram.write_low = 2;
  DramChannel channel = Channel();
  Push(channel, 0, 0, true);
  EXPECT_THAT(Run(channel), IsEmpty());
  Push(channel, 0, 1, true);
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 26)));  // one is not enough
}

TEST_F(DramChannelTest, ReadsAndWritesTakeTurns) {
  DramChannel channel = Channel();
  for (uint32_t i = 0; i < 4; ++i) Push(channel, 0, i, true);
  for (uint32_t i = 4; i < 7; ++i) Push(channel, 0, i, false);
  std::vector<uint32_t> order;
  for (const auto& [id, at] : Run(channel)) order.push_back(id);
  // Three writes are many: two go. Two are left, fewer than that, so they wait
  // for all reads.
  EXPECT_THAT(order, ElementsAre(0, 1, 4, 5, 6, 2, 3));
}

TEST_F(DramChannelTest, ReadsAndWritesHaveRoomOfTheirOwn) {
  DramChannel channel = Channel();
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(channel.HasRoom(false));
    Push(channel, i, i, false);
  }
  EXPECT_FALSE(channel.HasRoom(false));
  EXPECT_TRUE(channel.HasRoom(true));
}

TEST_F(DramChannelTest, LessThanABurstTakesABurst) {
  config_.dram.burst_bytes = 64;
  DramChannel channel = Channel();
  Push(channel, 0, 0, false, 32);
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 24)));
  EXPECT_EQ(counters_.dram_bytes, 64u);
}

TEST_F(DramChannelTest, ARefreshClosesAllRows) {
  config_.dram.refresh_interval = 100;
  config_.dram.refresh = 30;
  DramChannel channel = Channel();
  Push(channel, 0, 0, false);
  EXPECT_THAT(Run(channel), ElementsAre(Pair(0, 28)));
  Push(channel, 0, 1, false);
  // It takes from 100 to 130: 130 + 10 + 10 + 8.
  EXPECT_THAT(Run(channel, 105), ElementsAre(Pair(1, 158)));
  EXPECT_EQ(counters_.dram_refreshes, 1u);
  // Of those at 200 to 1000 nobody feels more than the last one.
  Push(channel, 0, 2, false);
  EXPECT_THAT(Run(channel, 1010), ElementsAre(Pair(2, 1058)));
  EXPECT_EQ(counters_.dram_refreshes, 10u);
}

}  // namespace
}  // namespace carillon::sim::timing
