// How a device goes on with another gpud: Device::Resume().
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/testbed_paths.h"
#include "base/unique_fd.h"
#include "devices/sdk/device_impl.h"
#include "devices/sdk/parameters.h"
#include "fmt/format.h"
#include "shm/faults/board.h"
#include "shm/faults/point.h"

namespace carillon::edge {
namespace {

// How often a gpud is looked for that has died.
constexpr std::chrono::milliseconds kBetweenAttempts{10};
// How many threads fill a durable buffer again.
constexpr uint32_t kRefillThreads = 256;
// Other devices' launches may be many, and long.
constexpr std::chrono::seconds kRefillWithin{60};

}  // namespace

absl::Status Device::Impl::Resume(
    std::chrono::milliseconds timeout,
    const std::function<absl::Status()>& prepare) {
  const absl::Status ended = status();
  if (!replacing_ && (ended.ok() || !watch->may_resume())) return ended;
  if (time != nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "{}; the testbed's simulated time has ended with it, and another's "
        "begins anew",
        ended.message()));
  }
  if (!replacing_) {
    MutexLock lock(mutex_);
    for (const auto& [id, queue] : queues_) {
      if (!queue->Poll()) continue;
      return absl::FailedPreconditionError(fmt::format(
          "event {} ('{}') has completions that were not taken: Poll() and "
          "Free() them before Resume()",
          id, queue->kernel()));
    }
  }
  // What the apertures had grown to, so that it has memory again before
  // Replace() copies it.
  AttachOptions again = options;
  again.submission_bytes =
      std::max(again.submission_bytes, UsedHeap(shm::RegionKind::kSubmission));
  again.completion_bytes =
      std::max(again.completion_bytes, UsedHeap(shm::RegionKind::kCompletion));
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    auto opened = Open(again);
    absl::Status resumed = opened.status();
    // A gpud that has just made its socket lets another user in a moment later.
    if (absl::IsPermissionDenied(resumed)) {
      resumed = absl::UnavailableError(resumed.message());
    }
    if (opened.ok()) {
      replacing_ = true;
      resumed = Replace(*std::move(opened));
      if (resumed.ok()) resumed = PlaceAgain(prepare);
      if (resumed.ok()) {
        replacing_ = false;
        faults::Reached(faults::State::kAttached);
        MutexLock lock(mutex_);
        if (ready_note_) faults::Reached(faults::State::kReady);
        return resumed;
      }
      // That gpud may have died, too; where it lives, the next attempt begins
      // with a new session.
      if (!absl::IsUnavailable(resumed)) replacing_ = false;
      if (!absl::IsUnavailable(resumed) || status().ok()) Abandon();
    }
    if (!absl::IsUnavailable(resumed)) return resumed;
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(fmt::format(
          "{}; no other gpud within {} ms",
          ended.ok() ? resumed.message() : ended.message(), timeout.count()));
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

uint64_t Device::Impl::UsedHeap(shm::RegionKind kind) const {
  const bool submits = kind == shm::RegionKind::kSubmission;
  uint64_t end = 0;
  MutexLock lock(mutex_);
  for (const auto& [id, buffer] : buffers_) {
    if (buffer.place == Place::kGpuMemory ||
        (buffer.place == Place::kInput) != submits) {
      continue;
    }
    end = std::max(end, buffer.offset + buffer.bytes);
  }
  for (const auto& [id, queue] : queues_) {
    const shm::RingLayout& ring = queue->ring_.layout();
    end = std::max(end, submits ? ring.esq_offset + ring.esq_bytes()
                                : ring.life_offset + ring.life_bytes());
  }
  const uint64_t begin = (submits ? submission : completion).heap_offset();
  return end > begin ? end - begin : 0;
}

absl::Status Device::Impl::Replace(Session opened) {
  if (opened.submission.size() != submission.size() ||
      opened.completion.size() != completion.size()) {
    return Contradiction("the apertures have other sizes than before");
  }
  {
    // Nobody writes there any more, and it is replaced now.
    MutexLock lock(mutex_);
    for (const auto& [id, queue] : queues_) RecordFound(*queue);
  }
  // Once: if this gpud ends, too, before all is in place again, the bytes that
  // it has are not the last.
  {
    MutexLock lock(mutex_);
    for (auto& [id, buffer] : buffers_) {
      if (buffer.place != Place::kDurable || !buffer.kept.empty()) continue;
      const std::byte* const bytes = completion.At(buffer.offset);
      buffer.kept.assign(bytes, bytes + buffer.bytes);
    }
  }
  // All that is the device's own; control words and doorbells begin anew.
  const auto copy = [&](uint64_t begin, uint64_t end) {
    std::memcpy(opened.submission.At(begin), submission.At(begin), end - begin);
  };
  copy(shm::kTelemetryOffset, shm::kDoorbellOffset);
  copy(submission.heap_offset(),
       submission.heap_offset() + UsedHeap(shm::RegionKind::kSubmission));
  waiter.reset();
  watch.reset();  // it looks at what is replaced now
  absl::Status status = opened.submission.TakePlaceOf(submission);
  status.Update(opened.completion.TakePlaceOf(completion));
  submission = std::move(opened.submission);
  completion = std::move(opened.completion);
  // Descriptors that a device has noted somewhere keep their numbers.
  const auto keep_number = [&](UniqueFd& from, UniqueFd& as) {
    if (dup3(from.get(), as.get(), O_CLOEXEC) < 0) {
      status.Update(absl::ResourceExhaustedError(
          fmt::format("dup3: {}", std::strerror(errno))));
    }
    from = std::move(as);
  };
  keep_number(opened.handed.completion_event, completion_event);
  keep_number(opened.handed.connection, connection);
  status.Update(Use(std::move(opened)));
  return status;
}

