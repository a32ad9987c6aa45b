#include "devices/nic/stream_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "shm/faults/board.h"

namespace carillon::nic {
namespace {

constexpr uint8_t kTag = 7;

class Client {
 public:
  explicit Client(const SocketAddress& server, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer,
                 sizeof(receive_buffer));
    }
    EXPECT_EQ(connect(fd_.get(), server.get(), server.bytes), 0);
  }
  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(fd_.get(), text.data(), text.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent <= 0) break;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    ASSERT_TRUE(text.empty()) << text.size() << " bytes were not taken";
  }
  // What has arrived so far; `closed` is set if the server has hung up.
  std::string Received() {
    std::string chunk(1 << 20, '\0');
    ssize_t bytes;
    while ((bytes = recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT)) >
           0) {
      text_.append(chunk, 0, static_cast<size_t>(bytes));
    }
    reset_ = reset_ || (bytes < 0 && errno == ECONNRESET);
    closed_ = closed_ || bytes == 0 || reset_;
    return text_;
  }
  bool closed() {
    Received();
    return closed_;
  }
  bool reset() const { return reset_; }
  void CloseSending() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::string text_;
  bool closed_ = false;
  bool reset_ = false;
};

class StreamServerTest : public ::testing::Test, protected StreamSink {
 protected:
  void Listen(uint32_t max_connections = 16, uint32_t max_value = 1 << 20) {
    epoll_.reset(epoll_create1(0));
    auto server = StreamServer::Listen(
        *SocketAddress::Parse("127.0.0.1", 0), epoll_.get(), kTag,
        {.max_connections = max_connections, .max_value = max_value}, this);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  void OnStreamRequest(ConnectionIndex connection,
                       std::string_view request) override {
    requests_.push_back({connection, std::string(request)});
  }
  // Runs the server until `done`; returns false if nothing has happened for
  // long.
  bool RunUntil(const std::function<bool()>& done) {
    for (int idle = 0; idle < 500;) {
      if (done()) return true;
      epoll_event events[16];
      const int count = epoll_wait(epoll_.get(), events, 16, 10);
      idle = count == 0 ? idle + 1 : 0;
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(events[i].data.u64 >> 56, kTag);
        server_->OnEvent(events[i].data.u64, events[i].events);
      }
    }
    return false;
  }
  std::pair<ConnectionIndex, std::string> Next() {
    EXPECT_TRUE(RunUntil([this] { return !requests_.empty(); }));
    if (requests_.empty()) return {};
    auto request = requests_.front();
    requests_.pop_front();
    return request;
  }
  void ExpectReceived(Client& client, const std::string& text) {
    RunUntil([&] { return client.Received().size() >= text.size(); });
    const std::string received = client.Received();
    EXPECT_EQ(received.size(), text.size());
    EXPECT_TRUE(received == text) << received.substr(0, 200);
  }

  UniqueFd epoll_;
  std::unique_ptr<StreamServer> server_;
  std::deque<std::pair<ConnectionIndex, std::string>> requests_;
};

class StreamFaultsTest : public StreamServerTest {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    const std::string path = std::string(folder_) + "/board";
    auto board = faults::Board::Create(path);
    ASSERT_TRUE(board.ok()) << board.status();
    board_ = *std::move(board);
    auto member = faults::Member::Join(path, "nic0");
    ASSERT_TRUE(member.ok()) << member.status();
    member_ = *std::move(member);
    Listen();
  }
  void TearDown() override {
    member_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Strike(faults::Point point, faults::Action action, uint64_t nth,
              uint64_t times, uint64_t count = 0) {
    const faults::Fault fault{.name = "f",
                              .point = point,
                              .nth = nth,
                              .times = times,
                              .action = action,
                              .count = count};
    ASSERT_TRUE(board_->Inject({&fault, 1}).ok());
  }
  uint64_t struck() const { return board_->List().at(0).struck; }
  // recv() tells of a reset once, and of a hang-up by 0.
  static bool IsReset(Client& client) {
    client.Received();
    return client.reset();
  }

  char folder_[32] = "/tmp/stream-board-XXXXXX";
  std::unique_ptr<faults::Board> board_;
  std::unique_ptr<faults::Member> member_;
};

TEST_F(StreamFaultsTest, AResetInsteadOfReading) {
  Strike(faults::Point::kNicStreamReceive, faults::Action::kReset, 1, 1);
  Client client(server_->address());
  client.Send("get a\r\n");
  EXPECT_TRUE(RunUntil([&] { return IsReset(client); }));
  EXPECT_TRUE(requests_.empty());
  EXPECT_EQ(server_->counts().open, 0u);
  // The next connection is served.
  Client next(server_->address());
  next.Send("get b\r\n");
  const auto [connection, text] = Next();
  EXPECT_EQ(text, "get b\r\n");
  server_->Reply(connection, "END\r\n", false);
  ExpectReceived(next, "END\r\n");
}

