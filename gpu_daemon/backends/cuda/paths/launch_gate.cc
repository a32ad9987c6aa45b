#include "gpu_daemon/backends/cuda/paths/launch_gate.h"

#include <algorithm>
#include <atomic>

#include "base/status.h"

namespace carillon::gpud::cuda {

LaunchGate::LaunchGate(const GpuModel& gpu, Nanoseconds bound_ns,
                       Nanoseconds (*now)())
    : now_(now),
      slices_(gpu, bound_ns),
      ptb_(gpu),
      policy_(FindPolicy(DefaultPolicy(Sharer::kCuda))) {}

std::string LaunchGate::policy() const {
  MutexLock lock(mutex_);
  return std::string(policy_->name);
}

bool LaunchGate::reserves() const {
  MutexLock lock(mutex_);
  return policy_->name == kReservationPolicy;
}

absl::Status LaunchGate::SetPolicy(std::string_view name) {
  RETURN_IF_ERROR(CheckPolicy(Sharer::kCuda, name));
  if (name.empty()) name = DefaultPolicy(Sharer::kCuda);
  MutexLock lock(mutex_);
  policy_ = FindPolicy(name);
  turns_.reset();
  if (name == kExclusivePolicy) turns_.emplace(kTurnNs);
  // Nobody would stop them any more: what is left goes on as this one has it.
  if (name != kPtbPolicy) StopBelow(kPriorities);
  return absl::OkStatus();
}

std::unique_ptr<LaunchGate::Place> LaunchGate::Enter(const DeviceMemory* device,
                                                     uint32_t priority) {
  std::unique_ptr<Place> place(new Place(this, device, priority));
  MutexLock lock(mutex_);
  place->arrival_ = arrivals_++;
  ++DeviceOf(*place).fresh;
  ++places_[priority];
  Wait(*place);
  if (policy_->name == kPtbPolicy) StopBelow(priority);
  return place;
}

uint32_t LaunchGate::MostUrgent() const {
  uint32_t priority = kPriorities - 1;
  while (priority != 0 && places_[priority] == 0) --priority;
  return priority;
}

void LaunchGate::StopBelow(uint32_t priority) {
  for (const Place* place : stoppable_) {
    if (place->priority_ >= priority) continue;
    // Readers: its blocks on the GPU. Relaxed: it stands for itself.
    std::atomic_ref(*place->stop_).store(1, std::memory_order_relaxed);
  }
}

void LaunchGate::LetBeStopped(Place& place, uint32_t* stop) {
  MutexLock lock(mutex_);
  // Nobody reads it yet: the launch orders it.
  std::atomic_ref(*stop).store(0, std::memory_order_relaxed);
  place.stop_ = stop;
  stoppable_.push_back(&place);
  // What has come or changed since the grant.
  StopBelow(policy_->name == kPtbPolicy ? MostUrgent() : kPriorities);
}

void LaunchGate::Stop(Place& place) {
  MutexLock lock(mutex_);
  if (place.stop_ == nullptr) return;
  std::atomic_ref(*place.stop_).store(1, std::memory_order_relaxed);
}

void LaunchGate::ForgetStop(Place& place) {
  MutexLock lock(mutex_);
  ForgetStopLocked(place);
}

void LaunchGate::ForgetStopLocked(Place& place) {
  if (place.stop_ == nullptr) return;
  place.stop_ = nullptr;
  std::erase(stoppable_, &place);
}

LaunchGate::Device& LaunchGate::DeviceOf(const Place& place) {
  const auto found =
      std::ranges::find(devices_, place.device_, &Device::device);
  if (found != devices_.end()) return *found;
  return devices_.emplace_back(Device{.device = place.device_});
}

void LaunchGate::Wait(Place& place) {
  place.index_ = waiting_.size();
  waiting_.push_back(&place);
}

void LaunchGate::Unwait(Place& place) {
  waiting_[place.index_] = waiting_.back();
  waiting_[place.index_]->index_ = place.index_;
  waiting_.pop_back();
}

void LaunchGate::Leave(Place& place) {
  MutexLock lock(mutex_);
  ForgetStopLocked(place);
  --places_[place.priority_];
  if (place.runs_) {
    --running_;
  } else {
    Unwait(place);
  }
  Device& device = DeviceOf(place);
  --(place.begun_ ? device.begun : device.fresh);
  if (device.fresh == 0 && device.begun == 0) {
    devices_.erase(devices_.begin() + (&device - devices_.data()));
  }
  // Nobody asks from now on: its time ends here.
  if (turns_ && devices_.empty()) turns_->Advance(now_(), {});
}

LaunchGate::Choice LaunchGate::Choose() {
  MutexLock lock(mutex_);
  return ChooseLocked();
}

LaunchGate::Choice LaunchGate::ChooseLocked() {
  Choice choice;
  if (policy_->name == kExclusivePolicy) {
    choice.kind_ = Choice::Kind::kDevice;
    parties_.Clear();
    for (const Device& device : devices_) {
      DeviceParties::Party& party = parties_.Of(device.device);
      party.waits = device.fresh != 0;
      party.begun = device.begun != 0;
    }
    turns_->Advance(now_(), parties_.all());
    if (turns_->may_begin()) choice.turn_ = turns_->owner();
  } else if (policy_->name == kGpesPolicy) {
    choice.kind_ = Choice::Kind::kOne;
    // A slice has the GPU, whoever's it is, and so has a launch that runs whole.
    if (running_ != 0) return choice;
    for (const Place* place : waiting_) {
      if (choice.one_ == nullptr || IsBefore(*place, *choice.one_)) {
        choice.one_ = place;
      }
    }
  } else if (policy_->name == kPtbPolicy) {
    choice.kind_ = Choice::Kind::kMostUrgent;
    choice.least_ = MostUrgent();
  }
  return choice;
}

LaunchGate::Grant LaunchGate::TryBegin(Place& place) {
  MutexLock lock(mutex_);
  if (!ChooseLocked().Allows(place)) return Grant::kNone;
  Unwait(place);
  place.runs_ = true;
  ++running_;
  if (!place.begun_) {
    place.begun_ = true;
    Device& device = DeviceOf(place);
    --device.fresh;
    ++device.begun;
  }
  if (policy_->name == kGpesPolicy) return Grant::kSlice;
  return policy_->name == kPtbPolicy ? Grant::kPtb : Grant::kAll;
}

bool LaunchGate::MayQueue(const Place& place) const {
  MutexLock lock(mutex_);
  return policy_->name == kGpesPolicy && place.runs_ &&
         std::ranges::none_of(waiting_, [&](const Place* waits) {
           return IsBefore(*waits, place);
         });
}

void LaunchGate::EndSlice(Place& place) {
  MutexLock lock(mutex_);
  ForgetStopLocked(place);
  place.runs_ = false;
  --running_;
  Wait(place);
}

}  // namespace carillon::gpud::cuda
