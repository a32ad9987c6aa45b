// mma and wmma.mma (PTX ISA 9.7.14).
//
// The PTX ISA leaves open how sums of floats are rounded. Here they are what has
// been measured of Turing, Ampere and Ada (Fasi, Higham, Mikaitis and Pranesh,
// "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330,
// 2021; Xie et al., "MMA-Sim", arXiv:2511.10909, whose model agrees with these
// GPUs bit by bit). An accumulator takes 8 products at a time, 4 of tf32, from
// the lowest k up. Each time
//
// - products are exact; with the accumulator, they are written as multiples of
//   2^(E - 24), where E is the greatest exponent among them and -126, and what is
//   below is cut off. A product's exponent is the sum of its factors', whatever
//   the product of their significands; a subnormal number has that of the least
//   normal one;
// - the sum of these is exact, and is cut off to 24 digits for .f32, or rounded
//   to the nearest .f16, to even.
//
// A NaN is 0x7fffffff or 0x7fff, a sum of zero is positive, and what is too large
// is infinite. Products of .f64 are added by fma, from the lowest k up. Sums of
// whole numbers are exact until they wrap or saturate.
#include <algorithm>
#include <cmath>

#include "sim/exec/matrix.h"
#include "sim/exec/operations/half.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

constexpr size_t kMost = 1024;  // elements of a matrix: m16n8k64 has 16 * 64
constexpr uint32_t kStep = 8;   // columns that are computed side by side
constexpr int kBelow = 24;      // digits below E that are kept
constexpr int kLeastExponent = -126;
constexpr int kOfZero = -(1 << 20);  // less than any exponent

// Copies a matrix from the registers. The first registers count where strips
// repeat (matrix.h).
template <class T>
void Gather(const Fragment& fragment, const Warp& warp, T* to) {
  const uint32_t bits = BitsOf(fragment.type);
  const uint32_t per = bits < 32 ? 32 / bits : 1;
  const T mask = bits < 32 ? static_cast<T>((1u << bits) - 1) : ~T{0};
  for (uint32_t r = fragment.registers; r-- > 0;) {
    const T* const from = warp.From<T>(fragment.slots[r]);
    for (uint32_t i = 0; i < per; ++i) {
      const uint16_t* const places =
          fragment.places.data() + size_t{r * per + i} * kLanes;
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        to[places[lane]] = from[lane] >> bits * i & mask;
      }
    }
  }
}

template <class T>
void Scatter(const Fragment& fragment, const T* from, Warp& warp) {
  const uint32_t bits = BitsOf(fragment.type);
  const uint32_t per = bits < 32 ? 32 / bits : 1;
  for (uint32_t r = 0; r < fragment.registers; ++r) {
    if (fragment.slots[r].is_constant()) continue;  // "_"
    T* const to = warp.To<T>(fragment.slots[r]);
    const uint16_t* const places =
        fragment.places.data() + size_t{r} * per * kLanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      T value = 0;
      for (uint32_t i = 0; i < per; ++i) {
        value |= from[places[i * kLanes + lane]] << bits * i;
      }
      to[lane] = value;
    }
  }
}

// A float of `kFraction` explicit digits. The lowest kUnused bits of its register
// do not count.
template <int kFractionBits, int kExponentBits, int kUnusedBits = 0>
struct Format {
  static constexpr int kFraction = kFractionBits;
  static constexpr uint32_t kFields = (1u << kExponentBits) - 1;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kUnused = kUnusedBits;
};
using OfF16 = Format<10, 5>;
using OfBf16 = Format<7, 8>;
using OfTf32 = Format<10, 8, 13>;
using OfF32 = Format<23, 8>;

// significand * 2^(exponent - kFraction)
struct Number {
  int32_t significand;
  int32_t exponent;
  bool finite;
};
template <class F>
[[gnu::always_inline]] inline Number Decode(uint32_t bits) {
  bits >>= F::kUnused;
  const uint32_t field = bits >> F::kFraction & F::kFields;
  const auto fraction = static_cast<int32_t>(bits & ((1u << F::kFraction) - 1));
  const int32_t magnitude =
      field != 0 ? fraction | 1 << F::kFraction : fraction;
  const auto least = static_cast<int32_t>(field != 0 ? field : 1);
  const bool negative =
      (bits >> (F::kFraction + 1) & ((F::kFields + 1) >> 1)) != 0;
  return {.significand = negative ? -magnitude : magnitude,
          .exponent = magnitude == 0 ? kOfZero : least - F::kBias,
          .finite = field != F::kFields};
}
template <class F>
double ValueOf(uint32_t bits) {
  const Number number = Decode<F>(bits);
  const bool is_nan =
      !number.finite && (number.significand & ((1 << F::kFraction) - 1)) != 0;
  if (is_nan) return NAN;
  if (!number.finite) return number.significand < 0 ? -HUGE_VAL : HUGE_VAL;
  return std::ldexp(number.significand, number.exponent - F::kFraction);
}

