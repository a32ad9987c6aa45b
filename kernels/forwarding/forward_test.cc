// Checks ipv4_forward and ipv6_forward against what the RFCs say
// (ExpectForwarded), which shares no code with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {
namespace {

constexpr uint32_t kGroups = 4'000;
constexpr uint32_t kFirstBits = 16;  // most tests need no large table
constexpr uint32_t kHops = 300;

class Forward : public testing::TestWithParam<Family> {
 protected:
  Forward()
      : hops_(MakeNextHops(kHops)),
        fib_(GetParam(), kGroups, kFirstBits),
        router_(GetParam(), kGroups, kFirstBits, hops_) {}

  void Publish(std::vector<Route> routes) {
    routes_ = std::move(routes);
    ASSERT_TRUE(fib_.Replace(routes_).ok());
    router_.Publish(fib_);
  }
  bool four() const { return GetParam() == Family::kIpv4; }
  Bytes Make(const AddressBytes& from, const AddressBytes& to, uint8_t left,
             uint32_t payload = 26) const {
    return four() ? MakeIpv4(from, to, left, payload)
                  : MakeIpv6(from, to, left, payload);
  }
  AddressBytes Source() const {
    return Address(four() ? "198.51.100.7" : "2001:db8::7");
  }
  Forwarded Expect(const Bytes& packet) const {
    return ExpectForwarded(GetParam(), packet, routes_, hops_);
  }
  void ExpectAll(const std::vector<Bytes>& packets) {
    const auto found = router_.Forward(packets);
    EXPECT_EQ(router_.event_status(), 0u);
    for (size_t i = 0; i < packets.size(); ++i) {
      ASSERT_EQ(found[i], Expect(packets[i])) << "packet " << i;
    }
  }

