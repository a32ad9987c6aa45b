// Checks esp_encrypt and esp_decrypt against what the RFCs say (Model), which
// shares no code with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "kernels/ipsec/esp_test_util.h"

namespace carillon::ipsec_test {
namespace {

constexpr uint32_t kStride = 2048;
constexpr uint32_t kPlaces = 16;

// Outbound SAs at 0 to 3, inbound ones at 8 to 11, of both suites with IPv4 and
// IPv6 outside.
std::vector<Association> Table() {
  std::vector<Association> table(kPlaces);
  constexpr const char* kPeers[] = {"192.0.2.1", "192.0.2.2", "2001:db8:f::1",
                                    "2001:db8:f::2"};
  for (uint32_t i = 0; i < 4; ++i) {
    const Suite suite = i % 2 == 0 ? Suite::kTripleDesSha1 : Suite::kAesGcm;
    const std::string local = i < 2 ? "198.51.100.1" : "2001:db8:e::1";
    table[i] = MakeAssociation(0x5000 + i, suite, Direction::kOutbound, local,
                               kPeers[i], i);
    table[8 + i] = MakeAssociation(0x1008 + i, suite, Direction::kInbound,
                                   local, kPeers[i], 100 + i);
  }
  return table;
}

// Networks behind the peers: 10.N/16 and 2001:db8:N::/48 for N from 1 to 4. 10.9
// leads to a place without an SA, 10.8 to an inbound one.
std::vector<Route> Routes() {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i + 1);
    routes.push_back({*forwarding::ParsePrefix("10." + number + ".0.0/16"), i});
    routes.push_back(
        {*forwarding::ParsePrefix("2001:db8:" + number + "::/48"), i});
  }
  routes.push_back({*forwarding::ParsePrefix("10.9.0.0/16"), 5});
  routes.push_back({*forwarding::ParsePrefix("10.8.0.0/16"), 9});
  return routes;
}

std::string Net4(uint32_t peer) {
  return "10." + std::to_string(peer + 1) + ".2.3";
}
std::string Net6(uint32_t peer) {
  return "2001:db8:" + std::to_string(peer + 1) + "::7";
}

class Esp : public testing::Test {
 protected:
  Esp()
      : gateway_(Table(), Routes(), kStride),
        model_(Table(), Routes(), kStride) {}

  // An inner packet to (outbound) or from (inbound) a network behind a peer.
  static Bytes Inner(uint32_t peer, bool four, uint32_t payload,
                     bool outbound = true, uint8_t hops = 64) {
    const auto near = Address(four ? "172.16.0.9" : "2001:db8:aa::9");
    const auto far = Address(four ? Net4(peer) : Net6(peer));
    const auto& from = outbound ? near : far;
    const auto& to = outbound ? far : near;
    return four ? MakeIpv4(from, to, hops, payload)
                : MakeIpv6(from, to, hops, payload);
  }
  // What the peer sends.
  Bytes Sent(uint32_t peer, uint32_t sequence, const Bytes& payload,
             uint8_t traffic_class = 0) const {
    const Association sa = OtherEnd(model_.table()[8 + peer]);
    return WithOuterHeader(sa, SealEsp(sa, sequence, payload), traffic_class);
  }
  Bytes Sent(uint32_t peer, uint32_t sequence, bool four = true,
             uint32_t bytes = 40) const {
    return Sent(peer, sequence,
                PadPayload(model_.table()[8 + peer].suite,
                           Inner(peer, four, bytes, false), four ? 4 : 41));
  }
  void ExpectAll(bool encrypt, const std::vector<Bytes>& packets) {
    const auto found =
        encrypt ? gateway_.Encrypt(packets) : gateway_.Decrypt(packets);
    EXPECT_EQ(gateway_.event_status(), 0u);
    for (size_t i = 0; i < packets.size(); ++i) {
      const Handled expected =
          encrypt ? model_.Encrypt(packets[i]) : model_.Decrypt(packets[i]);
      ++verdicts_[expected.verdict];
      ASSERT_EQ(found[i], expected) << "packet " << i;
    }
    for (uint32_t i = 0; i < ipsec::kVerdicts; ++i) {
      EXPECT_EQ(gateway_.counts()[i], verdicts_[static_cast<Verdict>(i)]) << i;
    }
  }

