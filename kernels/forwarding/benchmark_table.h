// A routing table for benchmarks, and addresses to look up in it. The table is
// like the Internet's of 2025, or has the prefixes of a file, one a line; next
// hops are numbers below kNextHops. Half of the addresses lie in or beside a
// random route, the others anywhere that routes may be.
#ifndef CARILLON_KERNELS_FORWARDING_BENCHMARK_TABLE_H_
#define CARILLON_KERNELS_FORWARDING_BENCHMARK_TABLE_H_

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {

inline constexpr uint32_t kNextHops = 64;
inline constexpr uint32_t kAddresses = 1 << 20;

// Set it before the first use of BenchmarkTable::Of.
inline std::string prefix_file;

inline void MustBeOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(2);
}

struct BenchmarkTable {
  static BenchmarkTable& Of(Family family) {
    static std::map<Family, BenchmarkTable> tables;
    return tables.try_emplace(family, family).first->second;
  }

  explicit BenchmarkTable(Family family)
      : routes(MakeTable(family)), fib(family, kMaxGroups) {
    MustBeOk(fib.Replace(routes));
    std::mt19937_64 random(2);
    addresses = MakeAddresses(routes, family, kAddresses, 2);
    for (size_t i = 0; i < addresses.size(); i += 2) {
      AddressBytes& address = addresses[i];
      for (uint32_t k = 0; k < AddressBits(family) / 8; ++k) {
        address[k] = static_cast<uint8_t>(random());
      }
      if (family == Family::kIpv6) address[0] = 0x20 | (address[0] & 0x1f);
    }
    for (const AddressBytes& address : addresses) {
      kernels::forward::Address& number = numbers.emplace_back();
      for (size_t i = 0; i < 8; ++i) {
        number.high = number.high << 8 | address[i];
        number.low = number.low << 8 | address[i + 8];
      }
    }
  }

  simt::Span<const uint32_t> half() const {
    return {fib.words().data(), fib.words().size()};
  }

  std::vector<Route> routes;
  Fib fib;
  std::vector<AddressBytes> addresses;
  std::vector<kernels::forward::Address> numbers;  // the same addresses

 private:
  static std::vector<Route> MakeTable(Family family) {
    if (prefix_file.empty()) {
      return MakeRoutes(family, family == Family::kIpv4 ? 900'000 : 160'000,
                        kNextHops, 1);
    }
    std::vector<Route> routes;
    std::ifstream file(prefix_file);
    for (std::string line; std::getline(file, line);) {
      if (line.ends_with('\r')) line.pop_back();
      const auto prefix = ParsePrefix(line);
      MustBeOk(prefix.status());
      if (prefix->family != family) continue;
      routes.push_back(
          {*prefix, static_cast<uint32_t>(routes.size()) % kNextHops});
    }
    return routes;
  }
};

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_BENCHMARK_TABLE_H_
