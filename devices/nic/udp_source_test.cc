#include "devices/nic/udp_source.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "shm/faults/board.h"

namespace carillon::nic {
namespace {

using Strings = std::vector<std::string>;

// A peer's socket.
class Client {
 public:
  explicit Client(const SocketAddress& server)
      : fd_(socket(server.storage.ss_family, SOCK_DGRAM, 0)) {
    EXPECT_EQ(connect(fd_.get(), server.get(), server.bytes), 0);
  }
  void Send(std::string_view text) {
    ASSERT_EQ(send(fd_.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
  }
  // The datagrams that arrived, `count` at least.
  Strings Receive(size_t count) {
    Strings out;
    pollfd ready = {fd_.get(), POLLIN, 0};
    while (out.size() < count && poll(&ready, 1, 5000) == 1) {
      std::string text(70000, '\0');
      const ssize_t bytes = recv(fd_.get(), text.data(), text.size(), 0);
      text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
      out.push_back(text);
    }
    return out;
  }
  bool Silent() {
    pollfd ready = {fd_.get(), POLLIN, 0};
    return poll(&ready, 1, 0) == 0;
  }

 private:
  UniqueFd fd_;
};

class UdpSourceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Open(uint32_t buffers, const UdpSource::Options& options = {}) {
    source_.reset();
    memory_.resize(size_t{buffers} * kPacketBytes);
    pool_ = std::make_unique<PacketPool>(memory_);
    auto address = SocketAddress::Parse(GetParam(), 0);
    ASSERT_TRUE(address.ok());
    auto source = UdpSource::Open(*address, pool_.get(), options);
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = std::move(*source);
  }
  // Loopback delivers before send() returns, so one round is enough.
  std::vector<Packet> ReceiveAll() {
    std::vector<Packet> packets;
    while (source_->Receive(&packets)) {
    }
    return packets;
  }
  std::string Text(const Packet& packet) {
    return std::string(pool_->Whole(packet.buffer, packet.length));
  }
  static ReplyDatagram Reply(const Packet& packet, const std::string& text) {
    return {packet.buffer, reinterpret_cast<const std::byte*>(text.data()),
            static_cast<uint32_t>(text.size())};
  }

  std::vector<std::byte> memory_;
  std::unique_ptr<PacketPool> pool_;
  std::unique_ptr<UdpSource> source_;
};

INSTANTIATE_TEST_SUITE_P(Families, UdpSourceTest,
                         ::testing::Values("127.0.0.1", "::1"),
                         [](const auto& info) {
                           return info.index == 0 ? "IPv4" : "IPv6";
                         });

TEST_P(UdpSourceTest, PutsDatagramsIntoPoolBuffers) {
  Open(200);
  Client client(source_->address());
  Strings sent;
  for (int i = 0; i < 100; ++i) {
    sent.push_back("packet " + std::to_string(i) + std::string(i * 20, 'x'));
    client.Send(sent.back());
  }
  const auto packets = ReceiveAll();
  ASSERT_EQ(packets.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(Text(packets[i]), sent[i]);
  EXPECT_EQ(source_->counts().no_buffer, 0u);
}

TEST_P(UdpSourceTest, KeepsDatagramsOfAnyLength) {
  Open(100);
  Client client(source_->address());
  Strings sent = {"first", "", "last"};
  for (const size_t length : {kPacketBytes - 1, kPacketBytes, kPacketBytes + 1,
                              9000u, 60000u, kMaxDatagramBytes}) {
    std::string& text = sent.emplace_back();
    for (size_t i = 0; i < length; ++i) {
      text += static_cast<char>('a' + i * 7 % 26 + length % 3);
    }
  }
  for (const std::string& text : sent) client.Send(text);
  const auto packets = ReceiveAll();
  ASSERT_EQ(packets.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(packets[i].length, sent[i].size());
    EXPECT_EQ(Text(packets[i]), sent[i]);
  }
  EXPECT_EQ(source_->counts().oversized, 0u);
}

TEST_P(UdpSourceTest, DropsAndCountsLongDatagramsWhenTooManyWait) {
  Open(100);
  Client client(source_->address());
  Strings sent;
  std::vector<Packet> packets;
  for (size_t i = 0; i < PacketPool::kMaxLong + 3; ++i) {
    client.Send(std::to_string(i) + std::string(kPacketBytes, 'x'));
    for (const Packet& packet : ReceiveAll()) packets.push_back(packet);
  }
  client.Send("short");
  for (const Packet& packet : ReceiveAll()) packets.push_back(packet);
  ASSERT_EQ(packets.size(), PacketPool::kMaxLong + 1);
  EXPECT_EQ(Text(packets.back()), "short");
  EXPECT_EQ(source_->counts().oversized, 3u);
  // One that was given back makes room for another.
  EXPECT_TRUE(pool_->Give(packets[0].buffer));
  client.Send(std::string(5000, 'y'));
  const auto next = ReceiveAll();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(Text(next[0]), std::string(5000, 'y'));
}

TEST_P(UdpSourceTest, DropsAndCountsWhenAllBuffersAreInUse) {
  Open(70);
  Client client(source_->address());
  for (int i = 0; i < 100; ++i) client.Send("a" + std::to_string(i));
  auto packets = ReceiveAll();
  ASSERT_EQ(packets.size(), 70u);
  EXPECT_EQ(source_->counts().no_buffer, 30u);
  for (size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(Text(packets[i]), "a" + std::to_string(i));
  }
  // Buffers that come back are used again.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool_->Give(packets[static_cast<size_t>(i) * 7].buffer));
  }
  for (int i = 0; i < 5; ++i) client.Send("b" + std::to_string(i));
  packets = ReceiveAll();
  ASSERT_EQ(packets.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Text(packets[i]), "b" + std::to_string(i));
  }
  EXPECT_EQ(source_->counts().no_buffer, 32u);
}

TEST_P(UdpSourceTest, GivesItsBuffersBackWhenItCloses) {
  Open(90);
  EXPECT_TRUE(ReceiveAll().empty());
  EXPECT_LT(pool_->free(), 90u);
  source_.reset();
  EXPECT_EQ(pool_->free(), 90u);
}

TEST_P(UdpSourceTest, RepliesReachTheirSendersWholeAndInOrder) {
  for (const bool segmentation : {true, false}) {
    Open(2000, {.segmentation = segmentation});
    EXPECT_TRUE(segmentation || !source_->segmentation());
    std::vector<Client> clients;
    for (int i = 0; i < 9; ++i) clients.emplace_back(source_->address());
    // Lengths that form runs, grow, shrink, and alternate.
    std::vector<size_t> lengths;
    for (int i = 0; i < 150; ++i) lengths.push_back(45);
    for (size_t n : {46, 45, 44, 45, 45, 13, 1400, 1400, 9, 1400}) {
      lengths.push_back(n);
    }
    for (int i = 0; i < 40; ++i) lengths.push_back(i % 3 == 0 ? 60 : 45);
    std::map<size_t, Strings> expected;
    Strings texts;
    std::vector<Packet> packets;
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (size_t c = 0; c < clients.size(); ++c) {
        if (c > 0 && i % (c + 1) != 0) continue;
        clients[c].Send(std::to_string(c));
        std::string text = std::to_string(c) + "/" + std::to_string(i) + "/";
        text.resize(std::max(lengths[i], text.size()), 'r');
        expected[c].push_back(text);
        texts.push_back(std::move(text));
      }
    }
    packets = ReceiveAll();
    ASSERT_EQ(packets.size(), texts.size());
    std::vector<ReplyDatagram> replies;
    for (size_t i = 0; i < packets.size(); ++i) {
      replies.push_back(Reply(packets[i], texts[i]));
    }
    source_->Send(replies);
    for (size_t c = 0; c < clients.size(); ++c) {
      EXPECT_EQ(clients[c].Receive(expected[c].size()), expected[c]);
      EXPECT_TRUE(clients[c].Silent());
    }
    EXPECT_EQ(source_->counts().datagrams_sent, texts.size());
    EXPECT_EQ(source_->counts().send_failed, 0u);
  }
}

TEST_P(UdpSourceTest, RepliesOfOneLengthToOneSenderCostOneCall) {
  Open(100);
  if (!source_->segmentation()) GTEST_SKIP() << "no UDP_SEGMENT here";
  Client client(source_->address());
  for (int i = 0; i < 32; ++i) client.Send("x");
  const auto packets = ReceiveAll();
  const std::string text(45, 'r');
  std::vector<ReplyDatagram> replies;
  for (const Packet& packet : packets) replies.push_back(Reply(packet, text));
  source_->Send(replies);
  EXPECT_EQ(client.Receive(32), Strings(32, text));
  EXPECT_EQ(source_->counts().send_calls, 1u);
  EXPECT_TRUE(source_->segmentation());
}

TEST_P(UdpSourceTest, AnUnreachableSenderCostsOnlyItsOwnReplies) {
  Open(100);
  Client good(source_->address());
  {
    Client gone(source_->address());
    gone.Send("x");
    gone.Send("x");
  }
  good.Send("x");
  const auto packets = ReceiveAll();
  ASSERT_EQ(packets.size(), 3u);
  const std::string text(45, 'r');
  for (int round = 0; round < 3; ++round) {
    std::vector<ReplyDatagram> replies;
    for (const Packet& packet : packets) replies.push_back(Reply(packet, text));
    source_->Send(replies);
    EXPECT_EQ(good.Receive(1), Strings{text});
  }
}

// --- Injected faults.

class LinkFaultsTest : public UdpSourceTest {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/board";
    unlink(path_.c_str());
    auto board = faults::Board::Create(path_);
    ASSERT_TRUE(board.ok()) << board.status();
    board_ = *std::move(board);
    auto member = faults::Member::Join(path_, "nic0");
    ASSERT_TRUE(member.ok()) << member.status();
    member_ = *std::move(member);
    Open(100);
    client_.emplace(source_->address());
  }
  void Strike(faults::Point point, faults::Action action,
              const std::string& bytes = "") {
    const faults::Fault fault{.name = "f",
                              .point = point,
                              .nth = 2,
                              .action = action,
                              .bytes = bytes};
    ASSERT_TRUE(board_->Inject({&fault, 1}).ok());
  }
  // The peer receives some of "one", "two", "three".
  Strings Received() {
    for (const char* text : {"one", "two", "three"}) client_->Send(text);
    Strings texts;
    for (const Packet& packet : ReceiveAll()) {
      texts.push_back(Text(packet));
      pool_->Give(packet.buffer);
    }
    return texts;
  }
  Strings Sent(size_t count) {
    client_->Send("request");
    const auto packets = ReceiveAll();
    const Strings texts = {"one", "two", "three"};
    std::vector<ReplyDatagram> replies;
    for (const auto& text : texts) replies.push_back(Reply(packets[0], text));
    source_->Send(replies);
    Strings received = client_->Receive(count);
    EXPECT_TRUE(client_->Silent());
    EXPECT_EQ(texts[1], "two");  // what was sent is not written to
    return received;
  }

