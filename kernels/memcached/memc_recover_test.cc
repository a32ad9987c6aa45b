// What memc_recover makes of a table and a store that somebody has left: a
// process that was killed in the middle of kernels, or nobody knows who.
#include "kernels/memcached/memc_recover.cuh"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::Recovered;

struct Outcome {
  uint32_t status = 0;
  Recovered found{};
};

Outcome Recover(simt::Span<uint8_t> table, simt::Span<uint8_t> store,
                uint32_t threads = 64) {
  std::vector<uint32_t> marks(memcached::RecoveryMarkBytes(store.size) / 4,
                              0xdeadbeef);
  // In the heap: gcc's AddressSanitizer does not align a frame to 64 bytes.
  std::vector<Recovered> found(1);
  std::memset(found.data(), 0x77, sizeof(Recovered));
  MemcRecoverArgs args{};
  args.table = table;
  args.store = store;
  args.marks = simt::Writable(marks);
  args.recovered = simt::Writable(found);
  const uint32_t status = simt::RunGrid(memc_recover_info, simt::Dim3{1, 1, 1},
                                        simt::Dim3{threads, 1, 1}, args)
                              .status;
  return {status, found[0]};
}
Outcome Recover(const MemcServer& server, uint32_t threads = 64) {
  return Recover(server.table_memory.span(), server.store_memory.span(),
                 threads);
}

std::string SetLine(const std::string& key, const std::string& value) {
  return "set " + key + " 7 0 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\n";
}
std::string Hit(const std::string& key, const std::string& value) {
  return "VALUE " + key + " 7 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\nEND\r\n";
}
std::string Stat(MemcClient& client, const std::string& name) {
  const std::string stats = client.Say("stats\r\n");
  const size_t at = stats.find("STAT " + name + " ");
  if (at == std::string::npos) return "no such line";
  const size_t begin = at + 6 + name.size();
  return stats.substr(begin, stats.find('\r', begin) - begin);
}

TEST(MemcRecover, AStoreThatWasLeftInOrderIsAsItWas) {
  for (const uint32_t threads : {1u, 7u, 256u}) {
    MemcServer server(512, 64);
    server.stride = 1 << 18;
    std::mt19937 random(threads);
    std::map<std::string, std::string> values;
    for (int i = 0; i < 600; ++i) {
      const std::string key = "key" + std::to_string(random() % 200);
      const std::string value(
          random() % 20 == 0 ? random() % 150'000 : random() % 900,
          static_cast<char>('a' + random() % 26));
      if (random() % 4 == 0) {
        server.Say("delete " + key + "\r\n");
        values.erase(key);
      } else {
        ASSERT_EQ(server.Say(SetLine(key, value)), "STORED\r\n");
        values[key] = value;
      }
    }
    ASSERT_EQ(Stat(server, "evictions"), "0");
    const std::string bytes = Stat(server, "bytes");
    const Outcome outcome = Recover(server, threads);
    EXPECT_EQ(outcome.status, 0u);
    EXPECT_EQ(outcome.found.kept, 1u);
    EXPECT_EQ(outcome.found.items, values.size());
    EXPECT_EQ(outcome.found.dropped, 0u);
    EXPECT_EQ(outcome.found.locks, 0u);
    EXPECT_EQ(std::to_string(outcome.found.bytes), bytes);
    EXPECT_EQ(Stat(server, "bytes"), bytes);
    EXPECT_EQ(Stat(server, "curr_items"), std::to_string(values.size()));
    for (int i = 0; i < 200; ++i) {
      const std::string key = "key" + std::to_string(i);
      EXPECT_EQ(server.Get("get " + key + "\r\n").Text(),
                values.contains(key) ? Hit(key, values[key]) : "END\r\n");
    }
    // No room is lost: after a flush all of it can be used for anything.
    for (const auto& [key, value] : values) {
      ASSERT_EQ(server.Say("delete " + key + "\r\n"), "DELETED\r\n");
    }
    const std::string page(60'000, 'p');
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(server.Say(SetLine("page" + std::to_string(i), page)),
                "STORED\r\n");
    }
    EXPECT_EQ(Stat(server, "evictions"), "0");
  }
}

