#include "gpu_daemon/control/sessions/device_space.h"

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using shm::RegionKind;

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;

std::string_view ApertureName(RegionKind kind) {
  return kind == RegionKind::kSubmission ? "submission" : "completion";
}

uint64_t ApertureBytes(RegionKind kind, uint64_t heap_bytes) {
  return (kind == RegionKind::kSubmission ? shm::kSubmissionHeapOffset
                                          : shm::kCompletionHeapOffset) +
         shm::AlignUp(heap_bytes, shm::kPageSize);
}

absl::Status CheckBytes(std::string_view what, uint64_t bytes) {
  if (bytes >= 1 && bytes <= kMaxBytes) return absl::OkStatus();
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("{} of {} bytes: must be from 1 to {}", what, bytes,
                           kMaxBytes),
               reason::kBadSize, what);
}

}  // namespace

HeapRange::~HeapRange() {
  if (space_ == nullptr) return;
  MutexLock lock(space_->mutex_);
  space_->heap(kind_).Free(offset_);
}

std::byte* HeapRange::data() const {
  return space_->aperture(kind_).At(offset_);
}

std::byte* HeapRange::kernel_data() const {
  const size_t mapping = kind_ == RegionKind::kSubmission ? 0 : 1;
  return space_->mappings_[mapping]->data() + offset_;
}

absl::StatusOr<std::shared_ptr<DeviceSpace>> DeviceSpace::Create(
    const Spec& spec, MemoryBudget* budget, KernelMemory* kernel_memory) {
  for (const auto& [what, bytes] :
       {std::pair{"submission_bytes", spec.submission_bytes},
        std::pair{"completion_bytes", spec.completion_bytes}}) {
    RETURN_IF_ERROR(CheckBytes(what, bytes));
  }
  const uint64_t bytes =
      ApertureBytes(RegionKind::kSubmission, spec.submission_bytes) +
      ApertureBytes(RegionKind::kCompletion, spec.completion_bytes);
  ASSIGN_OR_RETURN(
      auto reservation,
      budget->Reserve(bytes, fmt::format("attaching device '{}'", spec.name)));

  shm::ApertureSpec aperture{.kind = RegionKind::kSubmission,
                             .heap_bytes = spec.submission_bytes,
                             .generation = spec.generation,
                             .device_id = spec.device_id,
                             .doorbell_count = spec.doorbell_count};
  ASSIGN_OR_RETURN(auto submission, shm::Aperture::Create(aperture));
  aperture.kind = RegionKind::kCompletion;
  aperture.heap_bytes = spec.completion_bytes;
  ASSIGN_OR_RETURN(auto completion, shm::Aperture::Create(aperture));
  ASSIGN_OR_RETURN(auto event, shm::CompletionEvent::Create());
  std::array<std::unique_ptr<HostMapping>, 2> mappings;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const shm::Aperture& mapped = i == 0 ? submission : completion;
    ASSIGN_OR_RETURN(mappings[i],
                     kernel_memory->MapHost({mapped.At(0), mapped.size()}));
  }
  return std::shared_ptr<DeviceSpace>(new DeviceSpace(
      spec.name, std::move(submission), std::move(completion), std::move(event),
      budget, std::move(reservation), kernel_memory, std::move(mappings)));
}

DeviceSpace::DeviceSpace(std::string name, shm::Aperture submission,
                         shm::Aperture completion, shm::CompletionEvent event,
                         MemoryBudget* budget,
                         MemoryBudget::Reservation reservation,
                         KernelMemory* kernel_memory,
                         std::array<std::unique_ptr<HostMapping>, 2> mappings)
    : memory_(std::move(name), std::move(submission), std::move(completion),
              std::move(event)),
      budget_(budget),
      reservation_(std::move(reservation)),
      kernel_memory_(kernel_memory),
      mappings_(std::move(mappings)),
      submission_heap_(memory_.submission().heap_offset(),
                       memory_.submission().heap_size()),
      completion_heap_(memory_.completion().heap_offset(),
                       memory_.completion().heap_size()) {}

absl::StatusOr<HeapRange> DeviceSpace::AllocateRange(
    RegionKind kind, uint64_t bytes, std::string_view what,
    std::optional<uint64_t> at) {
  MutexLock lock(mutex_);
  if (at) {
    if (heap(kind).AllocateAt(*at, bytes)) {
      return HeapRange(shared_from_this(), kind, *at, bytes);
    }
    return Error(
        absl::StatusCode::kFailedPrecondition,
        fmt::format("{} cannot be at offset {} of the {} aperture of device "
                    "'{}' again: its {} bytes must lie inside {} to {}, from a "
                    "multiple of {} on, where nothing else is",
                    what, *at, ApertureName(kind), memory_.name(), bytes,
                    aperture(kind).heap_offset(), aperture(kind).size(),
                    shm::RegionHeap::kAlignment),
        reason::kNoHeapRoom, "resumed");
  }
  if (const auto offset = heap(kind).Allocate(bytes)) {
    return HeapRange(shared_from_this(), kind, *offset, bytes);
  }
  return Error(
      absl::StatusCode::kResourceExhausted,
      fmt::format("{} needs {} bytes in the {} aperture of device '{}': {} "
                  "are free, {} in one piece; attach with a larger {}_bytes",
                  what, bytes, ApertureName(kind), memory_.name(),
                  heap(kind).free_bytes(), heap(kind).largest_free(),
                  ApertureName(kind)),
      reason::kNoHeapRoom, fmt::format("{}_bytes", ApertureName(kind)));
}

absl::StatusOr<std::shared_ptr<Buffer>> DeviceSpace::AllocateBuffer(
    v1::BufferPlace place, uint64_t bytes, std::optional<uint64_t> offset) {
  RETURN_IF_ERROR(CheckBytes("a buffer", bytes));
  if (place == v1::GPU_MEMORY) return AllocateGpuMemory(bytes);
  if (place != v1::INPUT && place != v1::OUTPUT) {
    return Error(absl::StatusCode::kInvalidArgument,
                 fmt::format("place {}: must be INPUT, OUTPUT or GPU_MEMORY",
                             static_cast<int>(place)),
                 reason::kBadSize, "place");
  }
  ASSIGN_OR_RETURN(auto range,
                   AllocateRange(place == v1::INPUT ? RegionKind::kSubmission
                                                    : RegionKind::kCompletion,
                                 bytes, "the buffer", offset));
  return std::make_shared<Buffer>(place, std::move(range), bytes);
}

absl::StatusOr<std::shared_ptr<Buffer>> DeviceSpace::AllocateGpuMemory(
    uint64_t bytes) {
  ASSIGN_OR_RETURN(
      auto reservation,
      budget_->Reserve(
          bytes, fmt::format("GPU memory for device '{}'", memory_.name())));
  ASSIGN_OR_RETURN(auto memory, kernel_memory_->Allocate(bytes));
  return std::make_shared<Buffer>(std::move(memory), bytes,
                                  std::move(reservation));
}

uint64_t DeviceSpace::free_bytes(RegionKind kind) const {
  MutexLock lock(mutex_);
  return (kind == RegionKind::kSubmission ? submission_heap_ : completion_heap_)
      .free_bytes();
}

}  // namespace carillon::gpud
