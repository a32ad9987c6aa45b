// cvt (PTX ISA 9.7.9.22). To whole numbers it saturates; a NaN becomes 0 or, where
// one of the two types has 64 bits, the highest bit alone.
#include <cmath>
#include <limits>

#include "sim/exec/operations/half.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// --- Rounding.

template <class T>
[[gnu::always_inline]] inline T Integral(T x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearest:
      return std::nearbyint(x);  // the host's is to nearest even
    case Rounding::kZero:
      return std::trunc(x);
    case Rounding::kDown:
      return std::floor(x);
    case Rounding::kUp:
      return std::ceil(x);
  }
  return x;
}

template <class D, class S>
[[gnu::always_inline]] inline D ToWhole(S x, Rounding rounding) {
  const S whole = Integral(x, rounding);
  // 2^digits, exactly, is the first that is too large.
  constexpr int kDigits = std::numeric_limits<D>::digits;
  constexpr S kBeyond = kDigits == 64 ? S{0x1p64}
                        : kDigits == 63
                            ? S{0x1p63}
                            : static_cast<S>(uint64_t{1} << kDigits);
  constexpr D kNan = static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1));
  constexpr S kLowest = static_cast<S>(std::numeric_limits<D>::lowest());
  if (whole != whole) {
    return sizeof(S) == 8 || sizeof(D) == 8 ? kNan : D{0};
  }
  if (whole >= kBeyond) return std::numeric_limits<D>::max();
  if (whole < kLowest) return std::numeric_limits<D>::lowest();
  return static_cast<D>(whole);
}

// Rounds x to a float of fewer digits in the given direction. `nearest` is the
// host's conversion, which rounds to nearest.
template <class D, class S>
[[gnu::always_inline]] inline D Directed(S x, D nearest, int compare,
                                         Rounding rounding) {
  // `compare` says how nearest compares with x: -1, 0 or 1.
  const D infinity = std::numeric_limits<D>::infinity();
  switch (rounding) {
    case Rounding::kNearest:
      return nearest;
    case Rounding::kDown:
      return compare > 0 ? std::nextafter(nearest, -infinity) : nearest;
    case Rounding::kUp:
      return compare < 0 ? std::nextafter(nearest, infinity) : nearest;
    case Rounding::kZero: {
      const bool beyond = x < S{0} ? compare < 0 : compare > 0;
      return beyond ? std::nextafter(nearest, D{0}) : nearest;
    }
  }
  return nearest;
}

template <class D, class S>
[[gnu::always_inline]] inline int CompareWhole(D nearest, S x) {
  // Both convert exactly: a long double has more than 64 bits of fraction.
  const auto a = static_cast<long double>(nearest);
  const auto b = static_cast<long double>(x);
  return a < b ? -1 : a > b ? 1 : 0;
}

// --- Floats to floats.

template <class D, class S>
[[gnu::always_inline]] inline D Converted(S x, uint8_t modifiers) {
  const auto rounding = static_cast<Rounding>(modifiers & kRoundingBits);
  const bool flush = (modifiers & kFlushBit) != 0;
  if (sizeof(S) == 4 && flush) x = static_cast<S>(Flushed(x));
  D result{};
  if constexpr (sizeof(D) == sizeof(S)) {
    result = (modifiers & kIntegralBit) != 0 ? Integral(x, rounding) : x;
    result = CanonicalOf(result, x);
  } else if constexpr (sizeof(D) > sizeof(S)) {
    result = static_cast<D>(x);
  } else {
    result = Canonical(static_cast<D>(x));
    if (x == x) {
      const S back = static_cast<S>(result);
      result = Directed(x, result, back < x ? -1 : back > x ? 1 : 0, rounding);
    }
  }
  if ((modifiers & kSaturateBit) != 0) result = Saturated(result);
  if (sizeof(D) == 4 && flush) result = static_cast<D>(Flushed(result));
  return result;
}

// For the common conversions the compiler knows the modifiers
// (ModifierVariant()).
constexpr uint8_t kAnyModifiers = 0xff;
template <class D, class S, uint8_t kModifiers>
void FloatFromFloat(const Op& op, Warp& warp, LaneMask mask) {
  const uint8_t modifiers =
      kModifiers == kAnyModifiers ? op.variant : kModifiers;
  const S* const from = warp.From<S>(op.operands[1]);
  ForLanes(mask, warp.To<D>(op.operands[0]),
           [=](uint32_t i) { return Converted<D>(from[i], modifiers); });
}

