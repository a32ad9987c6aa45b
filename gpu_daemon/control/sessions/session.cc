#include "gpu_daemon/control/sessions/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/names.h"
#include "gpu_daemon/event/refusal.h"
#include "shm/faults/point.h"
#include "shm/handover.h"
#include "shm/load_shared.h"

namespace carillon::gpud {
namespace {

constexpr size_t kMaxBuffers = 4096;
// Far from the end of the numbers, whatever a device says that it had.
constexpr uint32_t kLastBufferId = 1u << 31;
// Hyper-Q's 32 streams a process, and as many calls as gpud has threads to
// spare.
constexpr size_t kMaxLaunches = 32;
constexpr uint32_t kMaxWaitingLaunches = 128;
// Calls to UnregisterEvent that wait, each in one of gpud's threads.
constexpr size_t kMaxUnregistering = 8;

v1::TelemetryEvent RegisteredMessage(const EventKernel& event) {
  v1::TelemetryEvent message;
  v1::EventRegistered* registered = message.mutable_event_registered();
  registered->set_device(event.memory().name());
  registered->set_event_id(event.event_id());
  registered->set_kernel(std::string(event.kmd().kernel->name));
  registered->set_priority(event.priority());
  return message;
}

}  // namespace

std::string_view SessionStateName(SessionState state) {
  switch (state) {
    case SessionState::kAttaching:
      return "attaching";
    case SessionState::kAttached:
      return "attached";
    case SessionState::kReady:
      return "ready";
    case SessionState::kClosing:
      return "closing";
  }
  return "unknown";
}

Session::Session(Identity identity, std::shared_ptr<DeviceSpace> space,
                 SessionContext* context)
    : identity_(std::move(identity)),
      space_(std::move(space)),
      context_(context),
      heard_ns_(identity_.attached_ns) {}

SessionState Session::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

std::string Session::note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

uint64_t Session::gpu_memory_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer->place() == v1::GPU_MEMORY) bytes += buffer->bytes();
  }
  return bytes;
}

std::vector<std::shared_ptr<EventKernel>> Session::events() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<EventKernel>> events;
  for (const auto& [id, registration] : registrations_) {
    events.push_back(registration.event->event());
  }
  return events;
}

absl::Status Session::CheckOpen() const {
  switch (state_) {
    case SessionState::kAttaching:
      return Error(absl::StatusCode::kFailedPrecondition,
                   fmt::format("device '{}' has not fetched its apertures: "
                               "present the ticket on the hand-over socket "
                               "first",
                               identity_.name),
                   reason::kNotAttached, identity_.name);
    case SessionState::kClosing:
      return Error(absl::StatusCode::kFailedPrecondition,
                   fmt::format("the session of device '{}' has ended; attach "
                               "again",
                               identity_.name),
                   reason::kSessionEnded, identity_.name);
    case SessionState::kAttached:
    case SessionState::kReady:
      break;
  }
  return absl::OkStatus();
}

absl::Status Session::HandOver(UniqueFd&& connection,
                               std::function<void()> on_readable) {
  std::lock_guard lock(mutex_);
  if (state_ != SessionState::kAttaching) {
    return absl::FailedPreconditionError(
        fmt::format("device '{}' is {}: its apertures were handed over before",
                    identity_.name, SessionStateName(state_)));
  }
  ASSIGN_OR_RETURN(auto watch, context_->loop->Watch(connection.get(),
                                                     std::move(on_readable)));
  const DeviceMemory& memory = space_->device_memory();
  context_->Record(shm::Step::kSessionBegan, 0, identity_.generation,
                   identity_.owner->pid);
  if (auto status = shm::SendApertures(
          connection.get(), identity_.device_id, identity_.generation,
          memory.submission().fd(), memory.completion().fd(),
          memory.completion_event());
      !status.ok()) {
    context_->loop->Unwatch(watch);
    return status;
  }
  connection_ = std::move(connection);
  connection_watch_ = watch;
  state_ = SessionState::kAttached;
  v1::TelemetryEvent message;
  v1::DeviceAttached* attached = message.mutable_device_attached();
  attached->set_device(identity_.name);
  attached->set_kind(identity_.kind);
  attached->set_pid(static_cast<uint32_t>(identity_.owner->pid));
  context_->bus->Publish(std::move(message));
  return absl::OkStatus();
}

