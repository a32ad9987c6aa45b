#include "tools/bench/transports/loopback.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace carillon::bench {
namespace {

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

absl::Status Failed(const char* call) {
  return absl::InternalError(fmt::format("{}: {}", call, std::strerror(errno)));
}

}  // namespace

absl::StatusOr<Listener> ListenOnLoopback() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), 1) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) !=
          0) {
    return Failed("bind");
  }
  return Listener{std::move(fd), ntohs(address.sin_port)};
}

absl::StatusOr<UniqueFd> DialLoopback(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    return Failed("connect");
  }
  return fd;
}

}  // namespace carillon::bench
