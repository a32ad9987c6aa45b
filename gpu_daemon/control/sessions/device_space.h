// The memory of one device: ranges of its two apertures, and GPU memory.
//
// An aperture is made with what its device asks for, and grows on demand, in
// segments: its addresses reach further than its memory, and a segment of them
// is paid for, reserved and shown to kernels when something needs it. It stays
// until the session ends.
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
#include <vector>

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
        kernel_data_(other.kernel_data_) {}
  HeapRange& operator=(HeapRange&& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(kind_, other.kind_);
    std::swap(offset_, other.offset_);
    std::swap(kernel_data_, other.kernel_data_);
    return *this;
  }
  ~HeapRange();

  // From the start of the aperture.
  uint64_t offset() const { return offset_; }
  std::byte* data() const;
  // As kernels are given it; not for the CPU to follow.
  std::byte* kernel_data() const { return kernel_data_; }

 private:
  friend class DeviceSpace;
  HeapRange(std::shared_ptr<DeviceSpace> space, shm::RegionKind kind,
            uint64_t offset, std::byte* kernel_data)
      : space_(std::move(space)),
        kind_(kind),
        offset_(offset),
        kernel_data_(kernel_data) {}

  std::shared_ptr<DeviceSpace> space_;
  shm::RegionKind kind_ = shm::RegionKind::kSubmission;
  uint64_t offset_ = 0;
  std::byte* kernel_data_ = nullptr;
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
  // How large the heap of an aperture may become, unless the device has asked
  // for more from the beginning.
  static constexpr uint64_t kMaxGrownBytes = uint64_t{256} << 20;
  // An aperture grows by so much at least.
  static constexpr uint64_t kGrowthStep = uint64_t{256} << 10;

  struct Spec {
    std::string name;
    pid_t owner = 0;  // DeviceMemory's
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

  // Allocates room for one half of a ring: where the aperture has memory, or
  // else where it grows for it; or at `offset`, where it must have memory.
  // Errors: ResourceExhausted NO_HEAP_ROOM (it may not grow so far),
  // MEMORY_BUDGET, or for want of the machine's memory; FailedPrecondition
  // (something is there). `what` opens the sentence.
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

  // What is free without growing.
  uint64_t free_bytes(shm::RegionKind kind) const;
  // The bytes from the start of the aperture that have memory for use.
  uint64_t reserved_bytes(shm::RegionKind kind) const;
  // OK, or what the device has done: touched memory of an aperture that it was
  // not given.
  absl::Status CheckTouched() const;

 private:
  friend class HeapRange;

  // Part of an aperture that has memory. The first begins with the header, the
  // others where the one before ends.
  struct Segment {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::unique_ptr<HostMapping> mapping;
    shm::RegionHeap heap;
    MemoryBudget::Reservation reservation;
  };
  using Segments = std::vector<Segment>;

  DeviceSpace(const Spec& spec, shm::Aperture submission,
              shm::Aperture completion, shm::CompletionEvent event,
              MemoryBudget* budget, KernelMemory* kernel_memory,
              std::array<Segments, 2> segments);
  static size_t IndexOf(shm::RegionKind kind) {
    return kind == shm::RegionKind::kSubmission ? 0 : 1;
  }
  const shm::Aperture& aperture(shm::RegionKind kind) const {
    return kind == shm::RegionKind::kSubmission ? memory_.submission()
                                                : memory_.completion();
  }
  Segments& segments(shm::RegionKind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return segments_[IndexOf(kind)];
  }
  const Segments& segments(shm::RegionKind kind) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return segments_[IndexOf(kind)];
  }
  HeapRange RangeAt(shm::RegionKind kind, const Segment& segment,
                    uint64_t offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<HeapRange> AllocateAt(shm::RegionKind kind, uint64_t bytes,
                                       std::string_view what, uint64_t offset);
  // Nothing if it would have to grow.
  std::optional<HeapRange> AllocateInside(shm::RegionKind kind, uint64_t bytes);
  // Adds a segment with room for so many bytes in one piece. Errors: as
  // AllocateRange().
  absl::Status Grow(shm::RegionKind kind, uint64_t bytes, std::string_view what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(grow_mutex_);
  // The slow part of it: the machine's memory, where kernels reach it.
  absl::StatusOr<std::unique_ptr<HostMapping>> MapGrowth(shm::RegionKind kind,
                                                         uint64_t begin,
                                                         uint64_t end) const;
  void SetGiven(shm::RegionKind kind, uint64_t end);
  void Free(shm::RegionKind kind, uint64_t offset);
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateGpuMemory(uint64_t bytes);

  DeviceMemory memory_;
  MemoryBudget* const budget_;
  KernelMemory* const kernel_memory_;
  // Taken before mutex_, by whoever adds segments.
  Mutex grow_mutex_;
  // By IndexOf(), as what follows. Behind the last segment: of a growth that is
  // under way, or what one that failed has left there. Nobody can take pages out
  // of a completion aperture again (its seal refuses that), so they stay
  // charged, and the next growth begins with them.
  std::array<MemoryBudget::Reservation, 2> left_over_
      ABSL_GUARDED_BY(grow_mutex_);
  mutable Mutex mutex_;
  std::array<Segments, 2> segments_ ABSL_GUARDED_BY(mutex_);
  // Up to where the budget counts memory: the end of the last segment, or of
  // what is behind it.
  std::array<uint64_t, 2> given_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_DEVICE_SPACE_H_