Session::ConnectionNews Session::ReadConnection() {
  std::lock_guard lock(mutex_);
  if (!connection_) return ConnectionNews::kNone;
  char byte;
  const ssize_t received = recv(connection_.get(), &byte, 1, MSG_DONTWAIT);
  if (received > 0) return ConnectionNews::kData;
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
    return ConnectionNews::kNone;
  }
  return ConnectionNews::kEndOfFile;
}

absl::Status Session::ReportReady(const std::string& note) {
  RETURN_IF_ERROR(CheckText("note", note, kMaxNoteLength));
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  state_ = SessionState::kReady;
  note_ = note;
  v1::TelemetryEvent message;
  message.mutable_device_ready()->set_device(identity_.name);
  message.mutable_device_ready()->set_note(note);
  context_->bus->Publish(std::move(message));
  return absl::OkStatus();
}

absl::StatusOr<v1::AllocateBufferResponse> Session::AllocateBuffer(
    const v1::AllocateBufferRequest& request) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  if (buffers_.size() >= kMaxBuffers) {
    return Error(absl::StatusCode::kResourceExhausted,
                 fmt::format("device '{}' has {} buffers: that is the limit",
                             identity_.name, buffers_.size()),
                 reason::kTooMany, "buffers");
  }
  std::optional<uint64_t> offset;
  uint32_t id = next_buffer_id_;
  if (request.has_resumed()) {
    offset = request.resumed().offset();
    id = request.resumed().buffer_id();
    if (id == 0 || id > kLastBufferId || buffers_.contains(id)) {
      return Error(
          absl::StatusCode::kFailedPrecondition,
          fmt::format("device '{}' cannot have buffer {} again: it must be "
                      "from 1 to {}, and not in use",
                      identity_.name, id, kLastBufferId),
          reason::kUnknownBuffer, "resumed");
    }
  }
  ASSIGN_OR_RETURN(auto buffer, space_->AllocateBuffer(
                                    request.place(), request.bytes(), offset));
  next_buffer_id_ = std::max(next_buffer_id_, id + 1);
  v1::AllocateBufferResponse response;
  response.set_buffer_id(id);
  response.set_offset(buffer->offset());
  buffers_[id] = std::move(buffer);
  return response;
}

absl::Status Session::FreeBuffer(uint32_t buffer_id) {
  std::shared_ptr<Buffer> buffer;  // may unmap: not under the lock
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  const auto found = buffers_.find(buffer_id);
  if (found == buffers_.end()) {
    return Error(
        absl::StatusCode::kNotFound,
        fmt::format("device '{}' has no buffer {}", identity_.name, buffer_id),
        reason::kUnknownBuffer, "buffer_id");
  }
  for (const auto& [event_id, registration] : registrations_) {
    if (!registration.event->Uses(*found->second)) continue;
    return Error(absl::StatusCode::kFailedPrecondition,
                 fmt::format("buffer {} is a parameter of event kernel {}: "
                             "unregister that first",
                             buffer_id, event_id),
                 reason::kBufferInUse, "buffer_id");
  }
  for (const auto& weak : launches_) {
    const auto launch = weak.lock();
    if (launch == nullptr || !launch->Uses(*found->second)) continue;
    return Error(absl::StatusCode::kFailedPrecondition,
                 fmt::format("buffer {} is a parameter of a kernel that runs; "
                             "wait for its end",
                             buffer_id),
                 reason::kBufferInUse, "buffer_id");
  }
  buffer = std::move(found->second);
  buffers_.erase(found);
  return absl::OkStatus();
}

