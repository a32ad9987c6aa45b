// Compares the tables with DPDK's, on the same routes and addresses: every next
// hop, and lookups a second. Ends with 1 at a difference. It is built only when
// it is asked for by name, and needs the Debian package libdpdk-dev, which is too
// much to ask of every test run (220 packages).
//
//   dpdk_comparison [OPTIONS OF GOOGLE BENCHMARK] [FILE OF PREFIXES]
#include <benchmark/benchmark.h>
#include <rte_eal.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm6.h>

#include <array>
#include <cstdio>
#include <optional>

#include "kernels/forwarding/benchmark_table.h"

namespace carillon::forwarding {
namespace {

constexpr uint32_t kNoHop = 999;  // DPDK's answer where there is no route
constexpr int kSocket = 0;
constexpr uint32_t kBulk = 32;

template <class T>
T* Must(T* made, const char* what) {
  if (made != nullptr) return made;
  std::fprintf(stderr, "DPDK makes no %s\n", what);
  std::exit(2);
}
void MustBeZero(int result, const Route& route) {
  if (result == 0) return;
  std::fprintf(stderr, "DPDK refuses %s: %d\n", ToString(route.prefix).c_str(),
               result);
  std::exit(2);
}

uint32_t Number(const AddressBytes& address) {
  return uint32_t{address[0]} << 24 | uint32_t{address[1]} << 16 |
         uint32_t{address[2]} << 8 | address[3];
}
// DPDK's functions for IPv6 take addresses as they lie here.
using Address6 = uint8_t[RTE_FIB6_IPV6_ADDR_SIZE];
static_assert(sizeof(Address6) == sizeof(AddressBytes));
Address6* Addresses6(const AddressBytes* first) {
  return reinterpret_cast<Address6*>(const_cast<AddressBytes*>(first));
}

rte_fib* MakeFib(const BenchmarkTable& table) {
  rte_fib_conf config{};
  config.type = RTE_FIB_DIR24_8;
  config.default_nh = kNoHop;
  config.max_routes = static_cast<int>(table.routes.size() + 1);
  config.dir24_8 = {RTE_FIB_DIR24_8_4B, table.fib.groups_in_use() + 1};
  rte_fib* const fib = Must(rte_fib_create("fib", kSocket, &config), "rte_fib");
  for (const Route& route : table.routes) {
    MustBeZero(rte_fib_add(fib, Number(route.prefix.address),
                           route.prefix.length, route.next_hop),
               route);
  }
  return fib;
}

rte_fib6* MakeFib6(const BenchmarkTable& table) {
  rte_fib6_conf config{};
  config.type = RTE_FIB6_TRIE;
  config.default_nh = kNoHop;
  config.max_routes = static_cast<int>(2 * table.routes.size() + 1);
  // It sets aside more than it uses.
  config.trie = {RTE_FIB6_TRIE_4B, 20 * table.fib.groups_in_use() + 1};
  rte_fib6* const fib =
      Must(rte_fib6_create("fib6", kSocket, &config), "rte_fib6");
  for (const Route& route : table.routes) {
    MustBeZero(rte_fib6_add(fib, route.prefix.address.data(),
                            route.prefix.length, route.next_hop),
               route);
  }
  return fib;
}

rte_lpm6* MakeLpm6(const BenchmarkTable& table) {
  const rte_lpm6_config config = {
      static_cast<uint32_t>(table.routes.size() + 1),
      2 * table.fib.groups_in_use() + 1, 0};
  rte_lpm6* const lpm =
      Must(rte_lpm6_create("lpm6", kSocket, &config), "rte_lpm6");
  for (const Route& route : table.routes) {
    MustBeZero(rte_lpm6_add(lpm, route.prefix.address.data(),
                            route.prefix.length, route.next_hop),
               route);
  }
  return lpm;
}

// Each looks kBulk addresses up, from `first` on.
struct Fib4Lookup {
  rte_fib* fib = MakeFib(BenchmarkTable::Of(Family::kIpv4));
  std::vector<uint32_t> numbers = [] {
    std::vector<uint32_t> all;
    for (const auto& address : BenchmarkTable::Of(Family::kIpv4).addresses) {
      all.push_back(Number(address));
    }
    return all;
  }();
  Fib4Lookup() {
    rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
  }
  std::array<uint64_t, kBulk> operator()(uint32_t first) {
    std::array<uint64_t, kBulk> hops;
    rte_fib_lookup_bulk(fib, &numbers[first], hops.data(), kBulk);
    return hops;
  }
};
struct Fib6Lookup {
  rte_fib6* fib = MakeFib6(BenchmarkTable::Of(Family::kIpv6));
  Fib6Lookup() { rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_SCALAR); }
  std::array<uint64_t, kBulk> operator()(uint32_t first) {
    std::array<uint64_t, kBulk> hops;
    const auto& addresses = BenchmarkTable::Of(Family::kIpv6).addresses;
    rte_fib6_lookup_bulk(fib, Addresses6(&addresses[first]), hops.data(),
                         kBulk);
    return hops;
  }
};
struct Lpm6Lookup {
  rte_lpm6* lpm = MakeLpm6(BenchmarkTable::Of(Family::kIpv6));
  std::array<uint64_t, kBulk> operator()(uint32_t first) {
    std::array<int32_t, kBulk> found;
    const auto& addresses = BenchmarkTable::Of(Family::kIpv6).addresses;
    rte_lpm6_lookup_bulk_func(lpm, Addresses6(&addresses[first]), found.data(),
                              kBulk);
    std::array<uint64_t, kBulk> hops;
    for (uint32_t i = 0; i < kBulk; ++i) {
      hops[i] = found[i] < 0 ? kNoHop : static_cast<uint64_t>(found[i]);
    }
    return hops;
  }
};
template <Family kFamily>
struct OurLookup {
  const BenchmarkTable& table = BenchmarkTable::Of(kFamily);
  std::array<uint64_t, kBulk> operator()(uint32_t first) {
    std::array<uint64_t, kBulk> hops;
    for (uint32_t i = 0; i < kBulk; ++i) {
      const uint32_t entry = kernels::forward::Lookup<AddressBits(kFamily)>(
          table.half(), kMostFirstBits, table.numbers[first + i]);
      hops[i] = (entry & kEntryRoute) == 0 ? kNoHop : entry & kEntryValue;
    }
    return hops;
  }
};

// The addresses for which the two differ.
template <class One, class Other>
uint32_t Differences(One one, Other other) {
  uint32_t differences = 0;
  for (uint32_t first = 0; first < kAddresses; first += kBulk) {
    const auto ours = one(first);
    const auto theirs = other(first);
    for (uint32_t i = 0; i < kBulk; ++i) differences += ours[i] != theirs[i];
  }
  return differences;
}

template <class Lookup>
void BM_Bulk(benchmark::State& state, Lookup* lookup) {
  uint32_t first = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize((*lookup)(first));
    first = (first + kBulk) % kAddresses;
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kBulk);
}

