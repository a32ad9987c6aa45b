// GNoM's way through the NIC as a process: GETs as raw frames from the loopback
// interface of a network namespace, and Linux' own UDP sockets as clients, which
// take no frame with a wrong checksum.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "integration_tests/memc_testing.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using testing::Datagram;
using ::testing::HasSubstr;
using testing::MemcPorts;
using testing::MemcTcpClient;
using testing::MemcUdpClient;
using testing::Process;
using testing::StartMemcached;
using testing::StartNic;
using testing::Testbed;

using Flags = std::vector<std::string>;

std::string SetRequest(const std::string& key, const std::string& value) {
  return fmt::format("set {} 7 0 {}\r\n{}\r\n", key, value.size(), value);
}

class GnomTest : public ::testing::Test {
 protected:
  // Before there is any thread.
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    entered_ = EnterNetworkNamespace() && RunIp("", "link set lo up\n") &&
               AllowLocalFrames();
  }
  // Frames that a process puts on `lo` come from no neighbour: by default Linux
  // takes none from this machine's own addresses.
  static bool AllowLocalFrames() {
    for (const char* name : {"route_localnet", "accept_local"}) {
      std::ofstream file(fmt::format("/proc/sys/net/ipv4/conf/lo/{}", name));
      if (!(file << "1\n" << std::flush)) return false;
    }
    return true;
  }
  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace to change here";
    auto testbed = Testbed::Start({"--backend", "cpu"});
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
  }
  void Serve(const Flags& flags = {"--batch", "512"}) {
    Flags all = {"--gnom", "lo"};
    all.insert(all.end(), flags.begin(), flags.end());
    ports_ = {};
    nic_ = StartNic(*testbed_, all, &ports_);
    ASSERT_NE(ports_.tcp, 0);
  }
  uint64_t Counter(const std::string& name) {
    return testbed_->Counter("nic0", name);
  }
  // Counters are published when the NIC has nothing else to do.
  void ExpectCounter(const std::string& name, uint64_t value) {
    EXPECT_TRUE(Eventually([&] { return Counter(name) == value; }))
        << name << " is " << Counter(name) << ", not " << value;
  }
  // Every frame has one end, and every buffer is back.
  void ExpectNothingLeaks(uint64_t grxbs) {
    const auto ended = [&] {
      uint64_t frames = 0;
      for (const char* name :
           {"replies", "passed_on", "drops_length", "drops_checksum",
            "drops_fragment", "drops_not_for_us", "drops_source",
            "drops_malformed", "drops_no_buffer", "lost"}) {
        frames += Counter(std::string("gnom_") + name);
      }
      return frames;
    };
    EXPECT_TRUE(Eventually([&] {
      return Counter("grxbs_busy") == 0 &&
             Counter("grxbs_free") + Counter("grxbs_registered") == grxbs &&
             ended() == Counter("gnom_frames");
    })) << ended()
        << " ends of " << Counter("gnom_frames") << " frames; "
        << Counter("grxbs_free") << " free, " << Counter("grxbs_registered")
        << " registered, " << Counter("grxbs_busy") << " busy";
  }

  static inline bool entered_ = false;
  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<Process> nic_;
  MemcPorts ports_;
};

// A dialogue that Debian's memcached answers, too: both give the same bytes.
void CompareWithMemcached(const MemcPorts& nic, const MemcPorts& memcached) {
  std::mt19937 random(3);
  MemcUdpClient ours(nic.udp);
  MemcUdpClient theirs(memcached.udp);
  MemcTcpClient our_stream(nic.tcp);
  MemcTcpClient their_stream(memcached.tcp);
  std::vector<std::string> keys;
  for (int i = 0; i < 120; ++i) {
    keys.push_back(fmt::format("{}-{}", i, std::string(random() % 240, 'k')));
    if (i % 4 == 0) continue;
    // Some replies do not fit a frame of GNoM's, and some no datagram.
    const size_t sizes[] = {0, 2, 30, 300, 600, 1000};
    const std::string set =
        SetRequest(keys.back(), std::string(sizes[random() % 6], 'v'));
    if (i % 2 == 0) {
      const std::string datagram = Datagram(static_cast<uint16_t>(i), set);
      ASSERT_EQ(ours.AskMessage(datagram), theirs.AskMessage(datagram));
    } else {
      ASSERT_EQ(our_stream.Ask(set, "STORED\r\n"),
                their_stream.Ask(set, "STORED\r\n"));
    }
  }
  std::vector<std::string> requests = {"get\r\n",
                                       "get \r\n",
                                       "gets 1-\r\n",
                                       "version_\r\n",
                                       "GET x\r\n",
                                       "get " + std::string(250, 'x') + "\r\n",
                                       "get " + std::string(251, 'x') + "\r\n",
                                       "get " + std::string(400, 'x') + "\r\n",
                                       " get a\r\n"};
  for (const std::string& key : keys) {
    requests.push_back("get " + key + (random() % 3 == 0 ? "\n" : "\r\n"));
    if (random() % 5 == 0) requests.push_back("get " + key + " \r\n");
    if (random() % 5 == 0) requests.push_back("gets " + key + "\r\n");
    if (random() % 9 == 0) requests.push_back("delete " + key + "\r\n");
  }
  // Debian's memcached answers misses of several keys with broken datagrams.
  EXPECT_EQ(ours.AskText(999, "get a b\r\n"), "END\r\n");
  uint16_t id = 1000;
  for (const std::string& request : requests) {
    const std::string datagram = Datagram(++id, request);
    EXPECT_EQ(ours.AskMessage(datagram), theirs.AskMessage(datagram))
        << request;
  }
}