// --- Common conversions of whole numbers, in registers of their own sizes.

// Converts from register type F, which holds a T, to register type R. The bits
// of R beyond T repeat T's sign.
template <class R, class T, class F>
void Extend(const Op& op, Warp& warp, LaneMask mask) {
  const F* const from = warp.From<F>(op.operands[1]);
  ForLanes(mask, warp.To<R>(op.operands[0]),
           [=](uint32_t i) { return static_cast<R>(static_cast<T>(from[i])); });
}
template <class D, class S>
void NearestFromWhole(const Op& op, Warp& warp, LaneMask mask) {
  const S* const from = warp.From<S>(op.operands[1]);
  ForLanes(mask, warp.To<D>(op.operands[0]),
           [=](uint32_t i) { return static_cast<D>(from[i]); });
}
template <class D, class S, Rounding kRounding>
void WholeFromFloat(const Op& op, Warp& warp, LaneMask mask) {
  const S* const from = warp.From<S>(op.operands[1]);
  ForLanes(mask, warp.To<D>(op.operands[0]),
           [=](uint32_t i) { return ToWhole<D>(from[i], kRounding); });
}

// --- All other conversions of whole numbers go through 64 bits, which hold
// each of them.

struct Wide {
  uint64_t of[kLanes];
};

// Keeps the lowest bits and copies their sign into all bits above.
void Wrap(WholeNumber type, Wide& x) {
  const uint32_t above = 64 - type.bits;
  for (uint64_t& value : x.of) {
    value <<= above;
    value = type.is_signed
                ? static_cast<uint64_t>(static_cast<int64_t>(value) >> above)
                : value >> above;
  }
}
template <class F>
[[gnu::always_inline]] inline void Copy(const F* from, Wide& x) {
  for (uint32_t i = 0; i < kLanes; ++i) x.of[i] = from[i];
}
Wide Read(Warp& warp, Slot slot, WholeNumber type) {
  Wide x;
  if (type.register_bytes == 2) {
    Copy(warp.From<uint16_t>(slot), x);
  } else if (type.register_bytes == 4) {
    Copy(warp.From<uint32_t>(slot), x);
  } else {
    Copy(warp.From<uint64_t>(slot), x);
  }
  Wrap(type, x);
  return x;
}
template <class R>
[[gnu::always_inline]] inline void WriteAs(Warp& warp, LaneMask mask, Slot slot,
                                           const Wide& x) {
  ForLanes(mask, warp.To<R>(slot),
           [&](uint32_t i) { return static_cast<R>(x.of[i]); });
}
void Write(Warp& warp, LaneMask mask, Slot slot, WholeNumber type,
           const Wide& x) {
  if (type.register_bytes == 2) {
    WriteAs<uint16_t>(warp, mask, slot, x);
  } else if (type.register_bytes == 4) {
    WriteAs<uint32_t>(warp, mask, slot, x);
  } else {
    WriteAs<uint64_t>(warp, mask, slot, x);
  }
}

uint64_t Most(WholeNumber type) {
  return ~uint64_t{0} >> (64 - type.bits + (type.is_signed ? 1 : 0));
}
uint64_t Least(WholeNumber type) { return type.is_signed ? ~Most(type) : 0; }

void AnyWholeFromWhole(const Op& op, Warp& warp, LaneMask mask) {
  Wide x = Read(warp, op.operands[1], op.from);
  if ((op.variant & kSaturateBit) == 0) {
    Wrap(op.to, x);
  } else if (op.from.is_signed) {
    const auto least = static_cast<int64_t>(Least(op.to));
    const auto most = static_cast<int64_t>(Most(op.to) & INT64_MAX);
    for (uint64_t& value : x.of) {
      const auto number = static_cast<int64_t>(value);
      value = static_cast<uint64_t>(number < least  ? least
                                    : number > most ? most
                                                    : number);
    }
  } else {
    const uint64_t most = Most(op.to);
    for (uint64_t& value : x.of) value = value < most ? value : most;
  }
  Write(warp, mask, op.operands[0], op.to, x);
}

