// The NIC as a process, with gpud and its event kernels: what it serves, what
// it drops, and how it ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "fmt/format.h"
#include "integration_tests/memc_testing.h"
#include "integration_tests/testbed_process.h"
#include "shm/faults/board.h"
#include "shm/faults/fault.h"

namespace carillon {
namespace {

using testing::Datagram;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemcPorts;
using testing::MemcTcpClient;
using testing::MemcUdpClient;
using testing::Process;
using testing::StartNic;
using testing::Testbed;

using Flags = std::vector<std::string>;

std::string Noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string ValueReply(const std::string& key, const std::string& value) {
  return fmt::format("VALUE {} 0 {}\r\n{}\r\n", key, value.size(), value);
}
std::string SetRequest(const std::string& key, const std::string& value) {
  return fmt::format("set {} 0 0 {}\r\n{}\r\n", key, value.size(), value);
}

class NicTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  void Serve(const Flags& flags = {}) {
    nic_ = StartNic(*testbed_, flags, &ports_);
    ASSERT_NE(ports_.tcp, 0);
  }
  // The exit code and the output of a NIC that does not come up.
  int Fail(const Flags& flags, std::string* output) {
    auto nic = testbed_->StartDevice("nic1", "devices/nic/nic", flags);
    EXPECT_TRUE(nic.ok()) << std::string(nic.status().message());
    const auto exit = (*nic)->Wait();
    *output = (*nic)->output();
    return exit.value_or(-1000);
  }
  uint64_t Counter(const std::string& name) {
    return testbed_->Counter("nic0", name);
  }
  // Counters are published when the NIC has nothing else to do.
  void ExpectCounter(const std::string& name, uint64_t value) {
    EXPECT_TRUE(Eventually([&] { return Counter(name) == value; }))
        << name << " is " << Counter(name) << ", not " << value;
  }
  void ExpectServes() {
    MemcUdpClient udp(ports_.udp);
    EXPECT_EQ(udp.AskText(7, "get missing\r\n"), "END\r\n");
    MemcTcpClient tcp(ports_.tcp);
    EXPECT_EQ(tcp.Ask(SetRequest("probe", "x"), "STORED\r\n"), "STORED\r\n");
    EXPECT_EQ(udp.AskText(8, "get probe\r\n"),
              ValueReply("probe", "x") + "END\r\n");
  }
  // Expects that every event that was rung has ended well.
  void ExpectCleanLedger() {
    EXPECT_TRUE(Eventually([this] {
      const auto events = testbed_->Status().events();
      return events.rung() == events.done();
    })) << testbed_->Status().events().ShortDebugString();
  }

  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<Process> nic_;
  MemcPorts ports_;
};

TEST_F(NicTest, WhatOneTransportStoresTheOtherFinds) {
  Serve();
  MemcUdpClient udp(ports_.udp);
  MemcTcpClient tcp(ports_.tcp);
  EXPECT_EQ(tcp.Ask(SetRequest("a", "from tcp"), "STORED\r\n"), "STORED\r\n");
  EXPECT_EQ(udp.AskText(1, "get a\r\n"),
            ValueReply("a", "from tcp") + "END\r\n");
  EXPECT_EQ(udp.AskText(2, SetRequest("b", "from udp")), "STORED\r\n");
  const std::string both =
      ValueReply("a", "from tcp") + ValueReply("b", "from udp") + "END\r\n";
  EXPECT_EQ(tcp.Ask("get a b\r\n", both), both);
  EXPECT_EQ(udp.AskText(3, "get a missing b\r\n"), both);
  ExpectCounter("get_hits", 5);
  ExpectCounter("get_misses", 1);
  ExpectCounter("sets", 2);
  ExpectCounter("udp_requests", 3);
  ExpectCounter("udp_replies", 3);
  ExpectCounter("tcp_commands", 2);
  ExpectCounter("tcp_connections", 1);
  ExpectCleanLedger();
}

TEST_F(NicTest, ValuesOfAMegabyteGoInByTcpAndComeOutByBoth) {
  Serve();
  MemcTcpClient tcp(ports_.tcp);
  std::vector<std::string> values;
  // Sizes around one datagram (1400 bytes), one packet buffer (2048), and the
  // limit.
  for (const size_t bytes :
       {0, 1, 1360, 1380, 1400, 2000, 2048, 5000, 60000, 1 << 20}) {
    const std::string value = Noise(bytes, static_cast<uint32_t>(bytes));
    values.push_back(value);
    const std::string key = fmt::format("key{}", bytes);
    EXPECT_EQ(tcp.Ask(SetRequest(key, value), "STORED\r\n"), "STORED\r\n");
    const std::string reply = ValueReply(key, value) + "END\r\n";
    EXPECT_TRUE(tcp.Ask("get " + key + "\r\n", reply) == reply) << bytes;
    MemcUdpClient udp(ports_.udp);
    EXPECT_TRUE(udp.AskText(9, "get " + key + "\r\n") == reply) << bytes;
  }
  // Three megabytes in one reply: in pieces on the way, complete for the
  // client.
  const std::string big = ValueReply("key1048576", values.back());
  const std::string all =
      big + ValueReply("key1", values[1]) + big + big + "END\r\n";
  EXPECT_TRUE(tcp.Ask("get key1048576 key1 missing key1048576 key1048576\r\n",
                      all) == all);
  EXPECT_EQ(tcp.Ask(fmt::format("set k 0 0 {}\r\n{}\r\n", (1 << 20) + 1,
                                std::string((1 << 20) + 1, 'x')),
                    "SERVER_ERROR object too large for cache\r\n"),
            "SERVER_ERROR object too large for cache\r\n");
  EXPECT_EQ(tcp.Ask("get k\r\n", "END\r\n"), "END\r\n");
  EXPECT_GT(Counter("large_replies"), 0u);
  EXPECT_EQ(Counter("drops_send"), 0u);
  ExpectCleanLedger();
}

TEST_F(NicTest, AGetOfThousandsOfKeysIsAnsweredWhole) {
  Serve();
  MemcTcpClient tcp(ports_.tcp);
  std::string line = "gets", expected_get = "get", reply;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = fmt::format("some-longer-key-{}", i);
    expected_get += " " + key;
    if (i % 3 == 0) continue;
    const std::string value = Noise(static_cast<size_t>(i % 90), 5);
    tcp.Send(fmt::format("set {} 0 0 {} noreply\r\n{}\r\n", key, value.size(),
                         value));
    reply += ValueReply(key, value);
  }
  reply += "END\r\n";
  EXPECT_TRUE(tcp.Ask(expected_get + "\r\n", reply) == reply);
  EXPECT_EQ(tcp.Ask("version\r\n", "VERSION"), "VERSION");
}

