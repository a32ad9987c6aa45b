// Tests the NIC with Debian's clients, and compares its answers with those of
// Debian's server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "integration_tests/memc_testing.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Datagram;
using testing::FindProgram;
using ::testing::HasSubstr;
using testing::MemcPorts;
using testing::MemcTcpClient;
using testing::MemcUdpClient;
using ::testing::Not;
using testing::Process;
using testing::StartMemcached;
using testing::StartNic;
using testing::Testbed;

class NicPeersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
    nic_ = StartNic(*testbed_, {}, &ports_);
    ASSERT_NE(ports_.tcp, 0);
  }
  std::string Address() const {
    return fmt::format("127.0.0.1:{}", ports_.tcp);
  }
  // The output of a client that ends by itself.
  void RunClient(std::vector<std::string> argv, std::string* output) {
    const std::string program = FindProgram(argv[0]);
    ASSERT_NE(program, "") << argv[0]
                           << " is missing: apt-get install libmemcached-tools";
    argv[0] = program;
    auto client = Process::Start("client", argv);
    ASSERT_TRUE(client.ok()) << std::string(client.status().message());
    const auto exit = (*client)->Wait();
    *output = (*client)->output();
    ASSERT_EQ(exit, 0) << *output;
  }
  // Runs memcaslap once over `operations` requests and verifies every value.
  void RunMemcaslap(const std::vector<std::string>& flags, int operations) {
    const std::string config = ::testing::TempDir() + "/memcaslap.cfg";
    std::ofstream(config)
        << "key\n16 16 1\nvalue\n2 300 1\ncmd\n0 0.2\n1 0.8\n";
    std::vector<std::string> argv = {"memcaslap",
                                     "-s",
                                     Address(),
                                     "-T",
                                     "1",
                                     "-F",
                                     config,
                                     "-v",
                                     "1.0",
                                     "-w",
                                     "1k",
                                     "-x",
                                     std::to_string(operations)};
    argv.insert(argv.end(), flags.begin(), flags.end());
    std::string output;
    ASSERT_NO_FATAL_FAILURE(RunClient(argv, &output));
    EXPECT_THAT(output, HasSubstr("get_misses: 0\n"));
    EXPECT_THAT(output, HasSubstr("verify_misses: 0\n"));
    EXPECT_THAT(output, HasSubstr("verify_failed: 0\n"));
    EXPECT_THAT(output, Not(HasSubstr("cmd_get: 0\n")));
  }

  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<Process> nic_;
  MemcPorts ports_;
};

TEST_F(NicPeersTest, PassesMemccapablesAsciiTests) {
  std::string output;
  ASSERT_NO_FATAL_FAILURE(RunClient({"memccapable", "-a", "-h", "127.0.0.1",
                                     "-p", std::to_string(ports_.tcp)},
                                    &output));
  EXPECT_THAT(output, HasSubstr("All tests passed"));
  EXPECT_THAT(output, Not(HasSubstr("FAIL")));
}

// memcaslap uses one port number for both transports.
class MemcaslapTest : public NicPeersTest {
 protected:
  void SetUp() override {
    NicPeersTest::SetUp();
    const std::string port = std::to_string(ports_.tcp);
    nic_.reset();
    ports_ = {};
    nic_ =
        StartNic(*testbed_, {"--udp-port", port, "--tcp-port", port}, &ports_);
    ASSERT_EQ(ports_.udp, ports_.tcp);
  }
};

