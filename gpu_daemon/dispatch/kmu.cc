#include "gpu_daemon/dispatch/kmu.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "kernels/simt/completion_status.h"

namespace carillon::gpud {
namespace {

using shm::EventState;
using shm::EventStatus;

}  // namespace

Kmu::Kmu(const GpuModel& model, std::unique_ptr<SharingPolicy> policy,
         Nanoseconds (*now)())
    : now_(now), sms_(model) {
  SetPolicy(std::move(policy));
}

Kmu::~Kmu() { Stop(); }

void Kmu::SetPolicy(std::unique_ptr<SharingPolicy> policy) {
  {
    MutexLock lock(mutex_);
    by_priority_.store(policy->info().by_priority, std::memory_order_relaxed);
    short_path_.store(policy->info().short_path, std::memory_order_relaxed);
    policy_ = std::move(policy);
    for (const LaunchPtr& launch : kdu_) launch->slice_end = 0;
    ChooseAnew();
  }
  work_.NotifyAll();
}

std::string Kmu::policy_name() const {
  MutexLock lock(mutex_);
  return std::string(policy_->info().name);
}

void Kmu::Submit(LaunchPtr launch) {
  if (launch->memory != nullptr) launch->run = LaunchRun(*launch->memory);
  if (!launch->is_event())
    background_kernels_.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      launch->arrival = ++arrivals_;
      launch->waits_since = ReadTicks();
      if (pending_.empty() && kdu_.size() < kKduEntries &&
          policy_->Admits(*launch, kdu_)) {
        kdu_.push_back(std::move(launch));
      } else {
        PushPending(std::move(launch), /*front=*/false);
        FillKdu();
      }
    }
  }
  if (launch != nullptr) {
    End(std::move(launch), EventState::kAborted,
        static_cast<uint32_t>(EventStatus::kShutdown));
    return;
  }
  work_.NotifyOne();
}

Kmu::DeviceQueues& Kmu::QueuesOf(const DeviceMemory* device) {
  for (const auto& queues : pending_) {
    if (queues->device == device) return *queues;
  }
  pending_.push_back(std::make_unique<DeviceQueues>());
  pending_.back()->device = device;
  return *pending_.back();
}

void Kmu::PushPending(LaunchPtr launch, bool front) {
  DeviceQueues& of = QueuesOf(launch->memory.get());
  const size_t index = QueueOf(*launch);
  of.filled |= 1u << index;
  if (front) {
    of.queues[index].push_front(std::move(launch));
  } else {
    of.queues[index].push_back(std::move(launch));
  }
}

// The launch is the first of its queue.
Kmu::LaunchPtr Kmu::PopPending(const KernelLaunch& launch) {
  DeviceQueues& of = QueuesOf(launch.memory.get());
  const size_t index = QueueOf(launch);
  LaunchPtr first = std::move(of.queues[index].front());
  of.queues[index].pop_front();
  if (of.queues[index].empty()) of.filled &= ~(1u << index);
  if (of.filled == 0) {
    std::erase_if(pending_, [&](const auto& one) { return one.get() == &of; });
  }
  return first;
}

// The next of the KDU's: the oldest of the highest precedence that the policy
// admits. Null: there is none.
const KernelLaunch* Kmu::NextPending() {
  const KernelLaunch* next = nullptr;
  uint32_t highest = 0;
  for (const auto& of : pending_) {
    for (uint32_t left = of->filled; left != 0; left &= left - 1) {
      const KernelLaunch& first = *of->queues[std::countr_zero(left)].front();
      const uint32_t precedence = policy_->Precedence(first);
      if (next != nullptr &&
          (precedence < highest ||
           (precedence == highest && first.arrival > next->arrival))) {
        continue;
      }
      if (!policy_->Admits(first, kdu_)) continue;
      next = &first;
      highest = precedence;
    }
  }
  return next;
}

// Moves launches from the pending queues to the KDU while it has room.
void Kmu::FillKdu() {
  while (!pending_.empty()) {
    const KernelLaunch* const next = NextPending();
    if (next == nullptr) return;
    if (kdu_.size() >= kKduEntries && !MakeRoom(*next)) return;
    EnterKdu(PopPending(*next));
  }
}

void Kmu::EnterKdu(LaunchPtr launch) {
  // Kept in the order of arrival, which is what policies are told.
  const auto place =
      std::upper_bound(kdu_.begin(), kdu_.end(), launch->arrival,
                       [](uint64_t arrival, const LaunchPtr& other) {
                         return arrival < other->arrival;
                       });
  kdu_.insert(place, std::move(launch));
}

// What waits in the KDU for its first block goes back to its queue for something
// of a higher precedence: the last to arrive of the lowest.
bool Kmu::MakeRoom(const KernelLaunch& launch) {
  uint32_t lowest = policy_->Precedence(launch);
  auto victim = kdu_.end();
  for (auto other = kdu_.begin(); other != kdu_.end(); ++other) {
    if ((*other)->begun()) continue;
    const uint32_t precedence = policy_->Precedence(**other);
    if (precedence > lowest) continue;
    if (precedence == lowest && victim == kdu_.end()) continue;
    victim = other;
    lowest = precedence;
  }
  if (victim == kdu_.end()) return false;
  LaunchPtr back = std::move(*victim);
  kdu_.erase(victim);
  PushPending(std::move(back), /*front=*/true);
  return true;
}

// What has not begun leaves the KDU, the last to arrive first: queues stay in
// the order of arrival.
void Kmu::ChooseAnew() {
  for (size_t i = kdu_.size(); i-- > 0;) {
    if (kdu_[i]->begun()) continue;
    PushPending(std::move(kdu_[i]), /*front=*/true);
  }
  std::erase(kdu_, nullptr);
  FillKdu();
}