TEST_F(NicTest, HostileDatagramsAreCountedAndHarmNobody) {
  Serve({"--packet-buffers", "128"});
  MemcUdpClient udp(ports_.udp);
  const std::string header("\0\1\0\0\0\1\0\0", 8);
  for (size_t bytes = 0; bytes < 8; ++bytes) {
    EXPECT_THAT(udp.Ask(header.substr(0, bytes)), IsEmpty());
  }
  ExpectCounter("drops_malformed", 8);
  EXPECT_THAT(udp.Ask(header), IsEmpty());            // no command
  EXPECT_THAT(udp.Ask(header + "get k"), IsEmpty());  // no end of the line
  EXPECT_THAT(udp.Ask(header + "set k 0"), IsEmpty());
  for (const char total : {0, 2}) {
    std::string part = Datagram(1, "get k\r\n");
    part[5] = total;
    EXPECT_THAT(udp.Ask(part), IsEmpty());
  }
  ExpectCounter("drops_malformed", 13);
  // What is longer than a packet buffer is served, too.
  const std::string longer(2040, 'x');
  EXPECT_EQ(udp.AskText(1, SetRequest("k", longer)), "STORED\r\n");
  EXPECT_EQ(udp.AskText(1, std::string(60000, ' ') + "get k\r\n"),
            ValueReply("k", longer) + "END\r\n");
  EXPECT_EQ(Counter("drops_oversized"), 0u);
  // So is what has exactly its size.
  const std::string value(2022, 'v');
  ASSERT_EQ(Datagram(1, SetRequest("k", value)).size(), 2048u);
  EXPECT_EQ(udp.AskText(1, SetRequest("k", value)), "STORED\r\n");
  // Noise is answered or dropped, and other clients are served.
  MemcUdpClient other(ports_.udp);
  for (uint32_t i = 0; i < 2000; ++i) {
    std::string noise = Noise(i % 300, i);
    if (i % 2 == 0) noise = Datagram(uint16_t(i), noise + "\r\n");
    udp.Send(noise);
    if (i % 25 != 0) continue;
    EXPECT_TRUE(other.AskText(3, "get k\r\n") ==
                ValueReply("k", value) + "END\r\n");
  }
  ExpectServes();
  ExpectCleanLedger();
  EXPECT_EQ(Counter("events_failed"), 0u);
}

