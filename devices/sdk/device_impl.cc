#include "devices/sdk/device_impl.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/headroom.h"
#include "base/status.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "devices/sdk/parameters.h"
#include "fmt/format.h"
#include "shm/faults/board.h"
#include "shm/faults/point.h"
#include "shm/handover.h"
#include "shm/load_shared.h"

namespace carillon::edge {
namespace {

// How long a wait for a turn, which may take for ever, goes without a look at
// whatever else the caller waits for; and how long it spins first.
constexpr std::chrono::milliseconds kLookAround{50};
constexpr std::chrono::microseconds kSpinForTurn{20};
// For gRPC, which takes no deadline as one that has passed.
constexpr std::chrono::hours kMaxSimulation{24 * 30};
// The first device of a process needs so many for gRPC and its session.
constexpr size_t kDescriptors = 16;
constexpr size_t kThreads = 10;
// How much of a durable buffer is filled again at a time.
constexpr uint64_t kMaxScratch = 64 << 10;

// Gives the reasons that gRPC would only call "unavailable".
absl::Status CheckSocket(const std::string& path) {
  RETURN_IF_ERROR(CheckSocketPath(path));
  if (access(path.c_str(), R_OK | W_OK) != 0 && errno == EACCES) {
    return absl::PermissionDeniedError(fmt::format(
        "the testbed at {} belongs to another user, or a folder above it lets "
        "nobody of uid {} pass",
        path, geteuid()));
  }
  return absl::OkStatus();
}

// Nothing for what no entry holds.
std::optional<ValueType> ValueTypeOf(v1::ParameterKind kind) {
  switch (kind) {
    case v1::U32:
      return ValueType::kU32;
    case v1::I32:
      return ValueType::kI32;
    case v1::F32:
      return ValueType::kF32;
    case v1::U64:
      return ValueType::kU64;
    case v1::I64:
      return ValueType::kI64;
    case v1::F64:
      return ValueType::kF64;
    case v1::READ_BUFFER:
    case v1::WRITE_BUFFER:
      return ValueType::kBuffer;
    default:
      return std::nullopt;
  }
}

uint32_t BytesOf(ValueType type) {
  switch (type) {
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kBuffer:
      return sizeof(shm::BufferRef);
  }
  return 0;
}

}  // namespace

void Device::Impl::Session::Detach() const {
  v1::DetachRequest request;
  request.set_session(attached.session());
  (void)control->Call(&v1::Devices::Stub::Detach, request, control->timeout());
}

absl::Status Device::Impl::Contradiction(std::string_view what) {
  return absl::FailedPreconditionError(
      fmt::format("gpud's answer cannot be right: {}; do gpud and the device "
                  "come from the same build?",
                  what));
}

absl::StatusOr<Device::Impl::Session> Device::Impl::Open(
    const AttachOptions& options) {
  const TestbedPaths paths(options.testbed_directory);
  RETURN_IF_ERROR(CheckSocket(paths.control_socket()));
  Session session;
  session.control =
      std::make_unique<ControlClient>(paths.control_socket(), options.timeout);
  const ControlClient& client = *session.control;

  v1::AttachRequest request;
  request.set_name(options.name);
  request.set_kind(options.kind);
  request.set_submission_bytes(options.submission_bytes);
  request.set_completion_bytes(options.completion_bytes);
  for (const std::string& name : options.counter_names)
    request.add_counter_names(name);
  for (const std::string& name : options.histogram_names)
    request.add_histogram_names(name);
  request.set_layout_version(shm::kLayoutVersion);
  request.set_takes_simulated_time(options.takes_simulated_time);
  ASSIGN_OR_RETURN(session.attached, client.Call(&v1::Devices::Stub::Attach,
                                                 request, options.timeout));
  const auto fetch = [&]() -> absl::Status {
    shm::Ticket ticket;
    const std::string& given = session.attached.ticket();
    if (given.size() != ticket.size()) {
      return Contradiction(fmt::format("a ticket of {} bytes", given.size()));
    }
    std::copy(given.begin(), given.end(), ticket.begin());
    ASSIGN_OR_RETURN(auto handed, shm::FetchApertures(paths.handover_socket(),
                                                      ticket, options.timeout));
    const shm::Generation generation(session.attached.generation());
    if (handed.device_id != session.attached.device_id() ||
        handed.generation != generation) {
      return Contradiction(fmt::format(
          "device {} of generation {} was handed over, not {} of {}",
          handed.device_id, handed.generation.value(),
          session.attached.device_id(), generation.value()));
    }
    ASSIGN_OR_RETURN(
        session.submission,
        shm::Aperture::Map(std::move(handed.submission),
                           shm::RegionKind::kSubmission, generation));
    ASSIGN_OR_RETURN(
        session.completion,
        shm::Aperture::Map(std::move(handed.completion),
                           shm::RegionKind::kCompletion, generation));
    session.handed = std::move(handed);
    return absl::OkStatus();
  };
  if (auto status = fetch(); !status.ok()) {
    // gpud would keep the name until the ticket expires.
    session.Detach();
    return status;
  }
  return session;
}

absl::StatusOr<std::unique_ptr<Device::Impl>> Device::Impl::Attach(
    AttachOptions options) {
  RETURN_IF_ERROR(CheckHeadroom(kDescriptors, kThreads));
  const TestbedPaths paths(options.testbed_directory);
  RETURN_IF_ERROR(
      faults::Member::JoinForGood(paths.fault_board(), options.name));
  const std::string name = options.name;
  faults::At(faults::Point::kDeviceAttach, {.device = name});
  ASSIGN_OR_RETURN(auto opened, Open(options));
  auto recorder = shm::FlightRecorder::FromEnvironment(
      paths.recorder_directory(), options.name);
  if (!recorder.ok()) {
    opened.Detach();
    return recorder.status();
  }
  auto impl = std::unique_ptr<Impl>(new Impl(std::move(options)));
  impl->recorder = *std::move(recorder);
  impl->submission = std::move(opened.submission);
  impl->completion = std::move(opened.completion);
  RETURN_IF_ERROR(impl->Use(std::move(opened)));
  faults::Reached(faults::State::kAttached);
  faults::At(faults::Point::kDeviceAttached, {.device = name});
  return impl;
}

// Its apertures are in place.
absl::Status Device::Impl::Use(Session opened) {
  control = std::move(opened.control);
  device_id = opened.attached.device_id();
  generation = shm::Generation(opened.attached.generation());
  session = opened.attached.session();
  catalogue = opened.attached.catalogue();
  completion_event = std::move(opened.handed.completion_event);
  connection = std::move(opened.handed.connection);
  ASSIGN_OR_RETURN(
      watch, PeerWatch::Start(
                 {.connection = connection.get(),
                  .heartbeat_ns = &submission.submission_control().heartbeat_ns,
                  .control = &completion.completion_control(),
                  .generation = generation,
                  .device = options.name,
                  .recorder = recorder.get()}));
  waiter = std::make_unique<shm::CompletionWaiter>(&submission, &completion,
                                                   &watch->closed());
  // gpud gives the first turn before it hands the apertures over.
  auto first = std::make_unique<shm::TurnTaker>(&submission, &completion);
  if (!first->Take()) return absl::OkStatus();
  time = std::move(first);
  // Wall time must not decide what a call answers: a link may be down.
  control = std::make_unique<ControlClient>(
      TestbedPaths(options.testbed_directory).control_socket(), kMaxSimulation);
  return absl::OkStatus();
}

// --- Simulated time.

bool Device::Impl::WaitInTurns(const std::function<bool()>& ready,
                               std::chrono::nanoseconds timeout) {
  const auto wait = static_cast<Nanoseconds>(
      std::max(timeout, std::chrono::nanoseconds(0)).count());
  const Nanoseconds due = time->now() + wait;
  while (true) {
    if (ready()) return true;
    if (time->now() >= due) return false;
    const uint64_t ended = CountEnded();
    time->Answer(due);
    while (!waiter->WaitUntil([&] { return time->Take(); }, kLookAround,
                              kSpinForTurn)) {
      if (waiter->closed()) return ready();
      // Something besides completions, as a request to stop. A completion is
      // not to be seen before its turn, which is on its way.
      if (ready() && CountEnded() == ended) return true;
    }
  }
}

uint64_t Device::Impl::CountEnded() const {
  uint64_t count = 0;
  MutexLock lock(mutex_);
  for (const auto& [id, queue] : queues_) {
    const shm::DeviceRing& ring = queue->ring_;
    for (shm::Sequence s = ring.last_consumed() + 1; s <= ring.last_committed();
         ++s) {
      if (ring.EndOf(s)) ++count;
    }
  }
  return count;
}

bool Device::Impl::WaitForTurn() {
  while (!waiter->WaitUntil([&] { return time->Take(); }, kLookAround,
                            kSpinForTurn)) {
    if (waiter->closed()) return false;
  }
  return true;
}

void Device::Impl::Abandon() {
  (void)Call(&v1::Devices::Stub::Detach, v1::DetachRequest());
}

void Device::Impl::Detach(bool link_lost) {
  if (std::exchange(detached, true)) return;
  v1::DetachRequest request;
  request.set_link_lost(link_lost);
  // Errors have nobody to go to: if gpud is gone or stuck, it frees the session
  // by itself when the connection closes.
  RecordEnd(
      Call(&v1::Devices::Stub::Detach, std::move(request), options.timeout)
          .ok());
}

// --- Buffers and queues.

absl::StatusOr<Buffer> Device::Impl::AllocateBuffer(Place place,
                                                    uint64_t bytes) {
  if (place == Place::kDurable) RETURN_IF_ERROR(GrowScratch(bytes));
  v1::AllocateBufferRequest request;
  request.set_place(ToProto(place));
  request.set_bytes(bytes);
  MutexLock placing(placing_);
  ASSIGN_OR_RETURN(const auto answer,
                   Call(&v1::Events::Stub::AllocateBuffer, request));
  Buffer buffer{.id = answer.buffer_id(), .place = place, .bytes = {}};
  if (place != Place::kGpuMemory) {
    const shm::Aperture& aperture =
        place == Place::kInput ? submission : completion;
    if (answer.offset() < aperture.heap_offset() ||
        !aperture.Contains(answer.offset(), bytes)) {
      (void)FreeBuffer(buffer);
      return Contradiction(
          fmt::format("a buffer of {} bytes at offset {} of an aperture of {}",
                      bytes, answer.offset(), aperture.size()));
    }
    buffer.bytes = {aperture.At(answer.offset()), bytes};
  }
  MutexLock lock(mutex_);
  buffers_[buffer.id] = {
      .place = place, .offset = answer.offset(), .bytes = bytes};
  return buffer;
}

// Durable buffers go through it when they are filled again, when there may be
// no room left to ask for.
absl::Status Device::Impl::GrowScratch(uint64_t bytes) {
  bytes = std::min(bytes, kMaxScratch);
  MutexLock growing(growing_);
  const Buffer before = scratch_;
  if (bytes <= before.bytes.size()) return absl::OkStatus();
  ASSIGN_OR_RETURN(scratch_, AllocateBuffer(Place::kInput, bytes));
  return before.bytes.empty() ? absl::OkStatus() : FreeBuffer(before);
}

absl::Status Device::Impl::FreeBuffer(const Buffer& buffer) {
  v1::FreeBufferRequest request;
  request.set_buffer_id(buffer.id);
  ASSIGN_OR_RETURN(const auto answer,
                   Call(&v1::Events::Stub::FreeBuffer, request));
  MutexLock lock(mutex_);
  buffers_.erase(buffer.id);
  return absl::OkStatus();
}

absl::Status Device::Impl::ReportReady(const std::string& note) {
  v1::ReportReadyRequest request;
  request.set_note(note);
  ASSIGN_OR_RETURN(const auto answer,
                   Call(&v1::Devices::Stub::ReportReady, request));
  faults::Reached(faults::State::kReady);
  MutexLock lock(mutex_);
  ready_note_ = note;
  return absl::OkStatus();
}

absl::StatusOr<v1::RegisterEventRequest> Device::Impl::RequestFor(
    const EventSpec& spec) const {
  v1::RegisterEventRequest request;
  request.set_kernel(spec.kernel);
  SetDim3(spec.grid, request.mutable_grid());
  SetDim3(spec.block, request.mutable_block());
  request.set_shared_bytes(spec.shared_bytes);
  request.set_max_in_flight(spec.max_in_flight);
  request.set_priority(spec.priority);
  request.set_modifyable(spec.modifyable);
  request.set_label(spec.label);
  request.set_launch_path(spec.launch_path);
  request.set_hands_to(spec.hands_to);
  request.set_takes_from(spec.takes_from);
  RETURN_IF_ERROR(
      ToBindings(spec.parameters, /*ring=*/true, request.mutable_parameters()));
  return request;
}

absl::StatusOr<EventQueue*> Device::Impl::Register(Device* device,
                                                   const EventSpec& spec) {
  ASSIGN_OR_RETURN(const auto request, RequestFor(spec));
  faults::At(faults::Point::kDeviceRegister, {.device = options.name});
  MutexLock placing(placing_);
  ASSIGN_OR_RETURN(const auto answer,
                   Call(&v1::Events::Stub::RegisterEvent, request));
  auto queue = AddQueue(device, spec, answer);
  if (!queue.ok()) {
    v1::UnregisterEventRequest undo;
    undo.set_event_id(answer.event_id());
    (void)Call(&v1::Events::Stub::UnregisterEvent, undo);
  }
  faults::At(faults::Point::kDeviceRegistered,
             {.device = options.name, .event_id = answer.event_id()});
  return queue;
}

absl::Status Device::Impl::Unregister(const EventQueue* queue) {
  const std::unique_ptr<EventQueue> owned = TakeQueue(queue);
  if (owned == nullptr) {
    return absl::InvalidArgumentError(
        "this event queue does not belong to this device");
  }
  v1::UnregisterEventRequest request;
  request.set_event_id(owned->event_id());
  MutexLock placing(placing_);
  const absl::Status status =
      Call(&v1::Events::Stub::UnregisterEvent, request).status();
  RecordUnregistered(
      *owned, status.ok() ? shm::LetGo::kConfirmed : shm::LetGo::kUnanswered);
  return status;
}

shm::Sequence Device::Impl::LastCompleted(const shm::RingLayout& ring) const {
  shm::Sequence last(
      std::atomic_ref<uint64_t>(submission.consumed()[ring.doorbell.value()])
          .load(std::memory_order_relaxed));
  const auto* ecq =
      reinterpret_cast<shm::EcqEntry*>(completion.At(ring.ecq_offset));
  for (uint32_t i = 0; i < ring.entries; ++i) {
    const shm::Sequence next = last + 1;
    if (shm::LoadShared(ecq[ring.SlotOf(next)].sequence,
                        std::memory_order_acquire) != next.value()) {
      break;
    }
    last = next;
  }
  return last;
}

absl::Status Device::Impl::status() const {
  absl::Status ended = watch->status();
  if (ended.ok()) return ended;
  std::string sequences;
  MutexLock lock(mutex_);
  for (const auto& [id, queue] : queues_) {
    sequences += fmt::format(
        "{}{} ({}, event {})", sequences.empty() ? "" : ", ",
        LastCompleted(queue->ring_.layout()).value(), queue->kernel(), id);
  }
  if (sequences.empty()) return ended;
  return absl::Status(ended.code(),
                      fmt::format("{}; last completed sequence {}",
                                  ended.message(), sequences));
}

absl::Status Device::Impl::status(const shm::RingLayout& ring) const {
  absl::Status ended = watch->status();
  if (ended.ok()) return ended;
  return absl::Status(
      ended.code(), fmt::format("{}; last completed sequence {}",
                                ended.message(), LastCompleted(ring).value()));
}

absl::StatusOr<shm::RingLayout> Device::Impl::CheckAnswer(
    const EventSpec& spec, const v1::RegisterEventResponse& answer) const {
  const shm::RingLayout layout = shm::LayoutOf(answer);
  if (auto status = shm::CheckRingLayout(layout, submission, completion);
      !status.ok()) {
    return Contradiction(std::string(status.message()));
  }
  if (layout.entries != spec.max_in_flight) {
    return Contradiction(
        fmt::format("a ring of {} entries was made, {} were asked for",
                    layout.entries, spec.max_in_flight));
  }
  if (layout.modifyable() != spec.modifyable) {
    return Contradiction("the ring's entries are not modifyable as asked for");
  }
  std::set<std::string> expected;
  for (const Parameter& parameter : spec.parameters) {
    if (parameter.kind == Parameter::Kind::kWritableValue ||
        parameter.kind == Parameter::Kind::kWritableBuffer) {
      expected.insert(parameter.name);
    }
  }
  for (const v1::WritableParameter& parameter : answer.writable()) {
    const auto type = ValueTypeOf(parameter.kind());
    const uint32_t bytes = type ? BytesOf(*type) : 0;
    if (bytes == 0 || parameter.offset() > layout.parameter_bytes ||
        bytes > layout.parameter_bytes - parameter.offset()) {
      return Contradiction(fmt::format(
          "parameter '{}' at offset {} leaves the entry's {} bytes of "
          "parameters",
          parameter.name(), parameter.offset(), layout.parameter_bytes));
    }
    if (expected.erase(parameter.name()) == 0) {
      return Contradiction(
          fmt::format("parameter '{}' is writable", parameter.name()));
    }
  }
  if (!expected.empty()) {
    return Contradiction(
        fmt::format("parameter '{}' is not writable", *expected.begin()));
  }
  return layout;
}

absl::StatusOr<EventQueue*> Device::Impl::AddQueue(
    Device* device, const EventSpec& spec,
    const v1::RegisterEventResponse& answer) {
  ASSIGN_OR_RETURN(const auto layout, CheckAnswer(spec, answer));
  std::vector<WritableParameter> writable;
  for (const v1::WritableParameter& parameter : answer.writable()) {
    const ValueType type = *ValueTypeOf(parameter.kind());
    writable.push_back(
        {parameter.name(), type, parameter.offset(), BytesOf(type)});
  }
  MutexLock lock(mutex_);
  std::unique_ptr<EventQueue>& queue = queues_[answer.event_id()];
  if (queue != nullptr) {
    return Contradiction(
        fmt::format("event id {} is in use", answer.event_id()));
  }
  queue.reset(new EventQueue(device, spec, answer.launch_path(), layout,
                             std::move(writable)));
  NameRing(spec, layout);
  Record(shm::Step::kRegistered, layout, 0, layout.entries);
  return queue.get();
}

void Device::Impl::RecordFound(const EventQueue& queue) const {
  if (recorder == nullptr) return;
  const shm::DeviceRing& ring = queue.ring_;
  for (shm::Sequence s = ring.last_consumed() + 1; s <= ring.last_committed();
       ++s) {
    if (const auto end = ring.EndOf(s)) {
      recorder->Record(shm::Step::kFound, queue.event_id(),
                       ring.layout().generation, s.value(), end->state,
                       end->status);
    }
  }
}

void Device::Impl::RecordUnregistered(const EventQueue& queue,
                                      shm::LetGo how) const {
  // Before the look: an end may come between the look and the session's end.
  if (how == shm::LetGo::kUnanswered && !watch->status().ok()) {
    how = shm::LetGo::kAfterEnd;
  }
  RecordFound(queue);
  Record(shm::Step::kUnregistered, queue.ring_.layout(),
         queue.ring_.last_consumed().value(), static_cast<uint32_t>(how));
}

void Device::Impl::RecordEnd(bool confirmed) const {
  if (recorder == nullptr) return;
  MutexLock lock(mutex_);
  for (const auto& [id, queue] : queues_) {
    RecordUnregistered(
        *queue, confirmed ? shm::LetGo::kAfterEnd : shm::LetGo::kUnanswered);
  }
  recorder->Record(shm::Step::kDetached, 0, generation, 0,
                   shm::EventState::kNone, confirmed ? 0 : 1);
}

std::unique_ptr<EventQueue> Device::Impl::TakeQueue(const EventQueue* queue) {
  MutexLock lock(mutex_);
  for (auto entry = queues_.begin(); entry != queues_.end(); ++entry) {
    if (entry->second.get() != queue) continue;
    auto taken = std::move(entry->second);
    queues_.erase(entry);
    return taken;
  }
  return nullptr;
}

}  // namespace carillon::edge
