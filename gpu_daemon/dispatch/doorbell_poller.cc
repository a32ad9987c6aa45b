#include "gpu_daemon/dispatch/doorbell_poller.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
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

// Lines are looked at in turn, and all of them have had it after kTurns. A look
// takes a turn for every kEventsATurn events that the look before it has served,
// or for every kTicksATurn that they took, and one at least.
constexpr size_t kTurns = 64;
constexpr size_t kEventsATurn = 4;
constexpr Ticks kTicksATurn = 2048;
// Lines that are looked at every time: those that rang last. One that does not
// ring for so many rounds of the others is none of them any more.
constexpr size_t kHotLines = 4;
constexpr uint32_t kQuietRounds = 256;

// To sort more rings in a look takes as long as an event or longer, and is
// charged to their devices.
constexpr size_t kManyRings = 32;

std::string WhatIsWrong(const EventKernel& event,
                        const DoorbellCursor::Pending& pending) {
  return fmt::format("doorbell of event {} ('{}') {} by {}{}", event.event_id(),
                     event.kmd().kernel->name,
                     pending.went_back ? "went back" : "jumped", pending.rings,
                     pending.went_back ? "" : " beyond the ring's free slots");
}

}  // namespace

absl::Status DoorbellPoller::Add(const std::shared_ptr<EventKernel>& event) {
  if (devices_.size() == kMaxDevices &&
      FindDevice(&event->memory()) == devices_.end()) {
    launcher_->Release(*event);
    return absl::ResourceExhaustedError(fmt::format(
        "{} devices have event kernels: that is as many as gpud can sleep on",
        devices_.size()));
  }
  auto line = FindLine(*event);
  if (line == lines_.end() ||
      (*line)->first() != DoorbellLine::FirstOf(*event)) {
    line = lines_.insert(line, std::make_unique<Line>(*event));
    (*line)->share = budget_.ShareOf(&event->memory());
  }
  (*line)->Add(event);
  (*line)->served_at[DoorbellLine::IndexOf(*event)] = ++served_in_all_;
  ++Watch(event->shared_memory()).event_kernels;
  TellTracing(event->memory());
  return absl::OkStatus();
}

void DoorbellPoller::AddDevice(const std::shared_ptr<DeviceMemory>& device) {
  Watch(device).added = true;
}

void DoorbellPoller::Remove(const std::shared_ptr<EventKernel>& event) {
  const auto line = FindLine(*event);
  if (line == lines_.end() || !(*line)->Has(*event)) return;
  LetGo(*event);
  (*line)->Remove(DoorbellLine::IndexOf(*event));
  if ((*line)->empty()) RemoveLine(line);
  const auto device = FindDevice(&event->memory());
  if (--device->event_kernels > 0 || device->added) return;
  devices_.erase(device);
  WatchDevices();
}

