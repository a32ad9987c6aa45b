#include "tools/hash_sim/hash_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace carillon::hash_sim {
namespace {

constexpr uint32_t kEntries = 1024;
constexpr uint32_t kKeys = 4096;

std::vector<uint32_t> RandomHashes(uint32_t count) {
  std::mt19937 random(7);
  std::vector<uint32_t> hashes(count);
  for (uint32_t& hash : hashes) hash = static_cast<uint32_t>(random());
  return hashes;
}

struct Kind {
  const char* name;
  std::function<std::unique_ptr<HashTable>()> make;
};
class EachTableTest : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(
    All, EachTableTest,
    testing::Values(
        Kind{"Chaining", [] { return MakeChaining(kEntries, kKeys); }},
        Kind{"SetAssociative", [] { return MakeSetAssociative(kEntries, 16); }},
        Kind{"DirectMapped", [] { return MakeSetAssociative(kEntries, 1); }},
        Kind{"Hopscotch", [] { return MakeHopscotch(kEntries); }},
        Kind{"StridedProbe", [] { return MakeStridedProbe(kEntries); }},
        Kind{"Cuckoo", [] { return MakeCuckoo(kEntries); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(EachTableTest, ASetAddsItsKeyAndCostsAtMostOneOther) {
  const auto hashes = RandomHashes(kKeys);
  const auto table = GetParam().make();
  std::set<Key> held;
  std::mt19937 random(1);
  for (int i = 0; i < 6000; ++i) {
    const Key key = static_cast<Key>(random() % kKeys);
    table->Set(key, hashes[key]);
    ASSERT_TRUE(table->Get(key, hashes[key])) << key;
    held.insert(key);
    if (i % 50 != 0) continue;
    // In the order of their last use, so that looking changes nothing of it.
    size_t there = 0;
    for (const Key k : held) there += table->Get(k, hashes[k]) ? 1 : 0;
    EXPECT_LE(there, kEntries);
  }
}

TEST_P(EachTableTest, HoldsNoKeyThatWasNotSet) {
  const auto hashes = RandomHashes(kKeys);
  const auto table = GetParam().make();
  for (Key key = 0; key < kKeys; key += 2) table->Set(key, hashes[key]);
  for (Key key = 1; key < kKeys; key += 2) {
    EXPECT_FALSE(table->Get(key, hashes[key])) << key;
  }
}

// How many of the first `count` keys are still there.
uint32_t Kept(HashTable& table, uint32_t count) {
  const auto hashes = RandomHashes(count);
  for (Key key = 0; key < count; ++key) table.Set(key, hashes[key]);
  uint32_t kept = 0;
  for (Key key = 0; key < count; ++key) {
    kept += table.Get(key, hashes[key]) ? 1 : 0;
  }
  return kept;
}

TEST(Chaining, KeepsAsManyKeysAsItHasEntries) {
  EXPECT_EQ(Kept(*MakeChaining(kEntries, kKeys), kEntries), kEntries);
  EXPECT_EQ(Kept(*MakeChaining(kEntries, kKeys), kKeys), kEntries);
}

// A GET hits when fewer than `entries` other keys were used since its key was.
TEST(Chaining, HitsWhereTheStackDistanceIsBelowItsSize) {
  constexpr uint32_t kFew = 40;
  const auto table = MakeChaining(kFew, 100);
  std::mt19937 random(3);
  std::vector<Key> used;
  for (int i = 0; i < 5000; ++i) {
    const Key key = static_cast<Key>(random() % 100 * (random() % 2));
    std::set<Key> since;
    bool before = false;
    for (size_t k = used.size(); k-- != 0 && !before;) {
      before = used[k] == key;
      if (!before) since.insert(used[k]);
    }
    EXPECT_EQ(table->Get(key, 0), before && since.size() < kFew) << i;
    table->Set(key, 0);
    used.push_back(key);
  }
}

// Each set by itself is a list from the least to the most recently used key.
TEST(SetAssociative, EvictsTheLeastRecentlyUsedKeyOfItsSet) {
  constexpr uint32_t kAll = 64;
  constexpr uint32_t kWays = 4;
  const auto hashes = RandomHashes(300);
  const auto table = MakeSetAssociative(kAll, kWays);
  std::map<uint32_t, std::list<Key>> sets;
  std::mt19937 random(5);
  for (int i = 0; i < 5000; ++i) {
    const Key key = static_cast<Key>(random() % 300);
    std::list<Key>& set = sets[hashes[key] % (kAll / kWays)];
    const auto found = std::ranges::find(set, key);
    EXPECT_EQ(table->Get(key, hashes[key]), found != set.end()) << i;
    if (found != set.end()) set.erase(found);
    set.push_back(key);
    if (set.size() > kWays) set.pop_front();
    table->Set(key, hashes[key]);
  }
}

TEST(StridedProbe, HasSixteenPlacesForEachHashFourApart) {
  const auto table = MakeStridedProbe(kEntries);
  for (Key key = 0; key < kGroup; ++key) table->Set(key, 100);
  for (Key key = 0; key < kGroup; ++key) EXPECT_TRUE(table->Get(key, 100));
  table->Set(99, 100);
  EXPECT_FALSE(table->Get(0, 100)) << "the least recently used one";
  // A group that begins one entry further shares none with it, one that begins four
  // further shares all but one: its seventeenth key would evict.
  table->Set(200, 101);
  for (Key key = 1; key < kGroup; ++key) EXPECT_TRUE(table->Get(key, 100));
  table->Set(201, 104);
  table->Set(202, 104);
  uint32_t left = 0;
  for (Key key = 1; key < kGroup; ++key) left += table->Get(key, 100) ? 1 : 0;
  EXPECT_EQ(left, kGroup - 2);
}

TEST(Hopscotch, MovesKeysSoThatANearlyFullTableLosesNone) {
  EXPECT_EQ(Kept(*MakeHopscotch(kEntries), kEntries * 85 / 100),
            kEntries * 85 / 100);
  // Where nothing is moved, some are lost by then.
  EXPECT_LT(Kept(*MakeSetAssociative(kEntries, 16), kEntries * 85 / 100),
            kEntries * 85 / 100);
}

TEST(Hopscotch, EvictsOfItsGroupWhereAllKeysBelongThere) {
  const auto table = MakeHopscotch(kEntries);
  for (Key key = 0; key <= kGroup; ++key) table->Set(key, 5);
  EXPECT_FALSE(table->Get(0, 5));
  for (Key key = 1; key <= kGroup; ++key) EXPECT_TRUE(table->Get(key, 5));
}

TEST(Cuckoo, MovesKeysToTheirOtherEntriesSoThatAHalfFullTableLosesFew) {
  constexpr uint32_t kHalf = kEntries * 45 / 100;
  EXPECT_GE(Kept(*MakeCuckoo(kEntries), kHalf), kHalf - 2);
  // One entry for each key loses many.
  EXPECT_LT(Kept(*MakeSetAssociative(kEntries, 1), kHalf), kHalf * 9 / 10);
}

TEST(Cuckoo, ThreeKeysOfTheSameTwoEntriesLoseTheLeastRecentlyUsed) {
  const auto table = MakeCuckoo(kEntries);
  for (Key key = 0; key < 3; ++key) table->Set(key, 0x12000005);
  EXPECT_FALSE(table->Get(0, 0x12000005));
  EXPECT_TRUE(table->Get(1, 0x12000005));
  EXPECT_TRUE(table->Get(2, 0x12000005));
}

}  // namespace
}  // namespace carillon::hash_sim
