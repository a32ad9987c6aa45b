// Checks fig_ipv4 and fig_ipv6 against a linear search through all prefixes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/paper/event_references.h"
#include "kernels/paper/fig_ipv4.cuh"
#include "kernels/paper/fig_ipv6.cuh"
#include "kernels/paper/lpm_tables.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kOne{1, 1, 1};
const Dim3 kWarp{32, 1, 1};
using reference::Address6;
using reference::Forwarded4;
using reference::InternetChecksum;

// The bytes of slots, as a device writes them.
class Slots {
 public:
  explicit Slots(uint32_t count) : words_(count * kFigSlotWords, 0x55555555) {}

  uint8_t* frame(uint32_t i) {
    return reinterpret_cast<uint8_t*>(&words_[i * kFigSlotWords]) + 2;
  }
  std::span<uint8_t> bytes(uint32_t i) {
    return {frame(i), reference::kFrameBytes};
  }
  std::vector<uint8_t> FrameOf(uint32_t i) {
    return {frame(i), frame(i) + kFigSlotWords * 4 - 2};
  }
  std::vector<uint32_t>& words() { return words_; }

 private:
  std::vector<uint32_t> words_;
};

void PutIpv4(Slots& slots, uint32_t i, uint32_t to, uint8_t ttl,
             std::mt19937& random) {
  reference::PutIpv4(slots.bytes(i), to, ttl, random);
}
void PutIpv6(Slots& slots, uint32_t i, const Address6& to, uint8_t hop_limit,
             std::mt19937& random) {
  reference::PutIpv6(slots.bytes(i), to, hop_limit, random);
}

// The prefixes lie near each other, so that they nest, and the addresses near
// them.
uint32_t NearAddress(std::mt19937& random) {
  const uint32_t high = random() % 4;
  return 0x0a000000 | high << 16 | (random() % 4) << 8 | random() % 256;
}

class Ipv4 : public testing::Test {
 protected:
  Ipv4() : hops_(reference::MakeHops(200)) {
    std::mt19937 random(4);
    prefixes_.push_back({0x0a000000, 8, 199});
    for (int i = 0; i < 150; ++i) {
      const uint8_t length = static_cast<uint8_t>(9 + random() % 24);
      prefixes_.push_back(
          {NearAddress(random), length, static_cast<uint8_t>(random() % 199)});
    }
    tables_ = *BuildLpm4(prefixes_);
  }
  FigIpv4Args Args(Slots& slots, std::vector<uint32_t>& results,
                   uint32_t count) {
    return {Writable(slots.words()), ReadOnly(tables_.tbl24),
            ReadOnly(tables_.tbl8),  ReadOnly(hops_),
            Writable(results),       count};
  }

  std::vector<Prefix4> prefixes_;
  std::vector<FigNextHop> hops_;
  Lpm4Tables tables_;
};

TEST_F(Ipv4, ForwardsAsASearchThroughAllPrefixesSays) {
  std::mt19937 random(6);
  uint32_t forwarded = 0;
  uint32_t dropped = 0;
  for (int event = 0; event < 100; ++event) {
    Slots slots(32);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t to =
          random() % 8 == 0 ? random() | 0x80000000 : NearAddress(random);
      PutIpv4(slots, i, to, static_cast<uint8_t>(random() % 8), random);
    }
    Slots before = slots;
    std::vector<uint32_t> results(32, 0x1234);
    ASSERT_EQ(
        RunGrid(fig_ipv4_info, kOne, kWarp, Args(slots, results, 32)).status,
        simt::kFailNone);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t hop = reference::Route4(prefixes_, before.bytes(i));
      ASSERT_EQ(results[i], hop) << event << "," << i;
      if (hop == kFigNoHop) {
        ++dropped;
        ASSERT_EQ(slots.FrameOf(i), before.FrameOf(i));
      } else {
        ++forwarded;
        ASSERT_EQ(slots.FrameOf(i), Forwarded4(before.FrameOf(i), hop));
      }
    }
  }
  EXPECT_GT(forwarded, 1000u);
  EXPECT_GT(dropped, 300u);
}

TEST_F(Ipv4, EveryValueOfTheHalfWordKeepsTheChecksumRight) {
  // Values of TTL and protocol, and sums that RFC 1141's form would get wrong.
  std::mt19937 random(7);
  for (uint32_t half = 0x200; half < 0x10000; half += 32 * 5) {
    Slots slots(32);
    for (uint32_t i = 0; i < 32; ++i) {
      PutIpv4(slots, i, 0x0a000001, 2, random);
      uint8_t* ip = slots.frame(i) + 14;
      const uint32_t value = std::min(half + i * 5, 0xffffu);
      ip[8] = value >> 8;
      ip[9] = value & 0xff;
      // In an otherwise empty header the sum is ~(0x4500 + half + addresses).
      memset(ip + 1, 0, 7);
      memset(ip + 10, 0, 6);
      if (i % 2 == 0) {
        // Makes the sum of all other half words 0xffff after the change.
        const uint16_t rest = InternetChecksum({ip, 20});
        const uint32_t wanted = rest + 0x100;
        ip[12] = (wanted % 0xffff) >> 8;
        ip[13] = (wanted % 0xffff) & 0xff;
      }
      const uint16_t sum = InternetChecksum({ip, 20});
      ip[10] = sum >> 8;
      ip[11] = sum & 0xff;
    }
    Slots before = slots;
    std::vector<uint32_t> results(32);
    ASSERT_EQ(
        RunGrid(fig_ipv4_info, kOne, kWarp, Args(slots, results, 32)).status,
        simt::kFailNone);
    for (uint32_t i = 0; i < 32; ++i) {
      ASSERT_EQ(slots.FrameOf(i), Forwarded4(before.FrameOf(i), results[i]))
          << half << "+" << i;
    }
  }
}