  std::vector<NextHop> hops_;
  std::vector<Route> routes_;
  Fib fib_;
  Router router_;
};

TEST_P(Forward, SendsPacketsTheWayOfTheLongestPrefix) {
  Publish(MakeRoutes(GetParam(), 3'000, kHops, 1));
  std::mt19937 random(2);
  std::vector<Bytes> packets;
  for (const AddressBytes& to : MakeAddresses(routes_, GetParam(), 1'000, 3)) {
    packets.push_back(Make(Source(), to, static_cast<uint8_t>(random()),
                           static_cast<uint32_t>(random() % 1600)));
  }
  ExpectAll(packets);
  std::set<Verdict> verdicts;
  for (const Bytes& packet : packets) verdicts.insert(Expect(packet).verdict);
  for (const Verdict verdict : {Verdict::kForward, Verdict::kNoRoute,
                                Verdict::kExpired, Verdict::kTooLarge}) {
    EXPECT_TRUE(verdicts.contains(verdict)) << static_cast<int>(verdict);
  }
}

// Every value of every byte of a header.
TEST_P(Forward, JudgesEveryHeaderAsTheRfcsDo) {
  Publish({{*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7}});
  std::set<Verdict> verdicts;
  for (const bool valid_sum : {false, true}) {
    for (size_t at = 0; at < (four() ? 20u : 40u); ++at) {
      std::vector<Bytes> packets;
      for (int value = 0; value < 256; ++value) {
        Bytes packet = Make(
            Source(), Address(four() ? "203.0.113.9" : "2001:db8::9"), 64, 60);
        packet[at] = static_cast<uint8_t>(value);
        if (four() && valid_sum) SetChecksum(packet, packet[0] % 16 * 4);
        verdicts.insert(Expect(packet).verdict);
        packets.push_back(packet);
      }
      ExpectAll(packets);
    }
  }
  for (const Verdict verdict :
       {Verdict::kForward, Verdict::kTruncated, Verdict::kBadVersion,
        Verdict::kNotUnicast, Verdict::kExpired}) {
    EXPECT_TRUE(verdicts.contains(verdict)) << static_cast<int>(verdict);
  }
  EXPECT_EQ(verdicts.contains(Verdict::kBadLength), four());
  EXPECT_EQ(verdicts.contains(Verdict::kBadChecksum), four());
  EXPECT_EQ(verdicts.contains(Verdict::kOptions), four());
}

TEST_P(Forward, DropsPacketsThatEndTooEarly) {
  Publish({{*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7}});
  const Bytes whole =
      Make(Source(), Address(four() ? "203.0.113.9" : "2001:db8::9"), 64);
  std::vector<Bytes> packets;
  for (size_t size = 0; size <= whole.size(); ++size) {
    packets.emplace_back(whole.begin(), whole.begin() + ptrdiff_t(size));
  }
  ExpectAll(packets);
  EXPECT_EQ(Expect(packets.front()).verdict, Verdict::kTruncated);
  EXPECT_EQ(Expect(packets.back()).verdict, Verdict::kForward);
}

TEST_P(Forward, LeavesOutWhatEthernetPadded) {
  Publish({{*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7}});
  Bytes packet =
      Make(Source(), Address(four() ? "203.0.113.9" : "2001:db8::9"), 64, 1);
  const size_t size = packet.size();
  packet.resize(size + 25);
  const Forwarded found = router_.Forward({packet})[0];
  EXPECT_EQ(found, Expect(packet));
  EXPECT_EQ(found.frame.size(), 14 + size);
}

TEST_P(Forward, ForwardsNoMartians) {
  Publish({{*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7}});
  struct Case {
    const char* address;
    Verdict as_source;
    Verdict as_destination;
  };
  const Verdict yes = Verdict::kForward;
  const Verdict no = Verdict::kMartian;
  const std::vector<Case> cases =
      four() ? std::vector<Case>{{"0.0.0.0", no, no},
                                 {"0.255.255.255", no, no},
                                 {"1.0.0.0", yes, yes},
                                 {"126.255.255.255", yes, yes},
                                 {"127.0.0.0", no, no},
                                 {"127.255.255.255", no, no},
                                 {"128.0.0.0", yes, yes},
                                 {"169.253.255.255", yes, yes},
                                 {"169.254.0.0", no, no},
                                 {"169.254.255.255", no, no},
                                 {"169.255.0.0", yes, yes},
                                 {"223.255.255.255", yes, yes},
                                 {"224.0.0.0", no, Verdict::kNotUnicast},
                                 {"239.255.255.255", no, Verdict::kNotUnicast},
                                 {"240.0.0.0", no, no},
                                 {"255.255.255.254", no, no},
                                 {"255.255.255.255", no, Verdict::kNotUnicast}}
             : std::vector<Case>{{"::", no, no},
                                 {"::1", no, no},
                                 {"::2", yes, yes},
                                 {"::fffe:ffff:ffff", yes, yes},
                                 {"::ffff:0:0", no, no},
                                 {"::ffff:ffff:ffff", no, no},
                                 {"::1:0:0:0", yes, yes},
                                 {"fe7f:ffff::", yes, yes},
                                 {"fe80::", no, no},
                                 {"febf:ffff::1", no, no},
                                 {"fec0::", yes, yes},
                                 {"feff::", yes, yes},
                                 {"ff00::", no, Verdict::kNotUnicast},
                                 {"ffff::", no, Verdict::kNotUnicast}};
  for (const Case& one : cases) {
    const Bytes from = Make(Address(one.address), Source(), 64);
    const Bytes to = Make(Source(), Address(one.address), 64);
    ExpectAll({from, to});
    EXPECT_EQ(router_.Forward({from})[0].verdict, one.as_source) << one.address;
    EXPECT_EQ(router_.Forward({to})[0].verdict, one.as_destination)
        << one.address;
  }
}

TEST_P(Forward, TellsOfDescriptorsThatLeaveThePackets) {
  Publish({{*ParsePrefix(four() ? "0.0.0.0/0" : "::/0"), 7}});
  Bytes bytes = Make(Source(), Source(), 64, 24);
  const auto size = static_cast<uint32_t>(bytes.size());
  const auto found = router_.ForwardRaw(bytes, {{0, size},
                                                {0, size + 1},
                                                {8, size - 7},
                                                {4, size - 4},
                                                {1, 20},
                                                {size, 0},
                                                {size + 1, 0},
                                                {0xfffffff8, 8},
                                                {0xfffffff8, 0xffffffff}});
  EXPECT_EQ(router_.event_status(), 0u);
  EXPECT_EQ(found[0], Expect(bytes));
  EXPECT_EQ(found[0].verdict, Verdict::kForward);
  for (size_t i = 1; i < found.size(); ++i) {
    // An empty packet at the end is only too short, where its place is aligned.
    EXPECT_EQ(found[i].verdict, i == 5 && size % 8 == 0
                                    ? Verdict::kTruncated
                                    : Verdict::kBadDescriptor)
        << i;
  }
}

TEST_P(Forward, AnyGridAndBlockForwardsAllPacketsOnce) {
  Publish(MakeRoutes(GetParam(), 500, kHops, 4));
  std::vector<Bytes> packets;
  for (const AddressBytes& to : MakeAddresses(routes_, GetParam(), 101, 5)) {
    packets.push_back(Make(Source(), to, 64));
  }
  for (const uint32_t block : {1u, 31u, 32u, 100u, 101u, 1024u}) {
    router_.block = block;
    ExpectAll(packets);
  }
  router_.block = 32;
  ExpectAll({});
}

TEST_P(Forward, ATableOfZerosHasNoRoute) {
  const Bytes packet = Make(Source(), Source(), 64);
  EXPECT_EQ(router_.Forward({packet})[0].verdict, Verdict::kNoRoute);
  EXPECT_EQ(router_.event_status(), 0u);
}

TEST_P(Forward, ABrokenTableFailsTheEventAndForwardsNothing) {
  const Bytes packet = Make(Source(), Source(), 64);
  const uint64_t size = router_.table().size;
  // The first 16 bits of 198.51.100.7 and of 2001:db8::7.
  const uint64_t entry = HalfBegin(size, 0) + (four() ? 0xc633 : 0x2001);
  const uint64_t group = HalfBegin(size, 0) + (1 << kFirstBits);
  const auto verdict_with = [&](uint32_t value) {
    router_.Write({&value, 1}, entry);
    return router_.Forward({packet})[0].verdict;
  };
  EXPECT_EQ(verdict_with(kEntryRoute | (kHops - 1)), Verdict::kForward);
  EXPECT_EQ(router_.event_status(), 0u);
  EXPECT_EQ(verdict_with(kEntryRoute | kHops), Verdict::kBadTable);
  EXPECT_EQ(router_.event_status(), kernels::forward::kFailBadTable);
  EXPECT_EQ(verdict_with(kEntryGroup | (kGroups - 1)), Verdict::kNoRoute);
  EXPECT_EQ(verdict_with(kEntryGroup | kGroups), Verdict::kBadTable);
  EXPECT_EQ(verdict_with(kEntryGroup | kEntryValue), Verdict::kBadTable);
  // A group that leads to itself ends with the address's bits.
  const std::vector<uint32_t> loop(kGroupEntries, kEntryGroup);
  router_.Write(loop, group);
  EXPECT_EQ(verdict_with(kEntryGroup), Verdict::kBadTable);
  for (const uint32_t half : {2u, 0xffffffffu}) {
    router_.Write({&half, 1}, 0);
    EXPECT_EQ(router_.Forward({packet})[0].verdict, Verdict::kBadTable);
    EXPECT_EQ(router_.event_status(), kernels::forward::kFailBadTable);
  }
}

TEST_P(Forward, RefusesBuffersThatAreTooSmall) {
  Packet descriptor{};
  Header header{};
  Result result{};
  kernels::ForwardArgs good = router_.args();
  good.descriptors = {&descriptor, 1};
  good.headers = {&header, 1};
  good.results = {&result, 1};
  good.count = 1;
  const auto status_of = [&](const kernels::ForwardArgs& args) {
    const uint32_t status =
        simt::RunGrid(router_.kernel(), {1, 1, 1}, {32, 1, 1}, args).status;
    EXPECT_EQ(router_.kernel().validate({}, &args) != nullptr, status != 0);
    return status;
  };
  EXPECT_EQ(status_of(good), 0u);
  kernels::ForwardArgs bad = good;
  bad.descriptors.size = 0;
  EXPECT_EQ(status_of(bad), simt::kFailBadArguments);
  bad = good;
  bad.headers.size = 0;
  EXPECT_EQ(status_of(bad), simt::kFailBadArguments);
  bad = good;
  bad.results.size = 0;
  EXPECT_EQ(status_of(bad), simt::kFailBadArguments);
  for (const uint64_t words :
       {uint64_t{0}, uint64_t{15},
        TableBytes(0, kFirstBits) / sizeof(uint32_t) - 1}) {
    bad = good;
    bad.table.size = words;
    EXPECT_EQ(status_of(bad), simt::kFailBadArguments) << words;
  }
  for (const uint32_t bits : {0u, 1u, 15u, 32u, 0x10000u}) {
    bad = good;
    bad.first_bits = bits;
    EXPECT_EQ(status_of(bad), simt::kFailBadArguments) << bits;
  }
}

// The largest first level that there is.
TEST(Forward24, SendsPacketsTheWayOfTheLongestPrefix) {
  const auto hops = MakeNextHops(kHops);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto routes = MakeRoutes(family, 1'000, kHops, 9);
    Fib fib(family, kGroups);
    ASSERT_TRUE(fib.Replace(routes).ok());
    Router router(family, kGroups, fib.first_bits(), hops);
    router.Publish(fib);
    std::vector<Bytes> packets;
    for (const AddressBytes& to : MakeAddresses(routes, family, 500, 10)) {
      packets.push_back(family == Family::kIpv4 ? MakeIpv4(to, to, 64)
                                                : MakeIpv6(to, to, 64));
    }
    const auto found = router.Forward(packets);
    for (size_t i = 0; i < packets.size(); ++i) {
      ASSERT_EQ(found[i], ExpectForwarded(family, packets[i], routes, hops));
    }
  }
}

// Two tables, in turn, with the same groups for other prefixes, while packets are
// forwarded: each packet goes the way of one of the two, and none is lost.
TEST_P(Forward, ATableIsExchangedWithoutALostOrMisledPacket) {
  constexpr int kExchanges = 100;
  // Longer prefixes than a first level has, below shorter ones.
  const auto make = [&](uint64_t seed, uint32_t next_hop) {
    std::vector<Route> routes;
    for (uint32_t i = 0; i < 10; ++i) {
      routes.push_back(
          {*ParsePrefix(four() ? std::to_string(20 + i) + ".0.0.0/8"
                               : "2001:" + std::to_string(i) + "::/32"),
           next_hop});
    }
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (uint32_t i = 0; i < 300; ++i) {
      Route route = routes[i % 10];
      Prefix& prefix = route.prefix;
      prefix.length = four() ? 27 : 53;
      for (uint32_t k = four() ? 1 : 4; k < 8; ++k) {
        prefix.address[k] = static_cast<uint8_t>(random());
      }
      prefix.address = Masked(prefix.address, prefix.length);
      if (four()) std::fill_n(prefix.address.begin() + 4, 4, uint8_t{0});
      route.next_hop = 3 + i % 250;
      routes.push_back(route);
    }
    return routes;
  };
  const auto one = make(6, 1);
  const auto other = make(7, 2);
  std::vector<Bytes> packets;
  std::vector<std::pair<Forwarded, Forwarded>> expected;
  for (const auto* const routes : {&one, &other}) {
    for (const AddressBytes& to : MakeAddresses(*routes, GetParam(), 256, 8)) {
      packets.push_back(Make(Source(), to, 64));
      expected.emplace_back(
          ExpectForwarded(GetParam(), packets.back(), one, hops_),
          ExpectForwarded(GetParam(), packets.back(), other, hops_));
    }
  }
  Publish(one);
  std::atomic<uint64_t> events = 0;
  std::atomic<bool> stop = false;
  uint64_t with_one = 0;
  uint64_t with_other = 0;
  uint64_t wrong = 0;
  std::thread forwarder([&] {
    while (!stop) {
      const auto found = router_.Forward(packets);
      for (size_t i = 0; i < found.size(); ++i) {
        const bool is_one = found[i] == expected[i].first;
        const bool is_other = found[i] == expected[i].second;
        if (!is_one && !is_other) ++wrong;
        if (is_one && !is_other) ++with_one;
        if (is_other && !is_one) ++with_other;
      }
      ++events;
    }
  });
  for (int i = 0; i < kExchanges; ++i) {
    // What was begun before the last exchange must end.
    const uint64_t seen = events;
    while (events < seen + 2) std::this_thread::yield();
    for (const Route& route : i % 2 == 0 ? one : other) {
      ASSERT_TRUE(fib_.Remove(route.prefix).ok());
    }
    for (const Route& route : i % 2 == 0 ? other : one) {
      ASSERT_TRUE(fib_.Insert(route).ok());
    }
    router_.Publish(fib_);
  }
  stop = true;
  forwarder.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(with_one, 1'000u);
  EXPECT_GT(with_other, 1'000u);
}

INSTANTIATE_TEST_SUITE_P(Families, Forward,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return param.param == Family::kIpv4 ? "Ipv4"
                                                               : "Ipv6";
                         });

// All 65,536 checksums, with the corner cases of RFC 1624, section 4.
TEST(Ipv4Forward, EveryChecksumIsThatOfTheNewHeader) {
  Fib fib(Family::kIpv4, 0, 8);
  const std::vector<Route> routes = {{*ParsePrefix("0.0.0.0/0"), 0}};
  ASSERT_TRUE(fib.Replace(routes).ok());
  const auto hops = MakeNextHops(1);
  Router router(Family::kIpv4, 0, 8, hops);
  router.Publish(fib);
  std::set<uint16_t> sums;
  for (uint32_t high = 0; high < 256; ++high) {
    std::vector<Bytes> packets;
    for (uint32_t low = 0; low < 256; ++low) {
      Bytes packet = MakeIpv4(Address("198.51.100.7"), Address("203.0.113.9"),
                              static_cast<uint8_t>(2 + low % 254), 0);
      packet[4] = static_cast<uint8_t>(high);
      packet[5] = static_cast<uint8_t>(low);
      SetChecksum(packet);
      sums.insert(static_cast<uint16_t>(packet[10] << 8 | packet[11]));
      packets.push_back(packet);
    }
    const auto found = router.Forward(packets);
    for (size_t i = 0; i < packets.size(); ++i) {
      ASSERT_EQ(found[i].verdict, Verdict::kForward);
      const std::span ip = std::span(found[i].frame).subspan(14);
      ASSERT_EQ(Checksum(ip.first(20)), 0);
      ASSERT_EQ(found[i],
                ExpectForwarded(Family::kIpv4, packets[i], routes, hops));
    }
  }
  EXPECT_GT(sums.size(), 60'000u);
}

TEST(Ipv4Forward, FragmentsGoTheSameWay) {
  Fib fib(Family::kIpv4, 0, 8);
  const std::vector<Route> routes = {{*ParsePrefix("0.0.0.0/0"), 0}};
  ASSERT_TRUE(fib.Replace(routes).ok());
  const auto hops = MakeNextHops(1);
  Router router(Family::kIpv4, 0, 8, hops);
  router.Publish(fib);
  for (const uint16_t field : {0x2000, 0x2001, 0x00b9, 0x1fff, 0x4000}) {
    Bytes packet =
        MakeIpv4(Address("198.51.100.7"), Address("203.0.113.9"), 64);
    packet[6] = static_cast<uint8_t>(field >> 8);
    packet[7] = static_cast<uint8_t>(field);
    SetChecksum(packet);
    const Forwarded found = router.Forward({packet})[0];
    EXPECT_EQ(found.verdict, Verdict::kForward);
    EXPECT_EQ(found, ExpectForwarded(Family::kIpv4, packet, routes, hops));
  }
}

TEST(Ipv4Forward, OptionsCountForTheChecksumAndAreLeftToTheDevice) {
  Fib fib(Family::kIpv4, 0, 8);
  ASSERT_TRUE(fib.Insert({*ParsePrefix("0.0.0.0/0"), 0}).ok());
  Router router(Family::kIpv4, 0, 8, MakeNextHops(1));
  router.Publish(fib);
  for (size_t size = 4; size <= 40; size += 4) {
    Bytes packet = MakeIpv4(Address("198.51.100.7"), Address("203.0.113.9"), 64,
                            26, Bytes(size, 1));  // no-operations
    EXPECT_EQ(router.Forward({packet})[0].verdict, Verdict::kOptions);
    packet[20 + size - 1] = 0;  // the checksum is not right any more
    EXPECT_EQ(router.Forward({packet})[0].verdict, Verdict::kBadChecksum);
  }
}

TEST(Ipv6Forward, LeavesOutJumbograms) {
  Fib fib(Family::kIpv6, 0, 8);
  ASSERT_TRUE(fib.Insert({*ParsePrefix("2000::/8"), 0}).ok());
  Router router(Family::kIpv6, 0, 8, MakeNextHops(1));
  router.Publish(fib);
  Bytes packet = MakeIpv6(Address("2001:db8::7"), Address("2001:db8::9"), 64);
  packet[6] = 0;  // hop-by-hop options
  EXPECT_EQ(router.Forward({packet})[0].verdict, Verdict::kForward);
  packet[4] = packet[5] = 0;
  EXPECT_EQ(router.Forward({packet})[0].verdict, Verdict::kBadLength);
  packet[6] = 59;  // no next header
  EXPECT_EQ(router.Forward({packet})[0].verdict, Verdict::kForward);
}

TEST(FibWrite, WritesWhatItIsToldAndNothingElse) {
  std::vector<uint32_t> table(100, 9);
  const std::vector<uint32_t> words = {1, 2, 3, 4, 5};
  const auto run = [&](uint64_t first, uint32_t count) {
    const kernels::FibWriteArgs args = {.words = simt::ReadOnly(words),
                                        .table = simt::Writable(table),
                                        .first = first,
                                        .count = count};
    return simt::RunGrid(kernels::fib_write_info, {2, 1, 1}, {2, 1, 1}, args)
        .status;
  };
  EXPECT_EQ(run(95, 5), 0u);
  EXPECT_EQ(run(0, 2), 0u);
  std::vector<uint32_t> expected(100, 9);
  std::ranges::copy(words, expected.begin() + 95);
  expected[0] = 1;
  expected[1] = 2;
  EXPECT_EQ(table, expected);
  EXPECT_EQ(run(96, 5), simt::kFailBadArguments);
  EXPECT_EQ(run(101, 0), simt::kFailBadArguments);
  EXPECT_EQ(run(~uint64_t{0}, 2), simt::kFailBadArguments);
  EXPECT_EQ(run(0, 6), simt::kFailBadArguments);
  EXPECT_EQ(table, expected);
}

}  // namespace
}  // namespace carillon::forwarding
