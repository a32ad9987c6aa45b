// How the arguments of one launch are made, as one block of plain memory that a CPU and a GPU
// follow alike.
//
//   0        16        32            ...        ...        ...            bytes
//   +--------+---------+-------------+----------+----------+--------------+
//   | sizes  | counts  | fixed image | stepped  | values   | ranged       |
//   +--------+---------+-------------+----------+----------+--------------+
//                       every part a multiple of 16 bytes; no pointers into
//                       itself: it may be copied anywhere
//
//   fixed image  the argument block with all that never changes
//   stepped      buffers that lie `stride` further for each slot
//   values       plain values that the device writes into the entry
//   ranged       buffers that the device chooses within a registered range
#ifndef CARILLON_GPU_DAEMON_EVENT_ARGUMENT_STEPS_H_
#define CARILLON_GPU_DAEMON_EVENT_ARGUMENT_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/simt/types.h"
#include "shm/layout.h"

namespace carillon::gpud {

// Addresses are those that the kernel uses; offsets are bytes.
struct SteppedBuffer {
  uint64_t data;  // what slot 0 sees
  uint64_t stride;
  uint32_t args_offset;
  uint32_t reserved[3];
};
static_assert(sizeof(SteppedBuffer) == 32);

struct WritableValue {
  uint32_t args_offset;
  uint32_t entry_offset;
  uint32_t bytes;  // 4 or 8
  uint32_t reserved;
};
static_assert(sizeof(WritableValue) == 16);

struct WritableBuffer {
  uint64_t data;
  uint64_t bytes;
  uint32_t args_offset;
  uint32_t entry_offset;
  uint32_t element_bytes;
  uint16_t element_align;
  // 1: a simt::Span, which has a count; 0: a pointer alone (simt::BufferForm).
  uint16_t counted = 1;
};
static_assert(sizeof(WritableBuffer) == 32);

// The head of the block. Immutable once packed: safe to use from any thread.
struct alignas(16) ArgumentSteps {
  uint32_t bytes;        // of the whole block
  uint32_t args_bytes;   // of the argument block, a multiple of 4
  uint32_t entry_bytes;  // of the writable parameters in an ESQ entry
  uint32_t reserved0;
  uint32_t stepped_count;
  uint32_t value_count;
  uint32_t ranged_count;
  uint32_t reserved1;

