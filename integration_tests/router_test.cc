// The router as users start it: packets of a pcap file through gpud's event
// kernels, and frames in another, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using ::testing::HasSubstr;
using testing::Testbed;
using Bytes = std::vector<uint8_t>;

constexpr char kRoutes[] =
    "10.0.0.0/8      02:00:00:00:01:00 02:00:00:00:00:0a\n"
    "10.1.0.0/16     02:00:00:00:01:01 02:00:00:00:00:0b\n"
    "10.1.2.128/25   02:00:00:00:01:02 02:00:00:00:00:0c 68\n"
    "2001:db8::/32   02:00:00:00:01:03 02:00:00:00:00:0d\n"
    "2001:db8::/45   02:00:00:00:01:04 02:00:00:00:00:0e\n";

void PutChecksum(Bytes& ip) {
  ip[10] = ip[11] = 0;
  uint32_t sum = 0;
  for (size_t i = 0; i < 20; i += 2) sum += ip[i] * 256u + ip[i + 1];
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  ip[10] = static_cast<uint8_t>((0xffff - sum) >> 8);
  ip[11] = static_cast<uint8_t>(0xffff - sum);
}

Bytes Ipv4(std::array<uint8_t, 4> to, uint8_t ttl, uint16_t id) {
  Bytes ip = {0x45,
              0,
              0,
              28,
              static_cast<uint8_t>(id >> 8),
              static_cast<uint8_t>(id),
              0,
              0,
              ttl,
              17,
              0,
              0,
              198,
              51,
              100,
              7};
  ip.insert(ip.end(), to.begin(), to.end());
  PutChecksum(ip);
  for (uint8_t i = 0; i < 8; ++i) ip.push_back(i);
  return ip;
}

Bytes Ipv6(uint8_t fifth, uint8_t hops, uint16_t id) {
  Bytes ip = {0x60, 0, 0, 0, 0, 8, 17, hops, 0x20, 0x01, 0x0d, 0xb8};
  ip.resize(24);
  ip[23] = 7;
  ip.insert(ip.end(), {0x20, 0x01, 0x0d, 0xb8, 0, fifth});
  ip.resize(40);
  ip[39] = 1;
  ip.insert(ip.end(), {static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id),
                       0, 0, 0, 0, 0, 0});
  return ip;
}

// A frame whose addresses end with these bytes.
Bytes Frame(uint8_t to, uint8_t from, const Bytes& ip, uint16_t type = 0) {
  if (type == 0) type = ip[0] >> 4 == 4 ? 0x0800 : 0x86dd;
  Bytes frame = {2,
                 0,
                 0,
                 0,
                 1,
                 to,
                 2,
                 0,
                 0,
                 0,
                 0,
                 from,
                 static_cast<uint8_t>(type >> 8),
                 static_cast<uint8_t>(type)};
  frame.insert(frame.end(), ip.begin(), ip.end());
  return frame;
}

void WritePcap(const std::string& path, const std::vector<Bytes>& frames) {
  pcap_t* const format = pcap_open_dead(DLT_EN10MB, 65535);
  pcap_dumper_t* const file = pcap_dump_open(format, path.c_str());
  ASSERT_NE(file, nullptr) << pcap_geterr(format);
  for (const Bytes& frame : frames) {
    pcap_pkthdr header{};
    header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
    pcap_dump(reinterpret_cast<u_char*>(file), &header, frame.data());
  }
  pcap_dump_close(file);
  pcap_close(format);
}

// The frames of one EtherType.
std::vector<Bytes> ReadPcap(const std::string& path, uint16_t type) {
  char error[PCAP_ERRBUF_SIZE];
  pcap_t* const file = pcap_open_offline(path.c_str(), error);
  EXPECT_NE(file, nullptr) << error;
  std::vector<Bytes> frames;
  pcap_pkthdr* header;
  const u_char* data;
  while (file != nullptr && pcap_next_ex(file, &header, &data) == 1) {
    if (data[12] * 256 + data[13] != type) continue;
    frames.emplace_back(data, data + header->caplen);
  }
  if (file != nullptr) pcap_close(file);
  return frames;
}

class RouterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove(to_);
    auto testbed = Testbed::Start();
    ASSERT_TRUE(testbed.ok()) << std::string(testbed.status().message());
    testbed_ = *std::move(testbed);
    std::ofstream(routes_) << kRoutes;
  }
  int Run(const std::vector<std::string>& flags) {
    auto device =
        testbed_->StartDevice("router0", "devices/router/router", flags);
    EXPECT_TRUE(device.ok()) << std::string(device.status().message());
    const auto exit = (*device)->Wait();
    EXPECT_TRUE(exit.has_value()) << "it does not end";
    output_ = (*device)->output();
    return exit.value_or(-1000);
  }

  const std::string routes_ = ::testing::TempDir() + "/routes.txt";
  const std::string from_ = ::testing::TempDir() + "/from.pcap";
  const std::string to_ = ::testing::TempDir() + "/to.pcap";
  std::unique_ptr<Testbed> testbed_;
  std::string output_;
};

