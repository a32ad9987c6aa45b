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
    const uint64_t cuts = cuts_;
    if (cut_) continue;
    const UniqueFd far = DialLoopback(to_);
    if (!far) continue;
    ++connections_;
    Carry(near.get(), far.get(), cuts);
  }
}

namespace {

// Where a record of TLS ends in a stream that is read by no more than Want().
class Records {
 public:
  size_t Want() const { return left_ > 0 ? left_ : kHeader - header_.size(); }
  // The length of the record that ends with these bytes; 0: none does.
  size_t Read(const char* bytes, size_t count) {
    if (left_ > 0) {
      left_ -= count;
      return left_ == 0 ? length_ : 0;
    }
    header_.append(bytes, count);
    if (header_.size() < kHeader) return 0;
    length_ = left_ = static_cast<uint8_t>(header_[3]) << 8 |
                      static_cast<uint8_t>(header_[4]);
    header_.clear();
    return 0;
  }

 private:
  static constexpr size_t kHeader = 5;
  std::string header_;
  size_t length_ = 0;
  size_t left_ = 0;
};

}  // namespace

void TcpRelay::Carry(int near, int far, uint64_t cuts) {
  Records records;
  int64_t left = cut_after_ == 0 ? INT64_MAX : 1 + random_() % cut_after_;
  bool carries = true;
  char bytes[4096];
  while (!stop_ && !closed_ && cuts == cuts_ && left > 0) {
    if (silence_.exchange(false)) carries = false;
    pollfd fds[] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    if (poll(fds, 2, 10) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      const size_t most =
          i == 1 ? std::min(sizeof(bytes), records.Want()) : sizeof(bytes);
      const ssize_t got = read(fds[i].fd, bytes, most);
      if (got <= 0) return;
      const size_t record =
          i == 1 ? records.Read(bytes, static_cast<size_t>(got)) : 0;
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
      if (record > 150) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(record_pause_ms_.load()));
      }
    }
  }
}

}  // namespace carillon
