#include "devices/packet_io/pcap_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pcap/pcap.h>
#include <poll.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/temp_directory.h"

namespace carillon::packet_io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Bytes = std::vector<uint8_t>;

constexpr int64_t kMs = 1'000;  // in microseconds

class PcapPortTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::pair<int64_t, Bytes>>& records,
             int link = DLT_EN10MB) {
    pcap_t* const format = pcap_open_dead(link, 262'144);
    pcap_dumper_t* const file = pcap_dump_open(format, path_.c_str());
    ASSERT_NE(file, nullptr) << pcap_geterr(format);
    for (const auto& [us, bytes] : records) {
      pcap_pkthdr header{};
      header.ts = {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
      header.caplen = header.len = static_cast<bpf_u_int32>(bytes.size());
      pcap_dump(reinterpret_cast<u_char*>(file), &header, bytes.data());
    }
    pcap_dump_close(file);
    pcap_close(format);
  }

  std::string WrittenBytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  // All frames until the end, waiting for those that are not due.
  std::vector<Bytes> ReadAll(PcapPort& port) {
    std::vector<Bytes> all;
    std::vector<Frame> frames;
    while (true) {
      pollfd readable = {port.fd(), POLLIN, 0};
      if (!port.ended()) {
        EXPECT_EQ(poll(&readable, 1, 10'000), 1);
      }
      frames.clear();
      const bool more = port.Receive(&frames);
      for (const Frame& frame : frames) {
        const auto bytes = pool_.frame(frame.buffer).first(frame.length);
        const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
        all.emplace_back(data, data + bytes.size());
        arrived_.push_back(NowNs());
        EXPECT_TRUE(pool_.Give(frame.buffer));
      }
      if (!more && port.ended()) return all;
    }
  }

  std::string OpenError() {
    const auto port = PcapPort::Open({.from = path_}, &pool_);
    EXPECT_EQ(port.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(port.status().message());
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.path() + "/in.pcap";
  std::vector<std::byte> memory_ =
      std::vector<std::byte>(FramePool::BytesFor(8));
  FramePool pool_{memory_};
  std::vector<Nanoseconds> arrived_;
};

TEST_F(PcapPortTest, EveryFrameComesOnceAndGoesOutAsItIs) {
  std::vector<std::pair<int64_t, Bytes>> records;
  std::vector<Bytes> frames;
  for (uint8_t i = 0; i < 200; ++i) {
    frames.push_back(Bytes(14 + i, i));
    records.emplace_back(i, frames.back());
  }
  Write(records);
  const std::string written = WrittenBytes();
  const std::string to = directory_.path() + "/out.pcap";
  auto port = PcapPort::Open({.from = path_, .to = to}, &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  std::vector<Frame> taken;
  std::vector<Bytes> got;
  bool more = true;
  while (more || !(*port)->ended()) {
    taken.clear();
    more = (*port)->Receive(&taken);
    EXPECT_LE(taken.size(), 8u);  // it has no more buffers
    for (const Frame& frame : taken) {
      const auto bytes = pool_.frame(frame.buffer).first(frame.length);
      (*port)->Send({{{bytes.first(14), bytes.subspan(14), frame.time}}});
      const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
      got.emplace_back(data, data + bytes.size());
      pool_.Give(frame.buffer);
    }
  }
  EXPECT_TRUE((*port)->Finish().ok());
  EXPECT_TRUE(got == frames);
  EXPECT_EQ((*port)->counts().received, 200u);
  EXPECT_EQ((*port)->counts().sent, 200u);
  EXPECT_EQ(pool_.free(), 8u);
  std::ifstream file(to, std::ios::binary);
  const std::string out{std::istreambuf_iterator<char>(file), {}};
  constexpr size_t kRecords = 24;  // behind the file's header: the same
  EXPECT_TRUE(out.substr(kRecords) == written.substr(kRecords));
}

TEST_F(PcapPortTest, JumboFramesFitAndLargerOnesAreCounted) {
  Write({{0, Bytes(9'230, 1)},
         {0, Bytes(kMaxFrameBytes, 2)},
         {0, Bytes(kMaxFrameBytes + 1, 3)},
         {0, Bytes(65'549, 4)}});
  auto port = PcapPort::Open({.from = path_}, &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  EXPECT_THAT(ReadAll(**port),
              ElementsAre(SizeIs(9'230), SizeIs(kMaxFrameBytes)));
  EXPECT_EQ((*port)->counts().oversized, 2u);
  EXPECT_EQ(pool_.free(), 8u);
}

TEST_F(PcapPortTest, RawPacketsGetAnEthernetHeader) {
  Write({{0, {0x45, 1}}, {0, {0x60, 2}}, {0, {0x10}}, {0, {}}}, DLT_RAW);
  auto port = PcapPort::Open({.from = path_}, &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const auto frame = [](uint16_t type, Bytes packet) {
    Bytes bytes(12);
    bytes.push_back(static_cast<uint8_t>(type >> 8));
    bytes.push_back(static_cast<uint8_t>(type));
    bytes.insert(bytes.end(), packet.begin(), packet.end());
    return bytes;
  };
  EXPECT_THAT(ReadAll(**port),
              ElementsAre(frame(0x0800, {0x45, 1}), frame(0x86dd, {0x60, 2}),
                          frame(0, {0x10}), frame(0, {})));
}

TEST_F(PcapPortTest, NoFrameComesBeforeItsTime) {
  // The times go back once, as those of several interfaces do.
  Write({{5'000 * kMs, Bytes(20, 1)},
         {5'030 * kMs, Bytes(20, 2)},
         {5'010 * kMs, Bytes(20, 3)},
         {5'060 * kMs, Bytes(20, 4)}});
  auto port = PcapPort::Open({.from = path_, .timed = true}, &pool_);
  ASSERT_TRUE(port.ok()) << port.status();
  const Nanoseconds start = NowNs();
  EXPECT_THAT(ReadAll(**port), ElementsAre(Bytes(20, 1), Bytes(20, 2),
                                           Bytes(20, 3), Bytes(20, 4)));
  EXPECT_GE(arrived_[1] - start, 30u * 1'000'000);
  EXPECT_GE(arrived_[3] - start, 60u * 1'000'000);
}

TEST_F(PcapPortTest, AFileThatIsBrokenSaysSo) {
  EXPECT_THAT(OpenError(), HasSubstr("in.pcap: No such file"));
  WriteBytes("");
  EXPECT_THAT(OpenError(), HasSubstr("truncated dump file"));
  WriteBytes("no capture, but long enough");
  EXPECT_THAT(OpenError(), HasSubstr("unknown file format"));
  Write({{0, Bytes(60, 1)}}, DLT_IEEE802_11);
  EXPECT_THAT(
      OpenError(),
      HasSubstr("in.pcap: its link type is 105 (IEEE802_11); it must be "
                "Ethernet or raw IP"));
  Write({{0, Bytes(60, 1)}});
  const std::string whole = WrittenBytes();
  WriteBytes(whole.substr(0, 23));  // of the 24 of the header
  EXPECT_THAT(OpenError(), HasSubstr("truncated dump file"));
}

TEST_F(PcapPortTest, WhatStandsBeforeTheBreakCounts) {
  Write({{0, Bytes(60, 1)}, {0, Bytes(70, 2)}});
  const std::string whole = WrittenBytes();
  std::string long_record = whole;
  // The captured length of the second record, in the file's own byte order.
  long_record[24 + 16 + 60 + 8 + 1] = 0x20;
  for (const std::string& broken :
       {whole.substr(0, whole.size() - 1), whole.substr(0, 24 + 16 + 60 + 7),
        long_record}) {
    WriteBytes(broken);
    auto port = PcapPort::Open({.from = path_}, &pool_);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_THAT(ReadAll(**port), ElementsAre(Bytes(60, 1)));
    const absl::Status status = (*port)->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("in.pcap: truncated dump file"));
  }
}

TEST_F(PcapPortTest, AFileThatCannotBeMadeIsRefused) {
  const auto port =
      PcapPort::Open({.to = directory_.path() + "/none/out.pcap"}, &pool_);
  EXPECT_EQ(port.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(port.status().message()), HasSubstr("none/out.pcap"));
}

}  // namespace
}  // namespace carillon::packet_io
