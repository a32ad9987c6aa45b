#include "tools/gpu_check/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "kernels/forwarding/echo_wire.h"
#include "kernels/forwarding/wire.h"
#include "kernels/memcached/wire.h"
#include "kernels/registry.h"
#include "tools/gpu_check/case_parts.h"
#include "tools/gpu_check/edge_cases.h"
#include "tools/gpu_check/gnom_cases.h"
#include "tools/gpu_check/ipsec_cases.h"
#include "tools/gpu_check/narrow_cases.h"

namespace carillon::gpu_check {
namespace {

using gpud::KernelMetadata;
using simt::Dim3;

constexpr uint64_t kAlignment = 256;

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  std::vector<Case> Make(std::vector<std::string>* missing) {
    VectorAdd();
    Echo();
    Crc32();
    NullBusyFail();
    Matmul();
    Conv();
    Dct();
    Reduce();
    Bfs();
    BlackScholes();
    Cutcp();
    Lbm();
    MriQ();
    Pathfinder();
    Sgemm();
    Stencil();
    Memcached();
    Forwarding();
    Pings();
    AddEdgeCases(&random_, &cases_);
    AddNarrowCases(&random_, &cases_);
    AddIpsecCases(&random_, &cases_);
    AddGnomCases(&random_, &cases_);
    std::set<std::string_view> covered;
    for (const Case& one : cases_) {
      for (const CaseLaunch& launch : one.launches) {
        covered.insert(launch.kmd.kernel->name);
      }
    }
    missing->clear();
    for (const simt::KernelInfo* kernel : simt::AllKernels()) {
      if (!covered.contains(kernel->name)) missing->emplace_back(kernel->name);
    }
    return std::move(cases_);
  }

 private:
  void Add(std::string name, std::vector<Buffer> buffers,
           std::vector<CaseLaunch> launches) {
    cases_.push_back(
        {std::move(name), std::move(buffers), std::move(launches)});
  }
  void VectorAdd() {
    for (const bool warp : {true, false}) {
      const uint64_t n =
          warp ? random_.Between(1, 32) : random_.Between(33, 20000);
      const uint32_t block = warp ? 32 : random_.AnyBlock();
      Add(fmt::format("vector_add of {} by blocks of {}", n, block),
          {{random_.Floats(n)},
           {random_.Floats(n)},
           {Zeros(n * 4), Compare::kBytes}},
          {Launch("vector_add", {Blocks(n, block), 1, 1}, {block, 1, 1},
                  {{"a", 0}, {"b", 1}, {"c", 2}})});
    }
    Add("vector_add on too small a grid",
        {{random_.Floats(100)},
         {random_.Floats(100)},
         {Zeros(400), Compare::kBytes}},
        {Launch("vector_add", {2, 1, 1}, {32, 1, 1},
                {{"a", 0}, {"b", 1}, {"c", 2}})});
  }

  void Echo() {
    const uint64_t n = random_.Between(1, 5000);
    const uint32_t block = random_.AnyBlock();
    Add(fmt::format("echo of {} bytes", n),
        {{random_.Bytes(n)}, {random_.Bytes(n + 3), Compare::kBytes}},
        {Launch("echo", {random_.Small(1, 5), 1, 1}, {block, 1, 1},
                {{"in", 0}, {"out", 1}})});
    Add("echo into too small a buffer",
        {{random_.Bytes(64)}, {Zeros(63), Compare::kBytes}},
        {Launch("echo", {1, 1, 1}, {32, 1, 1}, {{"in", 0}, {"out", 1}})});
  }

  void Crc32() {
    const uint64_t count = random_.Between(1, 300);
    const uint64_t bytes = random_.Between(0, 90);
    Add(fmt::format("crc32 of {} messages of {} bytes", count, bytes),
        {{random_.Bytes(count * bytes + 1)},
         {Zeros(count * 4), Compare::kBytes}},
        {Launch("crc32", {Blocks(count, 64), 1, 1}, {64, 1, 1},
                {{"messages", 0}, {"crcs", 1}}, {{"message_bytes", bytes}})});
  }

