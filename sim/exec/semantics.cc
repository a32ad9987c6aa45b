#include "sim/exec/semantics.h"

namespace carillon::sim {
namespace {

using ptx::Type;

WholeNumber WholeNumberOf(Type type, uint8_t register_bytes) {
  switch (type) {
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
      break;
    default:
      return {};
  }
  const uint32_t bytes = ptx::BytesOf(type);
  if (register_bytes < bytes) return {};
  return {.bits = static_cast<uint8_t>(8 * bytes),
          .is_signed = type == Type::kS8 || type == Type::kS16 ||
                       type == Type::kS32 || type == Type::kS64,
          .register_bytes = register_bytes};
}

}  // namespace

uint8_t ModifierVariant(const Semantics& s) {
  auto variant = static_cast<uint8_t>(s.rounding);
  if (s.flush) variant |= kFlushBit;
  if (s.saturate) variant |= kSaturateBit;
  if (s.integral) variant |= kIntegralBit;
  return variant;
}

WholeNumber ConvertTo(const Semantics& s) {
  return WholeNumberOf(s.type, s.register_bytes);
}
WholeNumber ConvertFrom(const Semantics& s) {
  return WholeNumberOf(s.from, s.from_bytes);
}

}  // namespace carillon::sim
