// Batches, descriptors, frames and datagrams: everything between the NIC and
// the commands themselves.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::Outcome;

MemcServer UdpServer() {
  MemcServer server;
  server.request_flags = 0;
  return server;
}

std::string SetLine(const std::string& key, const std::string& value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\n";
}

// The expected reply to a get of one key.
std::string ValueText(const std::string& key, const std::string& value) {
  return "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" +
         value + "\r\n";
}

TEST(MemcDatagram, ReplyCarriesTheRequestsIdAndNothingElseOfItsFrame) {
  MemcServer server = UdpServer();
  // memcaslap's reserved is 0x0100; sequence is ignored by memcached, too.
  const Answer answer =
      server.Get(Frame(0xabcd, 0x0203, 1, 0x0100, "get k\r\n"));
  ASSERT_EQ(answer.datagrams.size(), 1u);
  EXPECT_EQ(answer.datagrams[0], Frame(0xabcd, 0, 1, 0, "END\r\n"));
  EXPECT_EQ(answer.length, 13u);
}

TEST(MemcDatagram, AnythingButAWholeRequestIsDropped) {
  MemcServer server = UdpServer();
  server.Set(Frame(1, 0, 1, 0, SetLine("k", "x")));
  for (const uint16_t total : {0, 2, 0x0100, 0x0101, 0xffff}) {
    EXPECT_EQ(server.Set(Frame(1, 0, total, 0, "delete k\r\n")).outcome,
              Outcome::kDropped)
        << total;
  }
  const std::string whole = Frame(1, 0, 1, 0, "delete k");
  for (size_t length = 0; length <= whole.size(); ++length) {
    const Answer answer = server.Set(whole.substr(0, length));
    EXPECT_EQ(answer.outcome, Outcome::kDropped) << length;
    EXPECT_TRUE(answer.datagrams.empty());
  }
  EXPECT_EQ(server.Get(Frame(1, 0, 1, 0, "get k\r\n")).Text(false),
            ValueText("k", "x") + "END\r\n");
}

TEST(MemcDatagram, NoreplyAndQuitSendNothing) {
  MemcServer server = UdpServer();
  const Answer answer =
      server.Set(Frame(1, 0, 1, 0, "set k 0 0 1 noreply\r\nx\r\n"));
  EXPECT_EQ(answer.outcome, Outcome::kSilent);
  EXPECT_TRUE(answer.datagrams.empty());
  EXPECT_EQ(server.Set(Frame(1, 0, 1, 0, "quit\r\n")).outcome,
            Outcome::kSilent);
}

TEST(MemcDatagram, RepliesOfEveryLengthAreCutAt1400Bytes) {
  MemcServer server = UdpServer();
  server.stride = 4224;
  // Sizes from well below one full datagram to well beyond two, in single bytes
  // around the cuts.
  std::vector<size_t> sizes;
  for (size_t n = 1300; n < 1420; ++n) sizes.push_back(n);
  for (size_t n = 2700; n < 2800; ++n) sizes.push_back(n);
  for (const size_t size : sizes) {
    std::string value(size, 'v');
    for (size_t i = 0; i < size; ++i)
      value[i] = static_cast<char>('a' + i % 23);
    server.Set(Frame(1, 0, 1, 0, SetLine("key", value)));
    const Answer answer = server.Get(Frame(77, 0, 1, 0, "get key\r\n"));
    const std::string expected = ValueText("key", value) + "END\r\n";
    const size_t datagrams = (expected.size() + 1391) / 1392;
    ASSERT_EQ(answer.datagrams.size(), datagrams) << size;
    for (size_t i = 0; i < datagrams; ++i) {
      EXPECT_EQ(answer.datagrams[i], Frame(77, static_cast<uint16_t>(i),
                                           static_cast<uint16_t>(datagrams), 0,
                                           expected.substr(i * 1392, 1392)))
          << size << " datagram " << i;
    }
    EXPECT_EQ(answer.length, expected.size() + 8 * datagrams);
  }
}

