#include "tools/testbed/client/snapshot_rates.h"

#include <algorithm>
#include <utility>

namespace carillon::testbed {
namespace {

constexpr uint64_t kWindowNs = 1'000'000'000;
// A picture that comes so much too early is on time.
constexpr uint64_t kEarlyNs = 50'000'000;
constexpr char kLatency[] = "rung_to_finished";

uint64_t Ended(const v1::EventCounts& counts) {
  return counts.done() + counts.failed() + counts.aborted();
}

// `span_ns` is not 0.
std::optional<double> RateOf(uint64_t before, uint64_t now, uint64_t span_ns) {
  if (now < before) return std::nullopt;
  return static_cast<double>(now - before) * 1e9 / static_cast<double>(span_ns);
}

v1::Histogram LatencyOf(const v1::EktEntry& entry) {
  const auto found =
      std::ranges::find(entry.stages(), kLatency, &v1::Histogram::name);
  return found == entry.stages().end() ? v1::Histogram() : *found;
}

// What has come to `before` since; all of `now` if that was forgotten meanwhile.
v1::Histogram Difference(const v1::Histogram& before,
                         const v1::Histogram& now) {
  std::map<uint32_t, uint64_t> old;
  const int old_size = std::min(before.bucket_size(), before.count_size());
  for (int i = 0; i < old_size; ++i) old[before.bucket(i)] = before.count(i);
  v1::Histogram difference;
  difference.set_name(kLatency);
  const int size = std::min(now.bucket_size(), now.count_size());
  for (int i = 0; i < size; ++i) {
    const auto known = old.extract(now.bucket(i));
    const uint64_t count = known.empty() ? 0 : known.mapped();
    if (now.count(i) < count) return now;
    if (now.count(i) == count) continue;
    difference.add_bucket(now.bucket(i));
    difference.add_count(now.count(i) - count);
  }
  if (!old.empty() || now.sum_ns() < before.sum_ns()) return now;
  difference.set_sum_ns(now.sum_ns() - before.sum_ns());
  return difference;
}

}  // namespace

void SnapshotRates::Look(const SnapshotPicture& picture) {
  const uint64_t now = picture.monotonic_ns();
  if (now <= looked_ns_) return;
  const uint64_t span = looked_ns_ == 0 ? 0 : now - looked_ns_;
  looked_ns_ = now;
  const uint64_t ended = Ended(picture.totals().events());
  all_ = span == 0 ? std::nullopt : RateOf(ended_, ended, span);
  ended_ = ended;
  std::map<uint32_t, Ring> rings;
  for (const auto& [index, event] : picture.event_kernels()) {
    const uint64_t of_ring = Ended(event.entry.counts());
    v1::Histogram latencies = LatencyOf(event.entry);
    Ring& ring = rings[index];
    if (const auto known = rings_.find(index);
        known != rings_.end() &&
        known->second.generation == event.ring.generation()) {
      ring = std::move(known->second);
      ring.rate = RateOf(ring.ended, of_ring, span);
      if (now + kEarlyNs >= ring.window_ns + kWindowNs) {
        ring.last_window = Difference(ring.before, latencies);
        ring.before = std::move(latencies);
        ring.window_ns = now;
      }
    } else {
      ring.generation = event.ring.generation();
      ring.device = event.ring.device();
      ring.before = std::move(latencies);
      ring.window_ns = now;
    }
    ring.ended = of_ring;
  }
  rings_ = std::move(rings);
}

std::optional<double> SnapshotRates::OfRing(uint32_t ekt_index) const {
  const auto ring = rings_.find(ekt_index);
  return ring == rings_.end() ? std::nullopt : ring->second.rate;
}

std::optional<double> SnapshotRates::OfDevice(const std::string& device) const {
  std::optional<double> sum;
  for (const auto& [index, ring] : rings_) {
    if (ring.device != device || !ring.rate) continue;
    sum = sum.value_or(0) + *ring.rate;
  }
  return sum;
}

v1::Histogram SnapshotRates::Latencies(uint32_t ekt_index) const {
  const auto ring = rings_.find(ekt_index);
  return ring == rings_.end() ? v1::Histogram() : ring->second.last_window;
}

}  // namespace carillon::testbed
