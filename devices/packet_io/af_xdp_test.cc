// An AF_XDP port on `near`, one end of a cable in a network namespace of this
// process; `far` is the other.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/network_namespace.h"
#include "base/unique_fd.h"
#include "devices/packet_io/af_xdp_port.h"

namespace carillon::packet_io {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

const Bytes kNear = {2, 0, 0, 0, 0, 1};
const Bytes kFar = {2, 0, 0, 0, 0, 2};
const Bytes kAll = {255, 255, 255, 255, 255, 255};

Bytes MakeFrame(const Bytes& to, const Bytes& from, uint16_t type, size_t bytes,
                uint8_t fill) {
  Bytes frame = to;
  frame.insert(frame.end(), from.begin(), from.end());
  frame.push_back(static_cast<uint8_t>(type >> 8));
  frame.push_back(static_cast<uint8_t>(type));
  frame.resize(bytes, fill);
  return frame;
}

class AfXdpTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::signal(SIGPIPE, SIG_IGN);
    // A user namespace has a root of its own.
    is_root_ = geteuid() == 0;
    entered_ = EnterNetworkNamespace();
    if (!entered_) return;
    // No IPv6, so that Linux says nothing by itself.
    made_ = WriteTo("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1") &&
            RunIp("",
                  "link add near address 02:00:00:00:00:01 mtu 3000 type veth "
                  "peer name far address 02:00:00:00:00:02 mtu 3000\n"
                  "link set near up\nlink set far up\n");
  }
  void SetUp() override {
    if (!entered_) GTEST_SKIP() << "no network namespace here";
    ASSERT_TRUE(made_);
    // As an aperture: shared, and the pool does not begin with a page.
    const UniqueFd file(static_cast<int>(memfd_create("frames", MFD_CLOEXEC)));
    ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
    void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED, file.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    memory_ = {static_cast<std::byte*>(mapped), kBytes};
    pool_ = std::make_unique<FramePool>(
        memory_.subspan(384, FramePool::BytesFor(kBuffers)));
    auto port = AfXdpPort::Open("near", 0, pool_.get(), 1);
    if (absl::IsUnimplemented(port.status())) {
      GTEST_SKIP() << "this Linux has no AF_XDP";
    }
    if (absl::IsPermissionDenied(port.status()) && !is_root_) {
      GTEST_SKIP() << "only root can load a program into Linux";
    }
    ASSERT_TRUE(port.ok()) << std::string(port.status().message());
    port_ = *std::move(port);
    far_.reset(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    Bind(far_, "far");
  }
  void TearDown() override {
    port_.reset();
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  }

  static void Bind(const UniqueFd& fd, const char* interface) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)),
              0)
        << strerror(errno);
  }
  void FarSends(const Bytes& frame) {
    ASSERT_EQ(send(far_.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()))
        << strerror(errno);
  }
  // What comes to the far end from the near one.
  Bytes FarTakes() {
    for (;;) {
      pollfd readable = {far_.get(), POLLIN, 0};
      if (poll(&readable, 1, 10'000) != 1) {
        ADD_FAILURE() << "nothing came";
        return {};
      }
      Bytes frame(5'000);
      sockaddr_ll from{};
      socklen_t length = sizeof(from);
      const ssize_t got = recvfrom(far_.get(), frame.data(), frame.size(), 0,
                                   reinterpret_cast<sockaddr*>(&from), &length);
      if (from.sll_pkttype == PACKET_OUTGOING) continue;
      frame.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
      return frame;
    }
  }
  // The next `count` frames of the port; keeps their buffers in held_.
  std::vector<Bytes> Take(size_t count) {
    std::vector<Bytes> all;
    while (all.size() < count) {
      pollfd readable = {port_->fd(), POLLIN, 0};
      EXPECT_EQ(poll(&readable, 1, 10'000), 1) << "nothing came";
      if ((readable.revents & POLLIN) == 0) break;
      std::vector<Frame> frames;
      port_->Receive(&frames);
      for (const Frame& frame : frames) {
        const auto bytes = pool_->frame(frame.buffer).first(frame.length);
        const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
        all.emplace_back(data, data + bytes.size());
        held_.push_back(frame.buffer);
      }
    }
    return all;
  }
  void GiveBack() {
    for (const BufferIndex buffer : held_) EXPECT_TRUE(pool_->Give(buffer));
    held_.clear();
  }
  void PortSends(const Bytes& frame) {
    const auto bytes = std::as_bytes(std::span(frame));
    const OutgoingFrame outgoing = {bytes.first(34), bytes.subspan(34), {}};
    port_->Send({&outgoing, 1});
  }

  static constexpr size_t kBuffers = 64;
  static constexpr size_t kBytes = 1 << 20;
  static inline bool entered_ = false;
  static inline bool is_root_ = false;
  static inline bool made_ = false;
  std::span<std::byte> memory_;
  std::unique_ptr<FramePool> pool_;
  std::unique_ptr<AfXdpPort> port_;
  UniqueFd far_;
  std::vector<BufferIndex> held_;
};

TEST_F(AfXdpTest, FramesArriveWhereKernelsReadThemInOrderAndWhole) {
  // Many times around the pool and the rings.
  for (uint32_t round = 0; round < 600; ++round) {
    std::vector<Bytes> sent;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t number = round * 8 + i;
      const uint16_t type = number % 2 == 0 ? ETH_P_IP : ETH_P_IPV6;
      sent.push_back(MakeFrame(kNear, kFar, type, 60 + number * 13 % 2'900,
                               static_cast<uint8_t>(number)));
      ASSERT_NO_FATAL_FAILURE(FarSends(sent.back()));
    }
    ASSERT_EQ(Take(8), sent) << round;
    EXPECT_EQ(std::set<BufferIndex>(held_.begin(), held_.end()).size(), 8u);
    GiveBack();
  }
  EXPECT_EQ(port_->counts().received, 4'800u);
  EXPECT_EQ(port_->counts().overrun, 0u);
}

TEST_F(AfXdpTest, WhatIsNotForItIsLinux) {
  // Linux answers ARP for the interface.
  ASSERT_TRUE(RunIp("", "addr add 10.0.0.1/24 dev near\n"));
  Bytes arp = MakeFrame(kAll, kFar, ETH_P_ARP, 14, 0);
  arp.insert(arp.end(), {0, 1, 8, 0, 6, 4, 0, 1});
  arp.insert(arp.end(), kFar.begin(), kFar.end());
  arp.insert(arp.end(), {10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1});
  ASSERT_NO_FATAL_FAILURE(FarSends(arp));
  const Bytes answer = FarTakes();
  ASSERT_GE(answer.size(), 42u);
  EXPECT_EQ(Bytes(answer.begin() + 12, answer.begin() + 14), (Bytes{8, 6}));
  EXPECT_EQ(answer[21], 2);
  // Nor takes it groups, other addresses, other types, or neighbour discovery.
  Bytes solicitation = MakeFrame(kNear, kFar, ETH_P_IPV6, 90, 0);
  solicitation[20] = 58;
  for (const uint8_t type : {133, 135, 137}) {
    solicitation[54] = type;
    ASSERT_NO_FATAL_FAILURE(FarSends(solicitation));
  }
  ASSERT_NO_FATAL_FAILURE(FarSends(MakeFrame(kAll, kFar, ETH_P_IP, 60, 1)));
  ASSERT_NO_FATAL_FAILURE(
      FarSends(MakeFrame({1, 0, 94, 0, 0, 1}, kFar, ETH_P_IP, 60, 2)));
  ASSERT_NO_FATAL_FAILURE(
      FarSends(MakeFrame({2, 0, 0, 0, 0, 9}, kFar, ETH_P_IP, 60, 3)));
  ASSERT_NO_FATAL_FAILURE(FarSends(MakeFrame(kNear, kFar, 0x88b5, 60, 4)));
  // Behind all of them, its own: another ICMPv6 message and a short frame.
  solicitation[54] = 128;
  const Bytes last = MakeFrame(kNear, kFar, ETH_P_IP, 60, 5);
  ASSERT_NO_FATAL_FAILURE(FarSends(solicitation));
  ASSERT_NO_FATAL_FAILURE(FarSends(last));
  EXPECT_EQ(Take(2), (std::vector<Bytes>{solicitation, last}));
  GiveBack();
}

TEST_F(AfXdpTest, FramesLeaveInOrderAndTheirBuffersComeBack) {
  for (uint32_t number = 0; number < 3'000; ++number) {
    const Bytes frame = MakeFrame(kFar, kNear, ETH_P_IP, 60 + number % 2'900,
                                  static_cast<uint8_t>(number));
    PortSends(frame);
    ASSERT_EQ(FarTakes(), frame) << number;
  }
  EXPECT_EQ(port_->counts().sent, 3'000u);
  EXPECT_EQ(port_->counts().send_failed, 0u);
  PortSends(
      MakeFrame(kFar, kNear, ETH_P_IP, AfXdpPort::kMostFrameBytes + 1, 0));
  EXPECT_EQ(port_->counts().send_failed, 1u);
}

// While all buffers are held frames are lost and counted, and later ones come.
TEST_F(AfXdpTest, WithoutABufferFramesAreCountedAndTheNextOnesCome) {
  std::vector<BufferIndex> all;
  while (const auto buffer = pool_->Take()) all.push_back(*buffer);
  const Bytes frame = MakeFrame(kNear, kFar, ETH_P_IP, 100, 7);
  for (size_t i = 0; i < kBuffers; ++i) {
    ASSERT_NO_FATAL_FAILURE(FarSends(frame));
  }
  // What Linux had for the port.
  const size_t had = kBuffers - all.size();
  EXPECT_EQ(Take(had).size(), had);
  EXPECT_EQ(port_->counts().overrun, kBuffers - had);
  GiveBack();
  for (const BufferIndex buffer : all) pool_->Give(buffer);
  std::vector<Frame> none;
  port_->Receive(&none);
  EXPECT_TRUE(none.empty());
  ASSERT_NO_FATAL_FAILURE(FarSends(frame));
  EXPECT_EQ(Take(1), std::vector<Bytes>{frame});
  GiveBack();
}

TEST_F(AfXdpTest, SeveralPortsHoldAQuarterOfThePoolTogether) {
  EXPECT_EQ(pool_->free(), kBuffers - kBuffers / 4);
  port_.reset();
  pool_ = std::make_unique<FramePool>(
      memory_.subspan(384, FramePool::BytesFor(kBuffers)));
  const auto one_of_four = AfXdpPort::Open("near", 0, pool_.get(), 4);
  ASSERT_TRUE(one_of_four.ok()) << std::string(one_of_four.status().message());
  EXPECT_EQ(pool_->free(), kBuffers - kBuffers / 4 / 4);
}

TEST_F(AfXdpTest, TheProgramGoesWithThePort) {
  const auto second = AfXdpPort::Open("near", 0, pool_.get(), 1);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  port_.reset();
  const auto third = AfXdpPort::Open("near", 0, pool_.get(), 1);
  EXPECT_TRUE(third.ok()) << std::string(third.status().message());
}

TEST_F(AfXdpTest, WhatIsMissingIsNamed) {
  port_.reset();
  EXPECT_EQ(AfXdpPort::Open("nothing", 0, pool_.get(), 1).status().code(),
            absl::StatusCode::kNotFound);
  const auto queue = AfXdpPort::Open("near", 1'000, pool_.get(), 1);
  EXPECT_THAT(std::string(queue.status().message()),
              HasSubstr("af_xdp near:1000"));
  EXPECT_FALSE(queue.ok());
  // Capabilities belong to a thread.
  std::thread unprivileged([this] {
    __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3,
                                       .pid = 0};
    __user_cap_data_struct none[2] = {};
    ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
    const auto port = AfXdpPort::Open("near", 0, pool_.get(), 1);
    EXPECT_EQ(port.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(port.status().message()), HasSubstr("CAP_NET_RAW"));
  });
  unprivileged.join();
}

}  // namespace
}  // namespace carillon::packet_io
