#include "tools/hash_sim/requests.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kernels/memcached/memc_bytes.cuh"

namespace carillon::hash_sim {
namespace {

constexpr double kTheta = 0.99;
constexpr double kSets = 0.05;
// YCSB's ScrambledZipfian draws of so many ranks, however few keys there are.
constexpr double kScrambledRanks = 1e10;

// The sum of i^-kTheta for i from 1 to `n`: by terms, and from 10^6 on by the
// Euler-Maclaurin formula, whose next term is below 10^-18.
double Zeta(double n) {
  double sum = 0;
  double i = 1;
  for (; i <= n && i < 1e6; ++i) sum += std::pow(i, -kTheta);
  if (i > n) return sum;
  const auto term = [](double x) { return std::pow(x, -kTheta); };
  const auto integral = [](double x) {
    return std::pow(x, 1 - kTheta) / (1 - kTheta);
  };
  return sum + integral(n) - integral(i) + (term(i) + term(n)) / 2;
}

// Ranks from 0 on, rank r in proportion to (r + 1)^-kTheta, nearly: the method of Gray
// et al. (Quickly Generating Billion-Record Synthetic Databases, 1994), as in YCSB.
class Zipf {
 public:
  explicit Zipf(double ranks)
      : ranks_(ranks),
        zeta_(Zeta(ranks)),
        eta_((1 - std::pow(2 / ranks, 1 - kTheta)) / (1 - Zeta(2) / zeta_)) {}

  // `uniform` is in [0, 1).
  uint64_t RankOf(double uniform) const {
    if (uniform * zeta_ < 1) return 0;
    if (uniform * zeta_ < Zeta(2)) return 1;
    return static_cast<uint64_t>(
        ranks_ * std::pow(eta_ * uniform - eta_ + 1, 1 / (1 - kTheta)));
  }

 private:
  const double ranks_;
  const double zeta_;
  const double eta_;
};

// FNV-1a of a number's bytes, from the lowest on.
uint64_t Fnv(uint64_t number) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int byte = 0; byte < 8; ++byte, number >>= 8) {
    hash = (hash ^ (number & 0xff)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::vector<Request> DrawRequests(Distribution distribution, uint32_t keys,
                                  uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  const Zipf zipf(distribution == Distribution::kLatest ? keys
                                                        : kScrambledRanks);
  Key newest = keys - 1;
  std::vector<Request> requests(count);
  for (Request& request : requests) {
    request.set = uniform(random) < kSets;
    const double drawn = uniform(random);
    switch (distribution) {
      case Distribution::kZipf:
        request.key = static_cast<Key>(Fnv(zipf.RankOf(drawn)) % keys);
        break;
      case Distribution::kLatest:
        request.key = request.set
                          ? ++newest
                          : newest - static_cast<Key>(zipf.RankOf(drawn));
        break;
      case Distribution::kUniform:
        request.key = static_cast<Key>(drawn * keys);
        break;
    }
  }
  return requests;
}

std::vector<uint32_t> HashKeys(uint32_t keys) {
  std::vector<uint32_t> hashes(keys);
  // HashKey() reads some bytes past the key.
  std::array<char, 64> name{};
  for (uint32_t key = 0; key < keys; ++key) {
    const auto end = fmt::format_to(name.begin(), "user{}", key);
    hashes[key] =
        kernels::memc::HashKey(reinterpret_cast<const uint8_t*>(name.data()),
                               static_cast<uint32_t>(end - name.begin()));
  }
  return hashes;
}

}  // namespace carillon::hash_sim
