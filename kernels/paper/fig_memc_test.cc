#include "kernels/paper/fig_memc.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/paper/event_references.h"
#include "kernels/paper/memc_sets.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using Datagram = reference::MemcDatagram;
using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kOne{1, 1, 1};
const Dim3 kWarp{32, 1, 1};

std::string Half(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}

class FigMemc : public testing::Test {
 protected:
  FigMemc() : requests_(32 * 128, 0x55), replies_(32 * 128), lengths_(32) {}

  void Put(uint32_t i, const std::string& frame) {
    ASSERT_LE(frame.size(), 128u - 14);
    std::copy(frame.begin(), frame.end(), &requests_[i * 128 + 14]);
  }
  FigMemcArgs Args(uint32_t count) {
    return {ReadOnly(requests_),
            Writable(replies_),
            Writable(lengths_),
            Writable(sets_.entries()),
            now_,
            count};
  }
  uint32_t Run(uint32_t count) {
    std::fill(replies_.begin(), replies_.end(), 0xee);
    std::fill(lengths_.begin(), lengths_.end(), 0xeeeeeeee);
    return RunGrid(fig_memc_info, kOne, kWarp, Args(count)).status;
  }
  std::string Reply(uint32_t i) const {
    const uint8_t* p = &replies_[i * 128 + 14];
    return {p, p + lengths_[i]};
  }

  void ExpectReply(uint32_t i, const Datagram& request,
                   const std::string& text) {
    const std::string frame = Reply(i);
    ASSERT_EQ(frame, request.Reply(text));
    // Nothing behind the frame.
    for (size_t at = 14 + frame.size(); at < 128; ++at) {
      ASSERT_EQ(replies_[i * 128 + at], 0xee);
    }
  }

  std::vector<uint8_t> requests_, replies_;
  std::vector<uint32_t> lengths_;
  MemcSets sets_{2048};
  uint32_t now_ = 0;
};

TEST_F(FigMemc, AnswersAsAMapDoes) {
  std::mt19937 random(3);
  const auto key_of = [](uint32_t i) {
    std::string key = "key-" + std::to_string(i * 7919u);
    key.resize(i % 3 == 0 ? 16 : 1 + i % 32, 'x');
    return key;
  };
  std::unordered_map<std::string, std::string> map;
  // Few enough that no set is full.
  for (uint32_t i = 0; i < 4000; ++i) {
    const std::string value(2 + random() % 7, static_cast<char>(random()));
    ASSERT_TRUE(sets_.Set(key_of(i), value, 1));
    map[key_of(i)] = value;
  }
  std::unordered_map<uint32_t, uint32_t> used;
  for (const FigMemcEntry& entry : sets_.entries()) {
    used[entry.key_length != 0] += 1;
  }
  ASSERT_EQ(used[1], map.size());
  uint32_t hits = 0;
  uint32_t misses = 0;
  for (now_ = 2; now_ < 102; ++now_) {
    std::vector<Datagram> batch(32);
    for (uint32_t i = 0; i < 32; ++i) {
      batch[i].text = "get " + key_of(random() % 6000) + "\r\n";
      batch[i].from_port = random() & 0xffff;
      batch[i].id = random() & 0xffff;
      for (char& c : batch[i].from_ip) c = static_cast<char>(random());
      for (char& c : batch[i].to_ip) c = static_cast<char>(random());
      Put(i, batch[i].Frame());
    }
    ASSERT_EQ(Run(32), simt::kFailNone);
    for (uint32_t i = 0; i < 32; ++i) {
      const std::string& text = batch[i].text;
      const std::string key = text.substr(4, text.size() - 6);
      const auto found = map.find(key);
      const std::string* const value =
          found == map.end() ? nullptr : &found->second;
      ++(value == nullptr ? misses : hits);
      ExpectReply(i, batch[i], reference::MemcText(key, value));
      const auto& entries = sets_.entries();
      const auto entry =
          std::find_if(entries.begin(), entries.end(), [&](const auto& e) {
            return std::string(e.key, e.key + e.key_length) == key;
          });
      ASSERT_EQ(entry != entries.end(), found != map.end());
      if (found != map.end()) {
        ASSERT_EQ(entry->last_access, now_);
      }
    }
  }
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(misses, 500u);
}

