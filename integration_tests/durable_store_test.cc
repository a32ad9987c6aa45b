// A NIC's durable store, and gpud killed under load, again and again. The judge
// is a log of what clients asked for and were answered, which shares nothing
// with the store.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "integration_tests/memc_testing.h"
#include "integration_tests/testbed_process.h"
#include "shm/faults/board.h"
#include "shm/faults/fault.h"

namespace carillon::testing {
namespace {

constexpr int kWriters = 3;
constexpr int kKeys = 32;  // of each writer
constexpr int kKills = 25;

// The versions of one key's value. Only its writer stores it, one command at a
// time. Writer: that thread. Readers: all.
struct KeyLog {
  // The last version that was asked for, and the last that was answered; 0: the
  // key was never stored or is deleted.
  std::atomic<uint32_t> asked{0};
  std::atomic<uint32_t> answered{0};
};

struct Log {
  std::array<std::array<KeyLog, kKeys>, kWriters> keys;
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> vanished{0};  // answered once, and not there
  // Deaths that have begun, and those that another gpud has followed.
  std::atomic<int> deaths{0};
  std::atomic<int> survived{0};
  std::atomic<bool> stop{false};
};

std::string KeyOf(int writer, int key) {
  return fmt::format("w{}-{}", writer, key);
}

// Every byte says which key and version it is of.
std::string ValueOf(int writer, int key, uint32_t version) {
  std::minstd_rand random(static_cast<uint32_t>(writer * kKeys + key) * 7919 +
                          version);
  std::string value = fmt::format("{}:", version);
  const size_t length =
      random() % 12 == 0 ? random() % 60'000 : random() % 1300;
  while (value.size() < length) value += static_cast<char>('!' + random() % 90);
  return value;
}

// Empty: the key has no value.
std::string Get(MemcTcpClient& client, const std::string& key) {
  client.Send("get " + key + "\r\n");
  const std::string head = client.ReceiveLine();
  if (head == "END\r\n") return "";
  const std::string expected = "VALUE " + key + " 0 ";
  EXPECT_TRUE(head.starts_with(expected)) << head;
  if (!head.starts_with(expected)) return "?";
  const size_t bytes = std::stoul(head.substr(expected.size()));
  const std::string rest = client.Receive(bytes + 7);
  EXPECT_TRUE(rest.ends_with("\r\nEND\r\n"));
  return rest.substr(0, bytes);
}

uint32_t VersionOf(const std::string& value) {
  return static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
}

std::string Ask(MemcTcpClient& client, const std::string& command) {
  client.Send(command);
  return client.ReceiveLine();
}

// The writer's own keys: nobody else changes them meanwhile.
void CheckOwn(MemcTcpClient& client, Log& log, int writer, int key,
              bool may_evict) {
  KeyLog& at = log.keys[writer][key];
  const std::string name = KeyOf(writer, key);
  const std::string value = Get(client, name);
  const uint32_t answered = at.answered;
  if (!value.empty()) {
    EXPECT_EQ(VersionOf(value), answered) << name;
    EXPECT_EQ(value, ValueOf(writer, key, VersionOf(value))) << name;
    return;
  }
  if (answered == 0) return;
  EXPECT_TRUE(may_evict) << name << " was stored, and is gone";
  ++log.vanished;
  at.answered = 0;
}

void CheckOther(MemcTcpClient& client, Log& log, int writer, int key) {
  const KeyLog& at = log.keys[writer][key];
  const std::string name = KeyOf(writer, key);
  const std::string value = Get(client, name);
  if (value.empty()) return;
  EXPECT_LE(VersionOf(value), at.asked) << name;
  EXPECT_EQ(value, ValueOf(writer, key, VersionOf(value))) << name;
}

void Write(uint16_t port, Log& log, int writer, bool may_evict) {
  MemcTcpClient client(port);
  std::minstd_rand random(static_cast<uint32_t>(writer + 1));
  const std::string counter = fmt::format("n{}", writer);
  uint64_t count = 0;
  if (!may_evict) {
    EXPECT_EQ(Ask(client, "set " + counter + " 0 0 10\r\n0         \r\n"),
              "STORED\r\n");
  }
  while (!log.stop && !::testing::Test::HasFailure()) {
    const int key = static_cast<int>(random() % kKeys);
    const std::string name = KeyOf(writer, key);
    KeyLog& at = log.keys[writer][key];
    switch (random() % 10) {
      case 0:
        CheckOther(client, log, static_cast<int>(random() % kWriters), key);
        break;
      case 1: {
        const int before = log.survived;
        const std::string reply = Ask(client, "delete " + name + "\r\n");
        EXPECT_TRUE(reply == "DELETED\r\n" || reply == "NOT_FOUND\r\n")
            << reply;
        // Carried out again after a death, it finds what it has deleted missing.
        if (reply == "DELETED\r\n" || log.deaths != before) at.answered = 0;
        CheckOwn(client, log, writer, key, may_evict);
        break;
      }
      case 2: {
        if (may_evict) break;
        // It may be carried out once more for each death meanwhile.
        const int before = log.survived;
        const std::string reply = Ask(client, "incr " + counter + " 1\r\n");
        const uint64_t now = std::strtoull(reply.c_str(), nullptr, 10);
        EXPECT_GE(now, count + 1) << reply;
        EXPECT_LE(now, count + 1 + static_cast<uint64_t>(log.deaths - before))
            << reply;
        count = now;
        break;
      }
      case 3:
      case 4:
        CheckOwn(client, log, writer, key, may_evict);
        break;
      default: {
        const uint32_t version = at.asked + 1;
        at.asked = version;
        const std::string value = ValueOf(writer, key, version);
        const std::string reply = Ask(
            client,
            fmt::format("set {} 0 0 {}\r\n{}\r\n", name, value.size(), value));
        EXPECT_EQ(reply, "STORED\r\n");
        at.answered = version;
      }
    }
    ++log.commands;
  }
}

uint64_t Stat(MemcTcpClient& client, const std::string& name) {
  client.Send("stats\r\n");
  uint64_t value = 0;
  while (true) {
    const std::string line = client.ReceiveLine();
    if (line.empty() || line == "END\r\n") return value;
    if (line.starts_with("STAT " + name + " ")) {
      value = std::stoull(line.substr(6 + name.size()));
    }
  }
}

void KillUnderLoad(const std::string& store_bytes, bool may_evict) {
  auto testbed = Testbed::Start();
  ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
  MemcPorts ports;
  const auto nic =
      StartNic(**testbed,
               {"--durable", "--store-bytes", store_bytes, "--table-entries",
                "4096", "--resume-within", "60"},
               &ports);
  ASSERT_NE(nic, nullptr);
  Log log;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back(
        [&, writer] { Write(ports.tcp, log, writer, may_evict); });
  }
  std::minstd_rand random(17);
  for (int i = 0; i < kKills && !::testing::Test::HasFailure(); ++i) {
    const uint64_t next = log.commands + 1 + random() % 300;
    EXPECT_TRUE(Eventually(
        [&] { return log.commands >= next || ::testing::Test::HasFailure(); }));
    ++log.deaths;
    (*testbed)->gpud().Kill();
    const absl::Status again = (*testbed)->RestartGpud();
    EXPECT_TRUE(again.ok()) << std::string(again.message());
    ++log.survived;
  }
  log.stop = true;
  for (std::thread& writer : writers) writer.join();
  MemcTcpClient client(ports.tcp);
  uint64_t there = 0;
  for (int writer = 0; writer < kWriters; ++writer) {
    for (int key = 0; key < kKeys; ++key) {
      CheckOwn(client, log, writer, key, may_evict);
      if (log.keys[writer][key].answered != 0) ++there;
    }
  }
  EXPECT_GT(there, 0u);
  const uint64_t evictions = Stat(client, "evictions");
  EXPECT_LE(log.vanished, evictions);
  if (may_evict) {
    EXPECT_GT(evictions, 0u);
  } else {
    EXPECT_EQ(evictions, 0u);
  }
  EXPECT_FALSE(nic->ended());
  fmt::print("{} deaths, {} commands, {} values there, {} evicted of {}\n",
             log.deaths.load(), log.commands.load(), there, log.vanished.load(),
             evictions);
}

TEST(DurableStoreTest, EverySetThatWasAnsweredOutlivesGpud) {
  KillUnderLoad("16MiB", false);
}

TEST(DurableStoreTest, WhatIsNotThereAfterADeathWasEvictedAndCounted) {
  KillUnderLoad("1MiB", true);
}

// Writes `word` over each `found` at the beginning of a line of 64 bytes that a
// process shares with others, and has touched. Returns how many there were.
int Overwrite(pid_t pid, uint64_t found, uint64_t word) {
  const std::string process = fmt::format("/proc/{}/", pid);
  const UniqueFd memory(open((process + "mem").c_str(), O_RDWR | O_CLOEXEC));
  const UniqueFd pages(
      open((process + "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  int count = 0;
  std::ifstream maps(process + "maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    if (line.find(" rw-s ") == std::string::npos ||
        line.find("/memfd:") == std::string::npos ||
        sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) != 2) {
      continue;
    }
    for (uint64_t at = begin; at < end; at += kPage) {
      uint64_t page = 0;
      EXPECT_EQ(
          pread(pages.get(), &page, 8, static_cast<off_t>(at / kPage * 8)), 8);
      if ((page & kPresent) == 0) continue;
      std::array<uint64_t, kPage / 8> words;
      EXPECT_EQ(
          pread(memory.get(), words.data(), kPage, static_cast<off_t>(at)),
          static_cast<ssize_t>(kPage));
      for (size_t i = 0; i < words.size(); i += 8) {
        if (words[i] != found) continue;
        EXPECT_EQ(
            pwrite(memory.get(), &word, 8, static_cast<off_t>(at + i * 8)), 8);
        ++count;
      }
    }
  }
  return count;
}

TEST(DurableStoreTest, ThatItWasNotTrustedIsSaid) {
  auto testbed = Testbed::Start();
  ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
  constexpr uint64_t kStoreBytes = 12345 * 64 * 8;
  MemcPorts ports;
  const auto nic =
      StartNic(**testbed,
               {"--durable", "--store-bytes", std::to_string(kStoreBytes),
                "--resume-within", "60"},
               &ports);
  ASSERT_NE(nic, nullptr);
  MemcTcpClient client(ports.tcp);
  EXPECT_EQ(Ask(client, "set k 0 0 1\r\nx\r\n"), "STORED\r\n");
  const auto take_over = [&] {
    (*testbed)->gpud().Kill();
    const absl::Status again = (*testbed)->RestartGpud();
    EXPECT_TRUE(again.ok()) << std::string(again.message());
  };
  const std::string said = "the durable store was not trusted and is empty";
  take_over();
  EXPECT_EQ(Get(client, "k"), "x");
  EXPECT_EQ(nic->output().find(said), std::string::npos);
  // As a kernel that finds the store broken does.
  EXPECT_EQ(Overwrite((*testbed)->gpud().pid(), kStoreBytes, ~uint64_t{0}), 1);
  take_over();
  EXPECT_EQ(Get(client, "k"), "");
  EXPECT_TRUE(nic->WaitForOutput(said));
}

TEST(DurableStoreTest, ALaunchThatFindsNoRoomIsTriedAgain) {
  auto testbed = Testbed::Start({"--faults"});
  ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
  auto board = faults::Board::Open((*testbed)->paths().fault_board());
  ASSERT_TRUE(board.ok()) << std::string(board.status().message());
  const faults::Fault full{.name = "f",
                           .method = "LaunchKernel",
                           .point = faults::Point::kGpudRpc,
                           .times = 3,
                           .action = faults::Action::kAbort,
                           .code = 8};  // RESOURCE_EXHAUSTED
  ASSERT_TRUE((*board)->Inject({&full, 1}).ok());
  MemcPorts ports;
  const auto nic = StartNic(**testbed, {"--durable"}, &ports);
  ASSERT_NE(ports.tcp, 0);
  MemcTcpClient client(ports.tcp);
  EXPECT_EQ(Ask(client, "set k 0 0 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ((*board)->strikes(), 3u);
}

}  // namespace
}  // namespace carillon::testing