TEST(MemcRecover, NewItemsTakeNoBlockThatIsInUse) {
  MemcServer server(512, 8);
  std::map<std::string, std::string> values;
  std::mt19937 random(3);
  const auto set = [&](int i) {
    const std::string key = "key" + std::to_string(i);
    values[key] = std::string(random() % 400, static_cast<char>('a' + i % 26));
    ASSERT_EQ(server.Say(SetLine(key, values[key])), "STORED\r\n");
  };
  for (int i = 0; i < 300; ++i) set(i);
  for (int i = 0; i < 300; i += 3) {
    server.Say("delete key" + std::to_string(i) + "\r\n");
    values.erase("key" + std::to_string(i));
  }
  ASSERT_EQ(Recover(server).found.items, values.size());
  for (int i = 300; i < 400; ++i) set(i);
  ASSERT_EQ(Stat(server, "evictions"), "0");
  for (const auto& [key, value] : values) {
    EXPECT_EQ(server.Get("get " + key + "\r\n").Text(), Hit(key, value));
  }
}

TEST(MemcRecover, LocksOfTheDeadAreReleased) {
  MemcServer server(8, 8);
  ASSERT_EQ(server.Say(SetLine("a", "1")), "STORED\r\n");
  auto* const sets = reinterpret_cast<memc::Set*>(server.table_memory.data() +
                                                  sizeof(memc::TableHeader));
  for (int i = 0; i < 8; ++i) {
    sets[i].lock |= i % 2 == 0 ? memc::kLockSetHolds | memc::kLockSetWaits : 3;
  }
  auto* const words = reinterpret_cast<uint64_t*>(server.store_memory.data());
  words[1] = 1;  // the pool's
  for (uint32_t i = 0; i < memc::kClasses; ++i) {
    words[(sizeof(memc::StoreHeader) + i * sizeof(memc::ClassRecord)) / 8] = 1;
  }
  const Outcome outcome = Recover(server);
  EXPECT_EQ(outcome.found.locks, 8u);
  EXPECT_EQ(server.Get("get a\r\n").Text(), Hit("a", "1"));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(server.Say(SetLine("b" + std::to_string(i), "2")), "STORED\r\n");
  }
}

TEST(MemcRecover, WhatIsNotTheseKernelsBeginsAnew) {
  // Never used, condemned, or of another size.
  for (const int kind : {0, 1, 2, 3}) {
    MemcServer server(64, 8);
    auto* const table = reinterpret_cast<uint64_t*>(server.table_memory.data());
    auto* const store = reinterpret_cast<uint64_t*>(server.store_memory.data());
    if (kind > 0) {
      ASSERT_EQ(server.Say(SetLine("a", "1")), "STORED\r\n");
    }
    if (kind == 1) *table = memc::kCondemned;
    if (kind == 2) *store = memc::kCondemned;
    if (kind == 3) *store += 64;
    const Outcome outcome = Recover(server);
    EXPECT_EQ(outcome.status, 0u);
    EXPECT_EQ(outcome.found.kept, 0u);
    EXPECT_EQ(outcome.found.items, 0u);
    EXPECT_EQ(server.Get("get a\r\n").Text(), "END\r\n");
    EXPECT_EQ(Stat(server, "curr_items"), "0");
    EXPECT_EQ(server.Say(SetLine("a", "2")), "STORED\r\n");
    EXPECT_EQ(server.Get("get a\r\n").Text(), Hit("a", "2"));
  }
}

TEST(MemcRecover, BadArgumentsFailTheEvent) {
  MemcServer server(8, 8);
  EXPECT_EQ(Recover(server.table_memory.span().sub(0, 1000),
                    server.store_memory.span())
                .status,
            simt::kFailBadArguments);
  EXPECT_EQ(Recover(server.table_memory.span(),
                    server.store_memory.span().sub(0, 1000))
                .status,
            simt::kFailBadArguments);
}