absl::Status Device::Impl::PlaceAgain(
    const std::function<absl::Status()>& prepare) {
  for (const auto& [id, buffer] : buffers_) {
    v1::AllocateBufferRequest request;
    request.set_place(ToProto(buffer.place));
    request.set_bytes(buffer.bytes);
    request.mutable_resumed()->set_buffer_id(id);
    request.mutable_resumed()->set_offset(buffer.offset);
    ASSIGN_OR_RETURN(const auto answer,
                     Call(&v1::Events::Stub::AllocateBuffer, request));
    if (answer.buffer_id() != id || (buffer.place != Place::kGpuMemory &&
                                     answer.offset() != buffer.offset)) {
      return Contradiction(fmt::format("buffer {} is not where it was", id));
    }
  }
  for (const auto& [id, buffer] : buffers_) {
    RETURN_IF_ERROR(Refill(id, buffer.kept));
  }
  if (prepare) RETURN_IF_ERROR(prepare());
  for (const auto& [id, queue] : queues_) {
    RETURN_IF_ERROR(RegisterAgain(*queue));
  }
  for (auto& [id, buffer] : buffers_) {
    buffer.kept = {};
    buffer.lost =
        buffer.place == Place::kOutput || buffer.place == Place::kGpuMemory;
  }
  if (!ready_note_) return absl::OkStatus();
  v1::ReportReadyRequest ready;
  ready.set_note(*ready_note_);
  return Call(&v1::Devices::Stub::ReportReady, ready).status();
}

// Only kernels write there.
absl::Status Device::Impl::Refill(uint32_t buffer_id,
                                  std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part =
        bytes.first(std::min(bytes.size(), scratch_.bytes.size()));
    std::memcpy(scratch_.bytes.data(), part.data(), part.size());
    const Buffer to{.id = buffer_id, .place = Place::kDurable, .bytes = {}};
    const uint64_t offset = buffers_.at(buffer_id).bytes - bytes.size();
    v1::LaunchKernelRequest request;
    request.set_kernel("echo");
    SetDim3({}, request.mutable_grid());
    SetDim3({.x = kRefillThreads}, request.mutable_block());
    const std::vector<Parameter> parameters = {
        Fixed("in", scratch_, {.length = part.size()}),
        Fixed("out", to, {.offset = offset, .length = part.size()})};
    RETURN_IF_ERROR(
        ToBindings(parameters, /*ring=*/false, request.mutable_parameters()));
    auto answer = Call(&v1::Events::Stub::LaunchKernel, request);
    const auto deadline = std::chrono::steady_clock::now() + kRefillWithin;
    while ((absl::IsResourceExhausted(answer.status()) ||
            absl::IsDeadlineExceeded(answer.status())) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kBetweenAttempts);
      answer = Call(&v1::Events::Stub::LaunchKernel, request);
    }
    RETURN_IF_ERROR(answer.status());
    if (answer->status() != 0) {
      return absl::InternalError(
          fmt::format("durable buffer {} could not be filled again: the copy "
                      "failed with status {}",
                      buffer_id, answer->status()));
    }
    bytes = bytes.subspan(part.size());
  }
  return absl::OkStatus();
}

absl::Status Device::Impl::status(const Buffer& buffer) const {
  MutexLock lock(mutex_);
  const auto found = buffers_.find(buffer.id);
  if (found == buffers_.end()) {
    return absl::NotFoundError(
        fmt::format("device '{}' has no buffer {}", options.name, buffer.id));
  }
  const PlacedBuffer& placed = found->second;
  if (!placed.lost) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "buffer {} ({} bytes of {}) has begun anew as zeros: what kernels had "
      "written to it went with the gpud before; allocate it as durable to keep "
      "it",
      buffer.id, placed.bytes,
      placed.place == Place::kGpuMemory ? "GPU memory" : "output"));
}

bool Device::Impl::gpud_restarts() const {
  if (watch->gpud_restarts()) return true;
  // One that was killed could not say so itself.
  int32_t pid = 0;
  std::ifstream(TestbedPaths(options.testbed_directory).restart_mark()) >> pid;
  return pid != 0 && pid == watch->gpud_pid() && watch->may_resume();
}

absl::Status Device::Impl::RegisterAgain(EventQueue& queue) {
  const shm::RingLayout before = queue.ring_.layout();
  queue.ring_.PrepareToResume();
  ASSIGN_OR_RETURN(auto request, RequestFor(queue.spec_));
  auto* resumed = request.mutable_resumed();
  resumed->set_event_id(queue.event_id());
  resumed->set_esq_offset(before.esq_offset);
  resumed->set_ecq_offset(before.ecq_offset);
  resumed->set_consumed(queue.ring_.last_consumed().value());
  ASSIGN_OR_RETURN(const auto answer,
                   Call(&v1::Events::Stub::RegisterEvent, request));
  ASSIGN_OR_RETURN(const auto layout, CheckAnswer(queue.spec_, answer));
  shm::RingLayout same = before;
  same.generation = layout.generation;
  if (layout != same) {
    return Contradiction(
        fmt::format("event {} has another ring than before", queue.event_id()));
  }
  queue.launch_path_ = answer.launch_path();
  NameRing(queue.spec_, layout);
  Record(shm::Step::kResumed, layout, queue.ring_.last_consumed().value());
  queue.ring_.Resume(layout);
  return absl::OkStatus();
}

}  // namespace carillon::edge
