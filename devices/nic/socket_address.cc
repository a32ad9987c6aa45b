#include "devices/nic/socket_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"

namespace carillon::nic {

absl::StatusOr<SocketAddress> SocketAddress::Parse(const std::string& host,
                                                   uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.bytes = sizeof(*v4);
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.bytes = sizeof(*v6);
  } else {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is not an IP address; give one of this machine, such as "
        "127.0.0.1, or 0.0.0.0 for all",
        host));
  }
  return address;
}

SocketAddress SocketAddress::OfSocket(int fd) {
  SocketAddress address;
  address.bytes = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage),
                  &address.bytes) != 0) {
    address.bytes = 0;
  }
  return address;
}

uint32_t SocketAddress::Ipv4() const {
  if (storage.ss_family != AF_INET) return 0;
  return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr);
}

uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET6) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text,
              sizeof(text));
    return fmt::format("[{}]:{}", text, port());
  }
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr,
            text, sizeof(text));
  return fmt::format("{}:{}", text, port());
}

absl::StatusOr<UniqueFd> BindSocket(const SocketAddress& address, int type) {
  const char* const protocol = type == SOCK_DGRAM ? "UDP" : "TCP";
  UniqueFd fd(socket(address.storage.ss_family,
                     type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return absl::ResourceExhaustedError(
        fmt::format("{} socket: {}", protocol, strerror(errno)));
  }
  if (type == SOCK_STREAM) {
    // Lingering connections of an earlier server must not block the port.
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  }
  if (bind(fd.get(), address.get(), address.bytes) == 0) return fd;
  const int error = errno;
  const std::string where = fmt::format("{} {}", protocol, address.ToString());
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(fmt::format(
          "{} is in use by another process; choose another port (0: any)",
          where));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(
          fmt::format("{}: this machine does not have that address", where));
    case EACCES:
      return absl::PermissionDeniedError(fmt::format(
          "{}: ports below 1024 need root; choose another port", where));
    default:
      return absl::InternalError(fmt::format("{}: {}", where, strerror(error)));
  }
}

}  // namespace carillon::nic
