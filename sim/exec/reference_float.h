// IEEE 754 by integer arithmetic, bit by bit, as a reference for tests. Nothing
// here uses the host's floating point.
#ifndef CARILLON_SIM_EXEC_REFERENCE_FLOAT_H_
#define CARILLON_SIM_EXEC_REFERENCE_FLOAT_H_

#include <cstdint>

#include "sim/exec/semantics.h"

namespace carillon::sim {

struct FloatFormat {
  uint32_t bits;
  int digits;          // digits of the significand, including the implicit one
  int least_exponent;  // the least one of a normal number

  uint64_t sign() const { return uint64_t{1} << (bits - 1); }
  uint64_t infinity() const {
    return (sign() - 1) >> (digits - 1) << (digits - 1);
  }
  // The NaN that CUDA gives for an operation without a result.
  uint64_t nan() const {
    return bits == 64 ? uint64_t{0xfff8} << 48 : sign() - 1;
  }
  bool IsNan(uint64_t x) const { return (x & ~sign()) > infinity(); }
  bool IsSubnormal(uint64_t x) const {
    const uint64_t magnitude = x & ~sign();
    return magnitude != 0 && magnitude >> (digits - 1) == 0;
  }
  uint64_t Flushed(uint64_t x) const { return IsSubnormal(x) ? x & sign() : x; }
  uint64_t one() const {
    return static_cast<uint64_t>(1 - least_exponent) << (digits - 1);
  }
  // The result of an f64 operation with a NaN among its sources: the first NaN,
  // made quiet.
  template <class Sources>
  uint64_t NanOf(const Sources& sources) const {
    for (const uint64_t x : sources) {
      if (bits == 64 && IsNan(x)) return x | uint64_t{1} << 51;
    }
    return nan();
  }
};
inline constexpr FloatFormat kF16{16, 11, -14};
inline constexpr FloatFormat kBf16{16, 8, -126};
inline constexpr FloatFormat kF32{32, 24, -126};
inline constexpr FloatFormat kF64{64, 53, -1022};

// A finite number: fraction * 2^exponent.
struct Unpacked {
  bool negative = false;
  uint64_t fraction = 0;
  int exponent = 0;
};
Unpacked Unpack(uint64_t x, const FloatFormat& format);

// Rounds (fraction, and if `more`, a part of 1) * 2^exponent.
uint64_t RoundTo(const FloatFormat& format, bool negative,
                 unsigned __int128 fraction, int exponent, bool more,
                 Rounding rounding);

uint64_t ReferenceMul(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding);
uint64_t ReferenceFma(const FloatFormat& format, uint64_t a, uint64_t b,
                      uint64_t c, Rounding rounding);
uint64_t ReferenceAdd(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding);
uint64_t ReferenceDiv(const FloatFormat& format, uint64_t a, uint64_t b,
                      Rounding rounding);
uint64_t ReferenceSqrt(const FloatFormat& format, uint64_t a,
                       Rounding rounding);
uint64_t ReferenceConvert(const FloatFormat& to, const FloatFormat& from,
                          uint64_t a, Rounding rounding);
// Converts to a whole number; saturates, and NaN becomes 0.
__int128 ReferenceWhole(const FloatFormat& from, uint64_t a, Rounding rounding,
                        __int128 least, __int128 most);
uint64_t ReferenceOfWhole(const FloatFormat& to, __int128 value,
                          Rounding rounding);

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_REFERENCE_FLOAT_H_
