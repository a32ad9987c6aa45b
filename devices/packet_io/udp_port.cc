#include "devices/packet_io/udp_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/host_port.h"
#include "base/send_messages.h"
#include "base/status.h"
#include "devices/packet_io/internet_checksum.h"

namespace carillon::packet_io {
namespace {

constexpr int kSocketBufferBytes = 4 << 20;
// Limits how long Send() waits for room.

// Places in a frame.
constexpr size_t kIp = kEthernetBytes;
constexpr size_t kUdp = kIp + 20;
constexpr uint8_t kHops = 64;

void Put16(std::span<std::byte> frame, size_t at, size_t value) {
  frame[at] = static_cast<std::byte>(value >> 8);
  frame[at + 1] = static_cast<std::byte>(value);
}

}  // namespace

UdpPort::UdpPort(std::string address, const sockaddr_in& local, UniqueFd fd,
                 FramePool* pool)
    : address_(std::move(address)),
      local_(local),
      fd_(std::move(fd)),
      pool_(pool) {
  for (uint32_t i = 0; i < kBurst; ++i) {
    messages_[i].msg_hdr.msg_iov = parts_[i].data();
    messages_[i].msg_hdr.msg_name = &peers_[i];
  }
}

absl::StatusOr<std::unique_ptr<UdpPort>> UdpPort::Open(
    const std::string& address, FramePool* pool) {
  ASSIGN_OR_RETURN(const HostPort parsed, ReadListenAddress(address));
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_port = htons(parsed.port);
  // The address of a socket that listens to all of them is in no packet.
  if (inet_pton(AF_INET, parsed.host.c_str(), &local.sin_addr) != 1 ||
      local.sin_addr.s_addr == INADDR_ANY || parsed.port == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "udp {}: it must be an IPv4 address of this machine and a port, such "
        "as 192.0.2.1:7",
        address));
  }
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  for (const int option : {SO_RCVBUF, SO_SNDBUF}) {
    if (fd) {
      setsockopt(fd.get(), SOL_SOCKET, option, &kSocketBufferBytes,
                 sizeof(kSocketBufferBytes));
    }
  }
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&local),
                  sizeof(local)) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("udp {}: {}", address, std::strerror(errno)));
  }
  return std::unique_ptr<UdpPort>(
      new UdpPort(address, local, std::move(fd), pool));
}

void UdpPort::WriteHeaders(std::span<std::byte> frame,
                           const sockaddr_in& from) const {
  std::ranges::fill(frame.first(kHeaderBytes), std::byte{0});
  Put16(frame, 12, 0x0800);
  frame[kIp] = std::byte{0x45};
  Put16(frame, kIp + 2, frame.size() - kIp);
  Put16(frame, kIp + 6, 0x4000);  // a whole packet
  frame[kIp + 8] = std::byte{kHops};
  frame[kIp + 9] = std::byte{IPPROTO_UDP};
  std::memcpy(&frame[kIp + 12], &from.sin_addr, sizeof(from.sin_addr));
  std::memcpy(&frame[kIp + 16], &local_.sin_addr, sizeof(local_.sin_addr));
  const auto sum = static_cast<uint16_t>(~OnesSum(frame.subspan(kIp, 20)));
  std::memcpy(&frame[kIp + 10], &sum, sizeof(sum));
  std::memcpy(&frame[kUdp], &from.sin_port, sizeof(from.sin_port));
  std::memcpy(&frame[kUdp + 2], &local_.sin_port, sizeof(local_.sin_port));
  Put16(frame, kUdp + 4, frame.size() - kUdp);
}

bool UdpPort::Receive(std::vector<Frame>* frames) {
  std::array<BufferIndex, kBurst> buffers;
  uint32_t count = 0;
  for (; count < kBurst; ++count) {
    const auto buffer = pool_->Take();
    if (!buffer) break;
    buffers[count] = *buffer;
    const auto data = pool_->frame(*buffer).subspan(kHeaderBytes);
    parts_[count][0] = {data.data(), data.size()};
    msghdr& header = messages_[count].msg_hdr;
    header.msg_iovlen = 1;
    header.msg_namelen = sizeof(sockaddr_in);
    header.msg_flags = 0;
  }
  if (count == 0) return false;
  const int received =
      recvmmsg(fd_.get(), messages_.data(), count, MSG_DONTWAIT, nullptr);
  const uint32_t got = received > 0 ? static_cast<uint32_t>(received) : 0;
  // The last one first, so that the pool gives them in the same order again.
  for (uint32_t i = count; i-- > got;) pool_->Give(buffers[i]);
  for (uint32_t i = 0; i < got; ++i) {
    if ((messages_[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) {
      ++counts_.oversized;
      pool_->Give(buffers[i]);
      continue;
    }
    const uint32_t length = kHeaderBytes + messages_[i].msg_len;
    WriteHeaders(pool_->frame(buffers[i]).first(length), peers_[i]);
    ++counts_.received;
    frames->push_back({.buffer = buffers[i], .length = length, .time = {}});
  }
  return got == count;
}

bool UdpPort::Prepare(size_t i, const OutgoingFrame& frame) {
  std::array<std::byte, kHeaderBytes> headers;
  const size_t of_head = std::min<size_t>(frame.head.size(), kHeaderBytes);
  const size_t of_rest = kHeaderBytes - of_head;
  if (frame.rest.size() < of_rest) return false;
  std::copy_n(frame.head.begin(), of_head, headers.begin());
  std::copy_n(frame.rest.begin(), of_rest,
              headers.begin() + static_cast<std::ptrdiff_t>(of_head));
  if (headers[12] != std::byte{0x08} || headers[13] != std::byte{0} ||
      headers[kIp] != std::byte{0x45} ||
      headers[kIp + 9] != std::byte{IPPROTO_UDP}) {
    return false;
  }
  peers_[i].sin_family = AF_INET;
  std::memcpy(&peers_[i].sin_addr, &headers[kIp + 16],
              sizeof(peers_[i].sin_addr));
  std::memcpy(&peers_[i].sin_port, &headers[kUdp + 2],
              sizeof(peers_[i].sin_port));
  const auto part = [](std::span<const std::byte> bytes) {
    return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  parts_[i] = {part(frame.head.subspan(of_head)),
               part(frame.rest.subspan(of_rest))};
  msghdr& header = messages_[i].msg_hdr;
  header.msg_iovlen = parts_[i].size();
  header.msg_namelen = sizeof(sockaddr_in);
  return true;
}

void UdpPort::Send(std::span<const OutgoingFrame> frames) {
  int attempts = kSendAttempts;
  while (!frames.empty()) {
    uint32_t count = 0;
    while (count < kBurst && count < frames.size() &&
           Prepare(count, frames[count])) {
      ++count;
    }
    if (count == 0) {
      ++counts_.send_failed;
      frames = frames.subspan(1);
      continue;
    }
    const SendCounts counts =
        SendMessages(fd_.get(), std::span(messages_).first(count), &attempts);
    counts_.sent += counts.sent;
    counts_.send_failed += counts.failed;
    frames = frames.subspan(count);
  }
}

}  // namespace carillon::packet_io
