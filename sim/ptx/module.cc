#include "sim/ptx/module.h"

#include <algorithm>

namespace carillon::sim::ptx {
namespace {

struct TypeInfo {
  Type type;
  std::string_view name;
  uint32_t bytes;
};
constexpr TypeInfo kTypes[] = {
    {Type::kPred, "pred", 1},   {Type::kB8, "b8", 1},
    {Type::kB16, "b16", 2},     {Type::kB32, "b32", 4},
    {Type::kB64, "b64", 8},     {Type::kB128, "b128", 16},
    {Type::kU8, "u8", 1},       {Type::kU16, "u16", 2},
    {Type::kU32, "u32", 4},     {Type::kU64, "u64", 8},
    {Type::kS8, "s8", 1},       {Type::kS16, "s16", 2},
    {Type::kS32, "s32", 4},     {Type::kS64, "s64", 8},
    {Type::kF16, "f16", 2},     {Type::kF16x2, "f16x2", 4},
    {Type::kBf16, "bf16", 2},   {Type::kBf16x2, "bf16x2", 4},
    {Type::kU16x2, "u16x2", 4}, {Type::kS16x2, "s16x2", 4},
    {Type::kF32, "f32", 4},     {Type::kF64, "f64", 8},
};

constexpr std::string_view kSpaces[] = {"const", "global", "local", "param",
                                        "shared"};

const TypeInfo& InfoOf(Type type) { return kTypes[static_cast<size_t>(type)]; }

uint64_t AlignedUp(uint64_t offset, uint32_t align) {
  return (offset + align - 1) / align * align;
}

}  // namespace

std::optional<Type> TypeNamed(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (info.name == name) return info.type;
  }
  return std::nullopt;
}

std::string_view NameOf(Type type) { return InfoOf(type).name; }
uint32_t BytesOf(Type type) { return InfoOf(type).bytes; }

std::optional<Space> SpaceNamed(std::string_view name) {
  const auto found = std::ranges::find(kSpaces, name);
  if (found == std::end(kSpaces)) return std::nullopt;
  return static_cast<Space>(found - std::begin(kSpaces));
}

std::string_view NameOf(Space space) {
  return kSpaces[static_cast<size_t>(space)];
}

uint64_t Function::ParameterOffset(size_t index) const {
  uint64_t offset = 0;
  for (size_t i = 0;; ++i) {
    offset = AlignedUp(offset, parameters[i].align);
    if (i == index) return offset;
    offset += parameters[i].bytes;
  }
}

uint64_t Function::ParameterBytes() const {
  if (parameters.empty()) return 0;
  return ParameterOffset(parameters.size() - 1) + parameters.back().bytes;
}

const Function* Module::FindEntry(std::string_view name) const {
  for (const Function& function : functions) {
    if (function.is_entry && function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace carillon::sim::ptx
