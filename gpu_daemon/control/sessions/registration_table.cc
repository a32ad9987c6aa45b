#include "gpu_daemon/control/sessions/registration_table.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {

absl::StatusOr<shm::DoorbellIndex> RegistrationTable::FreeDoorbell() const {
  if (const auto free = doorbells_.LowestFree()) {
    return shm::DoorbellIndex(*free);
  }
  return Error(absl::StatusCode::kResourceExhausted,
               fmt::format("all {} doorbells of device '{}' are taken",
                           doorbells_.count(), device_),
               reason::kEktFull, "ekt_entries", "carillon ekt");
}

absl::StatusOr<shm::DoorbellIndex> RegistrationTable::SameDoorbell(
    uint32_t event_id) const {
  const bool exists = event_id < doorbells_.count();
  const bool taken = exists && doorbells_.taken(event_id);
  if (exists && !taken) return shm::DoorbellIndex(event_id);
  return Error(absl::StatusCode::kFailedPrecondition,
               fmt::format("device '{}' cannot have doorbell {} again: it has "
                           "{} of them{}",
                           device_, event_id, doorbells_.count(),
                           taken ? ", and this one is taken" : ""),
               reason::kEktFull, "resumed");
}

absl::Status RegistrationTable::UnknownEvent(uint32_t event_id) const {
  return Error(
      absl::StatusCode::kNotFound,
      fmt::format("device '{}' has no event kernel {}", device_, event_id),
      reason::kUnknownEvent, "event_id", "carillon ekt");
}

absl::Status RegistrationTable::Check(uint32_t event_id) const {
  return registrations_.contains(event_id) ? absl::OkStatus()
                                           : UnknownEvent(event_id);
}

absl::StatusOr<const Registration*> RegistrationTable::Find(
    uint32_t event_id) const {
  const auto found = registrations_.find(event_id);
  if (found == registrations_.end() || found->second.closing) {
    return UnknownEvent(event_id);
  }
  return &found->second;
}

absl::StatusOr<const Registration*> RegistrationTable::StartClosing(
    uint32_t event_id) {
  RETURN_IF_ERROR(Find(event_id).status());
  const auto closing = static_cast<size_t>(
      std::count_if(registrations_.begin(), registrations_.end(),
                    [](const auto& one) { return one.second.closing; }));
  if (closing >= kMaxClosing) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("{} event kernels of device '{}' are being "
                             "unregistered: wait for one of them",
                             closing, device_),
                 reason::kTooMany, "event_id");
  }
  Registration& registration = registrations_.at(event_id);
  registration.closing = true;
  return &registration;
}

std::optional<Registration> RegistrationTable::Remove(
    uint32_t event_id, const RegisteredEvent& event) {
  const auto found = registrations_.find(event_id);
  if (found == registrations_.end() || found->second.event.get() != &event) {
    return std::nullopt;
  }
  Registration gone = std::move(found->second);
  registrations_.erase(found);
  doorbells_.GiveBack(event_id);
  return gone;
}

std::vector<std::shared_ptr<EventKernel>> RegistrationTable::events() const {
  std::vector<std::shared_ptr<EventKernel>> events;
  for (const auto& [id, registration] : registrations_) {
    events.push_back(registration.event->event());
  }
  return events;
}

std::optional<uint32_t> RegistrationTable::UserOf(const Buffer& buffer) const {
  for (const auto& [id, registration] : registrations_) {
    if (registration.event->Uses(buffer)) return id;
  }
  return std::nullopt;
}

void RegistrationTable::PublishFailures(TelemetryBus* bus) const {
  for (const auto& [id, registration] : registrations_) {
    registration.event->PublishFailures(bus);
  }
}

}  // namespace carillon::gpud
