// Whole numbers (PTX ISA 9.7.1, 9.7.2). All arithmetic wraps. As on the
// hardware, a division by zero gives all ones, and its remainder is the
// dividend.
#include "sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

template <class T>
struct Traits;
template <>
struct Traits<uint16_t> {
  using Unsigned = uint16_t;
  using Wide = uint32_t;
  static constexpr bool kSigned = false;
};
template <>
struct Traits<int16_t> {
  using Unsigned = uint16_t;
  using Wide = int32_t;
  static constexpr bool kSigned = true;
};
template <>
struct Traits<uint32_t> {
  using Unsigned = uint32_t;
  using Wide = uint64_t;
  static constexpr bool kSigned = false;
};
template <>
struct Traits<int32_t> {
  using Unsigned = uint32_t;
  using Wide = int64_t;
  static constexpr bool kSigned = true;
};
template <>
struct Traits<uint64_t> {
  using Unsigned = uint64_t;
  using Wide = unsigned __int128;
  static constexpr bool kSigned = false;
};
template <>
struct Traits<int64_t> {
  using Unsigned = uint64_t;
  using Wide = __int128;
  static constexpr bool kSigned = true;
};
template <class T>
using Unsigned = typename Traits<T>::Unsigned;
template <class T>
using Wide = typename Traits<T>::Wide;
template <class T>
constexpr int kBits = 8 * sizeof(T);
template <class T>
constexpr T kLowest = Traits<T>::kSigned
                          ? static_cast<T>(Unsigned<T>{1} << (kBits<T> - 1))
                          : T{0};

// Compute in unsigned or wider types, where C++ defines what an overflow gives.
template <class T>
[[gnu::always_inline]] inline T Sum(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
[[gnu::always_inline]] inline T Low(T a, T b) {
  return static_cast<T>(
      static_cast<Unsigned<T>>(uint64_t{static_cast<Unsigned<T>>(a)} *
                               uint64_t{static_cast<Unsigned<T>>(b)}));
}
template <class T>
[[gnu::always_inline]] inline Wide<T> Product(T a, T b) {
  return static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b);
}
template <class T>
[[gnu::always_inline]] inline T High(T a, T b) {
  return static_cast<T>(Product(a, b) >> kBits<T>);
}
// The 24 lowest bits.
[[gnu::always_inline]] inline int64_t Low24(int32_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8;
}
[[gnu::always_inline]] inline int64_t Low24(uint32_t x) { return x & 0xffffff; }

