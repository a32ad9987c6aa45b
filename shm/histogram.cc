#include "shm/histogram.h"

#include <algorithm>
#include <cmath>

#include "shm/load_shared.h"

namespace carillon::shm {
namespace {

// Exact as a double, so that Percentile() never leaves the integers.
constexpr uint64_t kMaxCount = uint64_t{1} << 53;

}  // namespace

void HistogramSnapshot::Merge(const HistogramCells& cells) {
  for (uint32_t i = 0; i < kHistogramBuckets; ++i) {
    // The cells may belong to another process: one load each, no assumption on
    // the value.
    const uint64_t count =
        LoadShared(cells.buckets[i], std::memory_order_relaxed);
    if (count != 0) AddBucket(i, count);
  }
  AddSum(LoadShared(cells.sum_ns, std::memory_order_relaxed));
}

void HistogramSnapshot::Merge(const HistogramSnapshot& other) {
  for (uint32_t i = 0; i < kHistogramBuckets; ++i)
    AddBucket(i, other.buckets_[i]);
  AddSum(other.sum_);
}

void HistogramSnapshot::AddBucket(uint32_t bucket, uint64_t count) {
  uint64_t& cell = buckets_[std::min(bucket, kHistogramBuckets - 1)];
  // The counts may come from another process: any value must be harmless.
  count = std::min(count, kMaxCount - count_);
  cell += count;
  count_ += count;
}

uint64_t HistogramSnapshot::Percentile(double fraction) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<uint64_t>(
      std::ceil(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_)));
  uint64_t below = 0;
  for (uint32_t i = 0; i < kHistogramBuckets; ++i) {
    below += buckets_[i];
    if (below >= std::max<uint64_t>(wanted, 1)) return HistogramBucketFloor(i);
  }
  return HistogramBucketFloor(kHistogramBuckets - 1);
}

}  // namespace carillon::shm
