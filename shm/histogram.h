// A log-linear latency histogram over shared cells: one writer, any readers.
#ifndef CARILLON_SHM_HISTOGRAM_H_
#define CARILLON_SHM_HISTOGRAM_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "shm/layout.h"

namespace carillon::shm {

// Bucket of a value in nanoseconds; relative width 1/32 (3 %). Values of 2^44
// ns (4.8 hours) and more share the last bucket.
constexpr uint32_t HistogramBucket(uint64_t value) {
  if (value < kHistogramSubBuckets) return static_cast<uint32_t>(value);
  // So that value >> exponent is 32..63.
  const uint32_t exponent = std::bit_width(value) - 6;
  const uint32_t bucket = exponent * kHistogramSubBuckets +
                          static_cast<uint32_t>(value >> exponent);
  return bucket < kHistogramBuckets ? bucket : kHistogramBuckets - 1;
}

// Smallest value of a bucket.
constexpr uint64_t HistogramBucketFloor(uint32_t bucket) {
  if (bucket < 2 * kHistogramSubBuckets) return bucket;
  const uint32_t exponent = bucket / kHistogramSubBuckets - 1;
  return static_cast<uint64_t>(bucket - exponent * kHistogramSubBuckets)
         << exponent;
}

// Adds to cells that one thread at a time writes (a plain load and store, no
// lock prefix: readers only ever see a count that is late).
class HistogramWriter {
 public:
  explicit HistogramWriter(HistogramCells* cells) : cells_(cells) {}
  void Add(uint64_t value_ns) {
    Increase(cells_->buckets[HistogramBucket(value_ns)], 1);
    Increase(cells_->sum_ns, value_ns);
  }

 private:
  static void Increase(uint64_t& cell, uint64_t by) {
    std::atomic_ref<uint64_t> shared(cell);
    shared.store(shared.load(std::memory_order_relaxed) + by,
                 std::memory_order_relaxed);
  }

  HistogramCells* cells_;
};

// A private copy that can be merged, subtracted and asked for percentiles.
class HistogramSnapshot {
 public:
  HistogramSnapshot() = default;
  explicit HistogramSnapshot(const HistogramCells& cells) { Merge(cells); }

  void Merge(const HistogramCells& cells);
  void Merge(const HistogramSnapshot& other);
  // Adds `count` samples to one bucket; out-of-range buckets go to the last
  // one.
  void AddBucket(uint32_t bucket, uint64_t count);
  // Adds to the sum, modulo 2^64: who adds buckets knows their values' sum.
  void AddSum(uint64_t ns) { sum_ += ns; }
  uint64_t count() const { return count_; }
  // Of the samples' values (ns). A writer adds to it after the bucket, so it may
  // be late by what is under way; from another process it may be anything.
  uint64_t sum() const { return sum_; }
  // Smallest value v (ns) such that at least `fraction` (0..1) of the samples
  // are in v's bucket or below; 0 when there are no samples.
  uint64_t Percentile(double fraction) const;
  const std::array<uint64_t, kHistogramBuckets>& buckets() const {
    return buckets_;
  }

 private:
  std::array<uint64_t, kHistogramBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
};

}  // namespace carillon::shm

#endif  // CARILLON_SHM_HISTOGRAM_H_