// A matrix of a format, decoded.
struct Numbers {
  int32_t significand[kMost];
  int32_t exponent[kMost];
  bool finite = true;
};
template <class F>
void DecodeAll(const uint32_t* bits, uint32_t count, Numbers& to) {
  bool finite = true;
  for (uint32_t i = 0; i < count; ++i) {
    const Number number = Decode<F>(bits[i]);
    to.significand[i] = number.significand;
    to.exponent[i] = number.exponent;
    finite &= number.finite;
  }
  to.finite = finite;
}

// Cuts sum * 2^exponent off to a float.
[[gnu::always_inline]] inline uint32_t CutOff(int32_t sum, int32_t exponent) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x8000'0000u : 0;
  const auto magnitude = static_cast<uint32_t>(sum < 0 ? -sum : sum);
  const int top = 31 - __builtin_clz(magnitude);
  const int32_t of_float = exponent + top;
  if (of_float > 127) return sign | 0x7f80'0000u;
  const bool normal = of_float >= kLeastExponent;
  const int shift = normal ? 23 - top : exponent + 149;
  const uint32_t digits = shift < 0 ? magnitude >> -shift : magnitude << shift;
  // The implicit digit adds one to the exponent's field.
  return sign |
         ((normal ? static_cast<uint32_t>(of_float + 126) << 23 : 0) + digits);
}
[[gnu::always_inline]] inline uint32_t RoundToHalf(int32_t sum,
                                                   int32_t exponent) {
  const auto scale =
      __builtin_bit_cast(double, static_cast<uint64_t>(1023 + exponent) << 52);
  return Rounded<F16>(sum * scale, Rounding::kNearest).bits;
}

// One row of A, some columns of B and D: the accumulators take the products from
// `first` to `end`.
template <class F>
struct Products {
  const uint32_t* a;  // a row's bits
  const uint32_t* b;
  const Numbers& of_a;
  const Numbers& of_b;
  uint32_t row;  // where A's row begins
  uint32_t columns;
  uint32_t column;

