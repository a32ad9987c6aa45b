#include "gpu_daemon/event/argument_plan.h"

#include <bit>
#include <cstring>

#include "absl/status/status.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/event/argument_steps.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

// simt::Span<T> as the kernel sees it.
struct SpanImage {
  std::byte* data;
  uint64_t count;
};
static_assert(sizeof(SpanImage) == sizeof(simt::Span<std::byte>));

// Writes only what the kernel's layout has for it.
void StoreBuffer(simt::BufferForm form, const SpanImage& span,
                 std::byte* where) {
  if (form == simt::BufferForm::kPointer) {
    std::memcpy(where, &span.data, sizeof(span.data));
  } else {
    std::memcpy(where, &span, sizeof(span));
  }
}

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
  ArgumentPlan plan;
  plan.fixed_.resize(kernel.args_size);
  for (uint32_t i = 0; i < bindings.size(); ++i) {
    const ParamInfo& info = kernel.params[i];
    const ParameterBinding& binding = bindings[i];
    if (info.is_buffer()) {
      RETURN_IF_ERROR(CheckBuffer(info, binding));
    }
    if (binding.writable) {
      const uint32_t bytes = EntryBytes(info);
      const auto offset = static_cast<uint32_t>(shm::AlignUp(
          plan.entry_parameter_bytes_, info.is_buffer() ? 8 : bytes));
      plan.entry_parameter_bytes_ = offset + bytes;
      plan.writable_.push_back({i, offset});
      if (info.is_buffer()) {
        plan.buffers_.push_back({.args_offset = info.offset,
                                 .entry_offset = offset,
                                 .element_bytes = info.element_size,
                                 .element_align = info.element_align,
                                 .form = info.buffer_form,
                                 .range = binding.buffer});
      } else {
        plan.values_.push_back({info.offset, offset, bytes});
      }
    } else if (info.is_buffer()) {
      const SpanImage span{binding.buffer.data,
                           binding.buffer.bytes / info.element_size};
      StoreBuffer(info.buffer_form, span, plan.fixed_.data() + info.offset);
      if (binding.slot_stride != 0) {
        plan.stepped_.push_back(
            {info.offset, binding.buffer.data, binding.slot_stride});
      }
    } else {
      std::memcpy(plan.fixed_.data() + info.offset, &binding.constant_bits,
                  info.element_size);
    }
  }
  if (plan.entry_parameter_bytes_ > shm::kMaxParameterBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} bytes of writable parameters; the limit is {}",
                    plan.entry_parameter_bytes_, shm::kMaxParameterBytes));
  }
  return plan;
}

std::vector<std::byte> ArgumentPlan::Pack() const {
  const auto address = [](const std::byte* data) {
    return reinterpret_cast<uint64_t>(data);
  };
  std::vector<gpud::SteppedBuffer> stepped;
  for (const SteppedBuffer& buffer : stepped_) {
    stepped.push_back({.data = address(buffer.data),
                       .stride = buffer.stride,
                       .args_offset = buffer.args_offset,
                       .reserved = {}});
  }
  std::vector<gpud::WritableValue> values;
  for (const WritableValue& value : values_) {
    values.push_back({.args_offset = value.args_offset,
                      .entry_offset = value.entry_offset,
                      .bytes = value.bytes,
                      .reserved = 0});
  }
  std::vector<gpud::WritableBuffer> ranged;
  for (const WritableBuffer& buffer : buffers_) {
    ranged.push_back({.data = address(buffer.range.data),
                      .bytes = buffer.range.bytes,
                      .args_offset = buffer.args_offset,
                      .entry_offset = buffer.entry_offset,
                      .element_bytes = buffer.element_bytes,
                      .element_align = buffer.element_align});
  }
  return PackArgumentSteps(fixed_, stepped, values, ranged,
                           entry_parameter_bytes_);
}

shm::EventStatus ArgumentPlan::Build(uint32_t slot, const std::byte* parameters,
                                     std::byte* args) const {
  if (!fixed_.empty()) std::memcpy(args, fixed_.data(), fixed_.size());
  for (const SteppedBuffer& buffer : stepped_) {
    std::byte* data = buffer.data + slot * buffer.stride;
    std::memcpy(args + buffer.args_offset, &data, sizeof(data));
  }
  for (const WritableValue& value : values_) {
    // Constant sizes, so that each is one load and one store.
    if (value.bytes == 8) {
      std::memcpy(args + value.args_offset, parameters + value.entry_offset, 8);
    } else {
      std::memcpy(args + value.args_offset, parameters + value.entry_offset, 4);
    }
  }
  for (const WritableBuffer& buffer : buffers_) {
    shm::BufferRef ref;
    std::memcpy(&ref, parameters + buffer.entry_offset, sizeof(ref));
    if (ref.offset > buffer.range.bytes ||
        ref.length > buffer.range.bytes - ref.offset ||
        ref.offset % buffer.element_align != 0 ||
        ref.length % buffer.element_bytes != 0) {
      return shm::EventStatus::kBadBufferRef;
    }
    const SpanImage span{buffer.range.data + ref.offset,
                         ref.length / buffer.element_bytes};
    StoreBuffer(buffer.form, span, args + buffer.args_offset);
  }
  return shm::EventStatus::kOk;
}

}  // namespace carillon::gpud
