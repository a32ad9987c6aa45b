#include "gpu_daemon/event/argument_plan.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

// simt::Span<T> as the kernel sees it.
struct SpanImage {
  uint64_t data;
  uint64_t count;
};
static_assert(sizeof(SpanImage) == sizeof(simt::Span<std::byte>));

uint32_t EntryBytes(const ParamInfo& info) {
  return info.is_buffer() ? sizeof(shm::BufferRef) : info.element_size;
}

absl::Status CheckBuffer(const ParamInfo& info,
                         const ParameterBinding& binding) {
  const auto& buffer = binding.buffer;
  if (buffer.data == nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter '{}' is a buffer and needs a buffer id", info.name));
  }
  if (buffer.bytes % info.element_size != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter '{}': {} bytes is not a whole number of {}-byte elements",
        info.name, buffer.bytes, info.element_size));
  }
  const auto address = reinterpret_cast<uintptr_t>(buffer.data);
  if (address % info.element_align != 0 ||
      binding.slot_stride % info.element_align != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter '{}': offset and slot stride must be multiples of {}",
        info.name, info.element_align));
  }
  if (binding.writable && binding.slot_stride != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "parameter '{}' is writable: it cannot have a slot stride", info.name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArgumentPlan> ArgumentPlan::Make(
    const simt::KernelInfo& kernel,
    const std::vector<ParameterBinding>& bindings) {
  if (bindings.size() != kernel.params.size()) {
    return absl::InvalidArgumentError(
        fmt::format("kernel '{}' has {} parameters, {} were given", kernel.name,
                    kernel.params.size(), bindings.size()));
  }
  if (kernel.args_size > shm::kMaxParameterBytes) {
    return absl::InvalidArgumentError(
        fmt::format("kernel '{}' has {} bytes of arguments; the limit is {}",
                    kernel.name, kernel.args_size, shm::kMaxParameterBytes));
  }
  std::vector<std::byte> image(kernel.args_size);
  std::vector<SteppedBuffer> stepped;
  std::vector<WritableValue> values;
  std::vector<WritableBuffer> ranged;
  std::vector<WritableSlot> writable;
  std::vector<TakenBuffer> taken;
  uint32_t entry_bytes = 0;
  for (uint32_t i = 0; i < bindings.size(); ++i) {
    const ParamInfo& info = kernel.params[i];
    const ParameterBinding& binding = bindings[i];
    const auto data = reinterpret_cast<uint64_t>(binding.buffer.data);
    if (!binding.taken.empty()) {
      if (info.kind != ParamKind::kReadBuffer ||
          info.buffer_form != simt::BufferForm::kSpan) {
        return absl::InvalidArgumentError(
            fmt::format("parameter '{}' cannot be taken from another event: "
                        "only a buffer that the kernel reads, with its count",
                        info.name));
      }
      taken.push_back({i, binding.taken});
      continue;
    }
    if (info.is_buffer()) {
      RETURN_IF_ERROR(CheckBuffer(info, binding));
    }
    if (binding.writable) {
      const uint32_t bytes = EntryBytes(info);
      const auto offset = static_cast<uint32_t>(
          shm::AlignUp(entry_bytes, info.is_buffer() ? 8 : bytes));
      entry_bytes = offset + bytes;
      writable.push_back({i, offset});
      if (info.is_buffer()) {
        ranged.push_back(
            {.data = data,
             .bytes = binding.buffer.bytes,
             .args_offset = info.offset,
             .entry_offset = offset,
             .element_bytes = info.element_size,
             .element_align = static_cast<uint16_t>(info.element_align),
             .counted = info.buffer_form == simt::BufferForm::kSpan});
      } else {
        values.push_back({.args_offset = info.offset,
                          .entry_offset = offset,
                          .bytes = bytes,
                          .reserved = 0});
      }
    } else if (info.is_buffer()) {
      const SpanImage span{data, binding.buffer.bytes / info.element_size};
      // A pointer is the span's first half.
      std::memcpy(image.data() + info.offset, &span,
                  info.buffer_form == simt::BufferForm::kPointer
                      ? sizeof(span.data)
                      : sizeof(span));
      if (binding.slot_stride != 0) {
        stepped.push_back({.data = data,
                           .stride = binding.slot_stride,
                           .args_offset = info.offset,
                           .reserved = {}});
      }
    } else {
      std::memcpy(image.data() + info.offset, &binding.constant_bits,
                  info.element_size);
    }
  }
  if (entry_bytes > shm::kMaxParameterBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes of writable parameters; the limit is {}",
                    entry_bytes, shm::kMaxParameterBytes));
  }
  return ArgumentPlan(
      PackArgumentSteps(image, stepped, values, ranged, entry_bytes),
      std::move(writable), std::move(taken));
}

}  // namespace carillon::gpud
