// The router between two hosts: each is a network namespace with Linux in it, and
// every packet between them passes the event kernels.
//
//   host a (10.0.1.2, 2001:db8:1::2) - port a: router - port b - host b (10.0.2.2)
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
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

constexpr int kMtu = 9'000;
constexpr int kXdpMtu = 3'000;
constexpr const char* kHosts[] = {"a", "b"};

std::string HostMac(size_t host) {
  return fmt::format("02:00:00:00:{:02x}:02", host + 1);
}
std::string RouterMac(size_t host) {
  return fmt::format("02:00:00:00:{:02x}:01", host + 1);
}

class LiveRouterTest : public ::testing::Test {
 protected:
  // Before there is any thread.
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    is_root_ = geteuid() == 0;
    entered_ = EnterNetworkNamespace();
  }

  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace here";
    for (const char* host : kHosts) {
      auto holder = Process::Start(std::string("host ") + host,
                                   {"/usr/bin/unshare", "-n", "/bin/sh", "-c",
                                    "echo entered; exec sleep infinity"});
      ASSERT_TRUE(holder.ok()) << std::string(holder.status().message());
      ASSERT_TRUE((*holder)->WaitForOutput("entered"));
      holders_.push_back(*std::move(holder));
    }
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
    WriteRoutes(0);
  }
  void TearDown() override {
    router_.reset();
    if (!entered_) return;
    RunIp("-force", "link del ra\nlink del rb\nlink del xa\n");
    EXPECT_TRUE(LinuxAnswersPings(true));
  }

  // Where the router is.
  static bool LinuxAnswersPings(bool answers) {
    const std::string ignores = answers ? "0" : "1";
    return WriteTo("/proc/sys/net/ipv4/icmp_echo_ignore_all", ignores) &&
           WriteTo("/proc/sys/net/ipv6/icmp/echo_ignore_all", ignores);
  }

  // The cables, and what each host knows of its network.
  void MakeCables(int mtu = kMtu) {
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(RunIp(
          "", fmt::format(
                  "link add r{0} address {1} mtu {3} type veth peer name eth0 "
                  "address {2} mtu {3} netns {4}\n"
                  "addr add 10.0.{5}.1/24 dev r{0}\n"
                  "addr add 2001:db8:{5}::1/64 dev r{0} nodad\n"
                  "link set r{0} up\n",
                  kHosts[i], RouterMac(i), HostMac(i), mtu, holders_[i]->pid(),
                  i + 1)));
      SetUpHost(i, "eth0");
    }
    // Linux sends nothing for a moment after an interface has come up.
    for (size_t i = 0; i < 2; ++i) {
      for (const std::string& router : {fmt::format("10.0.{}.1", i + 1),
                                        fmt::format("2001:db8:{}::1", i + 1)}) {
        ASSERT_TRUE(Eventually([&] {
          return Run(i, {"ping", "-n", "-W", "1", "-c", "1", router}) == 0;
        }));
      }
      // Otherwise Linux asks again seconds later, and its question is a packet
      // more to the router.
      for (const char* network : {"10.0.{}.{}", "2001:db8:{}::{}"}) {
        const auto at = [&](int host) {
          return fmt::format(fmt::runtime(network), i + 1, host);
        };
        EXPECT_TRUE(
            RunIp("", fmt::format("neigh replace {} lladdr {} dev r{}\n", at(2),
                                  HostMac(i), kHosts[i])));
        EXPECT_EQ(Run(i, {"ip", "neigh", "replace", at(1), "lladdr",
                          RouterMac(i), "dev", "eth0"}),
                  0)
            << output_;
      }
    }
  }
  void SetUpHost(size_t i, const std::string& interface) {
    EXPECT_EQ(Run(i, {"ip", "addr", "add", fmt::format("10.0.{}.2/24", i + 1),
                      "dev", interface}),
              0);
    EXPECT_EQ(
        Run(i, {"ip", "addr", "add", fmt::format("2001:db8:{}::2/64", i + 1),
                "dev", interface, "nodad"}),
        0);
    EXPECT_EQ(Run(i, {"ip", "link", "set", interface, "up"}), 0);
    EXPECT_EQ(Run(i, {"ip", "link", "set", "lo", "up"}), 0);
    EXPECT_EQ(Run(i, {"ip", "route", "add", "default", "via",
                      fmt::format("10.0.{}.1", i + 1)}),
              0);
    EXPECT_EQ(Run(i, {"ip", "-6", "route", "add", "default", "via",
                      fmt::format("2001:db8:{}::1", i + 1)}),
              0);
  }

  // Each version has other next hops and prefixes, of the same meaning.
  void WriteRoutes(int version, const std::string& more = "") {
    std::string text = fmt::format("# version {}\n", version);
    for (size_t i = 0; i < 2; ++i) {
      const std::string way =
          fmt::format("{} {} {} dev {}\n", HostMac(i), RouterMac(i),
                      kMtu - version % 7, kHosts[i]);
      text += fmt::format("10.0.{}.{} {}", i + 1,
                          version % 2 == 0 ? "0/24" : "2/32", way);
      text += fmt::format("2001:db8:{}::/{} {}", i + 1, 48 + version % 17, way);
    }
    // As an editor does it.
    std::ofstream(routes_ + ".new") << text << more;
    ASSERT_EQ(rename((routes_ + ".new").c_str(), routes_.c_str()), 0);
  }

  void StartRouter(std::vector<std::string> flags = {
                       "--ports", "a=af_packet:ra, b=af_packet:rb"}) {
    if (std::ranges::find(flags, "--routes") == flags.end()) {
      flags.insert(flags.end(), {"--routes", routes_});
    }
    flags.push_back("--resume-within=60");
    auto router =
        testbed_->StartDevice("router0", "devices/router/router", flags);
    ASSERT_TRUE(router.ok()) << std::string(router.status().message());
    router_ = *std::move(router);
    ASSERT_TRUE(router_->WaitForOutput("forwarding at")) << router_->output();
  }

  std::vector<std::string> OnHost(size_t host, std::vector<std::string> argv) {
    std::vector<std::string> all = {
        "/usr/bin/nsenter", "-t", std::to_string(holders_[host]->pid()), "-n"};
    all.insert(all.end(), argv.begin(), argv.end());
    return all;
  }
  std::unique_ptr<Process> Start(size_t host, std::vector<std::string> argv) {
    auto process = Process::Start(argv.front(), OnHost(host, argv));
    EXPECT_TRUE(process.ok()) << std::string(process.status().message());
    return process.ok() ? *std::move(process) : nullptr;
  }
  int Run(size_t host, std::vector<std::string> argv) {
    const auto process = Start(host, std::move(argv));
    const int exit = process->Wait().value_or(-1000);
    output_ = process->output();
    return exit;
  }
  // Pings from host a to host b, all at once. ping ends with the last reply: for
  // that one it waits twice as long as another took, or for the interval (-i) if
  // that is longer, and for -W only without any reply.
  static std::vector<std::string> Ping(const std::string& to, int count,
                                       std::vector<std::string> more = {}) {
    const std::string all = std::to_string(count);
    std::vector<std::string> argv = {"ping", "-n", "-W", "50", "-i",
                                     "50",   "-l", all,  "-c", all};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.push_back(to);
    return argv;
  }
  // Pings as long as it runs.
  static std::vector<std::string> SteadyPing(
      const std::string& to, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {"ping", "-n"};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.push_back(to);
    return argv;
  }
  // Of a ping that runs, up to the last one: it waits for none that are under way
  // when it ends. So packets must have passed by then behind all that could have
  // lost some.
  static void EndAndExpectEveryAnswer(Process& ping) {
    ping.Signal(SIGINT);
    EXPECT_EQ(ping.Wait(), 0);
    const std::string output = ping.output();
    std::set<int> answered;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      int number = 0;
      const size_t at = line.find("icmp_seq=");
      if (line.find("bytes from") == line.npos || at == line.npos) continue;
      ASSERT_EQ(sscanf(line.c_str() + at, "icmp_seq=%d", &number), 1);
      EXPECT_TRUE(answered.insert(number).second) << "twice: " << line;
    }
    ASSERT_GT(answered.size(), 100u);
    for (int number = 1; number < *answered.rbegin(); ++number) {
      EXPECT_TRUE(answered.contains(number))
          << number << " of " << *answered.rbegin();
    }
  }
  uint64_t Counter(const std::string& name) {
    return testbed_->Counter("router0", name);
  }
  // Counters are published once the router has nothing to do.
  ::testing::AssertionResult CounterReaches(const std::string& name,
                                            uint64_t value) {
    if (Eventually([&] { return Counter(name) >= value; })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << name << " is " << Counter(name) << ", not " << value;
  }

  static inline bool entered_ = false;
  static inline bool is_root_ = false;  // of the machine
  const TempDirectory directory_;
  const std::string routes_ = directory_.path() + "/routes";
  std::vector<std::unique_ptr<Process>> holders_;
  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<Process> router_;
  std::string output_;
};

