#include "gpu_daemon/control/sessions/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/kernel_request.h"
#include "gpu_daemon/control/sessions/names.h"
#include "gpu_daemon/event/launch_filter.h"
#include "gpu_daemon/event/refusal.h"
#include "shm/faults/point.h"
#include "shm/handover.h"
#include "shm/load_shared.h"

namespace carillon::gpud {
namespace {

// Hyper-Q's 32 streams a process, and as many calls as gpud has threads to
// spare.
constexpr size_t kMaxLaunches = 32;
constexpr uint32_t kMaxWaitingLaunches = 128;
constexpr std::chrono::milliseconds kNotYetPause{1};

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
      buffers_(identity_.name),
      registrations_(identity_.name, memory().submission().doorbell_count()),
      heard_ns_(identity_.attached_ns) {}

SessionState Session::state() const {
  MutexLock lock(mutex_);
  return state_;
}

std::string Session::note() const {
  MutexLock lock(mutex_);
  return note_;
}

uint64_t Session::gpu_memory_bytes() const {
  MutexLock lock(mutex_);
  return buffers_.gpu_memory_bytes();
}

std::vector<std::shared_ptr<EventKernel>> Session::events() const {
  MutexLock lock(mutex_);
  return registrations_.events();
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
  MutexLock lock(mutex_);
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
  MutexLock lock(mutex_);
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
  MutexLock lock(mutex_);
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
  MutexLock changing(changes_mutex_);
  uint32_t id = 0;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    ASSIGN_OR_RETURN(id, buffers_.NextId(request));
  }
  std::optional<uint64_t> offset;
  if (request.has_resumed()) offset = request.resumed().offset();
  // Without mutex_: an aperture may grow for it. If the session has ended
  // meanwhile, the buffer goes with this call.
  ASSIGN_OR_RETURN(auto buffer, space_->AllocateBuffer(
                                    request.place(), request.bytes(), offset));
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  v1::AllocateBufferResponse response;
  response.set_buffer_id(id);
  response.set_offset(buffer->offset());
  buffers_.Add(id, std::move(buffer));
  return response;
}

absl::Status Session::FreeBuffer(uint32_t buffer_id) {
  std::shared_ptr<Buffer> buffer;  // may unmap: not under the lock
  MutexLock changing(changes_mutex_);
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(buffer, buffers_.Find(buffer_id));
  RETURN_IF_ERROR(CheckUnused(buffer_id, *buffer));
  buffers_.Remove(buffer_id);
  return absl::OkStatus();
}

absl::Status Session::CheckUnused(uint32_t buffer_id,
                                  const Buffer& buffer) const {
  if (const auto event_id = registrations_.UserOf(buffer)) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 fmt::format("buffer {} is a parameter of event kernel {}: "
                             "unregister that first",
                             buffer_id, *event_id),
                 reason::kBufferInUse, "buffer_id");
  }
  for (const auto& weak : launches_) {
    const auto launch = weak.lock();
    if (launch == nullptr || !launch->Uses(buffer)) continue;
    return Error(absl::StatusCode::kFailedPrecondition,
                 fmt::format("buffer {} is a parameter of a kernel that runs; "
                             "wait for its end",
                             buffer_id),
                 reason::kBufferInUse, "buffer_id");
  }
  return absl::OkStatus();
}

// Writers: this function and front-ends, with the same value; reader: the
// device. Relaxed, because the word says nothing about other memory.
void Session::TellTracing() const {
  std::atomic_ref(memory().completion().completion_control().tracing)
      .store(context_->backend->paths().tracing() ? 1 : 0,
             std::memory_order_relaxed);
}