TEST_F(GnomTest, AnswersAsMemcachedDoesWithAndWithoutCopies) {
  for (const Flags& flags :
       {Flags{"--batch", "512"}, Flags{"--gnom-copies"}, Flags{"--batch", "64"},
        Flags{"--grxbs", "512", "--ring", "2"}}) {
    MemcPorts memcached;
    const auto peer = StartMemcached(&memcached);
    ASSERT_NE(peer, nullptr);
    ASSERT_NO_FATAL_FAILURE(Serve(flags));
    ASSERT_NO_FATAL_FAILURE(CompareWithMemcached(ports_, memcached));
    EXPECT_TRUE(Eventually([&] { return Counter("gnom_replies") > 50; }));
    EXPECT_GT(Counter("gnom_passed_on"), 20u);
    ExpectNothingLeaks(flags.size() == 4 ? 512 : 8192);
    const std::string how =
        flags == Flags{"--gnom-copies"} ? " ngd lo" : " gnom lo";
    const v1::ListDevicesResponse devices = testbed_->Devices();
    ASSERT_EQ(devices.devices_size(), 1);
    EXPECT_THAT(devices.devices(0).note(), HasSubstr(how));
    nic_->Kill();
    ASSERT_TRUE(
        Eventually([&] { return testbed_->Devices().devices_size() == 0; }));
  }
}

// Frames as no Linux sends them.
class RawSender {
 public:
  RawSender() : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0);
  }
  void Send(const std::string& frame) {
    EXPECT_EQ(send(fd_.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }

 private:
  UniqueFd fd_;
};

std::string Big16(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}
uint32_t Checksum(const std::string& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t byte = static_cast<uint8_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

// From 127.0.0.1, port 9, with no checksum of UDP.
std::string Frame(uint16_t port, const std::string& datagram,
                  uint32_t fragment = 0, uint32_t source_port = 9) {
  const std::string udp = Big16(source_port) + Big16(port) +
                          Big16(static_cast<uint32_t>(8 + datagram.size())) +
                          Big16(0) + datagram;
  const std::string addresses("\x7f\0\0\1\x7f\0\0\1", 8);
  std::string ip = Big16(0x4500) +
                   Big16(static_cast<uint32_t>(20 + udp.size())) + Big16(5) +
                   Big16(fragment) + Big16(64 << 8 | 17) + Big16(0) + addresses;
  ip.replace(10, 2, Big16(Checksum(ip)));
  return std::string(12, '\0') + Big16(0x0800) + ip + udp;
}

TEST_F(GnomTest, BadFramesAreCountedByReason) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  RawSender raw;
  const std::string get = Datagram(1, "get some-key\r\n");
  const std::string good = Frame(ports_.udp, get);
  raw.Send(good);
  ExpectCounter("gnom_replies", 1);
  std::string bad = good;
  bad[14 + 8] = 1;  // the time to live
  raw.Send(bad);
  bad = good;
  bad[14 + 20 + 6] = 1;  // a checksum of UDP
  raw.Send(bad);
  ExpectCounter("gnom_drops_checksum", 2);
  raw.Send(good.substr(0, good.size() - 2));
  ExpectCounter("gnom_drops_length", 1);
  raw.Send(Frame(ports_.udp, get, 0x2000));
  ExpectCounter("gnom_drops_fragment", 1);
  raw.Send(Frame(ports_.udp, get, 0, 0));
  ExpectCounter("gnom_drops_source", 1);
  std::string parts = get;
  parts[5] = 2;
  raw.Send(Frame(ports_.udp, parts));
  raw.Send(Frame(ports_.udp, get.substr(0, get.size() - 2)));
  ExpectCounter("gnom_drops_malformed", 2);
  // What is no GET to this port is not GNoM's at all.
  raw.Send(Frame(static_cast<uint16_t>(ports_.udp + 1), get));
  raw.Send(Frame(ports_.udp, get, 100));
  raw.Send(good);
  ExpectCounter("gnom_replies", 2);
  ExpectCounter("gnom_frames", 9);
  ExpectNothingLeaks(8192);
}

// Whether no frame waits in a packet socket of this namespace.
bool PacketSocketsAreEmpty() {
  std::ifstream file("/proc/self/net/packet");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 7; ++i) words >> word;
    if (word != "0") return false;
  }
  return true;
}