TEST_F(LiveRouterTest, HostsReachEachOtherThroughEventKernelsAlone) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  for (const char* to : {"10.0.2.2", "2001:db8:2::2"}) {
    EXPECT_EQ(Run(0, Ping(to, 50)), 0) << output_;
    EXPECT_THAT(output_, HasSubstr(" 0% packet loss"));
    EXPECT_THAT(output_, HasSubstr("ttl=63"));
    // As large as the interfaces allow.
    EXPECT_EQ(Run(0, Ping(to, 5, {"-M", "do", "-s", "8900"})), 0) << output_;
  }
  EXPECT_TRUE(CounterReaches("forwarded", 220));
  EXPECT_EQ(Counter("a_in"), Counter("b_out"));
  EXPECT_EQ(Counter("b_in"), Counter("a_out"));
  EXPECT_EQ(Counter("a_out") + Counter("b_out"), Counter("forwarded"));
  // Without the event kernels there is no way.
  router_.reset();
  EXPECT_NE(Run(0, {"ping", "-n", "-W", "1", "-c", "1", "10.0.2.2"}), 0);
}

TEST_F(LiveRouterTest, UdpArrivesWithEveryByteAndItsChecksum) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  // Linux drops a datagram whose checksum is wrong.
  const auto server =
      Start(1, {"/usr/bin/python3", "-uc",
                "import socket\n"
                "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                "s.bind(('::', 9000))\n"
                "print('bound')\n"
                "while True:\n"
                "  data, peer = s.recvfrom(65536)\n"
                "  s.sendto(data[::-1], peer)\n"});
  ASSERT_TRUE(server->WaitForOutput("bound"));
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import os, socket\n"
                    "for family, to in ((socket.AF_INET, '10.0.2.2'),\n"
                    "                   (socket.AF_INET6, '2001:db8:2::2')):\n"
                    "  s = socket.socket(family, socket.SOCK_DGRAM)\n"
                    "  s.settimeout(50)\n"
                    "  for n in list(range(1, 300)) + [1471, 8000, 8900]:\n"
                    "    data = os.urandom(n)\n"
                    "    s.sendto(data, (to, 9000))\n"
                    "    assert s.recv(65536) == data[::-1], n\n"}),
            0)
      << output_;
}

