// How the arguments of one launch are made from what was registered and from
// one ESQ entry: constants are copied, per-slot buffers stepped, writable
// parameters range-checked.
#ifndef CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_
#define CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/simt/kernel_info.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Bytes that a buffer parameter may reach, resolved by the control plane.
struct BufferRange {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

// One parameter as the device bound it; exactly one per KernelInfo::params, in
// order.
struct ParameterBinding {
  bool writable = false;
  // Values: the constant's bytes, least significant first (ignored if
  // writable).
  uint64_t constant_bits = 0;
  // Buffers: the whole range (writable), or what slot 0 sees (fixed).
  BufferRange buffer;
  // Fixed buffers: how far slot i + 1 is from slot i; 0 for one buffer that all
  // slots share.
  uint64_t slot_stride = 0;
};

// A kernel's arguments, at most shm::kMaxParameterBytes.
class ArgumentBlock {
 public:
  std::byte* data() { return bytes_; }
  const std::byte* data() const { return bytes_; }

 private:
  alignas(16) std::byte bytes_[shm::kMaxParameterBytes];
};

// Where a writable parameter lies in the ESQ entry, from parameter_offset on.
struct WritableSlot {
  uint32_t parameter;  // index into KernelInfo::params
  uint32_t offset;
};

// Immutable after Make(): safe to use from any thread.
class ArgumentPlan {
 public:
  // The caller has checked that every slot's buffer lies in the device's own
  // memory. Errors: InvalidArgument, naming the parameter.
  static absl::StatusOr<ArgumentPlan> Make(
      const simt::KernelInfo& kernel,
      const std::vector<ParameterBinding>& bindings);

  // Bytes that the writable parameters take in an ESQ entry, packed with
  // natural alignment in the kernel's order.
  uint32_t entry_parameter_bytes() const { return entry_parameter_bytes_; }
  const std::vector<WritableSlot>& writable() const { return writable_; }

  // The same plan as one block of plain memory, for a GPU (argument_steps.h).
  std::vector<std::byte> Pack() const;

  // Writes the arguments for slot `slot`; `parameters` is gpud's private copy
  // of the entry's parameter bytes. kOk, or kBadBufferRef if a writable buffer
  // leaves its range.
  shm::EventStatus Build(uint32_t slot, const std::byte* parameters,
                         std::byte* args) const;

 private:
  struct SteppedBuffer {
    uint32_t args_offset;
    std::byte* data;
    uint64_t stride;
  };
  struct WritableValue {
    uint32_t args_offset;
    uint32_t entry_offset;
    uint32_t bytes;
  };
  struct WritableBuffer {
    uint32_t args_offset;
    uint32_t entry_offset;
    uint32_t element_bytes;
    uint32_t element_align;
    simt::BufferForm form;
    BufferRange range;
  };

  // The argument block with all that never changes.
  std::vector<std::byte> fixed_;
  std::vector<SteppedBuffer> stepped_;
  std::vector<WritableValue> values_;
  std::vector<WritableBuffer> buffers_;
  std::vector<WritableSlot> writable_;
  uint32_t entry_parameter_bytes_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_
