#include "mesh/etcd/tls_trouble.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"
#include "mesh/tls_stream.h"

namespace carillon::mesh {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{1000};
// A server tells a client of TLS 1.3 after their agreement that it refuses its
// certificate.
constexpr milliseconds kRefusalPatience{500};

bool Await(int fd, short events, Clock::time_point end) {
  const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
  pollfd ready{fd, events, 0};
  return left > milliseconds(0) &&
         poll(&ready, 1, static_cast<int>(left.count())) > 0;
}

// Empty: nobody is there.
UniqueFd Dial(const HostPort& address, Clock::time_point end) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), fmt::format("{}", address.port).c_str(),
                  &hints, &found) != 0) {
    return UniqueFd();
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found,
                                                                 &freeaddrinfo);
  UniqueFd fd(
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return UniqueFd();
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) return fd;
  int error = 0;
  socklen_t size = sizeof(error);
  if (errno != EINPROGRESS || !Await(fd.get(), POLLOUT, end) ||
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
      error != 0) {
    return UniqueFd();
  }
  return fd;
}

// As FindTlsTrouble().
absl::Status Look(const HostPort& etcd, const TlsContext& context,
                  const std::string& host) {
  const auto is_trouble = [](const absl::Status& status) {
    return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  };
  const auto trouble = [&](std::string_view what, const absl::Status& status) {
    return WithHint(
        absl::PermissionDeniedError(
            fmt::format("etcd on {}, which host '{}' starts, {}: {}",
                        etcd.ToString(), host, what, status.message())),
        "all hosts need certificates of one CA: see mesh: tls in docs/mesh.md");
  };
  const auto end = Clock::now() + kPatience;
  UniqueFd fd = Dial(etcd, end);
  if (!fd) return absl::OkStatus();
  TlsStream stream(context, TlsSide::kClient, std::move(fd));
  for (;;) {
    const auto agreed = stream.Handshake();
    if (is_trouble(agreed.status())) {
      return trouble("is not to be believed", agreed.status());
    }
    if (!agreed.ok()) return absl::OkStatus();
    if (*agreed) break;
    if (!Await(stream.fd(), stream.poll_events(), end)) return absl::OkStatus();
  }
  const absl::Status name = stream.CheckPeer(host);
  if (!name.ok()) return trouble("is not to be believed", name);
  const auto refusal_end = Clock::now() + kRefusalPatience;
  std::array<char, 4096> bytes;
  do {
    const auto got = stream.Read(bytes);
    if (is_trouble(got.status())) {
      return trouble("refuses this host's certificate", got.status());
    }
    if (!got.ok()) break;
  } while (Await(stream.fd(), stream.poll_events(), refusal_end));
  return absl::OkStatus();
}

}  // namespace

absl::Status FindTlsTrouble(const HostPort& etcd, const TlsFiles& files,
                            const std::string& host) {
  ASSIGN_OR_RETURN(const auto context, TlsContext::Create(files));
  absl::Status found;
  // A thread of its own, so that a SIGPIPE goes with it.
  std::thread([&] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    found = Look(etcd, context, host);
  }).join();
  return found;
}

}  // namespace carillon::mesh