  Gateway gateway_;
  Model model_;
  std::map<Verdict, uint64_t> verdicts_;
};

TEST_F(Esp, EncryptsEveryLengthAsTheRfcsSay) {
  std::vector<Bytes> packets;
  for (uint32_t length = 0; length < 1500; length += length < 70 ? 1 : 43) {
    for (uint32_t peer = 0; peer < 4; ++peer) {
      for (const bool four : {false, true}) {
        packets.push_back(Inner(peer, four, length));
      }
    }
  }
  ExpectAll(true, packets);
  EXPECT_EQ(verdicts_[Verdict::kDone], packets.size());
}

TEST_F(Esp, DecryptsEveryLengthAsTheRfcsSay) {
  std::vector<Bytes> packets;
  uint32_t sequence = 0;
  for (uint32_t length = 0; length < 1500; length += length < 70 ? 1 : 43) {
    ++sequence;
    for (uint32_t peer = 0; peer < 4; ++peer) {
      packets.push_back(Sent(peer, sequence, length % 3 == 0, length));
    }
  }
  ExpectAll(false, packets);
  EXPECT_EQ(verdicts_[Verdict::kDone], packets.size());
}

TEST_F(Esp, WhatOneEndEncryptsTheOtherOneDecrypts) {
  std::vector<Association> table(kPlaces);
  std::vector<Association> other(kPlaces);
  for (uint32_t i = 0; i < 2; ++i) {
    table[i] = MakeAssociation(0x2008 + i,
                               i == 0 ? Suite::kTripleDesSha1 : Suite::kAesGcm,
                               Direction::kOutbound, "198.51.100.1",
                               i == 0 ? "192.0.2.1" : "192.0.2.2", i);
    other[8 + i] = OtherEnd(table[i]);
    // The way back, whose peer says which source is right.
    other[i] =
        MakeAssociation(0x3000 + i, Suite::kAesGcm, Direction::kOutbound,
                        i == 0 ? "192.0.2.1" : "192.0.2.2", "198.51.100.1", 7);
  }
  Gateway near(table, Routes(), kStride);
  // Both of the near end's inner networks.
  Gateway far(other, {{*forwarding::ParsePrefix("172.16.0.0/16"), 0}}, kStride);
  std::vector<Bytes> packets;
  for (uint32_t i = 0; i < 100; ++i)
    packets.push_back(Inner(i % 2, true, i * 11));
  std::vector<Bytes> sealed;
  for (const Handled& one : near.Encrypt(packets)) {
    ASSERT_EQ(one.verdict, Verdict::kDone);
    sealed.push_back(one.packet);
  }
  const auto opened = far.Decrypt(sealed);
  for (size_t i = 0; i < packets.size(); ++i) {
    ASSERT_EQ(opened[i].verdict, Verdict::kDone) << i;
    // One hop less.
    packets[i][8] = 63;
    forwarding::SetChecksum(packets[i]);
    EXPECT_EQ(opened[i].packet, packets[i]);
  }
}

// Every byte of a packet, changed in each bit.
TEST_F(Esp, FindsEveryChangeOfAPacket) {
  for (uint32_t peer = 0; peer < 4; ++peer) {
    std::vector<Bytes> packets;
    const Bytes whole = Sent(peer, 9);
    // From its end on: the outer header comes last, as a packet whose time to live
    // has changed is taken, and with it its number.
    for (size_t at = whole.size(); at-- > 0;) {
      for (uint32_t bit = 0; bit < 8; ++bit) {
        for (const bool valid_sum : {false, true}) {
          if (valid_sum && (peer >= 2 || at >= 20)) continue;
          packets.push_back(whole);
          packets.back()[at] ^= static_cast<uint8_t>(1u << bit);
          const size_t header = packets.back()[0] % 16 * 4u;
          if (valid_sum && header >= 20) {
            forwarding::SetChecksum(packets.back(), header);
          }
        }
      }
    }
    packets.push_back(whole);
    ExpectAll(false, packets);
  }
  for (const Verdict verdict :
       {Verdict::kTruncated, Verdict::kBadVersion, Verdict::kBadLength,
        Verdict::kBadChecksum, Verdict::kFragment, Verdict::kNotEsp,
        Verdict::kUnknownSpi, Verdict::kReplayed, Verdict::kBadIcv,
        Verdict::kDone}) {
    EXPECT_GT(verdicts_[verdict], 0u) << static_cast<int>(verdict);
  }
  // None of the bits of what ESP authenticates may pass.
  EXPECT_GT(verdicts_[Verdict::kBadIcv], 4 * 8 * 60u);
}

