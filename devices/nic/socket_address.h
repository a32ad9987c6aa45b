// An IPv4 or IPv6 address with a port, as text and as sockets need it.
#ifndef CARILLON_DEVICES_NIC_SOCKET_ADDRESS_H_
#define CARILLON_DEVICES_NIC_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace carillon::nic {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  // `host` is a numeric address ("127.0.0.1", "::1"). Errors: InvalidArgument.
  static absl::StatusOr<SocketAddress> Parse(const std::string& host,
                                             uint16_t port);
  static SocketAddress OfSocket(int fd);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  uint16_t port() const;
  // As a number; 0 for 0.0.0.0, and for an IPv6 address.
  uint32_t Ipv4() const;
  // "127.0.0.1:11211", "[::1]:11211".
  std::string ToString() const;
};

// Makes a bound, non-blocking socket of `type` (SOCK_DGRAM, SOCK_STREAM).
// Errors: AlreadyExists (the port is in use), InvalidArgument (not this
// machine's address), PermissionDenied (low port), ResourceExhausted
// (descriptors).
absl::StatusOr<UniqueFd> BindSocket(const SocketAddress& address, int type);

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_SOCKET_ADDRESS_H_
