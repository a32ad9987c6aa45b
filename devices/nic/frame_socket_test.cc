// In a network namespace of its own, with frames on the loopback interface.
#include "devices/nic/frame_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "base/testing/network_namespace.h"
#include "kernels/memcached/gnom_wire.h"

namespace carillon::nic {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kGrxbs = 4;

class FrameSocketTest : public ::testing::Test {
 protected:
  // Before there is any thread.
  static void SetUpTestSuite() {
    signal(SIGPIPE, SIG_IGN);
    entered_ = EnterNetworkNamespace() && RunIp("", "link set lo up\n") &&
               WriteTo("/proc/sys/net/ipv4/conf/lo/route_localnet", "1\n") &&
               WriteTo("/proc/sys/net/ipv4/conf/lo/accept_local", "1\n");
  }
  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace to change here";
    ring_.Register(kGrxbs);
    udp_.reset(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    socklen_t bytes = sizeof(address_);
    ASSERT_EQ(bind(udp_.get(), address, bytes), 0);
    ASSERT_EQ(getsockname(udp_.get(), address, &bytes), 0);
    auto opened = Open("lo");
    ASSERT_TRUE(opened.ok()) << opened.status();
    frames_ = *std::move(opened);
    const absl::Status left = LeaveGetsToFrames(udp_.get(), "lo");
    ASSERT_TRUE(left.ok()) << left;
  }
  absl::StatusOr<std::unique_ptr<FrameSocket>> Open(const char* interface) {
    return FrameSocket::Open({.interface = interface,
                              .port = ntohs(address_.sin_port),
                              .memory = memory_},
                             &ring_);
  }
  // Loopback delivers before send() returns.
  static bool Waits(int fd) {
    pollfd ready = {fd, POLLIN, 0};
    return poll(&ready, 1, 0) == 1;
  }
  // A datagram from 127.0.0.1, port 9, in a frame to that MAC address.
  void SendFrame(const std::string& to, const std::string& datagram) {
    const auto big16 = [](size_t value) {
      return std::string{static_cast<char>(value >> 8),
                         static_cast<char>(value)};
    };
    std::string ip = big16(0x4500) + big16(28 + datagram.size()) + big16(5) +
                     big16(0) + big16(64 << 8 | 17) + big16(0) +
                     std::string("\x7f\0\0\1\x7f\0\0\1", 8);
    uint32_t sum = 0;
    for (size_t i = 0; i < ip.size(); i += 2) {
      sum += static_cast<uint32_t>(static_cast<uint8_t>(ip[i]) << 8 |
                                   static_cast<uint8_t>(ip[i + 1]));
    }
    ip.replace(10, 2, big16(~((sum & 0xffff) + (sum >> 16)) & 0xffff));
    const std::string frame = to + std::string(6, '\0') + big16(0x0800) + ip +
                              big16(9) + big16(ntohs(address_.sin_port)) +
                              big16(8 + datagram.size()) + big16(0) + datagram;
    const UniqueFd raw(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll lo{};
    lo.sll_family = AF_PACKET;
    lo.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
    ASSERT_EQ(bind(raw.get(), reinterpret_cast<sockaddr*>(&lo), sizeof(lo)), 0);
    ASSERT_EQ(send(raw.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }

  static inline bool entered_ = false;
  std::vector<std::byte> memory_{size_t{kGrxbs} * memcached::kGrxbBytes};
  GrxbRing ring_{kGrxbs};
  sockaddr_in address_{};
  UniqueFd udp_;
  std::unique_ptr<FrameSocket> frames_;
};

const std::string kGet("\0\1\0\0\0\1\0\0get k\r\n", 15);
const std::string kDelete("\0\1\0\0\0\1\0\0delete k\r\n", 18);

TEST_F(FrameSocketTest, EachDatagramComesOnOneWay) {
  const std::string host(6, '\0');
  SendFrame(host, kGet);
  EXPECT_TRUE(Waits(frames_->fd()));
  EXPECT_FALSE(Waits(udp_.get()));
  EXPECT_FALSE(frames_->Receive());
  EXPECT_EQ(frames_->counts().received, 1u);
  SendFrame(host, kDelete);
  EXPECT_FALSE(Waits(frames_->fd()));
  EXPECT_TRUE(Waits(udp_.get()));
}

TEST_F(FrameSocketTest, TheUdpSocketKeepsGetsOfFramesToAGroup) {
  SendFrame(std::string(6, '\xff'), kGet);
  EXPECT_FALSE(Waits(frames_->fd()));
  EXPECT_TRUE(Waits(udp_.get()));
}

TEST_F(FrameSocketTest, AnInterfaceWithoutEthernetHeadersIsRefusedByName) {
  if (!RunIp("", "tuntap add dev tun7 mode tun\n")) {
    GTEST_SKIP() << "no TUN device to make here";
  }
  const auto opened = Open("tun7");
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("gnom tun7:"));
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("not Ethernet's"));
  EXPECT_TRUE(RunIp("", "link del tun7\n"));
}

}  // namespace
}  // namespace carillon::nic
