#include "base/testing/tcp_relay.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

namespace carillon {
namespace {

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

}  // namespace

UniqueFd DialLoopback(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(
      std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd fd = NewSocket();
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    fd.reset();
  }
  return fd;
}

UniqueFd ListenOnLoopback(std::string* address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  UniqueFd fd = NewSocket();
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      listen(fd.get(), 8) != 0) {
    fd.reset();
  }
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size);
  *address = fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
  return fd;
}

TcpRelay::TcpRelay(std::string to) : to_(std::move(to)) {
  listener_ = ListenOnLoopback(&address_);
  thread_ = std::thread([this] { Run(); });
}

TcpRelay::~TcpRelay() {
  stop_ = true;
  thread_.join();
}

void TcpRelay::Run() {
  while (!stop_) {
    if (closed_) listener_.reset();
    pollfd ready{listener_.get(), POLLIN, 0};
    if (poll(&ready, 1, 10) != 1) continue;
    const UniqueFd near(accept(listener_.get(), nullptr, nullptr));
    const UniqueFd far = DialLoopback(to_);
    if (!far) continue;
    ++connections_;
    Carry(near.get(), far.get());
  }
}

void TcpRelay::Carry(int near, int far) {
  int64_t left = cut_after_ == 0 ? INT64_MAX : 1 + random_() % cut_after_;
  bool carries = true;
  char bytes[4096];
  while (!stop_ && !closed_ && left > 0) {
    if (silence_.exchange(false)) carries = false;
    if (cut_.exchange(false)) return;
    pollfd fds[] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    if (poll(fds, 2, 10) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      const ssize_t got = read(fds[i].fd, bytes, sizeof(bytes));
      if (got <= 0) return;
      if (delay_ms_ != 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
      }
      const int64_t some = std::min<int64_t>(got, left);
      left -= some;
      if (!carries) continue;
      if (send(fds[1 - i].fd, bytes, static_cast<size_t>(some), MSG_NOSIGNAL) <=
          0) {
        return;
      }
    }
  }
}

}  // namespace carillon
