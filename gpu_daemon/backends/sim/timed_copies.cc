#include "gpu_daemon/backends/sim/timed_copies.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "shm/simulated_time.h"

namespace carillon::gpud {

void TimedCopies::Submit(std::unique_ptr<MemoryCopy> copy, uint64_t order) {
  Place place{copy->queued_ns, copy->memory->name(), order};
  copies_.emplace(std::move(place), std::move(copy));
}

std::vector<CopyProgress> TimedCopies::List(Nanoseconds now) const {
  std::vector<CopyProgress> result;
  for (const auto& [place, copy] : copies_) {
    if (std::get<0>(place) > now) break;
    result.push_back(ProgressOf(*copy, now));
  }
  return result;
}

Nanoseconds TimedCopies::next() const {
  if (running_ != nullptr) return chunk_end_;
  if (copies_.empty()) return shm::kNoTime;
  return std::max(chunk_end_, std::get<0>(copies_.begin()->first));
}

std::vector<TimedCopies::Ended> TimedCopies::AdvanceTo(Nanoseconds now) {
  std::vector<Ended> ended;
  while (next() <= now) {
    if (running_ == nullptr) {
      BeginChunk(next());
      continue;
    }
    MemoryCopy& copy = *std::exchange(running_, nullptr);
    const uint64_t bytes = copy.NextChunk(chunks_);
    const absl::Status status = memory_->Copy(
        copy.direction, copy.to + copy.copied, copy.from + copy.copied, bytes);
    if (!status.ok()) spdlog::error("a copy failed: {}", status.message());
    copy.failed = !status.ok();
    copy.issued += bytes;
    copy.copied += bytes;
    if (!copy.failed && copy.copied < copy.bytes) continue;
    const auto found = std::ranges::find_if(
        copies_, [&](const auto& one) { return one.second.get() == &copy; });
    ended.push_back({std::move(found->second), chunk_end_});
    copies_.erase(found);
  }
  return ended;
}

// Of those that have arrived.
void TimedCopies::BeginChunk(Nanoseconds now) {
  for (const auto& [place, copy] : copies_) {
    if (std::get<0>(place) > now) break;
    if (running_ == nullptr || copy->priority > running_->priority) {
      running_ = copy.get();
    }
  }
  running_ = turns_.Next(running_, copies_.begin()->second.get());
  if (!running_->started_ns) running_->started_ns = now;
  // A megabyte a second is a byte a microsecond.
  const uint64_t bytes = running_->NextChunk(chunks_);
  const uint64_t rate = link_.megabytes_per_second;
  chunk_end_ = now + link_.chunk_ns + (bytes * 1000 + rate - 1) / rate;
}

std::vector<TimedCopies::Ended> TimedCopies::Cancel(const LaunchFilter& which,
                                                    shm::EventStatus why,
                                                    Nanoseconds now) {
  std::vector<Ended> ended;
  for (auto at = copies_.begin(); at != copies_.end();) {
    MemoryCopy& copy = *at->second;
    if (!which.Matches(copy)) {
      ++at;
      continue;
    }
    if (running_ == &copy) {
      running_ = nullptr;
      chunk_end_ = now;
    }
    copy.cancelled = why;
    ended.push_back({std::move(at->second), now});
    at = copies_.erase(at);
  }
  return ended;
}

}  // namespace carillon::gpud
