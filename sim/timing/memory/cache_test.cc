#include "sim/timing/memory/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/timing/memory/mshr.h"

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One set of two lines.
CacheConfig TwoWays() {
  return {.bytes = 256, .line_bytes = 128, .sector_bytes = 32, .ways = 2};
}

TEST(Cache, KeepsTheLinesUsedLast) {
  Cache cache(TwoWays(), 256);
  EXPECT_EQ(cache.Touch(0), 0);
  cache.Insert(0, 0xf, 0);
  cache.Insert(128, 0xf, 0);
  EXPECT_EQ(cache.Touch(0), 0xf);
  cache.Insert(256, 0xf, 0);  // in place of 128
  EXPECT_EQ(cache.Touch(0), 0xf);
  EXPECT_EQ(cache.Touch(128), 0);
  EXPECT_EQ(cache.Touch(256), 0xf);
}

TEST(Cache, SectorsAreValidByThemselves) {
  Cache cache(TwoWays(), 256);
  cache.Insert(0, 0x1, 0);
  EXPECT_EQ(cache.Touch(0), 0x1);
  cache.Insert(0, 0x4, 0);
  EXPECT_EQ(cache.Touch(0), 0x5);
  cache.Invalidate(0);
  EXPECT_EQ(cache.Touch(0), 0);
}

TEST(Cache, WhatIsDirtyComesOut) {
  Cache cache(TwoWays(), 256);
  EXPECT_EQ(cache.Insert(0, 0x3, 0x2).dirty, 0);
  cache.Insert(128, 0xf, 0);
  const Cache::Victim victim = cache.Insert(256, 0xf, 0);
  EXPECT_EQ(victim.line, 0u);
  EXPECT_EQ(victim.dirty, 0x2);
  EXPECT_EQ(cache.Insert(384, 0xf, 0).dirty, 0);  // 128 was clean
}

TEST(Cache, StridesOfAPowerOfTwoUseAllSets) {
  const CacheConfig config{.bytes = 4096, .line_bytes = 128, .ways = 1};
  Cache cache(config, config.bytes);  // 32 sets
  for (uint64_t i = 0; i < 32; ++i) cache.Insert(i * 4096, 1, 0);
  int kept = 0;
  for (uint64_t i = 0; i < 32; ++i) kept += cache.Touch(i * 4096) != 0;
  EXPECT_EQ(kept, 32);
}

TEST(Cache, WhatIsReservedStays) {
  Cache cache({.line_bytes = 128, .ways = 2}, 4 * 128);
  const auto fill = [&](uint64_t lines) {
    for (uint64_t i = 1; i <= lines; ++i) cache.Insert(0x10000 + i * 128, 1, 0);
  };
  EXPECT_TRUE(cache.Reserve(128));
  EXPECT_TRUE(cache.Reserve(128)) << "again";
  EXPECT_TRUE(cache.Reserve(384));
  fill(100);
  EXPECT_NE(cache.Touch(128), 0);
  EXPECT_NE(cache.Touch(384), 0);
  // Other lines keep a way of each set.
  uint32_t more = 0;
  for (uint64_t i = 4; i < 50; ++i) more += cache.Reserve(i * 128);
  EXPECT_EQ(more, 0u);
  EXPECT_EQ(cache.Touch(0x10000 + 100 * 128), 1);
  cache.Clear();
  EXPECT_NE(cache.Touch(128), 0);
  EXPECT_EQ(cache.Touch(0x10000 + 100 * 128), 0);
}

struct Waiter {
  int id = 0;
  Sectors sectors = 0;
};

std::vector<int> Fill(MshrTable<Waiter>& table, uint32_t entry,
                      Sectors sectors) {
  std::vector<int> woken;
  table.Fill(entry, sectors, [&](const Waiter& w) { woken.push_back(w.id); });
  return woken;
}

TEST(Mshr, WakesThoseWhoHaveAllTheirSectors) {
  MshrTable<Waiter> table(2, 3);
  const uint32_t entry = table.Allocate(1024);
  table.entry(entry).asked = 0x3;
  table.Wait(entry, {1, 0x1});
  table.Wait(entry, {2, 0x3});
  table.Wait(entry, {3, 0x2});
  EXPECT_FALSE(table.CanWait(entry));
  EXPECT_THAT(Fill(table, entry, 0x2), ElementsAre(3));
  EXPECT_EQ(table.Find(1024), entry);
  EXPECT_THAT(Fill(table, entry, 0x1), ElementsAre(1, 2));
  EXPECT_EQ(table.Find(1024), table.kNone);
  EXPECT_EQ(table.used(), 0u);
}

TEST(Mshr, FillsUpAndEmpties) {
  MshrTable<Waiter> table(4, 1);
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> entries;
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_FALSE(table.full());
      entries.push_back(table.Allocate(i * 128));
      table.entry(entries.back()).asked = 1;
    }
    EXPECT_TRUE(table.full());
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(table.Find(i * 128), entries[i]);
    }
    for (const uint32_t entry : entries) {
      EXPECT_THAT(Fill(table, entry, 1), IsEmpty());
    }
    EXPECT_EQ(table.used(), 0u);
  }
}

}  // namespace
}  // namespace carillon::sim::timing