absl::Status Session::FindChains(const v1::RegisterEventRequest& request,
                                 std::shared_ptr<Chain>* hands_to,
                                 std::shared_ptr<Chain>* takes_from) {
  if (request.hands_to().empty() && request.takes_from().empty()) {
    return absl::OkStatus();
  }
  if (!context_->backend->has_chains()) {
    return Error(absl::StatusCode::kUnimplemented,
                 fmt::format("the {} back-end hands no events on from one "
                             "device to another: have gpud started with "
                             "--backend cpu",
                             context_->backend->name()),
                 reason::kNoChains, "chain");
  }
  const Chain::Submit submit = [backend = context_->backend](auto launch) {
    backend->Submit(std::move(launch));
  };
  const std::string& self = identity_.name;
  if (!request.hands_to().empty()) {
    RETURN_IF_ERROR(CheckName("hands_to", request.hands_to()));
    *hands_to = context_->chains.Find(self, request.hands_to(), submit);
  }
  if (!request.takes_from().empty()) {
    RETURN_IF_ERROR(CheckName("takes_from", request.takes_from()));
    *takes_from = context_->chains.Find(request.takes_from(), self, submit);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterEventResponse> Session::RegisterEvent(
    const v1::RegisterEventRequest& request) {
  MutexLock changing(changes_mutex_);
  shm::DoorbellIndex doorbell;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    RETURN_IF_ERROR(CheckPriority(identity_.name, request.priority(),
                                  context_->HighestPriorityOf(memory())));
    // Before the launch paths, among which the next gpud may not have the one
    // asked for either.
    RETURN_IF_ERROR(FindKernel(request.kernel(), *context_->kernels).status());
    ASSIGN_OR_RETURN(doorbell, request.has_resumed()
                                   ? registrations_.SameDoorbell(
                                         request.resumed().event_id())
                                   : registrations_.FreeDoorbell());
  }
  std::shared_ptr<Chain> hands_to;
  std::shared_ptr<Chain> takes_from;
  RETURN_IF_ERROR(FindChains(request, &hands_to, &takes_from));
  ASSIGN_OR_RETURN(auto slot, context_->ekt->Reserve());
  const shm::Generation generation = context_->NextGeneration();
  const FindBuffer find_buffer = [this](uint32_t id) {
    MutexLock lock(mutex_);
    return buffers_.finder()(id);
  };
  v1::RegisterEventResponse response;
  const auto add = [&](const StartedPath& path) -> absl::Status {
    // Without mutex_: an aperture may grow for it. What it takes is given back
    // when this path does not take it, or the session has ended meanwhile.
    auto created = RegisteredEvent::Create(
        request,
        {.doorbell = doorbell,
         .generation = generation,
         .ekt_index = slot.index(),
         .launch_path = path.name,
         .hands_to = hands_to,
         .takes_from = takes_from},
        space_, find_buffer, *context_->kernels, *context_->backend);
    MutexLock lock(mutex_);
    // Before `created`, which may have missed buffers that the end has taken.
    if (auto open = CheckOpen(); !open.ok()) return OnAnyPath(open);
    if (!created.ok()) return OnAnyPath(created.status());
    (*created)->ClearCompletions();
    const std::shared_ptr<EventKernel> event = (*created)->event();
    event->ledger().RecordIn(context_->recorder,
                             /*lives=*/!context_->backend->simulates_time());
    if (auto joined = (*created)->JoinChains(); !joined.ok()) {
      return OnAnyPath(WithDetail(joined, reason::kBadBinding, "chain"));
    }
    absl::Status status = path.path->Add(event);
    // Another host has its say, and the main loop does not wait for it.
    while (IsNotYet(status)) {
      lock.Unlock();
      std::this_thread::sleep_for(kNotYetPause);
      lock.Lock();
      status = path.path->Add(event);
    }
    // The session may have ended meanwhile.
    if (auto open = CheckOpen(); status.ok() && !open.ok()) {
      path.path->Remove(event);
      status = OnAnyPath(open);
    }
    if (!status.ok()) {
      (*created)->LeaveChains(/*stays=*/false);
      return absl::IsResourceExhausted(status)
                 ? WithDetail(status, reason::kTooMany, "devices",
                              "carillon ps")
                 : WithDetail(status, reason::kBadLaunchPath, "launch_path");
    }
    TellTracing();
    slot.Fill(event);
    if (context_->recorder != nullptr) {
      context_->recorder->NameRing(doorbell.value(), generation, identity_.name,
                                   event->kmd().kernel->name, event->label());
    }
    context_->Record(shm::Step::kRingMade, doorbell.value(), generation,
                     identity_.owner->pid, event->finishes_all());
    response = (*created)->Describe();
    context_->bus->Publish(RegisteredMessage(*event));
    registrations_.Add(doorbell, {.event = *std::move(created),
                                  .slot = std::move(slot),
                                  .path = path.path});
    return absl::OkStatus();
  };
  if (const auto path =
          context_->backend->paths().Serve(request.launch_path(), add);
      !path.ok()) {
    return WithDetail(path.status(), reason::kUnknownLaunchPath, "launch_path",
                      "carillon status");
  }
  return response;
}

absl::StatusOr<uint64_t> Session::UnregisterEvent(uint32_t event_id,
                                                  uint32_t drain_ms,
                                                  const GivenUp& given_up) {
  std::shared_ptr<RegisteredEvent> registered;
  LaunchPath* path = nullptr;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    ASSIGN_OR_RETURN(const auto closing, registrations_.StartClosing(event_id));
    registered = closing->event;
    path = closing->path;
  }
  const auto event = registered->event();
  const uint64_t aborted_before = event->counts().aborted;
  // A busy source would start events for ever.
  if (event->takes_from() != nullptr) registered->LeaveChains(/*stays=*/false);
  // The result does not matter: what is still in flight is aborted below.
  WaitUntilDrained([&] { return event->busy() == 0; }, DrainLimit(drain_ms),
                   given_up);
  path->Remove(event);
  registered->LeaveChains(/*stays=*/false);
  context_->backend->Cancel(LaunchFilter::Of(*event),
                            shm::EventStatus::kUnregistered);
  event->AbortUnfinished(shm::EventStatus::kUnregistered);
  context_->Record(shm::Step::kRingRemoved, event_id,
                   event->ring().layout().generation, 0);
  event->memory().bell().Signal();
  const uint64_t aborted = event->counts().aborted - aborted_before;
  registered->PublishFailures(context_->bus);

  std::optional<Registration> gone;
  {
    MutexLock lock(mutex_);
    gone = registrations_.Remove(event_id, *registered);
  }
  // The session may have ended meanwhile, and has freed it then.
  if (!gone) return aborted;
  v1::TelemetryEvent message;
  message.mutable_event_unregistered()->set_device(identity_.name);
  message.mutable_event_unregistered()->set_event_id(event_id);
  message.mutable_event_unregistered()->set_aborted(aborted);
  context_->bus->Publish(std::move(message));
  return aborted;
}