  CARILLON_HOST_DEVICE static constexpr uint32_t Padded(uint32_t size) {
    return (size + 15) / 16 * 16;
  }
  CARILLON_HOST_DEVICE const std::byte* fixed() const {
    return reinterpret_cast<const std::byte*>(this + 1);
  }
  CARILLON_HOST_DEVICE const SteppedBuffer* stepped() const {
    return reinterpret_cast<const SteppedBuffer*>(fixed() + Padded(args_bytes));
  }
  CARILLON_HOST_DEVICE const WritableValue* values() const {
    return reinterpret_cast<const WritableValue*>(stepped() + stepped_count);
  }
  CARILLON_HOST_DEVICE const WritableBuffer* ranged() const {
    return reinterpret_cast<const WritableBuffer*>(values() + value_count);
  }
};
static_assert(sizeof(ArgumentSteps) == 32);

// The block, aligned to 16 bytes as long as it is not copied elsewhere. Requires
// args_bytes and offsets as KernelInfo and ArgumentPlan give them.
std::vector<std::byte> PackArgumentSteps(std::span<const std::byte> fixed_image,
                                         std::span<const SteppedBuffer> stepped,
                                         std::span<const WritableValue> values,
                                         std::span<const WritableBuffer> ranged,
                                         uint32_t entry_bytes);

inline const ArgumentSteps& ArgumentStepsIn(
    const std::vector<std::byte>& block) {
  return *reinterpret_cast<const ArgumentSteps*>(block.data());
}

// One thread that does all of the work by itself: the lanes of a CPU.
struct OneLane {
  CARILLON_HOST_DEVICE static constexpr uint32_t index() { return 0; }
  CARILLON_HOST_DEVICE static constexpr uint32_t count() { return 1; }
  CARILLON_HOST_DEVICE static void Sync() {}
  CARILLON_HOST_DEVICE static bool Any(bool mine) { return mine; }
};

namespace argument_steps_internal {

// Aligned loads and stores of T, whatever else lies there.
template <class T>
CARILLON_HOST_DEVICE T Load(const std::byte* from) {
  T value;
  memcpy(&value, __builtin_assume_aligned(from, alignof(T)), sizeof(value));
  return value;
}
template <class T>
CARILLON_HOST_DEVICE void Store(std::byte* to, T value) {
  memcpy(__builtin_assume_aligned(to, alignof(T)), &value, sizeof(value));
}

// False: the reference leaves its range, or does not hold whole elements.
CARILLON_HOST_DEVICE bool BuildRanged(const WritableBuffer& buffer,
                                      const std::byte* parameters,
                                      std::byte* args) {
  const std::byte* at = parameters + buffer.entry_offset;
  const auto offset = Load<uint64_t>(at + offsetof(shm::BufferRef, offset));
  const auto length = Load<uint64_t>(at + offsetof(shm::BufferRef, length));
  if (offset > buffer.bytes || length > buffer.bytes - offset ||
      offset % buffer.element_align != 0 ||
      length % buffer.element_bytes != 0) {
    return false;
  }
  Store<uint64_t>(args + buffer.args_offset, buffer.data + offset);
  if (buffer.counted != 0) {
    Store<uint64_t>(args + buffer.args_offset + 8,
                    length / buffer.element_bytes);
  }
  return true;
}

template <class Lanes>
CARILLON_HOST_DEVICE void CopyImage(const ArgumentSteps& steps, std::byte* args,
                                    const Lanes& lanes) {
  for (uint32_t i = 4 * lanes.index(); i < steps.args_bytes;
       i += 4 * lanes.count()) {
    Store(args + i, Load<uint32_t>(steps.fixed() + i));
  }
}
// A CPU copies faster than word by word.
inline void CopyImage(const ArgumentSteps& steps, std::byte* args,
                      const OneLane&) {
  memcpy(args, steps.fixed(), steps.args_bytes);
}

}  // namespace argument_steps_internal

// Writes what differs from event to event over an image of the arguments, or
// over the arguments of another event of the same event kernel; otherwise as
// BuildArguments().
template <class Lanes>
CARILLON_HOST_DEVICE shm::EventStatus PlaceArguments(
    const ArgumentSteps& steps, uint32_t slot, const std::byte* parameters,
    std::byte* args, const Lanes& lanes) {
  using argument_steps_internal::Load;
  using argument_steps_internal::Store;
  // At once, and not anew behind each store.
  const uint32_t stepped_count = steps.stepped_count;
  const uint32_t value_count = steps.value_count;
  const uint32_t ranged_count = steps.ranged_count;
  const SteppedBuffer* stepped = steps.stepped();
  const auto* values =
      reinterpret_cast<const WritableValue*>(stepped + stepped_count);
  const auto* ranged =
      reinterpret_cast<const WritableBuffer*>(values + value_count);
  for (uint32_t i = lanes.index(); i < stepped_count; i += lanes.count()) {
    const SteppedBuffer buffer = stepped[i];
    Store<uint64_t>(args + buffer.args_offset,
                    buffer.data + slot * buffer.stride);
  }
  for (uint32_t i = lanes.index(); i < value_count; i += lanes.count()) {
    const WritableValue value = values[i];
    const std::byte* from = parameters + value.entry_offset;
    std::byte* to = args + value.args_offset;
    if (value.bytes == 8) {
      Store(to, Load<uint64_t>(from));
    } else {
      Store(to, Load<uint32_t>(from));
    }
  }
  bool bad = false;
  for (uint32_t i = lanes.index(); i < ranged_count; i += lanes.count()) {
    bad |= !argument_steps_internal::BuildRanged(ranged[i], parameters, args);
  }
  lanes.Sync();
  return lanes.Any(bad) ? shm::EventStatus::kBadBufferRef
                        : shm::EventStatus::kOk;
}

// Writes the arguments for slot `slot`, the lanes of `lanes` sharing the work:
// all of them call it alike, and what was written is theirs to see when it
// returns. `parameters` is a private copy of the entry's parameter bytes,
// aligned to 8; `args` is aligned to 16. kOk, or kBadBufferRef: then what is in
// `args` must not be used.
template <class Lanes>
CARILLON_HOST_DEVICE shm::EventStatus BuildArguments(
    const ArgumentSteps& steps, uint32_t slot, const std::byte* parameters,
    std::byte* args, const Lanes& lanes) {
  argument_steps_internal::CopyImage(steps, args, lanes);
  // The others write over parts of the image.
  lanes.Sync();
  return PlaceArguments(steps, slot, parameters, args, lanes);
}

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_EVENT_ARGUMENT_STEPS_H_
