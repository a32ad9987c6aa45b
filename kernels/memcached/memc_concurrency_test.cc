// Several workers run events on one table and store at once. ThreadSanitizer
// checks the memory order; the tests check what clients see.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

constexpr int kThreads = 4;

void InThreads(const MemcServer& server,
               const std::function<void(int, MemcClient&)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      MemcClient client(server.table_memory.span(), server.store_memory.span());
      work(i, client);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A value that shows whether it is complete and which key it belongs to.
std::string ValueFor(const std::string& key, uint32_t length) {
  std::string value = key + "|" + std::to_string(length) + "|";
  value.append(length, static_cast<char>('a' + length % 26));
  return value;
}
bool IsValueFor(const std::string& key, const std::string& value) {
  if (!value.starts_with(key + "|")) return false;
  const uint32_t length =
      static_cast<uint32_t>(std::atoi(value.c_str() + key.size() + 1));
  return value == ValueFor(key, length);
}

TEST(MemcConcurrency, AGetNeverSeesAValueThatIsBeingChangedOrReused) {
  // The table and store are so small that workers always compete for sets and
  // pages.
  MemcServer server(4, 6);
  std::atomic<uint64_t> hits{0};
  InThreads(server, [&](int thread, MemcClient& client) {
    std::mt19937 random(static_cast<uint32_t>(thread));
    client.stride = 48 * 1024;
    for (int event = 0; event < 150; ++event) {
      const bool get = random() % 2 == 0;
      std::vector<std::string> keys;
      std::vector<std::string> requests;
      for (int i = 0; i < 16; ++i) {
        const std::string key = "key" + std::to_string(random() % 90);
        keys.push_back(key);
        if (get) {
          requests.push_back("get " + key + "\r\n");
        } else if (random() % 8 == 0) {
          requests.push_back("delete " + key + "\r\n");
        } else {
          const std::string value = ValueFor(
              key, random() % 12 == 0 ? random() % 40000 : random() % 700);
          requests.push_back("set " + key + " 0 0 " +
                             std::to_string(value.size()) + "\r\n" + value +
                             "\r\n");
        }
      }
      const std::vector<Answer> answers =
          client.Run(get ? memc_get_info : memc_set_info, requests);
      ASSERT_EQ(client.event_status, 0u);
      for (size_t i = 0; get && i < answers.size(); ++i) {
        const std::string text = answers[i].Text();
        if (text == "END\r\n") continue;
        const size_t begin = text.find("\r\n") + 2;
        ASSERT_TRUE(text.ends_with("\r\nEND\r\n"));
        ASSERT_TRUE(
            IsValueFor(keys[i], text.substr(begin, text.size() - begin - 7)))
            << text.substr(0, 100);
        ++hits;
      }
    }
  });
  EXPECT_GT(hits, 0u);
  // Nothing was lost or counted twice.
  for (int i = 0; i < 90; ++i) {
    server.Say("delete key" + std::to_string(i) + "\r\n");
  }
  const std::string stats = server.Say("stats\r\n");
  EXPECT_NE(stats.find("STAT curr_items 0\r\n"), std::string::npos);
  EXPECT_NE(stats.find("STAT bytes 0\r\n"), std::string::npos);
  const memc::Store store(server.store_memory.span());
  EXPECT_NE(store.Allocate(store.capacity()), 0u);
}

TEST(MemcConcurrency, NoIncrementIsLost) {
  MemcServer server(4, 4);
  server.Say("set n 0 0 1\r\n0\r\n");
  constexpr int kEvents = 60;
  InThreads(server, [](int, MemcClient& client) {
    const std::vector<std::string> requests(32, "incr n 3\r\n");
    for (int event = 0; event < kEvents; ++event) {
      client.Run(memc_set_info, requests);
    }
  });
  EXPECT_EQ(server.Say("incr n 0\r\n"),
            std::to_string(kThreads * kEvents * 32 * 3) + "\r\n");
}

TEST(MemcConcurrency, OneOfManyAddsWins) {
  MemcServer server(64, 8);
  std::atomic<int> stored{0};
  InThreads(server, [&stored](int, MemcClient& client) {
    for (int i = 0; i < 200; ++i) {
      const std::string reply =
          client.Say("add key" + std::to_string(i) + " 0 0 1\r\nx\r\n");
      if (reply == "STORED\r\n") ++stored;
    }
  });
  EXPECT_EQ(stored, 200);
}

TEST(MemcConcurrency, ACasSucceedsOnlyOnWhatWasRead) {
  MemcServer server(4, 4);
  server.Say("set n 0 0 1\r\n0\r\n");
  std::atomic<int> successes{0};
  InThreads(server, [&successes](int, MemcClient& client) {
    for (int i = 0; i < 300; ++i) {
      const std::string text = client.Get("gets n\r\n").Text();
      int length = 0;
      unsigned long long cas = 0;
      ASSERT_EQ(std::sscanf(text.c_str(), "VALUE n 0 %d %llu", &length, &cas),
                2);
      const std::string value =
          std::to_string(std::stoi(text.substr(text.find("\r\n") + 2)) + 1);
      const std::string reply =
          client.Say("cas n 0 0 " + std::to_string(value.size()) + " " +
                     std::to_string(cas) + "\r\n" + value + "\r\n");
      if (reply == "STORED\r\n") ++successes;
    }
  });
  EXPECT_EQ(server.Say("incr n 0\r\n"), std::to_string(successes) + "\r\n");
  EXPECT_GT(successes, 0);
}

TEST(MemcConcurrency, AppendsAreWhole) {
  MemcServer server(4, 40);
  server.Say("set log 0 0 0\r\n\r\n");
  InThreads(server, [](int thread, MemcClient& client) {
    const std::string entry = "<" + std::string(9, char('a' + thread)) + ">";
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(client.Say("append log 0 0 11\r\n" + entry + "\r\n"),
                "STORED\r\n");
    }
  });
  server.stride = 64 * 1024;
  const std::string text = server.Say("get log\r\n");
  std::string log = text.substr(text.find("\r\n") + 2);
  log.resize(log.size() - 7);
  ASSERT_EQ(log.size(), kThreads * 200u * 11);
  for (size_t i = 0; i < log.size(); i += 11) {
    const std::string entry = log.substr(i, 11);
    EXPECT_EQ(entry, "<" + std::string(9, entry[1]) + ">");
  }
}

TEST(MemcConcurrency, TheFirstUsersOfZeroedMemoryAgreeOnIt) {
  for (int round = 0; round < 50; ++round) {
    MemcServer server(2, 2);
    InThreads(server, [](int thread, MemcClient& client) {
      const std::string key = "k" + std::to_string(thread);
      EXPECT_EQ(client.Say("set " + key + " 0 0 1\r\nx\r\n"), "STORED\r\n");
      EXPECT_EQ(client.Say("get " + key + "\r\n"),
                "VALUE " + key + " 0 1\r\nx\r\nEND\r\n");
    });
  }
}

}  // namespace
}  // namespace carillon::kernels
