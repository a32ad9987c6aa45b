// The hash table's eviction order and the value store's memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

std::string SetLine(const std::string& key, const std::string& value,
                    const std::string& verb = "set") {
  return verb + " " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\n";
}
std::string ValueText(const std::string& key, const std::string& value) {
  return "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\nEND\r\n";
}
uint64_t Stat(MemcServer& server, const std::string& name) {
  const std::string stats = server.Say("stats\r\n");
  const size_t at = stats.find("STAT " + name + " ");
  if (at == std::string::npos) return ~uint64_t{0};
  return std::stoull(stats.substr(at + name.size() + 6));
}
const char kNoMemory[] = "SERVER_ERROR out of memory storing object\r\n";

TEST(MemcTable, ASetKeeps16KeysAndEvictsTheLeastRecentlyUsed) {
  MemcServer server(1, 4);
  // The expected contents of the set, most recently used first.
  std::list<std::string> order;
  uint64_t evictions = 0;
  std::mt19937 random(7);
  const auto use = [&order](const std::string& key) {
    const auto found = std::ranges::find(order, key);
    const bool there = found != order.end();
    if (there) order.erase(found);
    order.push_front(key);
    return there;
  };
  for (int step = 0; step < 20000; ++step) {
    const std::string key = "k" + std::to_string(random() % 24);
    const bool there = std::ranges::find(order, key) != order.end();
    switch (random() % 6) {
      case 0:
      case 1:
        ASSERT_EQ(server.Say(SetLine(key, key)), "STORED\r\n");
        use(key);
        break;
      case 2:
        // A failed add counts as a use.
        ASSERT_EQ(server.Say(SetLine(key, key, "add")),
                  there ? "NOT_STORED\r\n" : "STORED\r\n");
        use(key);
        break;
      case 3:
        ASSERT_EQ(server.Say("touch " + key + " 0\r\n"),
                  there ? "TOUCHED\r\n" : "NOT_FOUND\r\n");
        if (there) use(key);
        break;
      default:
        ASSERT_EQ(server.Get("get " + key + "\r\n").Text(),
                  there ? ValueText(key, key) : "END\r\n")
            << "step " << step << " " << key;
        if (there) use(key);
    }
    if (order.size() > 16) {
      order.pop_back();
      ++evictions;
    }
  }
  EXPECT_EQ(Stat(server, "curr_items"), 16u);
  EXPECT_EQ(Stat(server, "evictions"), evictions);
  EXPECT_GT(evictions, 1000u);
}

