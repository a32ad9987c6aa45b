// Logic, shifts, operations on single bits (PTX ISA 9.7.1, 9.7.8), and moves.
#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

constexpr auto kAnd = []<class T>(T a, T b) { return static_cast<T>(a & b); };
constexpr auto kOr = []<class T>(T a, T b) { return static_cast<T>(a | b); };
constexpr auto kXor = []<class T>(T a, T b) { return static_cast<T>(a ^ b); };
constexpr auto kNot = []<class T>(T a) { return static_cast<T>(~a); };
constexpr auto kLogicalNot = []<class T>(T a) {
  return static_cast<T>(a == 0);
};
constexpr auto kSame = []<class T>(T a) { return a; };

// Predicates are lane masks, so kF works on all lanes at once.
template <auto kF>
void ApplyToPredicates(const Op& op, Warp& warp, LaneMask mask) {
  const LaneMask a = warp.Predicate(op.operands[1]);
  if constexpr (requires { kF(a); }) {
    warp.SetPredicate(op.operands[0], mask, kF(a));
  } else {
    warp.SetPredicate(op.operands[0], mask,
                      kF(a, warp.Predicate(op.operands[2])));
  }
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
  // The selector that each mode means, by the two lowest bits of c.
  static constexpr uint32_t kSelectors[][4] = {
      {},                                // kSelector
      {0x3210, 0x4321, 0x5432, 0x6543},  // kF4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // kB4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // kRc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // kEcl
      {0x0000, 0x1110, 0x2210, 0x3210},  // kEcr
      {0x1010, 0x3232, 0x1010, 0x3232},  // kRc16
  };
  const auto& selectors = kSelectors[op.variant];
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
    const uint32_t first = position[i] & 0xff;
    const uint32_t count = length[i] & 0xff;
    if (first >= 8 * sizeof(T)) return into[i];
    const uint64_t ones =
        count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    const uint64_t bits = ones << first;
    return static_cast<T>((into[i] & ~bits) |
                          (uint64_t{field[i]} << first & bits));
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
template <class T, auto kF>
void ToWord(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]),
           [=](uint32_t i) { return kF(a[i]); });
}
constexpr auto kCountBits = []<class T>(T a) {
  return static_cast<uint32_t>(sizeof(T) == 4 ? __builtin_popcount(a)
                                              : __builtin_popcountll(a));
};
constexpr auto kCountLeadingZeros = []<class T>(T a) {
  if (a == 0) return static_cast<uint32_t>(8 * sizeof(T));
  return static_cast<uint32_t>(sizeof(T) == 4 ? __builtin_clz(a)
                                              : __builtin_clzll(a));
};
// The highest bit that is not the sign; all ones: there is none.
template <class T, bool kSigned, bool kShift>
struct FindLeadingBit {
  uint32_t operator()(T a) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const T bits =
        kSigned && (a >> (kBits - 1) & 1) != 0 ? static_cast<T>(~a) : a;
    if (bits == 0) return ~0u;
    const uint32_t position = kBits - 1 - kCountLeadingZeros(bits);
    return kShift ? kBits - 1 - position : position;
  }
};
template <class T, bool kSigned>
Handler LeadingBitOf(bool shift) {
  if (shift) return &ToWord<T, FindLeadingBit<T, kSigned, true>{}>;
  return &ToWord<T, FindLeadingBit<T, kSigned, false>{}>;
}

// The position of the n-th set bit of a from b on, upwards or, for a negative n,
// downwards; all ones: there is none.
void FindNthBit(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const int32_t* const n = warp.From<int32_t>(op.operands[3]);
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    const uint32_t base = b[i] & 31;
    if (n[i] == 0) return (a[i] >> base & 1) != 0 ? base : ~0u;
    const bool up = n[i] > 0;
    uint32_t left = up ? a[i] & ~0u << base : a[i] & ~0u >> (31 - base);
    uint32_t count =
        up ? static_cast<uint32_t>(n[i]) : 0 - static_cast<uint32_t>(n[i]);
    for (; left != 0; --count) {
      const auto bit = static_cast<uint32_t>(up ? __builtin_ctz(left)
                                                : 31 - __builtin_clz(left));
      if (count == 1) return bit;
      left &= ~(1u << bit);
    }
    return ~0u;
  });
}

// As many ones as b says, from position a on.
void MakeMask(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const bool wrap = op.variant != 0;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    const uint32_t first = wrap ? a[i] & 31 : a[i];
    const uint32_t count = wrap ? b[i] & 31 : b[i];
    if (first >= 32) return 0u;
    const uint32_t ones = count >= 32 ? ~0u : (1u << count) - 1;
    return ones << first;
  });
}
// The b lowest bits of a; those above are zero, or the sign.
template <bool kSigned>
void ExtendBits(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const bool wrap = op.variant != 0;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    const uint32_t count = wrap ? b[i] & 31 : b[i];
    if (count >= 32) return a[i];
    const uint32_t above = ~0u << count;
    const bool sign = kSigned && count != 0 && (a[i] >> (count - 1) & 1) != 0;
    return sign ? a[i] | above : a[i] & ~above;
  });
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

// Parts of 8 bits have registers of 16.
template <class W, uint32_t kParts>
constexpr uint32_t kPartBits = 8 * sizeof(W) / kParts;

