#include "devices/sdk/parameters.h"

#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace carillon::edge {

using Kind = Parameter::Kind;

Parameter Constant(std::string name, uint64_t value) {
  return {.name = std::move(name),
          .kind = Kind::kUnsigned,
          .unsigned_value = value};
}

Parameter ConstantSigned(std::string name, int64_t value) {
  return {
      .name = std::move(name), .kind = Kind::kSigned, .signed_value = value};
}

Parameter ConstantFloat(std::string name, double value) {
  return {.name = std::move(name), .kind = Kind::kFloat, .float_value = value};
}

Parameter Fixed(std::string name, const Buffer& buffer, BufferPart part) {
  return {.name = std::move(name),
          .kind = Kind::kBuffer,
          .buffer_id = buffer.id,
          .offset = part.offset,
          .length = part.length,
          .slot_stride = part.slot_stride};
}

Parameter Writable(std::string name) {
  return {.name = std::move(name), .kind = Kind::kWritableValue};
}

Parameter WritableBuffer(std::string name, const Buffer& buffer) {
  return {.name = std::move(name),
          .kind = Kind::kWritableBuffer,
          .buffer_id = buffer.id};
}

Parameter Taken(std::string name, std::string from) {
  return {
      .name = std::move(name), .kind = Kind::kTaken, .taken = std::move(from)};
}

void SetDim3(const Dim3& from, v1::Dim3* to) {
  to->set_x(from.x);
  to->set_y(from.y);
  to->set_z(from.z);
}

v1::BufferPlace ToProto(Place place) {
  switch (place) {
    case Place::kInput:
      return v1::INPUT;
    case Place::kOutput:
    case Place::kDurable:
      return v1::OUTPUT;
    case Place::kGpuMemory:
      return v1::GPU_MEMORY;
  }
  return v1::BUFFER_PLACE_UNSPECIFIED;
}

absl::Status ToBindings(
    std::span<const Parameter> parameters, bool ring,
    google::protobuf::RepeatedPtrField<v1::ParameterBinding>* bindings) {
  std::set<std::string_view> names;
  for (const Parameter& parameter : parameters) {
    if (parameter.name.empty()) {
      return absl::InvalidArgumentError(
          "a parameter without a name; `carillon kernels` lists the names of "
          "each kernel");
    }
    if (!names.insert(parameter.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("parameter '{}' is bound twice; bind each parameter once",
                      parameter.name));
    }
    const bool writable = parameter.kind == Kind::kWritableValue ||
                          parameter.kind == Kind::kWritableBuffer;
    if (!ring && (writable || parameter.slot_stride != 0)) {
      return absl::InvalidArgumentError(fmt::format(
          "parameter '{}' {}, but a background kernel has no ring; use "
          "Constant, or "
          "Fixed without a slot stride",
          parameter.name, writable ? "is writable" : "has a slot stride"));
    }
    v1::ParameterBinding& binding = *bindings->Add();
    binding.set_name(parameter.name);
    binding.set_writable(writable);
    switch (parameter.kind) {
      case Kind::kUnsigned:
        binding.set_unsigned_value(parameter.unsigned_value);
        break;
      case Kind::kSigned:
        binding.set_signed_value(parameter.signed_value);
        break;
      case Kind::kFloat:
        binding.set_float_value(parameter.float_value);
        break;
      case Kind::kBuffer:
      case Kind::kWritableBuffer:
        binding.set_buffer_id(parameter.buffer_id);
        binding.set_offset(parameter.offset);
        binding.set_length(parameter.length);
        binding.set_slot_stride(parameter.slot_stride);
        break;
      case Kind::kTaken:
        binding.set_taken(parameter.taken);
        break;
      case Kind::kWritableValue:
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::edge