absl::Status Session::ScheduleEvent(uint32_t event_id, uint64_t through) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen());
  ASSIGN_OR_RETURN(const auto found, registrations_.Find(event_id));
  const auto event = found->event->event();
  if (!event->ScheduleThrough(through)) {
    return Error(
        absl::StatusCode::kInvalidArgument,
        fmt::format("events up to sequence {} to schedule: {} are "
                    "launched, and the ring has {} entries",
                    through, event->launched(), event->ring().layout().entries),
        reason::kBadCount, "through");
  }
  found->path->Wake(event);
  return absl::OkStatus();
}

absl::Status Session::ReleaseBarrier(uint32_t event_id) {
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    RETURN_IF_ERROR(registrations_.Check(event_id));
  }
  const absl::Status released = context_->backend->ReleaseBarrier(memory());
  return absl::IsUnimplemented(released)
             ? WithDetail(released, reason::kNoBarrier, "event_id")
             : released;
}

absl::StatusOr<LaunchResult> Session::LaunchKernel(
    const v1::LaunchKernelRequest& request, const GivenUp& given_up) {
  return Launch(request, given_up);
}

absl::StatusOr<LaunchResult> Session::Copy(const v1::CopyRequest& request,
                                           const GivenUp& given_up) {
  ASSIGN_OR_RETURN(const auto result, Launch(request, given_up));
  if (result.state == shm::EventState::kFailed) {
    return Error(absl::StatusCode::kDataLoss,
                 "the GPU was lost in the middle of the copy: copy again",
                 reason::kGpuLost, identity_.name);
  }
  return result;
}