TEST_F(LiveRouterTest, NewRoutesCostNoPacket) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  const auto ping4 = Start(0, SteadyPing("10.0.2.2", {"-i", "0.002"}));
  const auto ping6 = Start(0, SteadyPing("2001:db8:2::2", {"-i", "0.002"}));
  constexpr int kVersions = 40;
  for (int version = 1; version <= kVersions; ++version) {
    const uint64_t forwarded = Counter("forwarded");
    ASSERT_NO_FATAL_FAILURE(WriteRoutes(version));
    ASSERT_TRUE(CounterReaches("reloads", static_cast<uint64_t>(version)));
    // Packets pass before the next.
    ASSERT_TRUE(CounterReaches("forwarded", forwarded + 20));
  }
  // With routes that are wrong the ones before stay.
  ASSERT_NO_FATAL_FAILURE(WriteRoutes(0, "10.0.0.0/8 nonsense\n"));
  ASSERT_TRUE(CounterReaches("reloads_failed", 1));
  ASSERT_TRUE(router_->WaitForOutput("line 6: "));
  ASSERT_TRUE(CounterReaches("forwarded", Counter("forwarded") + 20));
  for (Process* ping : {ping4.get(), ping6.get()}) {
    ASSERT_FALSE(ping->ended()) << ping->output();
    EndAndExpectEveryAnswer(*ping);
  }
}

