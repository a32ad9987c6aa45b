// The frames of memcached clients that GNoM takes in, and those that it answers
// with, made byte by byte.
#ifndef CARILLON_KERNELS_MEMCACHED_GNOM_FRAME_H_
#define CARILLON_KERNELS_MEMCACHED_GNOM_FRAME_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace carillon::kernels {

inline constexpr uint32_t kServerAddress = 0x0a000002;  // 10.0.0.2
inline constexpr uint32_t kServerPort = 11211;

inline std::string Big16(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}
inline std::string Big32(uint32_t value) {
  return Big16(value >> 16) + Big16(value & 0xffff);
}

// RFC 1071, byte by byte.
inline uint32_t ChecksumOf(std::string_view bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t byte = static_cast<uint8_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

// The headers of one frame, with what a client would write there.
struct FrameSpec {
  std::string to_ethernet = "\x02\x0a\x0b\x0c\x0d\x0e";
  std::string from_ethernet = "\x02\x01\x23\x45\x67\x89";
  uint32_t ethertype = 0x0800;
  uint32_t version = 4;
  std::string options;  // whole words
  uint32_t fragment = 0x4000;
  uint32_t protocol = 17;
  uint32_t from = 0x0a000001;
  uint32_t to = kServerAddress;
  uint32_t from_port = 40000;
  uint32_t to_port = kServerPort;
  uint32_t id = 0x1234;
  uint32_t total_datagrams = 1;
  bool udp_checksum = true;
  // What the lengths say too much.
  int32_t more_ip = 0;
  int32_t more_udp = 0;
};

inline std::string UdpDatagram(const FrameSpec& spec, std::string_view data) {
  const auto length = static_cast<uint32_t>(8 + data.size() + spec.more_udp);
  std::string udp = Big16(spec.from_port) + Big16(spec.to_port) +
                    Big16(length) + Big16(0) + std::string(data);
  if (!spec.udp_checksum) return udp;
  const std::string pseudo =
      Big32(spec.from) + Big32(spec.to) + Big16(17) + Big16(length);
  uint32_t checksum = ChecksumOf(pseudo + udp);
  if (checksum == 0) checksum = 0xffff;
  udp.replace(6, 2, Big16(checksum));
  return udp;
}

inline std::string IpPacket(const FrameSpec& spec, std::string_view payload) {
  const auto words = static_cast<uint32_t>(5 + spec.options.size() / 4);
  const auto total =
      static_cast<uint32_t>(words * 4 + payload.size() + spec.more_ip);
  std::string header;
  header += static_cast<char>(spec.version << 4 | words);
  header += '\0';
  header += Big16(total) + Big16(0x77) + Big16(spec.fragment);
  header += static_cast<char>(61);
  header += static_cast<char>(spec.protocol);
  header += Big16(0) + Big32(spec.from) + Big32(spec.to) + spec.options;
  header.replace(10, 2, Big16(ChecksumOf(header)));
  return header + std::string(payload);
}

inline std::string RequestFrame(const FrameSpec& spec, std::string_view text) {
  const std::string memcached = Big16(spec.id) + Big16(0) +
                                Big16(spec.total_datagrams) + Big16(0) +
                                std::string(text);
  return spec.to_ethernet + spec.from_ethernet + Big16(spec.ethertype) +
         IpPacket(spec, UdpDatagram(spec, memcached));
}

// The frame with which a server answers that request.
inline std::string ReplyFrame(const FrameSpec& request, std::string_view text) {
  FrameSpec reply;
  reply.to_ethernet = request.from_ethernet;
  reply.from_ethernet = request.to_ethernet;
  reply.from = request.to;
  reply.to = request.from;
  reply.from_port = request.to_port;
  reply.to_port = request.from_port;
  reply.id = request.id;
  std::string frame = RequestFrame(reply, text);
  // A server's own: no identification, and a time to live of 64.
  std::string header = frame.substr(14, 20);
  header.replace(4, 2, Big16(0));
  header[8] = 64;
  header.replace(10, 2, Big16(0));
  header.replace(10, 2, Big16(ChecksumOf(header)));
  return frame.replace(14, 20, header);
}

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_GNOM_FRAME_H_