  void NullBusyFail() {
    Add("null_event", {},
        {Launch("null_event", {1, 1, 1}, {1, 1, 1}, {}, {{"token", 7}})});
    Add("busy", {},
        {Launch("busy", {3, 1, 1}, {random_.AnyBlock(), 1, 1}, {},
                {{"iterations", random_.Between(0, 500)}})});
    const uint64_t code = random_.Between(1, 0x7fffffff);
    Add(fmt::format("fail_if with {}, then without", code), {},
        {Launch("fail_if", {2, 1, 1}, {64, 1, 1}, {}, {{"code", code}}),
         Launch("fail_if", {2, 1, 1}, {64, 1, 1}, {}, {{"code", 0}})});
  }

  void Matmul() {
    const uint32_t n = random_.Small(1, 70);
    const uint32_t blocks = Blocks(n, 16);
    const std::vector<Buffer> buffers = {
        {random_.Floats(uint64_t{n} * n)},
        {random_.Floats(uint64_t{n} * n)},
        {Zeros(uint64_t{n} * n * 4), Compare::kFloats}};
    const std::map<std::string, size_t> names = {{"a", 0}, {"b", 1}, {"c", 2}};
    Add(fmt::format("matmul of {0}x{0}", n), buffers,
        {Launch("matmul", {blocks, blocks, 1}, {16, 16, 1}, names,
                {{"n", n}})});
    // All threads leave before the first barrier.
    Add("matmul of more than there is", buffers,
        {Launch("matmul", {blocks, blocks, 1}, {16, 16, 1}, names,
                {{"n", n + 1}})});
    Add("matmul in blocks that it does not work in", buffers,
        {Launch("matmul", {1, 1, 1}, {32, 1, 1}, names, {{"n", n}})});
  }

  void Conv() {
    const uint32_t width = random_.Small(1, 80);
    const uint32_t height = random_.Small(1, 80);
    std::vector<int32_t> weights(25);
    for (int32_t& weight : weights) {
      weight = static_cast<int32_t>(random_.Between(0, 200)) - 100;
    }
    const uint64_t pixels = uint64_t{width} * height;
    const std::vector<Buffer> buffers = {
        {random_.Bytes(pixels)},
        {ToBytes(weights)},
        {random_.Bytes(pixels), Compare::kBytes}};
    for (const uint64_t shift : {random_.Between(0, 12), uint64_t{40}}) {
      // Blocks beyond the image and threads beyond its edge leave early.
      Add(fmt::format("conv5x5 of {}x{}, shift {}", width, height, shift),
          buffers,
          {Launch("conv5x5", {Blocks(width, 16) + 1, Blocks(height, 16), 1},
                  {16, 16, 1}, {{"image", 0}, {"weights", 1}, {"out", 2}},
                  {{"width", width}, {"height", height}, {"shift", shift}})});
    }
  }

  void Dct() {
    const uint32_t width = random_.Small(1, 90);
    const uint32_t height = random_.Small(1, 90);
    const uint64_t blocks = uint64_t{(width + 7) / 8} * ((height + 7) / 8);
    Add(fmt::format("dct8x8 of {}x{}", width, height),
        {{random_.Bytes(uint64_t{width} * height)},
         {Zeros(blocks * 256), Compare::kFloats}},
        {Launch("dct8x8", {random_.Small(1, 4), 1, 1}, {32, 1, 1},
                {{"image", 0}, {"coefficients", 1}},
                {{"width", width}, {"height", height}})});
    const uint64_t tag = random_.Small(0, 70);
    Add(fmt::format("frame_dct8x8 of {}x{}, a tag of {}", width, height, tag),
        {{random_.Bytes(uint64_t{width} * height + tag)},
         {random_.Bytes(uint64_t{width} * height)},
         {Zeros(tag), Compare::kBytes},
         {Zeros(blocks * 256), Compare::kFloats}},
        {Launch("frame_dct8x8", {random_.Small(1, 4), 1, 1}, {32, 1, 1},
                {{"frame", 0}, {"image", 1}, {"tag", 2}, {"coefficients", 3}},
                {{"width", width}, {"height", height}})});
  }

