#include "tools/testbed/load/memc_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "tools/testbed/load/key_choice.h"

namespace carillon::testbed {
namespace {

using std::chrono::milliseconds;

// A memcached with two commands, whose replies a test can spoil.
class Server {
 public:
  // Returns the datagrams that replace the reply with this number.
  using Spoil = std::function<std::vector<std::string>(int, std::string)>;

  explicit Server(Spoil spoil = nullptr) : spoil_(std::move(spoil)) {
    fd_.reset(socket(AF_INET, SOCK_DGRAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~Server() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return port_; }
  void SpoilReplies() { spoiling_ = true; }

 private:
  void Run() {
    while (!stop_) {
      pollfd ready = {fd_.get(), POLLIN, 0};
      if (poll(&ready, 1, 10) <= 0) continue;
      std::string request(2048, '\0');
      sockaddr_in peer{};
      socklen_t bytes = sizeof(peer);
      const ssize_t got = recvfrom(fd_.get(), request.data(), request.size(), 0,
                                   reinterpret_cast<sockaddr*>(&peer), &bytes);
      request.resize(static_cast<size_t>(got));
      std::vector<std::string> replies = {Answer(request)};
      if (spoiling_ && spoil_) replies = spoil_(number_++, replies[0]);
      for (const std::string& reply : replies) {
        sendto(fd_.get(), reply.data(), reply.size(), 0,
               reinterpret_cast<sockaddr*>(&peer), bytes);
      }
    }
  }
  std::string Answer(const std::string& request) {
    const std::string frame = request.substr(0, 8);
    const std::string text = request.substr(8);
    const size_t line = text.find("\r\n");
    const std::string key = text.substr(4, text.find_first_of(" \r", 4) - 4);
    if (text.starts_with("set ")) {
      values_[key] = text.substr(line + 2, text.size() - line - 4);
      return frame + "STORED\r\n";
    }
    if (!values_.contains(key)) return frame + "END\r\n";
    const std::string& value = values_[key];
    return frame + "VALUE " + key + " 0 " + std::to_string(value.size()) +
           "\r\n" + value + "\r\nEND\r\n";
  }

  const Spoil spoil_;
  UniqueFd fd_;
  uint16_t port_ = 0;
  std::map<std::string, std::string> values_;
  int number_ = 0;
  std::atomic<bool> spoiling_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Workload Small() {
  Workload workload;
  workload.keys = 50;
  workload.window = 8;
  workload.timeout = milliseconds(100);
  return workload;
}

std::unique_ptr<MemcClient> Connect(const Server& server,
                                    const Workload& workload) {
  auto client = MemcClient::Connect("127.0.0.1", server.port(), workload);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST(MemcClient, AGoodServerHasOnlyGoodReplies) {
  Server server;
  for (const uint32_t window : {1u, 8u, 100u}) {
    Workload workload = Small();
    workload.window = window;
    workload.get_share = 0.8;
    workload.value_bytes = 300;
    auto client = Connect(server, workload);
    ASSERT_TRUE(client->WarmByUdp().ok());
    LoadResult result;
    client->Run(milliseconds(100), &result);
    EXPECT_GT(result.gets, 0u);
    EXPECT_GT(result.sets, 0u);
    EXPECT_EQ(result.replies, result.gets + result.sets);
    EXPECT_EQ(result.latency.count(), result.replies);
    EXPECT_EQ(result.misses + result.bad, 0u);
  }
}

TEST(MemcClient, OneWrongByteIsFound) {
  Server server([](int number, std::string reply) {
    if (number % 10 == 0) {
      // Behind the id, because the id decides whose reply it is.
      reply[2 + static_cast<size_t>(number / 10) % (reply.size() - 2)] ^= 4;
    }
    return std::vector<std::string>{reply};
  });
  auto client = Connect(server, Small());
  ASSERT_TRUE(client->WarmByUdp().ok());
  server.SpoilReplies();
  LoadResult result;
  client->Run(milliseconds(200), &result);
  EXPECT_GT(result.bad, 0u);
  EXPECT_GT(result.replies, result.bad);
}

TEST(MemcClient, RepliesThatAreTooShortOrTooLongAreBad) {
  for (const int change : {-1, 1}) {
    Server server([change](int, std::string reply) {
      reply.resize(
          static_cast<size_t>(static_cast<int>(reply.size()) + change));
      return std::vector<std::string>{reply};
    });
    auto client = Connect(server, Small());
    ASSERT_TRUE(client->WarmByUdp().ok());
    server.SpoilReplies();
    LoadResult result;
    client->Run(milliseconds(50), &result);
    EXPECT_GT(result.bad, 0u);
    EXPECT_EQ(result.replies, 0u);
  }
}

TEST(MemcClient, ALostReplyIsCountedAndItsPlaceUsedAgain) {
  Server server([](int number, std::string reply) {
    return number % 20 == 0 ? std::vector<std::string>{}
                            : std::vector<std::string>{reply};
  });
  auto client = Connect(server, Small());
  ASSERT_TRUE(client->WarmByUdp().ok());
  server.SpoilReplies();
  LoadResult result;
  client->Run(milliseconds(400), &result);
  EXPECT_GT(result.lost, 0u);
  EXPECT_GT(result.replies, result.lost);
  EXPECT_EQ(result.bad, 0u);
}

TEST(MemcClient, AReplyThatComesTwiceIsLateNotBad) {
  Server server([](int, std::string reply) {
    return std::vector<std::string>{reply, reply};
  });
  auto client = Connect(server, Small());
  ASSERT_TRUE(client->WarmByUdp().ok());
  server.SpoilReplies();
  LoadResult result;
  client->Run(milliseconds(50), &result);
  EXPECT_GT(result.late, 0u);
  EXPECT_EQ(result.bad, 0u);
}

TEST(MemcClient, UnknownKeysAreMisses) {
  Server server;
  auto client = Connect(server, Small());
  LoadResult result;
  client->Run(milliseconds(50), &result);
  EXPECT_GT(result.misses, 0u);
  EXPECT_EQ(result.misses, result.gets);
  EXPECT_EQ(result.bad, 0u);
}

TEST(MemcClient, AServerThatAnswersWronglyCannotBeWarmed) {
  Server server([](int, std::string reply) {
    return std::vector<std::string>{reply.substr(0, 8) + "SERVER_ERROR x\r\n"};
  });
  server.SpoilReplies();
  auto client = Connect(server, Small());
  const absl::Status status = client->WarmByUdp();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(status.message()).find("SERVER_ERROR x"),
            std::string::npos);
}

TEST(KeyChoice, UniformDrawsAllKeysAboutAlike) {
  KeyChoice choice(100, 0, 1);
  std::vector<int> count(100);
  for (int i = 0; i < 100'000; ++i) ++count[choice.Next()];
  for (const int n : count) {
    EXPECT_GT(n, 700);
    EXPECT_LT(n, 1300);
  }
}

TEST(KeyChoice, ZipfDrawsByRank) {
  KeyChoice choice(1000, 0.99, 1);
  std::vector<int> count(1000);
  for (int i = 0; i < 1'000'000; ++i) ++count[choice.Next()];
  std::sort(count.rbegin(), count.rend());
  // p(rank) ~ rank^-0.99: the first is 2^0.99 times as popular as the second.
  EXPECT_NEAR(static_cast<double>(count[0]) / count[1], 1.986, 0.06);
  EXPECT_NEAR(static_cast<double>(count[0]) / count[9], 9.77, 0.6);
}

}  // namespace
}  // namespace carillon::testbed