FindBuffer Session::BufferFinder() const {
  return [this](uint32_t id) -> std::shared_ptr<Buffer> {
    const auto found = buffers_.find(id);
    return found == buffers_.end() ? nullptr : found->second;
  };
}

absl::StatusOr<shm::DoorbellIndex> Session::FreeDoorbell() const {
  uint32_t doorbell = 0;
  for (const auto& [taken, registration] : registrations_) {
    if (taken != doorbell) break;  // sorted: the first gap
    ++doorbell;
  }
  if (doorbell < memory().submission().doorbell_count()) {
    return shm::DoorbellIndex(doorbell);
  }
  return Error(absl::StatusCode::kResourceExhausted,
               fmt::format("all {} doorbells of device '{}' are taken",
                           doorbell, identity_.name),
               reason::kEktFull, "ekt_entries", "carillon ekt");
}

absl::StatusOr<shm::DoorbellIndex> Session::SameDoorbell(
    uint32_t event_id) const {
  if (event_id < memory().submission().doorbell_count() &&
      !registrations_.contains(event_id)) {
    return shm::DoorbellIndex(event_id);
  }
  return Error(
      absl::StatusCode::kFailedPrecondition,
      fmt::format(
          "device '{}' cannot have doorbell {} again: it has "
          "{} of them{}",
          identity_.name, event_id, memory().submission().doorbell_count(),
          registrations_.contains(event_id) ? ", and this one is taken" : ""),
      reason::kEktFull, "resumed");
}

// Writers: this, and front-ends, which know of no other value; reader: the
// device, relaxed.
void Session::TellTracing() const {
  std::atomic_ref(memory().completion().completion_control().tracing)
      .store(context_->backend->paths().tracing() ? 1 : 0,
             std::memory_order_relaxed);
}

absl::StatusOr<v1::RegisterEventResponse> Session::RegisterEvent(
    const v1::RegisterEventRequest& request) {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(auto doorbell,
                   request.has_resumed()
                       ? SameDoorbell(request.resumed().event_id())
                       : FreeDoorbell());
  ASSIGN_OR_RETURN(auto slot, context_->ekt->Reserve());
  const shm::Generation generation = context_->NextGeneration();
  std::shared_ptr<RegisteredEvent> event;
  const auto add = [&](const StartedPath& path) -> absl::Status {
    event.reset();  // of a path that has refused it: its ring's place is free
    auto created = RegisteredEvent::Create(
        request,
        {.doorbell = doorbell,
         .generation = generation,
         .ekt_index = slot.index(),
         .launch_path = path.name},
        space_, BufferFinder(), *context_->kernels, context_->backend->gpu());
    if (!created.ok()) return OnAnyPath(created.status());
    event = *std::move(created);
    event->event()->RecordIn(context_->recorder);
    const absl::Status status = path.path->Add(event->event());
    return absl::IsResourceExhausted(status)
               ? WithDetail(status, reason::kTooMany, "devices", "carillon ps")
               : WithDetail(status, reason::kBadLaunchPath, "launch_path");
  };
  const auto path =
      context_->backend->paths().Serve(request.launch_path(), add);
  if (!path.ok()) {
    return WithDetail(path.status(), reason::kUnknownLaunchPath, "launch_path",
                      "carillon status");
  }
  TellTracing();
  slot.Fill(event->event());
  context_->Record(shm::Step::kRingMade, doorbell.value(), generation,
                   identity_.owner->pid, event->event()->finishes_all());
  const v1::RegisterEventResponse response = event->Describe();
  context_->bus->Publish(RegisteredMessage(*event->event()));
  registrations_[doorbell.value()] = {
      .event = std::move(event), .slot = std::move(slot), .path = path->path};
  return response;
}