TEST_F(StreamFaultsTest, AResetInsteadOfAReply) {
  Strike(faults::Point::kNicStreamSend, faults::Action::kReset, 2, 1);
  Client client(server_->address());
  client.Send("get a\r\nget b\r\n");
  server_->Reply(Next().first, "END\r\n", false);
  ExpectReceived(client, "END\r\n");
  server_->Reply(Next().first, "END\r\n", false);
  EXPECT_TRUE(RunUntil([&] { return IsReset(client); }));
  EXPECT_EQ(client.Received(), "END\r\n");
  EXPECT_EQ(server_->counts().open, 0u);
}

TEST_F(StreamFaultsTest, ShortReadsAreJoined) {
  Strike(faults::Point::kNicStreamReceive, faults::Action::kShort, 1, 0, 3);
  Client client(server_->address());
  const std::string request = "set b 0 0 3\r\nxyz\r\n";
  client.Send(request);
  const auto [connection, text] = Next();
  EXPECT_EQ(text, request);
  EXPECT_EQ(struck(), (request.size() + 2) / 3);
  server_->Reply(connection, "STORED\r\n", false);
  ExpectReceived(client, "STORED\r\n");
}

TEST_F(StreamFaultsTest, ShortWritesAreContinued) {
  Strike(faults::Point::kNicStreamSend, faults::Action::kShort, 1, 0, 3);
  Client client(server_->address());
  client.Send("get a\r\nget b\r\n");
  const std::string reply = "VALUE a 0 3\r\nxyz\r\nEND\r\n";
  server_->Reply(Next().first, reply, false);
  ExpectReceived(client, reply);
  server_->Reply(Next().first, "END\r\n", false);
  ExpectReceived(client, reply + "END\r\n");
  EXPECT_EQ(struck(), (reply.size() + 2) / 3 + 2);
}

TEST_F(StreamServerTest, PipelinedRequestsAreAnsweredOneByOneInOrder) {
  Listen();
  Client client(server_->address());
  client.Send("get a\r\nset b 0 0 3\r\nxyz\r\nget c\r\n");
  auto [connection, text] = Next();
  EXPECT_EQ(text, "get a\r\n");
  EXPECT_EQ(server_->request(connection), text);
  EXPECT_TRUE(requests_.empty());
  server_->Reply(connection, "END\r\n", false);
  EXPECT_EQ(Next().second, "set b 0 0 3\r\nxyz\r\n");
  server_->Reply(connection, "", false);  // noreply
  EXPECT_EQ(Next().second, "get c\r\n");
  server_->Reply(connection, "X\r\n", false);
  ExpectReceived(client, "END\r\nX\r\n");
  EXPECT_EQ(server_->counts().commands, 3u);
}

TEST_F(StreamServerTest, RequestsOfDifferentConnectionsDoNotWaitForEachOther) {
  Listen();
  Client first(server_->address()), second(server_->address());
  first.Send("get slow\r\n");
  const auto slow = Next();
  second.Send("get fast\r\n");
  const auto fast = Next();
  EXPECT_NE(slow.first, fast.first);
  server_->Reply(fast.first, "fast\r\n", false);
  ExpectReceived(second, "fast\r\n");
  server_->Reply(slow.first, "slow\r\n", false);
  ExpectReceived(first, "slow\r\n");
}

TEST_F(StreamServerTest, QuitClosesAfterTheReply) {
  Listen();
  Client client(server_->address());
  client.Send("quit\r\nget a\r\n");
  server_->Reply(Next().first, "", true);
  EXPECT_TRUE(RunUntil([&] { return client.closed(); }));
  EXPECT_EQ(client.Received(), "");
  EXPECT_TRUE(requests_.empty());
  EXPECT_EQ(server_->counts().open, 0u);
}

TEST_F(StreamServerTest, AnswersWhatWasSentBeforeTheClientStoppedSending) {
  Listen();
  Client client(server_->address());
  client.Send("get a\r\nget b\r\nget c");
  client.CloseSending();
  server_->Reply(Next().first, "A", false);
  server_->Reply(Next().first, "B", false);
  EXPECT_TRUE(RunUntil([&] { return client.closed(); }));
  EXPECT_EQ(client.Received(), "AB");
}

