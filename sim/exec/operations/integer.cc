// Whole numbers (PTX ISA 9.7.1, 9.7.2). All arithmetic wraps. As on the
// hardware, a division by zero gives all ones, and its remainder is the
// dividend.
#include <type_traits>

#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T, class S, class U>
using SignedLike = std::conditional_t<std::is_signed_v<T>, S, U>;
// Of twice as many bits as T.
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, SignedLike<T, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, SignedLike<T, int64_t, uint64_t>,
                       SignedLike<T, __int128, unsigned __int128>>>;

// Compute in unsigned or wider types, where C++ defines what an overflow gives.
constexpr auto kAdd = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
};
constexpr auto kSub = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
};
constexpr auto kMulLow = []<class T>(T a, T b) {
  return static_cast<T>(
      static_cast<Unsigned<T>>(uint64_t{static_cast<Unsigned<T>>(a)} *
                               uint64_t{static_cast<Unsigned<T>>(b)}));
};
constexpr auto kProduct = []<class T>(T a, T b) {
  return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
};
constexpr auto kMulHigh = []<class T>(T a, T b) {
  return static_cast<T>(kProduct(a, b) >> 8 * sizeof(T));
};
constexpr auto kMadLow = []<class T>(T a, T b, T c) {
  return kAdd(kMulLow(a, b), c);
};
constexpr auto kMadHigh = []<class T>(T a, T b, T c) {
  return kAdd(kMulHigh(a, b), c);
};

constexpr auto kClamp = [](int64_t x) {
  return static_cast<int32_t>(x > INT32_MAX   ? INT32_MAX
                              : x < INT32_MIN ? INT32_MIN
                                              : x);
};
constexpr auto kAddSaturated = [](int32_t a, int32_t b) {
  return kClamp(int64_t{a} + b);
};
constexpr auto kSubSaturated = [](int32_t a, int32_t b) {
  return kClamp(int64_t{a} - b);
};

// The 24 lowest bits.
[[gnu::always_inline]] inline int64_t Low24(int32_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8;
}
[[gnu::always_inline]] inline int64_t Low24(uint32_t x) { return x & 0xffffff; }
constexpr auto kMul24Low = []<class T>(T a, T b) {
  return static_cast<T>(Low24(a) * Low24(b));
};
// Bits 47..16 of the product.
constexpr auto kMul24High = []<class T>(T a, T b) {
  return static_cast<T>(Low24(a) * Low24(b) >> 16);
};
constexpr auto kMad24Low = []<class T>(T a, T b, T c) {
  return kAdd(kMul24Low(a, b), c);
};
constexpr auto kMad24High = []<class T>(T a, T b, T c) {
  return kAdd(kMul24High(a, b), c);
};

constexpr auto kNeg = []<class T>(T a) { return kSub(T{0}, a); };
constexpr auto kAbs = []<class T>(T a) { return a < 0 ? kNeg(a) : a; };
constexpr auto kDiv = []<class T>(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return kNeg(a);
  return static_cast<T>(a / b);
};
constexpr auto kRem = []<class T>(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
  return static_cast<T>(a % b);
};
constexpr auto kMin = []<class T>(T a, T b) { return a < b ? a : b; };
constexpr auto kMax = []<class T>(T a, T b) { return a > b ? a : b; };
constexpr auto kMinRectified = [](int32_t a, int32_t b) {
  return kMax(kMin(a, b), 0);
};
constexpr auto kMaxRectified = [](int32_t a, int32_t b) {
  return kMax(kMax(a, b), 0);
};
constexpr auto kSumOfDifferences = []<class T>(T a, T b, T c) {
  return kAdd(a < b ? kSub(b, a) : kSub(a, b), c);
};

template <class T, bool kMad>
void MulWide(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  Wide<T>* const to = warp.To<Wide<T>>(op.operands[0]);
  if constexpr (kMad) {
    const auto* const c = warp.From<Wide<T>>(op.operands[3]);
    ForLanes(mask, to,
             [=](uint32_t i) { return kAdd(kProduct(a[i], b[i]), c[i]); });
  } else {
    ForLanes(mask, to, [=](uint32_t i) { return kProduct(a[i], b[i]); });
  }
}

// An unsigned sum or difference of a(lane) and b[lane], and the carry or
// borrow: of add.cc, sub.cc and their like.
template <class T, bool kSubtract, class A>
[[gnu::always_inline]] inline void WithCarry(const Op& op, Warp& warp,
                                             LaneMask mask, A a, const T* b) {
  T* const to = warp.To<T>(op.operands[0]);
  const LaneMask in = (op.variant & kCarryIn) != 0 ? warp.carry : 0;
  LaneMask out = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const T more = in >> lane & 1;
    T result = 0;
    bool carry = false;
    if (kSubtract) {
      carry = __builtin_sub_overflow(a(lane), b[lane], &result);
      carry |= __builtin_sub_overflow(result, more, &result);
    } else {
      carry = __builtin_add_overflow(a(lane), b[lane], &result);
      carry |= __builtin_add_overflow(result, more, &result);
    }
    to[lane] = result;
    out |= static_cast<LaneMask>(carry) << lane;
  }
  if ((op.variant & kCarryOut) != 0) {
    warp.carry = (warp.carry & ~mask) | out;
  }
}
// T is unsigned because the sign changes nothing.
template <class T, bool kSubtract>
void AddCarry(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  WithCarry<T, kSubtract>(
      op, warp, mask, [=](uint32_t lane) { return a[lane]; },
      warp.From<T>(op.operands[2]));
}
template <class T, auto kMul>
void MadCarry(const Op& op, Warp& warp, LaneMask mask) {
  using U = Unsigned<T>;
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  WithCarry<U, false>(
      op, warp, mask,
      [=](uint32_t lane) { return static_cast<U>(kMul(a[lane], b[lane])); },
      warp.From<U>(op.operands[3]));
}