TEST(MemcDatagram, WhatAReplyNeedsIsWhatItTakes) {
  MemcServer server = UdpServer();
  for (size_t size = 0; size < 9000; size += 61) {
    server.stride = 64 * 1024;
    server.Set(Frame(1, 0, 1, 0, SetLine("k", std::string(size, 'v'))));
    const std::string request = Frame(1, 0, 1, 0, "get k k k k k\r\n");
    const Answer whole = server.Get(request);
    ASSERT_EQ(whole.outcome, Outcome::kAnswered);
    server.stride = whole.length / 64 * 64;
    if (server.stride == whole.length || server.stride < 512) continue;
    const Answer refused = server.Get(request);
    ASSERT_EQ(refused.outcome, Outcome::kTooLarge) << size;
    EXPECT_EQ(refused.length, whole.length) << size;
    server.stride = 512;
    EXPECT_EQ(server.Get(request).length, whole.length) << size;
  }
}

TEST(MemcDatagram, GetOfSeveralKeysIsOneMessage) {
  MemcServer server = UdpServer();
  server.stride = 64 * 1024;
  std::string request = "get";
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    const std::string value(static_cast<size_t>(i * 5), 'v');
    request += " " + key;
    if (i % 7 == 3) continue;  // a miss
    server.Set(Frame(1, 0, 1, 0, SetLine(key, value)));
    expected += ValueText(key, value);
  }
  expected += "END\r\n";
  const Answer answer = server.Get(Frame(9, 0, 1, 0, request + "\r\n"));
  EXPECT_EQ(answer.Text(false), expected);
  const size_t total = (expected.size() + 1391) / 1392;
  ASSERT_EQ(answer.datagrams.size(), total);
  for (size_t i = 0; i < total; ++i) {
    EXPECT_EQ(answer.datagrams[i].substr(0, 8),
              Frame(9, static_cast<uint16_t>(i), static_cast<uint16_t>(total),
                    0, ""));
  }
}

TEST(MemcDatagram, ValuesOfOneMebibyteComeBackWholeEitherWay) {
  MemcServer server(64, 100);
  std::string value(memcached::kMaxValueBytes, ' ');
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  const std::string key(250, 'k');
  EXPECT_EQ(server.Say(SetLine(key, value)), "STORED\r\n");
  server.stride = memcached::kLargeReplyStride;
  const std::string expected = ValueText(key, value) + "END\r\n";
  EXPECT_TRUE(server.Get("get " + key + "\r\n").Text() == expected);
  server.request_flags = 0;
  const Answer answer = server.Get(Frame(3, 0, 1, 0, "gets " + key + "\r\n"));
  EXPECT_EQ(answer.datagrams.size(), 754u);
  EXPECT_TRUE(answer.Text(false).ends_with(value + "\r\nEND\r\n"));
  server.request_flags = memcached::kStream;
  EXPECT_EQ(server.Say(SetLine("k", value + "x")),
            "SERVER_ERROR object too large for cache\r\n");
}

TEST(MemcDatagram, AReplyThatDoesNotFitSaysWhatItNeedsAndDoesNothing) {
  for (const uint32_t flags : {0u, uint32_t{memcached::kStream}}) {
    const bool stream = flags != 0;
    const auto framed = [stream](const std::string& text) {
      return stream ? text : Frame(5, 0, 1, 0, text);
    };
    MemcServer server;
    server.request_flags = flags;
    const std::string value(3000, 'v');
    server.Set(framed("set k 0 10 3000\r\n" + value + "\r\n"));
    server.stride = memcached::kSmallReplyStride;
    // "gat" must not move the end of an item that it could not send.
    const Answer refused = server.Get(framed("gat 0 k\r\n"));
    EXPECT_EQ(refused.outcome, Outcome::kTooLarge);
    EXPECT_TRUE(refused.datagrams.empty());
    EXPECT_EQ(refused.hits, 0u);
    const std::string expected = ValueText("k", value) + "END\r\n";
    EXPECT_EQ(
        refused.length,
        expected.size() + (stream ? 0 : 8 * ((expected.size() + 1391) / 1392)));
    const std::string stats = server.Set(framed("stats\r\n")).Text(stream);
    EXPECT_NE(stats.find("STAT get_hits 0\r\n"), std::string::npos);
    EXPECT_NE(stats.find("STAT touch_hits 0\r\n"), std::string::npos);

    // The size that it asked for suffices.
    server.stride = (refused.length + 63) / 64 * 64;
    EXPECT_EQ(server.Get(framed("get k\r\n")).Text(stream), expected);
    server.now_s += 10;
    EXPECT_EQ(server.Get(framed("get k\r\n")).Text(stream), "END\r\n");
  }
}