TEST_F(MemcaslapTest, EveryValueIsVerifiedOverUdp) {
  RunMemcaslap({"-U", "-c", "8"}, 20'000);
  EXPECT_EQ(testbed_->Counter("nic0", "events_failed"), 0u);
}

TEST_F(MemcaslapTest, EveryValueOfMultiGetsIsVerifiedOverUdp) {
  RunMemcaslap({"-U", "-c", "8", "-d", "8"}, 20'000);
}

TEST_F(MemcaslapTest, SetsByTcpAreReadByUdp) {
  RunMemcaslap({"-a", "-c", "8", "-d", "8"}, 20'000);
}

TEST_F(MemcaslapTest, EveryValueIsVerifiedOverTcp) {
  RunMemcaslap({"-c", "16"}, 20'000);
}

class DifferentialTest : public NicPeersTest {
 protected:
  void SetUp() override {
    NicPeersTest::SetUp();
    memcached_ = StartMemcached(&memcached_ports_);
    ASSERT_NE(memcached_, nullptr)
        << "memcached is missing: apt-get install memcached";
    for (const uint16_t port : {ports_.tcp, memcached_ports_.tcp}) {
      MemcTcpClient tcp(port);
      for (const auto& [key, value] :
           std::vector<std::pair<std::string, size_t>>{{"short", 5},
                                                       {"full", 1366},
                                                       {"edge1", 1366},
                                                       {"edge2", 1367},
                                                       {"edge3", 1374},
                                                       {"page", 4096},
                                                       {"long", 20000},
                                                       {"longer", 300000}}) {
        std::string text = fmt::format("set {} 7 0 {}\r\n", key, value);
        for (size_t i = 0; i < value; ++i)
          text += static_cast<char>('a' + i % 26);
        EXPECT_EQ(tcp.Ask(text + "\r\n", "STORED\r\n"), "STORED\r\n");
      }
      EXPECT_EQ(tcp.Ask("set number 0 0 2\r\n10\r\n", "STORED\r\n"),
                "STORED\r\n");
      const std::string key(250, 'k');
      EXPECT_EQ(tcp.Ask("set " + key + " 0 0 1\r\nx\r\n", "STORED\r\n"),
                "STORED\r\n");
    }
  }
  // Expects the same answer of both, byte by byte, or none of both.
  void ExpectSame(const std::string& datagram) {
    MemcUdpClient ours(ports_.udp), theirs(memcached_ports_.udp);
    EXPECT_EQ(Legible(ours.Ask(datagram)), Legible(theirs.Ask(datagram)))
        << "asked: " << Legible(datagram);
  }
  void ExpectSameMessage(const std::string& datagram) {
    MemcUdpClient ours(ports_.udp), theirs(memcached_ports_.udp);
    const auto message = ours.AskMessage(datagram);
    EXPECT_GT(message.size(), 1u);
    EXPECT_EQ(Legible(message), Legible(theirs.AskMessage(datagram)))
        << "asked: " << Legible(datagram);
  }

  static std::string Legible(const std::string& bytes) {
    std::string text;
    for (const char c : bytes) {
      text += c >= ' ' && c <= '~' ? std::string(1, c)
                                   : fmt::format("<{:02x}>", uint8_t(c));
    }
    return text;
  }
  static std::string Legible(const std::vector<std::string>& replies) {
    std::string text = fmt::format("{} replies\n", replies.size());
    for (const std::string& reply : replies) {
      // A server may choose its values of "cas unique" freely.
      text += std::regex_replace(
                  Legible(reply),
                  std::regex("(VALUE [!-~]+ [0-9]+ [0-9]+) [0-9]+<0d>"),
                  "$1 UNIQUE<0d>") +
              "\n";
    }
    return text;
  }

  MemcPorts memcached_ports_;
  std::unique_ptr<Process> memcached_;
};

TEST_F(DifferentialTest, CommandsAreAnsweredAsByDebiansServer) {
  const std::string key250(250, 'k');
  const std::string key251(251, 'k');
  const std::vector<std::string> commands = {
      // Retrieval.
      "get short\r\n", "get missing\r\n", "gets short\r\n", "gets missing\r\n",
      "get short\n", "  get short\r\n", "get short  \r\n", "get   short\r\n",
      "get\r\n", "gets\r\n", "get \r\n", "GET short\r\n", "getx short\r\n",
      "get " + key250 + "\r\n", "get " + key251 + "\r\n",
      "get missing " + key251 + "\r\n", "get full\r\n",
      "get \x10\x80\x81\xff\r\n", "gat 0 short\r\n", "gats 0 short\r\n",
      "gat 0 missing\r\n", "gat x short\r\n", "gat short\r\n",
      // Storage.
      "set new 1 0 3\r\nabc\r\n", "get new\r\n",
      "set new 4294967295 0 0\r\n\r\n", "get new\r\n", "add new 0 0 1\r\nx\r\n",
      "add newer 0 0 1\r\nx\r\n", "replace new 0 0 1\r\ny\r\n",
      "replace missing 0 0 1\r\nx\r\n", "append new 0 0 2\r\nzz\r\n",
      "prepend new 0 0 2\r\naa\r\n", "get new\r\n",
      "append missing 0 0 2\r\nzz\r\n", "set quiet 0 0 1 noreply\r\nx\r\n",
      "get quiet\r\n", "add quiet 0 0 1 noreply\r\ny\r\n",
      "cas missing 0 0 1 5\r\nx\r\n", "cas quiet 0 0 1 99999999\r\nx\r\n",
      "set " + key250 + " 0 0 1\r\nz\r\n", "get " + key250 + "\r\n",
      "set gone 0 -1 1\r\nx\r\n", "get gone\r\n",
      // Malformed storage lines: only the error comes back.
      "set new\r\n", "set new 0 0\r\n", "set new x 0 3\r\n",
      "set new 0 x 3\r\n", "set new 0 0 x\r\n", "set new 0 0 -1\r\n",
      "set " + key251 + " 0 0 1\r\n", "cas new 0 0 1\r\n",
      "cas new 0 0 1 x\r\n", "set new 0 0 1 2 3\r\n",
      // Arithmetic.
      "incr number 5\r\n", "decr number 3\r\n", "get number\r\n",
      "decr number 1000\r\n", "incr number 18446744073709551615\r\n",
      "incr number 1\r\n", "incr missing 1\r\n", "incr short 1\r\n",
      "incr number x\r\n", "incr number -1\r\n", "incr number\r\n",
      "incr number 1 noreply\r\n", "get number\r\n",
      // The rest.
      "touch short 0\r\n", "touch missing 0\r\n", "touch short\r\n",
      "touch short x\r\n", "delete new\r\n", "delete new\r\n",
      "delete quiet noreply\r\n", "get quiet\r\n", "delete newer 0\r\n",
      "delete short 5\r\n", "delete\r\n", "delete " + key251 + "\r\n",
      "verbosity 1\r\n", "verbosity\r\n", "bogus\r\n", "\r\n", "\n", "   \r\n",
      "x\r\n", "flush_all noreply\r\n", "get short\r\n",
      "set after 0 0 1\r\nx\r\n", "get after\r\n", "flush_all\r\n",
      "get after\r\n", "flush_all 0\r\n", "flush_all x\r\n"};
  uint16_t id = 0x1233;
  for (const std::string& command : commands) {
    ExpectSame(Datagram(++id, command));
  }
}

TEST_F(DifferentialTest, LongValuesAreCutIntoDatagramsAsByDebiansServer) {
  for (const char* key :
       {"edge1", "edge2", "edge3", "page", "long", "longer"}) {
    ExpectSameMessage(Datagram(7, fmt::format("get {}\r\n", key)));
  }
}

TEST_F(DifferentialTest, FramesAreReadAsByDebiansServer) {
  std::string frame = Datagram(0x8001, "get short\r\n");
  ExpectSame(frame);
  frame[6] = 1;  // reserved, as memcaslap sends it
  ExpectSame(frame);
  frame[2] = 3;  // sequence
  ExpectSame(frame);
  for (const char total : {0, 2, 127}) {
    frame[5] = total;
    ExpectSame(frame);
  }
  frame = Datagram(0x8001, "get short\r\n");
  frame[4] = 1;  // total 257
  ExpectSame(frame);
  for (size_t bytes = 0; bytes <= 8; ++bytes)
    ExpectSame(frame.substr(0, bytes));
}

// Debian's server is wrong here (a datagram for each value, "0 of 1").
TEST_F(DifferentialTest, ManyKeysAreOneMessage) {
  MemcUdpClient udp(ports_.udp);
  MemcTcpClient tcp(memcached_ports_.tcp);
  const std::string get = "get short edge1 missing page long number\r\n";
  tcp.Send(get);
  std::string expected;
  do {
    expected += tcp.ReceiveLine();
  } while (!expected.ends_with("END\r\n"));
  EXPECT_EQ(udp.AskText(5, get), expected);
}

// Debian's server waits for the rest, and mistakes the next datagram for it.
TEST_F(DifferentialTest, NothingOfADatagramIsLeftForTheNext) {
  MemcUdpClient udp(ports_.udp);
  EXPECT_EQ(udp.AskText(1, "set k 0 0 5\r\nabc\r\n"),
            "CLIENT_ERROR bad data chunk\r\n");
  EXPECT_EQ(udp.AskText(2, "get k\r\n"), "END\r\n");
  EXPECT_EQ(udp.AskText(3, "set k 0 0 2\r\nabc\r\n"),
            "CLIENT_ERROR bad data chunk\r\n");
  EXPECT_EQ(udp.AskText(4, "get short\r\nget long\r\n"),
            "VALUE short 7 5\r\nabcde\r\nEND\r\n");
  EXPECT_EQ(udp.AskText(5, "version\r\n").substr(0, 8), "VERSION ");
}

}  // namespace
}  // namespace carillon