TEST_F(NicTest, PacketsThatFindNoBufferAreCounted) {
  Serve({"--packet-buffers", "32", "--batch", "32", "--ring", "1"});
  MemcUdpClient udp(ports_.udp);
  constexpr uint64_t kBurst = 20'000;
  const std::string request = Datagram(1, "get some-key-or-other\r\n");
  for (uint64_t i = 0; i < kBurst; ++i) udp.Send(request);
  // The flood may cost others a datagram, but must not kill the NIC.
  EXPECT_TRUE(Eventually([&] {
    MemcUdpClient other(ports_.udp);
    other.Send(request);
    pollfd reply{.fd = other.fd(), .events = POLLIN, .revents = 0};
    return poll(&reply, 1, 100) == 1;
  }));
  EXPECT_TRUE(Eventually([&] {
    // The NIC does not count what the socket's own buffer lost.
    return Counter("udp_replies") > 0 &&
           Counter("udp_requests") == Counter("udp_replies") &&
           testbed_->Status().events().rung() ==
               testbed_->Status().events().done();
  }));
  EXPECT_TRUE(Counter("drops_no_buffer") > 0 ||
              Counter("udp_requests") >= kBurst);
  ExpectServes();
}

TEST_F(NicTest, LargeRepliesLeaveBuffersForSmallOnes) {
  Serve({"--packet-buffers", "64"});
  MemcTcpClient tcp(ports_.tcp);
  EXPECT_EQ(tcp.Ask(SetRequest("big", Noise(1 << 20, 1)), "STORED\r\n"),
            "STORED\r\n");
  // A client that asks for far more than it ever reads, though not for more
  // than the socket holds.
  constexpr uint64_t kRequests = 200;
  MemcUdpClient greedy(ports_.udp);
  for (uint64_t i = 0; i < kRequests; ++i) {
    greedy.Send(Datagram(1, "get big\r\n"));
  }
  EXPECT_TRUE(Eventually([&] {
    return Counter("drops_large") > 0 &&
           Counter("udp_requests") + Counter("drops_no_buffer") == kRequests;
  }));
  ExpectServes();
  ExpectCleanLedger();
  EXPECT_LE(Counter("large_replies"), kRequests / 2);
}

TEST_F(NicTest, AFewPacketBuffersAreEnoughForALargeReply) {
  Serve({"--packet-buffers", "1", "--batch", "1"});
  const std::string value = Noise(5000, 1);
  MemcTcpClient tcp(ports_.tcp);
  EXPECT_EQ(tcp.Ask(SetRequest("big", value), "STORED\r\n"), "STORED\r\n");
  MemcUdpClient udp(ports_.udp);
  EXPECT_TRUE(udp.AskText(9, "get big\r\n") ==
              ValueReply("big", value) + "END\r\n");
  ExpectCounter("large_replies", 1);
  EXPECT_EQ(Counter("drops_large"), 0u);
}

