#include "gpu_daemon/dispatch/doorbell_poller.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "fmt/format.h"
#include "gpu_daemon/event/checked_entry.h"
#include "shm/faults/point.h"

namespace carillon::gpud {
namespace {

using shm::EventStatus;
using shm::Sequence;

// Events of one kernel that are served before the others are looked at again.
constexpr uint32_t kBurst = 32;

}  // namespace

absl::Status DoorbellPoller::Add(const std::shared_ptr<EventKernel>& event) {
  if (devices_.size() == kMaxDevices &&
      std::find(devices_.begin(), devices_.end(), event->shared_memory()) ==
          devices_.end()) {
    launcher_->Release(*event);
    return absl::ResourceExhaustedError(fmt::format(
        "{} devices have event kernels: that is as many as gpud can sleep on",
        devices_.size()));
  }
  const auto place = std::upper_bound(
      events_.begin(), events_.end(), event->priority(),
      [](uint32_t p, const auto& other) { return p > other->priority(); });
  events_.insert(place, event);
  CollectDevices();
  TellTracing(event->memory());
  return absl::OkStatus();
}

void DoorbellPoller::AddDevice(const std::shared_ptr<DeviceMemory>& device) {
  added_.push_back(device);
  CollectDevices();
}

void DoorbellPoller::Remove(const std::shared_ptr<EventKernel>& event) {
  if (std::erase(events_, event) != 0) LetGo(*event);
  CollectDevices();
}

std::vector<std::shared_ptr<EventKernel>> DoorbellPoller::RemoveDevice(
    const DeviceMemory* memory) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  for (auto& event : events_) {
    if (&event->memory() != memory) continue;
    LetGo(*event);
    taken.push_back(std::move(event));
  }
  std::erase(events_, nullptr);
  std::erase_if(added_, [&](const auto& one) { return one.get() == memory; });
  launcher_->ReleaseDevice(memory);
  CollectDevices();
  return taken;
}

// Rings that nobody will serve any more become events in flight, which end as
// all the others do: the caller aborts them.
void DoorbellPoller::LetGo(EventKernel& event) {
  launcher_->Release(event);
  DoorbellCursor& cursor = event.cursor();
  const DoorbellCursor::Pending pending = cursor.PendingRings();
  if (pending.violation) return;
  for (uint32_t i = 0; i < pending.rings; ++i) cursor.TakeRing();
}

void DoorbellPoller::CollectDevices() {
  devices_ = added_;
  for (const auto& event : events_) {
    if (std::find(devices_.begin(), devices_.end(), event->shared_memory()) ==
        devices_.end()) {
      devices_.push_back(event->shared_memory());
    }
  }
  doorbells_.WatchNone();
  for (const auto& device : devices_) {
    doorbells_.Watch(device->submission(), device->completion());
  }
}

void DoorbellPoller::SetTracing(bool on) {
  options_.tracing = on;
  for (const auto& device : devices_) TellTracing(*device);
}

void DoorbellPoller::TellTracing(const DeviceMemory& device) const {
  std::atomic_ref<uint32_t>(device.completion().completion_control().tracing)
      .store(options_.tracing ? 1 : 0, std::memory_order_relaxed);
}

bool DoorbellPoller::PollOnce() {
  const bool by_priority = launcher_->by_priority();
  bool launched = false;
  for (size_t i = 0; i < events_.size(); ++i) {
    // events_ is sorted: a lower priority waits until all above it have nothing
    // left.
    if (launched && by_priority &&
        events_[i]->priority() < events_[i - 1]->priority())
      break;
    EventKernel& event = *events_[i];
    const DoorbellCursor::Pending pending = event.cursor().PendingRings();
    if (pending.rings == 0) continue;
    if (pending.violation) {
      Evict(event.shared_memory(),
            fmt::format(
                "doorbell of event {} ('{}') {} by {}{}", event.event_id(),
                event.kmd().kernel->name,
                pending.went_back ? "went back" : "jumped", pending.rings,
                pending.went_back ? "" : " beyond the ring's free slots"));
      return true;
    }
    Serve(events_[i], std::min(pending.rings, kBurst));
    launched = true;
  }
  return launched;
}

void DoorbellPoller::Evict(std::shared_ptr<DeviceMemory> memory,
                           std::string reason) {
  RemoveDevice(memory.get());
  if (options_.on_violation) options_.on_violation(memory, std::move(reason));
}

void DoorbellPoller::Serve(const std::shared_ptr<EventKernel>& event,
                           uint32_t count) {
  const Nanoseconds seen_ns = options_.tracing ? NowNs() : 0;
  bool ended = false;
  Ticks began = ReadTicks();
  for (uint32_t i = 0; i < count; ++i) {
    clock_.Mark(began);
    const Sequence sequence = event->cursor().TakeRing();
    if (i + 1 < count) event->ring().Prefetch(sequence + 1);
    const bool ended_here = LaunchOne(event, sequence, seen_ns);
    const Ticks now = ReadTicks();
    const RunClock::Run run = clock_.End(now - began);
    if (ended_here && run.long_ns != 0) [[unlikely]] {
      launcher_->TookLong(*event, run.long_ns);
    }
    ended |= ended_here;
    began = now;
  }
  if (ended) event->memory().bell().Signal();
}

bool DoorbellPoller::LaunchOne(const std::shared_ptr<EventKernel>& event,
                               Sequence sequence, Nanoseconds seen_ns) {
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
  const bool ended =
      event->ledger().Finish(sequence, {.state = shm::EventState::kFailed,
                                        .status = static_cast<uint32_t>(status),
                                        .refused = true});
  launcher_->Refused(*event);
  return ended;
}

// What LaunchOne() returns, if a fault has made the launch.
std::optional<bool> DoorbellPoller::PassLaunch(EventKernel& event,
                                               Sequence sequence) {
  const faults::Subject subject{.device = event.memory().name(),
                                .event_id = event.event_id()};
  faults::At(faults::Point::kGpudLaunch, subject);
  const auto struck = faults::At(faults::Point::kGpudKernel, subject);
  if (!struck) return std::nullopt;
  // It never ends, until somebody aborts it.
  if (struck->action == faults::Action::kHang) return false;
  const auto fault = static_cast<uint32_t>(EventStatus::kKernelFault);
  const bool ended = event.ledger().Finish(
      sequence, {.state = shm::EventState::kFailed,
                 .status = struck->code != 0 ? struck->code : fault});
  launcher_->Refused(event);
  return ended;
}

bool DoorbellPoller::SleepUnlessRung(shm::FutexWord also,
                                     std::chrono::milliseconds longest,
                                     std::atomic<uint64_t>* sleeps) {
  const auto rung = [&] {
    for (const auto& event : events_) {
      if (event->cursor().PendingRings().rings != 0) return true;
    }
    if (launcher_->must_poll()) return true;
    sleeps->store(sleeps->load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    return false;
  };
  return doorbells_.SleepUnless(rung, also, longest);
}

}  // namespace carillon::gpud
