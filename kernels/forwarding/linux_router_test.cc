// Compares ipv4_forward and ipv6_forward with Linux: a router in a network
// namespace of this process gets the same routes and the same packets, and each
// frame that it sends must be the kernel's, byte by byte.
//
//   this test -> p0 | in -> routes of the namespace -> hop0..hop7 -> this test
//             (veth)                                  (AF_PACKET)
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kHops = 8;
constexpr uint8_t kRouterMac[6] = {2, 0, 0, 2, 0, 0};
constexpr uint32_t kSentinelPayload = 333;  // no other packet has so much
constexpr size_t kEthernetBytes = 14;

// Enters a namespace whose interfaces will forward.
bool EnterForwardingNamespace() {
  if (!EnterNetworkNamespace()) return false;
  for (const auto& [name, value] : {
           std::pair{"ipv4/ip_forward", "1"},
           {"ipv4/conf/all/rp_filter", "0"},
           {"ipv4/conf/default/rp_filter", "0"},
           {"ipv6/conf/all/forwarding", "1"},
           {"ipv6/conf/default/forwarding", "1"},
           {"ipv6/conf/default/accept_dad", "0"},
       }) {
    if (!WriteTo(fmt::format("/proc/sys/net/{}", name), value)) {
      return false;
    }
  }
  return true;
}

std::string Mac(const uint8_t (&mac)[6]) {
  return fmt::format("{:02x}", fmt::join(mac, ":"));
}

std::string Gateway(Family family, uint32_t next_hop) {
  return fmt::format(
      "{}{}", family == Family::kIpv4 ? "198.18.0." : "fe80::", next_hop + 1);
}

bool Ip(Family family, const std::string& commands) {
  return RunIp(family == Family::kIpv4 ? "-4" : "-6", commands);
}

