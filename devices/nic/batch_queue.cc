#include "devices/nic/batch_queue.h"

#include <algorithm>

#include "base/clock.h"

namespace carillon::nic {

uint32_t BatchQueue::Ready(Nanoseconds now, bool drained,
                           uint32_t in_flight) const {
  if (queue_.empty()) return 0;
  if (queue_.size() >= limit_) return limit_;
  const auto size = static_cast<uint32_t>(queue_.size());
  if (drained && in_flight == 0) return size;
  return now >= *Deadline() ? size : 0;
}

std::optional<Nanoseconds> BatchQueue::Deadline() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().received_ns + timeout_;
}

void BatchQueue::Pop(std::span<Request> batch) {
  std::copy_n(queue_.begin(), batch.size(), batch.begin());
  queue_.erase(queue_.begin(),
               queue_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
}

}  // namespace carillon::nic
