// cvt (PTX ISA 9.7.9.22). To whole numbers it saturates, and a NaN becomes 0.
#include <cmath>
#include <limits>

#include "gpu_daemon/backends/sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// --- f16: IEEE binary16, in its bits.

[[gnu::always_inline]] inline float HalfToSingle(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    return __builtin_bit_cast(float, sign | 0x7f800000u | fraction << 13);
  }
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return __builtin_bit_cast(float,
                            sign | (exponent + 112) << 23 | fraction << 13);
}

// Of any finite double, rounded once.
uint16_t ToHalf(double value, Rounding rounding) {
  if (value != value) return 0x7fff;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  const bool away = (rounding == Rounding::kUp && sign == 0) ||
                    (rounding == Rounding::kDown && sign != 0);
  if (magnitude == std::numeric_limits<double>::infinity()) {
    return sign | 0x7c00;
  }
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  // The step between neighbours here.
  const int step = exponent - 11 < -24 ? -24 : exponent - 11;
  const double steps = std::ldexp(magnitude, -step);
  double whole = std::floor(steps);
  const double rest = steps - whole;
  if (rounding == Rounding::kNearest) {
    if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0)) whole += 1;
  } else if (away && rest > 0) {
    whole += 1;
  }
  const double rounded = std::ldexp(whole, step);
  if (rounded >= 65536) {
    const bool infinite = rounding == Rounding::kNearest || away;
    return sign | (infinite ? 0x7c00 : 0x7bff);
  }
  if (rounded < 0x1p-14) {
    return sign | static_cast<uint16_t>(std::ldexp(rounded, 24));
  }
  std::frexp(rounded, &exponent);
  const auto fraction =
      static_cast<uint16_t>(std::ldexp(rounded, 11 - exponent)) & 0x3ff;
  return static_cast<uint16_t>(sign | (exponent + 14) << 10 | fraction);
}

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
  constexpr S kLeast = static_cast<S>(std::numeric_limits<D>::lowest());
  if (whole != whole) return 0;
  if (whole >= kBeyond) return std::numeric_limits<D>::max();
  if (whole < kLeast) return std::numeric_limits<D>::lowest();
  return static_cast<D>(whole);
}

// x to a float of fewer digits, toward the direction. `nearest` is what the
// host makes of it.
template <class D, class S>
[[gnu::always_inline]] inline D Directed(S x, D nearest, int compare,
                                         Rounding rounding) {
  // compare: of nearest with x, -1, 0 or 1.
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
  // Both exactly, in 80 bits and more than 64 of them in the fraction.
  const auto a = static_cast<long double>(nearest);
  const auto b = static_cast<long double>(x);
  return a < b ? -1 : a > b ? 1 : 0;
}

template <class D, class S>
constexpr bool kFloats =
    std::is_floating_point_v<D>&& std::is_floating_point_v<S>;

template <class D, class S>
[[gnu::always_inline]] inline D Converted(S x, const Semantics& s) {
  if constexpr (kFloats<D, S>) {
    if (sizeof(S) == 4 && s.flush) x = static_cast<S>(Flushed(x));
    D result{};
    if constexpr (sizeof(D) == sizeof(S)) {
      result = s.integral ? Integral(x, s.rounding) : x;
      result = CanonicalOf(result, x);
    } else if constexpr (sizeof(D) > sizeof(S)) {
      result = static_cast<D>(x);
    } else {
      result = Canonical(static_cast<D>(x));
      if (x == x) {
        const S back = static_cast<S>(result);
        result = Directed(x, result,
                          back < x   ? -1
                          : back > x ? 1
                                     : 0,
                          s.rounding);
      }
    }
    if (s.saturate) result = Saturated(result);
    if (sizeof(D) == 4 && s.flush) result = static_cast<D>(Flushed(result));
    return result;
  } else if constexpr (std::is_floating_point_v<D>) {
    D result = static_cast<D>(x);
    if (s.rounding != Rounding::kNearest) {
      result = Directed(x, result, CompareWhole(result, x), s.rounding);
    }
    return s.saturate ? Saturated(result) : result;
  } else if constexpr (std::is_floating_point_v<S>) {
    if (sizeof(S) == 4 && s.flush) x = static_cast<S>(Flushed(x));
    return ToWhole<D>(x, s.rounding);
  } else {
    if (!s.saturate) return static_cast<D>(x);
    const auto value = static_cast<__int128>(x);
    const auto least = static_cast<__int128>(std::numeric_limits<D>::lowest());
    const auto most = static_cast<__int128>(std::numeric_limits<D>::max());
    return static_cast<D>(value < least ? least : value > most ? most : value);
  }
}