TEST_F(NicTest, AFullRingIsWaitedForAndLosesNothing) {
  Serve({"--ring", "4", "--batch", "1"});
  MemcUdpClient udp(ports_.udp);
  EXPECT_EQ(udp.AskText(1, SetRequest("k", "v")), "STORED\r\n");
  testbed_->gpud().Stop();
  constexpr uint16_t kRequests = 20;
  for (uint16_t id = 0; id < kRequests; ++id) {
    udp.Send(Datagram(id, "get k\r\n"));
  }
  // The test is that nothing happens, so there is no state to wait for. A NIC
  // that polls would show it in this time; one that waits uses none.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  testbed_->gpud().Signal(SIGCONT);
  std::vector<uint16_t> ids;
  for (uint16_t i = 0; i < kRequests; ++i) {
    const std::string reply = udp.Receive();
    ASSERT_GE(reply.size(), 8u);
    ids.push_back(testing::FrameField(reply, 0));
    EXPECT_EQ(reply.substr(8), ValueReply("k", "v") + "END\r\n");
  }
  std::sort(ids.begin(), ids.end());
  for (uint16_t i = 0; i < kRequests; ++i) EXPECT_EQ(ids[i], i);
  ExpectCleanLedger();
  // A few wake-ups for each datagram, time-out and completion.
  EXPECT_LT(Counter("waits"), 10u * kRequests);
}

TEST_F(NicTest, ALateWakeUpIsTakenOnce) {
  Serve();
  MemcUdpClient udp(ports_.udp);
  EXPECT_EQ(udp.AskText(1, "get k\r\n"), "END\r\n");
  // gpud writes so when it found the NIC asleep that has just woken up: into
  // the pipe that is neither the NIC's output nor its input.
  std::vector<UniqueFd> writers;
  for (int fd = 3; fd < 64; ++fd) {
    const std::string path = fmt::format("/proc/{}/fd/{}", nic_->pid(), fd);
    char target[64] = {};
    if (readlink(path.c_str(), target, sizeof(target) - 1) < 5) continue;
    if (std::string_view(target).substr(0, 5) != "pipe:") continue;
    writers.emplace_back(open(path.c_str(), O_WRONLY | O_NONBLOCK));
  }
  ASSERT_EQ(writers.size(), 1u);
  ASSERT_EQ(write(writers[0].get(), "x", 1), 1);
  // While the byte is there, epoll does not sleep.
  EXPECT_TRUE(Eventually([&] {
    int unread = -1;
    return ioctl(writers[0].get(), FIONREAD, &unread) == 0 && unread == 0;
  }));
}

TEST_F(NicTest, RequestLatencyIsThatOfAnsweredRequests) {
  // Only a finished event closes a batch.
  Serve({"--batch-timeout-us", "10000000"});
  testbed_->gpud().Stop();
  MemcUdpClient udp(ports_.udp);
  udp.Send(Datagram(1, SetRequest("first", "x")));
  // They form one batch, because they arrive while the first event is in
  // flight.
  udp.Send(Datagram(2, "set quiet 0 0 1 noreply\r\nx\r\n"));
  std::string dropped = Datagram(3, SetRequest("dropped", "x"));
  dropped[5] = 2;  // of two datagrams
  udp.Send(dropped);
  udp.Send(Datagram(4, SetRequest("second", "x")));
  testbed_->gpud().Signal(SIGCONT);
  EXPECT_EQ(udp.Receive(), Datagram(1, "STORED\r\n"));
  EXPECT_EQ(udp.Receive(), Datagram(4, "STORED\r\n"));
  ExpectCounter("udp_replies", 2);
  EXPECT_EQ(Counter("drops_malformed"), 1u);
  EXPECT_EQ(testbed_->Samples("nic0", "request_latency"), 2u);
}