TEST_F(Ipv4, OtherPacketsStayAsTheyAre) {
  std::mt19937 random(8);
  Slots slots(4);
  for (uint32_t i = 0; i < 4; ++i) PutIpv4(slots, i, 0x0a000001, 64, random);
  slots.frame(0)[12] = 0x86;
  slots.frame(1)[14] = 0x65;
  slots.frame(2)[14] = 0x44;
  Slots before = slots;
  std::vector<uint32_t> results(4);
  // Three packets: the fourth does not belong to the event.
  ASSERT_EQ(RunGrid(fig_ipv4_info, kOne, kWarp, Args(slots, results, 3)).status,
            simt::kFailNone);
  EXPECT_EQ(results,
            (std::vector<uint32_t>{kFigNoHop, kFigNoHop, kFigNoHop, 0}));
  EXPECT_EQ(slots.words(), before.words());
}

TEST_F(Ipv4, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::mt19937 random(9);
  Slots slots(32);
  for (uint32_t i = 0; i < 32; ++i) PutIpv4(slots, i, 0x0a000001, 64, random);
  Slots before = slots;
  std::vector<uint32_t> results(32);
  const FigIpv4Args good = Args(slots, results, 32);
  std::vector<FigIpv4Args> bad(5, good);
  bad[0].packets.size -= 1;
  bad[1].tbl24.size -= 1;
  bad[2].results.size -= 1;
  bad[3].count = 33;
  bad[4].count = 0xffffffff;
  for (const FigIpv4Args& args : bad) {
    EXPECT_EQ(RunGrid(fig_ipv4_info, kOne, kWarp, args).status,
              simt::kFailBadArguments);
    EXPECT_NE(fig_ipv4_info.validate({kOne, kWarp}, &args), nullptr);
  }
  EXPECT_NE(fig_ipv4_info.validate({kOne, {16, 1, 1}}, &good), nullptr);
  EXPECT_EQ(fig_ipv4_info.validate({kOne, kWarp}, &good), nullptr);
  // Tables that lead astray.
  const uint16_t old = tables_.tbl24[0x0a0000];
  FigIpv4Args args = good;
  args.hops.size = 0;
  EXPECT_EQ(RunGrid(fig_ipv4_info, kOne, kWarp, args).status, kFigBadTable);
  args = good;
  args.tbl8.size = 0;
  tables_.tbl24[0x0a0000] = kFigLpm4Valid | kFigLpm4Ext;
  EXPECT_EQ(RunGrid(fig_ipv4_info, kOne, kWarp, args).status, kFigBadTable);
  tables_.tbl24[0x0a0000] = old;
  EXPECT_EQ(slots.words(), before.words());
}

TEST(Lpm4, SaysWhatItCannotBuild) {
  EXPECT_FALSE(BuildLpm4({{0, 33, 0}}).ok());
  std::vector<Prefix4> many;
  for (uint32_t i = 0; i < 256; ++i) many.push_back({i << 8, 25, 1});
  EXPECT_TRUE(BuildLpm4(many).ok());
  many.push_back({256u << 8, 25, 1});
  EXPECT_EQ(BuildLpm4(many).status().code(),
            absl::StatusCode::kResourceExhausted);
}

Address6 NearAddress6(std::mt19937& random) {
  Address6 address = {0x20, 0x01};
  for (size_t i = 2; i < address.size(); ++i) {
    // Most bytes come from a few values, so that prefixes nest to any depth.
    address[i] = random() % 8 == 0 ? static_cast<uint8_t>(random()) : 0x11;
  }
  return address;
}

class Ipv6 : public testing::Test {
 protected:
  Ipv6() : hops_(reference::MakeHops(1000)) {
    std::mt19937 random(14);
    for (int i = 0; i < 400; ++i) {
      const uint8_t length = static_cast<uint8_t>(16 + random() % 113);
      prefixes_.push_back({NearAddress6(random), length,
                           static_cast<uint32_t>(random() % 1000)});
    }
    tables_ = *BuildLpm6(prefixes_);
  }
  FigIpv6Args Args(Slots& slots, std::vector<uint32_t>& results,
                   uint32_t count) {
    return {Writable(slots.words()), ReadOnly(tables_.tbl24),
            ReadOnly(tables_.tbl8),  ReadOnly(hops_),
            Writable(results),       count};
  }

  std::vector<Prefix6> prefixes_;
  std::vector<FigNextHop> hops_;
  Lpm6Tables tables_;
};

