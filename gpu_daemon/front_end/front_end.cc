#include "gpu_daemon/front_end/front_end.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/launch/checked_entry.h"
#include "shm/clock.h"
#include "shm/faults/point.h"
#include "shm/waiting.h"

namespace carillon::gpud {
namespace {

using shm::EventStatus;
using shm::NowNs;
using shm::Sequence;

// Events of one kernel that are served before the others are looked at again.
constexpr uint32_t kBurst = 32;
// A spin that has lasted so long lets others run in between: with fewer cores
// than processes it may be the device that waits for this core.
constexpr shm::Nanoseconds kYieldAfterNs = 2'000;

}  // namespace

FrontEnd::FrontEnd(Options options, std::unique_ptr<Launcher> launcher)
    : options_(std::move(options)),
      launcher_(std::move(launcher)),
      tracing_(options_.tracing),
      spin_(options_.max_spin_ns) {
  thread_ = std::thread([this] { Run(); });
}

FrontEnd::~FrontEnd() { Stop(); }

void FrontEnd::Stop() {
  std::call_once(stopped_, [this] {
    stop_.store(true, std::memory_order_relaxed);
    Wake().IgnoreError();
    thread_.join();
  });
}

absl::Status FrontEnd::Wake() {
  mailbox_word_.fetch_add(1, std::memory_order_seq_cst);
  shm::FutexWakeAll(reinterpret_cast<const uint32_t*>(&mailbox_word_));
  return absl::OkStatus();
}

void FrontEnd::Call(std::function<void()> action) {
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  {
    std::lock_guard lock(mailbox_mutex_);
    if (mailbox_closed_) return action();
    mailbox_.push_back([&] {
      action();
      std::lock_guard done_lock(mutex);
      ran = true;
      done.notify_one();
    });
  }
  Wake().IgnoreError();
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return ran; });
}

void FrontEnd::RunMailbox() {
  std::vector<std::function<void()>> calls;
  {
    std::lock_guard lock(mailbox_mutex_);
    calls.swap(mailbox_);
  }
  for (auto& call : calls) call();
}

// Under the lock to the end: whoever finds the mailbox closed finds its last
// calls carried out.
void FrontEnd::CloseMailbox() {
  std::lock_guard lock(mailbox_mutex_);
  for (auto& call : mailbox_) call();
  mailbox_.clear();
  mailbox_closed_ = true;
}

absl::Status FrontEnd::Add(std::shared_ptr<EventKernel> event) {
  absl::Status status = launcher_->Prepare(*event);
  if (!status.ok()) return status;
  Call([&] {
    if (devices_.size() == kMaxDevices &&
        std::find(devices_.begin(), devices_.end(), event->shared_memory()) ==
            devices_.end()) {
      status = absl::ResourceExhaustedError(fmt::format(
          "{} devices have event kernels: that is as many as gpud can sleep on",
          devices_.size()));
      launcher_->Release(*event);
      return;
    }
    const auto place = std::upper_bound(
        events_.begin(), events_.end(), event->priority(),
        [](uint32_t p, const auto& other) { return p > other->priority(); });
    events_.insert(place, event);
    CollectDevices();
    std::atomic_ref<uint32_t>(
        event->memory().completion().completion_control().tracing)
        .store(tracing() ? 1 : 0, std::memory_order_relaxed);
  });
  return status;
}

void FrontEnd::Remove(const std::shared_ptr<EventKernel>& event) {
  Call([&] {
    if (std::erase(events_, event) != 0) LetGo(*event);
    CollectDevices();
  });
}

std::vector<std::shared_ptr<EventKernel>> FrontEnd::RemoveDevice(
    const DeviceMemory* memory) {
  std::vector<std::shared_ptr<EventKernel>> removed;
  Call([&] { removed = TakeEventsOf(memory); });
  return removed;
}

std::vector<std::shared_ptr<EventKernel>> FrontEnd::TakeEventsOf(
    const DeviceMemory* memory) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  for (auto& event : events_) {
    if (&event->memory() != memory) continue;
    LetGo(*event);
    taken.push_back(std::move(event));
  }
  std::erase(events_, nullptr);
  CollectDevices();
  return taken;
}

// Rings that nobody will serve any more become events in flight, which end as
// all the others do: the caller aborts them.
void FrontEnd::LetGo(EventKernel& event) {
  launcher_->Release(event);
  const EventKernel::Pending pending = event.PendingRings();
  if (pending.violation) return;
  for (uint32_t i = 0; i < pending.rings; ++i) event.TakeRing();
}

void FrontEnd::CollectDevices() {
  devices_.clear();
  doorbells_.WatchNone();
  for (const auto& event : events_) {
    if (std::find(devices_.begin(), devices_.end(), event->shared_memory()) ==
        devices_.end()) {
      devices_.push_back(event->shared_memory());
      doorbells_.Watch(devices_.back()->submission(),
                       devices_.back()->completion());
    }
  }
}

void FrontEnd::SetTracing(bool on) {
  Call([&] {
    tracing_.store(on, std::memory_order_relaxed);
    for (const auto& device : devices_) {
      std::atomic_ref<uint32_t>(
          device->completion().completion_control().tracing)
          .store(on ? 1 : 0, std::memory_order_relaxed);
    }
  });
}