TEST(MemcDatagram, WithTheLargestStrideTooLargeIsAnError) {
  MemcServer server = UdpServer();
  server.Set(Frame(1, 0, 1, 0, SetLine("k", std::string(3000, 'v'))));
  server.stride = memcached::kSmallReplyStride;
  server.request_flags = memcached::kLargestStride;
  EXPECT_EQ(server.Get(Frame(1, 0, 1, 0, "get k k\r\n")).Text(false),
            "SERVER_ERROR out of memory writing get response\r\n");
}

TEST(MemcDatagram, ARequestForMoreDatagramsThanAFrameCountsIsAnError) {
  MemcServer server = UdpServer();
  server.Set(Frame(1, 0, 1, 0, SetLine("k", std::string(20000, 'v'))));
  // 64 KiB of "get k k k ...": more than 65535 datagrams.
  std::string request = "get";
  for (int i = 0; i < 32000; ++i) request += " k";
  EXPECT_EQ(server.Get(Frame(1, 0, 1, 0, request + "\r\n")).Text(false),
            "SERVER_ERROR out of memory writing get response\r\n");
}

TEST(MemcDatagram, ABatchIsAnsweredRequestByRequestForEveryGridAndBlock) {
  for (const uint32_t block : {1u, 32u, 64u, 512u}) {
    MemcServer server;
    server.block = block;
    std::vector<std::string> sets;
    std::vector<std::string> gets;
    for (int i = 0; i < 512; ++i) {
      const std::string key = "key" + std::to_string(i);
      sets.push_back(SetLine(key, std::to_string(i * i)));
      gets.push_back("get " + key + "\r\n");
    }
    for (const Answer& answer : server.Run(memc_set_info, sets)) {
      EXPECT_EQ(answer.Text(), "STORED\r\n");
    }
    const std::vector<Answer> answers = server.Run(memc_get_info, gets);
    for (int i = 0; i < 512; ++i) {
      EXPECT_EQ(answers[i].Text(),
                ValueText("key" + std::to_string(i), std::to_string(i * i)) +
                    "END\r\n");
    }
  }
}

TEST(MemcDatagram, DescriptorsThatLeaveThePacketsTouchNothing) {
  MemcServer server;
  const std::string packets = "get k\r\n";
  const uint32_t size = static_cast<uint32_t>(packets.size());
  const uint32_t flags = memcached::kStream;
  const std::vector<memcached::Request> requests{
      {0, size, flags, 0},          {0, size + 1, flags, 0},
      {1, size, flags, 0},          {size + 1, 0, flags, 0},
      {0xffffffff, 1, flags, 0},    {0xffffffff, 0xffffffff, flags, 0},
      {1, 0xffffffff, flags, 0},    {0, 0xffffffff, 0, 0},
      {size, 0, flags, 0xffffffff}, {0, size, 0xffffffff, 7},
  };
  const std::vector<Answer> answers =
      server.RunRaw(memc_get_info, packets, requests);
  EXPECT_EQ(answers[0].outcome, Outcome::kAnswered);
  for (size_t i = 1; i < 8; ++i) {
    EXPECT_EQ(answers[i].outcome, Outcome::kBadDescriptor) << i;
  }
  EXPECT_EQ(answers[8].outcome, Outcome::kWrongKernel);
  EXPECT_EQ(answers[9].outcome, Outcome::kAnswered);
}