TEST_F(Esp, JudgesEveryHeaderToEncryptAsTheRfcsDo) {
  for (const bool four : {true, false}) {
    for (const bool valid_sum : {false, true}) {
      for (size_t at = 0; at < (four ? 20u : 40u); ++at) {
        std::vector<Bytes> packets;
        for (uint32_t value = 0; value < 256; value += at == 8 ? 1 : 5) {
          Bytes packet = Inner(1, four, 60);
          packet[at] = static_cast<uint8_t>(value);
          if (four && valid_sum) {
            const size_t header = packet[0] % 16 * 4u;
            forwarding::SetChecksum(packet, header < 20 ? 20 : header);
          }
          packets.push_back(packet);
        }
        ExpectAll(true, packets);
      }
    }
  }
  for (const Verdict verdict :
       {Verdict::kTruncated, Verdict::kBadVersion, Verdict::kBadLength,
        Verdict::kBadChecksum, Verdict::kExpired, Verdict::kNoSa,
        Verdict::kDone}) {
    EXPECT_GT(verdicts_[verdict], 0u) << static_cast<int>(verdict);
  }
}

TEST_F(Esp, DropsPacketsThatEndTooEarly) {
  for (uint32_t peer = 0; peer < 4; ++peer) {
    const Bytes inner = Inner(peer, peer % 2 == 0, 30);
    const Bytes sent = Sent(peer, 5);
    std::vector<Bytes> to_encrypt, to_decrypt;
    for (size_t size = 0; size <= sent.size(); ++size) {
      if (size <= inner.size()) {
        to_encrypt.emplace_back(inner.begin(), inner.begin() + ptrdiff_t(size));
      }
      to_decrypt.emplace_back(sent.begin(), sent.begin() + ptrdiff_t(size));
      // The outer header agrees with the shorter packet.
      Bytes shorter = to_decrypt.back();
      if (peer < 2 && size >= 20) {
        shorter[2] = static_cast<uint8_t>(size >> 8);
        shorter[3] = static_cast<uint8_t>(size);
        forwarding::SetChecksum(shorter);
        to_decrypt.push_back(shorter);
      } else if (peer >= 2 && size >= 40) {
        shorter[4] = static_cast<uint8_t>((size - 40) >> 8);
        shorter[5] = static_cast<uint8_t>(size - 40);
        to_decrypt.push_back(shorter);
      }
    }
    ExpectAll(true, to_encrypt);
    ExpectAll(false, to_decrypt);
  }
  EXPECT_GT(verdicts_[Verdict::kTruncated], 0u);
  EXPECT_GT(verdicts_[Verdict::kBadLength], 0u);
  // Each whole packet is there twice, with the same number.
  EXPECT_EQ(verdicts_[Verdict::kDone], 8u);
  EXPECT_EQ(verdicts_[Verdict::kReplayed], 4u);
}

TEST_F(Esp, LeavesOutWhatEthernetPadded) {
  Bytes inner = Inner(0, true, 1);
  inner.resize(inner.size() + 25, 0xee);
  Bytes sent = Sent(1, 1);
  sent.resize(sent.size() + 25, 0xee);
  ExpectAll(true, {inner});
  ExpectAll(false, {sent});
  EXPECT_EQ(verdicts_[Verdict::kDone], 2u);
}

TEST_F(Esp, TakesEachNumberOnceInAnyOrder) {
  std::mt19937 random(4);
  for (uint32_t peer = 0; peer < 2; ++peer) {
    uint32_t base = 1;
    for (int round = 0; round < 60; ++round) {
      std::vector<Bytes> packets;
      for (int i = 0; i < 32; ++i) {
        // Near the highest, at the window's end, and behind it.
        const uint32_t back = static_cast<uint32_t>(random() % 140);
        packets.push_back(
            Sent(peer, base > back ? base - back : base + back, true, 8));
      }
      ExpectAll(false, packets);
      base += static_cast<uint32_t>(random() % 200);
      if (round == 40) base += 0x80000000;
    }
  }
  EXPECT_GT(verdicts_[Verdict::kReplayed], 500u);
  EXPECT_GT(verdicts_[Verdict::kDone], 1000u);
}