TEST_F(NicTest, TcpFramingHoldsForAnySplit) {
  Serve();
  MemcTcpClient tcp(ports_.tcp);
  std::string stream, expected;
  for (int i = 0; i < 60; ++i) {
    const std::string key = fmt::format("k{}", i % 7);
    const std::string value = Noise(static_cast<size_t>(i * 40), 3);
    stream += SetRequest(key, value) + "get " + key + "\r\nbogus\r\n";
    expected += "STORED\r\n" + ValueReply(key, value) + "END\r\nERROR\r\n";
  }
  std::mt19937 random(1);
  for (size_t at = 0; at < stream.size();) {
    const size_t piece =
        std::min<size_t>(1 + random() % 700, stream.size() - at);
    tcp.Send(std::string_view(stream).substr(at, piece));
    at += piece;
  }
  EXPECT_TRUE(tcp.Receive(expected.size()) == expected);
  tcp.Send("quit\r\n");
  EXPECT_TRUE(tcp.WaitForClose());
}

TEST_F(NicTest, HangsUpOnWhatIsNoMemcachedClient) {
  Serve();
  for (const std::string& text :
       {std::string("GET / HTTP/1.0\r\n"), std::string(5000, 'x'),
        std::string("\x80\0\0\0\0\0\0\0", 8)}) {
    MemcTcpClient tcp(ports_.tcp);
    tcp.Send(text);
    EXPECT_TRUE(tcp.WaitForClose());
  }
  ExpectServes();
}

TEST_F(NicTest, AClientThatDoesNotReadHoldsNobodyUp) {
  Serve();
  MemcTcpClient writer(ports_.tcp);
  EXPECT_EQ(writer.Ask(SetRequest("big", Noise(1 << 20, 1)), "STORED\r\n"),
            "STORED\r\n");
  MemcTcpClient deaf(ports_.tcp);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "get big\r\n";
  deaf.Send(many);
  for (int i = 0; i < 20; ++i) ExpectServes();
  // Its requests wait for it; not all of them fit into some buffer.
  EXPECT_LT(Counter("tcp_commands"), 100u);
}

TEST_F(NicTest, LimitsItsConnections) {
  Serve({"--max-connections", "3"});
  std::vector<std::unique_ptr<MemcTcpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<MemcTcpClient>(ports_.tcp));
    EXPECT_EQ(clients.back()->Ask("get k\r\n", "END\r\n"), "END\r\n");
  }
  MemcTcpClient refused(ports_.tcp);
  EXPECT_EQ(refused.ReceiveLine(), "ERROR Too many open connections\r\n");
  EXPECT_TRUE(refused.WaitForClose());
  ExpectCounter("tcp_refused", 1);
  clients.pop_back();
  ExpectCounter("tcp_connections", 2);
  ExpectServes();
}

TEST_F(NicTest, ServesInEverySetting) {
  for (const Flags& flags :
       {Flags{"--batch", "1", "--ring", "1"},
        Flags{"--batch", "512", "--ring", "2", "--packet-buffers", "512"},
        Flags{"--batch", "33", "--batch-timeout-us", "0", "--priority", "7"},
        Flags{"--table-entries", "16", "--store-bytes", "8MiB", "--listen",
              "127.0.0.1"}}) {
    Serve(flags);
    MemcTcpClient tcp(ports_.tcp);
    std::vector<std::unique_ptr<MemcUdpClient>> clients;
    for (int i = 0; i < 20; ++i) {
      clients.push_back(std::make_unique<MemcUdpClient>(ports_.udp));
    }
    for (uint16_t round = 0; round < 30; ++round) {
      for (auto& client : clients) {
        client->Send(Datagram(round, "get missing\r\n"));
      }
      for (auto& client : clients) {
        EXPECT_EQ(client->Receive(), Datagram(round, "END\r\n"));
      }
    }
    ExpectServes();
    nic_->Signal(SIGTERM);
    EXPECT_EQ(nic_->Wait(), 0);
  }
  ExpectCleanLedger();
}