int Main() {
  const char* eal[] = {"dpdk_comparison",
                       "--no-huge",
                       "-m",
                       "3000",
                       "--no-pci",
                       "--no-telemetry",
                       "--no-shconf",
                       "--iova-mode=va",
                       "-l",
                       "0",
                       "--log-level=4"};
  if (rte_eal_init(std::size(eal), const_cast<char**>(eal)) < 0) return 2;
  OurLookup<Family::kIpv4> ours4;
  OurLookup<Family::kIpv6> ours6;
  Fib4Lookup fib4;
  Fib6Lookup fib6;
  Lpm6Lookup lpm6;
  const uint32_t differences[] = {Differences(ours4, fib4),
                                  Differences(ours6, fib6),
                                  Differences(ours6, lpm6)};
  std::printf(
      "of %u addresses each, other next hops than rte_fib %u, rte_fib6 %u, "
      "rte_lpm6 %u\n",
      kAddresses, differences[0], differences[1], differences[2]);
  const auto add = [](const char* name, auto* lookup) {
    benchmark::RegisterBenchmark(
        name, [lookup](benchmark::State& state) { BM_Bulk(state, lookup); });
  };
  add("ipv4/carillon", &ours4);
  add("ipv4/rte_fib", &fib4);
  add("ipv6/carillon", &ours6);
  add("ipv6/rte_fib6", &fib6);
  add("ipv6/rte_lpm6", &lpm6);
  benchmark::RunSpecifiedBenchmarks();
  for (const uint32_t count : differences) {
    if (count != 0) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace carillon::forwarding

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc > 2) return 2;
  if (argc == 2) carillon::forwarding::prefix_file = argv[1];
  return carillon::forwarding::Main();
}