absl::Status Session::UnknownEvent(uint32_t event_id) const {
  return Error(absl::StatusCode::kNotFound,
               fmt::format("device '{}' has no event kernel {}", identity_.name,
                           event_id),
               reason::kUnknownEvent, "event_id", "carillon ekt");
}

absl::StatusOr<Session::RegistrationMap::iterator> Session::FindEvent(
    uint32_t event_id) {
  RETURN_IF_ERROR(CheckOpen());
  const auto found = registrations_.find(event_id);
  if (found == registrations_.end() || found->second.closing) {
    return UnknownEvent(event_id);
  }
  return found;
}

absl::StatusOr<uint64_t> Session::UnregisterEvent(uint32_t event_id,
                                                  uint32_t drain_ms,
                                                  const GivenUp& given_up) {
  std::shared_ptr<RegisteredEvent> registered;
  LaunchPath* path = nullptr;
  {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(auto found, FindEvent(event_id));
    const auto closing = static_cast<size_t>(
        std::count_if(registrations_.begin(), registrations_.end(),
                      [](const auto& one) { return one.second.closing; }));
    if (closing >= kMaxUnregistering) {
      return Error(absl::StatusCode::kResourceExhausted,
                   fmt::format("{} event kernels of device '{}' are being "
                               "unregistered: wait for one of them",
                               closing, identity_.name),
                   reason::kTooMany, "event_id");
    }
    found->second.closing = true;
    registered = found->second.event;
    path = found->second.path;
  }
  const auto event = registered->event();
  const uint64_t aborted_before = event->counts().aborted;
  // However that ends: what is still in flight is aborted below.
  WaitUntilDrained(
      [&] { return event->waiting_rings() == 0 && event->in_flight() == 0; },
      DrainLimit(drain_ms), given_up);
  path->Remove(event);
  context_->backend->Cancel(event.get(), shm::EventStatus::kUnregistered);
  event->AbortUnfinished(shm::EventStatus::kUnregistered);
  context_->Record(shm::Step::kRingRemoved, event_id,
                   event->ring().layout().generation, 0);
  event->memory().bell().Signal();
  const uint64_t aborted = event->counts().aborted - aborted_before;
  registered->PublishFailures(context_->bus);

  Registration gone;
  {
    std::lock_guard lock(mutex_);
    const auto found = registrations_.find(event_id);
    // The session may have ended meanwhile, and has freed it then.
    if (found == registrations_.end() || found->second.event != registered) {
      return aborted;
    }
    gone = std::move(found->second);
    registrations_.erase(found);
  }
  v1::TelemetryEvent message;
  message.mutable_event_unregistered()->set_device(identity_.name);
  message.mutable_event_unregistered()->set_event_id(event_id);
  message.mutable_event_unregistered()->set_aborted(aborted);
  context_->bus->Publish(std::move(message));
  return aborted;
}

absl::Status Session::ScheduleEvent(uint32_t event_id, uint64_t through) {
  std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(auto found, FindEvent(event_id));
  const auto event = found->second.event->event();
  if (!event->ScheduleThrough(through)) {
    return Error(
        absl::StatusCode::kInvalidArgument,
        fmt::format("events up to sequence {} to schedule: {} are "
                    "launched, and the ring has {} entries",
                    through, event->launched(), event->ring().layout().entries),
        reason::kBadCount, "through");
  }
  return WithDetail(found->second.path->Wake(), reason::kBadLaunchPath,
                    "event_id");
}

absl::Status Session::CheckEvent(uint32_t event_id) const {
  std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  return registrations_.contains(event_id) ? absl::OkStatus()
                                           : UnknownEvent(event_id);
}