TEST_F(Ipv6, ForwardsAsASearchThroughAllPrefixesSays) {
  std::mt19937 random(16);
  uint32_t forwarded = 0;
  uint32_t dropped = 0;
  for (int event = 0; event < 60; ++event) {
    Slots slots(32);
    for (uint32_t i = 0; i < 32; ++i) {
      Address6 to = NearAddress6(random);
      if (i % 2 == 0) {
        // Inside of a prefix, and at its very end.
        const Prefix6& prefix = prefixes_[random() % prefixes_.size()];
        const size_t whole = prefix.length / 8;
        to = prefix.address;
        for (size_t k = whole + 1; k < 16; ++k) to[k] = uint8_t(random());
      }
      if (i % 16 == 1) to[0] = 0x30;
      PutIpv6(slots, i, to, static_cast<uint8_t>(random() % 8), random);
    }
    Slots before = slots;
    std::vector<uint32_t> results(32, 0x1234);
    ASSERT_EQ(
        RunGrid(fig_ipv6_info, kOne, kWarp, Args(slots, results, 32)).status,
        simt::kFailNone);
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t hop = reference::Route6(prefixes_, before.bytes(i));
      ASSERT_EQ(results[i], hop) << event << "," << i;
      if (hop == kFigNoHop) {
        ++dropped;
        ASSERT_EQ(slots.FrameOf(i), before.FrameOf(i));
      } else {
        ++forwarded;
        ASSERT_EQ(slots.FrameOf(i), reference::Forwarded6(before.bytes(i), hop))
            << event << "," << i;
      }
    }
  }
  EXPECT_GT(forwarded, 1000u);
  EXPECT_GT(dropped, 300u);
}

TEST_F(Ipv6, OtherPacketsStayAsTheyAre) {
  std::mt19937 random(18);
  Slots slots(3);
  const Address6 to = prefixes_[0].address;
  for (uint32_t i = 0; i < 3; ++i) PutIpv6(slots, i, to, 64, random);
  slots.frame(0)[13] = 0x00;
  slots.frame(1)[14] = 0x45;
  Slots before = slots;
  std::vector<uint32_t> results(3);
  ASSERT_EQ(RunGrid(fig_ipv6_info, kOne, kWarp, Args(slots, results, 2)).status,
            simt::kFailNone);
  EXPECT_EQ(results, (std::vector<uint32_t>{kFigNoHop, kFigNoHop, 0}));
  EXPECT_EQ(slots.words(), before.words());
}

TEST_F(Ipv6, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::mt19937 random(19);
  Slots slots(32);
  const Address6 to = prefixes_[0].address;
  for (uint32_t i = 0; i < 32; ++i) PutIpv6(slots, i, to, 64, random);
  Slots before = slots;
  std::vector<uint32_t> results(32);
  const FigIpv6Args good = Args(slots, results, 32);
  std::vector<FigIpv6Args> bad(5, good);
  bad[0].packets.size -= 1;
  bad[1].tbl24.size -= 1;
  bad[2].results.size -= 1;
  bad[3].count = 33;
  bad[4].count = 0xffffffff;
  for (const FigIpv6Args& args : bad) {
    EXPECT_EQ(RunGrid(fig_ipv6_info, kOne, kWarp, args).status,
              simt::kFailBadArguments);
    EXPECT_NE(fig_ipv6_info.validate({kOne, kWarp}, &args), nullptr);
  }
  EXPECT_NE(fig_ipv6_info.validate({kOne, {16, 1, 1}}, &good), nullptr);
  EXPECT_EQ(fig_ipv6_info.validate({kOne, kWarp}, &good), nullptr);
  FigIpv6Args args = good;
  args.hops.size = 0;
  EXPECT_EQ(RunGrid(fig_ipv6_info, kOne, kWarp, args).status, kFigBadTable);
  args = good;
  const uint32_t at = uint32_t{to[0]} << 16 | to[1] << 8 | to[2];
  tables_.tbl24[at] = kFigLpm6Valid | kFigLpm6Ext | kFigLpm6HopMask;
  EXPECT_EQ(RunGrid(fig_ipv6_info, kOne, kWarp, args).status, kFigBadTable);
  // A group leads to itself: the search ends with the address.
  tables_.tbl24[at] = kFigLpm6Valid | kFigLpm6Ext;
  std::fill_n(tables_.tbl8.begin(), 256, kFigLpm6Valid | kFigLpm6Ext);
  EXPECT_EQ(RunGrid(fig_ipv6_info, kOne, kWarp, args).status, kFigBadTable);
  EXPECT_EQ(slots.words(), before.words());
}

TEST(Lpm6, SaysWhatItCannotBuild) {
  EXPECT_FALSE(BuildLpm6({{{}, 129, 0}}).ok());
  EXPECT_FALSE(BuildLpm6({{{}, 64, kFigLpm6HopMask + 1}}).ok());
  EXPECT_TRUE(BuildLpm6({{{}, 128, kFigLpm6HopMask}}).ok());
}

}  // namespace
}  // namespace carillon::kernels