TEST_F(NicTest, StatsTellOfTheServingProcess) {
  const auto start = static_cast<uint64_t>(time(nullptr));
  Serve({"--max-connections", "2"});
  const auto stats = [this](MemcTcpClient& tcp) {
    tcp.Send("stats\r\n");
    std::map<std::string, std::string> values;
    std::string line;
    while ((line = tcp.ReceiveLine()) != "END\r\n" && !line.empty()) {
      std::istringstream words(line);
      std::string stat;
      std::string name;
      words >> stat >> name >> values[name];
    }
    return values;
  };
  const auto number = [](const std::map<std::string, std::string>& values,
                         const std::string& name) {
    const auto at = values.find(name);
    EXPECT_NE(at, values.end()) << name;
    return at == values.end() ? 0 : std::stoull(at->second);
  };
  auto first = std::make_unique<MemcTcpClient>(ports_.tcp);
  EXPECT_EQ(first->Ask("version\r\n", "VERSION 1.6.18-carillon\r\n"),
            "VERSION 1.6.18-carillon\r\n");
  MemcTcpClient second(ports_.tcp);
  const auto before = stats(second);
  const auto now = static_cast<uint64_t>(time(nullptr));
  EXPECT_EQ(number(before, "pid"), static_cast<uint64_t>(nic_->pid()));
  EXPECT_LE(number(before, "uptime"), now - start);
  EXPECT_GE(number(before, "time") + 1, start);
  EXPECT_LE(number(before, "time"), now);
  EXPECT_EQ(before.at("version"), "1.6.18-carillon");
  EXPECT_EQ(before.at("pointer_size"), "64");
  EXPECT_EQ(before.at("threads"), "1");
  EXPECT_EQ(before.at("max_connections"), "2");
  EXPECT_EQ(before.at("curr_connections"), "2");
  EXPECT_EQ(before.at("total_connections"), "2");
  EXPECT_EQ(before.at("rejected_connections"), "0");
  EXPECT_EQ(before.at("bytes_read"), "16");     // "version" and "stats"
  EXPECT_EQ(before.at("bytes_written"), "25");  // the version

  MemcTcpClient third(ports_.tcp);
  EXPECT_EQ(third.ReceiveLine(), "ERROR Too many open connections\r\n");
  first.reset();
  MemcUdpClient udp(ports_.udp);
  EXPECT_EQ(udp.AskText(1, "get k\r\n"), "END\r\n");
  EXPECT_TRUE(Eventually(
      [&] { return number(stats(second), "curr_connections") == 1; }));
  const auto after = stats(second);
  EXPECT_EQ(after.at("total_connections"), "2");
  EXPECT_EQ(after.at("rejected_connections"), "1");
  // The datagrams are 15 and 13 bytes.
  EXPECT_GE(number(after, "bytes_read"), 16u + 15 + 7);
  EXPECT_GE(number(after, "bytes_written"), 25u + 13 + 500);
}

TEST_F(NicTest, AFailedEventAnswersItsStreamsAndDatagrams) {
  testbed_.reset();
  auto testbed = Testbed::Start({"--faults"});
  ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
  testbed_ = *std::move(testbed);
  auto board = faults::Board::Open(testbed_->paths().fault_board());
  ASSERT_TRUE(board.ok()) << std::string(board.status().message());
  const faults::Fault failure{.name = "f",
                              .point = faults::Point::kGpudKernel,
                              .times = 0,
                              .action = faults::Action::kFail,
                              .code = 7};
  ASSERT_TRUE((*board)->Inject({&failure, 1}).ok());
  Serve();
  MemcTcpClient tcp(ports_.tcp);
  tcp.Send("get k\r\n");
  EXPECT_THAT(tcp.ReceiveLine(),
              HasSubstr("SERVER_ERROR event failed (status"));
  tcp.Send(SetRequest("k", "v"));
  EXPECT_THAT(tcp.ReceiveLine(),
              HasSubstr("SERVER_ERROR event failed (status"));
  MemcUdpClient udp(ports_.udp);
  // The request's id, "0 of 1", whatever its other fields are.
  std::string request = Datagram(0x1234, "get k\r\n");
  request[3] = 5;
  udp.Send(request);
  const std::string reply = udp.Receive();
  EXPECT_EQ(reply.substr(0, 8), Datagram(0x1234, ""));
  EXPECT_THAT(reply, HasSubstr("SERVER_ERROR event failed (status"));
  EXPECT_TRUE(reply.ends_with(")\r\n"));
  // A part of a larger request is never answered, and this one follows it.
  request[5] = 2;
  udp.Send(request);
  udp.Send(Datagram(2, "get k\r\n"));
  EXPECT_EQ(udp.Receive().substr(0, 8), Datagram(2, ""));
  ExpectCounter("udp_requests", 3);
  ExpectCounter("udp_replies", 2);
}