template <class Request>
absl::StatusOr<LaunchResult> Session::Launch(const Request& request,
                                             const GivenUp& given_up) {
  std::shared_ptr<BackgroundLaunch> launch;
  // The last owner of one frees buffers: not under the lock.
  std::vector<std::shared_ptr<BackgroundLaunch>> others;
  RETURN_IF_ERROR(context_->backend->CheckBackground());
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(CheckOpen());
    RETURN_IF_ERROR(CheckPriority(identity_.name, request.priority(),
                                  context_->HighestPriorityOf(memory())));
    std::erase_if(launches_, [&](const auto& weak) {
      others.push_back(weak.lock());
      return others.back() == nullptr || others.back()->ended();
    });
    const uint32_t waiting =
        context_->waiting_launches.load(std::memory_order_relaxed);
    if (launches_.size() >= kMaxLaunches || waiting >= kMaxWaitingLaunches) {
      return Error(absl::StatusCode::kResourceExhausted,
                   fmt::format("{} kernels and copies of device '{}' and {} in "
                               "all wait or run: the limits are {} and {}; "
                               "call again when one has ended",
                               launches_.size(), identity_.name, waiting,
                               kMaxLaunches, kMaxWaitingLaunches),
                   reason::kTooMany, "launches");
    }
    ASSIGN_OR_RETURN(
        launch, BackgroundLaunch::Create(request, space_, buffers_, context_));
    launches_.push_back(launch);
    context_->waiting_launches.fetch_add(1, std::memory_order_relaxed);
    launch->Submit();
  }
  others.clear();
  const auto result = launch->Wait(given_up);
  context_->waiting_launches.fetch_sub(1, std::memory_order_relaxed);
  if (!result) {
    return absl::CancelledError(
        "the caller gave up; what ran of it runs to its end");
  }
  if (result->state == shm::EventState::kAborted) {
    return Error(absl::StatusCode::kAborted,
                 fmt::format("it was cut short: the session of device '{}' or "
                             "gpud ended",
                             identity_.name),
                 reason::kSessionEnded, identity_.name);
  }
  return *result;
}

Nanoseconds Session::SilentFor(Nanoseconds now) const {
  MutexLock lock(mutex_);
  return now - std::min(heard_ns_, now);
}

Nanoseconds Session::LeaseUsed(Nanoseconds now) const {
  MutexLock lock(mutex_);
  return now - std::min(std::max(heard_ns_, lease_renewed_ns_), now);
}

void Session::RenewLease(Nanoseconds now) {
  MutexLock lock(mutex_);
  lease_renewed_ns_ = now;
}

void Session::Tick(Nanoseconds now, bool was_away) {
  MutexLock lock(mutex_);
  if (state_ == SessionState::kClosing) return;
  if (!faults::At(faults::Point::kGpudLease, {.device = identity_.name})) {
    std::atomic_ref<uint64_t>(
        memory().completion().completion_control().heartbeat_ns)
        .store(now, std::memory_order_relaxed);
  }
  // The device may write anything here. Only a change is a sign of life.
  const uint64_t heartbeat =
      shm::LoadShared(memory().submission().submission_control().heartbeat_ns,
                      std::memory_order_relaxed);
  if (heartbeat != std::exchange(heartbeat_, heartbeat) || was_away) {
    heard_ns_ = now;
  }
  registrations_.PublishFailures(context_->bus);
}

uint64_t Session::End(shm::CloseReason close, shm::EventStatus why) {
  std::map<uint32_t, Registration> registrations;
  std::map<uint32_t, std::shared_ptr<Buffer>> buffers;
  {
    MutexLock lock(mutex_);
    if (state_ == SessionState::kClosing) return 0;
    state_ = SessionState::kClosing;
    registrations = registrations_.TakeAll();
    buffers = buffers_.TakeAll();
    if (connection_watch_) context_->loop->Unwatch(*connection_watch_);
  }
  if (close == shm::CloseReason::kRestarting) {
    for (const auto& [id, registration] : registrations) {
      registration.event->event()->ledger().KeepUnfinished();
    }
  }
  // The order: first nothing may start (paths), then nothing may run
  // (back-end), because AbortUnfinished() completes what nobody else will
  // complete any more. Memory is freed last, at the end of this scope, when no
  // kernel can touch it.
  uint64_t aborted_before = 0;
  for (const auto& [id, registration] : registrations) {
    aborted_before += registration.event->event()->counts().aborted;
  }
  context_->backend->paths().RemoveDevice(&memory());
  for (const auto& [id, registration] : registrations) {
    registration.event->LeaveChains(why == shm::EventStatus::kShutdown);
  }
  context_->backend->Cancel(LaunchFilter::Of(memory()), why);
  uint64_t aborted_after = 0;
  for (const auto& [id, registration] : registrations) {
    const auto event = registration.event->event();
    event->AbortUnfinished(why);
    aborted_after += event->counts().aborted;
    registration.event->PublishFailures(context_->bus);
  }
  context_->Record(shm::Step::kSessionEnded, 0, identity_.generation,
                   identity_.owner->pid, static_cast<uint32_t>(close));
  return aborted_after - aborted_before;
}

void Session::Close(shm::CloseReason close) {
  memory().Close(close);
  UniqueFd connection;
  MutexLock lock(mutex_);
  connection = std::move(connection_);
}

}  // namespace carillon::gpud
