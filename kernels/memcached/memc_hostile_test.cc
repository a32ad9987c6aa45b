// Whatever a device puts into its packets, descriptors and GPU memory: the
// kernels end, and touch only their own buffers. AddressSanitizer checks that,
// as every buffer here ends where its allocation does.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::Outcome;

// Makes text that resembles a request.
std::string NearlyARequest(std::mt19937& random) {
  static const char* const kPieces[] = {
      "get ",        "gets ",       "gat ",
      "set ",        "add ",        "cas ",
      "append ",     "incr ",       "decr ",
      "touch ",      "delete ",     "flush_all",
      "mg ",         "ms ",         "md ",
      "ma ",         "me ",         "mn",
      "b ",          "k ",          "v ",
      "N30 ",        "T30 ",        "R60 ",
      "I ",          "Oopaque ",    "stats",
      "key",         "k",           "n",
      " ",           "  ",          "\r\n",
      "\n",          "\r",          "0 ",
      "1 ",          "-1 ",         "10 ",
      "1000 ",       "65536 ",      "noreply",
      "version",     "quit",        "99999999999999999999 ",
      "2147483645 ", "4294967295 ", "18446744073709551615 "};
  std::string text;
  for (uint32_t i = random() % 14; i != 0; --i) {
    const uint32_t kind = random() % 20;
    if (kind == 0) {
      text.append(random() % 700, static_cast<char>(random()));
    } else if (kind == 1) {
      for (uint32_t n = random() % 40; n != 0; --n) {
        text += static_cast<char>(random());
      }
    } else {
      text += kPieces[random() % std::size(kPieces)];
    }
  }
  return text;
}

// Checks what a NIC relies on without checking.
void ExpectUsable(const std::vector<Answer>& answers) {
  for (const Answer& answer : answers) {
    EXPECT_NE(answer.outcome, Outcome::kNone);
    EXPECT_EQ(answer.outcome == Outcome::kAnswered, !answer.datagrams.empty());
    for (const std::string& datagram : answer.datagrams) {
      EXPECT_NE(datagram, "<outside of the reply buffer>");
      EXPECT_FALSE(datagram.empty());
    }
    if (answer.outcome == Outcome::kAnswered) {
      EXPECT_TRUE(answer.datagrams.back().ends_with("\r\n"));
    }
  }
}

TEST(MemcHostile, RandomRequestsGetUsableAnswers) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    MemcServer server(1 + random() % 20, 1 + random() % 4);
    for (int event = 0; event < 25; ++event) {
      std::vector<std::string> requests;
      for (uint32_t i = 1 + random() % 32; i != 0; --i) {
        requests.push_back(NearlyARequest(random));
        if (seed % 2 == 0) {
          requests.back() =
              Frame(static_cast<uint16_t>(random()), 0, 1, 0, requests.back());
        }
      }
      MemcClient client(server.table_memory.span(), server.store_memory.span());
      client.now_s = random() % 4 == 0 ? random() : 1'700'000'000 + event;
      client.stride = 512 + random() % 34 * 64;
      client.request_flags = (seed % 2 == 0 ? 0u : 1u) | (random() % 2 * 2);
      ExpectUsable(client.Run(random() % 2 == 0 ? memc_get_info : memc_set_info,
                              requests));
      EXPECT_EQ(client.event_status, 0u);
    }
  }
}

TEST(MemcHostile, RandomDescriptorsStayInsideThePackets) {
  std::mt19937 random(5);
  MemcServer server(16, 4);
  for (int event = 0; event < 300; ++event) {
    std::string packets;
    for (int i = 0; i < 8; ++i) {
      packets += Frame(1, 0, 1, 0, NearlyARequest(random));
    }
    const uint32_t size = static_cast<uint32_t>(packets.size());
    std::vector<memcached::Request> requests;
    for (int i = 0; i < 32; ++i) {
      const auto any = [&]() -> uint32_t {
        switch (random() % 4) {
          case 0:
            return random();
          case 1:
            return size - random() % 20 + 10;
          default:
            return random() % (size + 1);
        }
      };
      const uint32_t offset = any();
      const uint32_t length = any();
      requests.push_back({offset, length, static_cast<uint32_t>(random()),
                          static_cast<uint32_t>(random())});
    }
    const std::vector<Answer> answers = server.RunRaw(
        event % 2 == 0 ? memc_get_info : memc_set_info, packets, requests);
    ExpectUsable(answers);
    for (size_t i = 0; i < requests.size(); ++i) {
      const bool inside =
          uint64_t{requests[i].offset} + requests[i].length <= size;
      EXPECT_EQ(answers[i].outcome == Outcome::kBadDescriptor, !inside);
    }
  }
}