template <class W, class P, uint32_t kParts>
void Pack(const Op& op, Warp& warp, LaneMask mask) {
  W whole[kLanes] = {};
  for (uint32_t part = 0; part < kParts; ++part) {
    const P* const from = warp.From<P>(op.operands[1 + part]);
    for (uint32_t i = 0; i < kLanes; ++i) {
      const W value = kPartBits<W, kParts> == 8 ? from[i] & 0xff : from[i];
      whole[i] |= static_cast<W>(value << (kPartBits<W, kParts> * part));
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
      const auto value =
          static_cast<P>(whole[i] >> (kPartBits<W, kParts> * part));
      return kPartBits<W, kParts> == 8 ? static_cast<P>(value & 0xff) : value;
    });
  }
}

template <auto kF>
Handler Of(const Semantics& s) {
  if (s.type == Type::kPred) return &ApplyToPredicates<kF>;
  return ForBits(s.type, []<class T>() -> Handler { return &Apply<T, kF>; });
}
// Calls f<T>() with a type of 32 or 64 bits.
template <class F>
Handler ForWords(Type type, F f) {
  return ForBits(type, [&]<class T>() -> Handler {
    if constexpr (sizeof(T) == 2)
      return nullptr;
    else
      return f.template operator()<T>();
  });
}
// Packs or unpacks.
template <class W, class P, uint32_t kParts>
Handler PartsOf(const Semantics& s) {
  return s.operation == Operation::kPack ? &Pack<W, P, kParts>
                                         : &Unpack<W, P, kParts>;
}

}  // namespace

Handler FindBits(const Semantics& s) {
  const bool of_32 = s.type != Type::kPred && ptx::BytesOf(s.type) == 4;
  const bool of_64 = s.type != Type::kPred && ptx::BytesOf(s.type) == 8;
  const bool of_128 = s.type == Type::kB128;
  const bool is_signed = IsSigned(s.type);
  switch (s.operation) {
    case Operation::kMove:
      if (of_128) return &Apply<unsigned __int128, kSame>;
      return Of<kSame>(s);
    case Operation::kAnd:
      return Of<kAnd>(s);
    case Operation::kOr:
      return Of<kOr>(s);
    case Operation::kXor:
      return Of<kXor>(s);
    case Operation::kNot:
      return Of<kNot>(s);
    case Operation::kLogicalNot:
      return s.type == Type::kPred ? nullptr : Of<kLogicalNot>(s);
    case Operation::kShiftLeft:
      return ForBits(s.type,
                     []<class T>() -> Handler { return &ShiftLeft<T>; });
    case Operation::kShiftRight:
      return is_signed ? ForWholeNumbers(s.type,
                                         []<class T>() -> Handler {
                                           return &ShiftRight<T, true>;
                                         })
                       : ForBits(s.type, []<class T>() -> Handler {
                           return &ShiftRight<T, false>;
                         });
    case Operation::kFunnelLeft:
      return of_32 ? &Funnel<true> : nullptr;
    case Operation::kFunnelRight:
      return of_32 ? &Funnel<false> : nullptr;
    case Operation::kPermute:
      return of_32 ? &Permute : nullptr;
    case Operation::kLogic3:
      return of_32 ? &Logic3 : nullptr;
    case Operation::kExtractField:
      return ForWords(s.type, [&]<class T>() -> Handler {
        return is_signed ? &ExtractField<T, true> : &ExtractField<T, false>;
      });
    case Operation::kInsertField:
      return ForWords(s.type,
                      []<class T>() -> Handler { return &InsertField<T>; });
    case Operation::kReverseBits:
      return ForWords(s.type,
                      []<class T>() -> Handler { return &ReverseBits<T>; });
    case Operation::kCountBits:
      return ForWords(
          s.type, []<class T>() -> Handler { return &ToWord<T, kCountBits>; });
    case Operation::kCountLeadingZeros:
      return ForWords(s.type, []<class T>() -> Handler {
        return &ToWord<T, kCountLeadingZeros>;
      });
    case Operation::kFindLeadingBit:
      return ForWords(s.type, [&]<class T>() {
        return is_signed ? LeadingBitOf<T, true>(s.variant)
                         : LeadingBitOf<T, false>(s.variant);
      });
    case Operation::kFindNthBit:
      return of_32 ? &FindNthBit : nullptr;
    case Operation::kMakeMask:
      return of_32 ? &MakeMask : nullptr;
    case Operation::kExtendBits:
      if (!of_32) return nullptr;
      return is_signed ? &ExtendBits<true> : &ExtendBits<false>;
    case Operation::kSelect:
      return ForBits(s.type, []<class T>() -> Handler { return &Select<T>; });
    case Operation::kSelectBySign:
      if (s.from != Type::kS32 && s.from != Type::kF32) return nullptr;
      return ForBits(s.type, [&]<class T>() -> Handler {
        return s.from == Type::kS32 ? &SelectBySign<T, int32_t>
                                    : &SelectBySign<T, float>;
      });
    case Operation::kPack:
    case Operation::kUnpack:
      if (of_128) return PartsOf<unsigned __int128, uint64_t, 2>(s);
      if (of_64 && s.elements == 2) return PartsOf<uint64_t, uint32_t, 2>(s);
      if (of_64 && s.elements == 4) return PartsOf<uint64_t, uint16_t, 4>(s);
      if (of_32 && s.elements == 2) return PartsOf<uint32_t, uint16_t, 2>(s);
      if (ptx::BytesOf(s.type) == 2) return PartsOf<uint16_t, uint16_t, 2>(s);
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
