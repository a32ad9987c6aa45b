#include "shm/histogram.h"

#include <gtest/gtest.h>

namespace carillon::shm {
namespace {

TEST(HistogramTest, EveryBucketFloorLiesInItsOwnBucket) {
  for (uint32_t bucket = 0; bucket < kHistogramBuckets; ++bucket) {
    EXPECT_EQ(HistogramBucket(HistogramBucketFloor(bucket)), bucket);
  }
}

TEST(HistogramTest, BucketsAreAtMostOneThirtySecondWide) {
  for (uint32_t bucket = kHistogramSubBuckets; bucket + 1 < kHistogramBuckets;
       ++bucket) {
    const uint64_t floor = HistogramBucketFloor(bucket);
    EXPECT_LE((HistogramBucketFloor(bucket + 1) - floor) * kHistogramSubBuckets,
              floor)
        << "bucket " << bucket;
  }
}

TEST(HistogramTest, ValuesBeyondTheRangeCountInTheLastBucket) {
  EXPECT_EQ(HistogramBucket(~uint64_t{0}), kHistogramBuckets - 1);
}

TEST(HistogramTest, PercentilesOfAUniformRampAreExactToTheBucketWidth) {
  HistogramCells cells{};
  HistogramWriter writer(&cells);
  for (uint64_t value = 1; value <= 10000; ++value) writer.Add(value);
  const HistogramSnapshot snapshot(cells);
  EXPECT_EQ(snapshot.count(), 10000u);
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double exact = fraction * 10000;
    EXPECT_LE(snapshot.Percentile(fraction), exact);
    EXPECT_GE(snapshot.Percentile(fraction) * (1 + 1.0 / 32) + 1, exact);
  }
}

TEST(HistogramTest, AnEmptyHistogramHasNoPercentile) {
  EXPECT_EQ(HistogramSnapshot().Percentile(0.5), 0u);
  EXPECT_EQ(HistogramSnapshot().sum(), 0u);
}

TEST(HistogramTest, TheSumIsExactWhereBucketsAreWide) {
  HistogramCells cells{};
  HistogramWriter writer(&cells);
  writer.Add(1'000'003);
  writer.Add(1'000'004);
  HistogramSnapshot snapshot(cells);
  EXPECT_EQ(snapshot.sum(), 2'000'007u);
  snapshot.Merge(cells);
  snapshot.Merge(HistogramSnapshot(cells));
  EXPECT_EQ(snapshot.sum(), 3 * 2'000'007u);
}

TEST(HistogramTest, CountsThatNobodyCanHaveReachedAreHarmless) {
  HistogramCells cells;
  for (uint64_t& cell : cells.buckets) cell = ~uint64_t{0};
  cells.sum_ns = ~uint64_t{0};
  HistogramSnapshot snapshot(cells);
  snapshot.Merge(cells);
  EXPECT_EQ(snapshot.count(), uint64_t{1} << 53);
  for (const double fraction : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(snapshot.Percentile(fraction), 0u);
  }
  snapshot.AddBucket(~0u, 1);
  EXPECT_EQ(snapshot.count(), uint64_t{1} << 53);
}

}  // namespace
}  // namespace carillon::shm
