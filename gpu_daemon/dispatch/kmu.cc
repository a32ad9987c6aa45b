#include "gpu_daemon/dispatch/kmu.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

}  // namespace

Kmu::Kmu(const GpuModel& model, std::unique_ptr<SharingPolicy> policy)
    : sms_(model) {
  SetPolicy(std::move(policy));
}

Kmu::~Kmu() { Stop(); }

void Kmu::SetPolicy(std::unique_ptr<SharingPolicy> policy) {
  MutexLock lock(mutex_);
  by_priority_.store(policy->ByPriority(), std::memory_order_relaxed);
  policy_ = std::move(policy);
}

std::deque<Kmu::LaunchPtr>& Kmu::QueueOf(const KernelLaunch& launch) {
  const auto by = launch.from_host ? LaunchedBy::kHost : LaunchedBy::kEvent;
  return pending_[static_cast<size_t>(by)][launch.priority];
}

std::string Kmu::policy_name() const {
  MutexLock lock(mutex_);
  return std::string(policy_->name());
}

void Kmu::Submit(LaunchPtr launch) {
  if (launch->memory != nullptr) launch->run = LaunchRun(*launch->memory);
  if (!launch->is_event())
    background_kernels_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      launch->arrival = ++arrivals_;
      QueueOf(*launch).push_back(std::move(launch));
      FillKdu();
    }
  }
  if (launch != nullptr) {
    End(std::move(launch), EventState::kAborted,
        static_cast<uint32_t>(EventStatus::kShutdown));
    return;
  }
  work_.NotifyOne();
}

// The pending queue whose first launch is the next of the KDU's: the oldest, or
// the oldest of the highest priority. Null if all are empty.
std::deque<Kmu::LaunchPtr>* Kmu::NextPending() {
  std::deque<LaunchPtr>* next = nullptr;
  for (int priority = kPriorities - 1; priority >= 0; --priority) {
    for (auto& queues : pending_) {
      auto& queue = queues[priority];
      if (queue.empty()) continue;
      if (next == nullptr || queue.front()->arrival < next->front()->arrival) {
        next = &queue;
      }
    }
    if (next != nullptr && policy_->ByPriority()) break;
  }
  return next;
}

// Moves launches from the pending queues to the KDU while it has room.
void Kmu::FillKdu() {
  while (auto* queue = NextPending()) {
    if (kdu_.size() >= kKduEntries && !MakeRoom(queue->front()->priority)) {
      return;
    }
    // Kept in the order of arrival, which is what policies are told.
    const auto place =
        std::upper_bound(kdu_.begin(), kdu_.end(), queue->front()->arrival,
                         [](uint64_t arrival, const LaunchPtr& other) {
                           return arrival < other->arrival;
                         });
    kdu_.insert(place, std::move(queue->front()));
    queue->pop_front();
  }
}

// Under a policy that goes by priority, what waits in the KDU for its first
// block goes back to its queue for something more urgent: the last to arrive of
// the lowest priority.
bool Kmu::MakeRoom(uint32_t priority) {
  if (!policy_->ByPriority()) return false;
  auto victim = kdu_.end();
  for (auto launch = kdu_.begin(); launch != kdu_.end(); ++launch) {
    if ((*launch)->next_block != 0 || (*launch)->priority >= priority) continue;
    if (victim == kdu_.end() || (*launch)->priority <= (*victim)->priority) {
      victim = launch;
    }
  }
  if (victim == kdu_.end()) return false;
  QueueOf(**victim).push_front(std::move(*victim));
  kdu_.erase(victim);
  return true;
}

std::optional<DispatchedBlock> Kmu::NextBlock() {
  MutexLock lock(mutex_);
  while (true) {
    if (stopping_) return std::nullopt;
    waiting_.clear();
    for (const LaunchPtr& launch : kdu_) {
      if (!launch->cancelled && launch->next_block < launch->kmd.blocks()) {
        waiting_.push_back(launch.get());
      }
    }
    if (!waiting_.empty()) {
      policy_->Rank(waiting_, order_);
      for (const size_t index : order_) {
        KernelLaunch* launch = waiting_[index];
        const auto sm = sms_.Place(launch->cost);
        if (!sm) continue;
        if (launch->next_block == 0) launch->life.dispatched_ns = NowNs();
        const uint64_t block = launch->next_block++;
        if (!launch->is_event())
          background_blocks_.fetch_add(1, std::memory_order_relaxed);
        // Another worker may find a block too.
        if (waiting_.size() > 1 || launch->next_block < launch->kmd.blocks())
          work_.NotifyOne();
        return DispatchedBlock{launch, block, *sm};
      }
    }
    work_.Wait(mutex_);
  }
}

