#include "gpu_daemon/control/sessions/registered_event.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/kernel_request.h"
#include "gpu_daemon/control/sessions/names.h"
#include "shm/event_status_text.h"

namespace carillon::gpud {
namespace {

// Sequences never wrap; a device that says it has come so far lies.
constexpr uint64_t kLastSequence = uint64_t{1} << 62;

// The first buffer of fixed place in the device's completion aperture.
OutputBuffer OutputOf(const std::vector<ParameterBinding>& bindings,
                      const shm::Aperture& completion) {
  const std::byte* const begin = completion.At(0);
  for (const ParameterBinding& binding : bindings) {
    const std::byte* const data = binding.buffer.data;
    if (binding.writable || data < begin || data >= begin + completion.size()) {
      continue;
    }
    return {.data = binding.buffer.data,
            .bytes = binding.buffer.bytes,
            .slot_stride = binding.slot_stride};
  }
  return {};
}

}  // namespace

absl::StatusOr<std::shared_ptr<RegisteredEvent>> RegisteredEvent::Create(
    const v1::RegisterEventRequest& request, const Placement& placement,
    const std::shared_ptr<DeviceSpace>& space, const FindBuffer& find_buffer,
    const KernelCatalog& kernels, const Backend& backend) {
  ASSIGN_OR_RETURN(
      auto kmd,
      MakeKernelMetadata(request.kernel(),
                         request.has_grid() ? &request.grid() : nullptr,
                         request.has_block() ? &request.block() : nullptr,
                         request.shared_bytes(), kernels, backend));
  if (auto status = shm::CheckRingEntries(request.max_in_flight());
      !status.ok()) {
    return WithDetail(status, reason::kBadRingSize, "max_in_flight");
  }
  RETURN_IF_ERROR(CheckText("label", request.label(), kMaxLabelLength));
  ASSIGN_OR_RETURN(auto bound,
                   BindParameters(*kmd.kernel, request.parameters(),
                                  request.max_in_flight(), find_buffer));
  auto plan = ArgumentPlan::Make(*kmd.kernel, bound.bindings);
  if (!plan.ok()) {
    return WithDetail(plan.status(), reason::kBadBinding, request.kernel());
  }
  if (plan->taken().empty() != request.takes_from().empty()) {
    return Error(absl::StatusCode::kInvalidArgument,
                 plan->taken().empty()
                     ? "takes_from names a device, and no parameter is taken "
                       "from its events"
                     : "a parameter is taken from another device's events, and "
                       "takes_from names none",
                 reason::kBadBinding, "takes_from");
  }
  // With parameters that are taken, a chain checks each launch.
  if (plan->writable().empty() && plan->taken().empty() &&
      !request.modifyable()) {
    RETURN_IF_ERROR(CheckFixedArguments(kmd, *plan));
  }

  shm::RingLayout layout =
      shm::MakeRingLayout(request.max_in_flight(),
                          plan->entry_parameter_bytes(), request.modifyable());
  layout.doorbell = placement.doorbell;
  layout.generation = placement.generation;
  std::optional<uint64_t> esq_offset;
  std::optional<uint64_t> ecq_offset;
  uint64_t consumed = 0;
  if (request.has_resumed()) {
    esq_offset = request.resumed().esq_offset();
    ecq_offset = request.resumed().ecq_offset();
    consumed = request.resumed().consumed();
    if (consumed > kLastSequence) {
      return Error(absl::StatusCode::kInvalidArgument,
                   fmt::format("{} events were consumed: no device has come "
                               "that far",
                               consumed),
                   reason::kBadRingSize, "resumed");
    }
  }
  ASSIGN_OR_RETURN(auto esq, space->AllocateRange(shm::RegionKind::kSubmission,
                                                  layout.esq_bytes(), "the ESQ",
                                                  esq_offset));
  const uint64_t life_at = shm::AlignUp(layout.ecq_bytes(), shm::kCacheLine);
  const uint64_t completion_bytes = life_at + layout.life_bytes();
  ASSIGN_OR_RETURN(
      auto completions,
      space->AllocateRange(shm::RegionKind::kCompletion, completion_bytes,
                           "the ECQ", ecq_offset));
  layout.esq_offset = esq.offset();
  layout.ecq_offset = completions.offset();
  layout.life_offset = completions.offset() + life_at;
  return std::shared_ptr<RegisteredEvent>(new RegisteredEvent(
      {std::move(esq), std::move(completions), std::move(bound.buffers)},
      {.kmd = kmd,
       .priority = request.priority(),
       .modifyable = request.modifyable(),
       .label = request.label(),
       .launch_path = placement.launch_path,
       .arguments = *std::move(plan),
       .output = OutputOf(bound.bindings, space->memory()->completion()),
       .ended_before = consumed,
       .hands_to = placement.hands_to,
       .takes_from = placement.takes_from,
       .bindings = std::move(bound.bindings),
       .next_device = request.hands_to(),
       .last_device = request.takes_from()},
      space->memory(), layout, placement));
}

RegisteredEvent::RegisteredEvent(Memory memory,
                                 EventKernel::Registration registration,
                                 std::shared_ptr<DeviceMemory> device,
                                 const shm::RingLayout& layout,
                                 const Placement& placement)
    : memory_(std::move(memory)),
      hands_to_(placement.hands_to),
      takes_from_(placement.takes_from),
      event_(std::move(registration), std::move(device), layout,
             placement.ekt_index) {}

absl::Status RegisteredEvent::JoinChains() {
  if (takes_from_ != nullptr) {
    RETURN_IF_ERROR(takes_from_->AddFollower(event()));
  }
  if (hands_to_ == nullptr) return absl::OkStatus();
  absl::Status status = hands_to_->AddSource(event());
  if (!status.ok()) LeaveChains(/*stays=*/false);
  return status;
}

void RegisteredEvent::LeaveChains(bool stays) {
  if (takes_from_ != nullptr) takes_from_->Leave(event_, stays);
  if (hands_to_ != nullptr) hands_to_->Leave(event_, stays);
}

void RegisteredEvent::ClearCompletions() {
  const shm::RingLayout& layout = event_.ring().layout();
  // A sequence that an earlier ring left here would look like a completion.
  std::memset(memory_.completions.data(), 0,
              layout.life_offset - layout.ecq_offset + layout.life_bytes());
  // Events that were consumed before must look ended in their slots.
  auto* ecq = reinterpret_cast<shm::EcqEntry*>(memory_.completions.data());
  const uint64_t consumed = event_.ended_before();
  for (uint64_t s = consumed; s > 0 && consumed - s < layout.entries; --s) {
    ecq[layout.SlotOf(shm::Sequence(s))] = {shm::EventState::kDone, 0, s};
  }
}

bool RegisteredEvent::Uses(const Buffer& buffer) const {
  return std::any_of(memory_.buffers.begin(), memory_.buffers.end(),
                     [&](const auto& used) { return used.get() == &buffer; });
}

v1::RegisterEventResponse RegisteredEvent::Describe() const {
  const shm::RingLayout& layout = event_.ring().layout();
  v1::RegisterEventResponse response;
  response.set_event_id(event_.event_id());
  response.set_generation(layout.generation.value());
  response.set_entries(layout.entries);
  response.set_entry_bytes(layout.entry_bytes);
  response.set_parameter_offset(layout.parameter_offset);
  response.set_parameter_bytes(layout.parameter_bytes);
  response.set_esq_offset(layout.esq_offset);
  response.set_ecq_offset(layout.ecq_offset);
  response.set_life_offset(layout.life_offset);
  response.set_launch_path(std::string(event_.launch_path()));
  for (const WritableSlot& slot : event_.arguments().writable()) {
    const simt::ParamInfo& info = event_.kmd().kernel->params[slot.parameter];
    v1::WritableParameter* writable = response.add_writable();
    writable->set_name(std::string(info.name));
    writable->set_kind(ProtoKind(info.kind));
    writable->set_offset(slot.offset);
  }
  return response;
}

void RegisteredEvent::PublishFailures(TelemetryBus* bus) {
  const uint64_t failed = event_.counts().failed;
  uint64_t before = published_failures_.load(std::memory_order_relaxed);
  do {
    if (failed <= before) return;
  } while (!published_failures_.compare_exchange_weak(
      before, failed, std::memory_order_relaxed));
  v1::TelemetryEvent message;
  v1::EventFailed* event = message.mutable_event_failed();
  event->set_device(event_.memory().name());
  event->set_event_id(event_.event_id());
  event->set_kernel(std::string(event_.kmd().kernel->name));
  const EventKernel::Failure last = event_.last_failure();
  event->set_sequence(last.sequence);
  event->set_status(last.status);
  event->set_reason(shm::EventStatusText(last.status));
  event->set_count(failed - before);
  bus->Publish(std::move(message));
}

}  // namespace carillon::gpud
