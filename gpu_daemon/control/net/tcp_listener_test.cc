// The door for other machines lets in only so many, and can end whom it let in.
#include "gpu_daemon/control/net/tcp_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/host_port.h"
#include "proto/admin.grpc.pb.h"

namespace carillon::gpud {
namespace {

using testing::HasSubstr;

// An event loop that runs, and what was accepted on it.
class TcpListenerTest : public testing::Test {
 protected:
  void TearDown() override {
    if (!thread_.joinable()) return;
    loop_->Stop();
    thread_.join();
    for (const int connection : accepted_) close(connection);
  }
  // False where the machine has no such address.
  bool Open(const std::string& address,
            TcpListener::OnConnection on_connection) {
    auto door =
        TcpListener::Open(address, loop_.get(), std::move(on_connection));
    if (!door.ok()) return false;
    door_ = *std::move(door);
    thread_ = std::thread([this] { loop_->Run(); });
    return true;
  }
  UniqueFd Connect(const char* from) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, from, &own.sin_addr);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)),
              0);
    sockaddr_in there = own;
    inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
    there.sin_port = htons(ReadHostPort(door_->address())->port);
    EXPECT_EQ(
        connect(fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof(there)),
        0);
    return fd;
  }
  // Whether the other end closed it, within `ms`.
  static bool Closed(const UniqueFd& fd, int ms) {
    pollfd look{.fd = fd.get(), .events = POLLIN, .revents = 0};
    char byte;
    return poll(&look, 1, ms) == 1 && read(fd.get(), &byte, 1) <= 0;
  }

  // Runs `task` on the loop's thread, and waits for it.
  void OnLoop(std::function<void()> task) {
    std::promise<void> done;
    loop_->Post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  // By which gRPC names the other end.
  static std::string GrpcPeerOf(const UniqueFd& fd) {
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size);
    char host[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &own.sin_addr, host, sizeof(host));
    return std::string("ipv4:") + host + ":" +
           std::to_string(ntohs(own.sin_port));
  }
  // Of one end, while the other end is read.
  static void Send(const UniqueFd& from, int to, size_t bytes) {
    std::vector<char> buffer(64 << 10);
    for (size_t sent = 0, read = 0; read < bytes;) {
      const ssize_t more =
          send(from.get(), buffer.data(), std::min(buffer.size(), bytes - sent),
               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (more > 0) sent += static_cast<size_t>(more);
      pollfd look{.fd = to, .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&look, 1, 20'000), 1);
      const ssize_t got = recv(to, buffer.data(), buffer.size(), MSG_DONTWAIT);
      ASSERT_GT(got, 0);
      read += static_cast<size_t>(got);
    }
  }

  std::unique_ptr<EventLoop> loop_ = *EventLoop::Create();
  std::unique_ptr<TcpListener> door_;
  std::thread thread_;
  std::vector<int> accepted_;  // the loop's thread, while it runs
  size_t ends_ = 0;            // of them, that a test has seen
};

TEST_F(TcpListenerTest, AnAddressHasOnlySoManyConnectionsAndOthersGetIn) {
  ASSERT_TRUE(Open("127.0.0.1:0", [this](int, int connection) {
    accepted_.push_back(connection);
  }));
  std::vector<UniqueFd> greedy;
  for (size_t i = 0; i <= TcpListener::kMaxOfAnAddress; ++i) {
    greedy.push_back(Connect("127.0.0.2"));
  }
  EXPECT_TRUE(Closed(greedy.back(), 20'000));
  const UniqueFd other = Connect("127.0.0.3");
  EXPECT_FALSE(Closed(other, 50));
  EXPECT_EQ(door_->connections(), TcpListener::kMaxOfAnAddress + 1);
  EXPECT_EQ(door_->refused(), 1u);
}

TEST_F(TcpListenerTest, AllTogetherHaveOnlySoMany) {
  ASSERT_TRUE(Open("127.0.0.1:0", [this](int, int connection) {
    accepted_.push_back(connection);
  }));
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < TcpListener::kMaxConnections; ++i) {
    const std::string from =
        "127.0.1." + std::to_string(1 + i / TcpListener::kMaxOfAnAddress);
    crowd.push_back(Connect(from.c_str()));
  }
  EXPECT_TRUE(Closed(Connect("127.0.0.9"), 20'000));
  EXPECT_FALSE(Closed(crowd.back(), 50));
}

TEST_F(TcpListenerTest, ClosedConnectionsMakeRoom) {
  // As gRPC does it: the number is free again at once.
  ASSERT_TRUE(
      Open("127.0.0.1:0", [](int, int connection) { close(connection); }));
  for (size_t i = 0; i < 3 * TcpListener::kMaxOfAnAddress; ++i) {
    EXPECT_TRUE(Closed(Connect("127.0.0.2"), 20'000));
  }
  EXPECT_EQ(door_->refused(), 0u);
  EXPECT_EQ(door_->connections(), 0u);
}

TEST_F(TcpListenerTest, WhoConnectsAfterAFloodWaitsForTheEndOfAPause) {
  ASSERT_TRUE(Open("127.0.0.1:0", [this](int, int connection) {
    accepted_.push_back(connection);
  }));
  // Where the machine stalls for longer than the pause, it shows nothing.
  for (size_t attempt = 0; attempt < 20; ++attempt) {
    const UniqueFd flood = Connect("127.0.0.2");
    size_t let_in = 0;
    while (let_in == 2 * attempt) OnLoop([&] { let_in = accepted_.size(); });
    const size_t connections = door_->connections();
    UniqueFd other;
    Nanoseconds cut_ns = 0;
    OnLoop([&] {
      cut_ns = NowNs();
      door_->CutFlood(GrpcPeerOf(flood));
      other = Connect("127.0.0.3");
    });
    EXPECT_TRUE(Closed(flood, 20'000));
    while (door_->connections() <= connections) std::this_thread::yield();
    size_t early = 0;
    OnLoop([&] { early = accepted_.size(); });
    const bool in_time = NowNs() < cut_ns + TcpListener::kPauseNs;
    EXPECT_FALSE(Closed(other, 0));
    size_t late = 0;
    OnLoop([&] {
      door_->Tick(NowNs() + TcpListener::kPauseNs);
      late = accepted_.size();
    });
    EXPECT_EQ(late, let_in + 1);
    if (!in_time) {
      const Nanoseconds next =
          cut_ns + TcpListener::kPauseNs + TcpListener::kOpenNs;
      while (NowNs() <= next) std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(early, let_in);
    return;
  }
  FAIL() << "20 times this machine stood still";
}

TEST_F(TcpListenerTest, AFloodDuringAPauseDoesNotMakeItLonger) {
  ASSERT_TRUE(Open("127.0.0.1:0", [this](int, int connection) {
    accepted_.push_back(connection);
  }));
  const UniqueFd one = Connect("127.0.0.2");
  const UniqueFd two = Connect("127.0.0.2");
  size_t let_in = 0;
  while (let_in < 2) OnLoop([&] { let_in = accepted_.size(); });
  Nanoseconds cut_ns = 0;
  OnLoop([&] {
    door_->CutFlood(GrpcPeerOf(one));
    cut_ns = NowNs();
    while (NowNs() == cut_ns) continue;  // a pause from here on would be longer
    door_->CutFlood(GrpcPeerOf(two));
  });
  const size_t connections = door_->connections();
  const UniqueFd other = Connect("127.0.0.3");
  while (door_->connections() <= connections) std::this_thread::yield();
  OnLoop([&] {
    door_->Tick(cut_ns + TcpListener::kPauseNs);
    let_in = accepted_.size();
  });
  EXPECT_EQ(let_in, 3u);
}

TEST_F(TcpListenerTest, WhoSendsMuchWithoutAWholeCallIsCut) {
  ASSERT_TRUE(Open("127.0.0.1:0", [this](int, int connection) {
    accepted_.push_back(connection);
  }));
  const auto connect = [&](const char* from) {
    UniqueFd fd = Connect(from);
    const size_t before = ends_;
    while (ends_ == before) OnLoop([&] { ends_ = accepted_.size(); });
    return fd;
  };
  constexpr size_t kHalf = TcpListener::kMaxUnreadBytes / 2;
  const UniqueFd one = connect("127.0.0.2");
  const UniqueFd another = connect("127.0.0.3");
  const UniqueFd small = connect("127.0.0.4");
  const UniqueFd uploads = connect("127.0.0.5");
  Send(one, accepted_[0], kHalf - (1 << 20));
  Send(small, accepted_[2], 1000);
  Send(uploads, accepted_[3], kHalf);
  // What will have come with calls accounts for nothing before it came.
  door_->MarkServed(GrpcPeerOf(another), 2 * kHalf);
  Send(another, accepted_[1], kHalf - (1 << 20));
  door_->MarkServed(GrpcPeerOf(uploads), kHalf);
  OnLoop([&] { door_->CutHoards(); });
  EXPECT_FALSE(Closed(one, 0));
  EXPECT_FALSE(Closed(another, 0));
  Send(one, accepted_[0], 2 << 20);
  OnLoop([&] { door_->CutHoards(); });
  EXPECT_TRUE(Closed(one, 20'000));
  EXPECT_TRUE(Closed(another, 20'000));
  EXPECT_FALSE(Closed(small, 50));
  EXPECT_FALSE(Closed(uploads, 50));
}

TEST_F(TcpListenerTest, WhatCannotBeListenedOnIsSaid) {
  const auto words = [&](const std::string& address) {
    return std::string(TcpListener::Open(address, loop_.get(), [](int, int) {})
                           .status()
                           .message());
  };
  EXPECT_THAT(words("localhost:0"), HasSubstr("--listen: 'localhost:0' names"));
  EXPECT_THAT(words("192.0.2.1:0"),
              HasSubstr("cannot listen on 192.0.2.1:0: "));
  ASSERT_TRUE(Open("127.0.0.1:0", [](int, int) {}));
  EXPECT_THAT(words(door_->address()), HasSubstr("Address already in use"));
}

// Calls come in through the door, and say who they are.
class Caught final : public v1::Admin::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_testbed(context->peer());
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::TelemetryEvent>* writer) override {
    writer->Write(v1::TelemetryEvent());
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  }
};

TEST_F(TcpListenerTest, EndsTheConnectionThatGrpcNames) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0", "[::]:0"}) {
    Caught service;
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    const auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    const auto server = builder.BuildAndStart();
    if (!Open(address, [&](int listener, int connection) {
          grpc::experimental::ExternalConnectionAcceptor::
              NewConnectionParameters accepted;
          accepted.listener_fd = listener;
          accepted.fd = connection;
          acceptor->HandleNewConnection(&accepted);
        })) {
      EXPECT_NE(std::string(address), "127.0.0.1:0");
      continue;  // no IPv6 here
    }
    HostPort there = *ReadHostPort(door_->address());
    if (there.host == "::") there.host = "127.0.0.1";
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const auto stub = v1::Admin::NewStub(grpc::CreateCustomChannel(
        there.ToString(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext asking;
    v1::GetStatusResponse caller;
    ASSERT_TRUE(stub->GetStatus(&asking, v1::GetStatusRequest(), &caller).ok());
    grpc::ClientContext watching;
    watching.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(20));
    auto stream = stub->Watch(&watching, v1::WatchRequest());
    v1::TelemetryEvent event;
    ASSERT_TRUE(stream->Read(&event));
    door_->Cut("ipv4:127.0.0.1:1");  // somebody else
    door_->Cut(caller.testbed());
    EXPECT_FALSE(stream->Read(&event));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE)
        << caller.testbed();
    loop_->Stop();
    thread_.join();
    door_.reset();
    server->Shutdown();
    loop_ = *EventLoop::Create();
  }
}

}  // namespace
}  // namespace carillon::gpud
