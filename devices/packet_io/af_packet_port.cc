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
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/send_messages.h"
#include "base/status.h"
#include "devices/packet_io/internet_checksum.h"

namespace carillon::packet_io {
namespace {

// The ring, which holds so many frames while this process does not run. A slot
// has room for kMaxFrameBytes behind Linux's own headers; a block has whole ones.
constexpr uint32_t kSlotBytes = 9'360;
constexpr uint32_t kBlockBytes = 64 << 10;
constexpr uint32_t kSlotsOfBlock = kBlockBytes / kSlotBytes;
constexpr uint32_t kBlocks = 256;
constexpr uint32_t kSlots = kBlocks * kSlotsOfBlock;
// What may wait to be sent.
constexpr int kSocketBufferBytes = 4 << 20;

// What Linux puts before each frame (PACKET_VNET_HDR): struct virtio_net_hdr,
// whose header is not C++.
struct OffloadHeader {
  uint8_t flags;
  uint8_t segmentation;  // 0: none
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(OffloadHeader) == 10);
constexpr uint8_t kNeedsChecksum = 1;
// Limits how long Send() waits for room.

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
  if (!ring_.empty()) munmap(ring_.data(), ring_.size());
}

absl::Status AfPacketPort::OpenReceiver(int index) {
  const int fd = receiver_.get();
  RETURN_IF_ERROR(AttachFilter(fd, interface_));
  if (!SetOption(fd, PACKET_IGNORE_OUTGOING) ||
      !SetOption(fd, PACKET_VNET_HDR)) {
    return Failed(interface_, "socket options");
  }
  RETURN_IF_ERROR(MapRing());
  return Bind(fd, interface_, index, ETH_P_ALL);
}

absl::Status AfPacketPort::OpenSender(int index) {
  SetBuffer(sender_.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  // Queueing disciplines would only add to the time.
  SetOption(sender_.get(), PACKET_QDISC_BYPASS);
  return Bind(sender_.get(), interface_, index, 0);
}

absl::Status AfPacketPort::MapRing() {
  const int fd = receiver_.get();
  const int version = TPACKET_V2;
  tpacket_req ring{};
  ring.tp_block_size = kBlockBytes;
  ring.tp_block_nr = kBlocks;
  ring.tp_frame_size = kSlotBytes;
  ring.tp_frame_nr = kSlots;
  if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) !=
          0 ||
      setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) != 0) {
    return Failed(interface_, "a ring of frames");
  }
  constexpr size_t kBytes = size_t{kBlockBytes} * kBlocks;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Failed(interface_, "mmap");
  ring_ = {static_cast<std::byte*>(memory), kBytes};
  return absl::OkStatus();
}

std::byte* AfPacketPort::slot() const {
  return ring_.data() + size_t{next_ / kSlotsOfBlock} * kBlockBytes +
         size_t{next_ % kSlotsOfBlock} * kSlotBytes;
}

bool AfPacketPort::Receive(std::vector<Frame>* frames) {
  for (uint32_t i = 0; i < kBurst; ++i) {
    auto* const header = reinterpret_cast<tpacket2_hdr*>(slot());
    // Writers: Linux, when it has filled the slot, which acquire lets us see; and
    // this thread, when it has read it.
    const std::atomic_ref<uint32_t> status(header->tp_status);
    if ((status.load(std::memory_order_acquire) & TP_STATUS_USER) == 0) {
      return false;
    }
    OffloadHeader offload;
    const std::byte* const bytes = slot() + header->tp_mac;
    std::memcpy(&offload, bytes - sizeof(offload), sizeof(offload));
    if (header->tp_snaplen < header->tp_len ||
        header->tp_len > kMaxFrameBytes || offload.segmentation != 0) {
      ++counts_.oversized;
    } else {
      const auto buffer = pool_->Take();
      if (!buffer) return false;
      const uint32_t length = header->tp_len;
      const auto frame = pool_->frame(*buffer).first(length);
      std::memcpy(frame.data(), bytes, length);
      if ((offload.flags & kNeedsChecksum) != 0) {
        CompleteChecksum(frame, offload.checksum_start,
                         offload.checksum_offset);
      }
      ++counts_.received;
      frames->push_back({.buffer = *buffer, .length = length});
    }
    status.store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = (next_ + 1) % kSlots;
  }
  return true;
}

void AfPacketPort::Send(std::span<const OutgoingFrame> frames) {
  int attempts = kSendAttempts;
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
    const SendCounts counts = SendMessages(
        sender_.get(), std::span(outgoing_).first(burst.size()), &attempts);
    counts_.sent += counts.sent;
    counts_.send_failed += counts.failed;
    frames = frames.subspan(burst.size());
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
