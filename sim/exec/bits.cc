// Logic, shifts, operations on single bits (PTX ISA 9.7.1, 9.7.8), and moves.
#include "sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

struct And {
  template <class T>
  static T Of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T Of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T Of(T a, T b) {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  static T Of(T a) {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <class T>
  static T Of(T a) {
    return a == 0;
  }
};
struct Same {
  template <class T>
  static T Of(T a) {
    return a;
  }
};
struct Insert {
  static uint64_t Of(uint64_t field, uint64_t into, uint32_t position,
                     uint32_t length, uint32_t bits) {
    const uint64_t ones =
        length >= 64 ? ~uint64_t{0} : (uint64_t{1} << length) - 1;
    if (position >= bits) return into;
    const uint64_t mask = ones << position;
    return (into & ~mask) | (field << position & mask);
  }
};

// Predicates are lane masks, so F works on all lanes at once.
template <class F>
void PredicateUnary(const Op& op, Warp& warp, LaneMask mask) {
  warp.SetPredicate(op.operands[0], mask,
                    F::Of(warp.Predicate(op.operands[1])));
}
template <class F>
void PredicateBinary(const Op& op, Warp& warp, LaneMask mask) {
  warp.SetPredicate(
      op.operands[0], mask,
      F::Of(warp.Predicate(op.operands[1]), warp.Predicate(op.operands[2])));
}

// Shifts by the width or more leave zeros, or signs.
template <class T>
void ShiftLeft(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    return b[i] >= kBits ? T{0} : static_cast<T>(a[i] << (b[i] & (kBits - 1)));
  });
}
template <class T, bool kSigned>
void ShiftRight(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T beyond = kSigned ? static_cast<T>(a[i] >> (kBits - 1)) : T{0};
    return b[i] >= kBits ? beyond
                         : static_cast<T>(a[i] >> (b[i] & (kBits - 1)));
  });
}

template <bool kLeft>
void Funnel(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const low = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const high = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const by = warp.From<uint32_t>(op.operands[3]);
  const bool wrap = op.variant != 0;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    const uint32_t n = wrap ? by[i] & 31 : (by[i] > 32 ? 32 : by[i]);
    const uint64_t both = uint64_t{high[i]} << 32 | low[i];
    return static_cast<uint32_t>(kLeft ? both << n >> 32 : both >> n);
  });
}

// The bytes 0..3 of a and 4..7 of b; each digit of the selector takes one, or
// its sign eight times.
void Permute(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const c = warp.From<uint32_t>(op.operands[3]);
  const auto mode = static_cast<PermuteMode>(op.variant);
  // Builds the selector that the mode means, from the two lowest bits of c.
  uint32_t selectors[4] = {};
  switch (mode) {
    case PermuteMode::kSelector:
      break;
    case PermuteMode::kF4e:
      selectors[0] = 0x3210, selectors[1] = 0x4321;
      selectors[2] = 0x5432, selectors[3] = 0x6543;
      break;
    case PermuteMode::kB4e:
      selectors[0] = 0x5670, selectors[1] = 0x6701;
      selectors[2] = 0x7012, selectors[3] = 0x0123;
      break;
    case PermuteMode::kRc8:
      selectors[0] = 0x0000, selectors[1] = 0x1111;
      selectors[2] = 0x2222, selectors[3] = 0x3333;
      break;
    case PermuteMode::kEcl:
      selectors[0] = 0x3210, selectors[1] = 0x3211;
      selectors[2] = 0x3222, selectors[3] = 0x3333;
      break;
    case PermuteMode::kEcr:
      selectors[0] = 0x0000, selectors[1] = 0x1110;
      selectors[2] = 0x2210, selectors[3] = 0x3210;
      break;
    case PermuteMode::kRc16:
      selectors[0] = 0x1010, selectors[1] = 0x3232;
      selectors[2] = 0x1010, selectors[3] = 0x3232;
      break;
  }
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [&](uint32_t i) {
    const uint64_t both = uint64_t{b[i]} << 32 | a[i];
    const uint32_t selector =
        mode == PermuteMode::kSelector ? c[i] : selectors[c[i] & 3];
    uint32_t result = 0;
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const uint32_t digit = selector >> (4 * byte) & 0xf;
      uint32_t value = both >> (8 * (digit & 7)) & 0xff;
      if (digit & 8) value = value & 0x80 ? 0xff : 0;
      result |= value << (8 * byte);
    }
    return result;
  });
}

// Evaluates the truth table's bit 4a + 2b + c for each bit.
void Logic3(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const c = warp.From<uint32_t>(op.operands[3]);
  uint32_t term[8];
  for (uint32_t i = 0; i < 8; ++i) {
    term[i] = (op.variant >> i & 1) != 0 ? ~0u : 0;
  }
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    const uint32_t x = a[i], y = b[i], z = c[i];
    return (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) |
           (term[2] & ~x & y & ~z) | (term[3] & ~x & y & z) |
           (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
           (term[6] & x & y & ~z) | (term[7] & x & y & z);
  });
}