TEST_F(LiveRouterTest, EachDropHasItsReason) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  WriteRoutes(0, fmt::format("10.0.9.0/24 {} {} 1400 dev b\n", HostMac(1),
                             RouterMac(1)));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  const auto lost = [&](const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> argv = {"ping", "-n", "-W", "0.01",
                                     "-c",   "3",  "-i", "0.002"};
    argv.insert(argv.end(), more.begin(), more.end());
    argv.push_back(to);
    EXPECT_EQ(Run(0, argv), 1) << output_;
  };
  lost("10.0.3.1", {});
  lost("10.0.2.2", {"-t", "1"});
  lost("10.0.9.1", {"-s", "1373"});
  lost("240.0.0.1", {});
  EXPECT_TRUE(CounterReaches("packets", 12));
  EXPECT_EQ(Counter("drops_no_route"), 3u);
  EXPECT_EQ(Counter("drops_expired"), 3u);
  EXPECT_EQ(Counter("drops_too_large"), 3u);
  EXPECT_EQ(Counter("forwarded"), 0u);
}

TEST_F(LiveRouterTest, GpudsDeathCostsNoPacket) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  const auto ping4 = Start(0, SteadyPing("10.0.2.2", {"-O", "-i", "0.005"}));
  const auto ping6 =
      Start(0, SteadyPing("2001:db8:2::2", {"-O", "-i", "0.005"}));
  for (int death = 0; death < 3; ++death) {
    ASSERT_TRUE(CounterReaches("forwarded", Counter("forwarded") + 100));
    // It dies while packets are in flight.
    testbed_->gpud().Stop();
    const size_t seen4 = ping4->output().size();
    const size_t seen6 = ping6->output().size();
    const auto waits = [](Process& ping, size_t seen) {
      return Eventually([&] {
        return ping.output().find("no answer yet", seen) != std::string::npos;
      });
    };
    ASSERT_TRUE(waits(*ping4, seen4) && waits(*ping6, seen6));
    testbed_->gpud().Kill();
    const auto again = testbed_->RestartGpud();
    ASSERT_TRUE(again.ok()) << std::string(again.message());
    ASSERT_TRUE(CounterReaches("forwarded", 1)) << router_->output();
    // New routes after it.
    const uint64_t reloads = Counter("reloads");
    ASSERT_NO_FATAL_FAILURE(WriteRoutes(death + 1));
    ASSERT_TRUE(CounterReaches("reloads", reloads + 1));
  }
  ASSERT_TRUE(CounterReaches("forwarded", Counter("forwarded") + 100));
  for (Process* ping : {ping4.get(), ping6.get()}) {
    ASSERT_FALSE(ping->ended()) << ping->output();
    EndAndExpectEveryAnswer(*ping);
  }
}

TEST_F(LiveRouterTest, ItStopsAtOnceAndItsSuccessorForwards) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  EXPECT_EQ(Run(0, Ping("10.0.2.2", 3)), 0) << output_;
  router_->Signal(SIGTERM);
  EXPECT_EQ(router_->Wait(), 0);
  EXPECT_THAT(router_->output(), HasSubstr("6 packets, 6 forwarded"));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  router_->Kill();
  ASSERT_TRUE(
      Eventually([&] { return testbed_->Devices().devices().empty(); }));
  ASSERT_NO_FATAL_FAILURE(StartRouter());
  EXPECT_EQ(Run(0, Ping("10.0.2.2", 3)), 0) << output_;
}

