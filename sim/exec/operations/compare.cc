// setp and set (PTX ISA 9.7.6): a comparison, and the predicate that may be
// combined with it.

#include "sim/exec/operations/half.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// Halves are compared as singles.
template <class T>
[[gnu::always_inline]] inline auto Comparable(T x) {
  if constexpr (requires { ToSingle(x); }) {
    return ToSingle(x);
  } else {
    return x;
  }
}

template <Compare kCompare, class T>
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

template <Compare kCompare, bool kFlush, class T>
[[gnu::always_inline]] inline bool HoldsFor(T a, T b) {
  if constexpr (kFlush) {
    return Holds<kCompare>(Comparable(Flushed(a)), Comparable(Flushed(b)));
  } else {
    return Holds<kCompare>(Comparable(a), Comparable(b));
  }
}

// Returns whether the comparison of operands 2 and 3 holds.
template <class T, Compare kCompare, bool kFlush>
LaneMask Compared(const Op& op, Warp& warp) {
  const T* const a = warp.From<T>(op.operands[2]);
  const T* const b = warp.From<T>(op.operands[3]);
  return MaskOf(
      [=](uint32_t i) { return HoldsFor<kCompare, kFlush>(a[i], b[i]); });
}
// The same for one value of a pair.
template <class H, Compare kCompare, bool kFlush>
LaneMask ComparedOfPair(const Op& op, Warp& warp, size_t which) {
  using T = Halves<H, 2>;
  const T* const a = warp.From<T>(op.operands[2]);
  const T* const b = warp.From<T>(op.operands[3]);
  return MaskOf([=](uint32_t i) {
    return HoldsFor<kCompare, kFlush>(a[i].of[which], b[i].of[which]);
  });
}

// Combines it with the predicate c. The variant holds the Combine, plus 4 if c
// is negated.
[[gnu::always_inline]] inline LaneMask WithPredicate(const Op& op, Warp& warp,
                                                     LaneMask holds) {
  const auto combine = static_cast<Combine>(op.variant & 3);
  if (combine == Combine::kNone) return holds;
  const LaneMask with = warp.Predicate(op.operands[4]);
  return Combined(holds, (op.variant & 4) != 0 ? ~with : with, combine);
}

[[gnu::always_inline]] inline void SetPredicates(const Op& op, Warp& warp,
                                                 LaneMask mask, LaneMask p,
                                                 LaneMask q) {
  // c may be one of the results.
  p = WithPredicate(op, warp, p);
  q = WithPredicate(op, warp, q);
  if (!op.operands[0].is_constant()) {
    warp.SetPredicate(op.operands[0], mask, p);
  }
  if (!op.operands[1].is_constant()) {
    warp.SetPredicate(op.operands[1], mask, q);
  }
}
// setp p|q, a, b, c: p = (a cmp b) op c, q = !(a cmp b) op c.
template <class T, Compare kCompare, bool kFlush>
void SetPredicate(const Op& op, Warp& warp, LaneMask mask) {
  const LaneMask holds = Compared<T, kCompare, kFlush>(op, warp);
  SetPredicates(op, warp, mask, holds, ~holds);
}
// Of pairs, p is for the first values and q for the second.
template <class H, Compare kCompare, bool kFlush>
void SetPredicateOfPair(const Op& op, Warp& warp, LaneMask mask) {
  SetPredicates(op, warp, mask,
                ComparedOfPair<H, kCompare, kFlush>(op, warp, 0),
                ComparedOfPair<H, kCompare, kFlush>(op, warp, 1));
}

// set: operand 1, all ones or 1.0, where it holds, zero elsewhere.
template <class T, Compare kCompare, bool kFlush>
void Set(const Op& op, Warp& warp, LaneMask mask) {
  const LaneMask holds =
      WithPredicate(op, warp, Compared<T, kCompare, kFlush>(op, warp));
  const auto set = [&]<class R>(const R* yes) {
    ForLanes(mask, warp.To<R>(op.operands[0]), [=, yes = *yes](uint32_t i) {
      return (holds >> i & 1) != 0 ? yes : R{0};
    });
  };
  if (op.to.register_bytes == 2) {
    set(warp.From<uint16_t>(op.operands[1]));
  } else {
    set(warp.From<uint32_t>(op.operands[1]));
  }
}
template <class H, Compare kCompare, bool kFlush>
void SetOfPair(const Op& op, Warp& warp, LaneMask mask) {
  const auto holds = [&](size_t which) {
    return WithPredicate(op, warp,
                         ComparedOfPair<H, kCompare, kFlush>(op, warp, which));
  };
  const LaneMask first = holds(0);
  const LaneMask second = holds(1);
  const uint32_t yes = *warp.From<uint16_t>(op.operands[1]);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    return ((first >> i & 1) != 0 ? yes : 0) |
           ((second >> i & 1) != 0 ? yes << 16 : 0);
  });
}

template <class T, Compare kCompare>
Handler Code(const Semantics& s) {
  const bool set = s.operation == Operation::kSet;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, F16>) {
    if (s.flush) {
      return set ? &Set<T, kCompare, true> : &SetPredicate<T, kCompare, true>;
    }
  }
  return set ? &Set<T, kCompare, false> : &SetPredicate<T, kCompare, false>;
}

template <class H, Compare kCompare>
Handler CodeOfPair(const Semantics& s) {
  const bool set = s.operation == Operation::kSet;
  if constexpr (std::is_same_v<H, F16>) {
    if (s.flush) {
      return set ? &SetOfPair<H, kCompare, true>
                 : &SetPredicateOfPair<H, kCompare, true>;
    }
  }
  return set ? &SetOfPair<H, kCompare, false>
             : &SetPredicateOfPair<H, kCompare, false>;
}

template <class F>
Handler ForFloatCompare(Compare compare, F code) {
  using enum Compare;
  return ForOneOf<kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu,
                  kGeu, kNumbers, kNan>(compare, code);
}
template <class T>
Handler ForCompare(const Semantics& s) {
  using enum Compare;
  const auto code = [&]<Compare kCompare>() { return Code<T, kCompare>(s); };
  if constexpr (std::is_floating_point_v<T>) {
    return ForFloatCompare(s.compare, code);
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
  if (s.flush && type != Type::kF32 && type != Type::kF16 &&
      type != Type::kF16x2) {
    return nullptr;
  }
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
    case Type::kF16:
    case Type::kF16x2:
    case Type::kBf16:
    case Type::kBf16x2:
      return ForHalves(type, [&]<class H, size_t kCount>() -> Handler {
        return ForFloatCompare(s.compare, [&]<Compare kCompare>() {
          return kCount == 1 ? Code<H, kCompare>(s)
                             : CodeOfPair<H, kCompare>(s);
        });
      });
    default:
      return ForWholeNumbers(
          type, [&]<class T>() -> Handler { return ForCompare<T>(s); });
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
