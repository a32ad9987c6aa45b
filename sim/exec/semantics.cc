#include "sim/exec/semantics.h"

namespace carillon::sim {
namespace {

using ptx::Type;

WholeNumber WholeNumberOf(Type type, uint8_t register_bytes) {
  // They follow each other in Type: kU8 to kU64, kS8 to kS64.
  if (type < Type::kU8 || type > Type::kS64) return {};
  const uint32_t bytes = ptx::BytesOf(type);
  if (register_bytes < bytes) return {};
  return {.bits = static_cast<uint8_t>(8 * bytes),
          .is_signed = type >= Type::kS8,
          .register_bytes = register_bytes};
}

}  // namespace

uint8_t ModifierVariant(const Semantics& s) {
  auto variant = static_cast<uint8_t>(s.rounding);
  if (s.flush) variant |= kFlushBit;
  if (s.saturate) variant |= kSaturateBit;
  if (s.integral) variant |= kIntegralBit;
  if (s.relu) variant |= kReluBit;
  if (s.keep_nan) variant |= kKeepNanBit;
  if (s.xor_sign) variant |= kXorSignBit;
  return variant;
}

WholeNumber ConvertTo(const Semantics& s) {
  return WholeNumberOf(s.type, s.register_bytes);
}
WholeNumber ConvertFrom(const Semantics& s) {
  return WholeNumberOf(s.from, s.from_bytes);
}

}  // namespace carillon::sim
