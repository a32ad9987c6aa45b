#include "tools/testbed/hosts/own_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/host_port.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "tools/testbed/topology/keys.h"

namespace carillon::testbed {
namespace {

constexpr uint32_t kPastPorts = 65536;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& host,
                                  const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        fmt::format("{}: {}", host, gai_strerror(error)));
  }
  return Addresses(found, &freeaddrinfo);
}

// No packet goes: connect() of a datagram socket only chooses the way.
absl::StatusOr<std::string> AddressTowards(const HostPort& etcd) {
  ASSIGN_OR_RETURN(const auto found,
                   Resolve(etcd.host, fmt::format("{}", etcd.port), 0));
  const UniqueFd fd(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  std::array<char, NI_MAXHOST> text{};
  if (!fd || connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(),
                  text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return absl::UnavailableError(
        fmt::format("no way to {}: {}", etcd.ToString(), strerror(errno)));
  }
  return std::string(text.data());
}

}  // namespace

absl::Status ChooseAddresses(const std::string& url,
                             std::vector<HostPart::Link>& links) {
  std::string own;
  uint32_t port = kDefaultLinkPort;
  for (HostPart::Link& link : links) {
    if (!link.address.host.empty()) continue;
    if (own.empty()) {
      ASSIGN_OR_RETURN(const auto etcd,
                       ReadHostPort(url.substr(url.find("//") + 2)));
      auto address = AddressTowards(etcd);
      if (!address.ok()) {
        return absl::UnavailableError(
            fmt::format("mesh: etcd: {}", address.status().message()));
      }
      own = *std::move(address);
    }
    do {
      if (port == kPastPorts) {
        return absl::ResourceExhaustedError(
            fmt::format("no port of {} from {} on is free for the link to '{}'",
                        own, kDefaultLinkPort, link.peer));
      }
      link.address = {own, static_cast<uint16_t>(port++)};
    } while (TryListen(link.address) != 0);
  }
  return absl::OkStatus();
}

int TryListen(const HostPort& address) {
  const auto found = Resolve(address.host, fmt::format("{}", address.port),
                             AI_NUMERICHOST | AI_PASSIVE);
  if (!found.ok()) return EADDRNOTAVAIL;
  const UniqueFd fd(socket((*found)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  // Old connections keep nobody from it.
  if (fd &&
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
      bind(fd.get(), (*found)->ai_addr, (*found)->ai_addrlen) == 0 &&
      listen(fd.get(), 1) == 0) {
    return 0;
  }
  return errno;
}

}  // namespace carillon::testbed
