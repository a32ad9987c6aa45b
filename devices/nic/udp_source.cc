#include "devices/nic/udp_source.h"

#include <fmt/format.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "shm/faults/point.h"

// Linux 4.18 has it; older C libraries lack the name.
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace carillon::nic {
namespace {

// Limits how long Send() waits for room in the kernel's queue.
constexpr int kRoomAttempts = 4;
constexpr int kRoomWaitMs = 1;
// The kernel buffers so much while this process does not run.
constexpr int kSocketBufferBytes = 4 << 20;

void SetBuffer(int fd, int forced, int plain) {
  // With the privilege this may exceed the system's limit; otherwise it goes up
  // to the limit.
  if (setsockopt(fd, SOL_SOCKET, forced, &kSocketBufferBytes,
                 sizeof(kSocketBufferBytes)) != 0) {
    setsockopt(fd, SOL_SOCKET, plain, &kSocketBufferBytes,
               sizeof(kSocketBufferBytes));
  }
}

bool HasSegmentation(int fd) {
  int size = 0;
  socklen_t bytes = sizeof(size);
  return getsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, &bytes) == 0;
}

}  // namespace

bool UdpSource::Peer::operator==(const Peer& other) const {
  return bytes == other.bytes && std::memcmp(&v6, &other.v6, bytes) == 0;
}

uint32_t UdpSource::Peer::Hash() const {
  // The port and the end of the address distinguish most peers.
  uint32_t address = v4.sin_addr.s_addr;
  if (v4.sin_family == AF_INET6) {
    std::memcpy(&address, v6.sin6_addr.s6_addr + 12, sizeof(address));
  }
  const uint32_t mixed = (address ^ v4.sin_port * 0x9e3779b1u) * 0x85ebca6bu;
  return mixed >> 24;
}

absl::StatusOr<std::unique_ptr<UdpSource>> UdpSource::Open(
    const SocketAddress& address, PacketPool* pool, const Options& options) {
  ASSIGN_OR_RETURN(auto fd, BindSocket(address, SOCK_DGRAM));
  SetBuffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF);
  SetBuffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  const SocketAddress bound = SocketAddress::OfSocket(fd.get());
  return std::unique_ptr<UdpSource>(
      new UdpSource(std::move(fd), bound, pool, options));
}

UdpSource::UdpSource(UniqueFd fd, const SocketAddress& address,
                     PacketPool* pool, const Options& options)
    : fd_(std::move(fd)),
      address_(address),
      pool_(pool),
      segmentation_(options.segmentation && HasSegmentation(fd_.get())),
      rest_(new std::byte[size_t{kReceiveBurst} * kRestBytes]),
      peers_(pool->size()),
      messages_(kMaxMessages) {
  static_assert(kPeerTable == 256);  // Peer::Hash() gives eight bits
}

UdpSource::~UdpSource() {
  for (uint32_t i = 0; i < armed_; ++i) pool_->Give(slot_buffer_[i]);
  if (held_) pool_->Give(held_->buffer);
}

std::string UdpSource::Describe() const {
  return fmt::format("udp {}", address_.ToString());
}

bool UdpSource::Arm(uint32_t slot) {
  const std::optional<BufferIndex> buffer = pool_->Take();
  if (!buffer) return false;
  Arm(slot, *buffer);
  return true;
}

void UdpSource::Arm(uint32_t slot, BufferIndex buffer) {
  slot_buffer_[slot] = buffer;
  const std::span<std::byte> bytes = pool_->bytes(buffer);
  slot_part_[slot] = {
      iovec{bytes.data(), bytes.size()},
      iovec{rest_.get() + size_t{slot} * kRestBytes, kRestBytes}};
  msghdr& header = slot_message_[slot].msg_hdr;
  header = {};
  header.msg_name = &peers_[buffer].v6;
  header.msg_namelen = sizeof(peers_[buffer].v6);
  header.msg_iov = slot_part_[slot].data();
  header.msg_iovlen = slot_part_[slot].size();
}

bool UdpSource::Receive(std::vector<Packet>* packets) {
  while (armed_ < kReceiveBurst && Arm(armed_)) ++armed_;
  if (armed_ == 0) return Discard();
  // With MSG_TRUNC the length is the datagram's, not that of the part that
  // fitted.
  const int result = recvmmsg(fd_.get(), slot_message_.data(), armed_,
                              MSG_DONTWAIT | MSG_TRUNC, nullptr);
  if (result <= 0) return false;
  const auto received = static_cast<uint32_t>(result);
  const bool more = received == armed_;
  const size_t begin = packets->size();
  for (uint32_t slot = 0; slot < received; ++slot) {
    const BufferIndex buffer = slot_buffer_[slot];
    const uint32_t length = slot_message_[slot].msg_len;
    peers_[buffer].bytes = slot_message_[slot].msg_hdr.msg_namelen;
    if (length > kPacketBytes && !KeepLong(slot, length)) {
      ++counts_.oversized;
      Arm(slot, buffer);
      continue;
    }
    counts_.bytes_received += length;
    packets->push_back({buffer, length});
    slot_buffer_[slot] = kNoBuffer;
  }
  // Go from the end, so that the last slot can replace one that stays empty.
  for (uint32_t slot = received; slot-- > 0;) {
    if (slot_buffer_[slot] != kNoBuffer || Arm(slot)) continue;
    --armed_;
    if (slot < armed_) Arm(slot, slot_buffer_[armed_]);
  }
  if (faults::Armed(faults::Point::kNicReceive) || held_) [[unlikely]] {
    PassReceive(packets, begin);
  }
  return more;
}