TEST_F(LiveRouterTest, TapsCarryPacketsToo) {
  if (access("/dev/net/tun", R_OK | W_OK) != 0) {
    GTEST_SKIP() << "no /dev/net/tun here";
  }
  ASSERT_NO_FATAL_FAILURE(
      StartRouter({"--ports", "a=tap:ra, b=tap:rb", "--batch", "4"}));
  for (size_t i = 0; i < 2; ++i) {
    const std::string tap = fmt::format("r{}", kHosts[i]);
    ASSERT_TRUE(
        RunIp("", fmt::format("link set {} address {} mtu {} netns {}\n", tap,
                              HostMac(i), kMtu, holders_[i]->pid())));
    SetUpHost(i, tap);
    // Nobody else than the router is at the other end, and it answers no ARP.
    for (const std::string& address : {fmt::format("10.0.{}.1", i + 1),
                                       fmt::format("2001:db8:{}::1", i + 1)}) {
      EXPECT_EQ(Run(i, {"ip", "neigh", "add", address, "lladdr", RouterMac(i),
                        "dev", tap}),
                0);
    }
  }
  for (const char* to : {"10.0.2.2", "2001:db8:2::2"}) {
    // Linux sends nothing for a moment after an interface has come up.
    ASSERT_TRUE(Eventually([&] {
      return Run(0, {"ping", "-n", "-W", "1", "-c", "1", to}) == 0;
    }));
    const uint64_t forwarded = Counter("forwarded");
    EXPECT_EQ(Run(0, Ping(to, 50, {"-M", "do", "-s", "8900"})), 0);
    EXPECT_THAT(output_, HasSubstr(" 0% packet loss"));
    EXPECT_TRUE(CounterReaches("forwarded", forwarded + 100));
  }
}

TEST_F(LiveRouterTest, FlowsStayInOrderInSeveralQueues) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_NO_FATAL_FAILURE(
      StartRouter({"--ports", "a=af_packet:ra, b=af_packet:rb", "--queues", "4",
                   "--batch", "4"}));
  const auto server =
      Start(1, {"/usr/bin/python3", "-uc",
                "import socket\n"
                "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
                "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)\n"
                "s.bind(('::', 9000))\n"
                "print('bound')\n"
                "last, total = {}, 0\n"
                "while total < 12800:\n"
                "  data, peer = s.recvfrom(100)\n"
                "  number = int(data)\n"
                "  assert number == last.get(peer, -1) + 1, (peer, number)\n"
                "  last[peer], total = number, total + 1\n"
                "print('in order')\n"});
  ASSERT_TRUE(server->WaitForOutput("bound"));
  // 64 flows of each version of IP, in bursts that fill the router's batches.
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import socket, time\n"
                    "flows = []\n"
                    "for family, to in ((socket.AF_INET, '10.0.2.2'),\n"
                    "                   (socket.AF_INET6, '2001:db8:2::2')):\n"
                    "  for i in range(64):\n"
                    "    s = socket.socket(family, socket.SOCK_DGRAM)\n"
                    "    s.connect((to, 9000))\n"
                    "    flows.append(s)\n"
                    "for number in range(100):\n"
                    "  for s in flows: s.send(b'%d' % number)\n"
                    "  time.sleep(0.01)\n"}),
            0)
      << output_;
  EXPECT_TRUE(server->WaitForOutput("in order")) << server->output();
  int queues = 0;
  const auto rings = testbed_->Rings();
  for (const auto& ring : rings.rings()) {
    if (!ring.kernel().ends_with("_forward")) continue;
    EXPECT_GT(ring.launched(), 0u) << ring.kernel();
    ++queues;
  }
  EXPECT_EQ(queues, 8);
}