void FrontEnd::Run() {
  pthread_setname_np(pthread_self(), options_.thread_name.c_str());
  uint32_t mailbox_seen = 0;
  while (true) {
    const uint32_t mailbox = mailbox_word_.load(std::memory_order_acquire);
    // After the word: it is the last thing that a sleep compares.
    if (stop_.load(std::memory_order_relaxed)) break;
    if (mailbox != mailbox_seen) {
      mailbox_seen = mailbox;
      RunMailbox();
    }
    const bool rung = PollOnce();
    if (launcher_->Reap() || rung) {
      idle_since_ns_ = 0;
      continue;
    }
    shm::CpuRelax();
    // A look costs less than the clock: read it now and then.
    if (++idle_polls_ % 32 != 0) continue;
    const shm::Nanoseconds now = NowNs();
    if (idle_since_ns_ == 0) idle_since_ns_ = now;
    const bool may_sleep = !launcher_->must_poll();
    if (may_sleep && now - idle_since_ns_ >= spin_.budget()) {
      if (Sleep(mailbox_seen)) spin_.Slept(NowNs() - idle_since_ns_);
      idle_since_ns_ = 0;
    } else if (now - idle_since_ns_ >= kYieldAfterNs) {
      sched_yield();
    }
  }
  CloseMailbox();
}

bool FrontEnd::PollOnce() {
  polls_.store(polls_.load(std::memory_order_relaxed) + 1,
               std::memory_order_relaxed);
  const bool by_priority = launcher_->by_priority();
  bool launched = false;
  for (size_t i = 0; i < events_.size(); ++i) {
    // events_ is sorted: a lower priority waits until all above it have nothing
    // left.
    if (launched && by_priority &&
        events_[i]->priority() < events_[i - 1]->priority())
      break;
    EventKernel& event = *events_[i];
    const EventKernel::Pending pending = event.PendingRings();
    if (pending.rings == 0) continue;
    if (pending.violation) {
      Evict(event.shared_memory(),
            fmt::format("doorbell of event {} ('{}') jumped by {} beyond the "
                        "ring's free slots",
                        event.event_id(), event.kmd().kernel->name,
                        pending.rings));
      return true;
    }
    Serve(events_[i], std::min(pending.rings, kBurst));
    launched = true;
  }
  return launched;
}

void FrontEnd::Evict(std::shared_ptr<DeviceMemory> memory, std::string reason) {
  TakeEventsOf(memory.get());
  if (options_.on_violation) options_.on_violation(memory, std::move(reason));
}

void FrontEnd::Serve(const std::shared_ptr<EventKernel>& event,
                     uint32_t count) {
  const shm::Nanoseconds seen_ns = tracing() ? NowNs() : 0;
  bool ended = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Sequence sequence = event->TakeRing();
    if (i + 1 < count) event->ring().Prefetch(sequence + 1);
    ended |= LaunchOne(event, sequence, seen_ns);
  }
  if (ended) event->memory().bell().Signal();
}

bool FrontEnd::LaunchOne(const std::shared_ptr<EventKernel>& event,
                         Sequence sequence, shm::Nanoseconds seen_ns) {
  if (faults::AnyArmed(faults::Point::kGpudLaunch, faults::Point::kGpudKernel))
      [[unlikely]] {
    if (const auto end = PassLaunch(*event, sequence)) return *end;
  }
  CheckedEntry entry;
  const EventStatus status =
      CheckEntry(*event, sequence, seen_ns, options_.gpu, entry);
  if (status == EventStatus::kOk) {
    return launcher_->Launch(event, sequence, entry);
  }
  return event->Finish(sequence, {.state = shm::EventState::kFailed,
                                  .status = static_cast<uint32_t>(status),
                                  .refused = true});
}

// What LaunchOne() returns, if a fault has made the launch.
std::optional<bool> FrontEnd::PassLaunch(EventKernel& event,
                                         Sequence sequence) {
  const faults::Subject subject{.device = event.memory().name(),
                                .event_id = event.event_id()};
  faults::At(faults::Point::kGpudLaunch, subject);
  const auto struck = faults::At(faults::Point::kGpudKernel, subject);
  if (!struck) return std::nullopt;
  // It never ends, until somebody aborts it.
  if (struck->action == faults::Action::kHang) return false;
  const auto fault = static_cast<uint32_t>(EventStatus::kKernelFault);
  return event.Finish(sequence,
                      {.state = shm::EventState::kFailed,
                       .status = struck->code != 0 ? struck->code : fault});
}

bool FrontEnd::Sleep(uint32_t mailbox_seen) {
  const auto rung = [this] {
    for (const auto& event : events_) {
      if (event->PendingRings().rings != 0) return true;
    }
    sleeps_.store(sleeps_.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    return false;
  };
  return doorbells_.SleepUnless(
      rung, {reinterpret_cast<const uint32_t*>(&mailbox_word_), mailbox_seen},
      options_.longest_sleep);
}

}  // namespace carillon::gpud
