// f16 and bf16 as values. Their arithmetic is done in double and rounded once.
// Included as lanes.h is, once for each instruction set.
#ifndef CARILLON_SIM_EXEC_OPERATIONS_HALF_H_
#define CARILLON_SIM_EXEC_OPERATIONS_HALF_H_

#include <cmath>
#include <cstdint>

#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// Both have 16 bits; kDigits counts the implicit one, kLeastExponent is that of
// the least normal number.
template <int kDigits, int kLeastExponent>
struct Half {
  static constexpr int kFractionBits = kDigits - 1;
  static constexpr int kLeast = kLeastExponent;
  static constexpr uint16_t kInfinity = (0x7fff >> kFractionBits)
                                        << kFractionBits;
  static constexpr uint16_t kNan = 0x7fff;
  static constexpr uint16_t kOne =
      static_cast<uint16_t>((1 - kLeastExponent) << kFractionBits);
  uint16_t bits;
};
using F16 = Half<11, -14>;
using Bf16 = Half<8, -126>;

// What a register holds: one of them, or two with the first one lowest.
template <class H, size_t kCount>
struct Halves {
  H of[kCount];
};

// Calls f<Halves>() with the type that these describe.
template <class F>
Handler ForHalves(Type type, F f) {
  switch (type) {
    case Type::kF16:
      return f.template operator()<F16, 1>();
    case Type::kF16x2:
      return f.template operator()<F16, 2>();
    case Type::kBf16:
      return f.template operator()<Bf16, 1>();
    case Type::kBf16x2:
      return f.template operator()<Bf16, 2>();
    default:
      return nullptr;
  }
}

[[gnu::always_inline]] inline float ToSingle(F16 x) {
  // Exact, as is what follows; the exponent of infinities and NaNs becomes 16.
  float magnitude =
      __builtin_bit_cast(float, uint32_t{x.bits & 0x7fffu} << 13) * 0x1p112f;
  if (magnitude >= 0x1p16f) {
    magnitude = __builtin_bit_cast(
        float, 0x7f800000u | uint32_t{x.bits & 0x3ffu} << 13);
  }
  return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
}
[[gnu::always_inline]] inline float ToSingle(Bf16 x) {
  return __builtin_bit_cast(float, uint32_t{x.bits} << 16);
}
template <class H>
[[gnu::always_inline]] inline double ToDouble(H x) {
  return ToSingle(x);
}
[[gnu::always_inline]] inline double ToDouble(float x) { return x; }
[[gnu::always_inline]] inline double ToDouble(double x) { return x; }

template <int kDigits, int kLeast>
[[gnu::always_inline]] inline Half<kDigits, kLeast> Flushed(
    Half<kDigits, kLeast> x) {
  using H = Half<kDigits, kLeast>;
  if ((x.bits & H::kInfinity) == 0) x.bits &= 0x8000;
  return x;
}

// Rounds any double once.
template <class H>
[[gnu::always_inline]] inline H Rounded(double x, Rounding rounding) {
  const auto all = __builtin_bit_cast(uint64_t, x);
  const uint64_t magnitude = all & ~(uint64_t{1} << 63);
  const bool negative = all >> 63 != 0;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  constexpr uint64_t kImplicit = uint64_t{1} << 52;
  const uint64_t significand =
      magnitude == 0 ? 0 : (magnitude & (kImplicit - 1)) | kImplicit;
  const int below = H::kLeast > exponent ? H::kLeast - exponent : 0;
  const int drop = 52 - H::kFractionBits + below;
  const int shift = drop < 63 ? drop : 63;
  const uint64_t whole = significand >> shift;
  const uint64_t rest = significand << (64 - shift);
  constexpr uint64_t kTie = uint64_t{1} << 63;
  const bool away = (rounding == Rounding::kUp && !negative) ||
                    (rounding == Rounding::kDown && negative);
  const bool up = rounding == Rounding::kNearest
                      ? rest > kTie || (rest == kTie && (whole & 1) != 0)
                      : away && rest != 0;
  // `whole` has the implicit bit, so it adds one to the exponent's field.
  const int steps = below != 0 ? 0 : exponent - H::kLeast;
  uint32_t result = (static_cast<uint32_t>(steps) << H::kFractionBits) +
                    static_cast<uint32_t>(whole) + (up ? 1 : 0);
  if (result >= H::kInfinity) {
    const bool infinite =
        exponent > 1023 || rounding == Rounding::kNearest || away;
    result = infinite ? H::kInfinity : H::kInfinity - 1;
  }
  result |= negative ? 0x8000 : 0;
  return {static_cast<uint16_t>(x == x ? result : H::kNan)};
}

// The sum, where an inexact one is rounded to the neighbour with an odd last
// digit. Rounding this to half as many digits gives what rounding the exact sum
// would.
[[gnu::always_inline]] inline double OddSum(double a, double b) {
  const double sum = a + b;
  const double b_of_sum = sum - a;
  // Exactly what the sum lacks; a NaN if it is not finite.
  const double lacks = (a - (sum - b_of_sum)) + (b - b_of_sum);
  auto bits = __builtin_bit_cast(uint64_t, sum);
  const bool inexact = (lacks < 0) | (lacks > 0);
  if (inexact && (bits & 1) == 0) bits += (lacks > 0) == (sum > 0) ? 1 : -1;
  return __builtin_bit_cast(double, bits);
}

// The same for a whole number's conversion.
[[gnu::always_inline]] inline double OddOf(uint64_t x) {
  if (x >> 53 == 0) return static_cast<double>(x);
  return static_cast<double>(x >> 11 | ((x & 0x7ff) != 0 ? 1 : 0)) * 0x1p11;
}
[[gnu::always_inline]] inline double OddOf(int64_t x) {
  return x < 0 ? -OddOf(0 - static_cast<uint64_t>(x))
               : OddOf(static_cast<uint64_t>(x));
}

// .relu replaces what is negative by 0; a NaN stays.
template <class H>
[[gnu::always_inline]] inline H Rectified(H x) {
  const bool nan = (x.bits & 0x7fff) > H::kInfinity;
  if (!nan && (x.bits & 0x8000) != 0) x.bits = 0;
  return x;
}

}  // namespace
}  // namespace carillon::sim::CARILLON_SIM_ISA

#endif  // CARILLON_SIM_EXEC_OPERATIONS_HALF_H_