TEST(MemcTable, EvictsTheDeadBeforeTheLiving) {
  MemcServer server(1, 4);
  for (int i = 0; i < 16; ++i) {
    server.Say("set k" + std::to_string(i) + (i == 9 ? " 0 5 1" : " 0 0 1") +
               "\r\nx\r\n");
  }
  server.now_s += 5;
  server.Say(SetLine("new", "x"));
  EXPECT_EQ(server.Say("get k0\r\n"), "VALUE k0 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(Stat(server, "curr_items"), 16u);
}

TEST(MemcTable, TellsKeysOfTheSameHashApart) {
  MemcServer server(4, 4);
  // The two keys have the same lookup3 hash.
  server.Say(SetLine("key-0026315", "a"));
  server.Say(SetLine("key-0108359", "b"));
  EXPECT_EQ(server.Say("get key-0026315\r\n"), ValueText("key-0026315", "a"));
  EXPECT_EQ(server.Say("get key-0108359\r\n"), ValueText("key-0108359", "b"));

  // The second key continues into the first one's value.
  server.Say(SetLine("key", "abc"));
  const std::string bytes = "keyabc" + std::string(memc::kReadSlack, ' ');
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const uint32_t hash = memc::HashKey(data, 3);
  memc::Table table(server.table_memory.span(), server.store_memory.span(),
                    server.now_s);
  memc::Set* set = table.SetOf(hash);
  for (uint32_t length = 1; length <= 6; ++length) {
    const memc::Found found = table.FindAny(set, {data, length, hash});
    EXPECT_EQ(found.item != nullptr, length == 3) << length;
  }
}

TEST(MemcTable, SpreadsKeysOverAllSets) {
  MemcServer server(64, 16);
  for (int i = 0; i < 512; ++i) {
    server.Say(SetLine("key" + std::to_string(i), "x"));
  }
  // Half full on average; a few sets of so many may overflow, not more.
  EXPECT_GT(Stat(server, "curr_items"), 495u);
}

TEST(MemcStore, ClassesHoldWhatTheyMustAndWasteLittle) {
  for (uint64_t bytes = 1; bytes <= memc::kMaxClassBytes; ++bytes) {
    const uint64_t block = memc::Store::RoundUp(bytes);
    ASSERT_GE(block, bytes);
    ASSERT_EQ(block % memc::kBlockUnit, 0u);
    ASSERT_LE(block, bytes + std::max(memc::kBlockUnit, bytes / 4)) << bytes;
  }
  EXPECT_EQ(memc::Store::RoundUp(memc::kMaxClassBytes + 1), 65536u);
  EXPECT_EQ(memc::Store::RoundUp(65537), 131072u);
}

TEST(MemcStore, BlocksNeverOverlapAndEveryByteComesBack) {
  constexpr uint32_t kPages = 40;
  const Memory memory(StoreBytes(kPages));
  memc::Store store(memory.span());
  ASSERT_EQ(store.pages(), kPages);
  ASSERT_TRUE(store.Open());
  std::mt19937 random(11);
  struct Block {
    memc::BlockRef ref;
    uint64_t bytes;
    uint8_t fill;
  };
  std::vector<Block> blocks;
  uint64_t failures = 0;
  for (int step = 0; step < 30000; ++step) {
    // The store fills up and empties, again and again.
    const bool grow = random() % 100 < (step / 3000 % 2 == 0 ? 65u : 35u);
    if (grow) {
      const uint64_t bytes =
          32 + (random() % 8 == 0 ? random() % 200000 : random() % 3000);
      const memc::BlockRef ref = store.Allocate(bytes);
      if (ref == 0) {
        ++failures;
        continue;
      }
      ASSERT_EQ(store.BlockBytes(ref), memc::Store::RoundUp(bytes));
      uint8_t* data = store.At(ref, store.BlockBytes(ref));
      ASSERT_NE(data, nullptr);
      blocks.push_back({ref, bytes, static_cast<uint8_t>(random())});
      std::memset(data, blocks.back().fill, bytes);
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block block = blocks.back();
      blocks.pop_back();
      const uint8_t* data = store.At(block.ref, block.bytes);
      ASSERT_TRUE(std::all_of(data, data + block.bytes,
                              [&](uint8_t b) { return b == block.fill; }));
      store.Free(block.ref);
    }
  }
  EXPECT_GT(failures, 0u);
  for (const Block& block : blocks) store.Free(block.ref);
  // Nothing is lost if one block can have all of it.
  EXPECT_NE(store.Allocate(kPages * memc::kPageBytes), 0u);
  EXPECT_EQ(store.Allocate(1), 0u);
  EXPECT_TRUE(store.Open());
}

TEST(MemcStore, AValueLargerThanTheStoreIsRefusedAndLeavesNoOldOne) {
  MemcServer server(16, 1);
  EXPECT_EQ(server.Say(SetLine("k", "old")), "STORED\r\n");
  EXPECT_EQ(server.Say(SetLine("k", std::string(100000, 'v'))), kNoMemory);
  EXPECT_EQ(server.Say("get k\r\n"), "END\r\n");
  EXPECT_EQ(server.Say(SetLine("k", "old")), "STORED\r\n");
  EXPECT_EQ(server.Say(SetLine("k", std::string(100000, 'v'), "replace")),
            kNoMemory);
  EXPECT_EQ(server.Say(SetLine("k", std::string(100000, 'v'), "append")),
            kNoMemory);
  EXPECT_EQ(server.Say("get k\r\n"), ValueText("k", "old"));
  // Too large for any store.
  EXPECT_EQ(server.Say("set k 0 0 1048577\r\n"),
            "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(server.Say("get k\r\n"), "END\r\n");
  EXPECT_EQ(Stat(server, "store_no_memory"), 3u);
  EXPECT_EQ(Stat(server, "store_too_large"), 1u);
}

TEST(MemcStore, AFullStoreMakesRoomForItemsOfTheSameSize) {
  // With many sets it is the store that is full, not a set.
  MemcServer server(4096, 2);
  for (int i = 0; i < 10000; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(server.Say(SetLine(key, "v")), "STORED\r\n") << i;
    ASSERT_EQ(server.Say("get " + key + "\r\n"), ValueText(key, "v"));
  }
  EXPECT_EQ(Stat(server, "curr_items"), 2048u);
  EXPECT_EQ(Stat(server, "evictions"), 10000u - 2048);
}

TEST(MemcStore, AFullStoreMakesRoomForItemsOfAnotherSize) {
  MemcServer server(4096, 20);
  for (int i = 0; i < 20 * 1024; ++i) {
    server.Say("set key" + std::to_string(i) + " 0 0 1 noreply\r\nv\r\n");
  }
  const uint64_t before = Stat(server, "curr_items");
  EXPECT_GT(before, 19000u);
  // One page of small ones goes for a medium one ...
  EXPECT_EQ(server.Say(SetLine("medium", std::string(5000, 'm'))),
            "STORED\r\n");
  EXPECT_GE(Stat(server, "curr_items"), before - 1024);
  // ... 17 for a large one, and back again.
  const std::string large(memcached::kMaxValueBytes, 'l');
  EXPECT_EQ(server.Say(SetLine("large", large)), "STORED\r\n");
  server.stride = memcached::kLargeReplyStride;
  EXPECT_TRUE(server.Say("get large\r\n") == ValueText("large", large));
  server.stride = 4096;
  for (int i = 0; i < 20 * 1024; ++i) {
    const std::string key = "again" + std::to_string(i);
    ASSERT_EQ(server.Say(SetLine(key, "v")), "STORED\r\n") << i;
  }
  EXPECT_EQ(server.Say(SetLine("large", large)), "STORED\r\n");
  EXPECT_EQ(Stat(server, "store_no_memory"), 0u);
  server.stride = memcached::kLargeReplyStride;
  EXPECT_TRUE(server.Say("get large\r\n") == ValueText("large", large));
}

TEST(MemcStore, ValuesGrowInAFullStore) {
  MemcServer server(256, 2);
  for (int i = 0; i < 3000; ++i) {
    server.Say(SetLine("key" + std::to_string(i), "9"));
  }
  server.Say(SetLine("n", "9"));
  EXPECT_EQ(server.Say("incr n 99999999999999999\r\n"),
            "100000000000000008\r\n");
  std::string value = "100000000000000008";
  for (int i = 0; i < 40; ++i) {
    const std::string more(100, static_cast<char>('a' + i % 26));
    ASSERT_EQ(server.Say(SetLine("n", more, i % 2 == 0 ? "append" : "prepend")),
              "STORED\r\n")
        << i;
    value = i % 2 == 0 ? value + more : more + value;
  }
  server.stride = 8192;
  EXPECT_EQ(server.Say("get n\r\n"), ValueText("n", value));
}

TEST(MemcStore, MakingRoomForAKeySparesWhatItBuildsOn) {
  // A full store, most of whose items are alone in their sets.
  MemcServer server(4096, 1);
  for (int i = 0; i < 3000; ++i) {
    server.Say(SetLine("key" + std::to_string(i), "9"));
  }
  for (int i = 0; i < 50; ++i) {
    const std::string key = "n" + std::to_string(i);
    ASSERT_EQ(server.Say(SetLine(key, "9")), "STORED\r\n");
    EXPECT_EQ(server.Say(SetLine(key, "8", "add")), "NOT_STORED\r\n") << i;
    EXPECT_EQ(server.Say("incr " + key + " 1\r\n"), "10\r\n") << i;
    EXPECT_EQ(server.Say(SetLine(key, "1", "append")), "STORED\r\n") << i;
    EXPECT_EQ(server.Say(SetLine(key, "2", "prepend")), "STORED\r\n") << i;
    EXPECT_EQ(server.Say("get " + key + "\r\n"), ValueText(key, "2101")) << i;
    const std::string found = server.Say("gets " + key + "\r\n");
    const std::string cas = found.substr(0, found.find('\r'));
    EXPECT_EQ(server.Say("cas " + key + " 0 0 1 " +
                         cas.substr(cas.rfind(' ') + 1) + "\r\n7\r\n"),
              "STORED\r\n")
        << i;
    EXPECT_EQ(server.Say(SetLine(key, "6", "replace")), "STORED\r\n") << i;
  }
}

TEST(MemcStore, UnderPressureAGetIsRightOrAMiss) {
  MemcServer server(64, 48);
  server.stride = 256 * 1024;
  std::map<std::string, std::string> last;
  std::mt19937 random(3);
  uint64_t hits = 0;
  for (int step = 0; step < 20000; ++step) {
    const std::string key = "k" + std::to_string(random() % 700);
    if (random() % 2 == 0) {
      const size_t size = random() % 50 == 0  ? random() % 150000
                          : random() % 5 == 0 ? random() % 9000
                                              : random() % 200;
      std::string value(size, static_cast<char>('a' + random() % 26));
      if (size > 0) value[random() % size] = '!';
      ASSERT_EQ(server.Say(SetLine(key, value)), "STORED\r\n");
      last[key] = std::move(value);
    } else {
      const std::string text = server.Say("get " + key + "\r\n");
      if (text == "END\r\n") continue;
      ASSERT_TRUE(last.contains(key));
      ASSERT_TRUE(text == ValueText(key, last[key])) << key;
      ++hits;
    }
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(Stat(server, "evictions"), 500u);
  // Every counted item can be removed, and then nothing is left.
  uint64_t present = 0;
  for (const auto& [key, value] : last) {
    present += server.Say("delete " + key + "\r\n") == "DELETED\r\n";
  }
  EXPECT_EQ(Stat(server, "curr_items"), 0u);
  EXPECT_EQ(Stat(server, "bytes"), 0u);
  EXPECT_GT(present, 100u);
  const memc::Store store(server.store_memory.span());
  EXPECT_NE(store.Allocate(store.capacity()), 0u);
}

}  // namespace
}  // namespace carillon::kernels