template <class S>
void AnyWholeFromFloat(const Op& op, Warp& warp, LaneMask mask) {
  const S* const from = warp.From<S>(op.operands[1]);
  const auto rounding = static_cast<Rounding>(op.variant & kRoundingBits);
  const bool flush = sizeof(S) == 4 && (op.variant & kFlushBit) != 0;
  const uint64_t most = Most(op.to);
  const uint64_t least = Least(op.to);
  // The first that is too large, exactly.
  const double beyond = 2 * static_cast<double>(most / 2 + 1);
  const double lowest = op.to.is_signed ? -beyond : 0;
  uint64_t nan = 0;
  if (sizeof(S) == 8 || op.to.bits == 64) {
    nan = op.to.is_signed ? least : most / 2 + 1;
  }
  Wide x;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const double whole =
        Integral(ToDouble(flush ? Flushed(from[i]) : from[i]), rounding);
    if (whole != whole) {
      x.of[i] = nan;
    } else if (whole >= beyond) {
      x.of[i] = most;
    } else if (whole < lowest) {
      x.of[i] = least;
    } else {
      x.of[i] = whole < 0 ? static_cast<uint64_t>(static_cast<int64_t>(whole))
                          : static_cast<uint64_t>(whole);
    }
  }
  Write(warp, mask, op.operands[0], op.to, x);
}

template <class D, class S>
[[gnu::always_inline]] inline D FromWhole(S x, uint8_t modifiers) {
  const auto rounding = static_cast<Rounding>(modifiers & kRoundingBits);
  D result = static_cast<D>(x);
  if (rounding != Rounding::kNearest) {
    result = Directed(x, result, CompareWhole(result, x), rounding);
  }
  return (modifiers & kSaturateBit) != 0 ? Saturated(result) : result;
}
template <class D>
void AnyFloatFromWhole(const Op& op, Warp& warp, LaneMask mask) {
  const Wide x = Read(warp, op.operands[1], op.from);
  const uint8_t modifiers = op.variant;
  const bool is_signed = op.from.is_signed;
  ForLanes(mask, warp.To<D>(op.operands[0]), [&](uint32_t i) {
    return is_signed ? FromWhole<D>(static_cast<int64_t>(x.of[i]), modifiers)
                     : FromWhole<D>(x.of[i], modifiers);
  });
}

// --- f16 and bf16.

// Applies what comes after the conversion to a double, and rounds.
template <class H>
[[gnu::always_inline]] inline H ToHalf(double x, uint8_t modifiers) {
  if ((modifiers & kSaturateBit) != 0) x = Saturated(x);
  const H half =
      Rounded<H>(x, static_cast<Rounding>(modifiers & kRoundingBits));
  return (modifiers & kReluBit) != 0 ? Rectified(half) : half;
}
template <class S>
[[gnu::always_inline]] inline double ValueOf(S x, uint8_t modifiers) {
  // .ftz is about singles only.
  if constexpr (std::is_same_v<S, float>) {
    if ((modifiers & kFlushBit) != 0) x = Flushed(x);
  }
  return ToDouble(x);
}
template <class H, class S>
void HalfFromFloat(const Op& op, Warp& warp, LaneMask mask) {
  const uint8_t modifiers = op.variant;
  const S* const from = warp.From<S>(op.operands[1]);
  ForLanes(mask, warp.To<H>(op.operands[0]), [=](uint32_t i) {
    double x = ValueOf(from[i], modifiers);
    if ((modifiers & kIntegralBit) != 0) {
      x = Integral(x, static_cast<Rounding>(modifiers & kRoundingBits));
    }
    return ToHalf<H>(x, modifiers);
  });
}
// The second source becomes the lower one.
template <class H>
void PairFromSingles(const Op& op, Warp& warp, LaneMask mask) {
  const uint8_t modifiers = op.variant;
  const float* const high = warp.From<float>(op.operands[1]);
  const float* const low = warp.From<float>(op.operands[2]);
  ForLanes(mask, warp.To<Halves<H, 2>>(op.operands[0]), [=](uint32_t i) {
    return Halves<H, 2>{ToHalf<H>(ValueOf(low[i], modifiers), modifiers),
                        ToHalf<H>(ValueOf(high[i], modifiers), modifiers)};
  });
}
// Exact.
template <class D, class H>
void FloatFromHalf(const Op& op, Warp& warp, LaneMask mask) {
  const uint8_t modifiers = op.variant;
  const H* const from = warp.From<H>(op.operands[1]);
  ForLanes(mask, warp.To<D>(op.operands[0]), [=](uint32_t i) {
    auto x = static_cast<D>(Canonical(ToSingle(from[i])));
    if ((modifiers & kSaturateBit) != 0) x = Saturated(x);
    return (modifiers & kFlushBit) != 0 ? Flushed(x) : x;
  });
}
template <class H>
void HalfFromWhole(const Op& op, Warp& warp, LaneMask mask) {
  const Wide x = Read(warp, op.operands[1], op.from);
  const uint8_t modifiers = op.variant;
  const bool is_signed = op.from.is_signed;
  ForLanes(mask, warp.To<H>(op.operands[0]), [&](uint32_t i) {
    return ToHalf<H>(
        is_signed ? OddOf(static_cast<int64_t>(x.of[i])) : OddOf(x.of[i]),
        modifiers);
  });
}

