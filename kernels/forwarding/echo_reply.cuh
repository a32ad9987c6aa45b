// echo_reply: answers pings, one a thread: ICMP echo requests (RFC 792), ICMPv6's
// (RFC 4443), and UDP datagrams (RFC 862). Checks all checksums of a request, and
// writes the headers of its reply; the data behind them stay what they are. See
// echo_wire.h for what a NIC writes and reads.
#ifndef CARILLON_KERNELS_FORWARDING_ECHO_REPLY_CUH_
#define CARILLON_KERNELS_FORWARDING_ECHO_REPLY_CUH_

#include "kernels/forwarding/echo_wire.h"
#include "kernels/forwarding/ipv4_forward.cuh"
#include "kernels/forwarding/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

// One event: `count` packets, one a thread; with fewer threads each takes
// several. The grid and block may have any size.
struct EchoReplyArgs {
  simt::Span<const uint8_t> packets;
  simt::Span<const forwarding::Packet> descriptors;
  simt::Span<forwarding::EchoHeader> headers;
  simt::Span<forwarding::EchoResult> results;
  uint32_t count;
};

namespace ping {

using forward::Fold;
using forward::HalvesOf;
using forward::Swap16;
using forward::Swap32;
using forwarding::EchoVerdict;

inline constexpr uint32_t kHops = 64;
inline constexpr uint32_t kIcmp = 1;
inline constexpr uint32_t kUdp = 17;
inline constexpr uint32_t kIcmp6 = 58;
inline constexpr uint32_t kMessageBytes = 8;  // of a header of ICMP or UDP
inline constexpr uint32_t kLeastPort = 1024;

inline const char* CheckArgs(const EchoReplyArgs& args) {
  return args.descriptors.size < args.count || args.headers.size < args.count ||
                 args.results.size < args.count
             ? "descriptors, headers and results must have an element a packet"
             : nullptr;
}
inline const char* CheckLaunch(const simt::LaunchShape&,
                               const EchoReplyArgs& args) {
  return CheckArgs(args);
}

CARILLON_DEVICE uint32_t LoadWord(const uint8_t* at) {
  return simt::LoadRelaxed(reinterpret_cast<const uint32_t*>(at));
}

// The sum of `bytes` bytes in one's complement, the first of which is aligned.
CARILLON_DEVICE uint32_t SumOf(const uint8_t* from, uint32_t bytes) {
  uint64_t sum = 0;
  uint32_t at = 0;
  for (; at + 4 <= bytes; at += 4) sum += LoadWord(from + at);
  // The buffer may end here.
  uint32_t last = 0;
  for (uint32_t i = 0; at + i < bytes; ++i) {
    last |= uint32_t{from[at + i]} << 8 * i;
  }
  sum += last;
  sum = (sum & 0xffffffff) + (sum >> 32);
  return HalvesOf(static_cast<uint32_t>(sum)) +
         static_cast<uint32_t>(sum >> 32);
}

// Judges what IP carries, with the sum of its pseudo-header but for length and
// protocol, and makes the first word of the reply.
CARILLON_DEVICE EchoVerdict Answer(const uint8_t* message, uint32_t bytes,
                                   uint32_t protocol, bool four,
                                   uint32_t addresses, uint32_t* first) {
  if (protocol != kUdp && protocol != (four ? kIcmp : kIcmp6)) {
    return EchoVerdict::kNotEcho;
  }
  if (bytes < kMessageBytes) return EchoVerdict::kTruncated;
  const uint32_t word = LoadWord(message);
  if (protocol == kUdp) {
    const uint32_t second = LoadWord(message + 4);
    const uint32_t length = Swap16(second & 0xffff);
    if (length < kMessageBytes || length > bytes)
      return EchoVerdict::kBadLength;
    // IPv4: 0 says that there is no checksum.
    if (second >> 16 == 0) {
      if (!four) return EchoVerdict::kBadChecksum;
    } else if (Fold(Fold(SumOf(message, length) + addresses) + Swap16(length) +
                    (kUdp << 8)) != 0xffff) {
      return EchoVerdict::kBadChecksum;
    }
    if (Swap16(word & 0xffff) < kLeastPort) return EchoVerdict::kNotEcho;
    // Ports and addresses in another order have the same sum.
    *first = word >> 16 | word << 16;
    return EchoVerdict::kReply;
  }
  uint32_t sum = SumOf(message, bytes);
  if (!four) {
    sum = Fold(sum + addresses) + Swap16(bytes) + (kIcmp6 << 8);
  }
  if (Fold(Fold(sum)) != 0xffff) return EchoVerdict::kBadChecksum;
  // Type and code; a reply has another type: RFC 1624, as in ipv4_forward.
  const uint32_t request = four ? 8 : 128;
  const uint32_t reply = four ? 0 : 129;
  if ((word & 0xffff) != request) return EchoVerdict::kNotEcho;
  uint32_t checksum =
      ~Fold((~word >> 16) + (~request & 0xffff) + reply) & 0xffff;
  // RFC 1624 takes it that not all is zero. Here all of a reply may be, of which
  // 0 is no right checksum; 0xffff is right wherever 0 is.
  if (checksum == 0) checksum = 0xffff;
  *first = reply | checksum << 16;
  return EchoVerdict::kReply;
}

CARILLON_DEVICE EchoVerdict Reply4(const uint8_t* packet, uint32_t length,
                                   uint32_t* out,
                                   forwarding::EchoResult* result) {
  uint32_t words[forwarding::kIpv4HeaderBytes / 4];
  forward::LoadHeader(packet, words);
  const uint32_t header = (words[0] & 0x0f) * 4;
  const uint32_t total = Swap16(words[0] >> 16);
  if (header < forwarding::kIpv4HeaderBytes || total < header) {
    return EchoVerdict::kBadLength;
  }
  if (length < total) return EchoVerdict::kTruncated;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 5; ++i) sum += HalvesOf(words[i]);
  for (uint32_t i = 20; i < header; i += 4)
    sum += HalvesOf(LoadWord(packet + i));
  if (Fold(sum) != 0xffff) return EchoVerdict::kBadChecksum;
  if (header > forwarding::kIpv4HeaderBytes) return EchoVerdict::kOptions;
  // More fragments, or an offset.
  if ((Swap32(words[1]) & 0x3fff) != 0) return EchoVerdict::kFragment;
  const uint32_t from = Swap32(words[3]);
  const uint32_t to = Swap32(words[4]);
  if (forward::IsMartian4(from) || forward::IsMulticast4(from) ||
      forward::IsMulticast4(to) || to == forward::kBroadcast4) {
    return EchoVerdict::kBadSource;
  }
  const EchoVerdict verdict =
      Answer(packet + header, total - header, words[2] >> 8 & 0xff, true,
             Fold(HalvesOf(words[3]) + HalvesOf(words[4])), &out[9]);
  if (verdict != EchoVerdict::kReply) return verdict;
  out[4] = words[0];
  out[5] = words[1];
  const uint32_t hops = (words[2] & 0xff00) | kHops;
  sum = HalvesOf(words[0]) + HalvesOf(words[1]) + hops + HalvesOf(words[3]) +
        HalvesOf(words[4]);
  out[6] = hops | (~Fold(sum) & 0xffff) << 16;
  out[7] = words[4];
  out[8] = words[3];
  result->head = 40;
  result->length = total;
  return EchoVerdict::kReply;
}