TEST_F(Esp, TheWindowHasItsWidthWhereverItStands) {
  for (uint32_t highest :
       {128u, 129u, 159u, 160u, 161u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    Gateway gateway(Table(), Routes(), kStride);
    const auto verdict = [&](uint32_t sequence) {
      return gateway.Decrypt({Sent(0, sequence, true, 8)})[0].verdict;
    };
    EXPECT_EQ(verdict(highest), Verdict::kDone) << highest;
    EXPECT_EQ(verdict(highest - ipsec::kReplayWindow), Verdict::kReplayed)
        << highest;
    EXPECT_EQ(verdict(highest - ipsec::kReplayWindow + 1), Verdict::kDone)
        << highest;
    EXPECT_EQ(verdict(highest - ipsec::kReplayWindow + 1), Verdict::kReplayed)
        << highest;
    EXPECT_EQ(verdict(highest), Verdict::kReplayed) << highest;
  }
}

TEST_F(Esp, OfEqualNumbersInAWarpOneIsAccepted) {
  for (const uint32_t peer : {0u, 1u}) {
    const std::vector<Bytes> packets(32, Sent(peer, 77));
    int accepted = 0;
    for (const Handled& one : gateway_.Decrypt(packets)) {
      EXPECT_TRUE(one.verdict == Verdict::kDone ||
                  one.verdict == Verdict::kReplayed);
      accepted += one.verdict == Verdict::kDone;
    }
    EXPECT_EQ(accepted, 1);
  }
}

TEST_F(Esp, OfEqualNumbersInManyBlocksOneIsAccepted) {
  gateway_.blocks = 16;
  gateway_.workers = 4;
  for (const uint32_t peer : {0u, 1u}) {
    std::vector<Bytes> packets;
    for (uint32_t i = 0; i < 400; ++i) {
      packets.push_back(Sent(peer, 1 + i % 100, true, 8));
    }
    std::map<uint32_t, int> accepted;
    for (const Handled& one : gateway_.Decrypt(packets)) {
      if (one.verdict == Verdict::kDone) ++accepted[one.sequence];
    }
    EXPECT_EQ(accepted.size(), 100u);
    for (const auto& [sequence, times] : accepted) {
      EXPECT_EQ(times, 1) << sequence;
    }
  }
}

// A packet that is not authentic must not move the window.
TEST_F(Esp, AForgedPacketTakesNoNumber) {
  Bytes forged = Sent(0, 1000);
  forged.back() ^= 1;
  Bytes forged_gcm = Sent(1, 1000);
  forged_gcm.back() ^= 1;
  ExpectAll(false, {forged, forged_gcm});
  ExpectAll(false, {Sent(0, 1), Sent(1, 1), Sent(0, 1000), Sent(1, 1000)});
  EXPECT_EQ(verdicts_[Verdict::kBadIcv], 2u);
  EXPECT_EQ(verdicts_[Verdict::kDone], 4u);
}

TEST_F(Esp, NumbersAreTakenOnceByManyBlocks) {
  gateway_.blocks = 16;
  gateway_.workers = 4;
  std::vector<Bytes> packets;
  for (uint32_t i = 0; i < 600; ++i) packets.push_back(Inner(i % 2, true, 8));
  std::map<uint32_t, std::set<uint32_t>> numbers;
  for (const Handled& one : gateway_.Encrypt(packets)) {
    ASSERT_EQ(one.verdict, Verdict::kDone);
    EXPECT_TRUE(numbers[one.spi].insert(one.sequence).second);
  }
  for (const auto& [spi, taken] : numbers) {
    EXPECT_EQ(taken.size(), 300u);
    EXPECT_EQ(*taken.begin(), 1u);
    EXPECT_EQ(*taken.rbegin(), 300u);
  }
}

TEST_F(Esp, SendsNothingWhenTheNumbersAreUsedUp) {
  for (const uint32_t peer : {0u, 1u}) {
    gateway_.sas()[peer].sequence = 0xfffffffe;
    const auto found = gateway_.Encrypt(
        {Inner(peer, true, 8), Inner(peer, true, 8), Inner(peer, true, 8)});
    EXPECT_EQ(found[0].verdict, Verdict::kDone);
    EXPECT_EQ(found[0].sequence, 0xffffffffu);
    EXPECT_EQ(found[1].verdict, Verdict::kSequenceExhausted);
    EXPECT_EQ(found[2].verdict, Verdict::kSequenceExhausted);
  }
}

TEST_F(Esp, JudgesWhatWasInsideAsTheRfcsDo) {
  for (uint32_t peer = 0; peer < 4; ++peer) {
    const Suite suite = model_.table()[8 + peer].suite;
    uint32_t sequence = 0;
    std::vector<Bytes> packets;
    const auto add = [&](Bytes payload) {
      packets.push_back(Sent(peer, ++sequence, payload));
    };
    for (const bool four : {true, false}) {
      const Bytes inner = Inner(peer, four, 30, false);
      const auto next = static_cast<uint8_t>(four ? 4 : 41);
      const Bytes good = PadPayload(suite, inner, next);
      // Each of the last bytes: padding, its length, the next header.
      for (size_t at = inner.size(); at < good.size(); ++at) {
        for (const uint8_t value : {0, 1, 2, 3, 4, 41, 59, 60, 200, 255}) {
          add(good);
          Bytes bad = good;
          bad[at] = value;
          add(bad);
        }
      }
      // Each byte of the inner header.
      for (size_t at = 0; at < (four ? 20u : 40u); ++at) {
        for (const uint8_t value : {0, 4, 5, 6, 0x45, 0x46, 0x60, 255}) {
          Bytes bad = inner;
          bad[at] = value;
          add(PadPayload(suite, bad, next));
        }
      }
      // Padding against traffic analysis, and of every length.
      Bytes longer = inner;
      longer.resize(longer.size() + 100, 0x77);
      add(PadPayload(suite, longer, next));
      for (uint32_t padding = 0; padding < 256; ++padding) {
        Bytes padded = inner;
        for (uint32_t i = 1; i <= padding; ++i) {
          padded.push_back(static_cast<uint8_t>(i));
        }
        padded.push_back(static_cast<uint8_t>(padding));
        padded.push_back(next);
        if (padded.size() % (suite == Suite::kAesGcm ? 4 : 8) == 0) add(padded);
      }
      add(PadPayload(suite, Inner((peer + 1) % 4, four, 30, false), next));
      add(PadPayload(suite, {}, next));
    }
    add(PadPayload(suite, {}, 59));
    add(PadPayload(suite, Bytes(40, 0), 6));
    ExpectAll(false, packets);
  }
  for (const Verdict verdict :
       {Verdict::kDone, Verdict::kBadPadding, Verdict::kDummy,
        Verdict::kBadInner, Verdict::kWrongSource}) {
    EXPECT_GT(verdicts_[verdict], 10u) << static_cast<int>(verdict);
  }
}

TEST_F(Esp, CopiesClassOfServiceAndDontFragment) {
  std::vector<Bytes> packets;
  for (uint32_t value = 0; value < 256; ++value) {
    for (uint32_t peer = 0; peer < 4; ++peer) {
      Bytes four = Inner(peer, true, 9);
      four[1] = static_cast<uint8_t>(value);
      four[6] = static_cast<uint8_t>(value % 3 == 0 ? 0x40 : 0);
      forwarding::SetChecksum(four);
      packets.push_back(four);
      Bytes six = Inner(peer, false, 9);
      six[0] = static_cast<uint8_t>(0x60 | value >> 4);
      six[1] = static_cast<uint8_t>(value << 4 | 0xa);
      packets.push_back(six);
    }
  }
  ExpectAll(true, packets);
  EXPECT_EQ(verdicts_[Verdict::kDone], packets.size());
}

TEST_F(Esp, MarksWhatMetCongestion) {
  std::vector<Bytes> packets;
  uint32_t sequence = 0;
  for (uint32_t outer = 0; outer < 4; ++outer) {
    for (uint32_t inner = 0; inner < 4; ++inner) {
      ++sequence;
      for (uint32_t peer = 0; peer < 4; ++peer) {
        const bool four = (peer + sequence) % 2 == 0;
        Bytes packet = Inner(peer, four, 12, false);
        if (four) {
          packet[1] = static_cast<uint8_t>(0xb8 | inner);
          forwarding::SetChecksum(packet);
        } else {
          packet[1] = static_cast<uint8_t>(inner << 4);
        }
        packets.push_back(Sent(
            peer, sequence,
            PadPayload(model_.table()[8 + peer].suite, packet, four ? 4 : 41),
            static_cast<uint8_t>(outer)));
      }
    }
  }
  ExpectAll(false, packets);
  EXPECT_EQ(verdicts_[Verdict::kDone], packets.size());
}

TEST_F(Esp, SaysThatAPacketIsTooLargeForItsSlot) {
  Gateway gateway(Table(), Routes(), 96);
  Model model(Table(), Routes(), 96);
  std::set<Verdict> verdicts;
  std::vector<Bytes> out, in;
  for (uint32_t size = 0; size < 100; ++size) {
    for (uint32_t peer = 0; peer < 4; ++peer) {
      out.push_back(Inner(peer, true, size));
      in.push_back(Sent(peer, size + 1, true, size));
    }
  }
  const auto sealed = gateway.Encrypt(out);
  const auto opened = gateway.Decrypt(in);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(sealed[i], model.Encrypt(out[i])) << i;
    EXPECT_EQ(opened[i], model.Decrypt(in[i])) << i;
    verdicts.insert(sealed[i].verdict);
    verdicts.insert(opened[i].verdict);
  }
  EXPECT_EQ(verdicts, (std::set{Verdict::kDone, Verdict::kTooLarge}));
}

