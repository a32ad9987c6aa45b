#include "sim/experiments/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace carillon::sim::figures {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

TEST(Metrics, TheTailIsTheMeanOfTheTopTwentieth) {
  std::vector<double> values;
  for (int i = 1; i <= 40; ++i) values.push_back(i);
  EXPECT_THAT(Tail(values), Optional(39.5));
  EXPECT_THAT(Mean(values), Optional(20.5));
  // The tail of a short list is its largest value.
  EXPECT_THAT(Tail({3, 9, 4}), Optional(9));
  // With 21 values the tail has two.
  values.resize(21);
  EXPECT_THAT(Tail(values), Optional(20.5));
}

TEST(Metrics, NothingComesOfNothing) {
  EXPECT_EQ(Mean({}), std::nullopt);
  EXPECT_EQ(Tail({}), std::nullopt);
  EXPECT_EQ(Ratio(std::nullopt, 2), std::nullopt);
  EXPECT_EQ(Ratio(2, 0), std::nullopt);
  EXPECT_THAT(Ratio(3, 2), Optional(1.5));
  EXPECT_EQ(Number(std::nullopt), nullptr);
  EXPECT_EQ(Number(std::nan("")), nullptr);
}

TEST(Metrics, TheMedianLiesInTheMiddle) {
  EXPECT_THAT(Median({9, 1, 4}), Optional(4));
  EXPECT_THAT(Median({9, 1, 4, 5}), Optional(4.5));
  EXPECT_EQ(Median({}), std::nullopt);
}

TEST(Metrics, TheGeometricMeanIsTheRootOfTheProduct) {
  EXPECT_THAT(GeometricMean(std::vector<double>{2, 4, 8}),
              Optional(DoubleNear(4, 1e-12)));
  EXPECT_EQ(GeometricMean(std::vector<double>{2, 0}), std::nullopt);
  EXPECT_EQ(GeometricMean({}), std::nullopt);
}

TEST(Metrics, RatiosOfPairsStandBesideTheRatioOfMeans) {
  // One large pair makes the ratio of means.
  const Ratios ratios = RatiosOf({1000, 1, 2, 8}, {10, 2, 4, 4});
  EXPECT_THAT(ratios.of_means, Optional(DoubleNear(50.55, 1e-12)));
  EXPECT_THAT(ratios.median, Optional(1.25));
  EXPECT_THAT(ratios.geometric_mean, Optional(DoubleNear(2.6591, 1e-4)));
  EXPECT_THAT(ratios.least, Optional(0.5));
  EXPECT_THAT(ratios.most, Optional(100));
  EXPECT_EQ(ratios.pairs, 4u);
  EXPECT_EQ(ratios.above_one, 2u);
}

TEST(Metrics, APairWithNothingToDivideByHasNoRatio) {
  const Ratios ratios = RatiosOf({3, 6, 5}, {0, 2, 5});
  EXPECT_THAT(ratios.of_means, Optional(2));
  EXPECT_THAT(ratios.median, Optional(2));
  EXPECT_EQ(ratios.pairs, 2u);
  EXPECT_EQ(ratios.above_one, 1u);
  EXPECT_EQ(RatiosOf({}, {}).median, std::nullopt);
  EXPECT_EQ(RatiosOf({}, {}).of_means, std::nullopt);
}

TEST(Metrics, APairWithoutBothValuesIsLeftOut) {
  const Ratios ratios = RatiosOf({3, std::nullopt, 8}, {1, 1000, std::nullopt});
  EXPECT_THAT(ratios.of_means, Optional(3));
  EXPECT_THAT(ratios.geometric_mean, Optional(DoubleNear(3, 1e-12)));
  EXPECT_EQ(ratios.pairs, 1u);
  EXPECT_THAT(Present({3, std::nullopt, 8}), ElementsAre(3, 8));
}

TEST(Metrics, AnttCountsEachEventAndTheBackgroundOnce) {
  EXPECT_DOUBLE_EQ(Antt(3, 2.0, 6.0), 3.0);
  EXPECT_DOUBLE_EQ(Antt(0, 100.0, 1.5), 1.5);
}

TEST(Metrics, NumbersHaveThreeDigitsThatMatter) {
  EXPECT_EQ(Number(0.012345), 0.0123);
  EXPECT_EQ(Number(2.3456), 2.35);
  EXPECT_EQ(Number(-115.72), -116.0);
  EXPECT_EQ(Number(917947.4), 917947.0);
  EXPECT_EQ(Number(0.0), 0.0);
}

TEST(Metrics, SamplesAreThoseOfAllResults) {
  const Json a{{"events", {{"scheduling", {1, 2}}}}};
  const Json b{{"events", {{"scheduling", {5}}}}};
  const std::vector<const Json*> both = {&a, &b};
  EXPECT_THAT(Samples(both, "/events/scheduling"), ElementsAre(1, 2, 5));
}

}  // namespace
}  // namespace carillon::sim::figures