CARILLON_DEVICE EchoVerdict Reply6(const uint8_t* packet, uint32_t length,
                                   uint32_t* out,
                                   forwarding::EchoResult* result) {
  if (length < forwarding::kIpv6HeaderBytes) return EchoVerdict::kTruncated;
  uint32_t words[forwarding::kIpv6HeaderBytes / 4];
  forward::LoadHeader(packet, words);
  const uint32_t payload = Swap16(words[1] & 0xffff);
  const uint32_t total = forwarding::kIpv6HeaderBytes + payload;
  if (length < total) return EchoVerdict::kTruncated;
  const uint32_t protocol = words[1] >> 16 & 0xff;
  if (protocol == 44) return EchoVerdict::kFragment;
  // A group, the unspecified address, or the loopback one.
  const bool nobody = (words[2] | words[3] | words[4]) == 0 &&
                      (words[5] & 0x00ffffff) == 0 && words[5] >> 25 == 0;
  if (nobody || (words[2] & 0xff) == 0xff || (words[6] & 0xff) == 0xff) {
    return EchoVerdict::kBadSource;
  }
  uint32_t addresses = 0;
  for (uint32_t i = 2; i < 10; ++i) addresses += HalvesOf(words[i]);
  const EchoVerdict verdict =
      Answer(packet + forwarding::kIpv6HeaderBytes, payload, protocol, false,
             Fold(addresses), &out[14]);
  if (verdict != EchoVerdict::kReply) return verdict;
  out[4] = words[0] & Swap32(0xfff00000);  // without the flow label
  out[5] = (words[1] & 0x00ffffff) | kHops << 24;
  for (uint32_t i = 0; i < 4; ++i) {
    out[6 + i] = words[6 + i];
    out[10 + i] = words[2 + i];
  }
  result->head = 60;
  result->length = total;
  return EchoVerdict::kReply;
}