  std::string path_;
  std::unique_ptr<faults::Board> board_;
  std::unique_ptr<faults::Member> member_;
  std::optional<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Families, LinkFaultsTest,
                         ::testing::Values("127.0.0.1"));

TEST_P(LinkFaultsTest, ReceiveLoses) {
  Strike(faults::Point::kNicReceive, faults::Action::kLose);
  EXPECT_EQ(Received(), (Strings{"one", "three"}));
}
TEST_P(LinkFaultsTest, ReceiveDoubles) {
  Strike(faults::Point::kNicReceive, faults::Action::kDouble);
  EXPECT_EQ(Received(), (Strings{"one", "two", "two", "three"}));
}
TEST_P(LinkFaultsTest, ReceiveReorders) {
  Strike(faults::Point::kNicReceive, faults::Action::kReorder);
  EXPECT_EQ(Received(), (Strings{"one", "three", "two"}));
}
TEST_P(LinkFaultsTest, ReceiveHoldsALastOneForTheNext) {
  Strike(faults::Point::kNicReceive, faults::Action::kReorder);
  client_->Send("one");
  client_->Send("two");
  EXPECT_EQ(ReceiveAll().size(), 1u);
  EXPECT_EQ(Received(), (Strings{"one", "two", "two", "three"}));
}
TEST_P(LinkFaultsTest, ReceiveCorrupts) {
  Strike(faults::Point::kNicReceive, faults::Action::kCorrupt, "TW");
  EXPECT_EQ(Received(), (Strings{"one", "TWo", "three"}));
}
TEST_P(LinkFaultsTest, ReceiveCorruptsALongOneInAllThatIsKept) {
  Strike(faults::Point::kNicReceive, faults::Action::kCorrupt, "TW");
  client_->Send("one");
  const std::string rest(5000, 'x');
  client_->Send("two" + rest);
  const auto packets = ReceiveAll();
  ASSERT_EQ(packets.size(), 2u);
  EXPECT_EQ(Text(packets[1]), "TWo" + rest);
  EXPECT_EQ(TextOf(pool_->bytes(packets[1].buffer)).substr(0, 4), "TWox");
}
TEST_P(LinkFaultsTest, SendLoses) {
  Strike(faults::Point::kNicSend, faults::Action::kLose);
  EXPECT_EQ(Sent(2), (Strings{"one", "three"}));
}
TEST_P(LinkFaultsTest, SendDoubles) {
  Strike(faults::Point::kNicSend, faults::Action::kDouble);
  EXPECT_EQ(Sent(4), (Strings{"one", "two", "two", "three"}));
}
TEST_P(LinkFaultsTest, SendReorders) {
  Strike(faults::Point::kNicSend, faults::Action::kReorder);
  EXPECT_EQ(Sent(3), (Strings{"one", "three", "two"}));
}
TEST_P(LinkFaultsTest, SendCorrupts) {
  Strike(faults::Point::kNicSend, faults::Action::kCorrupt, "TW");
  EXPECT_EQ(Sent(3), (Strings{"one", "TWo", "three"}));
}
TEST_P(LinkFaultsTest, NoBufferIsLost) {
  for (const auto point :
       {faults::Point::kNicReceive, faults::Point::kNicSend}) {
    for (const auto action :
         {faults::Action::kLose, faults::Action::kDouble,
          faults::Action::kReorder, faults::Action::kCorrupt}) {
      Strike(point, action);
      for (int i = 0; i < 3; ++i) Received();
      ASSERT_TRUE(board_->Clear("f").ok());
    }
  }
  source_.reset();
  std::vector<BufferIndex> all;
  while (const auto buffer = pool_->Take()) all.push_back(*buffer);
  EXPECT_EQ(all.size(), 100u);
}

TEST(UdpSource, TwoSourcesOnOnePortAreOneClearError) {
  std::vector<std::byte> memory(10 * kPacketBytes);
  PacketPool pool(memory);
  auto first =
      UdpSource::Open(*SocketAddress::Parse("127.0.0.1", 0), &pool, {});
  ASSERT_TRUE(first.ok());
  auto second = UdpSource::Open((*first)->address(), &pool, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(second.status().message().find(
                std::to_string((*first)->address().port())),
            std::string::npos);
}

TEST(SocketAddress, ParsesNumericAddressesOnly) {
  EXPECT_EQ(SocketAddress::Parse("127.0.0.1", 80)->ToString(), "127.0.0.1:80");
  EXPECT_EQ(SocketAddress::Parse("::1", 80)->ToString(), "[::1]:80");
  for (const char* bad : {"", "localhost", "127.0.0", "1.2.3.4:5", "[::1]"}) {
    EXPECT_EQ(SocketAddress::Parse(bad, 80).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

}  // namespace
}  // namespace carillon::nic
