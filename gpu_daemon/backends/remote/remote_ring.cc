#include "gpu_daemon/backends/remote/remote_ring.h"

#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/remote/argument_ranges.h"
#include "proto/link.pb.h"
#include "shm/layout.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

void Describe(const simt::Dim3& dim, v1::Dim3* to) {
  to->set_x(dim.x);
  to->set_y(dim.y);
  to->set_z(dim.z);
}

void DescribeConstant(const ParamInfo& info, uint64_t bits,
                      v1::LinkParameter* to) {
  switch (info.kind) {
    case ParamKind::kI32:
      to->set_signed_value(static_cast<int32_t>(bits));
      break;
    case ParamKind::kI64:
      to->set_signed_value(static_cast<int64_t>(bits));
      break;
    case ParamKind::kF32:
      to->set_float_value(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      break;
    case ParamKind::kF64:
      to->set_float_value(std::bit_cast<double>(bits));
      break;
    default:
      to->set_unsigned_value(bits);
  }
}

// From slot 0's first byte to the last slot's last.
struct Span {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};
bool Meet(const Span& one, const Span& other) {
  return std::less<>()(one.begin, other.end) &&
         std::less<>()(other.begin, one.end);
}
std::vector<Span> OutputsOf(const EventKernel& event) {
  std::vector<Span> outputs;
  const auto params = event.kmd().kernel->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind != ParamKind::kWriteBuffer) continue;
    const ParameterBinding& binding = event.bindings()[i];
    const uint64_t steps = event.ring().layout().entries - 1;
    const std::byte* const begin = binding.buffer.data;
    outputs.push_back(
        {begin, begin + steps * binding.slot_stride + binding.buffer.bytes});
  }
  return outputs;
}

absl::Status CheckLaunch(const EventKernel& event) {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  std::string what;
  if (event.modifyable()) {
    what = "is modifyable";
  } else if (event.hands_to() != nullptr || event.takes_from() != nullptr) {
    what = "is an end of a chain";
  } else if (kernel.is_users()) {
    what = "is a user's own kernel";
  } else {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      fmt::format("event kernel '{}' {}: the remote back-end carries no such "
                  "events to the other host; have gpud started with another "
                  "--backend",
                  kernel.name, what));
}

absl::Status CheckBuffer(const ParamInfo& info,
                         const ParameterBinding& binding) {
  if (info.buffer_form != simt::BufferForm::kSpan) {
    return absl::UnimplementedError(fmt::format(
        "parameter '{}' is a pointer without a length: a link would not know "
        "how much to carry",
        info.name));
  }
  if (binding.slot_stride == 0 || binding.slot_stride >= binding.buffer.bytes) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(fmt::format(
      "parameter '{}': {} bytes for each slot, {} apart: over a link the parts "
      "of slots may not overlap",
      info.name, binding.buffer.bytes, binding.slot_stride));
}

}  // namespace

absl::StatusOr<mesh::RingLimits> DescribeRing(const EventKernel& event) {
  RETURN_IF_ERROR(CheckLaunch(event));
  const KernelMetadata& kmd = event.kmd();
  v1::LinkRing ring;
  ring.set_device(event.memory().name());
  ring.set_kernel(std::string(kmd.kernel->name));
  Describe(kmd.grid, ring.mutable_grid());
  Describe(kmd.block, ring.mutable_block());
  ring.set_shared_bytes(kmd.shared_bytes);
  ring.set_priority(event.allowed_priority());
  ring.set_label(event.label());
  uint64_t event_bytes = 0;
  uint64_t done_bytes = 0;
  for (size_t i = 0; i < kmd.kernel->params.size(); ++i) {
    const ParamInfo& info = kmd.kernel->params[i];
    const ParameterBinding& binding = event.bindings()[i];
    v1::LinkParameter* const parameter = ring.add_parameters();
    parameter->set_name(std::string(info.name));
    if (!info.is_buffer()) {
      if (!binding.writable) {
        DescribeConstant(info, binding.constant_bits, parameter);
      } else {
        parameter->set_entry_bytes(info.element_size);
        event_bytes += info.element_size;
      }
      continue;
    }
    RETURN_IF_ERROR(CheckBuffer(info, binding));
    const bool written = info.kind == ParamKind::kWriteBuffer;
    v1::LinkBuffer* const buffer = parameter->mutable_buffer();
    buffer->set_bytes(binding.buffer.bytes);
    buffer->set_slot_stride(binding.slot_stride);
    buffer->set_written(written);
    buffer->set_in_entry(binding.writable);
    if (binding.writable) event_bytes += sizeof(shm::BufferRef);
    (written ? done_bytes : event_bytes) += binding.buffer.bytes;
  }
  const auto check_size = [&](std::string_view what, uint64_t bytes) {
    if (bytes <= mesh::kMaxEventBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "event kernel '{}' {} {} bytes an event: a link carries at most {}",
        kmd.kernel->name, what, bytes, mesh::kMaxEventBytes));
  };
  RETURN_IF_ERROR(check_size("reads", event_bytes));
  RETURN_IF_ERROR(check_size("writes", done_bytes));
  const auto outputs = OutputsOf(event);
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!Meet(outputs[i], outputs[j])) continue;
      return absl::UnimplementedError(fmt::format(
          "event kernel '{}' writes to one buffer by two parameters: the "
          "remote back-end needs one for each",
          kmd.kernel->name));
    }
  }
  return mesh::RingLimits{
      event.ring().layout().entries, static_cast<uint32_t>(event_bytes),
      static_cast<uint32_t>(done_bytes), ring.SerializeAsString()};
}

bool ShareOutput(const EventKernel& one, const EventKernel& other) {
  for (const Span& mine : OutputsOf(one)) {
    for (const Span& its : OutputsOf(other)) {
      if (Meet(mine, its)) return true;
    }
  }
  return false;
}

void AppendEvent(const EventKernel& event, const std::byte* args,
                 std::string* to) {
  const auto append = [&](const void* bytes, size_t count) {
    to->append(static_cast<const char*>(bytes), count);
  };
  const auto params = event.kmd().kernel->params;
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamInfo& info = params[i];
    const ParameterBinding& binding = event.bindings()[i];
    if (!info.is_buffer()) {
      if (binding.writable) append(args + info.offset, info.element_size);
      continue;
    }
    const ArgumentRange range = RangeOf(info, args);
    if (binding.writable) {
      const uint64_t offset =
          static_cast<uint64_t>(range.data - binding.buffer.data);
      append(&offset, sizeof(offset));
      append(&range.bytes, sizeof(range.bytes));
    }
    if (info.kind == ParamKind::kReadBuffer) append(range.data, range.bytes);
  }
}

bool StoreOutput(const EventKernel& event, const std::byte* args,
                 std::string_view output) {
  std::vector<ArgumentRange> ranges;
  uint64_t bytes = 0;
  for (const ParamInfo& info : event.kmd().kernel->params) {
    if (info.kind != ParamKind::kWriteBuffer) continue;
    ranges.push_back(RangeOf(info, args));
    bytes += ranges.back().bytes;
  }
  if (bytes != output.size()) return false;
  for (const ArgumentRange& range : ranges) {
    std::memcpy(range.data, output.data(), range.bytes);
    output.remove_prefix(range.bytes);
  }
  return true;
}

}  // namespace carillon::gpud