void Kmu::EndBlock(const DispatchedBlock& block) {
  LaunchPtr ended;
  bool cut_short = false;
  {
    MutexLock lock(mutex_);
    KernelLaunch* launch = block.launch;
    sms_.Release(block.sm, launch->cost);
    ++launch->ended_blocks;
    cut_short = launch->cancelled && launch->next_block < launch->kmd.blocks();
    const uint64_t last = cut_short ? launch->next_block : launch->kmd.blocks();
    if (launch->ended_blocks == last) {
      const auto place =
          std::find_if(kdu_.begin(), kdu_.end(),
                       [&](const LaunchPtr& p) { return p.get() == launch; });
      ended = std::move(*place);
      kdu_.erase(place);
      FillKdu();
    }
  }
  work_.NotifyOne();
  if (ended == nullptr) return;
  // The blocks of other workers ended under the lock before this one did.
  const uint32_t status = std::atomic_ref<uint32_t>(ended->run.fail_status)
                              .load(std::memory_order_relaxed);
  if (cut_short) {
    const auto why = static_cast<uint32_t>(*ended->cancelled);
    End(std::move(ended), EventState::kAborted, why);
  } else if (status != 0) {
    End(std::move(ended), EventState::kFailed, simt::CompletionStatus(status));
  } else {
    End(std::move(ended), EventState::kDone, 0);
  }
}

void Kmu::End(LaunchPtr launch, EventState state, uint32_t status) {
  launch->life.finished_ns = NowNs();
  if (!launch->on_end) {
    const bool traced = launch->life.seen_ns != 0;
    if (launch->event->End(launch->sequence,
                           {.state = state,
                            .status = status,
                            .life = traced ? &launch->life : nullptr})) {
      launch->memory->bell().Signal();
    }
    return;
  }
  launch->on_end(launch->ResultOf(state, status));
}

uint64_t Kmu::Cancel(const LaunchFilter& which, EventStatus why) {
  std::vector<LaunchPtr> ended;
  uint64_t cut = 0;
  {
    MutexLock lock(mutex_);
    for (auto& queues : pending_) {
      for (auto& queue : queues) {
        for (auto& launch : queue) {
          if (which.Matches(*launch)) ended.push_back(std::move(launch));
        }
        std::erase(queue, nullptr);
      }
    }
    for (auto& launch : kdu_) {
      if (!which.Matches(*launch) || launch->cancelled) continue;
      const bool unplaced = launch->next_block < launch->kmd.blocks();
      if (!unplaced) continue;  // all blocks run already: it ends as it ends
      launch->cancelled = why;
      if (launch->next_block == launch->ended_blocks) {
        ended.push_back(std::move(launch));
      } else {
        ++cut;
      }
    }
    std::erase(kdu_, nullptr);
    FillKdu();
  }
  cut += ended.size();
  for (LaunchPtr& launch : ended) {
    End(std::move(launch), EventState::kAborted, static_cast<uint32_t>(why));
  }
  work_.NotifyAll();
  return cut;
}

std::vector<QueueLength> Kmu::queue_lengths() const {
  MutexLock lock(mutex_);
  std::vector<QueueLength> lengths;
  for (const LaunchedBy by : {LaunchedBy::kEvent, LaunchedBy::kHost}) {
    const auto& queues = pending_[static_cast<size_t>(by)];
    for (uint32_t priority = 0; priority < kPriorities; ++priority) {
      lengths.push_back(
          {.event = by == LaunchedBy::kEvent,
           .priority = priority,
           .kernels = static_cast<uint32_t>(queues[priority].size())});
    }
  }
  return lengths;
}

uint32_t Kmu::resident_blocks() const {
  MutexLock lock(mutex_);
  return sms_.resident_blocks();
}

bool Kmu::idle() const {
  MutexLock lock(mutex_);
  // The pending queues are empty too: FillKdu() follows whatever makes room.
  return kdu_.empty();
}

void Kmu::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  Cancel(LaunchFilter::All(), EventStatus::kShutdown);
  work_.NotifyAll();
}

}  // namespace carillon::gpud
