#include "tools/testbed/load/nic_load.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "base/testing/eventually.h"
#include "base/unique_fd.h"

namespace carillon::testbed {
namespace {

// A memcached server over UDP with one thread, which can be stopped.
class Server {
 public:
  explicit Server(bool right = true) : right_(right) {
    fd_.reset(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Server() {
    ending_ = true;
    thread_.join();
  }
  uint16_t port() const { return port_; }
  uint64_t served() const { return served_; }

 private:
  void Serve() {
    while (!ending_) {
      pollfd ready{fd_.get(), POLLIN, 0};
      if (poll(&ready, 1, 5) != 1) continue;
      char bytes[2048];
      sockaddr_in from{};
      socklen_t size = sizeof(from);
      const ssize_t got = recvfrom(fd_.get(), bytes, sizeof(bytes), 0,
                                   reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 8) continue;
      ++served_;
      const std::string reply =
          std::string(bytes, 8) + Answer(std::string(bytes + 8, got - 8));
      sendto(fd_.get(), reply.data(), reply.size(), 0,
             reinterpret_cast<sockaddr*>(&from), size);
    }
  }
  std::string Answer(const std::string& request) {
    const std::string key =
        request.substr(4, request.find_first_of(" \r", 4) - 4);
    if (request.starts_with("set ")) {
      const size_t line = request.find("\r\n") + 2;
      values_[key] = request.substr(line, request.size() - 2 - line);
      return "STORED\r\n";
    }
    if (!values_.contains(key)) return "END\r\n";
    std::string value = values_[key];
    if (!right_) value[0] ^= 1;
    return "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" +
           value + "\r\nEND\r\n";
  }

  const bool right_;
  UniqueFd fd_;
  uint16_t port_ = 0;
  std::map<std::string, std::string> values_;
  std::atomic<uint64_t> served_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

TEST(NicLoad, FollowsANicThatComesBackElsewhere) {
  NicLoad load(8, 1);
  {
    const Server server;
    load.SetAddress("127.0.0.1", server.port());
    ASSERT_TRUE(Eventually([&] { return load.replies() > 0; }));
  }
  load.SetAddress("", 0);
  const Server other;
  load.SetAddress("127.0.0.1", other.port());
  // More replies than it has keys.
  ASSERT_TRUE(Eventually([&] { return other.served() > 100; }));
  EXPECT_EQ(load.Stop().bad, 0u);
}

TEST(NicLoad, SeesWrongBytes) {
  const Server server(/*right=*/false);
  NicLoad load(8, 1);
  load.SetAddress("127.0.0.1", server.port());
  // SETs get correct answers.
  ASSERT_TRUE(Eventually([&] { return load.replies() > 0; }));
  EXPECT_GT(load.Stop().bad, 0u);
}

// Answers each SET by TCP: after `good` of them with `last`, and hangs up.
class TcpServer {
 public:
  TcpServer(int good, std::string last) : good_(good), last_(std::move(last)) {
    fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 4), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~TcpServer() {
    ending_ = true;
    thread_.join();
  }
  uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void Serve() {
    while (!ending_) {
      pollfd ready{fd_.get(), POLLIN, 0};
      if (poll(&ready, 1, 5) != 1) continue;
      const UniqueFd peer(accept(fd_.get(), nullptr, nullptr));
      for (int i = 0; i <= good_; ++i) {
        char bytes[256];
        if (recv(peer.get(), bytes, sizeof(bytes), 0) <= 0) break;
        const std::string reply = i < good_ ? "STORED\r\n" : last_;
        send(peer.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
      }
      ++connections_;
    }
  }

  const int good_;
  const std::string last_;
  UniqueFd fd_;
  uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

TEST(NicLoad, AConnectionMayEndButNotWithAnotherAnswer) {
  for (const auto& [last, right] :
       {std::pair("", true), {"STOR", true}, {"STORD\r\n", false}}) {
    const Server udp;
    const TcpServer tcp(3, last);
    NicLoad load(8, 1);
    load.SetAddress("127.0.0.1", udp.port(), tcp.port());
    ASSERT_TRUE(Eventually([&] { return tcp.connections() > 2; }));
    EXPECT_EQ(load.Stop().bad == 0, right) << last;
  }
}

TEST(NicLoad, EndsWithoutANic) {
  NicLoad load(8, 1);
  EXPECT_EQ(load.Stop().replies, 0u);
}

TEST(ReadUdpAddress, FindsItInWhatANicSays) {
  std::string host;
  uint16_t port = 0;
  ASSERT_TRUE(
      ReadUdpAddress("udp 127.0.0.1:11211 tcp 127.0.0.1:11212", &host, &port));
  EXPECT_EQ(host, "127.0.0.1");
  EXPECT_EQ(port, 11211);
  ASSERT_TRUE(
      ReadTcpAddress("udp 127.0.0.1:11211 tcp 127.0.0.1:11212", &host, &port));
  EXPECT_EQ(port, 11212);
  EXPECT_FALSE(ReadTcpAddress("udp 127.0.0.1:11211", &host, &port));
  ASSERT_TRUE(ReadUdpAddress("udp [::1]:7 tcp x", &host, &port));
  EXPECT_EQ(host, "::1");
  EXPECT_EQ(port, 7);
  for (const char* note : {"", "tcp 1.2.3.4:5", "udp 1.2.3.4", "udp a:0",
                           "udp a:70000", "udp a:7x"}) {
    EXPECT_FALSE(ReadUdpAddress(note, &host, &port)) << note;
  }
}

}  // namespace
}  // namespace carillon::testbed
