#include "devices/packet_io/port_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::packet_io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum PortSpec::Kind;

TEST(PortSpec, PortsStandBehindCommasOrSpaces) {
  const auto ports =
      ParsePorts("lan=af_packet:eth1, wan_2=tap:tap0,c=tap:with:colon");
  ASSERT_TRUE(ports.ok()) << ports.status();
  EXPECT_THAT(*ports, ElementsAre(PortSpec{"lan", kAfPacket, "eth1"},
                                  PortSpec{"wan_2", kTap, "tap0"},
                                  PortSpec{"c", kTap, "with:colon"}));
  const auto others =
      ParsePorts("x=af_xdp:eth0 y=af_xdp:eth1:7 z=udp:192.0.2.1:7");
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_THAT(*others, ElementsAre(PortSpec{"x", kAfXdp, "eth0", 0},
                                   PortSpec{"y", kAfXdp, "eth1", 7},
                                   PortSpec{"z", kUdp, "192.0.2.1:7"}));
}

TEST(PortSpec, SaysWhatIsWrongWithWhichPort) {
  for (const auto& [text, complaint] : {
           std::pair<const char*, const char*>{"", "0 ports"},
           {"a=tap:t0 eth0", "'eth0': there is no ="},
           {"a:tap=t0", "there is no ="},
           {"A=tap:t0", "other characters"},
           {"=tap:t0", "other characters"},
           {"a=pcap:t0", "there is no kind 'pcap'"},
           {"a=udp:t0", "its address is none"},
           {"a=af_xdp:t0:", "the queue is no number"},
           {"a=af_xdp:t0:1024", "the queue is no number"},
           {"a=af_xdp::1", "1 to 15 characters"},
           {"a=af_xdp:t0:1,b=af_packet:t0", "another port"},
           {"a=tap:", "1 to 15 characters"},
           {"a=tap:sixteencharacter", "1 to 15 characters"},
           {"a=tap:t0,a=tap:t1", "'a=tap:t1': another port"},
           {"a=tap:t0,b=af_packet:t0", "another port"},
           {"a=tap:0 b=tap:1 c=tap:2 d=tap:3 e=tap:4 f=tap:5 g=tap:6 h=tap:7 "
            "i=tap:8",
            "9 ports; allowed: 1 to 8"},
       }) {
    const auto ports = ParsePorts(text);
    EXPECT_EQ(ports.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(ports.status().message()), HasSubstr(complaint));
  }
}

}  // namespace
}  // namespace carillon::packet_io