  void Reduce() {
    for (int i = 0; i < 2; ++i) {
      const uint64_t n = random_.Between(0, 30000);
      const uint32_t block = random_.AnyBlock();
      const CaseLaunch launch = Launch("reduce", {random_.Small(1, 9), 1, 1},
                                       {block, 1, 1}, {{"in", 0}, {"sum", 1}});
      Add(fmt::format("reduce of {} by blocks of {}, twice", n, block),
          {{random_.Bytes(n * 4)}, {Zeros(8), Compare::kBytes}},
          {launch, launch});
    }
  }

  void Bfs() {
    const uint32_t vertices = random_.Small(2, 2000);
    std::vector<uint32_t> rows = {0};
    std::vector<uint32_t> columns;
    for (uint32_t v = 0; v < vertices; ++v) {
      // The first one leads somewhere.
      const uint32_t least = v == 0 ? 1 : 0;
      for (uint64_t e = random_.Between(least, 4); e > 0; --e) {
        columns.push_back(random_.Small(least, vertices - 1));
      }
      rows.push_back(static_cast<uint32_t>(columns.size()));
    }
    if (columns.empty()) columns.push_back(0);
    std::vector<uint32_t> levels(vertices, 0xffffffff);
    levels[0] = 0;
    std::vector<CaseLaunch> launches;
    for (uint32_t level = 0; level < 6; ++level) {
      launches.push_back(
          Launch("bfs_level", {Blocks(vertices, 128), 1, 1}, {128, 1, 1},
                 {{"rows", 0}, {"columns", 1}, {"levels", 2}, {"changed", 3}},
                 {{"level", level}}));
      launches.back().inputs[3] = Zeros(4);
    }
    Add(fmt::format("bfs_level of {} vertices", vertices),
        {{ToBytes(rows)},
         {ToBytes(columns)},
         {ToBytes(levels), Compare::kBytes},
         {Zeros(4), Compare::kBytes}},
        std::move(launches));
  }

  void BlackScholes() {
    const uint64_t n = random_.Between(1, 5000);
    Add(fmt::format("black_scholes of {} options", n),
        {{random_.Floats(n, 5, 30)},
         {random_.Floats(n, 1, 100)},
         {random_.Floats(n, 0.25f, 10)},
         {Zeros(n * 4), Compare::kFloats},
         {Zeros(n * 4), Compare::kFloats}},
        {Launch(
            "black_scholes", {random_.Small(1, 9), 1, 1},
            {random_.AnyBlock(), 1, 1},
            {{"spot", 0}, {"strike", 1}, {"years", 2}, {"call", 3}, {"put", 4}},
            {{"rate", Float(0.02f)}, {"volatility", Float(0.3f)}})});
  }

  void Cutcp() {
    const Dim3 bins{random_.Small(1, 4), random_.Small(1, 4),
                    random_.Small(1, 3)};
    const uint32_t capacity = random_.Small(1, 20);
    // Everywhere, also far from their bins; none on a plane of the lattice.
    std::vector<float> atoms;
    for (uint64_t i = 0; i < bins.count() * capacity; ++i) {
      for (const uint32_t bins_of : {bins.x, bins.y, bins.z}) {
        atoms.push_back(static_cast<float>(random_.Between(0, 8 * bins_of)) +
                        0.5f);
      }
      atoms.push_back(static_cast<float>(random_.Between(0, 4)) - 2);
    }
    // One block more than there are bins in a row.
    Add(fmt::format("cutcp of {}x{}x{} bins of {}", bins.x, bins.y, bins.z,
                    capacity),
        {{ToBytes(atoms)}, {Zeros(bins.count() * 2048), Compare::kFloats}},
        {Launch("cutcp", {bins.x + 1, bins.y, bins.z}, {8, 8, 2},
                {{"atoms", 0}, {"potential", 1}},
                {{"bins_x", bins.x},
                 {"bins_y", bins.y},
                 {"bins_z", bins.z},
                 {"capacity", capacity},
                 {"reach", random_.Between(0, 2)},
                 {"spacing", Float(1)},
                 {"cutoff", Float(9.3f)}})});
  }

