#include "devices/nic/frame_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/send_messages.h"
#include "base/status.h"
#include "devices/packet_io/internet_checksum.h"
#include "kernels/memcached/gnom_wire.h"

namespace carillon::nic {
namespace {

using memcached::kGrxbBytes;
using memcached::kGrxbFrame;

constexpr int kSocketBufferBytes = 4 << 20;
// Limits how long Send() waits for room.
constexpr uint32_t kGet = 0x67657420;  // "get "

// struct virtio_net_hdr, whose header is not C++.
struct Offload {
  uint8_t flags;
  uint8_t segmentation;  // 0: none
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(Offload) == 10);
constexpr uint8_t kNeedsChecksum = 1;

absl::Status Failed(const std::string& interface, std::string_view call) {
  return absl::FailedPreconditionError(
      fmt::format("gnom {}: {}: {}", interface, call, std::strerror(errno)));
}

absl::StatusOr<UniqueFd> PacketSocket(const std::string& interface) {
  // Without a protocol it receives nothing until it is bound to one.
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd) return fd;
  if (errno != EPERM && errno != EACCES) return Failed(interface, "socket");
  return absl::PermissionDeniedError(fmt::format(
      "gnom {}: this process lacks CAP_NET_RAW; run it as root, or in a user "
      "and network namespace of its own (unshare -rn)",
      interface));
}

// Of others, frames do not begin with a header of Ethernet's.
absl::Status CheckFrames(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  if (ioctl(fd, SIOCGIFHWADDR, &request) != 0) {
    return Failed(interface, "SIOCGIFHWADDR");
  }
  const auto type = request.ifr_hwaddr.sa_family;
  if (type == ARPHRD_ETHER || type == ARPHRD_LOOPBACK) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("gnom {}: its frames are not Ethernet's (type {} of "
                  "/sys/class/net/{}/type); take an Ethernet interface, or lo",
                  interface, type, interface));
}

absl::Status Bind(int fd, const std::string& interface, int index,
                  uint16_t protocol) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = index;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
      0) {
    return absl::OkStatus();
  }
  return Failed(interface, "bind");
}

absl::Status Attach(int fd, std::span<const sock_filter> program,
                    const std::string& of) {
  const sock_fprog filter = {
      .len = static_cast<uint16_t>(program.size()),
      .filter = const_cast<sock_filter*>(program.data())};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ==
      0) {
    return absl::OkStatus();
  }
  return Failed(of, "filter");
}

// A frame to this host, of no VLAN, with the first part of a UDP datagram to the
// port that has at most kMaxGnomDatagram bytes and begins with "get ".
absl::Status AttachGetFilter(int fd, const std::string& interface,
                             uint16_t port) {
  const std::array<sock_filter, 19> program = {{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 16),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 14),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 12),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 10),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 6),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 8, 0),
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 5),
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 4),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kMaxGnomDatagram, 3, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_IND, 14 + 8 + 8),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kGet, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  return Attach(fd, program, interface);
}

void SetBuffer(int fd, int forced, int plain) {
  // With the privilege this may exceed the system's limit; otherwise it goes up
  // to the limit.
  if (setsockopt(fd, SOL_SOCKET, forced, &kSocketBufferBytes,
                 sizeof(kSocketBufferBytes)) != 0) {
    setsockopt(fd, SOL_SOCKET, plain, &kSocketBufferBytes,
               sizeof(kSocketBufferBytes));
  }
}

bool SetOption(int fd, int option) {
  const int on = 1;
  return setsockopt(fd, SOL_PACKET, option, &on, sizeof(on)) == 0;
}

}  // namespace

absl::Status LeaveGetsToFrames(int udp_socket, const std::string& interface) {
  // Its filter sees the UDP header first. A load beyond the datagram would refuse
  // it, so the length decides before.
  const std::array<sock_filter, 11> program = {{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_IFINDEX)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, if_nametoindex(interface.c_str()), 0,
               5),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kMaxGnomDatagram, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 8 + 8 + 4, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 8 + 8),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kGet, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  return Attach(udp_socket, program, interface);
}

absl::StatusOr<std::unique_ptr<FrameSocket>> FrameSocket::Open(
    const Options& options, GrxbRing* ring) {
  std::unique_ptr<FrameSocket> socket(new FrameSocket(options, ring));
  ASSIGN_OR_RETURN(socket->receiver_, PacketSocket(options.interface));
  ASSIGN_OR_RETURN(socket->sender_, PacketSocket(options.interface));
  const auto index =
      static_cast<int>(if_nametoindex(options.interface.c_str()));
  if (index == 0) {
    return absl::NotFoundError(fmt::format(
        "gnom {}: there is no such interface in this network namespace",
        options.interface));
  }
  RETURN_IF_ERROR(CheckFrames(socket->receiver_.get(), options.interface));
  RETURN_IF_ERROR(socket->OpenSender(index));
  RETURN_IF_ERROR(socket->OpenReceiver(index));
  return socket;
}