// --- Finding the code of a conversion.

template <class D, class S>
Handler FindFloatFromFloat(uint8_t modifiers) {
  return modifiers == 0 ? &FloatFromFloat<D, S, 0>
                        : &FloatFromFloat<D, S, kAnyModifiers>;
}

template <class R, class F>
Handler FindExtend(WholeNumber type) {
  if (type.bits >= 8 * sizeof(R)) return &Extend<R, R, F>;
  if (type.bits == 8) {
    return type.is_signed ? &Extend<R, int8_t, F> : &Extend<R, uint8_t, F>;
  }
  if constexpr (sizeof(R) > 2) {
    if (type.bits == 16) {
      return type.is_signed ? &Extend<R, int16_t, F> : &Extend<R, uint16_t, F>;
    }
  }
  if constexpr (sizeof(R) > 4 && sizeof(F) > 2) {
    if (type.bits == 32) {
      return type.is_signed ? &Extend<R, int32_t, F> : &Extend<R, uint32_t, F>;
    }
  }
  return nullptr;
}
template <class R>
Handler FindExtendTo(WholeNumber type, uint8_t from_bytes) {
  switch (from_bytes) {
    case 2:
      return FindExtend<R, uint16_t>(type);
    case 4:
      return FindExtend<R, uint32_t>(type);
    default:
      return FindExtend<R, uint64_t>(type);
  }
}
Handler FindWholeFromWhole(WholeNumber to, WholeNumber from,
                           uint8_t modifiers) {
  if ((modifiers & ~kSaturateBit) != 0) return nullptr;
  // The result would need two sign extensions, one above the other.
  const bool twice = from.bits < to.bits && from.is_signed && !to.is_signed &&
                     to.register_bytes * 8 > to.bits;
  if (modifiers != 0 || twice) return &AnyWholeFromWhole;
  const WholeNumber type = to.bits <= from.bits ? to : from;
  switch (to.register_bytes) {
    case 2:
      return FindExtendTo<uint16_t>(type, from.register_bytes);
    case 4:
      return FindExtendTo<uint32_t>(type, from.register_bytes);
    default:
      return FindExtendTo<uint64_t>(type, from.register_bytes);
  }
}

