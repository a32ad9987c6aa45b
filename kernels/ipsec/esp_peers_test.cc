// What esp_encrypt makes, others decrypt, and what they make, esp_decrypt does:
// Scapy both ways, and Wireshark's tshark, which also checks the ICVs.
//
//   esp_peers_test PEER SCRIPT    PEER: scapy or tshark
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include "kernels/ipsec/esp_test_util.h"
#include "kernels/ipsec/nist_vectors.h"

namespace carillon::ipsec_test {
namespace {

std::string script;

constexpr uint32_t kStride = 2048;
constexpr uint32_t kPlaces = 16;
constexpr uint32_t kTunnels = 4;
constexpr const char* kLocal[kTunnels] = {"198.51.100.1", "198.51.100.1",
                                          "2001:db8:e::1", "2001:db8:e::1"};
constexpr const char* kPeer[kTunnels] = {"192.0.2.1", "192.0.2.2",
                                         "2001:db8:f::1", "2001:db8:f::2"};

std::vector<Association> Table() {
  std::vector<Association> table(kPlaces);
  for (uint32_t i = 0; i < kTunnels; ++i) {
    const Suite suite = i % 2 == 0 ? Suite::kTripleDesSha1 : Suite::kAesGcm;
    table[i] = MakeAssociation(0x5000 + i, suite, Direction::kOutbound,
                               kLocal[i], kPeer[i], i);
    table[8 + i] = MakeAssociation(0x1008 + i, suite, Direction::kInbound,
                                   kLocal[i], kPeer[i], 100 + i);
  }
  return table;
}
std::vector<Route> Routes() {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < kTunnels; ++i) {
    routes.push_back(
        {*forwarding::ParsePrefix(fmt::format("10.{}.0.0/16", i)), i});
    routes.push_back(
        {*forwarding::ParsePrefix(fmt::format("2001:db8:{}::/48", i + 1)), i});
  }
  return routes;
}

// To or from the network behind a peer.
Bytes Inner(uint32_t tunnel, bool four, uint32_t payload, bool outbound) {
  const auto near = Address(four ? "172.16.0.9" : "2001:db8:aa::9");
  const auto far = Address(four ? fmt::format("10.{}.2.3", tunnel)
                                : fmt::format("2001:db8:{}::7", tunnel + 1));
  const auto& from = outbound ? near : far;
  const auto& to = outbound ? far : near;
  return four ? MakeIpv4(from, to, 64, payload)
              : MakeIpv6(from, to, 64, payload);
}
Bytes OneHopLess(Bytes inner) {
  if (inner[0] >> 4 == 4) {
    --inner[8];
    forwarding::SetChecksum(inner);
  } else {
    --inner[7];
  }
  return inner;
}

std::string ScapySa(const Association& sa) {
  const bool gcm = sa.suite == Suite::kAesGcm;
  return fmt::format("{} {} {} {}", gcm ? "AES-GCM" : "3DES",
                     ToHex(sa.cipher_key), gcm ? "-" : ToHex(sa.integrity_key),
                     sa.spi);
}

std::string TemporaryFile(const std::string& name) {
  const char* const folder = getenv("TEST_TMPDIR");
  return (folder == nullptr ? std::string("/tmp") : std::string(folder)) + "/" +
         name;
}

std::vector<std::string> LinesOf(const std::string& command) {
  FILE* const output = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), output)) > 0;) {
    text.append(part.data(), got);
  }
  EXPECT_EQ(pclose(output), 0) << command;
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Scapy(const std::vector<std::string>& requests) {
  const std::string file = TemporaryFile("requests");
  std::ofstream out(file);
  for (const std::string& request : requests) out << request << "\n";
  out.close();
  return LinesOf("/usr/bin/python3 -B " + script + " < " + file);
}

// Of each tunnel and version, packets of many lengths, with a whole UDP header.
std::vector<Bytes> InnerPackets(bool outbound, std::vector<uint32_t>* tunnels) {
  std::vector<Bytes> packets;
  for (uint32_t i = 0; i < 120; ++i) {
    tunnels->push_back(i % kTunnels);
    packets.push_back(Inner(i % kTunnels, i / kTunnels % 2 == 0,
                            i < 100 ? 9 + i / 2 : i * 11, outbound));
  }
  return packets;
}

