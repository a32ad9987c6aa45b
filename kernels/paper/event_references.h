// Reference results of the figures' event kernels: incoming packets and the
// expected outcome. For the kernels' tests and for other programs that run
// them.
#ifndef CARILLON_KERNELS_PAPER_EVENT_REFERENCES_H_
#define CARILLON_KERNELS_PAPER_EVENT_REFERENCES_H_

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/paper/fig_forward.cuh"
#include "kernels/paper/lpm_tables.h"

namespace carillon::kernels::reference {

// RFC 1071, for a header whose sum field is 0.
uint16_t InternetChecksum(std::span<const uint8_t> header);

using Mac = std::array<uint8_t, 6>;
Mac HopTo(uint32_t hop);
Mac HopFrom(uint32_t hop);
std::vector<FigNextHop> MakeHops(uint32_t count);

// Bytes of a frame in a slot of fig_forward.cuh.
inline constexpr uint32_t kFrameBytes = kFigSlotWords * 4 - 2;
using Address6 = std::array<uint8_t, 16>;
// Fills in the Ethernet and IP headers; fields that do not matter are random.
void PutIpv4(std::span<uint8_t> frame, uint32_t to, uint8_t ttl,
             std::mt19937& random);
void PutIpv6(std::span<uint8_t> frame, const Address6& to, uint8_t hop_limit,
             std::mt19937& random);

// Checks every prefix; kFigNoHop if none matches the address.
uint32_t NextHop(std::span<const Prefix4> prefixes, uint32_t address);
uint32_t NextHop(std::span<const Prefix6> prefixes, const Address6& address);

// The frame after it was forwarded to its next hop, which is one of MakeHops().
std::vector<uint8_t> Forwarded4(std::span<const uint8_t> frame, uint32_t hop);
std::vector<uint8_t> Forwarded6(std::span<const uint8_t> frame, uint32_t hop);
// The next hop of a frame that PutIpv4() or PutIpv6() made. It is kFigNoHop
// also if the frame has no hop left.
uint32_t Route4(std::span<const Prefix4> prefixes,
                std::span<const uint8_t> frame);
uint32_t Route6(std::span<const Prefix6> prefixes,
                std::span<const uint8_t> frame);

// A request of a memcached client over UDP.
struct MemcDatagram {
  std::string to_mac = "\x02\x11\x22\x33\x44\x55";
  std::string from_mac = "\x02\x66\x77\x88\x99\xaa";
  std::string from_ip = "\x0a\x01\x02\x03";
  std::string to_ip = "\xc0\xa8\xff\xfe";
  uint32_t from_port = 40000;
  uint32_t to_port = 9960;
  uint32_t id = 0x1234;
  std::string text;

  std::string Frame() const;
  // The frame that answers it.
  std::string Reply(std::string_view reply_text) const;
};
// memcached's answer to a GET of one key. Without a value the key does not
// exist.
std::string MemcText(std::string_view key, const std::string* value);

// Triple DES in ECB mode by OpenSSL, of whole blocks of 8 bytes.
std::string TripleDes(std::span<const uint8_t> key, std::string_view text);

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_PAPER_EVENT_REFERENCES_H_