  void Lbm() {
    const Dim3 cells{random_.Small(1, 70), random_.Small(1, 9),
                     random_.Small(1, 5)};
    std::vector<uint8_t> solid(cells.count());
    for (uint8_t& cell : solid) cell = random_.Between(0, 9) == 0;
    Add(fmt::format("lbm of {}x{}x{} cells", cells.x, cells.y, cells.z),
        {{random_.Floats(19 * cells.count(), 0.04f, 0.06f)},
         {Zeros(19 * cells.count() * 4), Compare::kFloats},
         {ToBytes(solid)}},
        {Launch("lbm", {Blocks(cells.x, 32), cells.y, cells.z}, {32, 1, 1},
                {{"from", 0}, {"to", 1}, {"solid", 2}},
                {{"width", cells.x},
                 {"height", cells.y},
                 {"depth", cells.z},
                 {"omega", Float(1.25f)}})});
  }

  void MriQ() {
    const uint64_t voxels = random_.Between(1, 1000);
    const uint64_t samples = random_.Between(0, 600);
    Add(fmt::format("mri_q of {} voxels, {} samples", voxels, samples),
        {{random_.Floats(4 * samples, -2, 2)},
         {random_.Floats(voxels)},
         {random_.Floats(voxels)},
         {random_.Floats(voxels)},
         {Zeros(voxels * 4), Compare::kFloats},
         {Zeros(voxels * 4), Compare::kFloats}},
        {Launch("mri_q", {Blocks(voxels, 256), 1, 1}, {256, 1, 1},
                {{"samples", 0},
                 {"x", 1},
                 {"y", 2},
                 {"z", 3},
                 {"real", 4},
                 {"imaginary", 5}})});
  }

  void Pathfinder() {
    const uint64_t columns = random_.Between(1, 2000);
    const uint32_t steps = random_.Small(0, 100);
    std::vector<int32_t> costs(columns * steps + columns);
    for (int32_t& cost : costs) {
      cost = static_cast<int32_t>(random_.Between(0, 20)) - 5;
    }
    Add(fmt::format("pathfinder of {} columns, {} steps", columns, steps),
        {{ToBytes(costs)},
         {ToBytes(std::vector(costs.end() - static_cast<int64_t>(columns),
                              costs.end()))},
         {Zeros(columns * 4), Compare::kBytes}},
        {Launch("pathfinder", {Blocks(columns, 256 - 2 * steps), 1, 1},
                {256, 1, 1}, {{"costs", 0}, {"from", 1}, {"to", 2}},
                {{"columns", columns}, {"steps", steps}})});
  }

  void Sgemm() {
    const uint64_t rows = random_.Between(1, 70);
    const uint64_t columns = random_.Between(1, 70);
    const uint64_t depth = random_.Between(0, 70);
    Add(fmt::format("sgemm of {}x{}x{}", rows, columns, depth),
        {{random_.Floats(rows * depth)},
         {random_.Floats(depth * columns)},
         {random_.Floats(rows * columns), Compare::kFloats}},
        {Launch("sgemm", {Blocks(columns, 32), Blocks(rows, 32), 1},
                {32, 32, 1}, {{"a", 0}, {"b", 1}, {"c", 2}},
                {{"rows", rows},
                 {"columns", columns},
                 {"depth", depth},
                 {"alpha", Float(1.5f)},
                 {"beta", Float(-0.5f)}})});
  }

