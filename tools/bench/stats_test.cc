#include "tools/bench/stats.h"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <vector>

namespace carillon::bench {
namespace {

TEST(Percentiles, AreSamplesThatWereSeenWhateverTheirOrder) {
  std::vector<uint32_t> samples(100);
  std::iota(samples.rbegin(), samples.rend(), 1);  // 100, 99, ... 1
  const Percentiles p = PercentilesOf(samples);
  EXPECT_EQ(p.samples, 100u);
  EXPECT_EQ(p.min, 1);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  EXPECT_EQ(p.max, 100);
}

TEST(Percentiles, OfOneSampleAreThatSampleAndOfNoneAreZero) {
  std::vector<uint32_t> one = {7};
  EXPECT_EQ(PercentilesOf(one).p50, 7);
  EXPECT_EQ(PercentilesOf(one).p99, 7);
  EXPECT_EQ(PercentilesOf(std::span<uint32_t>()).samples, 0u);
  EXPECT_EQ(PercentilesOf(std::vector<double>()).p99, 0);
}

TEST(Percentiles, OfFractionsHaveTheirMeanAndTheSmallestRanksThatSuffice) {
  std::vector<double> samples;
  for (int i = 200; i > 0; --i) samples.push_back(i + 0.5);
  const Percentiles p = PercentilesOf(samples);
  EXPECT_EQ(p.samples, 200u);
  EXPECT_EQ(p.mean, 101);
  EXPECT_EQ(p.min, 1.5);
  EXPECT_EQ(p.p50, 100.5);
  EXPECT_EQ(p.p99, 198.5);
  EXPECT_EQ(p.p999, 200.5);
  EXPECT_EQ(p.max, 200.5);
}

TEST(Ranges, HaveTheMiddleRunAsMedianAndTheOutermostAsEnds) {
  const Range odd = RangeOf({5, 1, 3});
  EXPECT_EQ(odd.runs, 3u);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.low, 1);
  EXPECT_EQ(odd.high, 5);
  EXPECT_EQ(RangeOf({4, 1, 2, 10}).median, 3);
  EXPECT_EQ(RangeOf({}).runs, 0u);
}

TEST(PairRatios, CompareOnlyWithinARound) {
  // The machine is ten times slower in the second round: the ratio is not.
  const std::vector<RoundValues> of = {{20, 20}, {200, 200}};
  const std::vector<RoundValues> to = {{10, 10}, {100, 100}};
  const Range ratio = RangeOf(PairRatios(of, to));
  EXPECT_EQ(ratio.runs, 2u);
  EXPECT_NEAR(ratio.low, 2, 1e-12);
  EXPECT_NEAR(ratio.high, 2, 1e-12);
}

TEST(PairRatios, CancelASteadyDriftWithinARound) {
  // A B B A, and every run takes 10 % longer than the one before it.
  const std::vector<RoundValues> of = {{100, 133.1}};
  const std::vector<RoundValues> to = {{110, 121}};
  EXPECT_NEAR(PairRatios(of, to)[0], 1, 1e-12);
}

TEST(PairRatios, LeaveOutRoundsInWhichOneDidNotRun) {
  const std::vector<RoundValues> of = {{}, {6}, {8}};
  const std::vector<RoundValues> to = {{1}, {2}};
  const std::vector<double> ratios = PairRatios(of, to);
  ASSERT_EQ(ratios.size(), 1u);
  EXPECT_NEAR(ratios[0], 3, 1e-12);
}

TEST(RoundOrder, GoesThereAndBackAndTheOtherWayEverySecondRound) {
  EXPECT_EQ(RoundOrder(2, 0), (std::vector<size_t>{0, 1, 1, 0}));
  EXPECT_EQ(RoundOrder(2, 1), (std::vector<size_t>{1, 0, 0, 1}));
  EXPECT_EQ(RoundOrder(3, 2), (std::vector<size_t>{0, 1, 2, 2, 1, 0}));
  EXPECT_TRUE(RoundOrder(0, 0).empty());
}

}  // namespace
}  // namespace carillon::bench
