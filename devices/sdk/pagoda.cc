#include "devices/sdk/pagoda.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "shm/event_status_text.h"

namespace carillon::pagoda {
namespace {

// An id has the function in its low bits, and above them the event's sequence,
// which begins with 1.
constexpr uint32_t kFunctionBits = 8;
constexpr size_t kMaxFunctions = 1 << kFunctionBits;
// CUDA's limit.
constexpr uint32_t kMaxThreads = 1024;

constexpr std::string_view kNothingStops =
    "nothing stops a task alone: on cuda gpud ends it with its context, after "
    "its limit for kernels";

uint64_t Number(TaskId id) { return static_cast<uint64_t>(id); }

size_t FunctionOf(TaskId id) { return Number(id) % kMaxFunctions; }

shm::Sequence SequenceOf(TaskId id) {
  return shm::Sequence(Number(id) >> kFunctionBits);
}

absl::Status OutcomeOf(TaskId id, const edge::Completion& completion) {
  switch (completion.state) {
    case edge::EventState::kDone:
      return absl::OkStatus();
    case edge::EventState::kAborted:
      return absl::AbortedError(
          fmt::format("task {} was aborted: {}", Number(id),
                      shm::EventStatusText(completion.status)));
    default:
      return absl::InternalError(
          fmt::format("task {} has failed: {}", Number(id),
                      shm::EventStatusText(completion.status)));
  }
}

}  // namespace

Tasks::Tasks(edge::Device* device, Options options)
    : device_(*device), options_(options) {}

Tasks::~Tasks() {
  for (const Registered& function : functions_) {
    // An error: the session is gone, and its tasks with it.
    edge::edgeUnregisterEvent(device_, function.queue).IgnoreError();
  }
}

absl::StatusOr<Function> Tasks::AddFunction(edge::EventSpec spec) {
  RETURN_IF_ERROR(CheckThread());
  if (functions_.size() >= kMaxFunctions) {
    return absl::ResourceExhaustedError(fmt::format(
        "there are {} functions of tasks, the limit", functions_.size()));
  }
  for (const edge::Parameter& parameter : spec.parameters) {
    if (parameter.slot_stride == 0) continue;
    return absl::InvalidArgumentError(fmt::format(
        "parameter '{}' has a stride by slots: a task has no slot; pass its "
        "part of the buffer as an argument",
        parameter.name));
  }
  spec.modifyable = true;
  if (spec.launch_path.empty()) spec.launch_path = "pagoda";
  ASSIGN_OR_RETURN(edge::EventQueue* const queue,
                   edge::edgeRegisterEvent(device_, spec));
  Registered function{.queue = queue, .places = {}};
  for (const edge::Parameter& parameter : spec.parameters) {
    const bool is_buffer =
        parameter.kind == edge::Parameter::Kind::kWritableBuffer;
    if (!is_buffer && parameter.kind != edge::Parameter::Kind::kWritableValue) {
      continue;
    }
    ASSIGN_OR_RETURN(const uint32_t offset,
                     queue->ParameterOffset(parameter.name));
    ASSIGN_OR_RETURN(const uint32_t bytes,
                     queue->ParameterBytes(parameter.name));
    function.places.push_back({parameter.name, offset, bytes, is_buffer});
  }
  functions_.push_back(std::move(function));
  return static_cast<Function>(functions_.size() - 1);
}

absl::StatusOr<TaskId> Tasks::Spawn(uint32_t threads, uint32_t blocks,
                                    uint32_t shared_bytes, Function function,
                                    std::span<const Argument> arguments) {
  RETURN_IF_ERROR(CheckThread());
  const auto index = static_cast<size_t>(function);
  if (index >= functions_.size()) {
    return absl::NotFoundError(
        fmt::format("no function {}: AddFunction has not returned it", index));
  }
  if (threads == 0 || threads > kMaxThreads || blocks == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "a task of {} thread blocks of {} threads: it must have at least one "
        "block, of 1 to {} threads",
        blocks, threads, kMaxThreads));
  }
  const Registered& registered = functions_[index];
  edge::EventQueue& queue = *registered.queue;
  if (arguments.size() != registered.places.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "{} arguments for '{}', which has {} writable parameters",
        arguments.size(), queue.kernel(), registered.places.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Registered::Place& place = registered.places[i];
    if (arguments[i].is_buffer == place.is_buffer &&
        arguments[i].bytes == place.bytes) {
      continue;
    }
    return absl::InvalidArgumentError(fmt::format(
        "argument {} of '{}', parameter '{}', must be a {} of {} bytes", i,
        queue.kernel(), place.name,
        place.is_buffer ? "shm::BufferRef" : "number", place.bytes));
  }
  if (open_.size() >= kMaxNotWaitedFor) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} tasks were spawned that nobody has waited for: call waitAll",
        open_.size()));
  }
  RETURN_IF_ERROR(device_.status());
  Collect();
  if (queue.free_slots() == 0) {
    device_.WaitForCompletion(
        [&] {
          Collect();
          return queue.free_slots() > 0;
        },
        options_.longest_full);
    if (queue.free_slots() == 0) {
      RETURN_IF_ERROR(device_.status());
      return absl::ResourceExhaustedError(fmt::format(
          "all {} tasks of '{}' that its ring holds wait or run, and the "
          "oldest has not ended within {} ms",
          queue.in_flight(), queue.kernel(),
          options_.longest_full / std::chrono::milliseconds(1)));
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    queue.SetBytes(registered.places[i].offset,
                   {static_cast<const std::byte*>(arguments[i].value),
                    arguments[i].bytes});
  }
  const shm::KmdOverride kmd{.grid = {blocks, 1, 1},
                             .block = {threads, 1, 1},
                             .shared_bytes = shared_bytes,
                             .reserved = 0};
  const TaskId id = IdOf(index, queue.RingDoorbell(&kmd));
  open_.emplace(id, std::nullopt);
  return id;
}

