// Measures tables and forwarders on one CPU core. "event" is one run_block of 32
// packets, as a worker runs it.
//
//   forward_benchmark [OPTIONS OF GOOGLE BENCHMARK] [FILE OF PREFIXES]
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/forwarding/benchmark_table.h"

namespace carillon::forwarding {
namespace {

constexpr uint32_t kBatch = 32;
constexpr uint32_t kEvents = 4096;  // different batches, in turn
constexpr uint32_t kStride = 64;

template <Family kFamily>
void BM_Lookup(benchmark::State& state) {
  const BenchmarkTable& table = BenchmarkTable::Of(kFamily);
  const auto half = table.half();
  uint64_t i = 0;
  uint64_t found = 0;
  for (auto _ : state) {
    const uint32_t entry = kernels::forward::Lookup<AddressBits(kFamily)>(
        half, table.fib.first_bits(), table.numbers[i]);
    found += entry >> 31;
    benchmark::DoNotOptimize(entry);
    i = (i + 1) % kAddresses;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  state.counters["with_route"] =
      static_cast<double>(found) / static_cast<double>(state.iterations());
  state.counters["groups"] = table.fib.groups_in_use();
}
BENCHMARK(BM_Lookup<Family::kIpv4>);
BENCHMARK(BM_Lookup<Family::kIpv6>);

template <Family kFamily>
void BM_Event(benchmark::State& state) {
  const BenchmarkTable& table = BenchmarkTable::Of(kFamily);
  Router router(kFamily, table.fib.groups_in_use(), table.fib.first_bits(),
                MakeNextHops(kNextHops));
  router.Publish(table.fib);
  const uint32_t count = kEvents * kBatch;
  auto packets = std::make_unique<uint64_t[]>(count * kStride / 8);
  auto* const bytes = reinterpret_cast<uint8_t*>(packets.get());
  std::vector<Packet> descriptors(count);
  const AddressBytes source =
      Address(kFamily == Family::kIpv4 ? "198.51.100.7" : "2001:db8::7");
  for (uint32_t i = 0; i < count; ++i) {
    const AddressBytes& to = table.addresses[i % kAddresses];
    const Bytes packet = kFamily == Family::kIpv4 ? MakeIpv4(source, to, 64, 26)
                                                  : MakeIpv6(source, to, 64, 8);
    std::memcpy(bytes + i * kStride, packet.data(), packet.size());
    descriptors[i] = {i * kStride, static_cast<uint32_t>(packet.size())};
  }
  std::vector<Header> headers(kBatch);
  std::vector<Result> results(kBatch);
  kernels::ForwardArgs args = router.args();
  args.packets = {bytes, uint64_t{count} * kStride};
  args.headers = simt::Writable(headers);
  args.results = simt::Writable(results);
  args.count = kBatch;
  uint32_t status = 0;
  simt::BlockLaunch launch;
  launch.block = {kBatch, 1, 1};
  launch.block_index = {0, 0, 0};
  launch.fail_status = &status;
  uint32_t event = 0;
  for (auto _ : state) {
    args.descriptors = {&descriptors[event * kBatch], kBatch};
    router.kernel().run_block(launch, &args);
    event = (event + 1) % kEvents;
  }
  if (status != 0) std::abort();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kBatch);
}
BENCHMARK(BM_Event<Family::kIpv4>);
BENCHMARK(BM_Event<Family::kIpv6>);

template <Family kFamily>
void BM_Replace(benchmark::State& state) {
  const BenchmarkTable& table = BenchmarkTable::Of(kFamily);
  Fib fib(kFamily, kMaxGroups);
  for (auto _ : state) {
    MustBeOk(fib.Replace(table.routes));
  }
  state.counters["routes"] = static_cast<double>(fib.routes());
  state.counters["MiB"] =
      static_cast<double>(fib.words().size_bytes()) / (1 << 20);
}
BENCHMARK(BM_Replace<Family::kIpv4>)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Replace<Family::kIpv6>)->Unit(benchmark::kMillisecond);

// One route is removed and comes back.
template <Family kFamily>
void BM_RemoveAndInsert(benchmark::State& state) {
  BenchmarkTable& table = BenchmarkTable::Of(kFamily);
  std::mt19937_64 random(3);
  for (auto _ : state) {
    const Route& route = table.routes[random() % table.routes.size()];
    // Of equal prefixes one may be gone already.
    (void)table.fib.Remove(route.prefix);
    MustBeOk(table.fib.Insert(route));
  }
}
BENCHMARK(BM_RemoveAndInsert<Family::kIpv4>)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_RemoveAndInsert<Family::kIpv6>)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace carillon::forwarding

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc > 2) return 2;
  if (argc == 2) carillon::forwarding::prefix_file = argv[1];
  benchmark::RunSpecifiedBenchmarks();
}