TEST_F(NicTest, APortInUseIsOneClearError) {
  Serve();
  std::string output;
  EXPECT_EQ(Fail({"--udp-port", std::to_string(ports_.udp), "--tcp-port", "0"},
                 &output),
            1);
  EXPECT_THAT(output,
              HasSubstr(fmt::format("UDP 127.0.0.1:{} is in use", ports_.udp)));
  EXPECT_EQ(Fail({"--udp-port", "0", "--tcp-port", std::to_string(ports_.tcp)},
                 &output),
            1);
  EXPECT_THAT(output,
              HasSubstr(fmt::format("TCP 127.0.0.1:{} is in use", ports_.tcp)));
  // The failed NIC has left nothing behind in the testbed.
  EXPECT_EQ(testbed_->Devices().devices_size(), 1);
  ExpectServes();
}

TEST_F(NicTest, BadOptionsSayWhatMustHold) {
  std::string output;
  EXPECT_EQ(Fail({"--batch", "513"}, &output), 2);
  EXPECT_THAT(output,
              HasSubstr("--batch: '513' is out of range; allowed: 1 to 512"));
  EXPECT_EQ(Fail({"--ring", "48"}, &output), 2);
  EXPECT_THAT(output, HasSubstr("--ring: 48 is not a power of two"));
  EXPECT_EQ(Fail({"--packet-buffers", "31"}, &output), 2);
  EXPECT_THAT(output,
              HasSubstr("--packet-buffers: '31' is less than a batch of 32"));
  EXPECT_EQ(Fail({"--listen", "localhost", "--udp-port", "0"}, &output), 2);
  EXPECT_THAT(output, HasSubstr("'localhost' is not an IP address"));
  EXPECT_EQ(Fail({"--table-entries", "1"}, &output), 2);
  EXPECT_EQ(Fail({"--max-connections", "0"}, &output), 2);
}

TEST_F(NicTest, TakesTheEndOfGpudAsItsOwn) {
  Serve();
  ExpectServes();
  testbed_->gpud().Kill();
  EXPECT_EQ(nic_->Wait(), 4);
  EXPECT_THAT(nic_->output(), HasSubstr("PEER_DEAD"));
}

TEST_F(NicTest, TakesTheEndOfGpudAsItsOwnUnderLoad) {
  Serve();
  MemcUdpClient udp(ports_.udp);
  const std::string request = Datagram(1, "get k\r\n");
  for (int i = 0; i < 500; ++i) udp.Send(request);
  testbed_->gpud().Kill();
  for (int i = 0; i < 500; ++i) {
    // The send is refused once the NIC's socket is closed.
    send(udp.fd(), request.data(), request.size(), 0);
  }
  EXPECT_EQ(nic_->Wait(), 4);
}

TEST_F(NicTest, StopsWhenAsked) {
  Serve();
  ExpectServes();
  nic_->Signal(SIGTERM);
  EXPECT_EQ(nic_->Wait(), 0);
  EXPECT_EQ(testbed_->Devices().devices_size(), 0);
  const auto status = testbed_->Status();
  EXPECT_EQ(status.ekt_used(), 0u);
  EXPECT_EQ(status.memory_used(), 0u);
}

}  // namespace
}  // namespace carillon