// Calls f<T>() for a type of 32 or 64 bits in a register of its size.
template <class F>
Handler ForCommon(WholeNumber type, F f) {
  if (type.bits != 8 * type.register_bytes) return nullptr;
  if (type.bits == 32) {
    return type.is_signed ? f.template operator()<int32_t>()
                          : f.template operator()<uint32_t>();
  }
  if (type.bits == 64) {
    return type.is_signed ? f.template operator()<int64_t>()
                          : f.template operator()<uint64_t>();
  }
  return nullptr;
}
template <class S>
Handler FindWholeFromFloat(WholeNumber to, uint8_t modifiers) {
  const Handler common = ForCommon(to, [&]<class D>() -> Handler {
    if (modifiers == static_cast<uint8_t>(Rounding::kNearest)) {
      return &WholeFromFloat<D, S, Rounding::kNearest>;
    }
    if (modifiers == static_cast<uint8_t>(Rounding::kZero)) {
      return &WholeFromFloat<D, S, Rounding::kZero>;
    }
    return nullptr;
  });
  return common != nullptr ? common : &AnyWholeFromFloat<S>;
}
template <class D>
Handler FindFloatFromWhole(WholeNumber from, uint8_t modifiers) {
  const Handler common = ForCommon(from, [&]<class S>() -> Handler {
    return modifiers == 0 ? &NearestFromWhole<D, S> : nullptr;
  });
  return common != nullptr ? common : &AnyFloatFromWhole<D>;
}

bool IsHalf(Type type) { return type >= Type::kF16 && type <= Type::kBf16x2; }

Handler FindToHalf(const Semantics& s) {
  const bool from_half = IsHalf(s.from);
  const bool from_single = s.from == Type::kF32;
  if ((s.flush || s.relu) && !from_single) return nullptr;
  if (s.integral && s.from != s.type) return nullptr;
  if (s.saturate && (s.type == Type::kBf16 || s.relu)) return nullptr;
  return ForHalves(s.type, [&]<class H, size_t kCount>() -> Handler {
    if constexpr (kCount == 2) {
      const bool fits = from_single && !s.flush && !s.saturate &&
                        s.rounding <= Rounding::kZero;
      return fits ? &PairFromSingles<H> : nullptr;
    } else if (from_half) {
      return ForHalves(s.from, []<class S, size_t kFrom>() -> Handler {
        return kFrom == 1 ? &HalfFromFloat<H, S> : nullptr;
      });
    } else if (from_single || s.from == Type::kF64) {
      return ForFloats(
          s.from, []<class S>() -> Handler { return &HalfFromFloat<H, S>; });
    } else {
      return ConvertFrom(s).bits != 0 ? &HalfFromWhole<H> : nullptr;
    }
  });
}
Handler FindFromHalf(const Semantics& s) {
  if (s.relu || s.integral) return nullptr;
  return ForHalves(s.from, [&]<class H, size_t kCount>() -> Handler {
    if (kCount == 2) return nullptr;
    if (s.type == Type::kF32 || s.type == Type::kF64) {
      const bool single = s.type == Type::kF32;
      if (s.rounding != Rounding::kNearest || (s.flush && !single)) {
        return nullptr;
      }
      return ForFloats(
          s.type, []<class D>() -> Handler { return &FloatFromHalf<D, H>; });
    }
    const bool whole = ConvertTo(s).bits != 0 && !s.flush;
    return whole ? &AnyWholeFromFloat<H> : nullptr;
  });
}

}  // namespace

Handler FindConvert(const Semantics& s) {
  if (s.operation != Operation::kConvert) return nullptr;
  if (IsHalf(s.type)) return FindToHalf(s);
  if (IsHalf(s.from)) return FindFromHalf(s);
  if (s.relu) return nullptr;
  const uint8_t modifiers = ModifierVariant(s);
  const WholeNumber to = ConvertTo(s);
  const WholeNumber from = ConvertFrom(s);
  const bool to_float = s.type == Type::kF32 || s.type == Type::kF64;
  const bool from_float = s.from == Type::kF32 || s.from == Type::kF64;
  if (!from_float && from.bits == 0) return nullptr;
  if (!to_float && to.bits == 0) return nullptr;
  // A float's register has its size.
  if (from_float && s.from_bytes != ptx::BytesOf(s.from)) return nullptr;
  if (to_float && s.register_bytes != ptx::BytesOf(s.type)) return nullptr;
  if (!to_float && !from_float) return FindWholeFromWhole(to, from, modifiers);
  return ForFloats(from_float ? s.from : s.type, [&]<class T>() -> Handler {
    if (!from_float) return FindFloatFromWhole<T>(from, modifiers);
    if (!to_float) return FindWholeFromFloat<T>(to, modifiers);
    return s.type == Type::kF32 ? FindFloatFromFloat<float, T>(modifiers)
                                : FindFloatFromFloat<double, T>(modifiers);
  });
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