TEST_F(Esp, ASlotIsLeftAloneUnlessItsPacketIsAuthentic) {
  Bytes forged = Sent(0, 1);
  forged.back() ^= 1;
  Bytes forged_gcm = Sent(1, 1);
  forged_gcm.back() ^= 1;
  const std::vector<Bytes> packets = {forged, forged_gcm};
  Bytes all;
  std::vector<forwarding::Packet> descriptors;
  for (const Bytes& packet : packets) {
    all.resize((all.size() + 7) / 8 * 8);
    descriptors.push_back({uint32_t(all.size()), uint32_t(packet.size())});
    all.insert(all.end(), packet.begin(), packet.end());
  }
  std::vector<ipsec::Unit> out(2 * kStride / 16);
  std::vector<ipsec::Result> results(2);
  std::vector<uint64_t> counts(ipsec::kVerdicts);
  kernels::EspArgs args = gateway_.args();
  args.packets = simt::ReadOnly(all);
  args.descriptors = simt::ReadOnly(descriptors);
  args.out = simt::Writable(out);
  args.results = simt::Writable(results);
  args.counts = simt::Writable(counts);
  args.count = 2;
  ASSERT_EQ(
      simt::RunGrid(kernels::esp_decrypt_info, {1, 1, 1}, {32, 1, 1}, args)
          .status,
      0u);
  EXPECT_EQ(results[0].verdict, Verdict::kBadIcv);
  EXPECT_EQ(results[1].verdict, Verdict::kBadIcv);
  for (const ipsec::Unit& unit : out) {
    for (const uint8_t byte : unit.bytes) ASSERT_EQ(byte, 0);
  }
}

