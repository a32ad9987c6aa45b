// Packets of other hosts through echo_reply, and descriptors that a device wrote.
// Every buffer ends where its allocation does, so AddressSanitizer sees an access
// one byte too far.
//
//   u8       bit 0: the packet gets a right IPv4 checksum; bit 1: and its message
//            one; bit 2: descriptors from the input
//   u8, ...  with bit 2: their number, and descriptors of 8 bytes each
//   rest     the packet, or the packets
#include <algorithm>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "kernels/forwarding/echo_reply.cuh"
#include "kernels/forwarding/echo_test_util.h"

namespace carillon::forwarding {
namespace {

// Whether the message has the length that it says, or for UDP at least that.
bool IsWholeMessage(std::span<const uint8_t> packet, size_t at, size_t bytes) {
  if (bytes < 8) return false;
  if (packet[packet[0] >> 4 == 4 ? 9 : 6] != 17) return true;
  return Half(packet, at + 4) >= 8 && Half(packet, at + 4) <= bytes;
}

bool IsEcho(std::span<const uint8_t> packet, uint8_t icmp, uint8_t request) {
  const bool four = packet[0] >> 4 == 4;
  const size_t at = four ? 20 : 40;
  const size_t bytes = four ? Half(packet, 2) - 20 : Half(packet, 4);
  const uint8_t protocol = packet[four ? 9 : 6];
  if (protocol != 17 && protocol != icmp) return false;
  if (!IsWholeMessage(packet, at, bytes)) return false;
  if (protocol == 17) {
    const bool unchecked = Half(packet, at + 6) == 0;
    return (unchecked ? four : MessageChecksum(packet) == 0) &&
           Half(packet, at) >= 1024;
  }
  return packet[at] == request && packet[at + 1] == 0 &&
         MessageChecksum(packet) == 0;
}

// By the words of the RFCs: may this be answered?
bool DeservesReply(std::span<const uint8_t> packet) {
  if (packet.size() < 20) return false;
  if (packet[0] == 0x45) {
    const size_t total = Half(packet, 2);
    if (total < 20 || total > packet.size()) return false;
    if (Checksum(packet.first(20)) != 0) return false;
    if ((Half(packet, 6) & 0x3fff) != 0) return false;
    const uint8_t from = packet[12];
    if (from == 0 || from == 127 || from >= 224) return false;
    if (from == 169 && packet[13] == 254) return false;
    const uint8_t to = packet[16];
    const bool everybody = std::ranges::all_of(
        packet.subspan(16, 4), [](uint8_t byte) { return byte == 255; });
    return to >> 4 != 14 && !everybody && IsEcho(packet, 1, 8);
  }
  if (packet[0] >> 4 != 6 || packet.size() < 40) return false;
  if (Half(packet, 4) + size_t{40} > packet.size()) return false;
  const auto from = packet.subspan(8, 16);
  const bool nobody =
      from[15] <= 1 && std::ranges::all_of(from.first(15), [](uint8_t byte) {
        return byte == 0;
      });
  return !nobody && from[0] != 0xff && packet[24] != 0xff &&
         IsEcho(packet, 58, 128);
}

void Run(fuzz::FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  std::vector<Packet> descriptors((how & 4) != 0 ? input.Take<uint8_t>() % 40
                                                 : 1);
  if ((how & 4) != 0) {
    for (Packet& descriptor : descriptors) {
      descriptor.offset = input.Take<uint32_t>();
      descriptor.length = input.Take<uint32_t>();
    }
  }
  const std::string_view rest = input.TakeRest();
  Bytes packets;
  if ((how & 4) == 0) {
    packets = {0, 0, 2, 0, 0, 0, 0, 1, 6, 5, 4, 3, 2, 9, 0x08, 0x00};
    Bytes packet(rest.begin(), rest.end());
    const bool four = !packet.empty() && packet[0] == 0x45;
    const bool six = packet.size() >= 48 && packet[0] >> 4 == 6;
    if ((how & 2) != 0) {
      const bool whole =
          four ? packet.size() >= 28 && Half(packet, 2) >= 28 &&
                     Half(packet, 2) <= packet.size() &&
                     IsWholeMessage(packet, 20, Half(packet, 2) - 20)
               : six && Half(packet, 4) + size_t{40} <= packet.size() &&
                     IsWholeMessage(packet, 40, Half(packet, 4));
      if (whole) SetMessageChecksum(packet);
    }
    if ((how & 1) != 0 && four && packet.size() >= 20) SetChecksum(packet);
    descriptors[0] = {kEthernetRoom, static_cast<uint32_t>(packet.size())};
    packets.insert(packets.end(), packet.begin(), packet.end());
  } else {
    packets.assign(rest.begin(), rest.end());
  }
  packets.shrink_to_fit();
  std::vector<EchoHeader> headers(descriptors.size());
  std::vector<EchoResult> results(descriptors.size());
  kernels::EchoReplyArgs args{};
  args.packets = simt::ReadOnly(packets);
  args.descriptors = simt::ReadOnly(descriptors);
  args.headers = simt::Writable(headers);
  args.results = simt::Writable(results);
  args.count = static_cast<uint32_t>(descriptors.size());
  FUZZ_CHECK(
      simt::RunGrid(kernels::echo_reply_info, {1, 1, 1}, {32, 1, 1}, args)
          .status == 0);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const uint64_t offset = descriptors[i].offset;
    const uint64_t length = descriptors[i].length;
    const EchoResult& result = results[i];
    FUZZ_CHECK(result.verdict != EchoVerdict::kNone);
    const bool inside = offset >= kEthernetRoom &&
                        offset + length <= packets.size() &&
                        offset % kPacketAlignment == 0;
    FUZZ_CHECK((result.verdict == EchoVerdict::kBadDescriptor) == !inside);
    if (!inside) continue;
    const auto packet = std::span(packets).subspan(offset, length);
    const bool replies = result.verdict == EchoVerdict::kReply;
    FUZZ_CHECK(replies == DeservesReply(packet), "verdict %d",
               static_cast<int>(result.verdict));
    if (!replies) continue;
    const Bytes expected = ExpectedReply(
        std::span(packets).subspan(offset - kEthernetBytes, kEthernetBytes),
        Bytes(packet.begin(), packet.end()));
    // The device sends the header, and the rest from where it came.
    FUZZ_CHECK(result.head > kEthernetRoom &&
               result.head <= sizeof(EchoHeader) && result.length <= length);
    Bytes frame(headers[i].bytes + 2, headers[i].bytes + result.head);
    const auto data = packet.first(result.length)
                          .subspan(result.head - size_t{kEthernetRoom});
    frame.insert(frame.end(), data.begin(), data.end());
    FUZZ_CHECK(frame == expected);
  }
}

}  // namespace
}  // namespace carillon::forwarding

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::forwarding::Run({data, size});
  return 0;
}
