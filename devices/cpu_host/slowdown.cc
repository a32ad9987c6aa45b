#include "devices/cpu_host/slowdown.h"

#include <algorithm>

#include "base/clock.h"

namespace carillon::cpu_host {

void Slowdown::Add(Nanoseconds duration) {
  all_.AddBucket(shm::HistogramBucket(duration), 1);
  recent_[count_++ % kRecent] = duration;
}

uint64_t Slowdown::permille() const {
  if (count_ < 10) return 0;
  // The median of the fastest tenth.
  const uint64_t fastest = all_.Percentile(0.05);
  auto recent = recent_;
  const auto end = recent.begin() + std::min<uint64_t>(count_, kRecent);
  const auto middle = recent.begin() + (end - recent.begin()) / 2;
  std::nth_element(recent.begin(), middle, end);
  // Rounded in the same way as `fastest`.
  const uint64_t now = shm::HistogramBucketFloor(shm::HistogramBucket(*middle));
  return fastest == 0 ? 0 : now * 1000 / fastest;
}

}  // namespace carillon::cpu_host
