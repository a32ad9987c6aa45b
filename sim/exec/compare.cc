// setp and set (PTX ISA 9.7.6): a comparison, and the predicate that may be
// combined with it.

#include "sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

template <class T, Compare kCompare>
[[gnu::always_inline]] inline bool Holds(T a, T b) {
  switch (kCompare) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return (a < b) | (a > b);
    case Compare::kLt:
      return a < b;
    case Compare::kLe:
      return a <= b;
    case Compare::kGt:
      return a > b;
    case Compare::kGe:
      return a >= b;
    case Compare::kEqu:
      return !((a < b) | (a > b));
    case Compare::kNeu:
      return !(a == b);
    case Compare::kLtu:
      return !(a >= b);
    case Compare::kLeu:
      return !(a > b);
    case Compare::kGtu:
      return !(a <= b);
    case Compare::kGeu:
      return !(a < b);
    case Compare::kNumbers:
      return a == a && b == b;
    case Compare::kNan:
      return a != a || b != b;
  }
  return false;
}

[[gnu::always_inline]] inline LaneMask Combined(LaneMask a, LaneMask b,
                                                Combine combine) {
  switch (combine) {
    case Combine::kNone:
      return a;
    case Combine::kAnd:
      return a & b;
    case Combine::kOr:
      return a | b;
    case Combine::kXor:
      return a ^ b;
  }
  return a;
}

// Returns whether the comparison of the sources at `first` and `first` + 1
// holds.
template <class T, Compare kCompare, bool kFlush>
LaneMask Compared(const Op& op, Warp& warp, size_t first) {
  const T* const a = warp.From<T>(op.operands[first]);
  const T* const b = warp.From<T>(op.operands[first + 1]);
  return MaskOf([=](uint32_t i) {
    if constexpr (kFlush) {
      return Holds<T, kCompare>(Flushed(a[i]), Flushed(b[i]));
    } else {
      return Holds<T, kCompare>(a[i], b[i]);
    }
  });
}

// setp p|q, a, b, c: p = (a cmp b) op c, q = !(a cmp b) op c. The variant holds
// the Combine, plus 4 if c is negated.
template <class T, Compare kCompare, bool kFlush>
void SetPredicate(const Op& op, Warp& warp, LaneMask mask) {
  const LaneMask holds = Compared<T, kCompare, kFlush>(op, warp, 2);
  const auto combine = static_cast<Combine>(op.variant & 3);
  LaneMask with = 0;
  if (combine != Combine::kNone) {
    with = warp.Predicate(op.operands[4]);
    if ((op.variant & 4) != 0) with = ~with;
  }
  if (!op.operands[0].is_constant()) {
    warp.SetPredicate(op.operands[0], mask, Combined(holds, with, combine));
  }
  if (!op.operands[1].is_constant()) {
    warp.SetPredicate(op.operands[1], mask, Combined(~holds, with, combine));
  }
}

// set: all ones or 1.0 where it holds, zero elsewhere.
template <class T, Compare kCompare, bool kFlush>
void Set(const Op& op, Warp& warp, LaneMask mask) {
  LaneMask holds = Compared<T, kCompare, kFlush>(op, warp, 2);
  const auto combine = static_cast<Combine>(op.variant & 3);
  if (combine != Combine::kNone) {
    LaneMask with = warp.Predicate(op.operands[4]);
    if ((op.variant & 4) != 0) with = ~with;
    holds = Combined(holds, with, combine);
  }
  const uint32_t yes = (op.variant & 8) != 0 ? 0x3f800000u : ~0u;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [=](uint32_t i) { return (holds >> i & 1) != 0 ? yes : 0u; });
}

template <class T, Compare kCompare>
Handler Code(const Semantics& s) {
  const bool set = s.operation == Operation::kSet;
  if constexpr (std::is_same_v<T, float>) {
    if (s.flush) {
      return set ? &Set<T, kCompare, true> : &SetPredicate<T, kCompare, true>;
    }
  }
  return set ? &Set<T, kCompare, false> : &SetPredicate<T, kCompare, false>;
}

template <class T>
Handler ForCompare(const Semantics& s) {
  using enum Compare;
  const auto code = [&]<Compare kCompare>() { return Code<T, kCompare>(s); };
  if constexpr (std::is_floating_point_v<T>) {
    return ForOneOf<kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu,
                    kGeu, kNumbers, kNan>(s.compare, code);
  } else {
    return ForOneOf<kEq, kNe, kLt, kLe, kGt, kGe>(s.compare, code);
  }
}

}  // namespace

Handler FindCompare(const Semantics& s) {
  if (s.operation != Operation::kSetPredicate &&
      s.operation != Operation::kSet) {
    return nullptr;
  }
  // For set, `from` is the type that is compared.
  const Type type = s.operation == Operation::kSet ? s.from : s.type;
  if (s.flush && type != Type::kF32) return nullptr;
  switch (type) {
    case Type::kB16:
      return ForCompare<uint16_t>(s);
    case Type::kB32:
      return ForCompare<uint32_t>(s);
    case Type::kB64:
      return ForCompare<uint64_t>(s);
    case Type::kF32:
      return ForCompare<float>(s);
    case Type::kF64:
      return ForCompare<double>(s);
    default:
      return ForWholeNumbers(
          type, [&]<class T>() -> Handler { return ForCompare<T>(s); });
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
