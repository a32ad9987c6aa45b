#include "sim/differential/operations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace carillon::sim::differential {
namespace {

using U128 = unsigned __int128;
using S128 = __int128;

int16_t S16(uint64_t x) { return static_cast<int16_t>(x); }
int32_t S32(uint64_t x) { return static_cast<int32_t>(x); }
int64_t S64(uint64_t x) { return static_cast<int64_t>(x); }
uint16_t U16(uint64_t x) { return static_cast<uint16_t>(x); }
uint32_t U32(uint64_t x) { return static_cast<uint32_t>(x); }
float F32(uint64_t x) { return std::bit_cast<float>(U32(x)); }
double F64(uint64_t x) { return std::bit_cast<double>(x); }

// A result of f32 that is NaN is this one NaN (9.7.3).
uint64_t Bits(float x) {
  return std::isnan(x) ? 0x7fffffff : std::bit_cast<uint32_t>(x);
}
uint64_t Bits(double x) { return std::bit_cast<uint64_t>(x); }
float Flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

// 9.7.3.12: the one that is no NaN, and -0 is less than +0.
template <class T>
T Least(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T Most(T a, T b) {
  return -Least(-a, -b);
}

// 9.7.9.21: to zero, clamped, and NaN as PTX has it.
template <class To, class From>
uint64_t Truncate(From x) {
  if (std::isnan(x)) {
    return sizeof(From) == 8 || sizeof(To) == 8
               ? uint64_t{1} << (8 * sizeof(To) - 1)
               : 0;
  }
  const From whole = std::trunc(x);
  if (whole <= static_cast<From>(std::numeric_limits<To>::min())) {
    return static_cast<std::make_unsigned_t<To>>(
        std::numeric_limits<To>::min());
  }
  // The greatest number may round up to one that To has not.
  if (whole >= static_cast<From>(std::numeric_limits<To>::max())) {
    return static_cast<std::make_unsigned_t<To>>(
        std::numeric_limits<To>::max());
  }
  return static_cast<std::make_unsigned_t<To>>(static_cast<To>(whole));
}

// 9.7.1.20, bit by bit.
uint64_t ExtractField(uint64_t a, uint64_t position, uint64_t length, int bits,
                      bool is_signed) {
  position &= 0xff;
  length &= 0xff;
  const auto bit = [&](uint64_t i) { return a >> i & 1; };
  const auto top = static_cast<uint64_t>(bits - 1);
  uint64_t sign = 0;
  if (is_signed && length != 0)
    sign = bit(std::min(position + length - 1, top));
  uint64_t result = 0;
  for (uint64_t i = 0; i <= top; ++i) {
    const bool inside = i < length && position + i <= top;
    result |= (inside ? bit(position + i) : sign) << i;
  }
  return result;
}

// 9.7.1.21.
uint64_t InsertField(uint64_t a, uint64_t b, uint64_t position, uint64_t length,
                     int bits) {
  position &= 0xff;
  length &= 0xff;
  for (uint64_t i = 0; i < length && position + i < static_cast<uint64_t>(bits);
       ++i) {
    const uint64_t at = uint64_t{1} << (position + i);
    b = (b & ~at) | (a >> i & 1 ? at : 0);
  }
  return b;
}

// 9.7.9.7, without a mode.
uint64_t Permute(uint64_t a, uint64_t b, uint64_t selector) {
  const uint64_t bytes = b << 32 | a;
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t pick = selector >> (4 * i) & 15;
    uint64_t byte = bytes >> (8 * (pick & 7)) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

uint64_t Reverse(uint64_t a, int bits) {
  uint64_t result = 0;
  for (int i = 0; i < bits; ++i) result |= (a >> i & 1) << (bits - 1 - i);
  return result;
}

uint64_t HighestBit(uint64_t a) {
  for (int i = 63; i >= 0; --i) {
    if (a >> i & 1) return static_cast<uint64_t>(i);
  }
  return 0xffffffff;
}

template <uint32_t kTable>
uint64_t Lookup(const Arguments& x) {
  uint32_t result = 0;
  for (int i = 0; i < 32; ++i) {
    const uint32_t row = static_cast<uint32_t>(
        (x[0] >> i & 1) << 2 | (x[1] >> i & 1) << 1 | (x[2] >> i & 1));
    result |= (kTable >> row & 1) << i;
  }
  return result;
}

template <class A, class B>
uint64_t DotProduct(const Arguments& x) {
  uint32_t sum = U32(x[2]);
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<uint32_t>(
        static_cast<int32_t>(static_cast<A>(x[0] >> 8 * i)) *
        static_cast<int32_t>(static_cast<B>(x[1] >> 8 * i)));
  }
  return sum;
}

// f16, of which every value is a double.
double F16(uint64_t bits) {
  const auto field = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<double>(bits & 0x3ff);
  const double x = field == 31 ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                   : field == 0
                       ? std::ldexp(fraction, -24)
                       : std::ldexp(fraction + 1024, field - 25);
  return (bits & 0x8000) != 0 ? -x : x;
}
// To nearest; the host's doubles are to nearest even, too.
uint64_t Half(double x) {
  if (std::isnan(x)) return 0x7fff;
  const uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  if (size >= 65520) return sign | 0x7c00;
  // The last digit of what is next to x, whose bits count from the least value.
  const int last = size < 0x1p-14 ? -24 : std::ilogb(size) - 10;
  const auto steps =
      static_cast<uint64_t>(std::nearbyint(std::ldexp(size, -last)));
  return sign | (steps + (static_cast<uint64_t>(last + 24) << 10));
}
template <class F>
uint64_t ForHalves(F f) {
  return Half(f(0)) | Half(f(16)) << 16;
}
template <class F>
uint64_t ForParts(int bits, F f) {
  uint64_t result = 0;
  for (int at = 0; at < 32; at += bits) {
    result |= (static_cast<uint64_t>(f(at)) & ((1u << bits) - 1)) << at;
  }
  return result;
}

constexpr Type P = Type::kPred;
constexpr Type H = Type::kB16;
constexpr Type R = Type::kB32;
constexpr Type D = Type::kB64;
constexpr Type F = Type::kF32;
constexpr Type G = Type::kF64;

#define HOST [](const Arguments& x) -> uint64_t
#define ONE(name, result, a, value)                  \
  {                                                  \
    name, result, {a}, 1, "", HOST { return value; } \
  }
#define TWO(name, result, a, b, value)                  \
  {                                                     \
    name, result, {a, b}, 2, "", HOST { return value; } \
  }
#define THREE(name, result, a, b, c, value)                \
  {                                                        \
    name, result, {a, b, c}, 3, "", HOST { return value; } \
  }
#define DIVIDE(name, type, value)                           \
  {                                                         \
    name, type, {type, type}, 2, "", HOST { return value; } \
    , true                                                  \
  }
#define COMPARE(what, operator_)                                               \
  TWO("setp." what ".s32", P, R, R, S32(x[0]) operator_ S32(x[1])),            \
      TWO("setp." what ".s64", P, D, D, S64(x[0]) operator_ S64(x[1])),        \
      TWO("setp." what ".s16", P, H, H, S16(x[0]) operator_ S16(x[1])),        \
      TWO("setp." what ".u32", P, R, R, U32(x[0]) operator_ U32(x[1])),        \
      TWO("setp." what ".u64", P, D, D, x[0] operator_ x[1]),                  \
      TWO("setp." what ".f32", P, F, F,                                        \
          !std::isunordered(F32(x[0]), F32(x[1])) && F32(x[0])                 \
                                                         operator_ F32(x[1])), \
      TWO("setp." what ".f64", P, G, G,                                        \
          !std::isunordered(F64(x[0]), F64(x[1])) && F64(x[0])                 \
                                                         operator_ F64(x[1])), \
      TWO("setp." what "u.f32", P, F, F,                                       \
          std::isunordered(F32(x[0]), F32(x[1])) || F32(x[0])                  \
                                                        operator_ F32(x[1])),  \
      TWO("set." what ".u32.f32", R, F, F,                                     \
          !std::isunordered(F32(x[0]), F32(x[1])) && F32(x[0])                 \
                                                         operator_ F32(x[1])   \
              ? 0xffffffff                                                     \
              : 0),                                                            \
      TWO("set." what ".u32.s32", R, R, R,                                     \
          S32(x[0]) operator_ S32(x[1]) ? 0xffffffff : 0)

const Operation kOperations[] = {
    TWO("add.u32", R, R, R, U32(x[0] + x[1])),
    TWO("add.u64", D, D, D, x[0] + x[1]),
    TWO("add.u16", H, H, H, U16(x[0] + x[1])),
    TWO("add.sat.s32", R, R, R,
        U32(static_cast<uint64_t>(std::clamp<int64_t>(
            int64_t{S32(x[0])} + S32(x[1]), INT32_MIN, INT32_MAX)))),
    TWO("sub.s32", R, R, R, U32(x[0] - x[1])),
    TWO("sub.s64", D, D, D, x[0] - x[1]),
    TWO("sub.sat.s32", R, R, R,
        U32(static_cast<uint64_t>(std::clamp<int64_t>(
            int64_t{S32(x[0])} - S32(x[1]), INT32_MIN, INT32_MAX)))),
    TWO("mul.lo.s32", R, R, R, U32(x[0] * x[1])),
    TWO("mul.hi.s32", R, R, R,
        U32(static_cast<uint64_t>(int64_t{S32(x[0])} * S32(x[1]) >> 32))),
    TWO("mul.hi.u32", R, R, R, x[0] * x[1] >> 32),
    TWO("mul.wide.s32", D, R, R,
        static_cast<uint64_t>(int64_t{S32(x[0])} * S32(x[1]))),
    TWO("mul.wide.u32", D, R, R, x[0] * x[1]),
    TWO("mul.wide.u16", R, H, H, x[0] * x[1]),
    TWO("mul.wide.s16", R, H, H,
        U32(static_cast<uint64_t>(int64_t{S16(x[0])} * S16(x[1])))),
    TWO("mul.lo.u64", D, D, D, x[0] * x[1]),
    TWO("mul.hi.u64", D, D, D, static_cast<uint64_t>(U128{x[0]} * x[1] >> 64)),
    TWO("mul.hi.s64", D, D, D,
        static_cast<uint64_t>(S128{S64(x[0])} * S64(x[1]) >> 64)),
    TWO("mul24.lo.u32", R, R, R, U32((x[0] & 0xffffff) * (x[1] & 0xffffff))),
    THREE("mad.lo.s32", R, R, R, R, U32(x[0] * x[1] + x[2])),
    THREE("mad.hi.u32", R, R, R, R, U32((x[0] * x[1] >> 32) + x[2])),
    THREE("mad.wide.u32", D, R, R, D, x[0] * x[1] + x[2]),
    THREE("mad.wide.s32", D, R, R, D,
          static_cast<uint64_t>(int64_t{S32(x[0])} * S32(x[1])) + x[2]),
    THREE("mad.lo.s64", D, D, D, D, x[0] * x[1] + x[2]),
    THREE("sad.u32", R, R, R, R,
          U32((x[0] < x[1] ? x[1] - x[0] : x[0] - x[1]) + x[2])),
    THREE("sad.s32", R, R, R, R,
          U32(static_cast<uint64_t>(
                  std::abs(int64_t{S32(x[0])} - int64_t{S32(x[1])})) +
              x[2])),
    DIVIDE("div.u32", R, x[0] / x[1]),
    DIVIDE("div.s32", R,
           U32(static_cast<uint64_t>(int64_t{S32(x[0])} / S32(x[1])))),
    DIVIDE("rem.u32", R, x[0] % x[1]),
    DIVIDE("rem.s32", R,
           U32(static_cast<uint64_t>(int64_t{S32(x[0])} % S32(x[1])))),
    DIVIDE("div.u64", D, x[0] / x[1]),
    DIVIDE("div.s64", D, static_cast<uint64_t>(S64(x[0]) / S64(x[1]))),
    DIVIDE("rem.s64", D, static_cast<uint64_t>(S64(x[0]) % S64(x[1]))),
    ONE("abs.s32", R, R, U32(S32(x[0]) < 0 ? 0 - x[0] : x[0])),
    ONE("neg.s32", R, R, U32(0 - x[0])), ONE("neg.s64", D, D, 0 - x[0]),
    TWO("min.s32", R, R, R, S32(x[0]) < S32(x[1]) ? x[0] : x[1]),
    TWO("max.s32", R, R, R, S32(x[0]) > S32(x[1]) ? x[0] : x[1]),
    TWO("min.u32", R, R, R, std::min(x[0], x[1])),
    TWO("max.u64", D, D, D, std::max(x[0], x[1])),
    TWO("min.s64", D, D, D, S64(x[0]) < S64(x[1]) ? x[0] : x[1]),
    TWO("max.s16", H, H, H, S16(x[0]) > S16(x[1]) ? x[0] : x[1]),
    ONE("popc.b32", R, R, static_cast<uint64_t>(std::popcount(U32(x[0])))),
    ONE("popc.b64", R, D, static_cast<uint64_t>(std::popcount(x[0]))),
    ONE("clz.b32", R, R, x[0] == 0 ? 32 : 31 - HighestBit(x[0])),
    ONE("clz.b64", R, D, x[0] == 0 ? 64 : 63 - HighestBit(x[0])),
    ONE("bfind.u32", R, R, HighestBit(x[0])),
    ONE("bfind.s32", R, R, HighestBit(S32(x[0]) < 0 ? U32(~x[0]) : x[0])),
    ONE("bfind.shiftamt.u32", R, R,
        x[0] == 0 ? 0xffffffff : 31 - HighestBit(x[0])),
    ONE("brev.b32", R, R, Reverse(x[0], 32)),
    ONE("brev.b64", D, D, Reverse(x[0], 64)),
    THREE("bfe.u32", R, R, R, R, ExtractField(x[0], x[1], x[2], 32, false)),
    THREE("bfe.s32", R, R, R, R, ExtractField(x[0], x[1], x[2], 32, true)),
    THREE("bfe.u64", D, D, R, R, ExtractField(x[0], x[1], x[2], 64, false)),
    THREE("bfe.s64", D, D, R, R, ExtractField(x[0], x[1], x[2], 64, true)),
    {"bfi.b32", R, {R, R, R, R}, 4, "",
     HOST{return InsertField(x[0], x[1], x[2], x[3], 32);
}  // namespace
}  // namespace carillon::sim::differential
, {"bfi.b64", D, {D, D, R, R}, 4, "",
   HOST{return InsertField(x[0], x[1], x[2], x[3], 64);
}
}
, THREE("prmt.b32", R, R, R, R, Permute(x[0], x[1], x[2])),
    TWO("and.b32", R, R, R, x[0] & x[1]), TWO("or.b64", D, D, D, x[0] | x[1]),
    TWO("xor.b32", R, R, R, x[0] ^ x[1]), TWO("xor.b64", D, D, D, x[0] ^ x[1]),
    TWO("and.b16", H, H, H, x[0] & x[1]), ONE("not.b32", R, R, U32(~x[0])),
    ONE("cnot.b32", R, R, x[0] == 0),
    {"lop3.b32", R, {R, R, R}, 3, ", 0x96", &Lookup<0x96>},
    {"lop3.b32", R, {R, R, R}, 3, ", 0xe2", &Lookup<0xe2>},
    TWO("shl.b32", R, R, R, x[1] > 31 ? 0 : U32(x[0] << x[1])),
    TWO("shr.u32", R, R, R, x[1] > 31 ? 0 : x[0] >> x[1]),
    TWO("shr.s32", R, R, R,
        U32(static_cast<uint64_t>(S32(x[0]) >> std::min<uint64_t>(x[1], 31)))),
    TWO("shl.b64", D, D, R, x[1] > 63 ? 0 : x[0] << x[1]),
    TWO("shr.u64", D, D, R, x[1] > 63 ? 0 : x[0] >> x[1]),
    TWO("shr.s64", D, D, R,
        static_cast<uint64_t>(S64(x[0]) >> std::min<uint64_t>(x[1], 63))),
    TWO("shr.s16", H, H, R,
        U16(static_cast<uint64_t>(S16(x[0]) >> std::min<uint64_t>(x[1], 15)))),
    THREE("shf.l.wrap.b32", R, R, R, R,
          U32((x[1] << 32 | x[0]) << (x[2] & 31) >> 32)),
    THREE("shf.r.wrap.b32", R, R, R, R,
          U32((x[1] << 32 | x[0]) >> (x[2] & 31))),
    THREE("shf.r.clamp.b32", R, R, R, R,
          U32((x[1] << 32 | x[0]) >> std::min<uint64_t>(x[2], 32))),
    THREE("dp4a.u32.u32", R, R, R, R, (DotProduct<uint8_t, uint8_t>(x))),
    THREE("dp4a.s32.u32", R, R, R, R, (DotProduct<int8_t, uint8_t>(x))),
    TWO("add.u16x2", R, R, R,
        ForParts(16, [&](int at) { return (x[0] >> at) + (x[1] >> at); })),
    TWO("min.s16x2", R, R, R, ForParts(16, [&](int at) {
          return std::min(S16(x[0] >> at), S16(x[1] >> at));
        })),
    THREE("vabsdiff4.u32.u32.u32.add", R, R, R, R,
          U32(std::abs(int(x[0] & 255) - int(x[1] & 255)) +
              std::abs(int(x[0] >> 8 & 255) - int(x[1] >> 8 & 255)) +
              std::abs(int(x[0] >> 16 & 255) - int(x[1] >> 16 & 255)) +
              std::abs(int(x[0] >> 24) - int(x[1] >> 24)) + x[2])),
    TWO("add.f16x2", R, R, R, ForHalves([&](int at) {
          return F16(x[0] >> at) + F16(x[1] >> at);
        })),
    TWO("mul.f16", H, H, H, Half(F16(x[0]) * F16(x[1]))),
    // The sum of a product of 22 digits and of 11 is exact, or the product is far
    // below the last digit, or the result is infinite.
    THREE("fma.rn.f16x2", R, R, R, R, ForHalves([&](int at) {
            return F16(x[0] >> at) * F16(x[1] >> at) + F16(x[2] >> at);
          })),
    TWO("setp.lt.f16", P, H, H, F16(x[0]) < F16(x[1])),
    TWO("setp.geu.f16", P, H, H, !(F16(x[0]) < F16(x[1]))),
    ONE("cvt.f32.f16", F, H, Bits(static_cast<float>(F16(x[0])))),
    ONE("cvt.rn.f16.f32", H, F, Half(F32(x[0]))),
    ONE("cvt.rn.f16.s32", H, R, Half(S32(x[0]))),
    THREE("selp.b32", R, R, R, P, x[2] ? x[0] : x[1]),
    THREE("selp.f64", G, G, G, P, x[2] ? x[0] : x[1]),
    THREE("slct.s32.s32", R, R, R, R, S32(x[2]) >= 0 ? x[0] : x[1]),
    THREE("slct.u64.f32", D, D, D, F, F32(x[2]) >= 0 ? x[0] : x[1]),
    COMPARE("lt", <), COMPARE("le", <=), COMPARE("gt", >), COMPARE("ge", >=),
    TWO("setp.eq.s32", P, R, R, x[0] == x[1]),
    TWO("setp.ne.b64", P, D, D, x[0] != x[1]),
    TWO("setp.num.f32", P, F, F, !std::isunordered(F32(x[0]), F32(x[1]))),
    TWO("setp.nan.f64", P, G, G, std::isunordered(F64(x[0]), F64(x[1]))),
    TWO("setp.lo.u32", P, R, R, x[0] < x[1]),
    THREE("setp.lt.and.s32", P, R, R, P, S32(x[0]) < S32(x[1]) && x[2]),
    THREE("setp.ge.xor.u32", P, R, R, P, (x[0] >= x[1]) != (x[2] != 0)),
    TWO("and.pred", P, P, P, x[0] && x[1]),
    TWO("xor.pred", P, P, P, x[0] != x[1]), ONE("not.pred", P, P, !x[0]),
    TWO("add.rn.f32", F, F, F, Bits(F32(x[0]) + F32(x[1]))),
    TWO("sub.rn.f32", F, F, F, Bits(F32(x[0]) - F32(x[1]))),
    TWO("mul.rn.f32", F, F, F, Bits(F32(x[0]) * F32(x[1]))),
    TWO("add.ftz.f32", F, F, F,
        Bits(Flush(Flush(F32(x[0])) + Flush(F32(x[1]))))),
    TWO("mul.ftz.f32", F, F, F,
        Bits(Flush(Flush(F32(x[0])) * Flush(F32(x[1]))))),
    TWO("add.sat.f32", F, F, F,
        Bits(std::isnan(F32(x[0]) + F32(x[1]))
                 ? 0.0f
                 : Most(0.0f, Least(1.0f, F32(x[0]) + F32(x[1]))))),
    THREE("fma.rn.f32", F, F, F, F,
          Bits(std::fma(F32(x[0]), F32(x[1]), F32(x[2])))),
    TWO("div.rn.f32", F, F, F, Bits(F32(x[0]) / F32(x[1]))),
    ONE("rcp.rn.f32", F, F, Bits(1 / F32(x[0]))),
    ONE("sqrt.rn.f32", F, F, Bits(std::sqrt(F32(x[0])))),
    TWO("min.f32", F, F, F, Bits(Least(F32(x[0]), F32(x[1])))),
    TWO("max.f32", F, F, F, Bits(Most(F32(x[0]), F32(x[1])))),
    TWO("add.rn.f64", G, G, G, Bits(F64(x[0]) + F64(x[1]))),
    TWO("mul.rn.f64", G, G, G, Bits(F64(x[0]) * F64(x[1]))),
    THREE("fma.rn.f64", G, G, G, G,
          Bits(std::fma(F64(x[0]), F64(x[1]), F64(x[2])))),
    TWO("div.rn.f64", G, G, G, Bits(F64(x[0]) / F64(x[1]))),
    ONE("sqrt.rn.f64", G, G, Bits(std::sqrt(F64(x[0])))),
    TWO("max.f64", G, G, G, Bits(Most(F64(x[0]), F64(x[1])))),
    ONE("cvt.u64.u32", D, R, x[0]),
    ONE("cvt.s64.s32", D, R, static_cast<uint64_t>(int64_t{S32(x[0])})),
    ONE("cvt.u32.u64", R, D, U32(x[0])), ONE("cvt.u16.u32", H, R, U16(x[0])),
    ONE("cvt.u32.u16", R, H, x[0]),
    ONE("cvt.s32.s16", R, H, U32(static_cast<uint64_t>(int64_t{S16(x[0])}))),
    ONE("cvt.s32.s8", R, R,
        U32(static_cast<uint64_t>(int64_t{static_cast<int8_t>(x[0])}))),
    ONE("cvt.sat.u16.s32", H, R,
        static_cast<uint64_t>(std::clamp(S32(x[0]), 0, 65535))),
    ONE("cvt.rn.f32.s32", F, R, Bits(static_cast<float>(S32(x[0])))),
    ONE("cvt.rn.f32.u64", F, D, Bits(static_cast<float>(x[0]))),
    ONE("cvt.rn.f64.s64", G, D, Bits(static_cast<double>(S64(x[0])))),
    ONE("cvt.rn.f64.u32", G, R, Bits(static_cast<double>(U32(x[0])))),
    ONE("cvt.f64.f32", G, F, Bits(static_cast<double>(F32(x[0])))),
    ONE("cvt.rn.f32.f64", F, G, Bits(static_cast<float>(F64(x[0])))),
    ONE("cvt.rzi.s32.f32", R, F, Truncate<int32_t>(F32(x[0]))),
    ONE("cvt.rzi.u32.f32", R, F, Truncate<uint32_t>(F32(x[0]))),
    ONE("cvt.rzi.s64.f64", D, G, Truncate<int64_t>(F64(x[0]))),
    ONE("cvt.rzi.u32.f64", R, G, Truncate<uint32_t>(F64(x[0]))),
    ONE("cvt.rmi.f32.f32", F, F, Bits(std::floor(F32(x[0])))),
    ONE("cvt.rni.f64.f64", G, G, Bits(std::nearbyint(F64(x[0])))),
}
;

}  // namespace

std::span<const Operation> Operations() { return kOperations; }

bool Same(Type type, uint64_t a, uint64_t b) {
  if (type == Type::kF64 && std::isnan(F64(a)) && std::isnan(F64(b))) {
    return true;
  }
  return a == b;
}

}  // namespace carillon::sim::differential
