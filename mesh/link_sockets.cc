#include "mesh/link_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"

namespace carillon::mesh {

Alarm::Alarm() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Alarm::Ring() const {
  const uint64_t one = 1;
  // It fails if the counter is full, and then the alarm rings already.
  [[maybe_unused]] const ssize_t written = write(fd(), &one, sizeof(one));
}

void Alarm::Clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(fd(), &count, sizeof(count));
}

void BlockSigpipe() {
  static thread_local bool blocked = false;
  if (std::exchange(blocked, true)) return;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int MillisecondsUntil(Nanoseconds when, Nanoseconds now) {
  if (when <= now) return 0;
  return static_cast<int>(
      std::min<Nanoseconds>((when - now) / 1'000'000 + 1, 60'000));
}

absl::StatusOr<Addresses> Resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", address.ToString(), gai_strerror(error)));
  }
  return Addresses(found, freeaddrinfo);
}

UniqueFd NewSocket(const addrinfo& address) {
  UniqueFd fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd;
}

void SendAtOnce(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

absl::Status Unavailable(const HostPort& address, int error) {
  return absl::UnavailableError(
      fmt::format("{}: {}", address.ToString(), std::strerror(error)));
}

absl::StatusOr<std::shared_ptr<UcxContext>> UcxFor(Engine engine) {
  if (engine != Engine::kUcx) return std::shared_ptr<UcxContext>();
  return UcxContext::Create();
}

absl::Status SilentFor(Nanoseconds timeout) {
  return absl::DeadlineExceededError(
      fmt::format("nothing came for {}", FormatExactDuration(timeout)));
}

}  // namespace carillon::mesh