TEST_F(Esp, AnSaCanBeTakenAwayAndReplaced) {
  ExpectAll(true, {Inner(0, true, 8)});
  gateway_.Write(0, {ipsec::Sa{}});
  EXPECT_EQ(gateway_.Encrypt({Inner(0, true, 8)})[0].verdict, Verdict::kNoSa);
  const Association next =
      MakeAssociation(0x7000, Suite::kAesGcm, Direction::kOutbound,
                      "198.51.100.1", "192.0.2.1", 55);
  gateway_.Write(0, {ToSa(next)});
  const Handled found = gateway_.Encrypt({Inner(0, true, 8)})[0];
  EXPECT_EQ(found.verdict, Verdict::kDone);
  EXPECT_EQ(found.spi, 0x7000u);
  EXPECT_EQ(found.sequence, 1u);
}

TEST_F(Esp, APolicyThatLeadsNowhereFailsTheEvent) {
  for (const uint32_t entry :
       {forwarding::kEntryRoute | kPlaces, forwarding::kEntryRoute | 0xffffffu,
        forwarding::kEntryGroup | 0xffffffu, 0xffffffffu}) {
    Gateway gateway(Table(), Routes(), kStride);
    const auto table = gateway.policies(Family::kIpv4);
    for (uint64_t i = forwarding::kTableHeaderWords; i < table.size; ++i) {
      table[i] = entry;
    }
    EXPECT_EQ(gateway.Encrypt({Inner(0, true, 8)})[0].verdict,
              Verdict::kBadTable);
    EXPECT_EQ(gateway.event_status(), kernels::esp::kFailBadTable);
    EXPECT_EQ(gateway.Decrypt({Sent(0, 1)})[0].verdict, Verdict::kBadTable);
    EXPECT_EQ(gateway.event_status(), kernels::esp::kFailBadTable);
    table[0] = 2;  // no half
    EXPECT_EQ(gateway.Encrypt({Inner(0, true, 8)})[0].verdict,
              Verdict::kBadTable);
  }
}