bool UdpSource::KeepLong(uint32_t slot, uint32_t length) {
  if (length > kMaxDatagramBytes || !pool_->HasRoomForLong()) return false;
  const BufferIndex buffer = slot_buffer_[slot];
  std::string whole(TextOf(pool_->bytes(buffer)));
  whole.append(reinterpret_cast<const char*>(slot_part_[slot][1].iov_base),
               length - kPacketBytes);
  return pool_->KeepLong(buffer, std::move(whole));
}

void UdpSource::PassReceive(std::vector<Packet>* packets, size_t begin) {
  const std::vector<Packet> arrived(packets->begin() + begin, packets->end());
  packets->resize(begin);
  for (const Packet& packet : arrived) {
    const auto struck =
        faults::At(faults::Point::kNicReceive, {.bytes = packet.length});
    if (struck && struck->action == faults::Action::kLose) {
      pool_->Give(packet.buffer);
      continue;
    }
    if (struck && struck->action == faults::Action::kReorder && !held_) {
      held_ = packet;
      continue;
    }
    if (struck && struck->action == faults::Action::kCorrupt) {
      Corrupt(*struck, packet);
    }
    packets->push_back(packet);
    if (struck && struck->action == faults::Action::kDouble) {
      if (const auto copy = CopyOf(packet)) packets->push_back(*copy);
    }
    if (held_) packets->push_back(*std::exchange(held_, std::nullopt));
  }
}

void UdpSource::Corrupt(const faults::Struck& struck, const Packet& packet) {
  const std::span<std::byte> bytes = pool_->bytes(packet.buffer);
  if (packet.length <= kPacketBytes) {
    struck.Corrupt(bytes.first(packet.length));
    return;
  }
  // The buffer has the beginning of what is kept.
  const std::span<std::byte> whole = pool_->Long(packet.buffer);
  struck.Corrupt(whole);
  std::memcpy(bytes.data(), whole.data(), bytes.size());
}

std::optional<Packet> UdpSource::CopyOf(const Packet& packet) {
  const std::optional<BufferIndex> buffer = pool_->Take();
  if (!buffer) return std::nullopt;
  std::memcpy(pool_->bytes(*buffer).data(), pool_->bytes(packet.buffer).data(),
              std::min(packet.length, kPacketBytes));
  if (packet.length > kPacketBytes &&
      !pool_->KeepLong(
          *buffer, std::string(pool_->Whole(packet.buffer, packet.length)))) {
    pool_->Give(*buffer);
    return std::nullopt;
  }
  peers_[*buffer] = peers_[packet.buffer];
  return Packet{*buffer, packet.length};
}

std::optional<Packet> UdpSource::Adopt(std::span<const std::byte> datagram,
                                       uint32_t address, uint16_t port) {
  if (datagram.size() > kPacketBytes) return std::nullopt;
  const std::optional<BufferIndex> buffer = pool_->Take();
  if (!buffer) return std::nullopt;
  std::memcpy(pool_->bytes(*buffer).data(), datagram.data(), datagram.size());
  Peer& peer = peers_[*buffer];
  peer.v4 = {};
  peer.v4.sin_family = AF_INET;
  peer.v4.sin_addr.s_addr = htonl(address);
  peer.v4.sin_port = htons(port);
  peer.bytes = sizeof(peer.v4);
  counts_.bytes_received += datagram.size();
  return Packet{*buffer, static_cast<uint32_t>(datagram.size())};
}

std::span<const ReplyDatagram> UdpSource::PassSend(
    std::span<const ReplyDatagram> datagrams) {
  changed_.clear();
  changed_bytes_.clear();
  std::optional<ReplyDatagram> held;
  for (ReplyDatagram datagram : datagrams) {
    const auto struck =
        faults::At(faults::Point::kNicSend, {.bytes = datagram.length});
    if (struck && struck->action == faults::Action::kLose) continue;
    if (struck && struck->action == faults::Action::kReorder && !held) {
      held = datagram;
      continue;
    }
    if (struck && struck->action == faults::Action::kCorrupt) {
      auto& bytes = changed_bytes_.emplace_back(
          datagram.data, datagram.data + datagram.length);
      struck->Corrupt(bytes);
      datagram.data = bytes.data();
    }
    changed_.push_back(datagram);
    if (struck && struck->action == faults::Action::kDouble) {
      changed_.push_back(datagram);
    }
    if (held) changed_.push_back(*std::exchange(held, std::nullopt));
  }
  // A datagram that was held back leaves with its own batch at the latest.
  if (held) changed_.push_back(*held);
  return changed_;
}

