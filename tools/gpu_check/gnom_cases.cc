#include "tools/gpu_check/gnom_cases.h"

#include <fmt/format.h>

#include <string>

#include "kernels/memcached/gnom_wire.h"
#include "kernels/memcached/wire.h"

namespace carillon::gpu_check {
namespace {

constexpr uint32_t kSets = 96;
constexpr uint32_t kFrames = 300;
constexpr uint32_t kGrxbs = 512;
constexpr uint32_t kStride = 512;
constexpr uint32_t kServer = 0x0a000002;
constexpr uint32_t kPort = 11211;

std::string Big16(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}
std::string Big32(uint32_t value) {
  return Big16(value >> 16) + Big16(value & 0xffff);
}
std::string Checksum(const std::string& bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t byte = static_cast<uint8_t>(bytes[i]);
    sum += i % 2 == 0 ? byte << 8 : byte;
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return Big16(~sum & 0xffff);
}

std::string RequestFrame(Random* random, const std::string& text) {
  const auto id = random->Small(0, 65535);
  const std::string memcached =
      Big16(id) + Big16(0) + Big16(1) + Big16(0) + text;
  const uint32_t from = random->Small(0x0b000000, 0x0bffffff);
  const auto udp_bytes = static_cast<uint32_t>(8 + memcached.size());
  std::string udp = Big16(random->Small(1, 65535)) + Big16(kPort) +
                    Big16(udp_bytes) + Big16(0) + memcached;
  if (random->Between(0, 3) != 0) {
    udp.replace(6, 2,
                Checksum(Big32(from) + Big32(kServer) + Big16(17) +
                         Big16(udp_bytes) + udp));
  }
  std::string ip = Big16(0x4500) + Big16(20 + udp_bytes) +
                   Big16(random->Small(0, 65535)) + Big16(0x4000) +
                   Big16(64 << 8 | 17) + Big16(0) + Big32(from) +
                   Big32(kServer);
  ip.replace(10, 2, Checksum(ip));
  return std::string(12, '\2') + Big16(0x0800) + ip + udp;
}

}  // namespace

// Stores keys, and gets them by frames, of which every fifth has a byte changed.
// The batch goes on behind the last GRXB with the first.
void AddGnomCases(Random* random, std::vector<Case>* cases) {
  using namespace memcached;
  std::vector<std::string> keys;
  std::string packets;
  std::vector<Request> requests;
  for (uint32_t i = 0; i < kSets; ++i) {
    keys.push_back(
        fmt::format("key{}{}", i, std::string(random->Between(0, 200), 'k')));
    const std::string value(random->Between(0, i % 2 == 0 ? 4 : 500), 'v');
    const std::string set =
        fmt::format("set {} {} 0 {}\r\n{}\r\n", keys[i],
                    random->Between(0, 9999), value.size(), value);
    requests.push_back({static_cast<uint32_t>(packets.size()),
                        static_cast<uint32_t>(set.size()), kStream, 0});
    packets += set;
  }
  const uint32_t first = kGrxbs - random->Small(1, kFrames - 1);
  std::vector<std::byte> grxbs(uint64_t{kGrxbs} * kGrxbBytes);
  for (uint32_t i = 0; i < kFrames; ++i) {
    std::string frame = RequestFrame(
        random, i % 7 == 0 ? fmt::format("get none{}\r\n", i)
                           : fmt::format("get {}\r\n",
                                         keys[random->Between(0, kSets - 1)]));
    if (i % 5 == 0) {
      frame[random->Between(0, frame.size() - 1)] =
          static_cast<char>(random->Between(0, 255));
    }
    const auto length = static_cast<uint16_t>(frame.size());
    std::byte* const to = &grxbs[uint64_t{(first + i) % kGrxbs} * kGrxbBytes];
    std::memcpy(to, &length, sizeof(length));
    std::memcpy(to + kGrxbFrame, frame.data(), frame.size());
  }
  Case one{
      .name = "GNoM: sets, then gets by frames",
      .buffers = {{ToBytes(std::vector<char>(packets.begin(), packets.end()))},
                  {ToBytes(requests)},
                  {Zeros(uint64_t{kSets} * kStride)},
                  {Zeros(kSets * sizeof(Reply))},
                  {Zeros(TableBytes(16 * 1024))},
                  {Zeros(64 * 65536 + 131072)},
                  {Zeros(sizeof(ServerStats))},
                  {std::move(grxbs)},
                  {Zeros(uint64_t{kFrames} * kGnomReplyBytes), Compare::kBytes},
                  {Zeros(kFrames * sizeof(GnomResult)), Compare::kBytes}},
      .launches = {}};
  one.launches.push_back(Launch(
      "memc_set", {kSets / 32, 1, 1}, {32, 1, 1},
      {{"packets", 0},
       {"requests", 1},
       {"replies", 2},
       {"results", 3},
       {"table", 4},
       {"store", 5},
       {"server", 6}},
      {{"now_s", 1'700'000'000}, {"count", kSets}, {"reply_stride", kStride}}));
  one.launches.push_back(Launch("memc_gnom_get", {2, 1, 1}, {512, 1, 1},
                                {{"grxbs", 7},
                                 {"replies", 8},
                                 {"results", 9},
                                 {"table", 4},
                                 {"store", 5}},
                                {{"first", uint64_t{first} * kGrxbBytes},
                                 {"now_s", 1'700'000'000},
                                 {"count", kFrames},
                                 {"address", kServer},
                                 {"port", kPort}}));
  cases->push_back(std::move(one));
}

}  // namespace carillon::gpu_check