TEST(MemcHostile, RequestsThatChangeMeanwhileHarmNobody) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the race is the test";
#endif
  std::mt19937 random(6);
  const MemcServer server(16, 4);
  constexpr uint32_t kRequests = 32;
  constexpr uint64_t kRoom = 1024;
  const auto packets = std::make_unique<uint8_t[]>(kRequests * kRoom);
  std::vector<memcached::Request> requests(kRequests);
  // The parser decides at blanks, ends of line and digits.
  const std::string bytes = " \n\r0919gsk\0\xff";
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937 own(7);
    while (!stop.load(std::memory_order_relaxed)) {
      std::atomic_ref<uint8_t>(packets[own() % (kRequests * kRoom)])
          .store(static_cast<uint8_t>(bytes[own() % bytes.size()]),
                 std::memory_order_relaxed);
      memcached::Request& request = requests[own() % kRequests];
      std::atomic_ref<uint32_t>(own() % 2 == 0 ? request.offset
                                               : request.length)
          .store(static_cast<uint32_t>(own() % (kRequests * kRoom)),
                 std::memory_order_relaxed);
    }
  });
  const Memory replies(kRequests * 4096);
  std::vector<memcached::Reply> results(kRequests);
  for (int event = 0; event < 1500; ++event) {
    for (uint32_t i = 0; i < kRequests; ++i) {
      const std::string text = NearlyARequest(random);
      const uint64_t n = std::min<uint64_t>(text.size(), kRoom);
      for (uint64_t at = 0; at < n; ++at) {
        std::atomic_ref<uint8_t>(packets[i * kRoom + at])
            .store(static_cast<uint8_t>(text[at]), std::memory_order_relaxed);
      }
      std::atomic_ref<uint32_t>(requests[i].offset)
          .store(static_cast<uint32_t>(i * kRoom), std::memory_order_relaxed);
      std::atomic_ref<uint32_t>(requests[i].length)
          .store(static_cast<uint32_t>(n), std::memory_order_relaxed);
      requests[i].flags = memcached::kStream;
    }
    MemcArgs args{};
    args.packets = {packets.get(), kRequests * kRoom};
    args.requests = simt::ReadOnly(requests);
    args.replies = replies.span();
    args.results = simt::Writable(results);
    args.table = server.table_memory.span();
    args.store = server.store_memory.span();
    args.now_s = 1'700'000'000;
    args.count = kRequests;
    args.reply_stride = 4096;
    EXPECT_EQ(
        simt::RunGrid(event % 3 == 0 ? memc_get_info : memc_set_info,
                      simt::Dim3{1, 1, 1}, simt::Dim3{kRequests, 1, 1}, args)
            .status,
        0u);
    for (const memcached::Reply& result : results) {
      EXPECT_TRUE(args.replies.InBounds(
          result.offset,
          result.outcome == Outcome::kTooLarge ? 0 : result.length));
    }
  }
  stop = true;
  writer.join();
}

// Writes garbage everywhere except into the locks: a lock that is never
// released takes long to give up.
void Scribble(MemcServer& server, std::mt19937& random) {
  const auto fill = [&random](const Memory& memory, uint64_t begin,
                              uint64_t end) {
    for (uint64_t i = begin; i < end && i < memory.size(); ++i) {
      // Small numbers and zeros get further than large ones.
      const uint32_t kind = random() % 8;
      memory.data()[i] = kind < 5 ? 0 : static_cast<uint8_t>(random());
    }
  };
  const Memory& table = server.table_memory;
  const Memory& store = server.store_memory;
  fill(table, 8, sizeof(memc::TableHeader));
  for (uint64_t set = sizeof(memc::TableHeader);
       set + sizeof(memc::Set) <= table.size(); set += sizeof(memc::Set)) {
    fill(table, set + 8, set + sizeof(memc::Set));
    // References that often point into the store.
    for (uint32_t way = 0; way < memc::kWays; ++way) {
      memc::BlockRef ref = random() % (store.size() / memc::kBlockUnit + 2);
      std::memcpy(
          table.data() + set + offsetof(memc::Set, ref) + way * sizeof(ref),
          &ref, sizeof(ref));
    }
  }
  fill(store, 16, sizeof(memc::StoreHeader));
  for (uint64_t at = sizeof(memc::StoreHeader); at < memc::kPageTableOffset;
       at += sizeof(memc::ClassRecord)) {
    fill(store, at + 8, at + sizeof(memc::ClassRecord));
  }
  fill(store, memc::kPageTableOffset, store.size());
}

TEST(MemcHostile, GarbageInTableAndStoreIsSurvived) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    MemcServer server(4, 3);
    for (int i = 0; i < 40; ++i) {
      server.Say("set key" + std::to_string(i) + " 0 0 3\r\nabc\r\n");
    }
    Scribble(server, random);
    for (int event = 0; event < 6; ++event) {
      std::vector<std::string> requests;
      for (int i = 0; i < 32; ++i) {
        const std::string key = "key" + std::to_string(random() % 40);
        switch (random() % 6) {
          case 0:
            requests.push_back("get " + key + "\r\n");
            break;
          case 1:
            requests.push_back("incr " + key + " 1\r\n");
            break;
          case 2:
            requests.push_back("append " + key + " 0 0 3\r\nabc\r\n");
            break;
          case 3:
            requests.push_back("delete " + key + "\r\n");
            break;
          default: {
            const std::string value(random() % 3 == 0 ? random() % 100000 : 9,
                                    'v');
            requests.push_back("set " + key + " 0 0 " +
                               std::to_string(value.size()) + "\r\n" + value +
                               "\r\n");
          }
        }
      }
      ExpectUsable(server.Run(memc_set_info, requests));
    }
  }
}