TEST(Scapy, DecryptsWhatTheKernelEncrypts) {
  Gateway gateway(Table(), Routes(), kStride);
  std::vector<uint32_t> tunnels;
  const std::vector<Bytes> packets = InnerPackets(true, &tunnels);
  const auto sealed = gateway.Encrypt(packets);
  std::vector<std::string> requests;
  for (size_t i = 0; i < packets.size(); ++i) {
    ASSERT_EQ(sealed[i].verdict, Verdict::kDone);
    requests.push_back("open " + ScapySa(Table()[tunnels[i]]) + " " +
                       ToHex(sealed[i].packet));
  }
  const auto opened = Scapy(requests);
  ASSERT_EQ(opened.size(), packets.size());
  for (size_t i = 0; i < packets.size(); ++i) {
    EXPECT_EQ(opened[i], ToHex(OneHopLess(packets[i]))) << i;
  }
}

TEST(Scapy, EncryptsWhatTheKernelDecrypts) {
  Gateway gateway(Table(), Routes(), kStride);
  std::vector<uint32_t> tunnels;
  const std::vector<Bytes> packets = InnerPackets(false, &tunnels);
  std::vector<std::string> requests;
  for (size_t i = 0; i < packets.size(); ++i) {
    const uint32_t tunnel = tunnels[i];
    requests.push_back(
        fmt::format("seal {} {} {} {} {}", ScapySa(Table()[8 + tunnel]), i + 1,
                    kPeer[tunnel], kLocal[tunnel], ToHex(packets[i])));
  }
  std::vector<Bytes> sealed;
  for (const std::string& line : Scapy(requests)) {
    sealed.push_back(FromHex(line));
  }
  ASSERT_EQ(sealed.size(), packets.size());
  const auto opened = gateway.Decrypt(sealed);
  for (size_t i = 0; i < packets.size(); ++i) {
    ASSERT_EQ(opened[i].verdict, Verdict::kDone) << i;
    EXPECT_EQ(ToHex(opened[i].packet), ToHex(packets[i])) << i;
  }
}

TEST(Tshark, DecryptsWhatTheKernelEncrypts) {
  Gateway gateway(Table(), Routes(), kStride);
  std::vector<uint32_t> tunnels;
  const std::vector<Bytes> packets = InnerPackets(true, &tunnels);
  const std::string file = TemporaryFile("esp.pcap");
  std::ofstream pcap(file, std::ios::binary);
  const auto put = [&](std::initializer_list<uint32_t> words) {
    for (const uint32_t word : words) {
      pcap.write(reinterpret_cast<const char*>(&word), sizeof(word));
    }
  };
  put({0xa1b2c3d4, 0x00040002, 0, 0, 65535, 101 /* raw IP */});
  for (const Handled& one : gateway.Encrypt(packets)) {
    ASSERT_EQ(one.verdict, Verdict::kDone);
    const auto size = static_cast<uint32_t>(one.packet.size());
    put({0, 0, size, size});
    pcap.write(reinterpret_cast<const char*>(one.packet.data()), size);
  }
  pcap.close();
  std::string command = "tshark -n -r " + file +
                        " -o esp.enable_encryption_decode:TRUE"
                        " -o esp.enable_authentication_check:TRUE";
  for (uint32_t i = 0; i < kTunnels; ++i) {
    const Association sa = Table()[i];
    const bool gcm = sa.suite == Suite::kAesGcm;
    command += fmt::format(
        " -o "
        "'uat:esp_sa:\"{}\",\"*\",\"*\",\"{:#010x}\",\"{}\",\"0x{}\",\"{}\","
        "\"{}\"'",
        i < 2 ? "IPv4" : "IPv6", sa.spi,
        gcm ? "AES-GCM [RFC4106]" : "TripleDES-CBC [RFC2451]",
        ToHex(sa.cipher_key), gcm ? "NULL" : "HMAC-SHA-1-96 [RFC2404]",
        gcm ? "" : "0x" + ToHex(sa.integrity_key));
  }
  command += " -T fields -e esp.icv_good -e esp.decrypted_data 2>/dev/null";
  const auto lines = LinesOf(command);
  ASSERT_EQ(lines.size(), packets.size());
  for (size_t i = 0; i < packets.size(); ++i) {
    // Version 4.0 does not check GCM's ICV.
    const bool checked = Table()[tunnels[i]].suite != Suite::kAesGcm;
    EXPECT_TRUE(lines[i].starts_with((checked ? "1\t" : "\t") +
                                     ToHex(OneHopLess(packets[i]))))
        << lines[i];
  }
}

}  // namespace
}  // namespace carillon::ipsec_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;
  carillon::ipsec_test::script = argv[2];
  testing::GTEST_FLAG(filter) =
      std::string(argv[1]) == "tshark" ? "Tshark.*" : "Scapy.*";
  return RUN_ALL_TESTS();
}
