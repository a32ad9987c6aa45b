#include "gpu_daemon/control/rpc/watch_stream.h"

#include <chrono>
#include <vector>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

// How often a stream without news looks whether its caller is still there.
constexpr std::chrono::milliseconds kLookEvery{100};

std::vector<v1::TelemetryEvent> Snapshot(const SessionTable& sessions) {
  std::vector<v1::TelemetryEvent> messages;
  for (const auto& session : sessions.All()) {
    const Session::Identity& identity = session->identity();
    const SessionState state = session->state();
    if (state != SessionState::kAttached && state != SessionState::kReady) {
      continue;
    }
    v1::DeviceAttached* attached =
        messages.emplace_back().mutable_device_attached();
    attached->set_device(identity.name);
    attached->set_kind(identity.kind);
    attached->set_pid(static_cast<uint32_t>(identity.owner->pid));
    if (state == SessionState::kReady) {
      v1::DeviceReady* ready = messages.emplace_back().mutable_device_ready();
      ready->set_device(identity.name);
      ready->set_note(session->note());
    }
    for (const auto& event : session->events()) {
      v1::EventRegistered* registered =
          messages.emplace_back().mutable_event_registered();
      registered->set_device(identity.name);
      registered->set_event_id(event->event_id());
      registered->set_kernel(std::string(event->kmd().kernel->name));
      registered->set_priority(event->priority());
    }
  }
  return messages;
}

}  // namespace

absl::Status StreamChanges(TelemetryBus::Watcher& watcher,
                           const SessionTable& sessions,
                           const WriteMessage& write, const GivenUp& given_up) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (v1::TelemetryEvent& message : Snapshot(sessions)) {
    message.set_was_there(true);
    message.set_number(watcher.start_number());
    message.set_time_ns(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    if (!write(message)) return absl::OkStatus();
  }
  v1::TelemetryEvent message;
  while (!given_up()) {
    switch (watcher.Next(kLookEvery, &message)) {
      case TelemetryBus::Watcher::Outcome::kEvent:
        if (!write(message)) return absl::OkStatus();
        break;
      case TelemetryBus::Watcher::Outcome::kTimedOut:
        break;
      case TelemetryBus::Watcher::Outcome::kOverflowed:
        return Error(absl::StatusCode::kResourceExhausted,
                     "changes came faster than this call read them; watch "
                     "again to start from what there is",
                     reason::kSlowWatcher);
      case TelemetryBus::Watcher::Outcome::kClosed:
        return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