// Garbage in every place where recovery finds an address or a length: it must leave a store that
// works. AddressSanitizer sees accesses beside the memory.
TEST(MemcRecover, WhateverTheMemoryHoldsTheStoreWorksAfterwards) {
  std::mt19937 random(11);
  uint64_t dropped = 0, kept = 0;
  for (int round = 0; round < 150; ++round) {
    MemcServer server(32, 8);
    server.stride = 8192;
    for (int i = 0; i < 300; ++i) {
      server.Say(SetLine("key" + std::to_string(i % 90),
                         std::string(random() % 3000, 'v')));
    }
    const auto scribble = [&](uint8_t* from, uint64_t bytes, int words) {
      for (int i = 0; i < words; ++i) {
        // Small numbers are the ones that lead somewhere.
        uint32_t word = static_cast<uint32_t>(random());
        word >>= random() % 32;
        std::memcpy(from + random() % (bytes / 4) * 4, &word, 4);
      }
    };
    const uint64_t after_stamp = 8;
    scribble(server.table_memory.data() + sizeof(memc::TableHeader),
             server.table_memory.size() - sizeof(memc::TableHeader), 200);
    scribble(server.store_memory.data() + after_stamp,
             memc::kPageTableOffset - after_stamp, 100);
    scribble(server.store_memory.data() + memc::kPageTableOffset,
             server.store_memory.size() - memc::kPageTableOffset, 3000);
    const Outcome outcome = Recover(server);
    ASSERT_EQ(outcome.status, 0u);
    ASSERT_EQ(outcome.found.kept, 1u);
    dropped += outcome.found.dropped;
    kept += outcome.found.items;
    server.Say("flush_all\r\n");
    for (int i = 0; i < 300; ++i) {
      const std::string key = "new" + std::to_string(i);
      const std::string value(random() % 5000, 'n');
      ASSERT_EQ(server.Say(SetLine(key, value)), "STORED\r\n");
      ASSERT_EQ(server.event_status, 0u);
      ASSERT_EQ(server.Get("get " + key + "\r\n").Text(), Hit(key, value));
    }
  }
  EXPECT_GT(dropped, 1000u);
  EXPECT_GT(kept, 1000u);
}

// --- Processes that are killed while they serve.

constexpr int kWriters = 2;
constexpr int kKeysEach = 24;

// What each writer has been answered, and what it has asked for; it shares
// nothing with the store. Writer: a child, so that it outlives that.
struct KeyLog {
  std::atomic<uint32_t> asked{0};
  std::atomic<uint32_t> answered{0};
};
struct Log {
  KeyLog keys[kWriters][kKeysEach];
  // A number that only grows, by incr.
  std::atomic<uint64_t> counter_asked[kWriters];
  std::atomic<uint64_t> counter_answered[kWriters];
  std::atomic<uint64_t> commands{0};
};

