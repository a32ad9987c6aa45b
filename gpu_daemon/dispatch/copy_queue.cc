#include "gpu_daemon/dispatch/copy_queue.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "base/status.h"

namespace carillon::gpud {

CopyQueue::~CopyQueue() {
  Stop();
  std::thread thread;
  {
    MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void CopyQueue::Submit(std::unique_ptr<MemoryCopy> copy) {
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      const Place place{~copy->priority, arrivals_++};
      copies_.emplace(place, std::move(copy));
      if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
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

void CopyQueue::Run() {
  pthread_setname_np(pthread_self(), "gpud-copies");
  MutexLock lock(mutex_);
  while (true) {
    while (copies_.empty() && !stopped_) changed_.Wait(mutex_);
    if (copies_.empty()) return;
    // One that was cancelled waits for nobody.
    auto next = copies_.begin();
    for (auto at = next; at != copies_.end(); ++at) {
      if (at->second->cancelled) next = at;
    }
    MemoryCopy& copy = *next->second;
    if (!copy.cancelled) CopyChunk(copy);
    if (!copy.cancelled && !copy.failed && copy.copied < copy.bytes) continue;
    std::unique_ptr<MemoryCopy> ended = std::move(next->second);
    copies_.erase(next);
    lock.Unlock();
    ended->on_end(ended->ResultAt(NowNs()));
    ended.reset();  // frees what only it has kept
    lock.Lock();
  }
}

void CopyQueue::CopyChunk(MemoryCopy& copy) {
  const uint64_t bytes = copy.NextChunk(chunks_);
  if (!copy.started_ns) {
    copy.started_ns = NowNs();
    copy.losses = memory_->losses();
  }
  mutex_.Unlock();
  const absl::Status status = memory_->Copy(
      copy.direction, copy.to + copy.copied, copy.from + copy.copied, bytes);
  mutex_.Lock();
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
