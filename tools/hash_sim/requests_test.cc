#include "tools/hash_sim/requests.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace carillon::hash_sim {
namespace {

constexpr uint32_t kKeys = 10'000;
constexpr uint32_t kRequests = 400'000;

double PartOf(const std::vector<Request>& requests, Key key) {
  return static_cast<double>(std::ranges::count(requests, key, &Request::key)) /
         static_cast<double>(requests.size());
}

// FNV-1a, byte by byte.
uint64_t HashOfRank(uint64_t rank) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < 8; ++i) {
    hash ^= rank >> 8 * i & 255;
    hash *= 1099511628211u;
  }
  return hash;
}

TEST(DrawRequests, FivePercentAreSets) {
  for (const auto distribution :
       {Distribution::kZipf, Distribution::kLatest, Distribution::kUniform}) {
    const auto requests = DrawRequests(distribution, kKeys, kRequests, 1);
    const auto sets = std::ranges::count(requests, true, &Request::set);
    EXPECT_NEAR(static_cast<double>(sets) / kRequests, 0.05, 0.002);
  }
}

TEST(DrawRequests, TheMostPopularKeyOfZipfHasYcsbsShare) {
  const auto requests = DrawRequests(Distribution::kZipf, kKeys, kRequests, 2);
  // YCSB's constant for 10^10 ranks with exponent 0.99.
  const double zeta = 26.46902820178302;
  EXPECT_NEAR(PartOf(requests, static_cast<Key>(HashOfRank(0) % kKeys)),
              1 / zeta, 0.002);
  EXPECT_NEAR(PartOf(requests, static_cast<Key>(HashOfRank(1) % kKeys)),
              std::pow(2, -0.99) / zeta, 0.002);
}

TEST(DrawRequests, ASetOfLatestAddsTheNextKeyAndTheNewestAreThePopular) {
  const auto requests =
      DrawRequests(Distribution::kLatest, kKeys, kRequests, 3);
  Key newest = kKeys - 1;
  uint32_t of_newest = 0;
  uint32_t gets = 0;
  for (const Request& request : requests) {
    if (request.set) {
      EXPECT_EQ(request.key, ++newest);
      continue;
    }
    ASSERT_LE(request.key, newest);
    ++gets;
    of_newest += request.key == newest ? 1 : 0;
  }
  double zeta = 0;
  for (uint32_t rank = 1; rank <= kKeys; ++rank) zeta += std::pow(rank, -0.99);
  EXPECT_NEAR(of_newest / static_cast<double>(gets), 1 / zeta, 0.003);
}

TEST(DrawRequests, UniformDrawsEachKeyAlike) {
  const auto requests = DrawRequests(Distribution::kUniform, 10, kRequests, 4);
  for (Key key = 0; key < 10; ++key)
    EXPECT_NEAR(PartOf(requests, key), 0.1, 0.003);
}

TEST(DrawRequests, TheSameSeedGivesTheSameTrace) {
  const auto keys = [](uint64_t seed) {
    std::vector<Key> keys;
    for (const Request& request :
         DrawRequests(Distribution::kZipf, kKeys, 1000, seed)) {
      keys.push_back(request.key);
    }
    return keys;
  };
  EXPECT_EQ(keys(1), keys(1));
  EXPECT_NE(keys(1), keys(2));
}

TEST(HashKeys, HashesFarApart) {
  const auto hashes = HashKeys(kKeys);
  ASSERT_EQ(hashes.size(), kKeys);
  // By chance 0.01 of 10,000 32-bit numbers are equal.
  EXPECT_GE(std::set<uint32_t>(hashes.begin(), hashes.end()).size(), kKeys - 2);
}

}  // namespace
}  // namespace carillon::hash_sim
