#include "devices/packet_io/toeplitz.h"

#include <netinet/in.h>

#include <algorithm>

namespace carillon::packet_io {
namespace {

constexpr std::array<uint8_t, 40> kKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
    0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
    0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
    0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
static_assert(kKey.size() == kToeplitzBytes + sizeof(uint32_t));

// What each value of each byte of the input adds.
using Table = std::array<std::array<uint32_t, 256>, kToeplitzBytes>;

Table MakeTable() {
  Table table{};
  for (size_t at = 0; at < kToeplitzBytes; ++at) {
    // The 40 bits of the key at this byte; bit i of the byte adds 32 of them.
    uint64_t window = 0;
    for (size_t i = 0; i < 5; ++i) window = window << 8 | kKey[at + i];
    for (uint32_t value = 0; value < 256; ++value) {
      for (uint32_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) {
          table[at][value] ^= static_cast<uint32_t>(window >> (bit + 1));
        }
      }
    }
  }
  return table;
}

}  // namespace

uint32_t ToeplitzHash(std::span<const std::byte> input) {
  static const auto* const table = new Table(MakeTable());
  uint32_t hash = 0;
  for (size_t i = 0; i < std::min(input.size(), kToeplitzBytes); ++i) {
    hash ^= (*table)[i][std::to_integer<size_t>(input[i])];
  }
  return hash;
}

uint32_t FlowHash(std::span<const std::byte> ip) {
  constexpr size_t kPortBytes = 4;
  const auto byte = [&](size_t at) {
    return std::to_integer<uint32_t>(ip[at]);
  };
  const uint32_t version = ip.empty() ? 0 : byte(0) >> 4;
  size_t addresses, address_bytes, payload;
  uint32_t protocol;
  if (version == 4 && ip.size() >= 20) {
    addresses = 12;
    address_bytes = 8;
    payload = (byte(0) & 0xf) * size_t{4};
    // Of a fragment not every one has the ports.
    const bool whole = (byte(6) & 0x3f) == 0 && byte(7) == 0;
    protocol = whole ? byte(9) : 0;
  } else if (version == 6 && ip.size() >= 40) {
    addresses = 8;
    address_bytes = 32;
    payload = 40;
    protocol = byte(6);
  } else {
    return 0;
  }
  std::array<std::byte, kToeplitzBytes> input;
  std::copy_n(&ip[addresses], address_bytes, input.begin());
  size_t bytes = address_bytes;
  if ((protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) &&
      payload + kPortBytes <= ip.size()) {
    std::copy_n(&ip[payload], kPortBytes, &input[bytes]);
    bytes += kPortBytes;
  }
  return ToeplitzHash(std::span(input).first(bytes));
}

}  // namespace carillon::packet_io