// A part of the word; the highest bit of a signed one is its sign.
[[gnu::always_inline]] inline int32_t PartOf(uint32_t word, uint32_t part,
                                             uint32_t bits, bool is_signed) {
  const uint32_t above = 32 - bits;
  const uint32_t top = word >> (part * bits) << above;
  return is_signed ? static_cast<int32_t>(top) >> above
                   : static_cast<int32_t>(top >> above);
}
// Adds the products of a's parts with as many bytes of b to c.
template <uint32_t kParts>
void DotProduct(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const uint32_t* const b = warp.From<uint32_t>(op.operands[2]);
  const uint32_t* const c = warp.From<uint32_t>(op.operands[3]);
  const bool signed_a = (op.variant & kSignedA) != 0;
  const bool signed_b = (op.variant & kSignedB) != 0;
  const uint32_t first = (op.variant & kUpperB) != 0 ? 2 : 0;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t i) {
    uint32_t sum = c[i];
    for (uint32_t part = 0; part < kParts; ++part) {
      sum += static_cast<uint32_t>(PartOf(a[i], part, 32 / kParts, signed_a) *
                                   PartOf(b[i], first + part, 8, signed_b));
    }
    return sum;
  });
}
template <uint32_t kParts>
Handler DotProductOf(const Semantics&) {
  return &DotProduct<kParts>;
}

template <auto kF>
Handler Of(const Semantics& s) {
  return ForWholeNumbers(s.type,
                         []<class T>() -> Handler { return &Apply<T, kF>; });
}
template <auto kF>
Handler OfSigned(const Semantics& s) {
  return IsSigned(s.type) ? Of<kF>(s) : nullptr;
}
template <auto kF>
Handler Of32Bits(const Semantics& s) {
  if (s.type == Type::kU32) return &Apply<uint32_t, kF>;
  return s.type == Type::kS32 ? &Apply<int32_t, kF> : nullptr;
}
template <bool kMad>
Handler WideOf(const Semantics& s) {
  return ForWholeNumbers(s.type, []<class T>() -> Handler {
    if constexpr (sizeof(T) == 8)
      return nullptr;
    else
      return &MulWide<T, kMad>;
  });
}
template <bool kSubtract>
Handler AddCarryOf(const Semantics& s) {
  if (s.type == Type::kB32) return &AddCarry<uint32_t, kSubtract>;
  if (s.type == Type::kB64) return &AddCarry<uint64_t, kSubtract>;
  return ForWholeNumbers(s.type, []<class T>() -> Handler {
    return sizeof(T) == 2 ? nullptr : &AddCarry<Unsigned<T>, kSubtract>;
  });
}
template <auto kMul>
Handler MadCarryOf(const Semantics& s) {
  return ForWholeNumbers(s.type, []<class T>() -> Handler {
    return sizeof(T) == 2 ? nullptr : &MadCarry<T, kMul>;
  });
}

constexpr Finder kFinders[] = {
    {Operation::kAdd, &Of<kAdd>},
    {Operation::kSub, &Of<kSub>},
    {Operation::kMulLow, &Of<kMulLow>},
    {Operation::kMulHigh, &Of<kMulHigh>},
    {Operation::kMulWide, &WideOf<false>},
    {Operation::kMadLow, &Of<kMadLow>},
    {Operation::kMadHigh, &Of<kMadHigh>},
    {Operation::kMadWide, &WideOf<true>},
    {Operation::kMul24Low, &Of32Bits<kMul24Low>},
    {Operation::kMul24High, &Of32Bits<kMul24High>},
    {Operation::kMad24Low, &Of32Bits<kMad24Low>},
    {Operation::kMad24High, &Of32Bits<kMad24High>},
    {Operation::kAddCarry, &AddCarryOf<false>},
    {Operation::kSubCarry, &AddCarryOf<true>},
    {Operation::kMadLowCarry, &MadCarryOf<kMulLow>},
    {Operation::kMadHighCarry, &MadCarryOf<kMulHigh>},
    {Operation::kSumOfDifferences, &Of<kSumOfDifferences>},
    {Operation::kDotProduct4, &DotProductOf<4>},
    {Operation::kDotProduct2, &DotProductOf<2>},
    {Operation::kDiv, &Of<kDiv>},
    {Operation::kRem, &Of<kRem>},
    {Operation::kAbs, &OfSigned<kAbs>},
    {Operation::kNeg, &OfSigned<kNeg>},
    {Operation::kMin, &Of<kMin>},
    {Operation::kMax, &Of<kMax>},
};

}  // namespace

Handler FindInteger(const Semantics& s) {
  if (s.saturate) {
    if (s.type != Type::kS32) return nullptr;
    if (s.operation == Operation::kAdd) return &Apply<int32_t, kAddSaturated>;
    if (s.operation == Operation::kSub) return &Apply<int32_t, kSubSaturated>;
    return nullptr;
  }
  if (s.relu) {
    if (s.type != Type::kS32) return nullptr;
    if (s.operation == Operation::kMin) return &Apply<int32_t, kMinRectified>;
    if (s.operation == Operation::kMax) return &Apply<int32_t, kMaxRectified>;
    return nullptr;
  }
  return FindIn(kFinders, s);
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