TEST_F(GnomTest, FramesThatFindNoBufferAreDroppedAndCounted) {
  constexpr uint64_t kGrxbs = 512;
  ASSERT_NO_FATAL_FAILURE(Serve({"--grxbs", std::to_string(kGrxbs)}));
  MemcUdpClient udp(ports_.udp);
  // Until gpud goes on, no batch ends.
  testbed_->gpud().Stop();
  const std::string request = Datagram(1, "get some-key-or-other\r\n");
  constexpr uint64_t kSent = 2000;
  for (uint64_t i = 0; i < kSent; ++i) {
    udp.Send(request);
    if (i % 100 != 99) continue;
    ASSERT_TRUE(Eventually([] { return PacketSocketsAreEmpty(); }));
  }
  testbed_->gpud().Signal(SIGCONT);
  ExpectCounter("gnom_frames", kGrxbs);
  ExpectCounter("gnom_drops_no_grxb", kSent - kGrxbs);
  ExpectCounter("gnom_replies", kGrxbs);
  ExpectNothingLeaks(kGrxbs);
  MemcUdpClient other(ports_.udp);
  EXPECT_EQ(other.AskText(2, "get k\r\n"), "END\r\n");
}

TEST_F(GnomTest, NoBufferLeaksWhenGpudDiesOrTheNicStartsAgain) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grxbs", "512", "--resume-within", "60"}));
  MemcUdpClient udp(ports_.udp);
  const std::string request = Datagram(1, "get some-key-or-other\r\n");
  for (int round = 0; round < 3; ++round) {
    // GRXBs are busy when gpud dies: it has not got to them.
    testbed_->gpud().Stop();
    for (int i = 0; i < 300; ++i) udp.Send(request);
    ASSERT_TRUE(Eventually([] { return PacketSocketsAreEmpty(); }));
    testbed_->gpud().Kill();
    ASSERT_TRUE(testbed_->RestartGpud({"--backend", "cpu"}).ok());
    ASSERT_TRUE(Eventually([&] {
      return Counter("gnom_replies") == 300u * (round + 1);
    })) << Counter("gnom_replies");
    ExpectNothingLeaks(512);
  }
  nic_->Kill();
  ASSERT_TRUE(
      Eventually([&] { return testbed_->Devices().devices_size() == 0; }));
  ASSERT_NO_FATAL_FAILURE(Serve({"--grxbs", "512"}));
  MemcUdpClient again(ports_.udp);
  EXPECT_EQ(again.AskText(2, "get k\r\n"), "END\r\n");
  ExpectCounter("gnom_replies", 1);
  ExpectNothingLeaks(512);
}

TEST_F(GnomTest, GetsFromAnotherInterfaceAreTheSocketsOwn) {
  ASSERT_TRUE(RunIp("",
                    "link add ga type veth peer name gb\n"
                    "addr add 10.9.9.1/24 dev ga\nlink set ga up\n"));
  // Of an address of this host, frames come from `lo`.
  nic_ = StartNic(*testbed_, {"--gnom", "ga", "--batch", "32"}, &ports_);
  MemcUdpClient udp(ports_.udp);
  EXPECT_EQ(udp.AskText(2, "get k\r\n"), "END\r\n");
  ExpectCounter("udp_replies", 1);
  EXPECT_EQ(Counter("gnom_frames"), 0u);
  EXPECT_TRUE(RunIp("", "link del ga\n"));
}

TEST_F(GnomTest, BadOptionsSayWhatMustHold) {
  const std::map<std::string, Flags> expected = {
      {"no such interface", {"--gnom", "nowhere", "--batch", "32"}},
      {"is not an IPv4 address", {"--gnom", "lo", "--listen", "::1"}},
      {"the least with --gnom", {"--gnom", "lo", "--batch", "16"}}};
  for (const auto& [text, flags] : expected) {
    Flags all = flags;
    all.insert(all.end(), {"--udp-port", "0", "--tcp-port", "0"});
    auto nic = testbed_->StartDevice("nic1", "devices/nic/nic", all);
    ASSERT_TRUE(nic.ok());
    EXPECT_NE((*nic)->Wait().value_or(0), 0) << text;
    EXPECT_THAT((*nic)->output(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace carillon