TEST_F(Esp, DescriptorsThatLeaveTheBufferCostOnlyTheirOwnPackets) {
  Bytes all = Inner(1, true, 20);
  const auto size = static_cast<uint32_t>(all.size());
  all.resize(56);
  const Bytes second = Inner(1, true, 20);
  all.insert(all.end(), second.begin(), second.end());
  const std::vector<forwarding::Packet> descriptors = {
      {0, size},
      {4, size},
      {56, size},
      {56, size + 1},
      {0xfffffff8, size},
      {0, 0xffffffff},
      {8, 0xfffffff8},
      {56, 0},
      {static_cast<uint32_t>(all.size()), 0}};
  for (const auto* kernel :
       {&kernels::esp_encrypt_info, &kernels::esp_decrypt_info}) {
    const auto found = gateway_.RunRaw(*kernel, all, descriptors);
    EXPECT_EQ(gateway_.event_status(), 0u);
    for (const size_t bad : {1u, 3u, 4u, 5u, 6u}) {
      EXPECT_EQ(found[bad].verdict, Verdict::kBadDescriptor) << bad;
    }
    const Verdict good = kernel == &kernels::esp_encrypt_info
                             ? Verdict::kDone
                             : Verdict::kNotEsp;
    EXPECT_EQ(found[0].verdict, good);
    EXPECT_EQ(found[2].verdict, good);
    EXPECT_EQ(found[7].verdict, Verdict::kTruncated);
  }
}

TEST_F(Esp, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint8_t> packets(64);
  std::vector<forwarding::Packet> descriptors(2);
  std::vector<ipsec::Unit> out(2 * 64 / 16);
  std::vector<ipsec::Result> results(2);
  std::vector<uint64_t> counts(ipsec::kVerdicts);
  kernels::EspArgs good = gateway_.args();
  good.packets = simt::ReadOnly(packets);
  good.descriptors = simt::ReadOnly(descriptors);
  good.out = simt::Writable(out);
  good.results = simt::Writable(results);
  good.counts = simt::Writable(counts);
  good.count = 2;
  good.stride = 64;
  std::vector<kernels::EspArgs> bad(10, good);
  bad[0].descriptors.size = 1;
  bad[1].results.size = 1;
  bad[2].counts.size -= 1;
  bad[3].out.size -= 1;
  bad[4].stride = 0;
  bad[5].stride = 65;
  bad[6].stride = 0xfffffff0;
  bad[7].first_bits = 7;
  bad[8].policies4.size = 500;
  bad[9].policies6.size = 1;
  for (const auto* kernel :
       {&kernels::esp_encrypt_info, &kernels::esp_decrypt_info}) {
    for (const kernels::EspArgs& args : bad) {
      EXPECT_EQ(simt::RunGrid(*kernel, {1, 1, 1}, {32, 1, 1}, args).status,
                simt::kFailBadArguments);
      EXPECT_NE(kernel->validate({{1, 1, 1}, {32, 1, 1}}, &args), nullptr);
    }
    EXPECT_EQ(simt::RunGrid(*kernel, {1, 1, 1}, {64, 1, 1}, good).status,
              simt::kFailBadShape);
    EXPECT_NE(kernel->check_shape({{1, 1, 1}, {64, 1, 1}}), nullptr);
    EXPECT_EQ(counts, std::vector<uint64_t>(ipsec::kVerdicts));
    EXPECT_EQ(kernel->validate({{1, 1, 1}, {32, 1, 1}}, &good), nullptr);
    EXPECT_EQ(simt::RunGrid(*kernel, {1, 1, 1}, {32, 1, 1}, good).status, 0u);
    std::ranges::fill(counts, 0);
  }
}

