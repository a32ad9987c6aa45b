// Walks against closed forms. All are seeded, and the bounds are five standard
// deviations of the mean.
#include "tools/cfg_sim/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fmt/format.h"

namespace carillon::cfg_sim {
namespace {

using ::testing::HasSubstr;

Graph Read(const std::string& text) {
  auto graph = ReadDot("digraph {" + text + "}");
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}
Activity MustWalk(const std::vector<Graph>& graphs,
                  const WalkOptions& options = {}) {
  const auto activity = Walk(graphs, options);
  EXPECT_TRUE(activity.ok()) << activity.status();
  return activity.value_or(Activity{});
}
Activity MustWalk(const std::string& text, const WalkOptions& options = {}) {
  return MustWalk(std::vector<Graph>{Read(text)}, options);
}

// P(X = k) of a binomial distribution.
double Binomial(int n, int k, double p) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) -
                  std::lgamma(n - k + 1)) *
         std::pow(p, k) * std::pow(1 - p, n - k);
}

TEST(Walk, ABranchHasTheEfficiencyOfItsBinomialDistribution) {
  for (const double p : {0.0, 0.02, 0.5, 0.9, 1.0}) {
    for (const uint32_t lanes : {32u, 5u}) {
      const double a = 4, b = 10, c = 30, d = 7;
      double mean = 0, square = 0;
      for (uint32_t k = 0; k <= lanes; ++k) {
        const double all = a + d + (k > 0 ? b : 0) + (k < lanes ? c : 0);
        const double ratio =
            ((a + d) * lanes + b * k + c * (lanes - k)) / (32 * all);
        const double part = p == 0   ? (k == 0 ? 1 : 0)
                            : p == 1 ? (k == lanes ? 1 : 0)
                                     : Binomial(static_cast<int>(lanes),
                                                static_cast<int>(k), p);
        mean += part * ratio;
        square += part * ratio * ratio;
      }
      const WalkOptions options{.warps = 20'000, .seed = 3, .lanes = {lanes}};
      const Activity activity = MustWalk(
          fmt::format("a [insns=4]; b [insns=10]; c [insns=30]; d [insns=7];"
                      "a -> b [p={}]; a -> c; b -> d; c -> d",
                      p),
          options);
      const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
      EXPECT_NEAR(activity.efficiency(), mean,
                  5 * deviation / std::sqrt(20'000) + 1e-12)
          << p << " " << lanes;
    }
  }
}

// Each lane stays in the loop by p each time: the warp stays as long as its last
// lane does.
TEST(Walk, ALoopLastsAsLongAsItsLastLane) {
  const double p = 0.8;
  double longest = 0, squares = 0;
  for (int t = 0; t < 400; ++t) {
    const double still = 1 - std::pow(1 - std::pow(p, t), 32);
    longest += still;
    squares += (2 * t + 1) * still;
  }
  const uint32_t warps = 20'000;
  const Activity activity =
      MustWalk(fmt::format("a [insns=0]; b [insns=3]; c [insns=0]; a -> b; "
                           "b -> b [p={}]; b -> c",
                           p),
               {.warps = warps});
  const double deviation = std::sqrt(squares - longest * longest);
  EXPECT_NEAR(static_cast<double>(activity.instructions) / warps, 3 * longest,
              5 * 3 * deviation / std::sqrt(warps));
  uint64_t of_lanes = 0;
  for (uint32_t k = 0; k <= kLanes; ++k) of_lanes += k * activity.with_lanes[k];
  // A lane's number of rounds has the mean 1 / (1 - p), and the variance below.
  const double lanes = 32.0 * warps;
  EXPECT_NEAR(static_cast<double>(of_lanes) / lanes, 3 / (1 - p),
              5 * 3 * std::sqrt(p) / (1 - p) / std::sqrt(lanes));
}

// The thesis's Example 4: all lanes stay for the same number of rounds, which one
// probability does not tell.
TEST(Walk, AProbabilityForEachVisitTellsHowLongALoopIs) {
  Graph graph = Read(
      "a [insns=0]; b [insns=5]; c [insns=0]; a -> b; b -> b [p=.9]; b -> c");
  EXPECT_LT(MustWalk(std::vector<Graph>{graph}).efficiency(), 0.5);
  graph.nodes[1].first_edge_by_visit = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const Activity activity = MustWalk(std::vector<Graph>{graph}, {.warps = 10});
  EXPECT_EQ(activity.efficiency(), 1);
  EXPECT_EQ(activity.instructions, 10 * 10 * 5u);
  // Behind the last visit that is known, the edge's own probability counts.
  graph.nodes[1].first_edge_by_visit = {1};
  EXPECT_GT(MustWalk(std::vector<Graph>{graph}, {.warps = 10}).instructions,
            10 * 10 * 5u);
}

// Lanes that diverged meet behind an error path only, although all go through j.
TEST(Walk, LanesMeetAtTheImmediatePostDominator) {
  const std::string nodes =
      "a [insns=1]; b [insns=1]; c [insns=1]; j [insns=1000]; k [insns=1];"
      "a -> b -> j; a -> c -> j; j -> k;";
  const double apart = MustWalk(nodes + "b -> k [p=0]").efficiency();
  const double together = MustWalk(nodes).efficiency();
  EXPECT_NEAR(apart, 0.5, 0.01);
  EXPECT_NEAR(together, 1, 0.01);
}

TEST(Walk, ThreeWaysAreThreeGroups) {
  const Activity activity = MustWalk(
      "a [insns=0]; b [insns=1]; c [insns=1]; d [insns=1];"
      "a -> b; a -> c; a -> d");
  EXPECT_NEAR(activity.efficiency(), 1 / 3.0, 0.001);
}

TEST(Walk, LanesComeBackFromCallsTogetherUnlessTheyHaveExited) {
  Graph caller = Read("a [insns=10]; b [insns=10]; a -> b");
  Graph callee = Read("x [insns=1]; y [insns=1]; z [insns=1]; x -> y; x -> z");
  caller.nodes[0].callee = 1;
  caller.nodes[0].calls = 1;
  Activity activity = MustWalk({caller, callee}, {.warps = 1});
  EXPECT_EQ(activity.instructions, 23u);
  EXPECT_EQ(activity.with_lanes[32], 21u);
  // All that come to y exit.
  callee.nodes[1].leaves = 1;
  callee.nodes[1].exits = true;
  activity = MustWalk({caller, callee}, {.warps = 1});
  EXPECT_EQ(activity.instructions, 23u);
  EXPECT_EQ(activity.with_lanes[32], 11u);
  uint64_t half = 0;
  for (uint32_t k = 1; k < 32; ++k) {
    half = std::max(half, activity.with_lanes[k]);
  }
  EXPECT_GE(half, 11u);  // z and b
  // They return from y instead, before the others.
  callee.nodes[1].exits = false;
  EXPECT_EQ(MustWalk({caller, callee}, {.warps = 1}).with_lanes[32], 21u);
}

TEST(Walk, TheSameSeedWalksTheSameWay) {
  const std::string text =
      "a [insns=1]; b [insns=3]; c [insns=1]; a -> b [p=.3]; a -> c; b -> c";
  const auto walk = [&](uint64_t seed) {
    return MustWalk(text, {.warps = 100, .seed = seed}).sum_of_ratios;
  };
  EXPECT_EQ(walk(1), walk(1));
  EXPECT_NE(walk(1), walk(2));
}

TEST(Walk, LoopsThatHardlyEndAndCallsWithoutEndAreErrors) {
  const std::vector<Graph> endless = {
      Read("a [insns=1]; b [insns=1]; a -> a [p=0.9999999999]; a -> b")};
  EXPECT_THAT(std::string(Walk(endless, {.warps = 1}).status().message()),
              HasSubstr("is at 'a': its loops hardly end"));
  Graph recursive = Read("a [insns=1]");
  recursive.name = "f";
  recursive.nodes[0].callee = 0;
  recursive.nodes[0].calls = 1;
  EXPECT_THAT(
      std::string(Walk({&recursive, 1}, {.warps = 1}).status().message()),
      HasSubstr("calls of 'f' nest deeper than 1000"));
}

}  // namespace
}  // namespace carillon::cfg_sim