//   host a - ra: router0 :xa - xb: router1 :rb - host b
TEST_F(LiveRouterTest, TwoRoutersForwardOverFourAfXdpPorts) {
  if (!is_root_) GTEST_SKIP() << "only root can load a program into Linux";
  const UniqueFd socket_of_xdp(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket_of_xdp) GTEST_SKIP() << "this Linux has no AF_XDP";
  ASSERT_NO_FATAL_FAILURE(MakeCables(kXdpMtu));
  const std::string middle[] = {"02:00:00:00:03:01", "02:00:00:00:03:02"};
  ASSERT_TRUE(RunIp(
      "", fmt::format("link add xa address {} mtu {} type veth peer name xb "
                      "address {} mtu {}\nlink set xa up\nlink set xb up\n",
                      middle[0], kXdpMtu, middle[1], kXdpMtu)));
  for (size_t i = 0; i < 2; ++i) {
    // AF_XDP has no checksums completed that a sender leaves to its interface.
    ASSERT_EQ(Run(i, {"/usr/sbin/ethtool", "-K", "eth0", "tx", "off"}), 0)
        << output_;
  }
  std::unique_ptr<Process> routers[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::string near =
        fmt::format("{} {} dev {}\n", HostMac(i), RouterMac(i), kHosts[i]);
    const std::string far =
        fmt::format("{} {} dev m\n", middle[1 - i], middle[i]);
    const std::string routes = fmt::format("{}/{}", directory_.path(), i);
    std::ofstream(routes) << fmt::format(
        "10.0.{0}.0/24 {2}2001:db8:{0}::/48 {2}"
        "10.0.{1}.0/24 {3}2001:db8:{1}::/48 {3}",
        i + 1, 2 - i, near, far);
    auto router = testbed_->StartDevice(
        fmt::format("router{}", i), "devices/router/router",
        {"--routes", routes, "--ports",
         fmt::format("{0}=af_xdp:r{0}, m=af_xdp:x{0}", kHosts[i])});
    ASSERT_TRUE(router.ok()) << std::string(router.status().message());
    routers[i] = *std::move(router);
    ASSERT_TRUE(routers[i]->WaitForOutput("forwarding at"))
        << routers[i]->output();
  }
  for (const char* to : {"10.0.2.2", "2001:db8:2::2"}) {
    EXPECT_EQ(Run(0, Ping(to, 50)), 0) << output_;
    EXPECT_THAT(output_, HasSubstr(" 0% packet loss"));
    EXPECT_THAT(output_, HasSubstr("ttl=62"));
    // As large as the interfaces allow.
    EXPECT_EQ(Run(0, Ping(to, 5, {"-M", "do", "-s", "2900"})), 0) << output_;
  }
  // TCP, both ways, with every byte.
  const auto server = Start(1, {"/usr/bin/python3", "-uc",
                                "import socket\n"
                                "s = socket.create_server(('::', 9000), "
                                "family=socket.AF_INET6, dualstack_ipv6=True)\n"
                                "print('listens')\n"
                                "for _ in range(2):\n"
                                "  c, peer = s.accept()\n"
                                "  data = b''\n"
                                "  while part := c.recv(65536): data += part\n"
                                "  c.sendall(data[::-1])\n"
                                "  c.close()\n"});
  ASSERT_TRUE(server->WaitForOutput("listens")) << server->output();
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import os, socket\n"
                    "for to in '10.0.2.2', '2001:db8:2::2':\n"
                    "  c = socket.create_connection((to, 9000), 50)\n"
                    "  data = os.urandom(1 << 20)\n"
                    "  c.sendall(data)\n"
                    "  c.shutdown(socket.SHUT_WR)\n"
                    "  back = b''\n"
                    "  while part := c.recv(65536): back += part\n"
                    "  assert back == data[::-1], (len(back), to)\n"}),
            0)
      << output_;
  for (const char* router : {"router0", "router1"}) {
    EXPECT_TRUE(Eventually([&] {
      return testbed_->Counter(router, "forwarded") >= 220;
    })) << router;
  }
}