TEST(MemcHostile, AnItemThatClaimsToBeLargerThanTheStoreIsNotBelieved) {
  std::mt19937 random(8);
  MemcServer server(4, 1);
  for (int i = 0; i < 20; ++i) {
    server.Say("set key" + std::to_string(i) + " 0 0 1\r\n1\r\n");
  }
  const memc::Store store(server.store_memory.span());
  const auto* sets = reinterpret_cast<const memc::Set*>(
      server.table_memory.data() + sizeof(memc::TableHeader));
  uint32_t claims = 0;
  for (int set = 0; set < 4; ++set) {
    for (const memc::BlockRef ref : sets[set].ref) {
      uint8_t* block = store.At(ref, sizeof(memc::Item));
      if (block == nullptr) continue;
      auto* item = reinterpret_cast<memc::Item*>(block);
      item->lengths = memc::PackLengths(memc::KeyLength(item->lengths),
                                        65536 + random() % 0xfeffff);
      ++claims;
    }
  }
  EXPECT_EQ(claims, 20u);
  server.stride = 1u << 25;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    EXPECT_EQ(server.Get("get " + key + "\r\n").Text(), "END\r\n");
    EXPECT_EQ(server.Say("incr " + key + " 1\r\n"), "NOT_FOUND\r\n");
    EXPECT_EQ(server.Say("append " + key + " 0 0 1\r\nx\r\n"),
              "NOT_STORED\r\n");
  }
}

TEST(MemcHostile, MemoryOfAnotherSizeOrCondemnedFailsTheEvent) {
  MemcServer server(8, 4);
  EXPECT_EQ(server.Say("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
  const simt::Span<uint8_t> table = server.table_memory.span();
  const simt::Span<uint8_t> store = server.store_memory.span();
  MemcClient shorter_table(table.sub(0, table.size - 128), store);
  EXPECT_EQ(shorter_table.Get("get k\r\n").outcome, Outcome::kCorrupt);
  EXPECT_EQ(shorter_table.event_status, memc::kFailCorrupt);
  MemcClient shorter_store(table, store.sub(0, store.size - 65536));
  EXPECT_EQ(shorter_store.Set("get k\r\n").outcome, Outcome::kCorrupt);
  EXPECT_EQ(shorter_store.event_status, memc::kFailCorrupt);
  EXPECT_EQ(server.Say("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
  memc::Store(store).Condemn();
  EXPECT_EQ(server.Get("get k\r\n").outcome, Outcome::kCorrupt);
  EXPECT_EQ(server.event_status, memc::kFailCorrupt);
}

TEST(MemcHostile, LocksThatNobodyReleasesAreGivenUp) {
  for (const uint64_t garbage :
       {~uint64_t{0}, memc::kLockSetHolds, memc::kLockGets}) {
    uint64_t lock = garbage;
    EXPECT_FALSE(memc::LockShared(&lock, 1000).ok) << garbage;
    lock = garbage;
    EXPECT_FALSE(memc::LockExclusive(&lock, 1000).ok) << garbage;
    lock = garbage;
    EXPECT_FALSE(memc::LockSpin(&lock, 1000)) << garbage;
  }
  // Valid words can be locked.
  for (const uint64_t good : {uint64_t{0}, memc::kLockTick * 77}) {
    uint64_t lock = good;
    EXPECT_TRUE(memc::LockShared(&lock, 1000).ok);
    EXPECT_TRUE(memc::LockShared(&lock, 1000).ok);
    EXPECT_FALSE(memc::LockExclusive(&lock, 1000).ok);
    // A SET waits now: a further GET lets it go first for some rounds, but not
    // for ever.
    EXPECT_FALSE(memc::LockShared(&lock, memc::kLockCourtesyRounds).ok);
    EXPECT_TRUE(memc::LockShared(&lock, 1000).ok);
    memc::UnlockShared(&lock);
    memc::UnlockShared(&lock);
    memc::UnlockShared(&lock);
    const memc::LockResult exclusive = memc::LockExclusive(&lock, 1000);
    EXPECT_TRUE(exclusive.ok);
    EXPECT_EQ(exclusive.clock, (good >> 32) + 4);
    EXPECT_FALSE(memc::LockShared(&lock, 1000).ok);
    memc::UnlockExclusive(&lock);
    EXPECT_TRUE(memc::LockShared(&lock, 1000).ok);
  }
}

}  // namespace
}  // namespace carillon::kernels