template <class T, bool kSigned>
void ExtractField(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const uint32_t* const position = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const length = warp.From<uint32_t>(op.operands[3]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t first = position[i] & 0xff;
    const uint32_t count = length[i] & 0xff;
    if (count == 0) return T{0};
    // The bits above the field repeat the field's highest bit; where that lies
    // outside of the value, they repeat the highest bit of a.
    const uint32_t last = first + count - 1;
    const bool sign =
        kSigned && (a[i] >> (last < kBits ? last : kBits - 1) & 1);
    T result = sign ? static_cast<T>(~T{0}) : T{0};
    const uint32_t within = first >= kBits          ? 0
                            : count > kBits - first ? kBits - first
                                                    : count;
    if (within == 0) return result;
    const T ones = static_cast<T>(static_cast<T>(~T{0}) >> (kBits - within));
    result = static_cast<T>((result & ~ones) | (a[i] >> first & ones));
    return result;
  });
}
template <class T>
void InsertField(const Op& op, Warp& warp, LaneMask mask) {
  const T* const field = warp.From<T>(op.operands[1]);
  const T* const into = warp.From<T>(op.operands[2]);
  const uint32_t* const position = warp.From<uint32_t>(op.operands[3]);
  const uint32_t* const length = warp.From<uint32_t>(op.operands[4]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    return static_cast<T>(Insert::Of(field[i], into[i], position[i] & 0xff,
                                     length[i] & 0xff, 8 * sizeof(T)));
  });
}

template <class T>
void ReverseBits(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    T result = 0;
    for (uint32_t bit = 0; bit < 8 * sizeof(T); ++bit) {
      result = static_cast<T>(result << 1 | (a[i] >> bit & 1));
    }
    return result;
  });
}

// The result is 32 bits wide, whatever the source is.
template <class T, class F>
void ToWord(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [=](uint32_t i) { return F::Of(a[i]); });
}
struct CountBits {
  static uint32_t Of(uint32_t a) {
    return static_cast<uint32_t>(__builtin_popcount(a));
  }
  static uint32_t Of(uint64_t a) {
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
struct CountLeadingZeros {
  static uint32_t Of(uint32_t a) {
    return a == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(a));
  }
  static uint32_t Of(uint64_t a) {
    return a == 0 ? 64 : static_cast<uint32_t>(__builtin_clzll(a));
  }
};
// The highest bit that is not the sign; all ones: there is none.
template <class T, bool kSigned, bool kShift>
struct FindLeadingBit {
  static uint32_t Of(T a) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T bits =
        kSigned && (a >> (kBits - 1) & 1) != 0 ? static_cast<T>(~a) : a;
    if (bits == 0) return ~0u;
    const uint32_t position = kBits - 1 - CountLeadingZeros::Of(bits);
    return kShift ? kBits - 1 - position : position;
  }
};
template <class T, bool kSigned>
Handler LeadingBitOf(bool shift) {
  if (shift) return &ToWord<T, FindLeadingBit<T, kSigned, true>>;
  return &ToWord<T, FindLeadingBit<T, kSigned, false>>;
}

template <class T>
void Select(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  const LaneMask choose = warp.Predicate(op.operands[3]);
  ForLanes(mask, warp.To<T>(op.operands[0]),
           [=](uint32_t i) { return (choose >> i & 1) != 0 ? a[i] : b[i]; });
}
template <class T, class C>
void SelectBySign(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  const C* const c = warp.From<C>(op.operands[3]);
  ForLanes(mask, warp.To<T>(op.operands[0]),
           [=](uint32_t i) { return c[i] >= 0 ? a[i] : b[i]; });
}

template <class W, class P, uint32_t kParts>
void Pack(const Op& op, Warp& warp, LaneMask mask) {
  W whole[kLanes] = {};
  for (uint32_t part = 0; part < kParts; ++part) {
    const P* const from = warp.From<P>(op.operands[1 + part]);
    for (uint32_t i = 0; i < kLanes; ++i) {
      whole[i] |= static_cast<W>(from[i]) << (8 * sizeof(P) * part);
    }
  }
  ForLanes(mask, warp.To<W>(op.operands[0]),
           [&](uint32_t i) { return whole[i]; });
}
template <class W, class P, uint32_t kParts>
void Unpack(const Op& op, Warp& warp, LaneMask mask) {
  W whole[kLanes];
  const W* const from = warp.From<W>(op.operands[kParts]);
  for (uint32_t i = 0; i < kLanes; ++i) whole[i] = from[i];
  for (uint32_t part = 0; part < kParts; ++part) {
    if (op.operands[part].is_constant()) continue;  // "_"
    ForLanes(mask, warp.To<P>(op.operands[part]), [&](uint32_t i) {
      return static_cast<P>(whole[i] >> (8 * sizeof(P) * part));
    });
  }
}