CARILLON_DEVICE EchoVerdict Reply(const EchoReplyArgs& args, uint64_t i,
                                  forwarding::EchoResult* result) {
  const uint64_t offset = simt::LoadRelaxed(&args.descriptors[i].offset);
  const uint32_t length = simt::LoadRelaxed(&args.descriptors[i].length);
  if (offset < forwarding::kEthernetRoom ||
      !args.packets.InBounds(offset, length) ||
      !forward::IsAligned(args.packets.data + offset)) {
    return EchoVerdict::kBadDescriptor;
  }
  if (length < forwarding::kIpv4HeaderBytes) return EchoVerdict::kTruncated;
  const uint8_t* const packet = args.packets.data + offset;
  auto* const out = reinterpret_cast<uint32_t*>(args.headers[i].bytes);
  const uint32_t version = LoadWord(packet) >> 4 & 0xf;
  EchoVerdict verdict = EchoVerdict::kBadVersion;
  if (version == 4) verdict = Reply4(packet, length, out, result);
  if (version == 6) verdict = Reply6(packet, length, out, result);
  if (verdict != EchoVerdict::kReply) return verdict;
  uint32_t ethernet[forwarding::kEthernetRoom / 4];
  forward::LoadHeader(packet - forwarding::kEthernetRoom, ethernet);
  out[0] = ethernet[2] << 16;
  out[1] = ethernet[2] >> 16 | ethernet[3] << 16;
  out[2] = ethernet[0] >> 16 | ethernet[1] << 16;
  out[3] = ethernet[1] >> 16 | (ethernet[3] & 0xffff0000);
  return verdict;
}

}  // namespace ping

CARILLON_KERNEL(echo_reply, EchoReplyArgs, args, self) {
  if (args.descriptors.size < args.count || args.headers.size < args.count ||
      args.results.size < args.count) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.count;
       i += self.grid_threads()) {
    forwarding::EchoResult result{};
    result.verdict = ping::Reply(args, i, &result);
    args.results[i] = result;
  }
}

CARILLON_KERNEL_INFO(
    echo_reply, EchoReplyArgs, "answers pings, one a thread",
    simt::Registers(56)
        .From("RFC 792, 4443, 862")
        .Oracle("Linux' ping, Scapy")
        .LaunchedOnly()
        .Validate<&ping::CheckLaunch>(),
    CARILLON_PARAM(EchoReplyArgs, packets, "where the packets' bytes are"),
    CARILLON_PARAM(EchoReplyArgs, descriptors, "one forwarding::Packet each"),
    CARILLON_PARAM(EchoReplyArgs, headers,
                   "receives one forwarding::EchoHeader each"),
    CARILLON_PARAM(EchoReplyArgs, results,
                   "receives one forwarding::EchoResult each"),
    CARILLON_PARAM(EchoReplyArgs, count, "packets in this batch"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_FORWARDING_ECHO_REPLY_CUH_