struct Add {
  template <class T>
  static T Of(T a, T b) {
    return Sum(a, b);
  }
};
struct AddSaturated {
  static int32_t Of(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} + b;
    return sum > INT32_MAX   ? INT32_MAX
           : sum < INT32_MIN ? INT32_MIN
                             : static_cast<int32_t>(sum);
  }
};
struct SubSaturated {
  static int32_t Of(int32_t a, int32_t b) {
    const int64_t difference = int64_t{a} - b;
    return difference > INT32_MAX   ? INT32_MAX
           : difference < INT32_MIN ? INT32_MIN
                                    : static_cast<int32_t>(difference);
  }
};
struct Sub {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct MulLow {
  template <class T>
  static T Of(T a, T b) {
    return Low(a, b);
  }
};
struct MulHigh {
  template <class T>
  static T Of(T a, T b) {
    return High(a, b);
  }
};
struct MadLow {
  template <class T>
  static T Of(T a, T b, T c) {
    return Sum(Low(a, b), c);
  }
};
struct MadHigh {
  template <class T>
  static T Of(T a, T b, T c) {
    return Sum(High(a, b), c);
  }
};
struct Mul24Low {
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(Low24(a) * Low24(b));
  }
};
struct Mul24High {  // bits 47..16 of the product
  template <class T>
  static T Of(T a, T b) {
    return static_cast<T>(Low24(a) * Low24(b) >> 16);
  }
};
template <class Mul>
struct Mad24 {
  template <class T>
  static T Of(T a, T b, T c) {
    return Sum(Mul::Of(a, b), c);
  }
};
struct Div {
  template <class T>
  static T Of(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (Traits<T>::kSigned && b == static_cast<T>(-1)) return Sub::Of(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <class T>
  static T Of(T a, T b) {
    if (b == 0) return a;
    if (Traits<T>::kSigned && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Abs {
  template <class T>
  static T Of(T a) {
    return a < 0 ? Sub::Of(T{0}, a) : a;
  }
};
struct Neg {
  template <class T>
  static T Of(T a) {
    return Sub::Of(T{0}, a);
  }
};
struct Min {
  template <class T>
  static T Of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T Of(T a, T b) {
    return a > b ? a : b;
  }
};
struct SumOfDifferences {
  template <class T>
  static T Of(T a, T b, T c) {
    return Sum(a < b ? Sub::Of(b, a) : Sub::Of(a, b), c);
  }
};

template <class T>
void MulWide(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  ForLanes(mask, warp.To<Wide<T>>(op.operands[0]),
           [=](uint32_t i) { return Product(a[i], b[i]); });
}
template <class T>
void MadWide(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  const auto* const c = warp.From<Wide<T>>(op.operands[3]);
  ForLanes(mask, warp.To<Wide<T>>(op.operands[0]),
           [=](uint32_t i) { return Sum(Product(a[i], b[i]), c[i]); });
}

// add.cc, sub.cc and their like: an unsigned sum or difference of two sources,
// and the carry or borrow. T is unsigned because the sign changes nothing.
template <class T, bool kSubtract>
void WithCarry(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  T* const to = warp.To<T>(op.operands[0]);
  const LaneMask in = (op.variant & kCarryIn) != 0 ? warp.carry : 0;
  LaneMask out = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const T more = in >> lane & 1;
    T result = 0;
    bool carry = false;
    if (kSubtract) {
      carry = __builtin_sub_overflow(a[lane], b[lane], &result);
      carry |= __builtin_sub_overflow(result, more, &result);
    } else {
      carry = __builtin_add_overflow(a[lane], b[lane], &result);
      carry |= __builtin_add_overflow(result, more, &result);
    }
    to[lane] = result;
    out |= static_cast<LaneMask>(carry) << lane;
  }
  if ((op.variant & kCarryOut) != 0) {
    warp.carry = (warp.carry & ~mask) | out;
  }
}
template <class T, bool kHigh>
void MadWithCarry(const Op& op, Warp& warp, LaneMask mask) {
  using U = Unsigned<T>;
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  const U* const c = warp.From<U>(op.operands[3]);
  U* const to = warp.To<U>(op.operands[0]);
  const LaneMask in = (op.variant & kCarryIn) != 0 ? warp.carry : 0;
  LaneMask out = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const U product =
        static_cast<U>(kHigh ? High(a[lane], b[lane]) : Low(a[lane], b[lane]));
    U result = 0;
    bool carry = __builtin_add_overflow(product, c[lane], &result);
    carry |=
        __builtin_add_overflow(result, static_cast<U>(in >> lane & 1), &result);
    to[lane] = result;
    out |= static_cast<LaneMask>(carry) << lane;
  }
  if ((op.variant & kCarryOut) != 0) {
    warp.carry = (warp.carry & ~mask) | out;
  }
}

template <class F>
Handler BinaryOf(Type type) {
  return ForWholeNumbers(type,
                         []<class T>() -> Handler { return &Binary<T, F>; });
}
template <class F>
Handler TernaryOf(Type type) {
  return ForWholeNumbers(type,
                         []<class T>() -> Handler { return &Ternary<T, F>; });
}
bool IsSigned(Type type) {
  return type == Type::kS16 || type == Type::kS32 || type == Type::kS64;
}
template <class F>
Handler UnaryOfSigned(Type type) {
  if (!IsSigned(type)) return nullptr;
  return ForWholeNumbers(type,
                         []<class T>() -> Handler { return &Unary<T, F>; });
}
template <class F>
Handler Of24Bits(Type type) {
  if (type == Type::kU32) return F::template Code<uint32_t>();
  if (type == Type::kS32) return F::template Code<int32_t>();
  return nullptr;
}
template <class F>
struct AsBinary {
  template <class T>
  static Handler Code() {
    return &Binary<T, F>;
  }
};
template <class F>
struct AsTernary {
  template <class T>
  static Handler Code() {
    return &Ternary<T, F>;
  }
};
template <bool kSubtract>
Handler CarryOf(Type type) {
  switch (type) {
    case Type::kU32:
    case Type::kS32:
    case Type::kB32:
      return &WithCarry<uint32_t, kSubtract>;
    case Type::kU64:
    case Type::kS64:
    case Type::kB64:
      return &WithCarry<uint64_t, kSubtract>;
    default:
      return nullptr;
  }
}
template <bool kHigh>
Handler MadCarryOf(Type type) {
  switch (type) {
    case Type::kU32:
      return &MadWithCarry<uint32_t, kHigh>;
    case Type::kS32:
      return &MadWithCarry<int32_t, kHigh>;
    case Type::kU64:
      return &MadWithCarry<uint64_t, kHigh>;
    case Type::kS64:
      return &MadWithCarry<int64_t, kHigh>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler FindInteger(const Semantics& s) {
  if (s.saturate) {
    if (s.type != Type::kS32) return nullptr;
    if (s.operation == Operation::kAdd) return &Binary<int32_t, AddSaturated>;
    if (s.operation == Operation::kSub) return &Binary<int32_t, SubSaturated>;
    return nullptr;
  }
  switch (s.operation) {
    case Operation::kAdd:
      return BinaryOf<Add>(s.type);
    case Operation::kSub:
      return BinaryOf<Sub>(s.type);
    case Operation::kMulLow:
      return BinaryOf<MulLow>(s.type);
    case Operation::kMulHigh:
      return BinaryOf<MulHigh>(s.type);
    case Operation::kMulWide:
      if (ptx::BytesOf(s.type) == 8) return nullptr;
      return ForWholeNumbers(s.type, []<class T>() -> Handler {
        if constexpr (sizeof(T) == 8)
          return nullptr;
        else
          return &MulWide<T>;
      });
    case Operation::kMadLow:
      return TernaryOf<MadLow>(s.type);
    case Operation::kMadHigh:
      return TernaryOf<MadHigh>(s.type);
    case Operation::kMadWide:
      return ForWholeNumbers(s.type, []<class T>() -> Handler {
        if constexpr (sizeof(T) == 8)
          return nullptr;
        else
          return &MadWide<T>;
      });
    case Operation::kMul24Low:
      return Of24Bits<AsBinary<Mul24Low>>(s.type);
    case Operation::kMul24High:
      return Of24Bits<AsBinary<Mul24High>>(s.type);
    case Operation::kMad24Low:
      return Of24Bits<AsTernary<Mad24<Mul24Low>>>(s.type);
    case Operation::kMad24High:
      return Of24Bits<AsTernary<Mad24<Mul24High>>>(s.type);
    case Operation::kAddCarry:
      return CarryOf<false>(s.type);
    case Operation::kSubCarry:
      return CarryOf<true>(s.type);
    case Operation::kMadLowCarry:
      return MadCarryOf<false>(s.type);
    case Operation::kMadHighCarry:
      return MadCarryOf<true>(s.type);
    case Operation::kSumOfDifferences:
      return TernaryOf<SumOfDifferences>(s.type);
    case Operation::kDiv:
      return BinaryOf<Div>(s.type);
    case Operation::kRem:
      return BinaryOf<Rem>(s.type);
    case Operation::kAbs:
      return UnaryOfSigned<Abs>(s.type);
    case Operation::kNeg:
      return UnaryOfSigned<Neg>(s.type);
    case Operation::kMin:
      return BinaryOf<Min>(s.type);
    case Operation::kMax:
      return BinaryOf<Max>(s.type);
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
