// A client of the dashboard that sends whatever bytes it wants.
#ifndef CARILLON_TOOLS_DASHBOARD_TEST_HTTP_CLIENT_H_
#define CARILLON_TOOLS_DASHBOARD_TEST_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace carillon::dashboard {

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) {
    fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer != 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer,
                 sizeof(receive_buffer));
    }
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = htons(port),
                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                        .sin_zero = {}};
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  // Returns false if the server has closed the connection.
  bool Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t part = send(fd_.get(), bytes.data() + sent,
                                bytes.size() - sent, MSG_NOSIGNAL);
      if (part <= 0) return false;
      sent += part;
    }
    return true;
  }
  // Reads until `text` has come, and returns all that has come since the
  // connection began; also at its end and after a minute.
  std::string ReadUntil(const std::string& text) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    char bytes[64 << 10];
    size_t looked = 0;  // it is not in what comes before
    while (read_.find(text, looked) == std::string::npos &&
           std::chrono::steady_clock::now() < end) {
      looked = read_.size() - std::min(read_.size(), text.size());
      pollfd fd{fd_.get(), POLLIN, 0};
      if (poll(&fd, 1, 100) <= 0) continue;
      const ssize_t part = recv(fd_.get(), bytes, sizeof(bytes), 0);
      if (part <= 0) {
        ended_ = true;
        break;
      }
      read_.append(bytes, part);
    }
    return read_;
  }
  // All until the server closes the connection.
  std::string ReadAll() {
    ReadUntil("no response has this");
    EXPECT_TRUE(ended_) << "the server has not closed the connection";
    return read_;
  }
  void Forget() { read_.clear(); }
  bool ended() const { return ended_; }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string read_;
};

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_TEST_HTTP_CLIENT_H_
