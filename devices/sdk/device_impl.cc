#include "devices/sdk/device_impl.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "shm/handover.h"
#include "shm/load_shared.h"

namespace carillon::edge {
namespace {

absl::Status Contradiction(std::string_view what) {
  return absl::FailedPreconditionError(
      fmt::format("gpud's answer cannot be right: {}; do gpud and the device "
                  "come from the same build?",
                  what));
}

uint32_t EntryBytesOf(v1::ParameterKind kind) {
  switch (kind) {
    case v1::U32:
    case v1::I32:
    case v1::F32:
      return 4;
    case v1::U64:
    case v1::I64:
    case v1::F64:
      return 8;
    case v1::READ_BUFFER:
    case v1::WRITE_BUFFER:
      return sizeof(shm::BufferRef);
    default:
      return 0;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device::Impl>> Device::Impl::Make(
    const AttachOptions& options, const std::string& handover_socket,
    const v1::AttachResponse& attached) {
  shm::Ticket ticket;
  if (attached.ticket().size() != ticket.size()) {
    return Contradiction(
        fmt::format("a ticket of {} bytes", attached.ticket().size()));
  }
  std::copy(attached.ticket().begin(), attached.ticket().end(), ticket.begin());
  auto handed = shm::FetchApertures(handover_socket, ticket, options.timeout);
  if (!handed.ok()) return handed.status();
  const shm::Generation generation(attached.generation());
  if (handed->device_id != attached.device_id() ||
      handed->generation != generation) {
    return Contradiction(
        fmt::format("device {} of generation {} was handed over, not {} of {}",
                    handed->device_id, handed->generation.value(),
                    attached.device_id(), generation.value()));
  }
  auto submission = shm::Aperture::Map(
      std::move(handed->submission), shm::RegionKind::kSubmission, generation);
  if (!submission.ok()) return submission.status();
  auto completion = shm::Aperture::Map(
      std::move(handed->completion), shm::RegionKind::kCompletion, generation);
  if (!completion.ok()) return completion.status();

  auto impl = std::unique_ptr<Impl>(new Impl);
  impl->name = options.name;
  impl->device_id = attached.device_id();
  impl->generation = generation;
  impl->session = attached.session();
  impl->submission = *std::move(submission);
  impl->completion = *std::move(completion);
  impl->completion_event = std::move(handed->completion_event);
  impl->connection = std::move(handed->connection);
  auto watch = PeerWatch::Start(
      {.connection = impl->connection.get(),
       .heartbeat_ns = &impl->submission.submission_control().heartbeat_ns,
       .control = &impl->completion.completion_control()});
  if (!watch.ok()) return watch.status();
  impl->watch = *std::move(watch);
  impl->waiter = std::make_unique<shm::CompletionWaiter>(
      &impl->submission, &impl->completion, &impl->watch->closed());
  return impl;
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
  std::lock_guard lock(mutex);
  for (const auto& [id, queue] : queues) {
    sequences += fmt::format(
        "{}{} ({}, event {})", sequences.empty() ? "" : ", ",
        LastCompleted(queue->ring_.layout()).value(), queue->kernel(), id);
  }
  if (sequences.empty()) return ended;
  return absl::Status(ended.code(),
                      fmt::format("{}; last completed sequence {}",
                                  std::string(ended.message()), sequences));
}

absl::Status Device::Impl::status(const shm::RingLayout& ring) const {
  absl::Status ended = watch->status();
  if (ended.ok()) return ended;
  return absl::Status(
      ended.code(),
      fmt::format("{}; last completed sequence {}",
                  std::string(ended.message()), LastCompleted(ring).value()));
}

absl::StatusOr<shm::RingLayout> Device::Impl::CheckAnswer(
    const EventSpec& spec, const v1::RegisterEventResponse& answer) const {
  shm::RingLayout layout;
  layout.doorbell = shm::DoorbellIndex(answer.event_id());
  layout.generation = shm::Generation(answer.generation());
  layout.entries = answer.entries();
  layout.entry_bytes = answer.entry_bytes();
  layout.parameter_offset = answer.parameter_offset();
  layout.parameter_bytes = answer.parameter_bytes();
  layout.esq_offset = answer.esq_offset();
  layout.ecq_offset = answer.ecq_offset();
  layout.life_offset = answer.life_offset();
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
    const uint32_t bytes = EntryBytesOf(parameter.kind());
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
  const auto layout = CheckAnswer(spec, answer);
  if (!layout.ok()) return layout.status();
  std::vector<EventQueue::WritableParameter> writable;
  for (const v1::WritableParameter& parameter : answer.writable()) {
    writable.push_back({parameter.name(), parameter.offset()});
  }
  std::lock_guard lock(mutex);
  std::unique_ptr<EventQueue>& queue = queues[answer.event_id()];
  if (queue != nullptr) {
    return Contradiction(
        fmt::format("event id {} is in use", answer.event_id()));
  }
  queue.reset(new EventQueue(device, spec.kernel, answer.launch_path(), *layout,
                             std::move(writable)));
  return queue.get();
}

std::unique_ptr<EventQueue> Device::Impl::TakeQueue(const EventQueue* queue) {
  std::lock_guard lock(mutex);
  for (auto entry = queues.begin(); entry != queues.end(); ++entry) {
    if (entry->second.get() != queue) continue;
    auto taken = std::move(entry->second);
    queues.erase(entry);
    return taken;
  }
  return nullptr;
}

}  // namespace carillon::edge