TEST_F(FigMemc, WhatIsNoRequestGetsNoReply) {
  ASSERT_TRUE(sets_.Set("k", "value", 1));
  Datagram good;
  good.text = "get k\r\n";
  std::vector<std::string> bad;
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string frame = good.Frame();
    bad.push_back(frame.replace(at, bytes.size(), bytes));
  };
  with(12, Half(0x86dd));  // not IPv4
  with(14, "\x46");        // options
  with(14, "\x65");        // version 6
  with(16, Half(44));      // another length than UDP's
  with(20, Half(0x2000));  // more fragments
  with(20, Half(0x0001));  // a later fragment
  with(23, "\x06");        // TCP
  with(36, Half(9961));    // another port
  with(38, Half(22));      // another length than IP's
  with(46, Half(2));       // one of two datagrams
  with(50, "set k");       // another command
  with(50, "getsk");
  with(50, "get \t");  // not a key
  with(50, std::string("get \0", 5));
  with(50, "get \x7f");
  with(55, "\n\n");  // no line end
  with(55, "\rx");
  const auto with_text = [&](const std::string& text) {
    Datagram datagram = good;
    datagram.text = text;
    bad.push_back(datagram.Frame());
  };
  with_text("get \r\n");
  with_text("get k k\r\n");
  with_text("get " + std::string(33, 'k') + "\r\n");
  ASSERT_LE(bad.size(), 31u);
  Put(0, good.Frame());
  for (uint32_t i = 0; i < bad.size(); ++i) Put(i + 1, bad[i]);
  const uint32_t count = static_cast<uint32_t>(bad.size()) + 1;
  ASSERT_EQ(Run(count), simt::kFailNone);
  ExpectReply(0, good, "VALUE k 0 5\r\nvalue\r\nEND\r\n");
  for (uint32_t i = 1; i < count; ++i) {
    EXPECT_EQ(lengths_[i], 0u) << i - 1;
    EXPECT_EQ(replies_[i * 128 + 64], 0xee) << i - 1;
  }
  EXPECT_EQ(lengths_[count], 0xeeeeeeee);
}

TEST_F(FigMemc, KeysWithTheSameHashAreNotMixedUp) {
  ASSERT_TRUE(sets_.Set("key-1", "value", 1));
  for (const char* other : {"key-2", "key-11"}) {
    for (FigMemcEntry& entry : sets_.entries()) {
      if (entry.key_length == 0) continue;
      entry.key_length = static_cast<uint32_t>(std::string(other).size());
      std::copy_n(other, entry.key_length, entry.key);
    }
    Datagram request;
    request.text = "get key-1\r\n";
    Put(0, request.Frame());
    ASSERT_EQ(Run(1), simt::kFailNone);
    ExpectReply(0, request, "END\r\n");
  }
}

TEST_F(FigMemc, TheLongestReplyFitsItsSlot) {
  const std::string key(32, 'k');
  ASSERT_TRUE(sets_.Set(key, "12345678", 1));
  EXPECT_FALSE(sets_.Set(key + "k", "1", 1));
  EXPECT_FALSE(sets_.Set(key, "123456789", 1));
  EXPECT_FALSE(sets_.Set("", "1", 1));
  Datagram request;
  request.text = "get " + key + "\r\n";
  Put(31, request.Frame());
  ASSERT_EQ(Run(32), simt::kFailNone);
  ExpectReply(31, request, "VALUE " + key + " 0 8\r\n12345678\r\nEND\r\n");
}

TEST_F(FigMemc, AFullSetLosesTheKeyThatWasUsedLeastRecently) {
  MemcSets one(1);
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(one.Set("key" + std::to_string(i), "v", 10 + (i + 3) % 8));
  }
  ASSERT_TRUE(one.Set("new", "v", 20));
  std::string gone = "key5";
  for (const FigMemcEntry& entry : one.entries()) {
    EXPECT_NE(std::string(entry.key, entry.key + entry.key_length), gone);
    EXPECT_NE(entry.key_length, 0u);
  }
}

TEST_F(FigMemc, ArgumentsThatDoNotFitFailAndTouchNothing) {
  ASSERT_TRUE(sets_.Set("k", "value", 1));
  Datagram request;
  request.text = "get k\r\n";
  for (uint32_t i = 0; i < 32; ++i) Put(i, request.Frame());
  const FigMemcArgs good = Args(32);
  std::vector<FigMemcArgs> bad(7, good);
  bad[0].requests.size -= 1;
  bad[1].replies.size -= 1;
  bad[2].lengths.size -= 1;
  bad[3].table.size = 0;
  bad[4].table.size -= 1;
  bad[5].table.size = 24;
  bad[6].count = 0xffffffff;
  for (const FigMemcArgs& args : bad) {
    EXPECT_EQ(RunGrid(fig_memc_info, kOne, kWarp, args).status,
              simt::kFailBadArguments);
    EXPECT_NE(fig_memc_info.validate({kOne, kWarp}, &args), nullptr);
  }
  EXPECT_NE(fig_memc_info.validate({kOne, {16, 1, 1}}, &good), nullptr);
  EXPECT_EQ(fig_memc_info.validate({kOne, kWarp}, &good), nullptr);
  EXPECT_EQ(lengths_, std::vector<uint32_t>(32));
  for (FigMemcEntry& entry : sets_.entries()) entry.value_length = 9;
  EXPECT_EQ(Run(32), kFigMemcBadTable);
  EXPECT_EQ(lengths_, std::vector<uint32_t>(32));
}

}  // namespace
}  // namespace carillon::kernels
