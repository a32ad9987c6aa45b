// Measures the memcached kernels on one CPU core. The argument is the number of
// keys in the table. "event" is one run_block of 32 requests, as a worker runs
// it.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {
namespace {

constexpr uint32_t kBatch = memcached::kWarpBatch;
constexpr uint64_t kPacketStride = 2048;
constexpr uint32_t kEvents = 64;  // different batches, in turn

std::string Key(uint64_t i) {
  const std::string digits = std::to_string(i);
  return "key-" + std::string(12 - digits.size(), '0') + digits;
}

// kEvents batches, prepared before the measurement.
class Load {
 public:
  Load(uint64_t keys, uint32_t value_bytes)
      : table_(memcached::TableBytes(keys * 2)),
        store_(StoreBytes(
            16 + keys * (memc::Store::RoundUp(48 + uint64_t{value_bytes})) /
                     memc::kPageBytes * 5 / 4)),
        packets_(kEvents * kBatch * kPacketStride),
        replies_(uint64_t{kEvents} * kBatch * memcached::kSmallReplyStride),
        requests_(kEvents * kBatch),
        results_(kEvents * kBatch) {
    const std::string value(value_bytes, 'v');
    MemcClient client(table_.span(), store_.span());
    for (uint64_t i = 0; i < keys; ++i) client.Say(SetLine(Key(i), value));
  }

  static std::string SetLine(const std::string& key, const std::string& value) {
    return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" +
           value + "\r\n";
  }

  void Place(uint32_t i, const std::string& payload) {
    const std::string datagram =
        Frame(static_cast<uint16_t>(i), 0, 1, 0, payload);
    std::memcpy(packets_.data() + i * kPacketStride, datagram.data(),
                datagram.size());
    requests_[i] = {static_cast<uint32_t>(i * kPacketStride),
                    static_cast<uint32_t>(datagram.size()), 0, 0};
  }

  void Run(const simt::KernelInfo& kernel, uint32_t event) {
    const uint64_t first = uint64_t{event} * kBatch;
    MemcArgs args{};
    args.packets = {packets_.data(), packets_.size()};
    args.requests = {requests_.data() + first, kBatch};
    args.replies = replies_.span().sub(first * memcached::kSmallReplyStride,
                                       kBatch * memcached::kSmallReplyStride);
    args.results = {results_.data() + first, kBatch};
    args.table = table_.span();
    args.store = store_.span();
    args.now_s = 1'700'000'000;
    args.count = kBatch;
    args.reply_stride = memcached::kSmallReplyStride;
    uint32_t status = 0;
    simt::BlockLaunch launch;
    launch.block = {kBatch, 1, 1};
    launch.block_index = {0, 0, 0};
    launch.fail_status = &status;
    kernel.run_block(launch, &args);
    if (status != 0) std::abort();
  }

  uint64_t Hits() const {
    uint64_t hits = 0;
    for (const memcached::Reply& result : results_) hits += result.hits;
    return hits;
  }

 private:
  Memory table_;
  Memory store_;
  Memory packets_;
  Memory replies_;
  std::vector<memcached::Request> requests_;
  std::vector<memcached::Reply> results_;
};

void Loop(benchmark::State& state, Load& load, const simt::KernelInfo& kernel) {
  uint32_t event = 0;
  for (auto _ : state) {
    load.Run(kernel, event);
    event = (event + 1) % kEvents;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kBatch);
}

// The paper's GET: 16 B keys, 2 B values.
void BM_Get(benchmark::State& state) {
  const uint64_t keys = static_cast<uint64_t>(state.range(0));
  Load load(keys, 2);
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) {
    load.Place(i, "get " + Key(random() % keys) + "\r\n");
  }
  Loop(state, load, memc_get_info);
  state.counters["hits"] =
      static_cast<double>(load.Hits()) / (kEvents * kBatch);
}
BENCHMARK(BM_Get)->Arg(8192)->Arg(1 << 20);

void BM_GetMiss(benchmark::State& state) {
  Load load(8192, 2);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) {
    load.Place(i, "get " + Key(1000000 + i) + "\r\n");
  }
  Loop(state, load, memc_get_info);
}
BENCHMARK(BM_GetMiss);

void BM_GetOf1000Bytes(benchmark::State& state) {
  Load load(8192, 1000);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) {
    load.Place(i, "get " + Key(i * 7 % 8192) + "\r\n");
  }
  Loop(state, load, memc_get_info);
}
BENCHMARK(BM_GetOf1000Bytes);

void BM_GetOf16Keys(benchmark::State& state) {
  Load load(8192, 2);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) {
    std::string line = "get";
    for (uint32_t k = 0; k < 16; ++k) line += " " + Key((i * 16 + k) % 8192);
    load.Place(i, line + "\r\n");
  }
  Loop(state, load, memc_get_info);
}
BENCHMARK(BM_GetOf16Keys);

void BM_Set(benchmark::State& state) {
  Load load(8192, 2);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) {
    load.Place(i, Load::SetLine(Key(i * 7 % 8192), "xy"));
  }
  Loop(state, load, memc_set_info);
}
BENCHMARK(BM_Set);

void BM_NotForUs(benchmark::State& state) {
  Load load(16, 2);
  for (uint32_t i = 0; i < kEvents * kBatch; ++i) load.Place(i, "x\r\n");
  Loop(state, load, memc_get_info);
}
BENCHMARK(BM_NotForUs);

}  // namespace
}  // namespace carillon::kernels

BENCHMARK_MAIN();
