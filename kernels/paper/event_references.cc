#include "kernels/paper/event_references.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>

namespace carillon::kernels::reference {
namespace {

constexpr size_t kIp = 14;  // in a frame
constexpr size_t kIpv4Bytes = 20;

constexpr Mac kOldTo = {2, 0, 0, 0, 0, 1};
constexpr Mac kOldFrom = {2, 0, 0, 0, 0, 2};

void PutEthernet(std::span<uint8_t> frame, const Mac& to, const Mac& from) {
  std::ranges::copy(to, frame.begin());
  std::ranges::copy(from, frame.begin() + 6);
}

void PutHalf(std::span<uint8_t> bytes, size_t at, uint32_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

void PutIpv4Checksum(std::span<uint8_t> frame) {
  PutHalf(frame, kIp + 10, 0);
  PutHalf(frame, kIp + 10, InternetChecksum(frame.subspan(kIp, kIpv4Bytes)));
}

std::string Half(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string MemcFrame(const std::string& ethernet, uint32_t ip_id,
                      const std::string& addresses, uint32_t from_port,
                      uint32_t to_port, uint32_t udp_checksum, uint32_t id,
                      std::string_view text) {
  const uint32_t udp = 16 + static_cast<uint32_t>(text.size());
  std::string ip = Half(0x4500) + Half(20 + udp) + Half(ip_id) + Half(0x4000) +
                   Half(0x4011) + Half(0) + addresses;
  const std::vector<uint8_t> header(ip.begin(), ip.end());
  ip.replace(10, 2, Half(InternetChecksum(header)));
  return ethernet + Half(0x0800) + ip + Half(from_port) + Half(to_port) +
         Half(udp) + Half(udp_checksum) + Half(id) + Half(0) + Half(1) +
         Half(0) + std::string(text);
}

}  // namespace

uint16_t InternetChecksum(std::span<const uint8_t> header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) {
    sum += uint32_t{header[i]} << 8 | header[i + 1];
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

Mac HopTo(uint32_t hop) {
  return {0xaa, 0xbb, 0xcc, 0, uint8_t(hop >> 8), uint8_t(hop)};
}
Mac HopFrom(uint32_t hop) {
  return {0x10, 0x20, 0x30, 7, uint8_t(hop >> 8), uint8_t(hop)};
}

std::vector<FigNextHop> MakeHops(uint32_t count) {
  std::vector<FigNextHop> hops;
  for (uint32_t i = 0; i < count; ++i) {
    hops.push_back(MakeNextHop(HopTo(i), HopFrom(i)));
  }
  return hops;
}

void PutIpv4(std::span<uint8_t> frame, uint32_t to, uint8_t ttl,
             std::mt19937& random) {
  PutEthernet(frame, kOldTo, kOldFrom);
  PutHalf(frame, 12, 0x0800);
  const std::span ip = frame.subspan(kIp, kIpv4Bytes);
  for (uint8_t& byte : ip) byte = static_cast<uint8_t>(random());
  ip[0] = 0x45;
  ip[8] = ttl;
  PutHalf(ip, 16, to >> 16);
  PutHalf(ip, 18, to & 0xffff);
  PutIpv4Checksum(frame);
}

void PutIpv6(std::span<uint8_t> frame, const Address6& to, uint8_t hop_limit,
             std::mt19937& random) {
  PutEthernet(frame, kOldTo, kOldFrom);
  PutHalf(frame, 12, 0x86dd);
  const std::span ip = frame.subspan(kIp, 40);
  for (uint8_t& byte : ip.first(24)) byte = static_cast<uint8_t>(random());
  ip[0] = 0x60;
  ip[7] = hop_limit;
  std::ranges::copy(to, ip.begin() + 24);
}

uint32_t NextHop(std::span<const Prefix4> prefixes, uint32_t address) {
  int best = -1;
  uint32_t hop = kFigNoHop;
  for (const Prefix4& prefix : prefixes) {
    const uint64_t mask = ~uint64_t{0} << (32 - prefix.length);
    if (((address ^ prefix.address) & mask & 0xffffffff) != 0) continue;
    if (prefix.length < best) continue;
    best = prefix.length;
    hop = prefix.next_hop;
  }
  return hop;
}

uint32_t NextHop(std::span<const Prefix6> prefixes, const Address6& address) {
  int best = -1;
  uint32_t hop = kFigNoHop;
  for (const Prefix6& prefix : prefixes) {
    bool same = true;
    for (int bit = 0; bit < prefix.length && same; ++bit) {
      const int shift = 7 - bit % 8;
      same = (address[bit / 8] >> shift & 1) ==
             (prefix.address[bit / 8] >> shift & 1);
    }
    if (!same || prefix.length < best) continue;
    best = prefix.length;
    hop = prefix.next_hop;
  }
  return hop;
}

std::vector<uint8_t> Forwarded4(std::span<const uint8_t> frame, uint32_t hop) {
  std::vector<uint8_t> out(frame.begin(), frame.end());
  PutEthernet(out, HopTo(hop), HopFrom(hop));
  out[kIp + 8] -= 1;
  PutIpv4Checksum(out);
  return out;
}

std::vector<uint8_t> Forwarded6(std::span<const uint8_t> frame, uint32_t hop) {
  std::vector<uint8_t> out(frame.begin(), frame.end());
  PutEthernet(out, HopTo(hop), HopFrom(hop));
  out[kIp + 7] -= 1;
  return out;
}

uint32_t Route4(std::span<const Prefix4> prefixes,
                std::span<const uint8_t> frame) {
  if (frame[kIp + 8] <= 1) return kFigNoHop;
  uint32_t to = 0;
  for (const uint8_t byte : frame.subspan(kIp + 16, 4)) to = to << 8 | byte;
  return NextHop(prefixes, to);
}

uint32_t Route6(std::span<const Prefix6> prefixes,
                std::span<const uint8_t> frame) {
  if (frame[kIp + 7] <= 1) return kFigNoHop;
  Address6 to;
  std::ranges::copy(frame.subspan(kIp + 24, 16), to.begin());
  return NextHop(prefixes, to);
}

std::string MemcDatagram::Frame() const {
  return MemcFrame(to_mac + from_mac, 77, from_ip + to_ip, from_port, to_port,
                   0xbeef, id, text);
}

std::string MemcDatagram::Reply(std::string_view reply_text) const {
  return MemcFrame(from_mac + to_mac, 0, to_ip + from_ip, 9960, from_port, 0,
                   id, reply_text);
}

std::string MemcText(std::string_view key, const std::string* value) {
  if (value == nullptr) return "END\r\n";
  return "VALUE " + std::string(key) + " 0 " + std::to_string(value->size()) +
         "\r\n" + *value + "\r\nEND\r\n";
}

std::string TripleDes(std::span<const uint8_t> key, std::string_view text) {
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  std::string out(text.size() + 8, '\0');
  int length = 0;
  const bool good =
      key.size() == 24 &&
      EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, key.data(),
                         nullptr) == 1 &&
      EVP_EncryptUpdate(context, reinterpret_cast<uint8_t*>(out.data()),
                        &length, reinterpret_cast<const uint8_t*>(text.data()),
                        static_cast<int>(text.size())) == 1;
  EVP_CIPHER_CTX_free(context);
  out.resize(good ? static_cast<size_t>(length) : 0);
  return out;
}

}  // namespace carillon::kernels::reference