absl::Status Tasks::wait(TaskId id, std::chrono::nanoseconds bound) {
  RETURN_IF_ERROR(CheckThread());
  RETURN_IF_ERROR(CheckId(id));
  std::optional<edge::Completion> end;
  device_.WaitForCompletion([&] { return (end = EndOf(id)).has_value(); },
                            bound);
  if (!end) {
    RETURN_IF_ERROR(device_.status());
    return absl::DeadlineExceededError(
        fmt::format("task {} has not ended within {} ms; {}", Number(id),
                    bound / std::chrono::milliseconds(1), kNothingStops));
  }
  Collect();
  open_.erase(id);
  return OutcomeOf(id, *end);
}

absl::StatusOr<bool> Tasks::check(TaskId id) {
  RETURN_IF_ERROR(CheckThread());
  RETURN_IF_ERROR(CheckId(id));
  const bool ended = EndOf(id).has_value();
  if (!ended) RETURN_IF_ERROR(device_.status());
  return ended;
}

absl::Status Tasks::waitAll(std::chrono::nanoseconds bound) {
  RETURN_IF_ERROR(CheckThread());
  if (!device_.WaitForCompletion([&] { return AllEnded(); }, bound) &&
      !AllEnded()) {
    RETURN_IF_ERROR(device_.status());
    size_t running = 0;
    for (const auto& [id, end] : open_) running += !end.has_value();
    return absl::DeadlineExceededError(
        fmt::format("{} tasks have not ended within {} ms; {}", running,
                    bound / std::chrono::milliseconds(1), kNothingStops));
  }
  absl::Status first;
  for (const auto& [id, end] : open_) first.Update(OutcomeOf(id, *end));
  open_.clear();
  return first;
}

absl::Status Tasks::CheckThread() {
  std::thread::id owner;
  const std::thread::id self = std::this_thread::get_id();
  if (owner_.compare_exchange_strong(owner, self) || owner == self) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "these tasks belong to another thread: one thread spawns tasks and waits "
      "for them");
}

absl::Status Tasks::CheckId(TaskId id) const {
  if (open_.contains(id)) return absl::OkStatus();
  const size_t function = FunctionOf(id);
  if (function >= functions_.size() || SequenceOf(id).value() == 0 ||
      SequenceOf(id) > functions_[function].queue->last_committed()) {
    return absl::NotFoundError(
        fmt::format("no task {} was ever spawned", Number(id)));
  }
  return absl::FailedPreconditionError(
      fmt::format("task {} has ended, and was waited for before", Number(id)));
}

TaskId Tasks::IdOf(size_t function, shm::Sequence sequence) const {
  return static_cast<TaskId>(sequence.value() << kFunctionBits | function);
}

void Tasks::Collect() {
  for (size_t i = 0; i < functions_.size(); ++i) {
    edge::EventQueue& queue = *functions_[i].queue;
    while (const auto end = queue.Poll()) {
      // Not there: it was waited for before those in front of it had ended.
      const auto task = open_.find(IdOf(i, end->sequence));
      if (task != open_.end()) task->second = *end;
      queue.Free();
    }
  }
}

std::optional<edge::Completion> Tasks::EndOf(TaskId id) {
  Collect();
  const auto& seen = open_.at(id);
  if (seen) return seen;
  return functions_[FunctionOf(id)].queue->EndOf(SequenceOf(id));
}

bool Tasks::AllEnded() {
  Collect();
  for (const auto& [id, end] : open_) {
    if (!end) return false;
  }
  return true;
}

}  // namespace carillon::pagoda