  template <class C, bool kToHalf>
  [[gnu::always_inline]] void AddTo(uint32_t* accumulators, uint32_t first,
                                    uint32_t end) const {
    constexpr int kShift = kBelow - 2 * F::kFraction;
    constexpr int kAccumulatorShift = kBelow - C::kFraction;
    int32_t significand[kStep], exponent[kStep], greatest[kStep], sum[kStep];
    bool finite = of_a.finite && of_b.finite;
    for (uint32_t j = 0; j < kStep; ++j) {
      const Number number = Decode<C>(accumulators[j]);
      significand[j] = number.significand;
      exponent[j] = number.exponent;
      finite &= number.finite;
      greatest[j] = std::max(number.exponent, kLeastExponent);
    }
    for (uint32_t k = first; k < end; ++k) {
      const int32_t of_row = of_a.exponent[row + k];
      const int32_t* const exponents = of_b.exponent + k * columns + column;
      for (uint32_t j = 0; j < kStep; ++j) {
        greatest[j] = std::max(greatest[j], of_row + exponents[j]);
      }
    }
    for (uint32_t j = 0; j < kStep; ++j) {
      sum[j] =
          Aligned<kAccumulatorShift>(significand[j], greatest[j] - exponent[j]);
    }
    for (uint32_t k = first; k < end; ++k) {
      const int32_t of_row = of_a.exponent[row + k];
      const int32_t factor = of_a.significand[row + k];
      const int32_t* const exponents = of_b.exponent + k * columns + column;
      const int32_t* const factors = of_b.significand + k * columns + column;
      for (uint32_t j = 0; j < kStep; ++j) {
        sum[j] += Aligned<kShift>(factor * factors[j],
                                  greatest[j] - of_row - exponents[j]);
      }
    }
    uint32_t results[kStep];
    for (uint32_t j = 0; j < kStep; ++j) {
      results[j] = kToHalf ? RoundToHalf(sum[j], greatest[j] - kBelow)
                           : CutOff(sum[j], greatest[j] - kBelow);
    }
    if (!finite) [[unlikely]] {
      for (uint32_t j = 0; j < kStep; ++j) {
        const double special = Special<C>(accumulators[j], first, end, j);
        if (std::isfinite(special)) continue;
        const uint32_t infinity = kToHalf ? 0x7c00 : 0x7f80'0000;
        const uint32_t sign = kToHalf ? 0x8000 : 0x8000'0000;
        results[j] = special != special ? (kToHalf ? 0x7fff : 0x7fff'ffff)
                     : special < 0      ? sign | infinity
                                        : infinity;
      }
    }
    std::copy_n(results, kStep, accumulators);
  }

  // Moves it up and down, towards zero.
  template <int kUp>
  [[gnu::always_inline]] static int32_t Aligned(int32_t x, int32_t down) {
    const int32_t magnitude = x < 0 ? -x : x;
    const int32_t moved = magnitude << kUp >> std::min(down, 31);
    return x < 0 ? -moved : moved;
  }

  // The sum, if it is not finite.
  template <class C>
  double Special(uint32_t accumulator, uint32_t first, uint32_t end,
                 uint32_t j) const {
    double sum = ValueOf<C>(accumulator);
    for (uint32_t k = first; k < end; ++k) {
      sum += ValueOf<F>(a[row + k]) * ValueOf<F>(b[k * columns + column + j]);
    }
    return sum;
  }
};

template <class F, uint32_t kBlock, class C, class D>
void MultiplyFloats(const MatrixOperands& matrices, Warp& warp) {
  constexpr bool kToHalf = D::kFraction == OfF16::kFraction;
  uint32_t a[kMost], b[kMost], c[kMost];
  Gather(matrices.a, warp, a);
  Gather(matrices.b, warp, b);
  Gather(matrices.c, warp, c);
  const uint32_t depth = matrices.a.columns;
  const uint32_t columns = matrices.d.columns;
  Numbers of_a, of_b;
  DecodeAll<F>(a, matrices.a.rows * depth, of_a);
  DecodeAll<F>(b, depth * columns, of_b);
  for (uint32_t row = 0; row < matrices.d.rows; ++row) {
    for (uint32_t column = 0; column < columns; column += kStep) {
      const Products<F> products{a,           b,       of_a,  of_b,
                                 row * depth, columns, column};
      uint32_t* const accumulators = c + row * columns + column;
      products.template AddTo<C, kToHalf>(accumulators, 0, kBlock);
      for (uint32_t k = kBlock; k < depth; k += kBlock) {
        products.template AddTo<D, kToHalf>(accumulators, k, k + kBlock);
      }
    }
  }
  Scatter(matrices.d, c, warp);
}

template <class F, uint32_t kBlock>
void MultiplyHalves(const MatrixOperands& matrices, Warp& warp) {
  const bool from_half = matrices.c.type == MatrixType::kF16;
  const bool to_half = matrices.d.type == MatrixType::kF16;
  if (from_half && to_half) {
    MultiplyFloats<F, kBlock, OfF16, OfF16>(matrices, warp);
  } else if (from_half) {
    MultiplyFloats<F, kBlock, OfF16, OfF32>(matrices, warp);
  } else if (to_half) {
    MultiplyFloats<F, kBlock, OfF32, OfF16>(matrices, warp);
  } else {
    MultiplyFloats<F, kBlock, OfF32, OfF32>(matrices, warp);
  }
}

void MultiplyDoubles(const MatrixOperands& matrices, Warp& warp) {
  uint64_t a[kMost], b[kMost], c[kMost];
  Gather(matrices.a, warp, a);
  Gather(matrices.b, warp, b);
  Gather(matrices.c, warp, c);
  const uint32_t depth = matrices.a.columns;
  const uint32_t columns = matrices.d.columns;
  for (uint32_t row = 0; row < matrices.d.rows; ++row) {
    for (uint32_t column = 0; column < columns; ++column) {
      auto sum = __builtin_bit_cast(double, c[row * columns + column]);
      for (uint32_t k = 0; k < depth; ++k) {
        const auto x = __builtin_bit_cast(double, a[row * depth + k]);
        const auto y = __builtin_bit_cast(double, b[k * columns + column]);
        sum = CanonicalOf(std::fma(x, y, sum), x, y, sum);
      }
      c[row * columns + column] = __builtin_bit_cast(uint64_t, sum);
    }
  }
  Scatter(matrices.d, c, warp);
}

void GatherWhole(const Fragment& fragment, const Warp& warp, int32_t* to) {
  uint32_t bits[kMost];
  Gather(fragment, warp, bits);
  const uint32_t count = fragment.rows * fragment.columns;
  const bool is_signed =
      fragment.type == MatrixType::kS8 || fragment.type == MatrixType::kS4;
  const uint32_t sign = is_signed ? 1u << (BitsOf(fragment.type) - 1) : 0;
  for (uint32_t i = 0; i < count; ++i) {
    to[i] = static_cast<int32_t>((bits[i] ^ sign) - sign);
  }
}

template <class F>
void MultiplyWhole(const MatrixOperands& matrices, Warp& warp, F product) {
  int32_t a[kMost], b[kMost];
  uint32_t c[kMost];
  GatherWhole(matrices.a, warp, a);
  GatherWhole(matrices.b, warp, b);
  Gather(matrices.c, warp, c);
  const uint32_t depth = matrices.a.columns;
  const uint32_t columns = matrices.d.columns;
  for (uint32_t row = 0; row < matrices.d.rows; ++row) {
    for (uint32_t column = 0; column < columns; column += kStep) {
      int32_t sum[kStep] = {};
      for (uint32_t k = 0; k < depth; ++k) {
        const int32_t x = a[row * depth + k];
        const int32_t* const y = b + k * columns + column;
        for (uint32_t j = 0; j < kStep; ++j) sum[j] += product(x, y[j]);
      }
      uint32_t* const to = c + row * columns + column;
      for (uint32_t j = 0; j < kStep; ++j) {
        int64_t result = int64_t{static_cast<int32_t>(to[j])} + sum[j];
        if (matrices.saturate) {
          result = std::clamp<int64_t>(result, INT32_MIN, INT32_MAX);
        }
        to[j] = static_cast<uint32_t>(result);
      }
    }
  }
  Scatter(matrices.d, c, warp);
}

void Multiply(const Op& op, Warp& warp, LaneMask /*mask*/) {
  const MatrixOperands& matrices =
      warp.launch().program->matrices.data()[op.target];
  switch (matrices.a.type) {
    case MatrixType::kF16:
      return MultiplyHalves<OfF16, 8>(matrices, warp);
    case MatrixType::kBf16:
      return MultiplyFloats<OfBf16, 8, OfF32, OfF32>(matrices, warp);
    case MatrixType::kTf32:
      return MultiplyFloats<OfTf32, 4, OfF32, OfF32>(matrices, warp);
    case MatrixType::kF64:
      return MultiplyDoubles(matrices, warp);
    case MatrixType::kB1:
      if (matrices.exclusive) {
        return MultiplyWhole(matrices, warp, [](int32_t x, int32_t y) {
          return __builtin_popcount(static_cast<uint32_t>(x ^ y));
        });
      }
      return MultiplyWhole(matrices, warp, [](int32_t x, int32_t y) {
        return __builtin_popcount(static_cast<uint32_t>(x & y));
      });
    default:
      return MultiplyWhole(matrices, warp,
                           [](int32_t x, int32_t y) { return x * y; });
  }
}

// The 13 digits that tf32 lacks become zeros.
void RoundToTf32(const Op& op, Warp& warp, LaneMask mask) {
  const uint32_t* const a = warp.From<uint32_t>(op.operands[1]);
  const auto rounding = static_cast<ToTf32>(op.variant & kRoundingBits);
  const bool relu = (op.variant & kReluBit) != 0;
  ForLanes(mask, warp.To<uint32_t>(op.operands[0]), [=](uint32_t lane) {
    const uint32_t bits = a[lane];
    if ((bits & 0x7fff'ffff) > 0x7f80'0000) return 0x7fff'ffffu;
    if (relu && bits >> 31 != 0) return 0u;
    const uint32_t up = rounding == ToTf32::kAway ? 0x1000
                        : rounding == ToTf32::kNearest
                            ? 0xfff + (bits >> 13 & 1)
                            : 0;
    return (bits + up) & ~0x1fffu;
  });
}

}  // namespace

Handler FindMultiply(const Semantics& s) {
  return s.operation == Operation::kMultiply ? &Multiply
         : s.operation == Operation::kToTf32 ? &RoundToTf32
                                             : nullptr;
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