// Linux knows the address only for ARP and neighbour discovery.
TEST_F(LiveRouterTest, PingsAreAnsweredByAnEventKernel) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  ASSERT_TRUE(LinuxAnswersPings(false));
  const auto ping = [&](const char* to) {
    return Run(0, {"ping", "-n", "-W", "1", "-c", "1", to});
  };
  EXPECT_NE(ping("10.0.1.1"), 0);
  EXPECT_NE(ping("2001:db8:1::1"), 0);
  ASSERT_NO_FATAL_FAILURE(
      StartRouter({"--ports", "a=af_packet:ra, b=af_packet:rb", "--addresses",
                   "10.0.1.1, 2001:db8:1::1"}));
  for (const char* to : {"10.0.1.1", "2001:db8:1::1"}) {
    for (const char* bytes : {"0", "1", "56", "1000", "8900"}) {
      EXPECT_EQ(Run(0, Ping(to, 10, {"-s", bytes})), 0) << output_;
      EXPECT_THAT(output_, HasSubstr(" 0% packet loss"));
    }
    // The kernel's, not Linux' of the other end.
    EXPECT_THAT(output_, HasSubstr("ttl=64"));
  }
  EXPECT_TRUE(CounterReaches("pings", 100));
  EXPECT_EQ(Counter("drops_ping"), 0u);
  // UDP's echo, whose answers Linux checks.
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import os, socket\n"
                    "for family, to in ((socket.AF_INET, '10.0.1.1'),\n"
                    "                   (socket.AF_INET6, '2001:db8:1::1')):\n"
                    "  s = socket.socket(family, socket.SOCK_DGRAM)\n"
                    "  s.settimeout(50)\n"
                    "  for n in list(range(100)) + [1471, 8000]:\n"
                    "    data = os.urandom(n)\n"
                    "    s.sendto(data, (to, 7))\n"
                    "    assert s.recv(65536) == data, n\n"}),
            0)
      << output_;
  EXPECT_TRUE(CounterReaches("pings", 304));
  // Others go their way still.
  EXPECT_EQ(Run(0, Ping("10.0.2.2", 5)), 0) << output_;
}

TEST_F(LiveRouterTest, DatagramsOfASocketAreAnsweredByAnEventKernel) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  const std::string none = directory_.path() + "/none";
  std::ofstream{none};
  ASSERT_NO_FATAL_FAILURE(
      StartRouter({"--ports", "a=udp:10.0.1.1:7777", "--addresses", "10.0.1.1",
                   "--routes", none}));
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import os, socket\n"
                    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                    "s.settimeout(50)\n"
                    "for n in list(range(100)) + [1471, 8000, 9200]:\n"
                    "  data = os.urandom(n)\n"
                    "  s.sendto(data, ('10.0.1.1', 7777))\n"
                    "  assert s.recv(65536) == data, n\n"
                    "s.sendto(bytes(9300), ('10.0.1.1', 7777))\n"}),
            0)
      << output_;
  EXPECT_TRUE(CounterReaches("a_drops_oversized", 1));
  EXPECT_EQ(Counter("pings"), 103u);
  EXPECT_EQ(Counter("a_out"), 103u);
  // Another echo at the same port would answer the answer.
  EXPECT_EQ(Run(0, {"/usr/bin/python3", "-uc",
                    "import socket\n"
                    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                    "s.bind(('10.0.1.2', 7777))\n"
                    "s.sendto(b'x', ('10.0.1.1', 7777))\n"}),
            0)
      << output_;
  EXPECT_TRUE(CounterReaches("drops_ping", 1));
  EXPECT_EQ(Counter("pings"), 103u);
}

TEST_F(LiveRouterTest, WithoutThePrivilegeItEndsAndNamesIt) {
  ASSERT_NO_FATAL_FAILURE(MakeCables());
  const auto run = [&](const std::string& ports) {
    auto router = Process::Start(
        "router0",
        {"/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all",
         testing::Program("devices/router/router"), "--dir",
         testbed_->directory(), "--routes", routes_, "--ports", ports});
    EXPECT_TRUE(router.ok());
    EXPECT_EQ((*router)->Wait(), 1);
    return (*router)->output();
  };
  EXPECT_THAT(run("a=af_packet:ra,b=af_packet:rb"),
              HasSubstr("af_packet ra: this process lacks CAP_NET_RAW"));
  if (access("/dev/net/tun", R_OK | W_OK) == 0) {
    EXPECT_THAT(run("a=tap:ta,b=tap:tb"),
                HasSubstr("tap ta: this process lacks CAP_NET_ADMIN"));
  }
}

}  // namespace
}  // namespace carillon
