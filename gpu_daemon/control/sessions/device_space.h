// The memory of one device: ranges of its two apertures, and GPU memory.
//
// Shared pointers hold everything here, down to the launch that uses it. So a
// range is free again only when its session has let go of it and the last
// kernel that could touch it has ended.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SPACE_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SPACE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "gpu_daemon/control/sessions/memory_budget.h"
#include "gpu_daemon/event/argument_plan.h"
#include "gpu_daemon/event/device_memory.h"
#include "gpu_daemon/event/kernel_memory.h"
#include "proto/events.pb.h"
#include "shm/region_heap.h"
#include "shm/types.h"

namespace carillon::gpud {

class DeviceSpace;

// Bytes of an aperture's heap, given back when this object goes away.
// Move-only.
class HeapRange {
 public:
  HeapRange() = default;
  HeapRange(HeapRange&& other) noexcept
      : space_(std::move(other.space_)),
        kind_(other.kind_),
        offset_(other.offset_),
        bytes_(other.bytes_) {}
  HeapRange& operator=(HeapRange&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(kind_, other.kind_);
    std::swap(offset_, other.offset_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HeapRange();

  // From the start of the aperture.
  uint64_t offset() const { return offset_; }
  std::byte* data() const;
  // As kernels are given it; not for the CPU to follow.
  std::byte* kernel_data() const;

 private:
  friend class DeviceSpace;
  HeapRange(std::shared_ptr<DeviceSpace> space, shm::RegionKind kind,
            uint64_t offset, uint64_t bytes)
      : space_(std::move(space)), kind_(kind), offset_(offset), bytes_(bytes) {}

  std::shared_ptr<DeviceSpace> space_;
  shm::RegionKind kind_ = shm::RegionKind::kSubmission;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

// A buffer that kernels may be given. Immutable but for its contents.
class Buffer {
 public:
  Buffer(v1::BufferPlace place, HeapRange range, uint64_t bytes)
      : place_(place), range_(std::move(range)), bytes_(bytes) {}
  Buffer(std::unique_ptr<GpuMemory> gpu_memory, uint64_t bytes,
         MemoryBudget::Reservation reservation)
      : place_(v1::GPU_MEMORY),
        gpu_memory_(std::move(gpu_memory)),
        bytes_(bytes),
        reservation_(std::move(reservation)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  v1::BufferPlace place() const { return place_; }
  uint64_t bytes() const { return bytes_; }
  // From the start of the aperture; 0 for GPU memory.
  uint64_t offset() const { return range_.offset(); }
  // As kernels are given it; not for the CPU to follow.
  std::byte* data() const {
    return gpu_memory_ != nullptr ? gpu_memory_->data() : range_.kernel_data();
  }

 private:
  const v1::BufferPlace place_;
  const HeapRange range_;
  const std::unique_ptr<GpuMemory> gpu_memory_;
  const uint64_t bytes_;
  const MemoryBudget::Reservation reservation_;
};

// The memory of one device's session. Thread safe.
class DeviceSpace : public std::enable_shared_from_this<DeviceSpace> {
 public:
  struct Spec {
    std::string name;
    uint32_t device_id = 0;
    shm::Generation generation;
    uint32_t doorbell_count = shm::kDoorbellsPerLine;
    uint64_t submission_bytes = 0;
    uint64_t completion_bytes = 0;
  };

  // Makes both apertures, where kernels reach them. Errors: ResourceExhausted
  // (budget, machine's memory, descriptors).
  static absl::StatusOr<std::shared_ptr<DeviceSpace>> Create(
      const Spec& spec, MemoryBudget* budget, KernelMemory* kernel_memory);

  // Shares the ownership of all of this object.
  std::shared_ptr<DeviceMemory> memory() {
    return {shared_from_this(), &memory_};
  }
  const DeviceMemory& device_memory() const { return memory_; }

  // Allocates room for one half of a ring, at `offset` if it is given. Errors:
  // ResourceExhausted NO_HEAP_ROOM, FailedPrecondition (something is there);
  // `what` opens the sentence.
  absl::StatusOr<HeapRange> AllocateRange(
      shm::RegionKind kind, uint64_t bytes, std::string_view what,
      std::optional<uint64_t> offset = std::nullopt);
  // Allocates a buffer, at `offset` if it is given and the buffer is not in GPU
  // memory. Errors:
  // InvalidArgument (place, 0 bytes), ResourceExhausted (heap, budget),
  // FailedPrecondition (something is there).
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateBuffer(
      v1::BufferPlace place, uint64_t bytes,
      std::optional<uint64_t> offset = std::nullopt);

  uint64_t free_bytes(shm::RegionKind kind) const;

 private:
  friend class HeapRange;

  DeviceSpace(std::string name, shm::Aperture submission,
              shm::Aperture completion, shm::CompletionEvent event,
              MemoryBudget* budget, MemoryBudget::Reservation reservation,
              KernelMemory* kernel_memory,
              std::array<std::unique_ptr<HostMapping>, 2> mappings);
  const shm::Aperture& aperture(shm::RegionKind kind) const {
    return kind == shm::RegionKind::kSubmission ? memory_.submission()
                                                : memory_.completion();
  }
  shm::RegionHeap& heap(shm::RegionKind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == shm::RegionKind::kSubmission ? submission_heap_
                                                : completion_heap_;
  }
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateGpuMemory(uint64_t bytes);

  DeviceMemory memory_;
  MemoryBudget* const budget_;
  const MemoryBudget::Reservation reservation_;
  KernelMemory* const kernel_memory_;
  // The first maps the submission aperture, the second the completion aperture.
  const std::array<std::unique_ptr<HostMapping>, 2> mappings_;
  mutable Mutex mutex_;
  shm::RegionHeap submission_heap_ ABSL_GUARDED_BY(mutex_);
  shm::RegionHeap completion_heap_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SPACE_H_
