// Two routers with a tunnel between them, each in a network namespace, a host
// behind each, and this test as the wire in the middle: it sees every frame, and
// changes, repeats or adds some.
//
//   a (10.0.1.2) - left (192.0.2.1) - wire - right (192.0.2.2) - b (10.0.2.2)
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/temp_directory.h"
#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using testing::Process;
using testing::Testbed;

using Frame = std::vector<uint8_t>;

constexpr const char* kHosts[] = {"a", "b"};
constexpr const char* kGateways[] = {"left", "right"};

std::string Mac(size_t side, int number) {
  return fmt::format("02:00:00:00:{:02x}:{:02x}", side + 1, number);
}

// The link between the gateways.
class Wire {
 public:
  // Its ends are the interfaces w0 and w1 of this namespace.
  bool Open() {
    for (size_t i = 0; i < 2; ++i) {
      ends_[i].reset(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
      const int on = 1;
      sockaddr_ll address{};
      address.sll_family = AF_PACKET;
      address.sll_protocol = htons(ETH_P_ALL);
      address.sll_ifindex =
          static_cast<int>(if_nametoindex(fmt::format("w{}", i).c_str()));
      if (!ends_[i] ||
          setsockopt(ends_[i].get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on,
                     sizeof(on)) != 0 ||
          bind(ends_[i].get(), reinterpret_cast<sockaddr*>(&address),
               sizeof(address)) != 0) {
        return false;
      }
    }
    thread_ = std::thread([this] { Carry(); });
    return true;
  }
  ~Wire() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Puts a frame on the wire to gateway `to`.
  void Add(size_t to, const Frame& frame) {
    EXPECT_EQ(send(ends_[to].get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }
  // The frames of gateway `from`, so far.
  std::vector<Frame> Seen(size_t from) {
    const std::lock_guard lock(mutex_);
    return seen_[from];
  }
  // Lets nothing through any more, but goes on to see all.
  void Cut(bool cut) { cut_ = cut; }

 private:
  void Carry() {
    while (!stop_) {
      std::array<pollfd, 2> readable = {
          {{ends_[0].get(), POLLIN, 0}, {ends_[1].get(), POLLIN, 0}}};
      poll(readable.data(), readable.size(), 10);
      for (size_t i = 0; i < 2; ++i) {
        Frame frame(10'000);
        for (;;) {
          const ssize_t bytes =
              recv(ends_[i].get(), frame.data(), frame.size(), MSG_DONTWAIT);
          if (bytes <= 0) break;
          const auto length = static_cast<size_t>(bytes);
          {
            const std::lock_guard lock(mutex_);
            seen_[i].emplace_back(frame.begin(), frame.begin() + bytes);
          }
          if (!cut_) {
            [[maybe_unused]] const ssize_t sent =
                send(ends_[1 - i].get(), frame.data(), length, 0);
          }
        }
      }
    }
  }

  std::array<UniqueFd, 2> ends_;
  std::mutex mutex_;
  std::array<std::vector<Frame>, 2> seen_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

// What the tests look at in an ESP packet, which may be in IPv4 or in IPv6.
struct Esp {
  size_t at;  // in the frame
  uint32_t spi;
  uint32_t sequence;
  uint64_t iv;
};
bool IsEsp(const Frame& frame) {
  return frame.size() > 80 && ((frame[12] == 0x08 && frame[23] == 50) ||
                               (frame[12] == 0x86 && frame[20] == 50));
}
Esp EspOf(const Frame& frame) {
  Esp esp{
      .at = frame[12] == 0x08 ? 34u : 54u, .spi = 0, .sequence = 0, .iv = 0};
  for (size_t i = 0; i < 4; ++i) {
    esp.spi = esp.spi << 8 | frame[esp.at + i];
    esp.sequence = esp.sequence << 8 | frame[esp.at + 4 + i];
  }
  for (size_t i = 0; i < 8; ++i) esp.iv = esp.iv << 8 | frame[esp.at + 8 + i];
  return esp;
}

uint16_t Checksum(const Frame& frame, size_t begin, size_t end) {
  uint32_t sum = 0;
  for (size_t i = begin; i < end; i += 2) {
    sum += frame[i] * 256u + frame[i + 1];
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(0xffff - sum);
}
void Put16(Frame* frame, size_t at, uint16_t value) {
  (*frame)[at] = static_cast<uint8_t>(value >> 8);
  (*frame)[at + 1] = static_cast<uint8_t>(value);
}

// A UDP datagram from 10.0.NET.2 to host b, as it should not be on the wire.
Frame ClearToHostB(uint8_t net) {
  Frame frame = {2,    0, 0,  0,  2, 3, 2, 0, 0,  0,  1, 3, 8,  0,
                 0x45, 0, 0,  46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,
                 net,  2, 10, 0,  2, 2, 0, 9, 0,  9,  0, 26};
  frame.resize(60);
  Put16(&frame, 24, Checksum(frame, 14, 34));
  return frame;
}

// An echo request from host a to gateway b itself.
Frame ClearPing() {
  Frame frame = ClearToHostB(1);
  frame[23] = 1;
  frame[33] = 1;
  std::fill(frame.begin() + 34, frame.end(), uint8_t{0});
  frame[34] = 8;
  for (const size_t at : {24u, 36u}) Put16(&frame, at, 0);
  Put16(&frame, 24, Checksum(frame, 14, 34));
  Put16(&frame, 36, Checksum(frame, 34, 60));
  return frame;
}

struct Form {
  const char* name;
  const char* suite;
  const char* ends[2];
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class IpsecGateway : public ::testing::TestWithParam<Form> {
 protected:
  // Before there is any thread.
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    entered_ = EnterNetworkNamespace();
  }

  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace here";
    for (const char* name : {"a", "b", "left", "right"}) {
      auto holder =
          Process::Start(name, {"/usr/bin/unshare", "-n", "/bin/sh", "-c",
                                "echo entered; exec sleep "
                                "infinity"});
      ASSERT_TRUE(holder.ok()) << std::string(holder.status().message());
      ASSERT_TRUE((*holder)->WaitForOutput("entered"));
      holders_.push_back(*std::move(holder));
    }
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
    ASSERT_NO_FATAL_FAILURE(MakeCables());
    ASSERT_TRUE(wire_.Open());
    for (size_t side = 0; side < 2; ++side) {
      WriteFiles(side);
      ASSERT_NO_FATAL_FAILURE(StartGateway(side));
    }
    gateways_started_ = true;
  }
  void TearDown() override {
    for (auto& gateway : gateways_) gateway.reset();
    // Of every test.
    if (gateways_started_) ExpectEspOnlyAndNoNumberTwice();
    if (entered_) RunIp("-force", "link del w0\nlink del w1\n");
  }

  pid_t HostOf(size_t side) { return holders_[side]->pid(); }
  pid_t GatewayOf(size_t side) { return holders_[2 + side]->pid(); }

  void MakeCables() {
    for (size_t side = 0; side < 2; ++side) {
      // Linux speaks of itself on none of the gateways' interfaces.
      const std::string links = fmt::format(
          "link add w{0} type veth peer name outer address {1} netns {2}\n"
          "link set w{0} addrgenmode none up\n",
          side, Mac(side, 3), GatewayOf(side));
      ASSERT_TRUE(RunIp("", links));
      const auto in_gateway = [&](std::vector<std::string> argv) {
        EXPECT_EQ(Run(GatewayOf(side), std::move(argv)), 0) << output_;
      };
      in_gateway({"ip", "link", "add", "inner", "address", Mac(side, 1), "type",
                  "veth", "peer", "name", "eth0", "address", Mac(side, 2),
                  "netns", std::to_string(HostOf(side))});
      for (const char* interface : {"inner", "outer"}) {
        in_gateway(
            {"ip", "link", "set", interface, "addrgenmode", "none", "up"});
      }
      const auto on_host = [&](std::vector<std::string> argv) {
        EXPECT_EQ(Run(HostOf(side), std::move(argv)), 0) << output_;
      };
      on_host({"ip", "link", "set", "lo", "up"});
      // Room for ESP around it.
      on_host({"ip", "link", "set", "eth0", "mtu", "1400", "addrgenmode",
               "none", "up"});
      for (const auto& [net, length] :
           {std::pair{fmt::format("10.0.{}.", side + 1), 24},
            std::pair{fmt::format("2001:db8:{}::", side + 1), 64}}) {
        on_host({"ip", "addr", "add", fmt::format("{}2/{}", net, length), "dev",
                 "eth0", "nodad"});
        on_host({"ip", "neigh", "add", net + "1", "lladdr", Mac(side, 1), "dev",
                 "eth0"});
        on_host({"ip", "route", "add", "default", "via", net + "1"});
      }
    }
    // Linux sends nothing for a moment after an interface has come up.
    for (size_t side = 0; side < 2; ++side) {
      for (const auto& [pid, interface] :
           {std::pair{HostOf(side), "eth0"},
            std::pair{GatewayOf(side), "inner"},
            std::pair{GatewayOf(side), "outer"}}) {
        ASSERT_TRUE(Eventually([&, pid = pid, interface = interface] {
          Run(pid, {"ip", "link", "show", interface});
          return output_.find("state UP") != std::string::npos;
        }));
      }
    }
  }

  static std::string Key(size_t number, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) {
      text += fmt::format("{:02x}", (number * 61 + i * 37) % 256);
    }
    return text;
  }
  // Of the SA that gateway `side` sends with.
  static std::string Keys(size_t side) {
    return std::string(GetParam().suite) == "aes-gcm"
               ? Key(side, 20)
               : Key(side, 24) + " " + Key(2 + side, 20);
  }
  void WriteFiles(size_t side) {
    const size_t other = 1 - side;
    const auto& ends = GetParam().ends;
    const bool six = std::string(ends[0]).find(':') != std::string::npos;
    const std::string host =
        fmt::format("{} {} dev inner\n", Mac(side, 2), Mac(side, 1));
    std::ofstream(Routes(side))
        << fmt::format("10.0.{}.2/32 {}", side + 1, host)
        << fmt::format("2001:db8:{}::2/128 {}", side + 1, host)
        << fmt::format("{}/{} {} {} dev outer\n", ends[other], six ? 128 : 32,
                       Mac(other, 3), Mac(side, 3));
    const std::string way =
        fmt::format("{} {} {}", ends[side], ends[other], GetParam().suite);
    std::ofstream(Sas(side))
        << fmt::format("out {:#x} {} {} 10.0.{}.0/24 2001:db8:{}::/64\n",
                       0x1000 + side, way, Keys(side), other + 1, other + 1)
        << fmt::format("in {:#x} {} {}\n", 0x1000 + other, way, Keys(other));
    ASSERT_EQ(chmod(Sas(side).c_str(), 0600), 0);
  }
  std::string Routes(size_t side) {
    return fmt::format("{}/{}.routes", directory_.path(), kGateways[side]);
  }
  std::string Sas(size_t side) {
    return fmt::format("{}/{}.tunnels", directory_.path(), kGateways[side]);
  }

  void StartGateway(size_t side) {
    auto gateway = Process::Start(
        kGateways[side],
        OnPid(GatewayOf(side),
              {testing::Program("devices/router/router"), "--dir",
               testbed_->directory(), "--name", kGateways[side], "--ports",
               "inner=af_packet:inner,outer=af_packet:outer", "--routes",
               Routes(side), "--tunnels", Sas(side), "--resume-within=60",
               "--addresses", fmt::format("10.0.{}.1", side + 1)}));
    ASSERT_TRUE(gateway.ok()) << std::string(gateway.status().message());
    gateways_[side] = *std::move(gateway);
    ASSERT_TRUE(gateways_[side]->WaitForOutput("1 outbound and 1 inbound SAs"))
        << gateways_[side]->output();
  }
  // As the supervisor: the next when gpud has let go of the one before.
  void KillAndStartGateway(size_t side) {
    gateways_[side]->Kill();
    ASSERT_TRUE(Eventually([&] {
      const auto attached = testbed_->Devices();
      for (const auto& device : attached.devices()) {
        if (device.name() == kGateways[side]) return false;
      }
      return true;
    }));
    StartGateway(side);
  }

  static std::vector<std::string> OnPid(pid_t pid,
                                        const std::vector<std::string>& argv) {
    std::vector<std::string> all = {"/usr/bin/nsenter", "-t",
                                    std::to_string(pid), "-n"};
    all.insert(all.end(), argv.begin(), argv.end());
    return all;
  }
  int Run(pid_t pid, const std::vector<std::string>& argv) {
    auto process = Process::Start(argv.front(), OnPid(pid, argv));
    EXPECT_TRUE(process.ok());
    const int exit = (*process)->Wait().value_or(-1000);
    output_ = (*process)->output();
    return exit;
  }
  // From host a to host b, all at once, and all answers come. For the last one ping
  // waits no longer than the interval, or twice as long as another took.
  void ExpectPings(const std::string& to, int count,
                   std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {"ping", "-n",
                                     "-W",   "50",
                                     "-i",   "50",
                                     "-l",   std::to_string(count),
                                     "-c",   std::to_string(count)};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.push_back(to);
    EXPECT_EQ(Run(HostOf(0), argv), 0) << output_;
    EXPECT_THAT(output_, HasSubstr(" 0% packet loss"));
  }
  void ExpectBothVersionsPing(int count) {
    for (const char* to : {"10.0.2.2", "2001:db8:2::2"}) ExpectPings(to, count);
  }
  // A gateway has said that it skips numbers; the other direction of the tunnel
  // may lose what is within them, so a ping that waits is none to count.
  ::testing::AssertionResult PingPasses() {
    return Eventually([&] {
      return Run(HostOf(0), {"ping", "-n", "-i", "0.002", "-c", "20", "-W", "1",
                             "10.0.2.2"}) == 0;
    })
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure() << output_;
  }

  uint64_t Counter(size_t side, const std::string& name) {
    return testbed_->Counter(kGateways[side], name);
  }
  ::testing::AssertionResult CounterReaches(size_t side,
                                            const std::string& name,
                                            uint64_t value) {
    if (Eventually([&] { return Counter(side, name) >= value; })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << kGateways[side] << "'s " << name << " is " << Counter(side, name)
           << ", not " << value;
  }
  // Of all that has passed the wire.
  void ExpectEspOnlyAndNoNumberTwice() {
    for (size_t side = 0; side < 2; ++side) {
      std::set<uint32_t> sequences;
      std::set<uint64_t> ivs;
      for (const Frame& frame : wire_.Seen(side)) {
        ASSERT_TRUE(IsEsp(frame)) << "a frame of other kind on the wire";
        const Esp esp = EspOf(frame);
        ASSERT_EQ(esp.spi, 0x1000u + side);
        EXPECT_TRUE(sequences.insert(esp.sequence).second)
            << kGateways[side] << " sent number " << esp.sequence << " twice";
        EXPECT_TRUE(ivs.insert(esp.iv).second)
            << kGateways[side] << " sent an IV twice";
      }
      EXPECT_FALSE(sequences.empty());
    }
  }

  static inline bool entered_ = false;
  const TempDirectory directory_;
  std::vector<std::unique_ptr<Process>> holders_;
  std::unique_ptr<Testbed> testbed_;
  Wire wire_;
  std::array<std::unique_ptr<Process>, 2> gateways_;
  bool gateways_started_ = false;
  std::string output_;
};

TEST_P(IpsecGateway, HostsReachEachOtherAndTheWireSeesEspOnly) {
  ExpectBothVersionsPing(50);
  ExpectPings("10.0.2.2", 10, {"-M", "do", "-s", "1372"});
  // One hop less at the first gateway's tunnel and one at each forwarding.
  EXPECT_THAT(output_, HasSubstr("ttl=62"));
  EXPECT_EQ(wire_.Seen(0).size(), 110u);
  EXPECT_EQ(wire_.Seen(1).size(), 110u);
  for (size_t side = 0; side < 2; ++side) {
    EXPECT_TRUE(CounterReaches(side, "esp_encrypted", 110));
    EXPECT_TRUE(CounterReaches(side, "esp_decrypted", 110));
    EXPECT_THAT(gateways_[side]->output(),
                ::testing::Not(HasSubstr(Keys(side).substr(0, 12))));
  }
}

TEST_P(IpsecGateway, EachDropHasItsReason) {
  ExpectBothVersionsPing(2);
  const Frame good = wire_.Seen(0).back();
  const uint64_t decrypted = Counter(1, "esp_decrypted");
  const auto drops = [&](Frame frame, const std::string& reason) {
    const uint64_t before = Counter(1, reason);
    wire_.Add(1, frame);
    EXPECT_TRUE(CounterReaches(1, reason, before + 1));
  };
  const size_t esp = EspOf(good).at;
  drops(good, "esp_drops_replayed");
  Frame changed = good;
  changed[esp + 2] ^= 1;
  drops(changed, "esp_drops_spi");
  // A number that was not there, so that it is not a repetition.
  changed = good;
  changed[esp + 6] ^= 1;
  drops(changed, "esp_drops_icv");
  changed = good;
  changed[esp + 6] ^= 1;
  changed[changed.size() - 20] ^= 1;
  drops(changed, "esp_drops_icv");
  if (esp == 34) {
    changed = good;
    changed[24] ^= 1;
    drops(changed, "esp_drops_malformed");
  }
  // In the clear, from behind the peer; another source is none of the tunnel's.
  drops(ClearToHostB(1), "esp_drops_clear");
  drops(ClearPing(), "esp_drops_clear");
  EXPECT_EQ(Counter(1, "pings"), 0u);
  const uint64_t delivered = Counter(1, "inner_out");
  wire_.Add(1, ClearToHostB(9));
  EXPECT_TRUE(CounterReaches(1, "inner_out", delivered + 1));
  EXPECT_EQ(Counter(1, "esp_decrypted"), decrypted);
  ExpectBothVersionsPing(2);
}

TEST_P(IpsecGateway, NoNumberLeavesTwiceWhateverDies) {
  for (int round = 0; round < 2; ++round) {
    ExpectBothVersionsPing(30);
    // The gateways, in the middle of a stream.
    for (size_t side = 0; side < 2; ++side) {
      auto ping = Process::Start(
          "ping", OnPid(HostOf(0), {"ping", "-n", "-q", "-i", "0.002", "-c",
                                    "100000", "10.0.2.2"}));
      ASSERT_TRUE(ping.ok());
      const uint64_t before = Counter(side, "esp_encrypted");
      ASSERT_TRUE(CounterReaches(side, "esp_encrypted", before + 50));
      ASSERT_NO_FATAL_FAILURE(KillAndStartGateway(side));
      ASSERT_TRUE(PingPasses());
      (*ping)->Kill();
    }
    // gpud, with packets in flight.
    auto ping = Process::Start(
        "ping", OnPid(HostOf(0), {"ping", "-n", "-q", "-i", "0.002", "-c",
                                  "100000", "10.0.2.2"}));
    ASSERT_TRUE(ping.ok());
    const uint64_t before = Counter(0, "esp_encrypted");
    ASSERT_TRUE(CounterReaches(0, "esp_encrypted", before + 50));
    testbed_->gpud().Kill();
    const auto again = testbed_->RestartGpud();
    ASSERT_TRUE(again.ok()) << std::string(again.message());
    ASSERT_TRUE(CounterReaches(0, "esp_encrypted", 1));
    ASSERT_TRUE(PingPasses());
    (*ping)->Kill();
    // An end in order.
    gateways_[1]->Signal(SIGTERM);
    EXPECT_EQ(gateways_[1]->Wait(), 0);
    ASSERT_NO_FATAL_FAILURE(KillAndStartGateway(1));
    ASSERT_TRUE(PingPasses());
  }
}

TEST_P(IpsecGateway, WhatWasTakenIsNotTakenAgainAfterARestart) {
  ExpectBothVersionsPing(100);
  const std::vector<Frame> seen = wire_.Seen(0);
  EXPECT_EQ(seen.size(), 200u);
  const auto repeat_all = [&] {
    const uint64_t before = Counter(1, "esp_drops_replayed");
    for (const Frame& frame : seen) wire_.Add(1, frame);
    EXPECT_TRUE(CounterReaches(1, "esp_drops_replayed", before + seen.size()));
  };
  // After gpud's death, the gateway's, and its end in order.
  testbed_->gpud().Kill();
  ASSERT_TRUE(testbed_->RestartGpud().ok());
  repeat_all();
  EXPECT_EQ(Counter(1, "esp_decrypted"), 200u);
  ASSERT_NO_FATAL_FAILURE(KillAndStartGateway(1));
  repeat_all();
  EXPECT_EQ(Counter(1, "esp_decrypted"), 0u);
  gateways_[1]->Signal(SIGTERM);
  EXPECT_EQ(gateways_[1]->Wait(), 0);
  ASSERT_NO_FATAL_FAILURE(KillAndStartGateway(1));
  repeat_all();
  EXPECT_EQ(Counter(1, "esp_decrypted"), 0u);
  ASSERT_TRUE(PingPasses());
}

TEST_P(IpsecGateway, WhatCannotBeEncryptedNeverLeavesInTheClear) {
  ExpectBothVersionsPing(2);
  // There is a route that would take it there.
  std::ofstream(Routes(0), std::ios::app)
      << fmt::format("10.0.2.2/32 {} {} dev outer\n", Mac(1, 3), Mac(0, 3));
  ASSERT_TRUE(CounterReaches(0, "reloads", 1));
  ExpectPings("10.0.2.2", 20);
  EXPECT_NE(Run(HostOf(0), {"ping", "-n", "-c", "2", "-i", "0.002", "-W",
                            "0.01", "-t", "1", "10.0.2.2"}),
            0);
  EXPECT_TRUE(CounterReaches(0, "esp_drops_expired", 2));
}

INSTANTIATE_TEST_SUITE_P(
    Forms, IpsecGateway,
    ::testing::Values(
        Form{"AesGcm", "aes-gcm", {"192.0.2.1", "192.0.2.2"}},
        Form{"TripleDesIn6", "3des-sha1", {"2001:db8:f::1", "2001:db8:f::2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace carillon