template <class F>
Handler BinaryOf(Type type) {
  if (type == Type::kPred) return &PredicateBinary<F>;
  return ForBits(type, []<class T>() -> Handler { return &Binary<T, F>; });
}
template <class F>
Handler UnaryOf(Type type) {
  if (type == Type::kPred) return &PredicateUnary<F>;
  return ForBits(type, []<class T>() -> Handler { return &Unary<T, F>; });
}
bool IsSigned(Type type) {
  return type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}

}  // namespace

Handler FindBits(const Semantics& s) {
  const bool of_32 = s.type != Type::kPred && ptx::BytesOf(s.type) == 4;
  const bool of_64 = s.type != Type::kPred && ptx::BytesOf(s.type) == 8;
  switch (s.operation) {
    case Operation::kMove:
      return UnaryOf<Same>(s.type);
    case Operation::kAnd:
      return BinaryOf<And>(s.type);
    case Operation::kOr:
      return BinaryOf<Or>(s.type);
    case Operation::kXor:
      return BinaryOf<Xor>(s.type);
    case Operation::kNot:
      return UnaryOf<Not>(s.type);
    case Operation::kLogicalNot:
      return ForBits(
          s.type, []<class T>() -> Handler { return &Unary<T, LogicalNot>; });
    case Operation::kShiftLeft:
      return ForBits(s.type,
                     []<class T>() -> Handler { return &ShiftLeft<T>; });
    case Operation::kShiftRight:
      switch (s.type) {
        case Type::kS16:
          return &ShiftRight<int16_t, true>;
        case Type::kS32:
          return &ShiftRight<int32_t, true>;
        case Type::kS64:
          return &ShiftRight<int64_t, true>;
        default:
          return ForBits(s.type, []<class T>() -> Handler {
            return &ShiftRight<T, false>;
          });
      }
    case Operation::kFunnelLeft:
      return of_32 ? &Funnel<true> : nullptr;
    case Operation::kFunnelRight:
      return of_32 ? &Funnel<false> : nullptr;
    case Operation::kPermute:
      return of_32 ? &Permute : nullptr;
    case Operation::kLogic3:
      return of_32 ? &Logic3 : nullptr;
    case Operation::kExtractField:
      if (of_32) {
        return IsSigned(s.type) ? &ExtractField<uint32_t, true>
                                : &ExtractField<uint32_t, false>;
      }
      if (!of_64) return nullptr;
      return IsSigned(s.type) ? &ExtractField<uint64_t, true>
                              : &ExtractField<uint64_t, false>;
    case Operation::kInsertField:
      return of_32   ? &InsertField<uint32_t>
             : of_64 ? &InsertField<uint64_t>
                     : nullptr;
    case Operation::kReverseBits:
      return of_32   ? &ReverseBits<uint32_t>
             : of_64 ? &ReverseBits<uint64_t>
                     : nullptr;
    case Operation::kCountBits:
      return of_32   ? &ToWord<uint32_t, CountBits>
             : of_64 ? &ToWord<uint64_t, CountBits>
                     : nullptr;
    case Operation::kCountLeadingZeros:
      return of_32   ? &ToWord<uint32_t, CountLeadingZeros>
             : of_64 ? &ToWord<uint64_t, CountLeadingZeros>
                     : nullptr;
    case Operation::kFindLeadingBit:
      if (of_32) {
        return IsSigned(s.type) ? LeadingBitOf<uint32_t, true>(s.variant)
                                : LeadingBitOf<uint32_t, false>(s.variant);
      }
      if (!of_64) return nullptr;
      return IsSigned(s.type) ? LeadingBitOf<uint64_t, true>(s.variant)
                              : LeadingBitOf<uint64_t, false>(s.variant);
    case Operation::kSelect:
      return ForBits(s.type, []<class T>() -> Handler { return &Select<T>; });
    case Operation::kSelectBySign:
      if (s.from == Type::kS32) {
        return ForBits(s.type, []<class T>() -> Handler {
          return &SelectBySign<T, int32_t>;
        });
      }
      if (s.from != Type::kF32) return nullptr;
      return ForBits(
          s.type, []<class T>() -> Handler { return &SelectBySign<T, float>; });
    case Operation::kPack:
      if (of_64 && s.elements == 2) return &Pack<uint64_t, uint32_t, 2>;
      if (of_64 && s.elements == 4) return &Pack<uint64_t, uint16_t, 4>;
      if (of_32 && s.elements == 2) return &Pack<uint32_t, uint16_t, 2>;
      return nullptr;
    case Operation::kUnpack:
      if (of_64 && s.elements == 2) return &Unpack<uint64_t, uint32_t, 2>;
      if (of_64 && s.elements == 4) return &Unpack<uint64_t, uint16_t, 4>;
      if (of_32 && s.elements == 2) return &Unpack<uint32_t, uint16_t, 2>;
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
