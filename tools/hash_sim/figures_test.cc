#include "tools/hash_sim/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace carillon::hash_sim {
namespace {

constexpr uint32_t kKeys = 40'000;
constexpr uint32_t kRequests = 200'000;

// Whatever key lies in an entry, a uniform GET finds it with the same probability: the
// part of the keys that lie somewhere, which is the number of entries in use.
TEST(HitRate, OfUniformRequestsToADirectMappedTableIsTheClosedForm) {
  const auto trace = DrawRequests(Distribution::kUniform, kKeys, kRequests, 1);
  const auto hashes = HashKeys(kKeys);
  for (const uint32_t entries : {8'000u, 32'000u, 64'000u}) {
    const auto table = MakeSetAssociative(entries, 1);
    const double in_use =
        entries * (1 - std::pow(1 - 1.0 / entries, static_cast<double>(kKeys)));
    EXPECT_NEAR(HitRate(*table, kKeys, trace, hashes), in_use / kKeys, 0.006)
        << entries;
  }
}

TEST(HitRate, OfUniformRequestsToChainingIsThePartOfTheKeysThatFit) {
  const auto trace = DrawRequests(Distribution::kUniform, kKeys, kRequests, 1);
  const auto hashes = HashKeys(kKeys);
  for (const uint32_t entries : {8'000u, 32'000u}) {
    EXPECT_NEAR(HitRate(*MakeChaining(entries, kKeys), kKeys, trace, hashes),
                static_cast<double>(entries) / kKeys, 0.006);
  }
  EXPECT_EQ(HitRate(*MakeChaining(kKeys, kKeys), kKeys, trace, hashes), 1);
}

TEST(HitRate, AMissIsFollowedByASet) {
  const auto table = MakeChaining(1, 2);
  const std::vector<Request> trace = {{false, 0}, {false, 0}, {false, 1}};
  // Key 1 was set last: miss, hit, miss.
  EXPECT_DOUBLE_EQ(HitRate(*table, 2, trace, HashKeys(2)), 1.0 / 3);
}

TEST(Figures, MissesFallWithWaysAndEntries) {
  int runs = 0;
  const Json document = MissesByAssociativity(
      {.quick = true, .progress = [&](int done, int total, const std::string&) {
         EXPECT_EQ(done, runs++);
         EXPECT_EQ(total, 24);
       }});
  EXPECT_EQ(runs, 24);
  const Json& rows = document["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 4u);
  // 16 entries for 10 keys: all are there by chaining, not with one way.
  EXPECT_EQ(rows[3][6].get<double>(), 0);
  EXPECT_GT(rows[3][1].get<double>(), 5);
  for (size_t ways = 2; ways < rows[2].size(); ++ways) {
    EXPECT_LT(rows[2][ways].get<double>(), rows[2][1].get<double>());
  }
  EXPECT_GT(rows[0][1].get<double>(), rows[3][1].get<double>());
}

}  // namespace
}  // namespace carillon::hash_sim
