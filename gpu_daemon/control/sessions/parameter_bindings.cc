#include "gpu_daemon/control/sessions/parameter_bindings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/edit_distance.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/sessions/names.h"

namespace carillon::gpud {
namespace {

using simt::ParamInfo;
using simt::ParamKind;

absl::Status Bad(std::string_view parameter, std::string_view what) {
  return Error(absl::StatusCode::kInvalidArgument,
               fmt::format("parameter {} {}", Quoted(parameter), what),
               reason::kBadBinding, parameter);
}

// An integer constant of either sign, as the client wrote it.
struct WideInteger {
  bool negative = false;
  uint64_t bits = 0;  // two's complement

  bool FitsUnsigned(uint64_t most) const { return !negative && bits <= most; }
  bool FitsSigned(int64_t least, int64_t most) const {
    if (negative) return static_cast<int64_t>(bits) >= least;
    return bits <= static_cast<uint64_t>(most);
  }
};

absl::StatusOr<uint64_t> IntegerBits(const ParamInfo& info,
                                     const v1::ParameterBinding& binding) {
  WideInteger value;
  if (binding.has_unsigned_value()) {
    value.bits = binding.unsigned_value();
  } else if (binding.has_signed_value()) {
    value.bits = static_cast<uint64_t>(binding.signed_value());
    value.negative = binding.signed_value() < 0;
  } else {
    return Bad(info.name, "needs an integer (unsigned_value or signed_value)");
  }
  bool fits = false;
  switch (info.kind) {
    case ParamKind::kU32:
      fits = value.FitsUnsigned(std::numeric_limits<uint32_t>::max());
      break;
    case ParamKind::kI32:
      fits = value.FitsSigned(std::numeric_limits<int32_t>::min(),
                              std::numeric_limits<int32_t>::max());
      break;
    case ParamKind::kU64:
      fits = value.FitsUnsigned(std::numeric_limits<uint64_t>::max());
      break;
    default:
      fits = value.FitsSigned(std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max());
  }
  if (!fits) {
    return Bad(
        info.name,
        fmt::format("cannot hold {}: it is a {}",
                    value.negative ? std::to_string(binding.signed_value())
                                   : std::to_string(value.bits),
                    v1::ParameterKind_Name(ProtoKind(info.kind))));
  }
  return value.bits;
}

absl::StatusOr<uint64_t> FloatBits(const ParamInfo& info,
                                   const v1::ParameterBinding& binding) {
  if (!binding.has_float_value()) {
    return Bad(info.name, "needs a float_value");
  }
  const double value = binding.float_value();
  if (info.kind == ParamKind::kF64) return std::bit_cast<uint64_t>(value);
  if (std::isfinite(value) &&
      std::abs(value) > std::numeric_limits<float>::max()) {
    return Bad(info.name, fmt::format("cannot hold {}: it is a F32", value));
  }
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

absl::StatusOr<ParameterBinding> BindValue(
    const ParamInfo& info, const v1::ParameterBinding& binding) {
  if (binding.buffer_id() != 0 || binding.offset() != 0 ||
      binding.length() != 0 || binding.slot_stride() != 0) {
    return Bad(info.name,
               "is a value: it takes no buffer, offset, length or "
               "slot stride");
  }
  if (binding.writable()) {
    if (binding.value_case() != v1::ParameterBinding::VALUE_NOT_SET) {
      return Bad(info.name,
                 "is writable: its value comes with every event, "
                 "not with the registration");
    }
    return ParameterBinding{.writable = true, .constant_bits = 0, .buffer = {}};
  }
  const bool is_float =
      info.kind == ParamKind::kF32 || info.kind == ParamKind::kF64;
  ASSIGN_OR_RETURN(const auto bits, is_float ? FloatBits(info, binding)
                                             : IntegerBits(info, binding));
  return ParameterBinding{
      .writable = false, .constant_bits = bits, .buffer = {}};
}

absl::Status CheckPlace(const ParamInfo& info, const Buffer& buffer) {
  // The device only reads its completion aperture, so a kernel may read there
  // what another one wrote; nothing but the device may write to its submission
  // aperture.
  if (info.kind == ParamKind::kWriteBuffer && buffer.place() == v1::INPUT) {
    return Bad(info.name,
               "is written by the kernel: bind an OUTPUT or GPU_MEMORY "
               "buffer, not an INPUT one");
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterBinding> BindBuffer(const ParamInfo& info,
                                            const v1::ParameterBinding& binding,
                                            uint32_t entries,
                                            const Buffer& buffer) {
  if (binding.value_case() != v1::ParameterBinding::VALUE_NOT_SET) {
    return Bad(info.name, "is a buffer: it takes no value");
  }
  RETURN_IF_ERROR(CheckPlace(info, buffer));
  if (binding.writable() && binding.slot_stride() != 0) {
    return Bad(info.name, "is writable: it cannot have a slot stride");
  }
  const uint64_t size = buffer.bytes();
  if (binding.offset() >= size) {
    return Bad(info.name,
               fmt::format("starts at offset {} of a buffer of {} bytes",
                           binding.offset(), size));
  }
  const uint64_t room = size - binding.offset();
  uint64_t length = binding.length();
  if (length == 0) {
    length = binding.slot_stride() != 0 ? binding.slot_stride() : room;
  }
  // The last slot's part must end inside; in steps that cannot wrap.
  const uint64_t steps = entries - 1;
  if (length > room || (binding.slot_stride() != 0 && steps != 0 &&
                        (room - length) / steps < binding.slot_stride())) {
    return Bad(info.name,
               fmt::format("reaches beyond its buffer: {} bytes from offset "
                           "{}{} in {} bytes",
                           length, binding.offset(),
                           binding.slot_stride() == 0
                               ? std::string()
                               : fmt::format(", for each of {} slots {} apart",
                                             entries, binding.slot_stride()),
                           size));
  }
  return ParameterBinding{.writable = binding.writable(),
                          .constant_bits = 0,
                          .buffer = {buffer.data() + binding.offset(), length},
                          .slot_stride = binding.slot_stride()};
}

// ArgumentPlan::Make() says whether the parameter can be taken at all.
absl::StatusOr<ParameterBinding> BindTaken(
    const ParamInfo& info, const v1::ParameterBinding& binding) {
  if (binding.writable() || binding.buffer_id() != 0 || binding.offset() != 0 ||
      binding.length() != 0 || binding.slot_stride() != 0 ||
      binding.value_case() != v1::ParameterBinding::VALUE_NOT_SET) {
    return Bad(info.name, "is taken from another event: bind nothing else");
  }
  RETURN_IF_ERROR(CheckText("taken", binding.taken(), kMaxLabelLength));
  return ParameterBinding{.taken = binding.taken()};
}

absl::Status UnknownParameter(const simt::KernelInfo& kernel,
                              std::string_view name) {
  std::vector<std::string_view> names;
  for (const ParamInfo& info : kernel.params) names.push_back(info.name);
  const std::string_view nearest = NearestName(name, names);
  return Error(
      absl::StatusCode::kInvalidArgument,
      fmt::format(
          "kernel '{}' has no parameter {}{}", kernel.name, Quoted(name),
          nearest.empty() ? fmt::format("; it has: {}", fmt::join(names, ", "))
                          : fmt::format(": did you mean '{}'?", nearest)),
      reason::kBadBinding, name);
}

}  // namespace

v1::ParameterKind ProtoKind(ParamKind kind) {
  switch (kind) {
    case ParamKind::kU32:
      return v1::U32;
    case ParamKind::kI32:
      return v1::I32;
    case ParamKind::kU64:
      return v1::U64;
    case ParamKind::kI64:
      return v1::I64;
    case ParamKind::kF32:
      return v1::F32;
    case ParamKind::kF64:
      return v1::F64;
    case ParamKind::kReadBuffer:
      return v1::READ_BUFFER;
    case ParamKind::kWriteBuffer:
      return v1::WRITE_BUFFER;
  }
  return v1::PARAMETER_KIND_UNSPECIFIED;
}

absl::StatusOr<BoundParameters> BindParameters(
    const simt::KernelInfo& kernel,
    const google::protobuf::RepeatedPtrField<v1::ParameterBinding>& parameters,
    uint32_t entries, const FindBuffer& find_buffer) {
  std::vector<const v1::ParameterBinding*> in_order(kernel.params.size());
  for (const auto& parameter : parameters) {
    const auto info = std::find_if(
        kernel.params.begin(), kernel.params.end(),
        [&](const ParamInfo& p) { return p.name == parameter.name(); });
    if (info == kernel.params.end()) {
      return UnknownParameter(kernel, parameter.name());
    }
    auto& place = in_order[info - kernel.params.begin()];
    if (place != nullptr) return Bad(parameter.name(), "is bound twice");
    place = &parameter;
  }
  BoundParameters bound;
  for (size_t i = 0; i < in_order.size(); ++i) {
    const ParamInfo& info = kernel.params[i];
    if (in_order[i] == nullptr) {
      return Bad(info.name, fmt::format("of kernel '{}' is not bound ({})",
                                        kernel.name, info.description));
    }
    const v1::ParameterBinding& parameter = *in_order[i];
    absl::StatusOr<ParameterBinding> binding;
    if (!parameter.taken().empty()) {
      binding = BindTaken(info, parameter);
    } else if (info.is_buffer()) {
      auto buffer = find_buffer(parameter.buffer_id());
      if (buffer == nullptr) {
        return Error(absl::StatusCode::kNotFound,
                     fmt::format("parameter '{}' needs a buffer: this device "
                                 "has no buffer {}",
                                 info.name, parameter.buffer_id()),
                     reason::kUnknownBuffer, info.name);
      }
      binding = BindBuffer(info, parameter, entries, *buffer);
      bound.buffers.push_back(std::move(buffer));
    } else {
      binding = BindValue(info, parameter);
    }
    if (!binding.ok()) return binding.status();
    bound.bindings.push_back(*binding);
  }
  return bound;
}

}  // namespace carillon::gpud
