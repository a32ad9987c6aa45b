#include "devices/packet_io/toeplitz.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carillon::packet_io {
namespace {

// "Verifying the RSS Hash Calculation", of Microsoft's documentation of NDIS.
struct Vector {
  const char* destination;
  uint16_t destination_port;
  const char* source;
  uint16_t source_port;
  uint32_t of_addresses;
  uint32_t with_ports;
};
constexpr Vector kVectors[] = {
    {"161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178},
    {"65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea},
    {"12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a},
    {"209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f},
    {"202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2},
    {"3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5,
     0x40207d3d},
    {"ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c,
     0xdde51bbf},
    {"fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
     44251, 0x4b61e985, 0x02d1feef},
};

std::vector<std::byte> Packet(const Vector& vector, uint8_t protocol) {
  const bool six = std::string(vector.source).find(':') != std::string::npos;
  std::vector<std::byte> packet(six ? 44 : 24);
  packet[0] = std::byte(six ? 0x60 : 0x45);
  packet[six ? 6 : 9] = std::byte{protocol};
  const int family = six ? AF_INET6 : AF_INET;
  EXPECT_EQ(inet_pton(family, vector.source, &packet[six ? 8 : 12]), 1);
  EXPECT_EQ(inet_pton(family, vector.destination, &packet[six ? 24 : 16]), 1);
  const size_t ports = six ? 40 : 20;
  for (size_t i = 0; i < 2; ++i) {
    const uint16_t port = i == 0 ? vector.source_port : vector.destination_port;
    packet[ports + 2 * i] = static_cast<std::byte>(port >> 8);
    packet[ports + 2 * i + 1] = static_cast<std::byte>(port & 0xff);
  }
  return packet;
}

TEST(FlowHash, IsThePublishedOne) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(FlowHash(Packet(vector, 6)), vector.with_ports) << vector.source;
    EXPECT_EQ(FlowHash(Packet(vector, 17)), vector.with_ports) << vector.source;
    EXPECT_EQ(FlowHash(Packet(vector, 1)), vector.of_addresses)
        << vector.source;
  }
}

// The first fragment of a datagram has ports, and the others have not.
TEST(FlowHash, OfAllFragmentsIsTheSame) {
  for (const Vector& vector : kVectors) {
    std::vector<std::byte> packet = Packet(vector, 17);
    if (packet.size() != 24) continue;
    packet[6] = std::byte{0x20};
    EXPECT_EQ(FlowHash(packet), vector.of_addresses);
    packet[6] = std::byte{0};
    packet[7] = std::byte{1};
    EXPECT_EQ(FlowHash(packet), vector.of_addresses);
    // "Don't fragment" is no fragment.
    packet[6] = std::byte{0x40};
    packet[7] = std::byte{0};
    EXPECT_EQ(FlowHash(packet), vector.with_ports);
  }
}

TEST(FlowHash, PortsStandBehindOptions) {
  const Vector& vector = kVectors[0];
  std::vector<std::byte> packet = Packet(vector, 17);
  packet[0] = std::byte{0x47};
  packet.insert(packet.begin() + 20, 8, std::byte{1});
  EXPECT_EQ(FlowHash(packet), vector.with_ports);
  packet.resize(31);
  EXPECT_EQ(FlowHash(packet), vector.of_addresses);
}

TEST(FlowHash, OfWhatIsTooShortIsZero) {
  const std::vector<std::byte> packet = Packet(kVectors[0], 17);
  for (size_t bytes = 0; bytes < 20; ++bytes) {
    EXPECT_EQ(FlowHash(std::span(packet).first(bytes)), 0u);
  }
}

}  // namespace
}  // namespace carillon::packet_io