TEST_F(StreamServerTest, KeepsARequestWhoseConnectionIsGoneUntilItsReply) {
  Listen(/*max_connections=*/2);
  {
    Client client(server_->address());
    client.Send("set k 0 0 3\r\nabc\r\nget x\r\n");
    client.CloseSending();
    ASSERT_TRUE(RunUntil([this] { return !requests_.empty(); }));
  }
  const auto [connection, text] = Next();
  // No other connection gets its place meanwhile.
  Client other(server_->address());
  other.Send("get other\r\n");
  const auto next = Next();
  EXPECT_NE(next.first, connection);
  EXPECT_EQ(server_->request(connection), text);
  server_->Reply(connection, "STORED\r\n", false);
  server_->Reply(next.first, "END\r\n", false);
  ExpectReceived(other, "END\r\n");
}

TEST_F(StreamServerTest, RefusesConnectionsOverTheLimit) {
  Listen(/*max_connections=*/2);
  Client a(server_->address()), b(server_->address());
  ASSERT_TRUE(RunUntil([this] { return server_->counts().open == 2; }));
  Client c(server_->address());
  EXPECT_TRUE(RunUntil([&] { return c.closed(); }));
  EXPECT_EQ(c.Received(), "ERROR Too many open connections\r\n");
  EXPECT_EQ(server_->counts().refused, 1u);
  a.Close();
  ASSERT_TRUE(RunUntil([this] { return server_->counts().open == 1; }));
  Client d(server_->address());
  d.Send("get d\r\n");
  EXPECT_EQ(Next().second, "get d\r\n");
}

TEST_F(StreamServerTest, SurvivesTheEndOfDescriptors) {
  Listen();
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  Client a(server_->address()), b(server_->address());
  UniqueFd probe(dup(epoll_.get()));
  const auto next_fd = static_cast<rlim_t>(probe.get());
  probe.reset();
  const rlimit tight = {next_fd + 1, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  EXPECT_TRUE(RunUntil([this] {
    return server_->counts().open + server_->counts().refused == 2;
  }));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(server_->counts().refused, 1u);
  Client c(server_->address());
  c.Send("get c\r\n");
  EXPECT_EQ(Next().second, "get c\r\n");
}

TEST_F(StreamServerTest, ASlowReaderHoldsNobodyUpAndOneReplyAtMost) {
  Listen();
  Client slow(server_->address(), /*receive_buffer=*/4096);
  const std::string reply(4 << 20, 'r');
  std::string many;
  for (int i = 0; i < 10; ++i) many += "get k\r\n";
  slow.Send(many);
  const auto first = Next();
  server_->Reply(first.first, reply, false);
  // Its next request waits until the reply has been read.
  Client quick(server_->address());
  quick.Send("get q\r\n");
  const auto next = Next();
  EXPECT_EQ(next.second, "get q\r\n");
  server_->Reply(next.first, "END\r\n", false);
  ExpectReceived(quick, "END\r\n");
  EXPECT_TRUE(requests_.empty());
  size_t bytes = reply.size();
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(RunUntil(
        [&] { return slow.Received().size() == bytes && !requests_.empty(); }));
    server_->Reply(Next().first, "END\r\n", false);
    bytes += 5;
  }
  EXPECT_TRUE(RunUntil([&] { return slow.Received().size() == bytes; }));
}

TEST_F(StreamServerTest, TakesValuesOfAMegabyteInPieces) {
  Listen();
  Client client(server_->address());
  std::string request = "set k 0 0 1048576\r\n";
  for (int i = 0; i < 1 << 20; ++i) request += static_cast<char>(i * 31 >> 3);
  request += "\r\n";
  size_t at = 0;
  while (at < request.size()) {
    const size_t piece =
        std::min<size_t>(10000 + at % 777, request.size() - at);
    client.Send(request.substr(at, piece));
    at += piece;
    RunUntil([] { return true; });
    epoll_event events[4];
    const int count = epoll_wait(epoll_.get(), events, 4, 0);
    for (int i = 0; i < count; ++i) {
      server_->OnEvent(events[i].data.u64, events[i].events);
    }
  }
  const auto [connection, text] = Next();
  EXPECT_TRUE(text == request);
  server_->Reply(connection, "STORED\r\n", false);
  ExpectReceived(client, "STORED\r\n");
}