class MemcArguments : public testing::Test {
 protected:
  MemcArguments()
      : table_(TableBytes(4)),
        store_(StoreBytes(2)),
        replies_(4096),
        requests_(4, {0, 7, memcached::kStream, 0}),
        results_(4) {
    args_.packets = {reinterpret_cast<const uint8_t*>("get k\r\n"), 7};
    args_.requests = simt::ReadOnly(requests_);
    args_.replies = replies_.span();
    args_.results = simt::Writable(results_);
    args_.table = table_.span();
    args_.store = store_.span();
    args_.now_s = 1;
    args_.count = 4;
    args_.reply_stride = 1024;
  }
  uint32_t Run() {
    results_.assign(4, {});
    return simt::RunGrid(memc_get_info, simt::Dim3{1, 1, 1},
                         simt::Dim3{32, 1, 1}, args_)
        .status;
  }
  Outcome OutcomeOf(int i) const { return results_[i].outcome; }

  Memory table_;
  Memory store_;
  Memory replies_;
  std::vector<memcached::Request> requests_;
  std::vector<memcached::Reply> results_;
  MemcArgs args_{};
};

TEST_F(MemcArguments, GoodOnesAreServed) {
  EXPECT_EQ(memc::CheckArgs(args_), nullptr);
  EXPECT_EQ(Run(), 0u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(OutcomeOf(i), Outcome::kAnswered);
}

TEST_F(MemcArguments, UnusableOnesFailTheEvent) {
  const auto refused = [this](auto change) {
    const MemcArgs good = args_;
    change(args_);
    EXPECT_NE(memc::CheckArgs(args_), nullptr);
    EXPECT_EQ(Run(), simt::kFailBadArguments);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(OutcomeOf(i), Outcome::kNone);
    args_ = good;
  };
  refused([](MemcArgs& a) { a.reply_stride = 448; });
  refused([](MemcArgs& a) { a.reply_stride = 1000; });
  refused([](MemcArgs& a) { a.replies.size = uint64_t{1} << 32; });
  refused([](MemcArgs& a) { a.table.size = memc::kMinTableBytes - 1; });
  refused([](MemcArgs& a) { a.table = a.table.sub(64, a.table.size - 64); });
  refused([](MemcArgs& a) { a.store.size = 65536; });
  refused([](MemcArgs& a) { a.store = a.store.sub(8, a.store.size - 8); });
  refused([](MemcArgs& a) { a.table = {}; });
  refused([](MemcArgs& a) { a.store = {}; });
  EXPECT_EQ(Run(), 0u);
}

TEST_F(MemcArguments, RequestsWithoutRoomForTheirReplyAreNotServed) {
  args_.replies.size = 2100;
  EXPECT_EQ(Run(), 0u);
  EXPECT_EQ(OutcomeOf(0), Outcome::kAnswered);
  EXPECT_EQ(OutcomeOf(1), Outcome::kAnswered);
  EXPECT_EQ(OutcomeOf(2), Outcome::kBadDescriptor);
  EXPECT_EQ(OutcomeOf(3), Outcome::kBadDescriptor);
}

TEST_F(MemcArguments, ACountBeyondTheBuffersIsCut) {
  args_.count = 0xffffffff;
  args_.results.size = 3;
  EXPECT_EQ(Run(), 0u);
  EXPECT_EQ(OutcomeOf(2), Outcome::kAnswered);
  EXPECT_EQ(OutcomeOf(3), Outcome::kNone);
  args_.results.size = 4;
  args_.requests.size = 1;
  EXPECT_EQ(Run(), 0u);
  EXPECT_EQ(OutcomeOf(0), Outcome::kAnswered);
  EXPECT_EQ(OutcomeOf(1), Outcome::kNone);
}

}  // namespace
}  // namespace carillon::kernels