class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) : size_(bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) std::abort();
    data_ = static_cast<uint8_t*>(data);
  }
  ~SharedMemory() { munmap(data_, size_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  simt::Span<uint8_t> span() const { return {data_, size_}; }

 private:
  size_t size_;
  uint8_t* data_;
};

std::string KeyOf(int writer, int key) {
  return "w" + std::to_string(writer) + "-" + std::to_string(key);
}
// All of it says which key and version it is of.
std::string ValueOf(int writer, int key, uint32_t version) {
  std::minstd_rand random(static_cast<uint32_t>(writer * 1000 + key) * 7919 +
                          version);
  std::string value = std::to_string(version) + ":";
  const size_t length =
      random() % 10 == 0 ? random() % 100'000 : random() % 1500;
  while (value.size() < length) value += static_cast<char>('!' + random() % 90);
  return value;
}

[[noreturn]] void ServeUntilKilled(simt::Span<uint8_t> table,
                                   simt::Span<uint8_t> store, Log* log,
                                   uint32_t seed) {
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([=] {
      MemcClient client(table, store);
      std::mt19937 random(seed * kWriters + static_cast<uint32_t>(writer));
      while (true) {
        const uint64_t pick = random() % 8;
        if (pick == 0) {
          const uint64_t before = log->counter_answered[writer];
          log->counter_asked[writer] = before + 1;
          const std::string reply =
              client.Say("incr n" + std::to_string(writer) + " 1\r\n");
          log->counter_answered[writer] = std::stoull(reply);
          continue;
        }
        const int key = static_cast<int>(random() % kKeysEach);
        KeyLog& at = log->keys[writer][key];
        const uint32_t version = at.asked + 1;
        at.asked = version;
        const std::string value = ValueOf(writer, key, version);
        const std::string name = KeyOf(writer, key);
        if (client.Say(SetLine(name, value)) == "STORED\r\n") {
          at.answered = version;
        }
        if (pick == 1) {
          client.Say("touch " + name + " 0\r\n");
          client.Get("get " + name + "\r\n");
        }
        ++log->commands;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::abort();
}

TEST(MemcRecover, NoKillTearsAnItemOrLosesWhatWasAnswered) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer's threads do not survive a fork";
#endif
  constexpr int kKills = 400;
  const SharedMemory table(TableBytes(128));
  const SharedMemory store(StoreBytes(200));
  const SharedMemory log_memory(sizeof(Log));
  Log* const log = new (log_memory.span().data) Log;
  ASSERT_EQ(Recover(table.span(), store.span()).found.kept, 0u);
  MemcClient client(table.span(), store.span());
  client.stride = 1 << 18;
  for (int writer = 0; writer < kWriters; ++writer) {
    // Long enough for every number to come: a change in its place.
    ASSERT_EQ(client.Say("set n" + std::to_string(writer) +
                         " 0 0 12\r\n0           \r\n"),
              "STORED\r\n");
  }
  std::mt19937 random(5);
  uint64_t locks = 0, in_the_middle = 0;
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    const uint64_t before = log->commands;
    const pid_t child = fork();
    if (child == 0) {
      ServeUntilKilled(table.span(), store.span(), log,
                       static_cast<uint32_t>(kill_number));
    }
    ASSERT_GT(child, 0);
    // After so many commands, at any instruction.
    const uint64_t target = before + 1 + random() % 60;
    while (log->commands < target) {
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it ended by itself";
      std::this_thread::yield();
    }
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);

    const Outcome outcome = Recover(table.span(), store.span());
    ASSERT_EQ(outcome.status, 0u);
    ASSERT_EQ(outcome.found.kept, 1u);
    ASSERT_EQ(outcome.found.dropped, 0u);
    locks += outcome.found.locks;
    uint64_t found = 0;
    for (int writer = 0; writer < kWriters; ++writer) {
      for (int key = 0; key < kKeysEach; ++key) {
        KeyLog& at = log->keys[writer][key];
        const std::string name = KeyOf(writer, key);
        const std::string reply = client.Get("get " + name + "\r\n").Text();
        const uint32_t asked = at.asked, answered = at.answered;
        if (reply == "END\r\n") {
          ASSERT_EQ(answered, 0u) << name << " was stored, and is gone";
          continue;
        }
        ++found;
        const size_t value_at = reply.find("\r\n") + 2;
        const auto version = static_cast<uint32_t>(
            std::strtoul(reply.c_str() + value_at, nullptr, 10));
        ASSERT_GE(version, answered) << name;
        ASSERT_LE(version, asked) << name;
        ASSERT_EQ(reply, Hit(name, ValueOf(writer, key, version)));
        if (version != answered) ++in_the_middle;
        at.asked = version;
        at.answered = version;
      }
      const std::string reply =
          client.Say("get n" + std::to_string(writer) + "\r\n");
      ++found;
      const std::string head = "VALUE n" + std::to_string(writer) + " 0 12\r\n";
      ASSERT_TRUE(reply.starts_with(head)) << reply;
      const std::string digits = reply.substr(head.size(), 12);
      const uint64_t value = std::stoull(digits);
      std::string padded = std::to_string(value);
      padded.resize(12, ' ');
      ASSERT_EQ(digits, padded);
      ASSERT_GE(value, log->counter_answered[writer]);
      ASSERT_LE(value, std::max<uint64_t>(log->counter_asked[writer],
                                          log->counter_answered[writer]));
      log->counter_answered[writer] = value;
    }
    ASSERT_EQ(outcome.found.items, found);
    ASSERT_EQ(Stat(client, "curr_items"), std::to_string(found));
    ASSERT_EQ(Stat(client, "evictions"), "0");
  }
  std::printf(
      "%d kills: %llu sets were locked, %llu items stored and not "
      "answered\n",
      kKills, static_cast<unsigned long long>(locks),
      static_cast<unsigned long long>(in_the_middle));
}

// A command, one instruction after the other: if it died there, the store would
// have what was there before or what comes after.
TEST(MemcRecover, NoInstructionOfACommandIsABadOneToDieAt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's code would be stepped through";
#endif
  constexpr uint64_t kEvery = 7;  // instructions, in the first ones
  constexpr uint64_t kDeaths = 1500;
  const std::string fill(60'000, 'f');
  struct Case {
    std::string command;
    std::string key;
    std::vector<std::string> may_be;  // the replies of a get
  };
  const std::string old(300, 'o'), fresh(500, 'n');
  const std::vector<Case> cases = {
      {SetLine("old", fresh), "old", {Hit("old", old), Hit("old", fresh)}},
      {SetLine("none", fresh), "none", {"END\r\n", Hit("none", fresh)}},
      {"append old 0 0 500\r\n" + fresh + "\r\n",
       "old",
       {Hit("old", old), Hit("old", old + fresh)}},
      {"incr n 1\r\n", "n", {Hit("n", "1099999 "), Hit("n", "1100000 ")}},
      {"delete old\r\n", "old", {Hit("old", old), "END\r\n"}},
      // Makes room: there is none left for it.
      {SetLine("big", fill), "big", {"END\r\n", Hit("big", fill)}},
  };
  const SharedMemory table(TableBytes(2));
  const SharedMemory store(StoreBytes(7));
  MemcClient client(table.span(), store.span());
  uint64_t deaths = 0, locked = 0;
  for (const Case& each : cases) {
    std::memset(table.span().data, 0, table.span().size);
    std::memset(store.span().data, 0, store.span().size);
    ASSERT_EQ(Recover(table.span(), store.span()).status, 0u);
    ASSERT_EQ(client.Say(SetLine("old", old)), "STORED\r\n");
    ASSERT_EQ(client.Say(SetLine("n", "1099999 ")), "STORED\r\n");
    // A page is left for the other commands.
    const uint64_t fills = each.key == "big" ? 5 : 4;
    for (uint64_t i = 0; i < fills; ++i) {
      ASSERT_EQ(client.Say(SetLine("fill" + std::to_string(i), fill)),
                "STORED\r\n");
    }
    const pid_t child = fork();
    if (child == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      client.Say(each.command);
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) GTEST_SKIP() << "no process can be traced here";
    const auto end_child = absl::MakeCleanup([&] {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    });
    // What a get finds in each death: first the first, then the second.
    uint64_t found_before = 0, found_after = 0;
    uint64_t next = kEvery;
    bool more = true;
    for (uint64_t step = 1; more; ++step) {
      ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSTOPPED(status));
      more = WSTOPSIG(status) != SIGSTOP;
      if (more && step < next) continue;
      next = step + (step < kEvery * kDeaths ? kEvery : step / 100);
      MemcServer dead(2, 7);
      dead.stride = 1 << 17;
      std::memcpy(dead.table_memory.data(), table.span().data,
                  table.span().size);
      std::memcpy(dead.store_memory.data(), store.span().data,
                  store.span().size);
      const Outcome outcome = Recover(dead, 2);
      ASSERT_EQ(outcome.status, 0u);
      ASSERT_EQ(outcome.found.kept, 1u);
      ASSERT_EQ(outcome.found.dropped, 0u);
      const std::string what = each.command.substr(0, 8) + " after " +
                               std::to_string(step) + " instructions";
      const std::string reply = dead.Get("get " + each.key + "\r\n").Text();
      if (reply == each.may_be.front()) {
        ++found_before;
        ASSERT_EQ(found_after, 0u) << what;
      } else {
        ++found_after;
        ASSERT_EQ(reply, each.may_be.back()) << what;
      }
      uint64_t items = 0;
      for (const std::string key : {"old", "n", "none", "big", "fill0", "fill1",
                                    "fill2", "fill3", "fill4"}) {
        const std::string other = dead.Get("get " + key + "\r\n").Text();
        if (other != "END\r\n") ++items;
        if (key.starts_with("fill")) {
          ASSERT_TRUE(other == "END\r\n" || other == Hit(key, fill)) << what;
        }
      }
      const uint64_t evictions = std::stoull(Stat(dead, "evictions"));
      // All that was there is there, but for what was evicted or deleted.
      ASSERT_GE(items + evictions + (each.command[0] == 'd'), 2 + fills)
          << what;
      if (each.key != "big") {
        ASSERT_EQ(evictions, 0u) << what;
      }
      ASSERT_EQ(Stat(dead, "curr_items"), std::to_string(items)) << what;
      ASSERT_EQ(dead.Say(SetLine("after", fresh)), "STORED\r\n") << what;
      ++deaths;
      locked += outcome.found.locks;
    }
    EXPECT_GT(found_before, 10u);
    EXPECT_GT(found_after, 0u);
  }
  EXPECT_GT(locked, 20u);
  std::printf("%llu deaths, %llu of them with a set locked\n",
              static_cast<unsigned long long>(deaths),
              static_cast<unsigned long long>(locked));
}

}  // namespace
}  // namespace carillon::kernels