absl::StatusOr<LaunchResult> Session::LaunchKernel(
    const v1::LaunchKernelRequest& request, const GivenUp& given_up) {
  std::shared_ptr<BackgroundLaunch> launch;
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    std::erase_if(launches_, [](const auto& weak) { return weak.expired(); });
    const uint32_t waiting =
        context_->waiting_launches.load(std::memory_order_relaxed);
    if (launches_.size() >= kMaxLaunches || waiting >= kMaxWaitingLaunches) {
      return Error(absl::StatusCode::kResourceExhausted,
                   fmt::format("{} kernels of device '{}' and {} in all wait "
                               "or run: the limits are {} and {}; launch again "
                               "when one has ended",
                               launches_.size(), identity_.name, waiting,
                               kMaxLaunches, kMaxWaitingLaunches),
                   reason::kTooMany, "launches");
    }
    ASSIGN_OR_RETURN(
        auto created,
        BackgroundLaunch::Create(request, space_, BufferFinder(), context_));
    launch = std::move(created);
    launches_.push_back(launch);
    context_->waiting_launches.fetch_add(1, std::memory_order_relaxed);
    launch->Submit();
  }
  const auto result = launch->Wait(given_up);
  context_->waiting_launches.fetch_sub(1, std::memory_order_relaxed);
  if (!result) {
    return absl::CancelledError(
        "the caller gave up; what ran of the kernel runs to its end");
  }
  if (result->state == shm::EventState::kAborted) {
    return Error(absl::StatusCode::kAborted,
                 fmt::format("the kernel was cut short: the session of device "
                             "'{}' or gpud ended",
                             identity_.name),
                 reason::kSessionEnded, identity_.name);
  }
  return *result;
}

Nanoseconds Session::SilentFor(Nanoseconds now) const {
  std::lock_guard lock(mutex_);
  return now - std::min(heard_ns_, now);
}

void Session::Tick(Nanoseconds now, bool was_away) {
  std::lock_guard lock(mutex_);
  if (state_ == SessionState::kClosing) return;
  if (!faults::At(faults::Point::kGpudLease, {.device = identity_.name})) {
    std::atomic_ref<uint64_t>(
        memory().completion().completion_control().heartbeat_ns)
        .store(now, std::memory_order_relaxed);
  }
  // Writer: the device, anything. Only that it changes is a sign of life.
  const uint64_t heartbeat =
      shm::LoadShared(memory().submission().submission_control().heartbeat_ns,
                      std::memory_order_relaxed);
  if (heartbeat != std::exchange(heartbeat_, heartbeat) || was_away) {
    heard_ns_ = now;
  }
  for (const auto& [id, registration] : registrations_) {
    registration.event->PublishFailures(context_->bus);
  }
}

uint64_t Session::End(shm::CloseReason close, shm::EventStatus why) {
  RegistrationMap registrations;
  std::map<uint32_t, std::shared_ptr<Buffer>> buffers;
  UniqueFd connection;
  {
    std::lock_guard lock(mutex_);
    if (state_ == SessionState::kClosing) return 0;
    state_ = SessionState::kClosing;
    registrations.swap(registrations_);
    buffers.swap(buffers_);
    connection = std::move(connection_);
    if (connection_watch_) context_->loop->Unwatch(*connection_watch_);
  }
  uint64_t aborted_before = 0;
  for (const auto& [id, registration] : registrations) {
    aborted_before += registration.event->event()->counts().aborted;
  }
  context_->backend->paths().RemoveDevice(&memory());
  context_->backend->Cancel(&memory(), why);
  uint64_t aborted_after = 0;
  for (const auto& [id, registration] : registrations) {
    const auto event = registration.event->event();
    event->AbortUnfinished(why);
    aborted_after += event->counts().aborted;
    registration.event->PublishFailures(context_->bus);
  }
  context_->Record(shm::Step::kSessionEnded, 0, identity_.generation,
                   identity_.owner->pid, static_cast<uint32_t>(close));
  // After the completions: a device that sees the word has seen all that there
  // will be.
  memory().Close(close);
  return aborted_after - aborted_before;
}

}  // namespace carillon::gpud