// As after a restart: numbers up to the last one are used, whether they were
// seen or not, and the next ones are free, whatever their place in a word is.
TEST_F(Esp, GoesOnBehindANumber) {
  for (const uint32_t number : {0u, 1u, 30u, 31u, 32u, 33u, 127u, 128u, 255u,
                                256u, 257u, 1000u, 0x12345678u, 0xfffffffcu}) {
    std::vector<ipsec::Sa> sas;
    for (const Association& one : Table()) sas.push_back(ToSa(one));
    for (ipsec::Sa& sa : sas) ipsec::BeginAfter(number, &sa);
    gateway_.Write(0, sas);
    for (uint32_t peer = 0; peer < 4; ++peer) {
      std::vector<Bytes> used, next;
      for (uint32_t back = 0; back < std::min(number, 300u); ++back) {
        used.push_back(Sent(peer, number - back));
      }
      for (uint32_t more = 1; more <= 3; ++more) {
        next.push_back(Sent(peer, number + more));
      }
      for (const Handled& one : gateway_.Decrypt(used)) {
        ASSERT_EQ(one.verdict, Verdict::kReplayed)
            << one.sequence << " of " << number;
      }
      for (const auto verdict : {Verdict::kDone, Verdict::kReplayed}) {
        for (const Handled& one : gateway_.Decrypt(next)) {
          ASSERT_EQ(one.verdict, verdict) << one.sequence << " of " << number;
        }
      }
      ASSERT_EQ(gateway_.Encrypt({Inner(peer, true, 40)})[0].sequence,
                number + 1);
    }
  }
}

TEST(FingerprintOf, IsTheSameForEqualKeysOnly) {
  const Association one =
      MakeAssociation(0x1234, Suite::kTripleDesSha1, Direction::kOutbound,
                      "192.0.2.1", "192.0.2.2", 1);
  const auto name = [](const Association& of) {
    return ipsec::FingerprintOf(
        {.spi = of.spi, .suite = of.suite, .cipher_key = of.cipher_key});
  };
  EXPECT_EQ(name(one).size(), 40u);
  for (size_t bit = 0; bit < 8 * one.cipher_key.size(); ++bit) {
    Association other = one;
    other.spi = 0x4321;
    other.cipher_key[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(name(other) == name(one), bit % 8 == 0) << bit;
  }
  Association gcm = one;
  gcm.suite = Suite::kAesGcm;
  EXPECT_NE(name(gcm), name(one));
}

// Without SAs and policies a gateway drops all.
TEST(EspWithoutTables, DropsAll) {
  Gateway gateway({}, {}, kStride);
  const Association sa =
      MakeAssociation(0x1234, Suite::kAesGcm, Direction::kOutbound, "192.0.2.1",
                      "192.0.2.2", 1);
  EXPECT_EQ(gateway
                .Decrypt({WithOuterHeader(
                    sa, SealEsp(sa, 1, PadPayload(sa.suite, {}, 59)))})[0]
                .verdict,
            Verdict::kUnknownSpi);
  EXPECT_EQ(
      gateway
          .Encrypt({MakeIpv4(Address("10.0.0.1"), Address("10.1.0.1"), 9)})[0]
          .verdict,
      Verdict::kNoSa);
}

TEST(MakeSa, SaysWhatIsWrong) {
  const Association good =
      MakeAssociation(0x1234, Suite::kTripleDesSha1, Direction::kOutbound,
                      "192.0.2.1", "192.0.2.2", 1);
  const auto status = [](const Association& of) {
    return std::string(ipsec::MakeSa({.spi = of.spi,
                                      .suite = of.suite,
                                      .direction = of.direction,
                                      .local = of.local,
                                      .peer = of.peer,
                                      .cipher_key = of.cipher_key,
                                      .integrity_key = of.integrity_key})
                           .status()
                           .message());
  };
  EXPECT_EQ(status(good), "");
  std::vector<Association> bad(8, good);
  bad[0].spi = 255;
  bad[1].suite = Suite::kNone;
  bad[2].direction = Direction::kNone;
  bad[3].local.resize(5);
  bad[4].peer.resize(16);
  bad[5].cipher_key.resize(23);
  bad[6].integrity_key.resize(19);
  bad[7].suite = Suite::kAesGcm;
  for (const Association& one : bad) EXPECT_NE(status(one), "");
}

}  // namespace
}  // namespace carillon::ipsec_test
