#include "gpu_daemon/dispatch/copy_queue.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::gpud {

CopyQueue::~CopyQueue() {
  Stop();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void CopyQueue::Submit(std::unique_ptr<MemoryCopy> copy) {
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      const Place place{~copy->priority, arrivals_++};
      copies_.emplace(place, std::move(copy));
      while (threads_.size() < kLanes) threads_.emplace_back([this] { Run(); });
      changed_.NotifyAll();
      return;
    }
  }
  copy->cancelled = shm::EventStatus::kShutdown;
  copy->on_end(copy->ResultAt(NowNs()));
}

void CopyQueue::Cancel(const LaunchFilter& which, shm::EventStatus why) {
  MutexLock lock(mutex_);
  CancelLocked(which, why);
}

void CopyQueue::CancelLocked(const LaunchFilter& which, shm::EventStatus why) {
  for (const auto& [place, copy] : copies_) {
    if (which.Matches(*copy) && !copy->cancelled) copy->cancelled = why;
  }
}

std::vector<CopyProgress> CopyQueue::copies() const {
  std::vector<CopyProgress> result;
  MutexLock lock(mutex_);
  const Nanoseconds now = NowNs();
  for (const auto& [place, copy] : copies_) {
    result.push_back(ProgressOf(*copy, now));
  }
  return result;
}

bool CopyQueue::idle() const {
  MutexLock lock(mutex_);
  return copies_.empty();
}

void CopyQueue::Stop() {
  MutexLock lock(mutex_);
  CancelLocked(LaunchFilter::All(), shm::EventStatus::kShutdown);
  stopped_ = true;
  changed_.NotifyAll();
}

CopyQueue::Copies::iterator CopyQueue::FindEnded() {
  return std::ranges::find_if(copies_, [](const auto& entry) {
    const MemoryCopy& copy = *entry.second;
    return copy.under_way == 0 && !copy.HasNextChunk();
  });
}

MemoryCopy* CopyQueue::Next() {
  MemoryCopy* most_urgent = nullptr;
  MemoryCopy* oldest = nullptr;
  uint64_t arrival = 0;
  for (const auto& [place, copy] : copies_) {
    if (!copy->HasNextChunk()) continue;
    if (most_urgent == nullptr) most_urgent = copy.get();
    if (oldest == nullptr || place.second < arrival) {
      oldest = copy.get();
      arrival = place.second;
    }
  }
  return oldest == nullptr ? nullptr : turns_.Next(most_urgent, oldest);
}

void CopyQueue::Run() {
  pthread_setname_np(pthread_self(), "gpud-copies");
  MutexLock lock(mutex_);
  while (true) {
    if (const auto found = FindEnded(); found != copies_.end()) {
      std::unique_ptr<MemoryCopy> ended = std::move(found->second);
      copies_.erase(found);
      if (stopped_) changed_.NotifyAll();
      lock.Unlock();
      ended->on_end(ended->ResultAt(NowNs()));
      ended.reset();  // frees what only it has kept
      lock.Lock();
    } else if (MemoryCopy* const next = Next()) {
      CopyChunk(*next);
    } else if (stopped_ && copies_.empty()) {
      return;
    } else {
      // What is there, ends with a chunk of another thread's.
      changed_.Wait(mutex_);
    }
  }
}

void CopyQueue::CopyChunk(MemoryCopy& copy) {
  const uint64_t bytes = copy.NextChunk(chunks_);
  if (!copy.started_ns) {
    copy.started_ns = NowNs();
    copy.losses = memory_->losses();
  }
  const uint64_t at = std::exchange(copy.issued, copy.issued + bytes);
  ++copy.under_way;
  mutex_.Unlock();
  const absl::Status status =
      memory_->Copy(copy.direction, copy.to + at, copy.from + at, bytes);
  mutex_.Lock();
  --copy.under_way;
  copy.copied += bytes;
  // What is before the first chunk, nobody can lose.
  const bool first = copy.copied == bytes;
  if (status.ok() && (first || memory_->losses() == copy.losses)) return;
  spdlog::error(
      "a copy of device '{}' failed: {}", copy.memory->name(),
      status.ok() ? "the GPU was lost between its chunks" : status.message());
  copy.failed = true;
}

}  // namespace carillon::gpud
