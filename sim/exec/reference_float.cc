#include "sim/exec/reference_float.h"

#include <array>
#include <cstddef>
#include <utility>

namespace carillon::sim {
namespace {

using U128 = unsigned __int128;

int BitLength(U128 x) {
  const auto high = static_cast<uint64_t>(x >> 64);
  if (high != 0) return 128 - __builtin_clzll(high);
  const auto low = static_cast<uint64_t>(x);
  return low == 0 ? 0 : 64 - __builtin_clzll(low);
}

// Holds the exact product of any two f64; bit 0 is worth 2^kLowest.
class Fixed {
 public:
  static constexpr int kLowest = -2200;

  static Fixed Of(U128 fraction, int exponent) {
    Fixed to;
    const auto at = static_cast<size_t>(exponent - kLowest);
    for (size_t bit = 0; fraction >> bit != 0; bit += 32) {
      to.Deposit(at + bit, static_cast<uint32_t>(fraction >> bit));
      if (bit == 96) break;
    }
    return to;
  }
  // |a| - |b|; the sign apart.
  static int Compare(const Fixed& a, const Fixed& b) {
    for (size_t i = kWords; i-- > 0;) {
      if (a.words_[i] != b.words_[i]) return a.words_[i] < b.words_[i] ? -1 : 1;
    }
    return 0;
  }
  Fixed Plus(const Fixed& b) const {
    Fixed to;
    U128 carry = 0;
    for (size_t i = 0; i < kWords; ++i) {
      carry += U128{words_[i]} + b.words_[i];
      to.words_[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    return to;
  }
  Fixed Minus(const Fixed& b) const {  // of a smaller one
    Fixed to;
    bool borrow = false;
    for (size_t i = 0; i < kWords; ++i) {
      const U128 take = U128{b.words_[i]} + (borrow ? 1 : 0);
      to.words_[i] = words_[i] - static_cast<uint64_t>(take);
      borrow = words_[i] < take;
    }
    return to;
  }
  uint64_t Round(const FloatFormat& format, bool negative,
                 Rounding rounding) const {
    size_t top = kWords;
    while (top > 2 && words_[top - 1] == 0) --top;
    bool more = false;
    for (size_t i = 0; i + 2 < top; ++i) more |= words_[i] != 0;
    return RoundTo(format, negative,
                   U128{words_[top - 1]} << 64 | words_[top - 2],
                   static_cast<int>(64 * (top - 2)) + kLowest, more, rounding);
  }

 private:
  static constexpr size_t kWords = 70;
  void Deposit(size_t bit, uint32_t value) {
    const U128 placed = U128{value} << (bit % 64);
    words_[bit / 64] |= static_cast<uint64_t>(placed);
    words_[bit / 64 + 1] |= static_cast<uint64_t>(placed >> 64);
  }
  std::array<uint64_t, kWords> words_{};
};

bool IsInfinite(const FloatFormat& format, uint64_t x) {
  return (x & ~format.sign()) == format.infinity();
}
bool IsZero(const FloatFormat& format, uint64_t x) {
  return (x & ~format.sign()) == 0;
}

}  // namespace

Unpacked Unpack(uint64_t x, const FloatFormat& format) {
  Unpacked to;
  to.negative = (x & format.sign()) != 0;
  const uint64_t magnitude = x & ~format.sign();
  const auto field = static_cast<int>(magnitude >> (format.digits - 1));
  const uint64_t implicit = uint64_t{1} << (format.digits - 1);
  to.fraction = magnitude & (implicit - 1);
  if (field != 0) to.fraction |= implicit;
  to.exponent = format.least_exponent - (format.digits - 1) +
                (field == 0 ? 0 : field - 1);
  return to;
}

uint64_t RoundTo(const FloatFormat& format, bool negative, U128 fraction,
                 int exponent, bool more, Rounding rounding) {
  const uint64_t sign = negative ? format.sign() : 0;
  if (fraction == 0 && !more) return sign;
  // The rounding needs two digits below the last one.
  while (BitLength(fraction) < format.digits + 2) {
    fraction <<= 1;
    --exponent;
    if (fraction == 0) break;
  }
  const int least = format.least_exponent - (format.digits - 1);
  int last = exponent + BitLength(fraction) - format.digits;
  if (last < least) last = least;
  const int shift = last - exponent;
  uint64_t kept = 0;
  bool above_half = false;
  bool half = false;
  bool rest = more;
  if (shift > 128) {
    rest = true;
  } else {
    const bool all = shift == 128;
    kept = all ? 0 : static_cast<uint64_t>(fraction >> shift);
    const U128 below = all ? fraction : fraction & ((U128{1} << shift) - 1);
    const U128 middle = U128{1} << (shift - 1);
    above_half = below > middle || (below == middle && more);
    half = below == middle && !more;
    rest |= below != 0;
  }
  const bool away = rounding == Rounding::kNearest
                        ? above_half || (half && (kept & 1) != 0)
                    : rounding == Rounding::kDown ? rest && negative
                    : rounding == Rounding::kUp   ? rest && !negative
                                                  : false;
  // A carry out of the fraction increments the exponent, as it should.
  const U128 bits =
      (U128{static_cast<uint64_t>(last - least)} << (format.digits - 1)) +
      kept + (away ? 1 : 0);
  if (bits < format.infinity()) return sign | static_cast<uint64_t>(bits);
  const bool infinite = rounding == Rounding::kNearest ||
                        (rounding == Rounding::kDown && negative) ||
                        (rounding == Rounding::kUp && !negative);
  return sign | (infinite ? format.infinity() : format.infinity() - 1);
}

uint64_t ReferenceFma(const FloatFormat& format, uint64_t a, uint64_t b,
                      uint64_t c, Rounding rounding) {
  const uint64_t product_sign = (a ^ b) & format.sign();
  const bool infinite = IsInfinite(format, a) || IsInfinite(format, b);
  if (format.IsNan(a) || format.IsNan(b) || format.IsNan(c) ||
      (infinite && (IsZero(format, a) || IsZero(format, b)))) {
    return format.nan();
  }
  if (infinite) {
    if (IsInfinite(format, c) && (c & format.sign()) != product_sign) {
      return format.nan();
    }
    return product_sign | format.infinity();
  }
  if (IsInfinite(format, c)) return c;
  const Unpacked x = Unpack(a, format);
  const Unpacked y = Unpack(b, format);
  const Unpacked z = Unpack(c, format);
  Fixed larger =
      Fixed::Of(U128{x.fraction} * y.fraction, x.exponent + y.exponent);
  Fixed smaller = Fixed::Of(z.fraction, z.exponent);
  bool negative = product_sign != 0;
  if (negative == z.negative) {
    return larger.Plus(smaller).Round(format, negative, rounding);
  }
  const int order = Fixed::Compare(larger, smaller);
  if (order == 0) return rounding == Rounding::kDown ? format.sign() : 0;
  if (order < 0) {
    std::swap(larger, smaller);
    negative = z.negative;
  }
  return larger.Minus(smaller).Round(format, negative, rounding);
}

uint64_t ReferenceMul(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding) {
  // Adding a zero with the product's sign changes nothing.
  return ReferenceFma(format, a, b, (a ^ b) & format.sign(), rounding);
}

uint64_t ReferenceAdd(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding) {
  return ReferenceFma(format, a, format.one(), b, rounding);
}

uint64_t ReferenceDiv(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding) {
  const uint64_t sign = (a ^ b) & format.sign();
  const bool both_zero = IsZero(format, a) && IsZero(format, b);
  const bool both_infinite = IsInfinite(format, a) && IsInfinite(format, b);
  if (format.IsNan(a) || format.IsNan(b) || both_zero || both_infinite) {
    return format.nan();
  }
  if (IsInfinite(format, a) || IsZero(format, b)) {
    return sign | format.infinity();
  }
  if (IsInfinite(format, b) || IsZero(format, a)) return sign;
  const Unpacked x = Unpack(a, format);
  Unpacked y = Unpack(b, format);
  const U128 from = U128{x.fraction} << (126 - BitLength(x.fraction));
  const int moved = 126 - BitLength(x.fraction);
  return RoundTo(format, sign != 0, from / y.fraction,
                 x.exponent - moved - y.exponent, from % y.fraction != 0,
                 rounding);
}

uint64_t ReferenceSqrt(const FloatFormat& format, uint64_t a,
                       Rounding rounding) {
  if (format.IsNan(a)) return format.nan();
  if (IsZero(format, a)) return a;
  if ((a & format.sign()) != 0) return format.nan();
  if (IsInfinite(format, a)) return a;
  Unpacked x = Unpack(a, format);
  U128 from = x.fraction;
  int exponent = x.exponent;
  while (BitLength(from) < 124 || exponent % 2 != 0) {
    from <<= 1;
    --exponent;
  }
  U128 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const U128 next = root | U128{1} << bit;
    if (next * next <= from) root = next;
  }
  return RoundTo(format, false, root, exponent / 2, root * root != from,
                 rounding);
}

uint64_t ReferenceConvert(const FloatFormat& to, const FloatFormat& from,
                          uint64_t a, Rounding rounding) {
  if (from.IsNan(a)) return to.nan();
  const bool negative = (a & from.sign()) != 0;
  if (IsInfinite(from, a)) return (negative ? to.sign() : 0) | to.infinity();
  const Unpacked x = Unpack(a, from);
  return RoundTo(to, negative, x.fraction, x.exponent, false, rounding);
}

__int128 ReferenceWhole(const FloatFormat& from, uint64_t a, Rounding rounding,
                        __int128 least, __int128 most) {
  if (from.IsNan(a)) {
    const bool of_64_bits = from.bits == 64 || most > UINT32_MAX;
    if (!of_64_bits) return 0;
    return least < 0 ? least : most / 2 + 1;
  }
  const Unpacked x = Unpack(a, from);
  if (IsInfinite(from, a) || x.exponent > 64) return x.negative ? least : most;
  __int128 whole = 0;
  if (x.exponent >= 0) {
    whole = static_cast<__int128>(x.fraction) << x.exponent;
  } else {
    const int shift = -x.exponent < 100 ? -x.exponent : 100;
    const __int128 fraction = x.fraction;
    const __int128 rest = fraction & ((__int128{1} << shift) - 1);
    const __int128 half = __int128{1} << (shift - 1);
    whole = fraction >> shift;
    const bool away = rounding == Rounding::kNearest
                          ? rest > half || (rest == half && (whole & 1) != 0)
                      : rounding == Rounding::kDown ? rest != 0 && x.negative
                      : rounding == Rounding::kUp   ? rest != 0 && !x.negative
                                                    : false;
    whole += away ? 1 : 0;
  }
  if (x.negative) whole = -whole;
  return whole < least ? least : whole > most ? most : whole;
}

uint64_t ReferenceOfWhole(const FloatFormat& to, __int128 value,
                          Rounding rounding) {
  const bool negative = value < 0;
  return RoundTo(to, negative, static_cast<U128>(negative ? -value : value), 0,
                 false, rounding);
}

}  // namespace carillon::sim
