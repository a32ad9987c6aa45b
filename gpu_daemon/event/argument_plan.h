// How the arguments of one launch are made from what was registered and from one ESQ entry:
// constants are copied, per-slot buffers stepped, writable parameters range-checked.
#ifndef CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_
#define CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/event/argument_steps.h"
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
  // Not empty: a buffer that comes with each launch, from this parameter of the
  // event kernel that hands its events on to this one.
  std::string taken = {};
};

// A buffer of the arguments that comes with each launch.
struct TakenBuffer {
  uint32_t parameter;  // index into KernelInfo::params
  std::string from;    // the other event kernel's parameter
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
  uint32_t entry_parameter_bytes() const { return steps().entry_bytes; }
  const std::vector<WritableSlot>& writable() const { return writable_; }
  // Build() leaves these empty.
  const std::vector<TakenBuffer>& taken() const { return taken_; }

  // One block of plain memory that a GPU follows, too. Lives as long as this
  // object, unless it is assigned to.
  const ArgumentSteps& steps() const { return ArgumentStepsIn(steps_); }

  // Writes the arguments for slot `slot` to `args`, which is aligned to 16;
  // `parameters` is gpud's private copy of the entry's parameter bytes, aligned
  // to 8. kOk, or kBadBufferRef if a writable buffer leaves its range: then what
  // is in `args` must not be used.
  shm::EventStatus Build(uint32_t slot, const std::byte* parameters,
                         std::byte* args) const {
    return BuildArguments(steps(), slot, parameters, args, OneLane());
  }

 private:
  ArgumentPlan(std::vector<std::byte> steps, std::vector<WritableSlot> writable,
               std::vector<TakenBuffer> taken)
      : steps_(std::move(steps)),
        writable_(std::move(writable)),
        taken_(std::move(taken)) {}

  std::vector<std::byte> steps_;
  std::vector<WritableSlot> writable_;
  std::vector<TakenBuffer> taken_;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_ARGUMENT_PLAN_H_