  void Stencil() {
    const Dim3 cells{random_.Small(1, 140), random_.Small(1, 12),
                     random_.Small(1, 6)};
    Add(fmt::format("stencil of {}x{}x{} cells", cells.x, cells.y, cells.z),
        {{random_.Floats(cells.count())},
         {Zeros(cells.count() * 4), Compare::kFloats}},
        {Launch("stencil", {Blocks(cells.x, 64), Blocks(cells.y, 4), 1},
                {32, 4, 1}, {{"in", 0}, {"out", 1}},
                {{"width", cells.x},
                 {"height", cells.y},
                 {"depth", cells.z},
                 {"centre", Float(0.5f)},
                 {"around", Float(0.25f)}})});
  }

  // Stores keys in batches, different ones in each, so that replies do not
  // depend on the order of threads. Then reads them back, and some that do not
  // exist.
  void Memcached() {
    constexpr uint32_t kCount = 96;
    constexpr uint32_t kStride = 2048;
    constexpr uint64_t kPages = 64;
    std::vector<std::string> keys, sets, gets;
    for (uint32_t i = 0; i < kCount; ++i) {
      keys.push_back(fmt::format("key{}_{}", i, random_.Between(0, 999999)));
      std::string value;
      for (uint64_t n = random_.Between(0, 900); n > 0; --n) {
        value += static_cast<char>('a' + random_.Between(0, 25));
      }
      sets.push_back(fmt::format("set {} {} 0 {}\r\n{}\r\n", keys[i],
                                 random_.Between(0, 9999), value.size(),
                                 value));
      gets.push_back(fmt::format(
          "get {}\r\n", i % 5 == 4 ? fmt::format("none{}", i) : keys[i]));
    }
    gets[7] = "nonsense\r\n";
    const auto batch = [](const std::vector<std::string>& requests,
                          uint64_t packet_bytes) {
      std::string packets;
      std::vector<memcached::Request> descriptors;
      for (const std::string& request : requests) {
        descriptors.push_back({static_cast<uint32_t>(packets.size()),
                               static_cast<uint32_t>(request.size()),
                               memcached::kStream, 0});
        packets += request;
      }
      packets.resize(packet_bytes);
      return std::pair{
          ToBytes(std::vector<char>(packets.begin(), packets.end())),
          ToBytes(descriptors)};
    };
    constexpr uint64_t kPacketBytes = 128 * 1024;
    const auto [set_packets, set_requests] = batch(sets, kPacketBytes);
    const auto [get_packets, get_requests] = batch(gets, kPacketBytes);
    const std::map<std::string, size_t> names = {
        {"packets", 0}, {"requests", 1}, {"replies", 2}, {"results", 3},
        {"table", 4},   {"store", 5},    {"server", 6}};
    const std::map<std::string, uint64_t> numbers = {
        {"now_s", 1'700'000'000}, {"count", kCount}, {"reply_stride", kStride}};
    const auto launch = [&](const char* kernel,
                            const std::vector<std::byte>& packets,
                            const std::vector<std::byte>& requests) {
      CaseLaunch one =
          Launch(kernel, {kCount / 32, 1, 1}, {32, 1, 1}, names, numbers);
      one.inputs = {{0, packets},
                    {1, requests},
                    {2, Zeros(uint64_t{kCount} * kStride)},
                    {3, Zeros(kCount * sizeof(memcached::Reply))}};
      return one;
    };
    constexpr uint64_t kStoreBytes = kPages * 65536 + 131072;
    CaseLaunch recover = Launch(
        "memc_recover", {1, 1, 1}, {96, 1, 1},
        {{"table", 4}, {"store", 5}, {"marks", 7}, {"recovered", 8}}, {});
    Add("memcached: sets, a store taken over, then gets through both kernels",
        {{set_packets},
         {set_requests},
         {Zeros(uint64_t{kCount} * kStride), Compare::kBytes},
         {Zeros(kCount * sizeof(memcached::Reply)), Compare::kBytes},
         {Zeros(memcached::TableBytes(16 * 1024))},
         {Zeros(kStoreBytes)},
         {Zeros(sizeof(memcached::ServerStats))},
         {Zeros(memcached::RecoveryMarkBytes(kStoreBytes))},
         {Zeros(sizeof(memcached::Recovered)), Compare::kBytes}},
        {launch("memc_set", set_packets, set_requests), recover,
         launch("memc_get", get_packets, get_requests),
         launch("memc_set", get_packets, get_requests)});
  }

  // Pings that are whole, and such that have a byte changed.
  void Pings() {
    using namespace forwarding;
    constexpr uint32_t kCount = 200;
    constexpr uint32_t kStride = 128;
    constexpr uint32_t kMostBytes = kStride - kEthernetRoom;
    std::vector<std::byte> packets = random_.Bytes(kCount * kStride);
    std::vector<Packet> descriptors;
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t offset = i * kStride + kEthernetRoom;
      std::byte* const packet = &packets[offset];
      const auto byte = [](uint32_t value) { return std::byte(value); };
      const bool four = i % 2 == 0;
      const bool udp = i % 4 < 2;
      const uint32_t ip = four ? kIpv4HeaderBytes : kIpv6HeaderBytes;
      const uint32_t length = random_.Small(ip + 8, kMostBytes);
      const auto put = [&](uint32_t at, uint32_t value) {
        packet[at] = byte(value >> 8);
        packet[at + 1] = byte(value & 0xff);
      };
      const auto sum = [&](uint32_t from, uint32_t to) {
        uint32_t total = 0;
        for (uint32_t k = from; k < to; ++k) {
          total += std::to_integer<uint32_t>(packet[k]) << (k % 2 == 0 ? 8 : 0);
        }
        return total;
      };
      const auto folded = [](uint32_t total) {
        while (total > 0xffff) total = (total & 0xffff) + (total >> 16);
        return ~total & 0xffff;
      };
      const uint32_t protocol = udp ? 17 : four ? 1 : 58;
      if (four) {
        put(0, 0x4500);
        put(2, length);
        put(6, 0x4000);
        packet[9] = byte(protocol);
        packet[12] = packet[16] = byte(10);
        put(10, 0);
        put(10, folded(sum(0, ip)));
      } else {
        packet[0] = byte(0x60);
        put(4, length - ip);
        packet[6] = byte(protocol);
        packet[8] = packet[24] = byte(0x20);
      }
      if (udp) {
        put(ip, 40'000);
        put(ip + 4, length - ip);
      } else {
        put(ip, four ? 0x0800 : 0x8000);
      }
      const uint32_t at = ip + (udp ? 6 : 2);
      put(at, 0);
      const uint32_t pseudo =
          udp || !four ? sum(four ? 12 : 8, ip) + protocol + length - ip : 0;
      put(at, folded(sum(ip, length) + pseudo));
      if (i % 5 == 4) packet[random_.Between(0, length - 1)] ^= byte(4);
      descriptors.push_back({offset, length});
    }
    Add("answers to pings",
        {{packets},
         {ToBytes(descriptors)},
         {Zeros(kCount * sizeof(EchoHeader)), Compare::kBytes},
         {Zeros(kCount * sizeof(EchoResult)), Compare::kBytes}},
        {Launch("echo_reply", {2, 1, 1}, {random_.AnyBlock(), 1, 1},
                {{"packets", 0},
                 {"descriptors", 1},
                 {"headers", 2},
                 {"results", 3}},
                {{"count", kCount}})});
  }

  // Writes routes of 20 bits at random places, publishes them, and forwards
  // packets that are whole, or have a byte changed; most have a route.
  void Forwarding() {
    using namespace forwarding;
    constexpr uint32_t kCount = 200;
    constexpr uint32_t kStride = 64;
    constexpr uint32_t kHops = 50;
    constexpr uint32_t kBits = 16;
    constexpr uint64_t kTable = TableBytes(/*groups=*/8, kBits);
    constexpr uint64_t kWords = kTable / sizeof(uint32_t);
    std::vector<uint32_t> half(HalfWords(kWords));
    for (uint32_t i = 0; i < half.size(); ++i) {
      const uint32_t value = random_.Small(0, 9);
      half[i] = value == 0   ? 0
                : value == 1 ? kEntryGroup | random_.Small(0, 7)
                             : kEntryRoute | random_.Small(0, kHops - 1);
    }
    // Groups hold routes only.
    for (uint32_t i = 1 << kBits; i < half.size(); ++i) {
      half[i] = kEntryRoute | random_.Small(0, kHops - 1);
    }
    for (const bool four : {true, false}) {
      std::vector<std::byte> packets = random_.Bytes(kCount * kStride);
      std::vector<Packet> descriptors;
      for (uint32_t i = 0; i < kCount; ++i) {
        std::byte* const packet = &packets[i * kStride];
        const uint32_t length = random_.Small(44, kStride);
        const auto byte = [](uint32_t value) { return std::byte(value); };
        if (four) {
          packet[0] = byte(0x45);
          packet[2] = byte(0);
          packet[3] = byte(length);
          packet[12] = byte(198);
          packet[16] = byte(random_.Small(1, 126));
          packet[10] = packet[11] = byte(0);
          uint32_t sum = 0;
          for (int k = 0; k < 20; k += 2) {
            sum += std::to_integer<uint32_t>(packet[k]) << 8 |
                   std::to_integer<uint32_t>(packet[k + 1]);
          }
          while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
          packet[10] = byte(~sum >> 8 & 0xff);
          packet[11] = byte(~sum & 0xff);
        } else {
          packet[0] = byte(0x60);
          packet[4] = byte(0);
          packet[5] = byte(length - kIpv6HeaderBytes);
          packet[8] = packet[24] = byte(0x20);
        }
        if (i % 4 == 3) packet[random_.Between(0, 39)] ^= byte(1 << i % 8);
        descriptors.push_back({i * kStride, length});
      }
      std::vector<NextHop> hops(kHops);
      for (NextHop& hop : hops) {
        std::ranges::copy(random_.Bytes(6),
                          std::as_writable_bytes(std::span(hop.to)).begin());
        hop.mtu = static_cast<uint16_t>(random_.Between(0, 1) * 60);
      }
      const auto write = [&](const std::vector<uint32_t>& words,
                             uint64_t first) {
        CaseLaunch one = Launch("fib_write", {2, 1, 1}, {128, 1, 1},
                                {{"words", 0}, {"table", 1}},
                                {{"first", first}, {"count", words.size()}});
        one.inputs[0] = ToBytes(words);
        one.inputs[0].resize(half.size() * sizeof(uint32_t));
        return one;
      };
      CaseLaunch forward = Launch(four ? "ipv4_forward" : "ipv6_forward",
                                  {2, 1, 1}, {random_.AnyBlock(), 1, 1},
                                  {{"table", 1},
                                   {"packets", 2},
                                   {"descriptors", 3},
                                   {"next_hops", 4},
                                   {"headers", 5},
                                   {"results", 6}},
                                  {{"count", kCount}, {"first_bits", kBits}});
      CaseLaunch refused = forward;
      refused.numbers["first_bits"] = 15;
      Add(fmt::format("IPv{} forwarding by blocks of {}", four ? 4 : 6,
                      forward.kmd.block.x),
          {{Zeros(half.size() * sizeof(uint32_t))},
           {Zeros(kTable), Compare::kBytes},
           {packets},
           {ToBytes(descriptors)},
           {ToBytes(hops)},
           {Zeros(kCount * sizeof(Header)), Compare::kBytes},
           {Zeros(kCount * sizeof(Result)), Compare::kBytes}},
          {write(half, HalfBegin(kWords, 1)), write({1}, 0), forward});
      Add(fmt::format("IPv{} forwarding with a first level of 15 bits",
                      four ? 4 : 6),
          {{},
           {Zeros(kTable)},
           {},
           {Zeros(1600)},
           {},
           {Zeros(12800)},
           {Zeros(3200)}},
          {refused});
    }
  }

  Random random_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> MakeCases(uint64_t seed, std::vector<std::string>* missing) {
  return Maker(seed).Make(missing);
}

uint64_t Arena::BytesFor(const Case& one) {
  uint64_t bytes = kAlignment;
  for (const Buffer& buffer : one.buffers) {
    bytes += (buffer.initial.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

Arena::Arena(const Case& one, std::span<std::byte> memory) : memory_(memory) {
  uint64_t offset = 0;
  for (const Buffer& buffer : one.buffers) {
    offsets_.push_back(offset);
    sizes_.push_back(buffer.initial.size());
    std::ranges::copy(buffer.initial, memory.begin() + offset);
    offset +=
        (buffer.initial.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::vector<std::byte> Arena::Args(const CaseLaunch& launch,
                                   std::byte* base) const {
  if (base == nullptr) base = memory_.data();
  const simt::KernelInfo& kernel = *launch.kmd.kernel;
  std::vector<std::byte> args(kernel.args_size);
  for (const simt::ParamInfo& param : kernel.params) {
    const std::string name(param.name);
    if (param.is_buffer()) {
      const size_t index = launch.buffers.at(name);
      const simt::Span<std::byte> span{base + offsets_[index],
                                       sizes_[index] / param.element_size};
      std::memcpy(&args[param.offset], &span, sizeof(span));
    } else {
      // All numbers here are integers, and the machine is little-endian.
      const uint64_t value = launch.numbers.at(name);
      std::memcpy(&args[param.offset], &value, param.element_size);
    }
  }
  return args;
}

void Arena::Feed(const CaseLaunch& launch) const {
  for (const auto& [index, bytes] : launch.inputs) {
    std::ranges::copy(bytes, buffer(index).begin());
  }
}

uint32_t RunOnCpu(const CaseLaunch& launch,
                  const std::vector<std::byte>& args) {
  uint32_t fail_status = 0;
  for (uint64_t block = 0; block < launch.kmd.blocks(); ++block) {
    gpud::RunBlock(launch.kmd, block, args.data(), &fail_status);
  }
  return fail_status;
}

absl::Status CompareArenas(const Case& one, const Arena& expected,
                           const Arena& found) {
  for (size_t i = 0; i < one.buffers.size(); ++i) {
    const std::span<std::byte> want = expected.buffer(i);
    const std::span<std::byte> have = found.buffer(i);
    if (one.buffers[i].compare == Compare::kBytes) {
      const auto [w, h] = std::ranges::mismatch(want, have);
      if (w == want.end()) continue;
      return absl::DataLossError(fmt::format(
          "buffer {}, byte {} of {}: the CPU has {:#04x}, the GPU {:#04x}", i,
          w - want.begin(), want.size(), static_cast<unsigned>(*w),
          static_cast<unsigned>(*h)));
    }
    if (one.buffers[i].compare == Compare::kFloats) {
      const auto at = [](std::span<std::byte> bytes, size_t index) {
        float value;
        std::memcpy(&value, &bytes[index * sizeof(float)], sizeof(value));
        return value;
      };
      const size_t count = want.size() / sizeof(float);
      float largest = 1;
      for (size_t k = 0; k < count; ++k) {
        largest = std::max(largest, std::fabs(at(want, k)));
      }
      for (size_t k = 0; k < count; ++k) {
        // Written so that a NaN counts as different.
        if (std::fabs(at(want, k) - at(have, k)) <= largest * kFloatTolerance) {
          continue;
        }
        return absl::DataLossError(fmt::format(
            "buffer {}, number {} of {}: the CPU has {}, the GPU {}", i, k,
            count, at(want, k), at(have, k)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpu_check