void Kmu::Plan() {
  seen_pending_.clear();
  for (const auto& of : pending_) {
    PendingLaunches seen{.device = of->device, .oldest = ~uint64_t{0}};
    for (uint32_t left = of->filled; left != 0; left &= left - 1) {
      const auto index = static_cast<size_t>(std::countr_zero(left));
      const auto& queue = of->queues[index];
      seen.oldest = std::min(seen.oldest, queue.front()->arrival);
      if (index >= IndexOf(Queue::kHost, 0)) continue;
      seen.events += static_cast<uint32_t>(queue.size());
    }
    seen_pending_.push_back(seen);
  }
  std::ranges::sort(seen_pending_, {}, &PendingLaunches::oldest);
  const KmuView view{.kdu = kdu_, .pending = seen_pending_, .now_ns = now_()};
  if (policy_->Plan(view)) {
    ChooseAnew();
  } else {
    FillKdu();
  }
}

std::optional<DispatchedBlock> Kmu::PlaceOne() {
  if (policy_->needs_plan()) Plan();
  order_.clear();
  policy_->Rank({.kdu = kdu_}, order_);
  held_.clear();
  for (size_t i = 0; i < order_.size(); ++i) {
    const auto& [launch, range] = order_[i];
    if (std::ranges::any_of(held_, [&range = range](const SmRange& held) {
          return held.Meets(range);
        })) {
      continue;
    }
    const auto sm = sms_.Place(launch->cost, range);
    if (!sm) {
      if (launch->overtaken >= kMostOvertakes) held_.push_back(range);
      continue;
    }
    for (size_t j = 0; j < i; ++j) {
      const Candidate& overtaken = order_[j];
      if (overtaken.launch != launch && overtaken.sms.Meets(range)) {
        ++overtaken.launch->overtaken;
      }
    }
    launch->overtaken = 0;
    launch->waits_since = ReadTicks();
    if (!launch->begun()) launch->life.dispatched_ns = NowNs();
    const uint64_t block = launch->next_block++;
    if (!launch->is_event())
      background_blocks_.fetch_add(1, std::memory_order_relaxed);
    // Another worker may find a block too.
    if (order_.size() > 1 || launch->has_blocks()) work_.NotifyOne();
    return DispatchedBlock{launch, block, *sm};
  }
  return std::nullopt;
}

std::optional<DispatchedBlock> Kmu::NextBlock() {
  MutexLock lock(mutex_);
  while (true) {
    if (stopping_) return std::nullopt;
    if (const auto block = PlaceOne()) return block;
    work_.Wait(mutex_);
  }
}

std::optional<DispatchedBlock> Kmu::TryNextBlock() {
  MutexLock lock(mutex_);
  if (stopping_) return std::nullopt;
  return PlaceOne();
}

void Kmu::EndBlock(const DispatchedBlock& block) {
  LaunchPtr ended;
  bool cut_short = false;
  {
    MutexLock lock(mutex_);
    KernelLaunch* launch = block.launch;
    sms_.Release(block.sm, launch->cost);
    ++launch->ended_blocks;
    if (launch->slice_end != 0 && launch->ended_blocks == launch->slice_end) {
      ++launch->slices;
      launch->slice_end = 0;
    }
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
    for (const auto& of : pending_) {
      for (uint32_t left = of->filled; left != 0; left &= left - 1) {
        const int index = std::countr_zero(left);
        auto& queue = of->queues[index];
        for (auto& launch : queue) {
          if (which.Matches(*launch)) ended.push_back(std::move(launch));
        }
        std::erase(queue, nullptr);
        if (queue.empty()) of->filled &= ~(1u << index);
      }
    }
    std::erase_if(pending_, [](const auto& of) { return of->filled == 0; });
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
  for (const bool event : {true, false}) {
    for (uint32_t priority = 0; priority < kPriorities; ++priority) {
      QueueLength length{.event = event, .priority = priority};
      for (const auto& of : pending_) {
        const auto add = [&](Queue queue) {
          length.kernels += static_cast<uint32_t>(
              of->queues[IndexOf(queue, priority)].size());
        };
        if (event) {
          add(Queue::kEvent);
        } else {
          add(Queue::kHostEvent);
          add(Queue::kHost);
        }
      }
      lengths.push_back(length);
    }
  }
  return lengths;
}

std::vector<LaunchProgress> Kmu::launches() const {
  std::vector<LaunchProgress> all;
  MutexLock lock(mutex_);
  const uint64_t now = ReadTicks();
  const double ns_a_tick = static_cast<double>(NowNs() - made_ns_) /
                           static_cast<double>(now - made_ticks_ + 1);
  const auto add = [&](const KernelLaunch& launch) {
    const uint64_t since = std::min(launch.waits_since, now);
    all.push_back(ProgressOf(launch));
    if (!launch.has_blocks()) return;
    all.back().wait_ns =
        static_cast<Nanoseconds>(static_cast<double>(now - since) * ns_a_tick);
  };
  for (const LaunchPtr& launch : kdu_) add(*launch);
  std::vector<const KernelLaunch*> pending;
  for (const auto& of : pending_) {
    for (const auto& queue : of->queues) {
      for (const LaunchPtr& launch : queue) pending.push_back(launch.get());
    }
  }
  std::ranges::sort(pending, {}, &KernelLaunch::arrival);
  for (const KernelLaunch* launch : pending) add(*launch);
  return all;
}

std::vector<uint32_t> Kmu::blocks_of_sms() const {
  MutexLock lock(mutex_);
  return sms_.blocks_of_sms();
}

bool Kmu::idle() const {
  MutexLock lock(mutex_);
  return kdu_.empty() && pending_.empty();
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