TEST_F(RouterTest, EveryPacketGoesOutOnceTheRightWayOrIsDroppedForAReason) {
  constexpr int kRounds = 1'000;
  std::vector<Bytes> in, ipv4, ipv6;
  // (first, then) what arrives, and what goes out; nothing: it is dropped.
  const auto add = [&](const Bytes& ip, std::vector<Bytes>* out, uint8_t to,
                       uint8_t from) {
    in.push_back(Frame(0xee, 0xdd, ip));
    if (out == nullptr) return;
    Bytes sent = ip;
    --sent[ip[0] >> 4 == 4 ? 8 : 7];
    if (ip[0] >> 4 == 4) PutChecksum(sent);
    out->push_back(Frame(to, from, sent));
  };
  for (int i = 0; i < kRounds; ++i) {
    const auto id = static_cast<uint16_t>(i);
    add(Ipv4({10, 9, 9, 9}, 64, id), &ipv4, 0, 0x0a);
    add(Ipv4({10, 1, 2, 127}, 2, id), &ipv4, 1, 0x0b);
    add(Ipv4({10, 1, 2, 128}, 255, id), &ipv4, 2, 0x0c);
    add(Ipv4({10, 1, 2, 128}, 1, id), nullptr, 0, 0);  // no hop left
    add(Ipv4({11, 0, 0, 1}, 64, id), nullptr, 0, 0);   // no route
    add(Ipv4({127, 0, 0, 1}, 64, id), nullptr, 0, 0);  // martian
    Bytes broken = Ipv4({10, 9, 9, 9}, 64, id);
    broken[11] ^= 1;
    add(broken, nullptr, 0, 0);
    Bytes cut = Ipv4({10, 9, 9, 9}, 64, id);
    cut.resize(25);
    add(cut, nullptr, 0, 0);
    add(Ipv6(0, 64, id), &ipv6, 4, 0x0e);
    add(Ipv6(8, 64, id), &ipv6, 3, 0x0d);
    add(Ipv6(0, 0, id), nullptr, 0, 0);
    in.push_back(Frame(0xee, 0xdd, Bytes(28), 0x0806));  // ARP
  }
  WritePcap(from_, in);
  EXPECT_EQ(Run({"--routes", routes_, "--from", from_, "--to", to_}), 0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("12000 packets, 5000 forwarded"));
  EXPECT_TRUE(ReadPcap(to_, 0x0800) == ipv4);
  EXPECT_TRUE(ReadPcap(to_, 0x86dd) == ipv6);
}

TEST_F(RouterTest, FilesThatItCannotUseEndItWithTheirNames) {
  EXPECT_EQ(Run({"--routes", routes_, "--from", routes_, "--to", to_}), 2);
  EXPECT_THAT(output_, HasSubstr("routes.txt: "));
  EXPECT_EQ(Run({"--routes", routes_}), 2);
  EXPECT_THAT(output_, HasSubstr("--from (from)"));
  WritePcap(from_, {});
  EXPECT_EQ(Run({"--routes", from_, "--from", from_, "--to", to_}), 2);
  EXPECT_THAT(output_, HasSubstr("from.pcap: line 1: "));
}

TEST_F(RouterTest, WhatIsReadIsNeverOverwritten) {
  WritePcap(from_, {Frame(1, 2, Ipv4({10, 9, 9, 9}, 64, 1))});
  std::filesystem::create_hard_link(from_, to_);
  const auto size = std::filesystem::file_size(from_);
  for (const std::string& to : {from_, to_, routes_}) {
    EXPECT_EQ(Run({"--routes", routes_, "--from", from_, "--to", to}), 2);
    EXPECT_THAT(output_, HasSubstr("would overwrite the file that is read"));
  }
  EXPECT_EQ(std::filesystem::file_size(from_), size);
  EXPECT_GT(std::filesystem::file_size(routes_), 0);
}

TEST_F(RouterTest, PacketsBeforeATornEndGoOut) {
  WritePcap(from_,
            std::vector<Bytes>(7, Frame(1, 2, Ipv4({10, 9, 9, 9}, 64, 1))));
  std::filesystem::resize_file(from_, std::filesystem::file_size(from_) - 1);
  EXPECT_EQ(Run({"--routes", routes_, "--from", from_, "--to", to_}), 1);
  EXPECT_THAT(output_, HasSubstr("from.pcap: truncated dump file"));
  EXPECT_EQ(ReadPcap(to_, 0x0800).size(), 6);
}

}  // namespace
}  // namespace carillon
