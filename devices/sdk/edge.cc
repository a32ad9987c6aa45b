#include "devices/sdk/edge.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "devices/sdk/control_client.h"
#include "devices/sdk/device_impl.h"
#include "devices/sdk/parameters.h"
#include "fmt/format.h"
#include "shm/faults/point.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::edge {
namespace {

// For gRPC, which takes no deadline as one that has passed.
constexpr std::chrono::hours kMaxSimulation{24 * 30};

// A caller's mistake that no status can carry.
void RequireIndex(std::string_view what, uint32_t index, uint32_t limit) {
  if (index < limit) return;
  fmt::print(stderr, "{} {}: a device has {} of them\n", what, index, limit);
  std::abort();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Attach(
    const AttachOptions& given) {
  AttachOptions options = given;
  if (const char* const name = std::getenv(kDeviceNameVariable);
      options.name.empty() && name != nullptr) {
    options.name = name;
  }
  std::string directory = options.testbed_directory;
  if (directory.empty()) {
    const char* from_environment = std::getenv(kTestbedDirectoryVariable);
    if (from_environment == nullptr || *from_environment == '\0') {
      return absl::InvalidArgumentError(
          fmt::format("no testbed was named; give its directory or set {}",
                      kTestbedDirectoryVariable));
    }
    directory = from_environment;
  }
  options.testbed_directory = directory;
  ASSIGN_OR_RETURN(auto impl, Impl::Attach(std::move(options)));
  return std::unique_ptr<Device>(new Device(std::move(impl)));
}

bool Device::may_resume() const { return impl_->watch->may_resume(); }
bool Device::gpud_restarts() const { return impl_->gpud_restarts(); }

absl::Status Device::Resume(std::chrono::milliseconds timeout,
                            const std::function<absl::Status()>& prepare) {
  return impl_->Resume(timeout, prepare);
}

Device::Device(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Device::~Device() { Detach(); }

void Device::Detach() { impl_->Detach(/*link_lost=*/false); }
void Device::DetachAsLinkLost() { impl_->Detach(/*link_lost=*/true); }

const std::string& Device::name() const { return impl_->options.name; }
uint32_t Device::device_id() const { return impl_->device_id; }
const std::string& Device::catalogue() const { return impl_->catalogue; }
shm::Generation Device::generation() const { return impl_->generation; }

absl::StatusOr<Buffer> Device::AllocateBuffer(Place place, uint64_t bytes) {
  return impl_->AllocateBuffer(place, bytes);
}

absl::Status Device::FreeBuffer(const Buffer& buffer) {
  return impl_->FreeBuffer(buffer);
}

absl::StatusOr<std::vector<KernelDescription>> Device::ListKernels() {
  RETURN_IF_ERROR(status());
  const ControlClient& control = *impl_->control;
  ASSIGN_OR_RETURN(const auto answer,
                   control.Call(&v1::Events::Stub::ListKernels,
                                v1::ListKernelsRequest(), control.timeout()));
  std::vector<KernelDescription> kernels;
  for (const v1::Kernel& kernel : answer.kernels()) {
    kernels.push_back({kernel.name(), kernel.summary()});
  }
  return kernels;
}

absl::Status Device::ReportReady(const std::string& note) {
  return impl_->ReportReady(note);
}

absl::StatusOr<Device::LaunchTimes> Device::LaunchKernel(
    const LaunchSpec& spec) {
  v1::LaunchKernelRequest request;
  request.set_kernel(spec.kernel);
  SetDim3(spec.grid, request.mutable_grid());
  SetDim3(spec.block, request.mutable_block());
  request.set_shared_bytes(spec.shared_bytes);
  request.set_priority(spec.priority);
  RETURN_IF_ERROR(ToBindings(spec.parameters, /*ring=*/false,
                             request.mutable_parameters()));
  const bool simulated = in_simulated_time();
  ASSIGN_OR_RETURN(const auto answer,
                   impl_->Call(&v1::Events::Stub::LaunchKernel, request,
                               simulated ? kMaxSimulation : spec.timeout));
  // gpud has taken the launch for this turn's end.
  if (simulated && !impl_->WaitForTurn()) return status();
  if (answer.status() != 0) {
    return absl::InternalError(fmt::format("kernel '{}' failed with status {}",
                                           spec.kernel, answer.status()));
  }
  return LaunchTimes{.dispatched_ns = answer.dispatched_ns(),
                     .finished_ns = answer.finished_ns()};
}

absl::StatusOr<Device::CopyTimes> Device::Copy(const CopySpec& spec) {
  v1::CopyRequest request;
  request.set_from_buffer(spec.from.id);
  request.set_from_offset(spec.from_offset);
  request.set_to_buffer(spec.to.id);
  request.set_to_offset(spec.to_offset);
  request.set_bytes(spec.bytes);
  request.set_priority(spec.priority);
  const bool simulated = in_simulated_time();
  ASSIGN_OR_RETURN(const auto answer,
                   impl_->Call(&v1::Events::Stub::Copy, request,
                               simulated ? kMaxSimulation : spec.timeout));
  if (simulated && !impl_->WaitForTurn()) return status();
  return CopyTimes{.started_ns = answer.started_ns(),
                   .finished_ns = answer.finished_ns()};
}

Nanoseconds Device::Now() const {
  return in_simulated_time() ? impl_->time->now() : NowNs();
}

bool Device::in_simulated_time() const { return impl_->time != nullptr; }

bool Device::WaitInTurns(const std::function<bool()>& ready,
                         std::chrono::nanoseconds timeout) {
  return impl_->WaitInTurns(ready, timeout);
}

void Device::SetCounter(uint32_t index, uint64_t value) {
  RequireIndex("counter", index, shm::kMaxTelemetryCounters);
  std::atomic_ref<uint64_t>(impl_->submission.telemetry().counters[index])
      .store(value, std::memory_order_relaxed);
}

void Device::AddToCounter(uint32_t index, uint64_t delta) {
  RequireIndex("counter", index, shm::kMaxTelemetryCounters);
  std::atomic_ref<uint64_t>(impl_->submission.telemetry().counters[index])
      .fetch_add(delta, std::memory_order_relaxed);
}

shm::HistogramWriter Device::histogram(uint32_t index) {
  RequireIndex("histogram", index, shm::kMaxTelemetryHistograms);
  return shm::HistogramWriter(&impl_->submission.telemetry().histograms[index]);
}

void Device::ArmCompletionFd() { impl_->waiter->ArmCompletionEvent(); }

void Device::DisarmCompletionFd() {
  impl_->waiter->DisarmCompletionEvent();
  shm::DrainCompletionEvent(impl_->completion_event.get());
}

int Device::completion_fd() const { return impl_->completion_event.get(); }
int Device::connection_fd() const { return impl_->connection.get(); }

absl::Status Device::status() const { return impl_->status(); }

absl::Status Device::status(const Buffer& buffer) const {
  return impl_->status(buffer);
}

absl::Status Device::WaitForEnd(std::chrono::milliseconds timeout) const {
  impl_->watch->WaitForEnd(timeout);
  return impl_->status();
}

bool Device::tracing() const {
  // Writer: gpud. No order needed: an event that straddles the switch has half
  // a life.
  return std::atomic_ref<uint32_t>(
             impl_->completion.completion_control().tracing)
             .load(std::memory_order_relaxed) != 0;
}

shm::CompletionWaiter& Device::waiter() { return *impl_->waiter; }

EventQueue::EventQueue(Device* device, EventSpec spec, std::string launch_path,
                       const shm::RingLayout& layout,
                       std::vector<WritableParameter> writable)
    : device_(device),
      spec_(std::move(spec)),
      launch_path_(std::move(launch_path)),
      writable_(std::move(writable)),
      ring_(layout, &device->impl_->submission, &device->impl_->completion),
      recorder_(device->impl_->recorder.get()),
      time_(device->impl_->time.get()) {}

uint32_t EventQueue::FreeSlotsThroughFaults() const {
  // A ring without an event in flight is never full: nothing would wake who
  // waits for a slot of it.
  if (ring_.in_flight() == 0) return ring_.free_slots();
  const auto struck =
      faults::At(faults::Point::kDeviceSlots,
                 {.device = device_->name(), .event_id = event_id()});
  const bool full = struck && struck->action == faults::Action::kFull;
  return full ? 0 : ring_.free_slots();
}

void EventQueue::PassCommit() {
  const auto struck =
      faults::At(faults::Point::kDeviceCommit,
                 {.device = device_->name(), .event_id = event_id()});
  if (!struck) return;
  const std::span<std::byte> entry = ring_.last_entry();
  switch (struck->action) {
    case faults::Action::kCorrupt:
      struck->Corrupt(entry);
      break;
    case faults::Action::kTear:
      if (struck->count < entry.size()) {
        std::fill(entry.begin() + struck->count, entry.end(), std::byte{0});
      }
      break;
    case faults::Action::kStale: {
      const uint32_t stale = ring_.layout().generation.value() - 1;
      std::memcpy(&entry[offsetof(shm::EsqEntryHeader, generation)], &stale,
                  sizeof(stale));
      break;
    }
    default:
      break;
  }
}

void EventQueue::RingThroughFaults() {
  const faults::Subject subject{.device = device_->name(),
                                .event_id = event_id()};
  const auto struck = faults::At(faults::Point::kDeviceRing, subject);
  if (recorder_ != nullptr) RecordRing();
  if (!struck) {
    ring_.RingDoorbell();
  } else if (struck->action == faults::Action::kLose) {
    ring_.LoseRing();
  } else if (struck->action == faults::Action::kDouble) {
    ring_.RingWith(0);
    ring_.RingWith(0);
  } else {
    ring_.RingWith(static_cast<uint32_t>(struck->count));
  }
  faults::At(faults::Point::kDeviceRung, subject);
}

void EventQueue::FreeThroughFaults() {
  const faults::Subject subject{.device = device_->name(),
                                .event_id = event_id()};
  faults::At(faults::Point::kDeviceTake, subject);
  if (recorder_ != nullptr) RecordTaken();
  ring_.Consume();
  faults::At(faults::Point::kDeviceTaken, subject);
}

void EventQueue::RecordRing() {
  const uint64_t rings = ring_.last_committed() - ring_.last_rung();
  if (rings == 0) return;
  recorder_->Record(shm::Step::kRung, event_id(), ring_.layout().generation,
                    ring_.last_committed().value(), EventState::kNone,
                    static_cast<uint32_t>(rings));
}

void EventQueue::RecordTaken() {
  // Nothing to free is the caller's mistake: it shows as an event in no state.
  const Completion done =
      ring_.Poll().value_or(Completion{.sequence = ring_.last_consumed() + 1});
  recorder_->Record(shm::Step::kTaken, event_id(), ring_.layout().generation,
                    done.sequence.value(), done.state, done.status);
}

void EventQueue::NoteMismatch() {
  device_->impl_->Record(shm::Step::kMismatched, ring_.layout(),
                         ring_.last_consumed().value() + 1);
}

void EventQueue::NoteMissed(std::chrono::nanoseconds waited) {
  if (in_flight() == 0) return;
  device_->impl_->Record(
      shm::Step::kMissed, ring_.layout(), ring_.last_consumed().value() + 1,
      static_cast<uint32_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(waited)
              .count()));
}

absl::StatusOr<uint32_t> EventQueue::ParameterOffset(
    std::string_view name) const {
  ASSIGN_OR_RETURN(const WritableParameter* const found, FindWritable(name));
  return found->offset;
}

absl::StatusOr<uint32_t> EventQueue::ParameterBytes(
    std::string_view name) const {
  ASSIGN_OR_RETURN(const WritableParameter* const found, FindWritable(name));
  return found->bytes;
}

absl::StatusOr<const WritableParameter*> EventQueue::FindWritable(
    std::string_view name) const {
  std::string names;
  for (const WritableParameter& parameter : writable_) {
    if (parameter.name == name) return &parameter;
    names += (names.empty() ? "" : ", ") + parameter.name;
  }
  return absl::NotFoundError(
      fmt::format("event kernel '{}' was registered without a writable "
                  "parameter '{}'; writable: {}",
                  kernel(), name, names.empty() ? "none" : names));
}

constexpr std::chrono::milliseconds kLongWait{100};

absl::StatusOr<Completion> EventQueue::Wait(std::chrono::nanoseconds timeout,
                                            std::chrono::nanoseconds spin) {
  timeout = std::max(timeout, std::chrono::nanoseconds(0));
  std::optional<Completion> done;
  device_->WaitForCompletion(
      [&] {
        done = ring_.Poll();
        return done.has_value();
      },
      timeout, std::min(spin, timeout));
  if (done) return *done;
  RETURN_IF_ERROR(device_->impl_->status(ring_.layout()));
  // Shorter ones are looks, not waits.
  if (timeout >= kLongWait) NoteMissed(timeout);
  return absl::DeadlineExceededError(fmt::format(
      "no event of '{}' (event {}) ended within {} us; {} in flight{}",
      kernel(), event_id(),
      std::chrono::duration_cast<std::chrono::microseconds>(timeout).count(),
      in_flight(), device_->impl_->watch->SilenceOfGpud()));
}

bool EventQueue::tracing() const { return device_->tracing(); }

absl::StatusOr<EventQueue*> edgeRegisterEvent(Device& device,
                                              const EventSpec& spec) {
  return device.impl_->Register(&device, spec);
}

absl::Status edgeUnregisterEvent(Device& device, EventQueue* queue) {
  return device.impl_->Unregister(queue);
}

absl::Status edgeScheduleEvent(Device& device, EventQueue* queue) {
  Device::Impl& impl = *device.impl_;
  shm::DeviceRing& ring = Device::Impl::RingOf(*queue);
  if (ring.last_committed() == ring.last_rung()) {
    return absl::FailedPreconditionError(
        fmt::format("nothing to schedule for '{}': Commit() an entry first",
                    queue->kernel()));
  }
  v1::ScheduleEventRequest request;
  request.set_event_id(queue->event_id());
  request.set_through(ring.last_committed().value());
  impl.Record(shm::Step::kScheduling, ring.layout(), request.through());
  const auto answer = impl.Call(&v1::Events::Stub::ScheduleEvent, request);
  // Refused, or with its answer lost, it leaves the entries committed: they can
  // be rung, or scheduled again, and are launched once all the same.
  if (answer.ok()) {
    impl.Record(
        shm::Step::kRung, ring.layout(), request.through(),
        static_cast<uint32_t>(ring.last_committed() - ring.last_rung()));
    ring.TakeScheduled();
  }
  return answer.status();
}

absl::Status edgeReleaseBarrier(Device& device, EventQueue* queue) {
  Device::Impl& impl = *device.impl_;
  v1::ReleaseBarrierRequest request;
  request.set_event_id(queue->event_id());
  return impl.Call(&v1::Events::Stub::ReleaseBarrier, request).status();
}

}  // namespace carillon::edge