absl::Status FrameSocket::OpenReceiver(int index) {
  const int fd = receiver_.get();
  RETURN_IF_ERROR(AttachGetFilter(fd, options_.interface, options_.port));
  if (!SetOption(fd, PACKET_IGNORE_OUTGOING) ||
      !SetOption(fd, PACKET_VNET_HDR)) {
    return Failed(options_.interface, "socket options");
  }
  SetBuffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  return Bind(fd, options_.interface, index, ETH_P_IP);
}

absl::Status FrameSocket::OpenSender(int index) {
  SetBuffer(sender_.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  // Queueing disciplines would only add to the time.
  SetOption(sender_.get(), PACKET_QDISC_BYPASS);
  return Bind(sender_.get(), options_.interface, index, 0);
}

std::span<std::byte> FrameSocket::grxb(GrxbIndex index) const {
  return options_.memory.subspan(uint64_t{index} * kGrxbBytes, kGrxbBytes);
}

void FrameSocket::Complete(GrxbIndex index, const OffloadHeader& offload,
                           uint32_t length) {
  const std::span<std::byte> bytes = grxb(index);
  Offload header;
  std::memcpy(&header, offload.data(), sizeof(header));
  // The kernel refuses what did not fit, and what are several datagrams that the
  // sender's interface should have cut.
  const auto stored = static_cast<uint16_t>(
      header.segmentation == 0 ? std::min(length, 0xffffu) : 0);
  std::memcpy(bytes.data(), &stored, sizeof(stored));
  if ((header.flags & kNeedsChecksum) != 0 &&
      length <= memcached::kMaxGrxbFrame) {
    packet_io::CompleteChecksum(bytes.subspan(kGrxbFrame, length),
                                header.checksum_start, header.checksum_offset);
  }
}

bool FrameSocket::Receive() {
  const uint32_t room = std::min(ring_->empty(), kBurst);
  if (room == 0) return Discard();
  for (uint32_t i = 0; i < room; ++i) {
    const auto frame = grxb(ring_->Next(i)).subspan(kGrxbFrame);
    parts_[i] = {{{offloads_[i].data(), offloads_[i].size()},
                  {frame.data(), frame.size()}}};
    messages_[i].msg_hdr = {};
    messages_[i].msg_hdr.msg_iov = parts_[i].data();
    messages_[i].msg_hdr.msg_iovlen = parts_[i].size();
  }
  // With MSG_TRUNC the length is the frame's, not that of the part that fitted.
  const int result = recvmmsg(receiver_.get(), messages_.data(), room,
                              MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (result <= 0) return false;
  const auto received = static_cast<uint32_t>(result);
  for (uint32_t i = 0; i < received; ++i) {
    const auto header = static_cast<uint32_t>(sizeof(OffloadHeader));
    const uint32_t length = messages_[i].msg_len;
    Complete(ring_->Next(i), offloads_[i],
             length < header ? 0 : length - header);
  }
  ring_->Fill(received);
  counts_.received += received;
  return received == room;
}

bool FrameSocket::Discard() {
  // Linux gives nothing of a frame, and no count, without room for its header.
  for (uint32_t i = 0; i < kBurst; ++i) {
    parts_[i][0] = {offloads_[i].data(), offloads_[i].size()};
    messages_[i].msg_hdr = {};
    messages_[i].msg_hdr.msg_iov = parts_[i].data();
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
  const int result = recvmmsg(receiver_.get(), messages_.data(), kBurst,
                              MSG_DONTWAIT, nullptr);
  if (result <= 0) return false;
  counts_.no_buffer += static_cast<uint32_t>(result);
  return result == static_cast<int>(kBurst);
}

void FrameSocket::Send(std::span<const std::span<const std::byte>> frames) {
  int attempts = kSendAttempts;
  while (!frames.empty()) {
    const auto burst = frames.first(std::min<size_t>(frames.size(), kBurst));
    for (size_t i = 0; i < burst.size(); ++i) {
      parts_[i][0] = {const_cast<std::byte*>(burst[i].data()), burst[i].size()};
      messages_[i].msg_hdr = {};
      messages_[i].msg_hdr.msg_iov = parts_[i].data();
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
    const SendCounts counts = SendMessages(
        sender_.get(), std::span(messages_).first(burst.size()), &attempts);
    counts_.sent += counts.sent;
    counts_.send_failed += counts.failed;
    frames = frames.subspan(burst.size());
  }
}

const FrameSocketCounts& FrameSocket::counts() {
  // Linux begins anew at zero with each call.
  tpacket_stats statistics{};
  socklen_t bytes = sizeof(statistics);
  if (getsockopt(receiver_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics,
                 &bytes) == 0) {
    counts_.overrun += statistics.tp_drops;
  }
  return counts_;
}

}  // namespace carillon::nic
