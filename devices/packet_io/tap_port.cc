#include "devices/packet_io/tap_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace carillon::packet_io {
namespace {

constexpr uint32_t kBurst = 64;
constexpr char kDevice[] = "/dev/net/tun";

absl::Status Refused(const std::string& interface) {
  switch (errno) {
    case EPERM:
      return absl::PermissionDeniedError(fmt::format(
          "tap {}: this process lacks CAP_NET_ADMIN; run it as root, in a user "
          "and network namespace of its own (unshare -rn), or let root make "
          "the "
          "device for you (ip tuntap add {} mode tap user NAME)",
          interface, interface));
    case EBUSY:
      return absl::AlreadyExistsError(
          fmt::format("tap {}: another process has it", interface));
    case EINVAL:
      return absl::FailedPreconditionError(fmt::format(
          "tap {}: the interface of that name is no TAP device", interface));
    default:
      return absl::FailedPreconditionError(
          fmt::format("tap {}: {}", interface, std::strerror(errno)));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TapPort>> TapPort::Open(
    const std::string& interface, FramePool* pool) {
  UniqueFd fd(open(kDevice, O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return absl::FailedPreconditionError(fmt::format(
        "tap {}: {}: {}", interface, kDevice, std::strerror(errno)));
  }
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) return Refused(interface);
  return std::unique_ptr<TapPort>(new TapPort(interface, std::move(fd), pool));
}

bool TapPort::Receive(std::vector<Frame>* frames) {
  for (uint32_t i = 0; i < kBurst; ++i) {
    const auto buffer = pool_->Take();
    if (!buffer) return false;
    const std::span<std::byte> frame = pool_->frame(*buffer);
    // A longer frame is cut; one more byte shows it.
    std::byte more;
    std::array<iovec, 2> parts = {{{frame.data(), frame.size()}, {&more, 1}}};
    const ssize_t length =
        readv(fd_.get(), parts.data(), static_cast<int>(parts.size()));
    if (length > static_cast<ssize_t>(frame.size())) {
      ++counts_.oversized;
    } else if (length > 0) {
      ++counts_.received;
      frames->push_back(
          {.buffer = *buffer, .length = static_cast<uint32_t>(length)});
      continue;
    }
    pool_->Give(*buffer);
    if (length <= 0) return false;
  }
  return true;
}

void TapPort::Send(std::span<const OutgoingFrame> frames) {
  for (const OutgoingFrame& frame : frames) {
    const auto part = [](std::span<const std::byte> bytes) {
      return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()};
    };
    std::array<iovec, 2> parts = {part(frame.head), part(frame.rest)};
    ssize_t sent;
    do {
      sent = writev(fd_.get(), parts.data(), static_cast<int>(parts.size()));
    } while (sent < 0 && errno == EINTR);
    ++(sent >= 0 ? counts_.sent : counts_.send_failed);
  }
}

}  // namespace carillon::packet_io