class LinuxRouter : public testing::TestWithParam<Family> {
 protected:
  static void SetUpTestSuite() {
    std::signal(SIGPIPE, SIG_IGN);  // an `ip` that refuses a command
    entered_ = EnterForwardingNamespace();
  }

  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace to route in";
    if (made_) return;
    ASSERT_NO_FATAL_FAILURE(MakeNetwork());
    made_ = true;
  }

  static void MakeNetwork() {
    std::string commands = fmt::format(
        "link add in address {} type veth peer name p0\n"
        "link set lo up\nlink set in up\nlink set p0 up\n",
        Mac(kRouterMac));
    const auto hops = MakeNextHops(kHops);
    for (uint32_t i = 0; i < kHops; ++i) {
      commands += fmt::format(
          "link add hop{0} address {1} type veth peer name peer{0}\n"
          "link set hop{0} up\nlink set peer{0} up\n",
          i, Mac(hops[i].from));
    }
    ASSERT_TRUE(Ip(Family::kIpv4, commands));
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      // It answers nothing itself: no ICMP.
      commands = "rule add iif lo blackhole pref 1\n";
      for (uint32_t i = 0; i < kHops; ++i) {
        commands +=
            fmt::format("neigh add {} lladdr {} dev hop{} nud permanent\n",
                        Gateway(family, i), Mac(hops[i].to), i);
      }
      ASSERT_TRUE(Ip(family, commands));
    }
    // Frames that are sent from one processor arrive in order.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    socket_.reset(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    ASSERT_TRUE(socket_) << strerror(errno);
    const int size = 8 << 20;
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    input_ = static_cast<int>(if_nametoindex("p0"));
    for (uint32_t i = 0; i < kHops; ++i) {
      hop_of_[if_nametoindex(fmt::format("hop{}", i).c_str())] = i;
    }
  }

  bool four() const { return GetParam() == Family::kIpv4; }

  void SetRoutes(const std::vector<Route>& routes) {
    std::string commands;
    for (const Route& route : routes) {
      commands += fmt::format(
          "route replace {} via {} dev hop{} onlink\n", ToString(route.prefix),
          Gateway(GetParam(), route.next_hop), route.next_hop);
    }
    ASSERT_TRUE(Ip(GetParam(), commands));
  }

  void Send(const Bytes& packet) {
    Bytes frame(kRouterMac, kRouterMac + 6);
    frame.insert(frame.end(), {2, 0, 0, 3, 0, 0});
    const uint16_t type = four() ? ETH_P_IP : ETH_P_IPV6;
    frame.push_back(static_cast<uint8_t>(type >> 8));
    frame.push_back(static_cast<uint8_t>(type));
    frame.insert(frame.end(), packet.begin(), packet.end());
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = input_;
    ASSERT_EQ(sendto(socket_.get(), frame.data(), frame.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(frame.size()))
        << strerror(errno);
  }

  // What Linux sends when it gets the packet: (next hop, frame).
  void Forward(const Bytes& packet, const Bytes& sentinel,
               std::vector<std::pair<uint32_t, Bytes>>* sent) {
    ASSERT_NO_FATAL_FAILURE(Send(packet));
    ASSERT_NO_FATAL_FAILURE(Send(sentinel));
    const auto hops = MakeNextHops(kHops);
    while (true) {
      pollfd readable = {socket_.get(), POLLIN, 0};
      ASSERT_EQ(poll(&readable, 1, 10'000), 1) << "no sentinel came out";
      Bytes frame(2'048);  // more than any interface here sends

      sockaddr_ll from{};
      socklen_t size = sizeof(from);
      const ssize_t length =
          recvfrom(socket_.get(), frame.data(), frame.size(), 0,
                   reinterpret_cast<sockaddr*>(&from), &size);
      ASSERT_GT(length, 0) << strerror(errno);
      frame.resize(static_cast<size_t>(length));
      const auto hop = hop_of_.find(static_cast<uint32_t>(from.sll_ifindex));
      if (from.sll_pkttype != PACKET_OUTGOING || hop == hop_of_.end()) continue;
      // What the interface itself says to its neighbours goes to a group.
      if (!std::equal(hops[hop->second].to, hops[hop->second].to + 6,
                      frame.begin())) {
        continue;
      }
      if (frame.size() == kEthernetBytes + sentinel.size()) return;
      sent->emplace_back(hop->second, std::move(frame));
    }
  }

  // Where Linux differs, on purpose (docs/workloads.md).
  bool LinuxDiffers(const Bytes& packet, Verdict verdict) const {
    if (verdict == Verdict::kOptions) return true;
    if (verdict == Verdict::kTooLarge) return true;  // it sends fragments
    if (!four() && packet.size() > 6 && packet[6] == 0) return true;
    if (verdict != Verdict::kMartian) return false;
    const auto is_in = [&](size_t at, const char* prefix) {
      AddressBytes address{};
      const size_t size = four() ? 4 : 16;
      std::copy_n(packet.begin() + static_cast<ptrdiff_t>(at), size,
                  address.begin());
      const Prefix network = *ParsePrefix(prefix);
      return Masked(address, network.length) == network.address;
    };
    if (!four()) return is_in(24, "::/128");
    for (const char* prefix : {"0.0.0.0/8", "169.254.0.0/16", "240.0.0.0/4"}) {
      if (is_in(12, prefix) || is_in(16, prefix)) return true;
    }
    return false;
  }

  static bool entered_;
  static bool made_;
  static UniqueFd socket_;
  static int input_;                            // index of the interface p0
  static std::map<uint32_t, uint32_t> hop_of_;  // by index of the interface
};
bool LinuxRouter::entered_ = false;
bool LinuxRouter::made_ = false;
UniqueFd LinuxRouter::socket_;
int LinuxRouter::input_ = 0;
std::map<uint32_t, uint32_t> LinuxRouter::hop_of_;

TEST_P(LinuxRouter, SendsTheSameFramesToTheSameNextHops) {
  std::vector<Route> routes = MakeRoutes(GetParam(), 2'000, kHops, 1);
  routes.insert(routes.begin(),
                {*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7});
  ASSERT_NO_FATAL_FAILURE(SetRoutes(routes));
  const auto hops = MakeNextHops(kHops);
  Fib fib(GetParam(), 60'000, 16);
  ASSERT_TRUE(fib.Replace(routes).ok());
  Router router(GetParam(), 60'000, 16, hops);
  router.Publish(fib);

  std::mt19937 random(2);
  const AddressBytes source = Address(four() ? "198.51.100.7" : "2001:db8::7");
  const auto make = [&](const AddressBytes& from, const AddressBytes& to,
                        uint8_t left, uint32_t payload) {
    return four() ? MakeIpv4(from, to, left, payload)
                  : MakeIpv6(from, to, left, payload);
  };
  const Bytes sentinel = make(source, source, 64, kSentinelPayload);
  std::vector<Bytes> packets;
  for (const AddressBytes& to : MakeAddresses(routes, GetParam(), 6'000, 3)) {
    packets.push_back(make(
        source, to,
        static_cast<uint8_t>(random() % 4 == 0 ? random() % 3 : random() % 256),
        random() % 300));
  }
  const size_t header = four() ? 20 : 40;
  for (size_t i = 0; i < packets.size(); i += 2) {
    Bytes& packet = packets[i];
    switch (random() % 4) {
      case 0:  // any byte of the header
        packet[random() % header] = static_cast<uint8_t>(random());
        break;
      case 1:  // the same, with a right checksum
        packet[random() % header] = static_cast<uint8_t>(random());
        if (four() && packet.size() >= packet[0] % 16 * 4u) {
          SetChecksum(packet, packet[0] % 16 * 4);
        }
        break;
      case 2:
        packet.resize(random() % packet.size());
        break;
      default:  // as if padded
        packet.resize(packet.size() + random() % 20);
    }
  }
  const auto found = router.Forward(packets);
  ASSERT_EQ(router.event_status(), 0u);
  std::map<Verdict, int> compared;
  for (size_t i = 0; i < packets.size(); ++i) {
    if (LinuxDiffers(packets[i], found[i].verdict)) continue;
    std::vector<std::pair<uint32_t, Bytes>> sent;
    ASSERT_NO_FATAL_FAILURE(Forward(packets[i], sentinel, &sent));
    if (found[i].verdict == Verdict::kForward) {
      ASSERT_THAT(sent,
                  ElementsAre(std::pair(found[i].next_hop, found[i].frame)))
          << "packet " << i << ": " << testing::PrintToString(packets[i]);
    } else {
      ASSERT_THAT(sent, IsEmpty()) << "packet " << i << ", verdict "
                                   << static_cast<int>(found[i].verdict) << ": "
                                   << testing::PrintToString(packets[i]);
    }
    ++compared[found[i].verdict];
  }
  EXPECT_GT(compared[Verdict::kForward], 3'000);
  EXPECT_GT(compared[Verdict::kExpired], 500);
  EXPECT_GT(compared[Verdict::kTruncated], 400);
  EXPECT_GT(compared[Verdict::kBadVersion], 15);
}

INSTANTIATE_TEST_SUITE_P(Families, LinuxRouter,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return param.param == Family::kIpv4 ? "Ipv4"
                                                               : "Ipv6";
                         });

}  // namespace
}  // namespace carillon::forwarding