TEST_F(StreamServerTest, AGetThatFitsNowhereIsAskedInPieces) {
  Listen();
  Client client(server_->address());
  client.Send("get a b c\r\nget z\r\n");
  const auto [connection, text] = Next();
  EXPECT_EQ(text, "get a b c\r\n");
  EXPECT_TRUE(server_->ReplyTooLarge(connection));
  EXPECT_EQ(Next().second, "get a\r\n");
  EXPECT_EQ(server_->request(connection), "get a\r\n");
  server_->Reply(connection, "VALUE a\r\nEND\r\n", false);
  EXPECT_EQ(Next().second, "get b\r\n");
  EXPECT_FALSE(server_->ReplyTooLarge(connection));
  server_->Reply(connection, "VALUE b\r\nEND\r\n", false);
  EXPECT_EQ(Next().second, "get c\r\n");
  server_->Reply(connection, "END\r\n", false);
  EXPECT_EQ(Next().second, "get z\r\n");
  EXPECT_FALSE(server_->ReplyTooLarge(connection));
  server_->Reply(connection, "END\r\n", false);
  ExpectReceived(client, "VALUE a\r\nVALUE b\r\nEND\r\nEND\r\n");
}

TEST_F(StreamServerTest, ALongGetLineIsAskedInPiecesThatFitABuffer) {
  Listen();
  Client client(server_->address());
  std::string line = "gets";
  for (int i = 0; i < 1000; ++i) line += " a-key-of-" + std::to_string(i);
  client.Send(line + "\r\n");
  std::string keys, expected;
  ConnectionIndex connection = 0;
  int pieces = 0;
  while (keys.size() < line.size() - 4) {
    const auto next = Next();
    connection = next.first;
    ASSERT_LE(next.second.size(), kPacketBytes);
    ASSERT_GT(next.second.size(), 6u);
    keys += next.second.substr(4, next.second.size() - 6);
    const std::string value = "VALUE " + std::to_string(++pieces) + "\r\n";
    expected += value;
    server_->Reply(connection, value + "END\r\n", false);
  }
  EXPECT_EQ(keys, line.substr(4));
  ExpectReceived(client, expected + "END\r\n");
}

TEST_F(StreamServerTest, AnErrorInAPieceEndsTheGet) {
  Listen();
  Client client(server_->address());
  client.Send("get a b\r\nget z\r\n");
  const ConnectionIndex connection = Next().first;
  EXPECT_TRUE(server_->ReplyTooLarge(connection));
  EXPECT_EQ(Next().second, "get a\r\n");
  server_->Reply(connection, "SERVER_ERROR event failed (status 9)\r\n", false);
  EXPECT_EQ(Next().second, "get z\r\n");
  server_->Reply(connection, "END\r\n", false);
  ExpectReceived(client, "SERVER_ERROR event failed (status 9)\r\nEND\r\n");
}

TEST_F(StreamServerTest, StopsReadingFromAClientThatSendsTooFarAhead) {
  Listen();
  Client client(server_->address());
  const std::string burst(1000, '\n');
  std::string sent;
  client.Send("get a\r\n");
  const ConnectionIndex connection = Next().first;
  // Far more than is read ahead: the rest stays in the kernel's buffers.
  for (int i = 0; i < 400; ++i) {
    client.Send(burst);
    epoll_event events[4];
    const int count = epoll_wait(epoll_.get(), events, 4, 0);
    for (int k = 0; k < count; ++k) {
      server_->OnEvent(events[k].data.u64, events[k].events);
    }
  }
  epoll_event event;
  EXPECT_EQ(epoll_wait(epoll_.get(), &event, 1, 0), 0) << "still reading";
  size_t lines = 0;
  server_->Reply(connection, "x", false);
  while (lines < 400'000) {
    ASSERT_EQ(Next().second, "\n");
    server_->Reply(connection, "", false);
    ++lines;
  }
}

TEST_F(StreamServerTest, GarbageCostsItsConnectionAlone) {
  Listen();
  Client good(server_->address());
  {
    Client bad(server_->address());
    bad.Send(std::string(5000, 'x'));
    EXPECT_TRUE(RunUntil([&] { return bad.closed(); }));
    Client binary(server_->address());
    binary.Send(std::string("\x80\0\0\0", 4));
    EXPECT_TRUE(RunUntil([&] { return binary.closed(); }));
  }
  good.Send("get a\r\n");
  server_->Reply(Next().first, "END\r\n", false);
  ExpectReceived(good, "END\r\n");
  EXPECT_EQ(server_->counts().open, 1u);
}

TEST(StreamServer, APortInUseIsOneClearError) {
  struct : StreamSink {
    void OnStreamRequest(ConnectionIndex, std::string_view) override {}
  } sink;
  UniqueFd epoll(epoll_create1(0));
  auto first = StreamServer::Listen(*SocketAddress::Parse("127.0.0.1", 0),
                                    epoll.get(), kTag, {}, &sink);
  ASSERT_TRUE(first.ok());
  auto second =
      StreamServer::Listen((*first)->address(), epoll.get(), kTag, {}, &sink);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(second.status().message().find(
                std::to_string((*first)->address().port())),
            std::string::npos);
}

}  // namespace
}  // namespace carillon::nic
