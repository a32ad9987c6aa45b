#include "gpu_daemon/control/sessions/device_space.h"

#include <sys/resource.h>

#include <algorithm>

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

// A huge page may give a device memory that it did not ask for, before and
// behind what it touches.
constexpr uint64_t kUnaskedBytes = uint64_t{4} << 20;

uint64_t LimitOf(decltype(RLIMIT_AS) resource) {
  rlimit limit;
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

// How far a heap of `heap_bytes` may grow beyond them. Addresses cost nothing,
// unless this process, and its devices with it, are short of them: then two
// apertures of each of 127 devices must fit in.
uint64_t GrowthBytes(uint64_t heap_bytes) {
  constexpr uint64_t kShare = 256;
  uint64_t most =
      std::min(DeviceSpace::kMaxGrownBytes, LimitOf(RLIMIT_AS) / kShare);
  const uint64_t largest_file = LimitOf(RLIMIT_FSIZE);
  most = std::min(
      most, largest_file - std::min(largest_file, shm::kSubmissionHeapOffset));
  most &= ~(shm::kPageSize - 1);
  return most - std::min(most, shm::AlignUp(heap_bytes, shm::kPageSize));
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
  if (space_ != nullptr) space_->Free(kind_, offset_);
}

std::byte* HeapRange::data() const {
  return space_->aperture(kind_).At(offset_);
}

absl::StatusOr<std::shared_ptr<DeviceSpace>> DeviceSpace::Create(
    const Spec& spec, MemoryBudget* budget, KernelMemory* kernel_memory) {
  for (const auto& [what, bytes] :
       {std::pair{"submission_bytes", spec.submission_bytes},
        std::pair{"completion_bytes", spec.completion_bytes}}) {
    RETURN_IF_ERROR(CheckBytes(what, bytes));
  }
  const uint64_t submission_end =
      shm::kSubmissionHeapOffset +
      shm::AlignUp(spec.submission_bytes, shm::kPageSize);
  const uint64_t completion_end =
      shm::kCompletionHeapOffset +
      shm::AlignUp(spec.completion_bytes, shm::kPageSize);
  ASSIGN_OR_RETURN(
      auto reservation,
      budget->Reserve(submission_end + completion_end,
                      fmt::format("attaching device '{}'", spec.name)));
  kernel_memory = kernel_memory->Of(spec.name);
  shm::Aperture submission;
  shm::Aperture completion;
  std::array<Segments, 2> segments;  // gone before what they map
  const auto make = [&](RegionKind kind, uint64_t heap_bytes, uint64_t end,
                        shm::Aperture& aperture) -> absl::Status {
    ASSIGN_OR_RETURN(aperture, shm::Aperture::Create(
                                   {.kind = kind,
                                    .heap_bytes = heap_bytes,
                                    .growth_bytes = GrowthBytes(heap_bytes),
                                    .generation = spec.generation,
                                    .device_id = spec.device_id,
                                    .doorbell_count = spec.doorbell_count}));
    ASSIGN_OR_RETURN(auto mapping,
                     kernel_memory->MapHost({aperture.At(0), end}));
    const uint64_t heap = aperture.heap_offset();
    segments[IndexOf(kind)].push_back(
        {.begin = 0,
         .end = end,
         .mapping = std::move(mapping),
         .heap = shm::RegionHeap(heap, end - heap),
         // The first holds what both need.
         .reservation = std::exchange(reservation, {})});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(make(RegionKind::kSubmission, spec.submission_bytes,
                       submission_end, submission));
  RETURN_IF_ERROR(make(RegionKind::kCompletion, spec.completion_bytes,
                       completion_end, completion));
  ASSIGN_OR_RETURN(auto event, shm::CompletionEvent::Create());
  return std::shared_ptr<DeviceSpace>(new DeviceSpace(
      spec, std::move(submission), std::move(completion), std::move(event),
      budget, kernel_memory, std::move(segments)));
}

DeviceSpace::DeviceSpace(const Spec& spec, shm::Aperture submission,
                         shm::Aperture completion, shm::CompletionEvent event,
                         MemoryBudget* budget, KernelMemory* kernel_memory,
                         std::array<Segments, 2> segments)
    : memory_(spec.name, std::move(submission), std::move(completion),
              std::move(event), spec.owner),
      budget_(budget),
      kernel_memory_(kernel_memory),
      segments_(std::move(segments)),
      given_{segments_[0].back().end, segments_[1].back().end} {}

HeapRange DeviceSpace::RangeAt(RegionKind kind, const Segment& segment,
                               uint64_t offset) {
  return {shared_from_this(), kind, offset,
          segment.mapping->data() + (offset - segment.begin)};
}

absl::StatusOr<HeapRange> DeviceSpace::AllocateRange(
    RegionKind kind, uint64_t bytes, std::string_view what,
    std::optional<uint64_t> at) {
  if (at) return AllocateAt(kind, bytes, what, *at);
  if (auto range = AllocateInside(kind, bytes)) return *std::move(range);
  MutexLock growing(grow_mutex_);
  // Another call may have made it grow, or may take what it has grown by.
  while (true) {
    if (auto range = AllocateInside(kind, bytes)) return *std::move(range);
    RETURN_IF_ERROR(Grow(kind, bytes, what));
  }
}

std::optional<HeapRange> DeviceSpace::AllocateInside(RegionKind kind,
                                                     uint64_t bytes) {
  MutexLock lock(mutex_);
  for (Segment& segment : segments(kind)) {
    if (const auto offset = segment.heap.Allocate(bytes)) {
      return RangeAt(kind, segment, *offset);
    }
  }
  return std::nullopt;
}

absl::StatusOr<HeapRange> DeviceSpace::AllocateAt(RegionKind kind,
                                                  uint64_t bytes,
                                                  std::string_view what,
                                                  uint64_t offset) {
  MutexLock lock(mutex_);
  for (Segment& segment : segments(kind)) {
    if (segment.heap.AllocateAt(offset, bytes)) {
      return RangeAt(kind, segment, offset);
    }
  }
  return Error(
      absl::StatusCode::kFailedPrecondition,
      fmt::format("{} cannot be at offset {} of the {} aperture of device "
                  "'{}' again: its {} bytes must lie inside {} to {}, from a "
                  "multiple of {} on, where nothing else is",
                  what, offset, ApertureName(kind), memory_.name(), bytes,
                  aperture(kind).heap_offset(), segments(kind).back().end,
                  shm::RegionHeap::kAlignment),
      reason::kNoHeapRoom, "resumed");
}

absl::Status DeviceSpace::Grow(RegionKind kind, uint64_t bytes,
                               std::string_view what) {
  const uint64_t begin = reserved_bytes(kind);
  const uint64_t left = aperture(kind).size() - begin;
  const uint64_t needed = shm::AlignUp(bytes, shm::kPageSize);
  if (needed > left) {
    return Error(
        absl::StatusCode::kResourceExhausted,
        fmt::format("{} needs {} bytes in the {} aperture of device '{}', "
                    "which has {} bytes and may grow by {}; attach with a "
                    "larger {}_bytes",
                    what, bytes, ApertureName(kind), memory_.name(), begin,
                    left, ApertureName(kind)),
        reason::kNoHeapRoom, fmt::format("{}_bytes", ApertureName(kind)));
  }
  const std::string use =
      fmt::format("{}, for which the {} aperture of device '{}' would grow,",
                  what, ApertureName(kind), memory_.name());
  MemoryBudget::Reservation& left_over = left_over_[IndexOf(kind)];
  const uint64_t least = std::max(needed, left_over.bytes());
  // What others leave of the budget may do for this and no more.
  uint64_t grown = std::min(std::max(least, kGrowthStep), left);
  auto reservation = budget_->Reserve(grown - left_over.bytes(), use);
  if (!reservation.ok()) {
    grown = least;
    reservation = budget_->Reserve(grown - left_over.bytes(), use);
  }
  RETURN_IF_ERROR(reservation.status());
  left_over.Add(*std::move(reservation));
  SetGiven(kind, begin + grown);
  // Without the lock: a back-end may wait for launches to end here, and these
  // free ranges.
  auto mapping = MapGrowth(kind, begin, begin + grown);
  if (!mapping.ok()) {
    const uint64_t taken = aperture(kind).TakenBytes();
    left_over.ReduceTo(taken - std::min(taken, begin));
    SetGiven(kind, begin + left_over.bytes());
    return mapping.status();
  }
  MutexLock lock(mutex_);
  segments(kind).push_back({.begin = begin,
                            .end = begin + grown,
                            .mapping = *std::move(mapping),
                            .heap = shm::RegionHeap(begin, grown),
                            .reservation = std::exchange(left_over, {})});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HostMapping>> DeviceSpace::MapGrowth(
    RegionKind kind, uint64_t begin, uint64_t end) const {
  RETURN_IF_ERROR(aperture(kind).Reserve(begin, end));
  return kernel_memory_->MapHost({aperture(kind).At(begin), end - begin});
}

void DeviceSpace::SetGiven(RegionKind kind, uint64_t end) {
  MutexLock lock(mutex_);
  given_[IndexOf(kind)] = end;
}

void DeviceSpace::Free(RegionKind kind, uint64_t offset) {
  MutexLock lock(mutex_);
  const auto behind = std::upper_bound(
      segments(kind).begin(), segments(kind).end(), offset,
      [](uint64_t at, const Segment& segment) { return at < segment.begin; });
  std::prev(behind)->heap.Free(offset);
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
  uint64_t bytes = 0;
  for (const Segment& segment : segments(kind)) {
    bytes += segment.heap.free_bytes();
  }
  return bytes;
}

uint64_t DeviceSpace::reserved_bytes(RegionKind kind) const {
  MutexLock lock(mutex_);
  return segments(kind).back().end;
}

absl::Status DeviceSpace::CheckTouched() const {
  for (const RegionKind kind :
       {RegionKind::kSubmission, RegionKind::kCompletion}) {
    MutexLock lock(mutex_);  // so that it does not grow meanwhile
    const uint64_t taken = aperture(kind).TakenBytes();
    const uint64_t given = given_[IndexOf(kind)];
    if (taken <= given + kUnaskedBytes) continue;
    return absl::FailedPreconditionError(fmt::format(
        "its {} aperture takes {} bytes of memory, and it was given {}",
        ApertureName(kind), taken, given));
  }
  return absl::OkStatus();
}

}  // namespace carillon::gpud
