#include "devices/packet_io/af_packet_port.h"

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
#include <utility>

#include "base/status.h"
#include "devices/packet_io/internet_checksum.h"

namespace carillon::packet_io {
namespace {

// Linux buffers so much while this process does not run.
constexpr int kSocketBufferBytes = 4 << 20;
// Limits how long Send() waits for room.
constexpr int kRoomAttempts = 4;
constexpr int kRoomWaitMs = 1;

absl::Status Failed(const std::string& interface, std::string_view call) {
  return absl::FailedPreconditionError(fmt::format(
      "af_packet {}: {}: {}", interface, call, std::strerror(errno)));
}

absl::StatusOr<UniqueFd> PacketSocket(const std::string& interface) {
  // Without a protocol it receives nothing until it is bound to one.
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd) return fd;
  if (errno != EPERM && errno != EACCES) return Failed(interface, "socket");
  return absl::PermissionDeniedError(fmt::format(
      "af_packet {}: this process lacks CAP_NET_RAW; run it as root, or in a "
      "user and network namespace of its own (unshare -rn)",
      interface));
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

absl::Status CheckEthernet(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, SIOCGIFHWADDR, &request) != 0) {
    return Failed(interface, "its address");
  }
  if (request.ifr_hwaddr.sa_family == ARPHRD_ETHER) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("af_packet {}: it is no Ethernet interface", interface));
}

// To this interface, and of no VLAN (Linux has taken the tag out of the frame).
absl::Status AttachFilter(int fd, const std::string& interface) {
  std::array<sock_filter, 6> program = {{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 0, 3),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS,
               static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog filter = {.len = program.size(), .filter = program.data()};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ==
      0) {
    return absl::OkStatus();
  }
  return Failed(interface, "filter");
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

absl::StatusOr<std::unique_ptr<AfPacketPort>> AfPacketPort::Open(
    const std::string& interface, FramePool* pool) {
  std::unique_ptr<AfPacketPort> port(new AfPacketPort(interface, pool));
  ASSIGN_OR_RETURN(port->receiver_, PacketSocket(interface));
  ASSIGN_OR_RETURN(port->sender_, PacketSocket(interface));
  const auto index = static_cast<int>(if_nametoindex(interface.c_str()));
  if (index == 0) {
    return absl::NotFoundError(fmt::format(
        "af_packet {}: there is no such interface in this network namespace",
        interface));
  }
  RETURN_IF_ERROR(CheckEthernet(port->receiver_.get(), interface));
  RETURN_IF_ERROR(port->OpenSender(index));
  RETURN_IF_ERROR(port->OpenReceiver(index));
  return port;
}

AfPacketPort::~AfPacketPort() {
  for (uint32_t i = 0; i < armed_; ++i) pool_->Give(slots_[i].buffer);
}

absl::Status AfPacketPort::OpenReceiver(int index) {
  const int fd = receiver_.get();
  SetBuffer(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  RETURN_IF_ERROR(AttachFilter(fd, interface_));
  if (!SetOption(fd, PACKET_IGNORE_OUTGOING) ||
      !SetOption(fd, PACKET_VNET_HDR)) {
    return Failed(interface_, "socket options");
  }
  return Bind(fd, interface_, index, ETH_P_ALL);
}

absl::Status AfPacketPort::OpenSender(int index) {
  SetBuffer(sender_.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  // Queueing disciplines would only add to the time.
  SetOption(sender_.get(), PACKET_QDISC_BYPASS);
  return Bind(sender_.get(), interface_, index, 0);
}

bool AfPacketPort::Arm(uint32_t slot) {
  const auto buffer = pool_->Take();
  if (buffer) Arm(slot, *buffer);
  return buffer.has_value();
}

void AfPacketPort::Arm(uint32_t index, BufferIndex buffer) {
  Slot& slot = slots_[index];
  slot.buffer = buffer;
  const std::span<std::byte> frame = pool_->frame(buffer);
  slot.parts = {
      {{&slot.offload, sizeof(slot.offload)}, {frame.data(), frame.size()}}};
  msghdr& header = messages_[index].msg_hdr;
  header = {};
  header.msg_iov = slot.parts.data();
  header.msg_iovlen = slot.parts.size();
}

bool AfPacketPort::Receive(std::vector<Frame>* frames) {
  while (armed_ < kBurst && Arm(armed_)) ++armed_;
  if (armed_ == 0) return false;
  // With MSG_TRUNC the length is the frame's, not that of the part that fitted.
  const int result = recvmmsg(receiver_.get(), messages_.data(), armed_,
                              MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (result <= 0) return false;
  const auto received = static_cast<uint32_t>(result);
  const bool more = received == armed_;
  for (uint32_t slot = 0; slot < received; ++slot) {
    Take(slot, messages_[slot].msg_len, frames);
  }
  // From the end, so that the last slot can replace one that stays empty.
  for (uint32_t slot = received; slot-- > 0;) {
    if (Arm(slot)) continue;
    --armed_;
    if (slot < armed_) Arm(slot, slots_[armed_].buffer);
  }
  return more;
}

void AfPacketPort::Take(uint32_t index, uint32_t length,
                        std::vector<Frame>* frames) {
  const Slot& slot = slots_[index];
  length -= std::min<uint32_t>(length, sizeof(slot.offload));
  if (length > kMaxFrameBytes || slot.offload.segmentation != 0) {
    ++counts_.oversized;
    pool_->Give(slot.buffer);
    return;
  }
  if ((slot.offload.flags & kNeedsChecksum) != 0) {
    CompleteChecksum(pool_->frame(slot.buffer).first(length),
                     slot.offload.checksum_start, slot.offload.checksum_offset);
  }
  ++counts_.received;
  frames->push_back({.buffer = slot.buffer, .length = length});
}

void AfPacketPort::Send(std::span<const OutgoingFrame> frames) {
  int attempts = 0;
  while (!frames.empty()) {
    const auto burst = frames.first(std::min<size_t>(frames.size(), kBurst));
    for (size_t i = 0; i < burst.size(); ++i) {
      const auto part = [](std::span<const std::byte> bytes) {
        return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
      };
      outgoing_parts_[i] = {part(burst[i].head), part(burst[i].rest)};
      msghdr& header = outgoing_[i].msg_hdr;
      header = {};
      header.msg_iov = outgoing_parts_[i].data();
      header.msg_iovlen = outgoing_parts_[i].size();
    }
    const int sent =
        sendmmsg(sender_.get(), outgoing_.data(),
                 static_cast<uint32_t>(burst.size()), MSG_DONTWAIT);
    if (sent > 0) {
      counts_.sent += static_cast<uint32_t>(sent);
      frames = frames.subspan(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if ((errno == EAGAIN || errno == ENOBUFS) && ++attempts <= kRoomAttempts) {
      pollfd room = {sender_.get(), POLLOUT, 0};
      poll(&room, 1, kRoomWaitMs);
      continue;
    }
    // Whatever the reason, the frames behind it may have better luck.
    ++counts_.send_failed;
    frames = frames.subspan(1);
  }
}

const PortCounts& AfPacketPort::counts() {
  // Linux begins anew at zero with each call.
  tpacket_stats statistics{};
  socklen_t bytes = sizeof(statistics);
  if (getsockopt(receiver_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics,
                 &bytes) == 0) {
    counts_.overrun += statistics.tp_drops;
  }
  return counts_;
}

}  // namespace carillon::packet_io