bool UdpSource::Discard() {
  std::array<mmsghdr, kReceiveBurst> messages{};
  const int result = recvmmsg(fd_.get(), messages.data(), kReceiveBurst,
                              MSG_DONTWAIT, nullptr);
  if (result <= 0) return false;
  counts_.no_buffer += static_cast<uint32_t>(result);
  return result == static_cast<int>(kReceiveBurst);
}

UdpSource::Message* UdpSource::MessageFor(const Peer& peer, uint32_t length) {
  const uint32_t hash = peer.Hash();
  if (const uint16_t index = open_message_[hash]; index != 0) {
    Message* message = &messages_[index - 1];
    if (message->open && length <= message->segment &&
        message->bytes + length <= kMaxMessageBytes && *message->peer == peer) {
      return message;
    }
  }
  if (message_count_ == kMaxMessages) Flush();
  Message* message = &messages_[message_count_++];
  message->peer = &peer;
  message->segment = length;
  message->parts = 0;
  message->bytes = 0;
  message->open = true;
  open_message_[hash] = static_cast<uint16_t>(message_count_);
  return message;
}

void UdpSource::Send(std::span<const ReplyDatagram> datagrams) {
  if (faults::Armed(faults::Point::kNicSend)) [[unlikely]] {
    datagrams = PassSend(datagrams);
  }
  for (const ReplyDatagram& datagram : datagrams) {
    Message* message = MessageFor(peers_[datagram.buffer], datagram.length);
    message->part[message->parts++] = {const_cast<std::byte*>(datagram.data),
                                       datagram.length};
    message->bytes += datagram.length;
    // Only the last segment may be shorter.
    message->open = segmentation_ && datagram.length == message->segment &&
                    message->parts < kMaxSegments;
  }
  Flush();
}

void UdpSource::FillHeader(Message* message, msghdr* header) {
  *header = {};
  header->msg_name = const_cast<sockaddr_in6*>(&message->peer->v6);
  header->msg_namelen = message->peer->bytes;
  header->msg_iov = message->part.data();
  header->msg_iovlen = message->parts;
  if (message->parts == 1) return;
  header->msg_control = message->control.data();
  header->msg_controllen = message->control.size();
  cmsghdr* control = CMSG_FIRSTHDR(header);
  control->cmsg_level = IPPROTO_UDP;
  control->cmsg_type = UDP_SEGMENT;
  control->cmsg_len = CMSG_LEN(sizeof(uint16_t));
  const auto segment = static_cast<uint16_t>(message->segment);
  std::memcpy(CMSG_DATA(control), &segment, sizeof(segment));
}

void UdpSource::Flush() {
  for (uint32_t i = 0; i < message_count_; ++i) {
    FillHeader(&messages_[i], &send_header_[i].msg_hdr);
  }
  int attempts = 0;
  uint32_t done = 0;
  while (done < message_count_) {
    ++counts_.send_calls;
    const int sent = sendmmsg(fd_.get(), send_header_.data() + done,
                              message_count_ - done, MSG_DONTWAIT);
    if (sent > 0) {
      for (int i = 0; i < sent; ++i) {
        counts_.bytes_sent += messages_[done].bytes;
        counts_.datagrams_sent += messages_[done++].parts;
      }
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) {
      if (WaitForRoom(&attempts)) continue;
      while (done < message_count_) {
        counts_.send_failed += messages_[done++].parts;
      }
      break;
    }
    // EIO means that the interface does not support it at all. EINVAL and
    // EMSGSIZE may concern this message only.
    const Message& failed = messages_[done++];
    if (failed.parts > 1) {
      if (errno == EIO || errno == EOPNOTSUPP) segmentation_ = false;
      SendParts(failed);
    } else {
      ++counts_.send_failed;
    }
  }
  message_count_ = 0;
  open_message_.fill(0);
}

bool UdpSource::WaitForRoom(int* attempts) const {
  if (++*attempts > kRoomAttempts) return false;
  pollfd room = {fd_.get(), POLLOUT, 0};
  poll(&room, 1, kRoomWaitMs);
  return true;
}

void UdpSource::SendParts(const Message& message) {
  int attempts = 0;
  for (uint32_t i = 0; i < message.parts; ++i) {
    msghdr header{};
    header.msg_name = const_cast<sockaddr_in6*>(&message.peer->v6);
    header.msg_namelen = message.peer->bytes;
    header.msg_iov = const_cast<iovec*>(&message.part[i]);
    header.msg_iovlen = 1;
    ssize_t sent;
    do {
      ++counts_.send_calls;
      sent = sendmsg(fd_.get(), &header, MSG_DONTWAIT);
    } while (sent < 0 &&
             (errno == EINTR || ((errno == EAGAIN || errno == ENOBUFS) &&
                                 WaitForRoom(&attempts))));
    if (sent >= 0) counts_.bytes_sent += static_cast<uint64_t>(sent);
    ++(sent >= 0 ? counts_.datagrams_sent : counts_.send_failed);
  }
}

}  // namespace carillon::nic
