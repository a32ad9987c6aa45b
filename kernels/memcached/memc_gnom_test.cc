// memc_gnom_get: frames in, frames out. What it says is held against memc_get,
// whose answers are memcached's.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/memcached/gnom_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::GnomVerdict;

std::string SetLine(const std::string& key, const std::string& value,
                    uint32_t flags = 0) {
  return "set " + key + " " + std::to_string(flags) + " 0 " +
         std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

TEST(MemcGnom, AnswersEveryKeyAndValueAsMemcGetDoes) {
  GnomServer server;
  std::mt19937 random(1);
  std::vector<std::string> requests;
  for (uint32_t key_bytes = 1; key_bytes <= 250; ++key_bytes) {
    std::string key(key_bytes, ' ');
    for (char& c : key) c = static_cast<char>('!' + random() % 200);
    for (char& c : key) {
      if (c == 127) c = 'x';
    }
    // Around the ends of a row and of a reply's room.
    const uint32_t value_bytes =
        key_bytes % 3 == 0 ? random() % 12 : 200 + random() % 240;
    if (key_bytes % 5 != 0) {
      server.Say(SetLine(key, std::string(value_bytes, 'v'),
                         key_bytes % 2 == 0 ? 0 : random()));
    }
    requests.push_back("get " + key + (key_bytes % 7 == 0 ? "\n" : "\r\n"));
  }
  std::vector<std::string> frames;
  for (uint32_t i = 0; i < requests.size(); ++i) {
    frames.push_back(
        RequestFrame({.from_port = 1 + i * 7, .id = i * 261}, requests[i]));
  }
  const std::vector<GnomAnswer> answers = server.Answer(frames);
  uint32_t hits = 0;
  uint32_t too_large = 0;
  for (uint32_t i = 0; i < requests.size(); ++i) {
    const std::string text = server.Get(requests[i]).Text();
    if (text.size() > memcached::kGnomReplyBytes - memcached::kGrxbText) {
      EXPECT_EQ(answers[i].verdict, GnomVerdict::kTooLarge) << i;
      EXPECT_EQ(answers[i].frame, "");
      ++too_large;
      continue;
    }
    ASSERT_EQ(answers[i].verdict, GnomVerdict::kAnswered) << i;
    EXPECT_EQ(answers[i].frame,
              ReplyFrame({.from_port = 1 + i * 7, .id = i * 261}, text))
        << i;
    EXPECT_EQ(answers[i].hit, text != "END\r\n");
    hits += answers[i].hit;
  }
  EXPECT_GT(hits, 100u);
  EXPECT_GT(too_large, 10u);
}

struct BadFrame {
  const char* what;
  GnomVerdict verdict;
  std::string frame;
};

std::vector<BadFrame> BadFrames() {
  const std::string get = "get key\r\n";
  const auto with = [&](const FrameSpec& spec) {
    return RequestFrame(spec, get);
  };
  const auto damaged = [&](size_t at) {
    std::string frame = with({});
    frame[at] = static_cast<char>(frame[at] ^ 0x10);
    return frame;
  };
  using enum GnomVerdict;
  std::vector<BadFrame> frames = {
      {"nothing", kTruncated, ""},
      {"13 bytes", kTruncated, with({}).substr(0, 13)},
      {"an Ethernet header", kTruncated, with({}).substr(0, 14)},
      {"33 bytes", kTruncated, with({}).substr(0, 33)},
      {"an IP header", kTruncated, with({}).substr(0, 34)},
      {"a byte too few", kTruncated, with({}).substr(0, with({}).size() - 1)},
      {"ARP", kNotIpv4, with({.ethertype = 0x0806})},
      {"a VLAN's tag", kNotIpv4, with({.ethertype = 0x8100})},
      {"version 6", kNotIpv4, with({.version = 6})},
      {"TCP", kNotIpv4, with({.protocol = 6})},
      {"a total length too long", kTruncated, with({.more_ip = 1})},
      {"a total length without UDP", kBadLength,
       with({.more_ip = -(8 + 8 + 9 + 1)})},
      {"a UDP length beyond IP's", kBadLength, with({.more_udp = 1})},
      {"a UDP length below 8", kBadLength, with({.more_udp = -(8 + 9 + 1)})},
      {"a checksum of IP", kBadChecksum, damaged(14 + 10)},
      {"a time to live", kBadChecksum, damaged(14 + 8)},
      {"more fragments", kFragment, with({.fragment = 0x2000})},
      {"a later fragment", kFragment, with({.fragment = 100})},
      {"options", kOptions, with({.options = {1, 1, 1, 0}})},
      {"options, all 40 bytes", kOptions,
       with({.options = std::string(40, '\1')})},
      {"options, another port", kWrongPort,
       with({.options = {1, 1, 1, 0}, .to_port = kServerPort + 1})},
      {"options, a checksum of UDP", kBadUdpChecksum,
       [&] {
         std::string frame = with({.options = {1, 1, 1, 0}});
         frame.back() = '!';
         return frame;
       }()},
      {"another address", kNotForUs, with({.to = kServerAddress + 1})},
      {"a multicast address", kNotForUs, with({.to = 0xe0000001})},
      {"everybody's Ethernet address", kNotForUs,
       with({.to_ethernet = std::string(6, '\xff')})},
      {"from a group", kBadSource, with({.from = 0xe0000001})},
      {"from everybody", kBadSource, with({.from = 0xffffffff})},
      {"from nobody", kBadSource, with({.from = 0})},
      {"from a group's Ethernet address", kBadSource,
       with({.from_ethernet = std::string(6, '\1')})},
      {"from port 0", kBadSource, with({.from_port = 0})},
      {"another port", kWrongPort, with({.to_port = kServerPort + 1})},
      {"a checksum of UDP", kBadUdpChecksum, damaged(14 + 20 + 6)},
      {"a byte of the key", kBadUdpChecksum, damaged(14 + 20 + 8 + 8 + 5)},
      {"two datagrams", kMalformed, with({.total_datagrams = 2})},
      {"no datagram", kMalformed, with({.total_datagrams = 0})},
      {"no line end", kMalformed, RequestFrame({}, "get key")},
      {"a UDP length without the line's end", kBadUdpChecksum,
       with({.more_udp = -2})},
      {"no text", kOtherCommand, RequestFrame({}, "")},
      {"a set", kOtherCommand, RequestFrame({}, "set k 0 0 1\r\nx\r\n")},
      {"gets", kOtherCommand, RequestFrame({}, "gets key\r\n")},
      {"two keys", kOtherCommand, RequestFrame({}, "get key key\r\n")},
      {"a blank behind it", kOtherCommand, RequestFrame({}, "get key \r\n")},
      {"a blank before it", kOtherCommand, RequestFrame({}, "get  key\r\n")},
      {"no key", kOtherCommand, RequestFrame({}, "get \r\n")},
      {"a key of 251 bytes", kOtherCommand,
       RequestFrame({}, "get " + std::string(251, 'k') + "\r\n")},
      {"a key of 251 bytes, a line end of one", kOtherCommand,
       RequestFrame({}, "get " + std::string(251, 'k') + "\n")},
      {"a key of 1,000 bytes", kOtherCommand,
       RequestFrame({}, "get " + std::string(1000, 'k') + "\r\n")},
  };
  std::string short_header = with({});
  short_header[14] = 0x44;
  frames.push_back({"a header of 4 words", kBadLength, short_header});
  return frames;
}

TEST(MemcGnom, DropsWhatIsNoGoodRequestAndSaysWhy) {
  for (const BadFrame& bad : BadFrames()) {
    GnomServer server;
    server.Say(SetLine("key", "value"));
    const GnomAnswer answer = server.Answer(bad.frame);
    EXPECT_EQ(answer.verdict, bad.verdict) << bad.what;
    EXPECT_EQ(answer.frame, "") << bad.what;
    EXPECT_EQ(server.event_status, 0u) << bad.what;
    // The main thread had found the key, perhaps.
    EXPECT_EQ(server.Stat("get_hits"), "0") << bad.what;
    EXPECT_EQ(server.Stat("get_misses"), "0") << bad.what;
  }
}

TEST(MemcGnom, BadFramesDoNotHarmThoseBesideThem) {
  GnomServer server;
  server.Say(SetLine("key", "value"));
  std::vector<std::string> frames;
  std::vector<GnomVerdict> expected;
  for (const BadFrame& bad : BadFrames()) {
    frames.push_back(bad.frame);
    expected.push_back(bad.verdict);
    frames.push_back(RequestFrame({}, "get key\r\n"));
    expected.push_back(GnomVerdict::kAnswered);
  }
  const auto answers = server.Answer(frames);
  for (size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(answers[i].verdict, expected[i]) << i;
    if (expected[i] != GnomVerdict::kAnswered) continue;
    EXPECT_EQ(answers[i].frame,
              ReplyFrame({}, "VALUE key 0 5\r\nvalue\r\nEND\r\n"));
  }
  EXPECT_EQ(server.Stat("get_hits"), std::to_string(frames.size() / 2));
}

TEST(MemcGnom, TakesWhatEthernetAndOldHostsDo) {
  GnomServer server;
  const std::string reply = ReplyFrame({}, "END\r\n");
  const std::string request = RequestFrame({}, "get k\r\n");
  // Ethernet's shortest frame has 60 bytes: the rest is not the packet's.
  EXPECT_EQ(server.Answer(request + std::string(30, 'x')).frame, reply);
  EXPECT_EQ(
      server.Answer(RequestFrame({.udp_checksum = false}, "get k\r\n")).frame,
      reply);
  EXPECT_EQ(server.Answer(RequestFrame({.fragment = 0}, "get k\r\n")).frame,
            reply);
  server.address = 0;
  EXPECT_EQ(server.Answer(RequestFrame({.to = 0x0b000001}, "get k\r\n")).frame,
            ReplyFrame({.to = 0x0b000001}, "END\r\n"));
}

TEST(MemcGnom, AReplysChecksumIsNeverZero) {
  // One id of all makes the sum zero, which would say that there is none.
  GnomServer server;
  std::vector<std::string> frames;
  for (uint32_t id = 0; id < 65536; ++id) {
    frames.push_back(RequestFrame({.id = id}, "get k\r\n"));
  }
  server.buffers = 65536;
  server.blocks = 16;
  const auto answers = server.Answer(frames);
  uint32_t all_ones = 0;
  for (uint32_t id = 0; id < 65536; ++id) {
    ASSERT_EQ(answers[id].frame, ReplyFrame({.id = id}, "END\r\n")) << id;
    all_ones += answers[id].frame.substr(40, 2) == "\xff\xff";
  }
  EXPECT_EQ(all_ones, 1u);
}

TEST(MemcGnom, ABatchOfAnySizeIsAnsweredInOrderFromAnyBuffer) {
  for (const uint32_t threads : {64u, 128u, 512u}) {
    for (const uint32_t blocks : {1u, 2u, 3u}) {
      for (const uint32_t count : {1u, 31u, 32u, 33u, 256u, 257u, 512u}) {
        GnomServer server;
        server.buffers = 600;
        server.first_buffer = 590;  // the batch goes on at the beginning
        server.threads = threads;
        server.blocks = blocks;
        std::vector<std::string> frames;
        for (uint32_t i = 0; i < count; ++i) {
          const std::string key = "key" + std::to_string(i);
          server.Say(SetLine(key, std::to_string(i * i)));
          frames.push_back(RequestFrame({.id = i}, "get " + key + "\r\n"));
        }
        const auto answers = server.Answer(frames);
        for (uint32_t i = 0; i < count; ++i) {
          const std::string value = std::to_string(i * i);
          ASSERT_EQ(
              answers[i].frame,
              ReplyFrame({.id = i}, "VALUE key" + std::to_string(i) + " 0 " +
                                        std::to_string(value.size()) + "\r\n" +
                                        value + "\r\nEND\r\n"))
              << i << " of " << count << " by " << threads << " threads";
        }
        EXPECT_EQ(server.Stat("get_hits"), std::to_string(count));
      }
    }
  }
}

TEST(MemcGnom, AnExpiredItemIsAMiss) {
  GnomServer server;
  server.Say("set k 0 10 1\r\nx\r\n");
  const std::string request = RequestFrame({}, "get k\r\n");
  EXPECT_TRUE(server.Answer(request).hit);
  server.now_s += 10;
  const GnomAnswer answer = server.Answer(request);
  EXPECT_FALSE(answer.hit);
  EXPECT_EQ(answer.frame, ReplyFrame({}, "END\r\n"));
  EXPECT_EQ(server.Stat("get_hits"), "1");
  EXPECT_EQ(server.Stat("get_misses"), "1");
}

TEST(MemcGnom, AGetRenewsItsItemsPlaceInTheSet) {
  // One set of 16 ways: the 17th key evicts the one that was used least
  // recently.
  GnomServer server(1, 64);
  for (int i = 0; i < 16; ++i) {
    server.Say(SetLine("k" + std::to_string(i), "x"));
  }
  EXPECT_TRUE(server.Answer(RequestFrame({}, "get k0\r\n")).hit);
  server.Say(SetLine("k16", "x"));
  EXPECT_TRUE(server.Answer(RequestFrame({}, "get k0\r\n")).hit);
  EXPECT_FALSE(server.Answer(RequestFrame({}, "get k1\r\n")).hit);
}

TEST(MemcGnom, ACondemnedTableFailsTheEvent) {
  GnomServer server;
  server.Say(SetLine("k", "x"));
  server.table_memory.data()[0] ^= 1;
  const GnomAnswer answer = server.Answer(RequestFrame({}, "get k\r\n"));
  EXPECT_EQ(answer.verdict, GnomVerdict::kCorrupt);
  EXPECT_EQ(server.event_status, memc::kFailCorrupt);
}

TEST(MemcGnom, RefusesArgumentsThatLeaveItsBuffers) {
  GnomServer server;
  Memory grxbs(8 * memcached::kGrxbBytes);
  Memory replies(8 * memcached::kGnomReplyBytes);
  std::vector<memcached::GnomResult> results(8);
  const GnomArgs good = {.grxbs = {grxbs.data(), grxbs.size()},
                         .replies = replies.span(),
                         .results = simt::Writable(results),
                         .table = server.table_memory.span(),
                         .store = server.store_memory.span(),
                         .first = 0,
                         .now_s = 1,
                         .count = 8,
                         .address = 0,
                         .port = 1};
  EXPECT_EQ(server.Run(good), 0u);
  const auto run = [&](const std::function<void(GnomArgs&)>& change) {
    GnomArgs args = good;
    change(args);
    return server.Run(args);
  };
  const uint32_t bad = simt::kFailBadArguments;
  EXPECT_EQ(run([](auto& args) { args.count = 9; }), bad);
  EXPECT_EQ(run([](auto& args) { args.count = 0xffffffff; }), bad);
  EXPECT_EQ(run([](auto& args) { args.first = args.grxbs.size; }), bad);
  EXPECT_EQ(run([](auto& args) { args.first = 1024; }), bad);
  EXPECT_EQ(run([](auto& args) { args.first = ~uint64_t{0} - 2047; }), bad);
  EXPECT_EQ(run([](auto& args) { --args.grxbs.size; }), bad);
  EXPECT_EQ(run([](auto& args) { args.results.size = 7; }), bad);
  EXPECT_EQ(run([](auto& args) { --args.replies.size; }), bad);
  EXPECT_EQ(run([](auto& args) { args.grxbs.size = 0; }), bad);
  EXPECT_EQ(run([](auto& args) { args.table.size = 100; }), bad);
  for (const uint32_t threads : {1u, 32u, 96u, 576u, 1024u}) {
    server.threads = threads;
    EXPECT_EQ(server.Run(good), uint32_t{simt::kFailBadShape}) << threads;
  }
}

}  // namespace
}  // namespace carillon::kernels
