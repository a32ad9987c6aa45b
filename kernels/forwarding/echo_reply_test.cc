// Checks echo_reply against what the RFCs say, byte by byte.
#include "kernels/forwarding/echo_reply.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kernels/forwarding/echo_test_util.h"
#include "kernels/forwarding/forward_test_util.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::forwarding {
namespace {

constexpr uint32_t kStride = 2048;

enum class Ping { kIcmp, kUdp };

// A request with `data` bytes.
Bytes Request(bool four, Ping ping, uint32_t data) {
  Bytes packet = four ? MakeIpv4(Address("198.51.100.7"), Address("192.0.2.1"),
                                 7, 8 + data)
                      : MakeIpv6(Address("2001:db8::7"),
                                 Address("2001:db8:1::1"), 7, 8 + data);
  const size_t at = four ? 20 : 40;
  std::mt19937 random(data);
  for (size_t i = at; i < packet.size(); ++i) {
    packet[i] = static_cast<uint8_t>(random());
  }
  if (ping == Ping::kUdp) {
    packet[four ? 9 : 6] = 17;
    SetHalf(packet, at, 40'000);
    SetHalf(packet, at + 2, 7);
    SetHalf(packet, at + 4, 8 + data);
  } else {
    packet[four ? 9 : 6] = four ? 1 : 58;
    packet[at] = four ? 8 : 128;
    packet[at + 1] = 0;
  }
  SetMessageChecksum(packet);
  if (four) SetChecksum(packet);
  return packet;
}

struct Answer {
  EchoVerdict verdict;
  Bytes frame;  // with kReply
};

const Bytes kMacs = {2, 0, 0, 0, 0, 1, 6, 5, 4, 3, 2, 9};

std::vector<Answer> Answers(const std::vector<Bytes>& packets) {
  std::vector<uint8_t> all(packets.size() * kStride);
  std::vector<Packet> descriptors;
  for (size_t i = 0; i < packets.size(); ++i) {
    const auto at = static_cast<uint32_t>(i * kStride + kEthernetRoom);
    std::ranges::copy(kMacs, all.begin() + at - kEthernetBytes);
    const bool four = !packets[i].empty() && packets[i][0] >> 4 == 4;
    all[at - 2] = four ? 0x08 : 0x86;
    all[at - 1] = four ? 0x00 : 0xdd;
    std::ranges::copy(packets[i], all.begin() + at);
    descriptors.push_back({at, static_cast<uint32_t>(packets[i].size())});
  }
  std::vector<EchoHeader> headers(packets.size());
  std::vector<EchoResult> results(packets.size());
  kernels::EchoReplyArgs args{};
  args.packets = simt::ReadOnly(all);
  args.descriptors = simt::ReadOnly(descriptors);
  args.headers = simt::Writable(headers);
  args.results = simt::Writable(results);
  args.count = static_cast<uint32_t>(packets.size());
  EXPECT_EQ(simt::RunGrid(kernels::echo_reply_info, {1, 1, 1}, {32, 1, 1}, args)
                .status,
            0u);
  std::vector<Answer> answers;
  for (size_t i = 0; i < packets.size(); ++i) {
    Answer answer{results[i].verdict, {}};
    if (answer.verdict == EchoVerdict::kReply) {
      const uint8_t* const head = headers[i].bytes;
      answer.frame.assign(head + 2, head + results[i].head);
      const uint8_t* const packet = all.data() + descriptors[i].offset;
      answer.frame.insert(answer.frame.end(),
                          packet + results[i].head - kEthernetRoom,
                          packet + results[i].length);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

Bytes Expected(const Bytes& request) {
  Bytes ethernet = kMacs;
  const bool four = request[0] >> 4 == 4;
  ethernet.push_back(four ? 0x08 : 0x86);
  ethernet.push_back(four ? 0x00 : 0xdd);
  return ExpectedReply(ethernet, request);
}

TEST(EchoReply, AnswersEveryLength) {
  std::vector<Bytes> requests;
  for (uint32_t data = 0; data < 1'900; data += data < 70 ? 1 : 61) {
    for (const bool four : {true, false}) {
      for (const Ping ping : {Ping::kIcmp, Ping::kUdp}) {
        requests.push_back(Request(four, ping, data));
        // As Ethernet pads it.
        requests.push_back(requests.back());
        requests.back().resize(requests.back().size() + 5);
      }
    }
  }
  const auto answers = Answers(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(answers[i].verdict, EchoVerdict::kReply) << i;
    ASSERT_EQ(answers[i].frame, Expected(requests[i])) << i;
  }
}

// Sums that are 0 and 0xffff on the way, which one's complement has twice.
TEST(EchoReply, ChecksumsAreRightForAllData) {
  std::vector<Bytes> requests;
  for (uint32_t value = 0; value < 0x10000; value += 3) {
    for (const bool four : {true, false}) {
      Bytes request = Request(four, Ping::kIcmp, 2);
      SetHalf(request, (four ? 20 : 40) + 8, value);
      SetMessageChecksum(request);
      requests.push_back(std::move(request));
    }
  }
  const auto answers = Answers(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(answers[i].verdict, EchoVerdict::kReply) << i;
    ASSERT_EQ(MessageChecksum(std::span(answers[i].frame).subspan(14)), 0) << i;
    const size_t data = 14 + (i % 2 == 0 ? 20 : 40) + 8;
    ASSERT_EQ(Half(answers[i].frame, data), i / 2 * 3);
  }
}

// Nothing in the reply is other than zero but its checksum.
TEST(EchoReply, ARequestOfZerosGetsAReplyThatIsRight) {
  for (const uint32_t data : {0u, 1u, 5u, 56u}) {
    Bytes request = Request(true, Ping::kIcmp, data);
    std::fill(request.begin() + 21, request.end(), uint8_t{0});
    SetMessageChecksum(request);
    const auto answers = Answers({request});
    ASSERT_EQ(answers[0].verdict, EchoVerdict::kReply);
    // As a receiver sums it up (RFC 1071): all ones, and not zero.
    EXPECT_EQ(Half(answers[0].frame, 14 + 20 + 2), 0xffffu) << data;
    EXPECT_EQ(answers[0].frame, Expected(request)) << data;
  }
}

// Every bit of a request flipped: nothing is answered but what is whole, and the
// checksums leave no bit out but those that say nothing.
TEST(EchoReply, NoBrokenRequestIsAnswered) {
  for (const bool four : {true, false}) {
    for (const Ping ping : {Ping::kIcmp, Ping::kUdp}) {
      const Bytes good = Request(four, ping, 19);
      std::vector<Bytes> requests;
      for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
        requests.push_back(good);
        requests.back()[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      }
      const auto answers = Answers(requests);
      for (size_t bit = 0; bit < requests.size(); ++bit) {
        const size_t byte = bit / 8;
        // IPv6 protects neither its traffic class and flow label nor its hop
        // limit.
        const bool free =
            !four &&
            (byte == 7 || (byte < 4 && bit % 8 + 8 * (byte == 0) < 8 + 4 &&
                           !(byte == 0 && bit % 8 >= 4)));
        EXPECT_EQ(answers[bit].verdict == EchoVerdict::kReply, free)
            << "bit " << bit % 8 << " of byte " << byte << ", IPv"
            << (four ? 4 : 6);
        if (free) {
          EXPECT_EQ(answers[bit].frame, Expected(requests[bit]));
        }
      }
    }
  }
}

TEST(EchoReply, SaysWhyNot) {
  std::map<EchoVerdict, std::vector<Bytes>> cases;
  const Bytes icmp4 = Request(true, Ping::kIcmp, 20);
  const Bytes icmp6 = Request(false, Ping::kIcmp, 20);
  const Bytes udp4 = Request(true, Ping::kUdp, 20);
  const Bytes udp6 = Request(false, Ping::kUdp, 20);
  const auto with4 = [](Bytes packet, size_t at, uint8_t value) {
    packet[at] = value;
    SetMessageChecksum(packet);
    SetChecksum(packet);
    return packet;
  };
  const auto with6 = [](Bytes packet, size_t at, uint8_t value) {
    packet[at] = value;
    SetMessageChecksum(packet);
    return packet;
  };
  for (size_t length = 0; length < icmp4.size(); ++length) {
    cases[EchoVerdict::kTruncated].emplace_back(
        icmp4.begin(), icmp4.begin() + static_cast<ptrdiff_t>(length));
  }
  for (size_t length = 1; length < icmp6.size(); ++length) {
    cases[EchoVerdict::kTruncated].emplace_back(
        icmp6.begin(), icmp6.begin() + static_cast<ptrdiff_t>(length));
  }
  Bytes five = icmp4;
  five[0] = 0x55;
  SetChecksum(five);
  cases[EchoVerdict::kBadVersion] = {five};
  cases[EchoVerdict::kFragment] = {with4(icmp4, 6, 0x20), with4(icmp4, 7, 1)};
  cases[EchoVerdict::kBadSource] = {
      with4(icmp4, 12, 127), with4(icmp4, 12, 0),   with4(icmp4, 12, 224),
      with4(icmp4, 12, 255), with4(icmp4, 16, 225), with6(icmp6, 8, 0xff),
      with6(icmp6, 24, 0xff)};
  Bytes nobody = icmp6;
  std::fill_n(nobody.begin() + 8, 16, uint8_t{0});
  for (const uint8_t last : {0, 1}) {
    cases[EchoVerdict::kBadSource].push_back(with6(nobody, 23, last));
  }
  cases[EchoVerdict::kNotEcho] = {with4(icmp4, 20, 0), with4(icmp4, 20, 13),
                                  with4(icmp4, 21, 1), with6(icmp6, 40, 129),
                                  with6(icmp6, 41, 2), with4(udp4, 20, 3),
                                  with6(udp6, 40, 0)};
  Bytes other = icmp4;
  other[9] = 6;
  SetChecksum(other);
  cases[EchoVerdict::kNotEcho].push_back(other);
  other = udp4;
  SetHalf(other, 24, 7);
  cases[EchoVerdict::kBadLength].push_back(other);
  SetHalf(other, 24, 29);
  cases[EchoVerdict::kBadLength].push_back(other);
  other = icmp4;
  other[0] = 0x44;
  cases[EchoVerdict::kBadLength].push_back(other);
  other = udp6;
  SetHalf(other, 46, 0);
  cases[EchoVerdict::kBadChecksum].push_back(other);
  other = MakeIpv4(Address("198.51.100.7"), Address("192.0.2.1"), 7, 28,
                   {1, 1, 1, 1});
  cases[EchoVerdict::kOptions].push_back(other);
  for (const auto& [verdict, packets] : cases) {
    const auto answers = Answers(packets);
    for (size_t i = 0; i < packets.size(); ++i) {
      EXPECT_EQ(answers[i].verdict, verdict)
          << i << " of " << static_cast<int>(verdict);
    }
  }
  // IPv4 need not have UDP's checksum.
  other = udp4;
  SetHalf(other, 26, 0);
  EXPECT_EQ(Answers({other})[0].frame, Expected(other));
}

TEST(EchoReply, NoDescriptorLeavesTheBuffer) {
  std::vector<uint8_t> bytes(4096);
  const Bytes good = Request(true, Ping::kIcmp, 20);
  std::ranges::copy(good, bytes.begin() + 64);
  const auto length = static_cast<uint32_t>(good.size());
  const std::vector<Packet> descriptors = {
      {64, length},  {8, length},        {0, length},
      {65, length},  {4096 - 8, length}, {4096, 0},
      {~0u, length}, {64, ~0u},          {~0u & ~7u, ~0u}};
  std::vector<EchoHeader> headers(descriptors.size());
  std::vector<EchoResult> results(descriptors.size());
  kernels::EchoReplyArgs args{};
  args.packets = simt::ReadOnly(bytes);
  args.descriptors = simt::ReadOnly(descriptors);
  args.headers = simt::Writable(headers);
  args.results = simt::Writable(results);
  args.count = static_cast<uint32_t>(descriptors.size());
  const auto run = [&] {
    return simt::RunGrid(kernels::echo_reply_info, {1, 1, 1}, {32, 1, 1}, args)
        .status;
  };
  EXPECT_EQ(run(), 0u);
  EXPECT_EQ(results[0].verdict, EchoVerdict::kReply);
  for (size_t i = 1; i < descriptors.size(); ++i) {
    EXPECT_EQ(results[i].verdict,
              i == 5 ? EchoVerdict::kTruncated : EchoVerdict::kBadDescriptor)
        << i;
  }
  ++args.count;
  EXPECT_EQ(run(), simt::kFailBadArguments);
}

}  // namespace
}  // namespace carillon::forwarding