// R and F: the registers, unsigned, in which D and S are. The modifiers
// (ConvertVariant()) of the common ones are known to the compiler.
constexpr uint8_t kAnyModifiers = 0xff;
template <class D, class S, class R, class F, uint8_t kModifiers>
void Convert(const Op& op, Warp& warp, LaneMask mask) {
  const uint8_t modifiers =
      kModifiers == kAnyModifiers ? op.variant : kModifiers;
  Semantics s;
  s.rounding = static_cast<Rounding>(modifiers & 3);
  s.flush = (modifiers & 4) != 0;
  s.saturate = (modifiers & 8) != 0;
  s.integral = (modifiers & 16) != 0;
  const F* const from = warp.From<F>(op.operands[1]);
  ForLanes(mask, warp.To<R>(op.operands[0]), [=](uint32_t i) {
    S x;
    if constexpr (std::is_floating_point_v<S>) {
      x = __builtin_bit_cast(S, from[i]);
    } else {
      x = static_cast<S>(from[i]);
    }
    const D y = Converted<D>(x, s);
    if constexpr (std::is_floating_point_v<D>) {
      return __builtin_bit_cast(R, y);
    } else {
      return static_cast<R>(y);  // with the sign of D, if R is wider
    }
  });
}

template <class D, class S, class R, class F>
Handler WithModifiers(const Semantics& s) {
  constexpr bool kAnyFloat =
      std::is_floating_point_v<D> || std::is_floating_point_v<S>;
  const uint8_t modifiers = ConvertVariant(s);
  if (!kAnyFloat && (modifiers & ~8) != 0) return nullptr;
  constexpr bool kPlain = sizeof(D) == sizeof(R) && sizeof(S) == sizeof(F);
  if constexpr (kPlain || !kAnyFloat) {
    if (modifiers == 0) return &Convert<D, S, R, F, 0>;
  }
  if constexpr (kPlain && kAnyFloat) {
    if (modifiers == 1) return &Convert<D, S, R, F, 1>;
  }
  return &Convert<D, S, R, F, kAnyModifiers>;
}

// Registers: as wide as the type, or any that is wider.
template <class T, class G>
Handler ForRegister(uint8_t bytes, G g) {
  if constexpr (sizeof(T) <= 2) {
    if (bytes == 2) return g.template operator()<uint16_t>();
  }
  if constexpr (sizeof(T) <= 4) {
    if (bytes == 4) return g.template operator()<uint32_t>();
  }
  if (bytes == 8) return g.template operator()<uint64_t>();
  return nullptr;
}
// A float's register has its size.
template <class T, class G>
Handler ForValue(uint8_t bytes, G g) {
  if constexpr (std::is_same_v<T, float>) {
    return bytes == 4 ? g.template operator()<uint32_t>() : nullptr;
  } else if constexpr (std::is_same_v<T, double>) {
    return bytes == 8 ? g.template operator()<uint64_t>() : nullptr;
  } else {
    return ForRegister<T>(bytes, g);
  }
}
template <class G>
Handler ForType(Type type, G g) {
  switch (type) {
    case Type::kU8:
      return g.template operator()<uint8_t>();
    case Type::kS8:
      return g.template operator()<int8_t>();
    case Type::kF32:
      return g.template operator()<float>();
    case Type::kF64:
      return g.template operator()<double>();
    default:
      return ForWholeNumbers(type, g);
  }
}

void HalfFromSingle(const Op& op, Warp& warp, LaneMask mask) {
  const float* const from = warp.From<float>(op.operands[1]);
  const auto rounding = static_cast<Rounding>(op.variant & 3);
  ForLanes(mask, warp.To<uint16_t>(op.operands[0]),
           [=](uint32_t i) { return ToHalf(from[i], rounding); });
}
void HalfFromDouble(const Op& op, Warp& warp, LaneMask mask) {
  const double* const from = warp.From<double>(op.operands[1]);
  const auto rounding = static_cast<Rounding>(op.variant & 3);
  ForLanes(mask, warp.To<uint16_t>(op.operands[0]),
           [=](uint32_t i) { return ToHalf(from[i], rounding); });
}
template <class T>
void FromHalf(const Op& op, Warp& warp, LaneMask mask) {
  const uint16_t* const from = warp.From<uint16_t>(op.operands[1]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    return static_cast<T>(Canonical(HalfToSingle(from[i])));
  });
}

}  // namespace

Handler FindConvert(const Semantics& s) {
  if (s.operation != Operation::kConvert) return nullptr;
  if (s.type == Type::kF16 || s.from == Type::kF16) {
    if (s.flush || s.saturate || s.integral) return nullptr;
    if (s.from == Type::kF32) return &HalfFromSingle;
    if (s.from == Type::kF64) return &HalfFromDouble;
    if (s.type == Type::kF32) return &FromHalf<float>;
    if (s.type == Type::kF64) return &FromHalf<double>;
    return nullptr;
  }
  return ForType(s.type, [&]<class D>() -> Handler {
    return ForType(s.from, [&]<class S>() -> Handler {
      return ForValue<D>(s.register_bytes, [&]<class R>() -> Handler {
        return ForValue<S>(s.from_bytes, [&]<class F>() -> Handler {
          return WithModifiers<D, S, R, F>(s);
        });
      });
    });
  });
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
