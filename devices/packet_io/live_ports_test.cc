// Ports on interfaces of a network namespace of this process: `near` and `far`
// are the ends of one cable, and the port under test is on `near`.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "devices/packet_io/af_packet_port.h"
#include "devices/packet_io/internet_checksum.h"
#include "devices/packet_io/tap_port.h"

namespace carillon::packet_io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Bytes = std::vector<uint8_t>;

const Bytes kNear = {2, 0, 0, 0, 0, 1};
const Bytes kFar = {2, 0, 0, 0, 0, 2};

// A frame of a type that no protocol of Linux takes.
Bytes Frame(const Bytes& to, const Bytes& from, size_t bytes, uint8_t fill) {
  Bytes frame = to;
  frame.insert(frame.end(), from.begin(), from.end());
  frame.insert(frame.end(), {0x88, 0xb5});
  frame.resize(bytes, fill);
  return frame;
}

Bytes Copy(std::span<const std::byte> bytes) {
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}

class LivePortsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::signal(SIGPIPE, SIG_IGN);
    entered_ = EnterNetworkNamespace();
    if (!entered_) return;
    // No IPv6, so that Linux says nothing by itself.
    made_ =
        WriteTo("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") &&
        RunIp(
            "",
            "link add near address 02:00:00:00:00:01 mtu 65535 type veth peer "
            "name far address 02:00:00:00:00:02 mtu 65535\n"
            "link set near up\nlink set far up\n");
  }
  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace here";
    ASSERT_TRUE(made_);
  }

  static UniqueFd RawSocket(const char* interface) {
    UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0)
        << strerror(errno);
    return fd;
  }
  static void Write(const UniqueFd& fd, const Bytes& frame) {
    ASSERT_EQ(send(fd.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()))
        << strerror(errno);
  }
  static Bytes Read(const UniqueFd& fd) {
    pollfd readable = {fd.get(), POLLIN, 0};
    if (poll(&readable, 1, 10'000) != 1) {
      ADD_FAILURE() << "nothing came";
      return {};
    }
    Bytes frame(70'000);
    const ssize_t length = recv(fd.get(), frame.data(), frame.size(), 0);
    frame.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    return frame;
  }

  // The next `count` frames; fewer if no more come.
  std::vector<Bytes> Take(PacketPort& port, size_t count) {
    std::vector<Bytes> all;
    while (all.size() < count) {
      pollfd readable = {port.fd(), POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, 10'000), 1) << "nothing came";
      if ((readable.revents & POLLIN) == 0) break;
      TakeWaiting(port, &all);
    }
    return all;
  }
  void TakeWaiting(PacketPort& port, std::vector<Bytes>* all) {
    std::vector<packet_io::Frame> frames;
    bool more = true;
    while (more) {
      frames.clear();
      more = port.Receive(&frames);
      for (const auto& frame : frames) {
        all->push_back(Copy(pool_.frame(frame.buffer).first(frame.length)));
        EXPECT_TRUE(pool_.Give(frame.buffer));
      }
    }
  }
  static void Send(PacketPort& port, const Bytes& frame) {
    const auto bytes = std::as_bytes(std::span(frame));
    const OutgoingFrame outgoing = {bytes.first(34), bytes.subspan(34), {}};
    port.Send({&outgoing, 1});
  }

  static constexpr size_t kBuffers = 200;
  static inline bool entered_ = false;
  static inline bool made_ = false;
  std::vector<std::byte> memory_ =
      std::vector<std::byte>(FramePool::BytesFor(kBuffers));
  FramePool pool_{memory_};
};

TEST_F(LivePortsTest, TheCapabilityThatIsMissingIsNamed) {
  // Capabilities belong to a thread.
  std::thread unprivileged([this] {
    __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3,
                                       .pid = 0};
    __user_cap_data_struct none[2] = {};
    ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
    const auto packet = AfPacketPort::Open("near", &pool_);
    EXPECT_EQ(packet.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(packet.status().message()),
                HasSubstr("af_packet near: this process lacks CAP_NET_RAW"));
    if (access("/dev/net/tun", R_OK | W_OK) != 0) return;
    const auto tap = TapPort::Open("tap0", &pool_);
    EXPECT_EQ(tap.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(tap.status().message()),
                HasSubstr("tap tap0: this process lacks CAP_NET_ADMIN"));
  });
  unprivileged.join();
}

TEST_F(LivePortsTest, WhatIsNoEthernetInterfaceIsRefused) {
  const auto none = AfPacketPort::Open("none", &pool_);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  const auto loopback = AfPacketPort::Open("lo", &pool_);
  EXPECT_EQ(loopback.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(loopback.status().message()),
              HasSubstr("lo: it is no Ethernet interface"));
}

TEST_F(LivePortsTest, OnlyFramesToTheInterfaceComeInOrderByteByByte) {
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd far = RawSocket("far");
  std::vector<Bytes> sent;
  for (uint8_t i = 0; i < 150; ++i) {
    sent.push_back(Frame(kNear, kFar, 14 + 10 * i, i));
    Write(far, Frame(Bytes(6, 0xff), kFar, 60, i));         // to all
    Write(far, Frame({1, 0, 0x5e, 0, 0, 9}, kFar, 60, i));  // to a group
    Write(far, Frame({2, 0, 0, 0, 0, 3}, kFar, 60, i));     // to another
    Bytes vlan = Frame(kNear, kFar, 60, i);
    vlan[12] = 0x81;
    vlan[13] = 0;
    Write(far, vlan);
    Send(**port, Frame(kFar, kNear, 60, i));  // its own
    Write(far, sent.back());
  }
  EXPECT_TRUE(Take(**port, sent.size()) == sent);
  EXPECT_EQ((*port)->counts().received, sent.size());
  EXPECT_EQ((*port)->counts().overrun, 0u);
  port->reset();
  EXPECT_EQ(pool_.free(), kBuffers);
}

TEST_F(LivePortsTest, FramesGoOutInOrderByteByByte) {
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd far = RawSocket("far");
  std::vector<Bytes> frames;
  std::vector<OutgoingFrame> outgoing;
  for (uint8_t i = 0; i < 150; ++i) {
    frames.push_back(Frame(kFar, kNear, 40 + i, i));
  }
  for (const Bytes& frame : frames) {
    const auto bytes = std::as_bytes(std::span(frame));
    outgoing.push_back({bytes.first(34), bytes.subspan(34), {}});
  }
  (*port)->Send(outgoing);
  for (const Bytes& frame : frames) EXPECT_TRUE(Read(far) == frame);
  const Bytes jumbo = Frame(kFar, kNear, 9'230, 1);
  Send(**port, jumbo);
  EXPECT_TRUE(Read(far) == jumbo);
  EXPECT_EQ((*port)->counts().sent, 151u);
  EXPECT_EQ((*port)->counts().send_failed, 0u);
}

TEST_F(LivePortsTest, AFrameThatLinuxRefusesCostsNoOther) {
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd far = RawSocket("far");
  const Bytes first = Frame(kFar, kNear, 60, 1);
  const Bytes large(70'000, 2);  // more than the interface's MTU
  const Bytes last = Frame(kFar, kNear, 60, 3);
  std::vector<OutgoingFrame> outgoing;
  for (const Bytes* frame : {&first, &large, &last}) {
    outgoing.push_back({std::as_bytes(std::span(*frame)), {}, {}});
  }
  (*port)->Send(outgoing);
  EXPECT_EQ(Read(far), first);
  EXPECT_EQ(Read(far), last);
  EXPECT_EQ((*port)->counts().sent, 2u);
  EXPECT_EQ((*port)->counts().send_failed, 1u);
}

TEST_F(LivePortsTest, JumboFramesFitAndLargerOnesAreCounted) {
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd far = RawSocket("far");
  Write(far, Frame(kNear, kFar, 9'230, 1));
  Write(far, Frame(kNear, kFar, kMaxFrameBytes, 2));
  Write(far, Frame(kNear, kFar, kMaxFrameBytes + 1, 3));
  Write(far, Frame(kNear, kFar, 40'000, 4));
  Write(far, Frame(kNear, kFar, 60, 5));
  EXPECT_THAT(Take(**port, 3),
              ElementsAre(SizeIs(9'230), SizeIs(kMaxFrameBytes), SizeIs(60)));
  EXPECT_EQ((*port)->counts().oversized, 2u);
  port->reset();
  EXPECT_EQ(pool_.free(), kBuffers);
}

TEST_F(LivePortsTest, WhatFindsNoRoomInLinuxIsCounted) {
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd far = RawSocket("far");
  constexpr uint64_t kFrames = 2'000;  // 16 MB, more than the socket's buffer
  for (uint64_t i = 0; i < kFrames; ++i) {
    Write(far, Frame(kNear, kFar, 8'000, 1));
  }
  std::vector<Bytes> taken;
  TakeWaiting(**port, &taken);
  const PortCounts& counts = (*port)->counts();
  EXPECT_GT(counts.overrun, 0u);
  EXPECT_EQ(counts.received, taken.size());
  EXPECT_EQ(counts.received + counts.overrun, kFrames);
}

TEST_F(LivePortsTest, ASendersChecksumsAreCompleted) {
  ASSERT_TRUE(
      RunIp("",
            "addr replace 198.18.0.2/24 dev far\n"
            "neigh replace 198.18.0.1 lladdr 02:00:00:00:00:01 dev far\n"));
  auto port = AfPacketPort::Open("near", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const UniqueFd udp(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  inet_pton(AF_INET, "198.18.0.1", &to.sin_addr);
  ASSERT_EQ(
      connect(udp.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
      0);
  for (const size_t bytes : {1, 2, 100, 1'001}) {
    Write(udp, Bytes(bytes, 0xa5));
  }
  for (const Bytes& frame : Take(**port, 4)) {
    // Over the pseudo-header and all of the datagram it is all ones.
    const auto datagram = std::as_bytes(std::span(frame)).subspan(34);
    Bytes covered(frame.begin() + 26, frame.end());  // from the addresses on
    if (covered.size() % 2 != 0) covered.push_back(0);
    const auto length = static_cast<uint16_t>(datagram.size());
    for (const int byte : {0, int{IPPROTO_UDP}, length >> 8, length & 0xff}) {
      covered.push_back(static_cast<uint8_t>(byte));
    }
    EXPECT_EQ(OnesSum(std::as_bytes(std::span(covered))), 0xffff);
  }
  // One segment that the interface should cut into many.
  const int segment = 100;
  if (setsockopt(udp.get(), IPPROTO_UDP, UDP_SEGMENT, &segment,
                 sizeof(segment)) == 0) {
    Write(udp, Bytes(1'000, 1));
    const int none = 0;
    setsockopt(udp.get(), IPPROTO_UDP, UDP_SEGMENT, &none, sizeof(none));
    Write(udp, Bytes(50, 1));
    EXPECT_THAT(Take(**port, 1), ElementsAre(SizeIs(42 + 50)));
    EXPECT_EQ((*port)->counts().oversized, 1u);
  }
}

TEST_F(LivePortsTest, ATapCarriesFramesBothWays) {
  if (access("/dev/net/tun", R_OK | W_OK) != 0) {
    GTEST_SKIP() << "no /dev/net/tun here";
  }
  auto port = TapPort::Open("tap0", &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_EQ(TapPort::Open("tap0", &pool_).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(TapPort::Open("near", &pool_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(RunIp("", "link set tap0 mtu 65521\nlink set tap0 up\n"));
  const UniqueFd linux = RawSocket("tap0");
  std::vector<Bytes> frames;
  for (uint8_t i = 0; i < 150; ++i) {
    frames.push_back(Frame(kNear, kFar, 40 + 61 * i, i));
    Send(**port, frames.back());
    EXPECT_TRUE(Read(linux) == frames.back());
  }
  for (const Bytes& frame : frames) Write(linux, frame);
  EXPECT_TRUE(Take(**port, frames.size()) == frames);
  Write(linux, Frame(kNear, kFar, kMaxFrameBytes, 1));
  Write(linux, Frame(kNear, kFar, kMaxFrameBytes + 1, 2));
  Write(linux, Frame(kNear, kFar, 60, 3));
  EXPECT_THAT(Take(**port, 2), ElementsAre(SizeIs(kMaxFrameBytes), SizeIs(60)));
  EXPECT_EQ((*port)->counts().oversized, 1u);
  EXPECT_EQ((*port)->counts().received, 152u);
  EXPECT_EQ((*port)->counts().sent, 150u);
  EXPECT_EQ(pool_.free(), kBuffers);
}

}  // namespace
}  // namespace carillon::packet_io