std::vector<std::shared_ptr<EventKernel>> DoorbellPoller::RemoveDevice(
    const DeviceMemory* memory) {
  std::vector<std::shared_ptr<EventKernel>> taken;
  for (size_t i = lines_.size(); i-- > 0;) {
    const Line& line = *lines_[i];
    if (line.memory() != memory) continue;
    for (uint32_t index = 0; index < DoorbellLine::kDoorbells; ++index) {
      if (line.event(index) == nullptr) continue;
      LetGo(*line.event(index));
      taken.push_back(line.event(index));
    }
    RemoveLine(lines_.begin() + static_cast<ptrdiff_t>(i));
  }
  launcher_->ReleaseDevice(memory);
  budget_.Forget(memory);
  const auto device = FindDevice(memory);
  if (device == devices_.end()) return taken;
  devices_.erase(device);
  WatchDevices();
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

std::vector<std::unique_ptr<DoorbellPoller::Line>>::iterator
DoorbellPoller::FindLine(const EventKernel& event) {
  return std::lower_bound(lines_.begin(), lines_.end(),
                          DoorbellLine::FirstOf(event),
                          [](const auto& line, const uint32_t* first) {
                            return std::less<>()(line->first(), first);
                          });
}

void DoorbellPoller::RemoveLine(
    std::vector<std::unique_ptr<Line>>::iterator line) {
  if ((*line)->hot) Cool(**line);
  lines_.erase(line);
}

std::vector<DoorbellPoller::Watched>::iterator DoorbellPoller::FindDevice(
    const DeviceMemory* memory) {
  return std::find_if(
      devices_.begin(), devices_.end(),
      [&](const Watched& one) { return one.memory.get() == memory; });
}

DoorbellPoller::Watched& DoorbellPoller::Watch(
    const std::shared_ptr<DeviceMemory>& memory) {
  const auto device = FindDevice(memory.get());
  if (device != devices_.end()) return *device;
  devices_.push_back({.memory = memory});
  WatchDevices();
  return devices_.back();
}

void DoorbellPoller::WatchDevices() {
  doorbells_.WatchNone();
  for (const Watched& one : devices_) {
    doorbells_.Watch(one.memory->submission(), one.memory->completion());
  }
}

void DoorbellPoller::SetTracing(bool on) {
  options_.tracing = on;
  for (const Watched& one : devices_) TellTracing(*one.memory);
}

void DoorbellPoller::TellTracing(const DeviceMemory& device) const {
  std::atomic_ref<uint32_t>(device.completion().completion_control().tracing)
      .store(options_.tracing ? 1 : 0, std::memory_order_relaxed);
}

// Most events are rung where the one before was.
inline void DoorbellPoller::KeepHot(Line& line) {
  line.quiet_rounds = 0;
  if (hot_.empty() || hot_.front() != &line) PutFirst(line);
}

void DoorbellPoller::LookAt(const EventKernel& event) {
  const auto line = FindLine(event);
  if (line == lines_.end() || !(*line)->Has(event)) return;
  (*line)->MarkRung(DoorbellLine::IndexOf(event));
  KeepHot(**line);
}

void DoorbellPoller::PutFirst(Line& line) {
  if (!line.hot) {
    if (hot_.size() == kHotLines) Cool(*hot_.back());
    line.hot = true;
    hot_.push_back(&line);
  }
  const auto place = std::find(hot_.begin(), hot_.end(), &line);
  std::rotate(hot_.begin(), place, place + 1);
}

void DoorbellPoller::Cool(Line& line) {
  line.hot = false;
  std::erase(hot_, &line);
}

void DoorbellPoller::CollectFrom(Line& line) {
  ++lines_looked_at_;
  uint32_t left = line.Changed();
  if (left == 0) return;
  if (!budget_.MayGoOn(*line.share)) [[unlikely]] {
    if (!line.hot) held_back_.push_back(&line);
    return;
  }
  for (; left != 0; left &= left - 1) {
    const auto index = static_cast<uint32_t>(std::countr_zero(left));
    rung_.push_back(
        {&line, index, line.event(index)->priority(), line.served_at[index]});
  }
}

void DoorbellPoller::CollectRung() {
  rung_.clear();
  size_t in_turn = lines_.size();
  if (!launcher_->looks_at_all()) {
    const size_t turns = std::max<size_t>(
        {served_ / kEventsATurn, budget_.used() / kTicksATurn, 1});
    const size_t a_turn = (lines_.size() + kTurns - 1) / kTurns;
    in_turn = std::min(in_turn, turns * a_turn);
  }
  budget_.BeginLook();
  for (Line* line : hot_) CollectFrom(*line);
  for (; in_turn > 0; --in_turn) {
    if (++next_line_ >= lines_.size()) next_line_ = 0;
    Line& line = *lines_[next_line_];
    if (!line.hot) {
      CollectFrom(line);
    } else if (++line.quiet_rounds == kQuietRounds) {
      Cool(line);
    }
  }
  if (held_back_.empty()) [[likely]]
    return;
  for (Line* line : held_back_) KeepHot(*line);  // their turn is over
  held_back_.clear();
}

// Highest priority first; of one priority, that which was served longest ago.
Ticks DoorbellPoller::SortRung() {
  const bool many = rung_.size() > kManyRings;
  const Ticks began = many ? Now() : 0;
  if (many) clock_.Mark(began);
  // Here, and not for a ring that is alone: no higher than its device may have.
  for (Rung& rung : rung_) {
    const uint32_t most = rung.line->memory()->share().max_priority();
    rung.priority = std::min(rung.priority, most);
  }
  std::sort(rung_.begin(), rung_.end());
  rings_sorted_ += rung_.size();
  return many ? clock_.End(Now() - began).ticks : 0;
}

void DoorbellPoller::ChargeSort(Ticks ticks) {
  const Ticks each = ticks / rung_.size();
  for (const Rung& rung : rung_) budget_.Charge(*rung.line->share, each);
}

bool DoorbellPoller::PollOnce() {
  const bool by_priority = launcher_->by_priority();
  do {
    CollectRung();
    const Ticks sort_ticks = rung_.size() < 2 ? 0 : SortRung();
    served_ = 0;
    for (size_t i = 0; i < rung_.size(); ++i) {
      // A lower priority waits until all above it have nothing left, or have
      // used up their devices' shares.
      if (served_ > 0 && by_priority &&
          rung_[i].priority < rung_[i - 1].priority)
        break;
      Line& line = *rung_[i].line;
      // In this look it may have used up its share.
      if (served_ > 0 && !budget_.MayGoOn(*line.share)) {
        if (!line.hot) KeepHot(line);  // its turn is over
        continue;
      }
      const auto& event = line.event(rung_[i].index);
      // Before the cursor loads it: a ring in between is seen next time.
      const uint32_t shown = event->ring().LoadDoorbell();
      const DoorbellCursor::Pending pending = event->cursor().PendingRings();
      if (pending.violation) {
        Evict(event->shared_memory(), WhatIsWrong(*event, pending));
        return true;
      }
      const uint32_t served =
          pending.rings == 0
              ? 0
              : Serve(event, *line.share, std::min(pending.rings, kBurst));
      line.Looked(rung_[i].index, shown, pending.rings > served);
      if (served == 0) continue;
      KeepHot(line);
      served_ += served;
      served_in_all_ += served;
      line.served_at[rung_[i].index] = served_in_all_;
    }
    // Now, and not before: however long it took, each look serves somebody.
    if (sort_ticks != 0) [[unlikely]]
      ChargeSort(sort_ticks);
    if (served_ > 0) return true;
  } while (budget_.BeginRound());
  return false;
}

void DoorbellPoller::Evict(std::shared_ptr<DeviceMemory> memory,
                           std::string reason) {
  RemoveDevice(memory.get());
  if (options_.on_violation) options_.on_violation(memory, std::move(reason));
}

uint32_t DoorbellPoller::Serve(const std::shared_ptr<EventKernel>& event,
                               FrontEndBudget::Share& share, uint32_t count) {
  const Nanoseconds seen_ns = options_.tracing ? NowNs() : 0;
  bool ended = false;
  bool may_go_on = true;
  uint32_t served = 0;
  Ticks began = Now();
  while (may_go_on && served < count) {
    clock_.Mark(began);
    const Sequence sequence = event->cursor().TakeRing();
    if (++served < count) event->ring().Prefetch(sequence + 1);
    const bool ended_here = LaunchOne(event, sequence, seen_ns);
    const Ticks now = Now();
    const RunClock::Run run = clock_.End(now - began);
    if (ended_here && run.long_ns != 0) [[unlikely]] {
      launcher_->TookLong(*event, run.long_ns);
    }
    ended |= ended_here;
    may_go_on = budget_.Charge(share, run.ticks);
    began = now;
  }
  if (ended) {
    // A call of the kernel's, if the device sleeps.
    event->memory().bell().Signal();
    budget_.Charge(share, clock_.End(Now() - began).ticks);
  }
  return served;
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
  if (status == EventStatus::kOk && event->takes_from() != nullptr) {
    event->takes_from()->Await(event, sequence, entry);
    return false;
  }
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
    for (const auto& line : lines_) {
      if (line->AnyRung()) return true;
    }
    if (launcher_->must_poll()) return true;
    sleeps->store(sleeps->load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    return false;
  };
  return doorbells_.SleepUnless(rung, also, longest);
}

}  // namespace carillon::gpud
