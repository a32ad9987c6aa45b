// Floats (PTX ISA 9.7.3). Arithmetic is IEEE 754's, rounded to nearest. For
// what PTX calls approximate we take the host library's function, which is as
// good or better (docs/simulator.md has the bounds).
#include <cmath>

#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

constexpr auto kAdd = []<class T>(T a, T b) { return a + b; };
constexpr auto kSub = []<class T>(T a, T b) { return a - b; };
constexpr auto kMul = []<class T>(T a, T b) { return a * b; };
constexpr auto kDiv = []<class T>(T a, T b) { return a / b; };
constexpr auto kFma = []<class T>(T a, T b, T c) { return std::fma(a, b, c); };
constexpr auto kSqrt = []<class T>(T a) { return std::sqrt(a); };
constexpr auto kRcp = []<class T>(T a) { return T{1} / a; };
// rcp.approx.ftz.f64 reads and writes only the upper 32 bits, and flushes
// subnormals.
constexpr auto kRcpHigh = [](double a) {
  auto bits = __builtin_bit_cast(uint64_t, a) & ~uint64_t{0xffffffff};
  if ((bits & 0x7ff0'0000'0000'0000) == 0) bits &= uint64_t{1} << 63;
  auto result =
      __builtin_bit_cast(uint64_t, 1.0 / __builtin_bit_cast(double, bits));
  if ((result & 0x7ff0'0000'0000'0000) == 0) result &= uint64_t{1} << 63;
  return __builtin_bit_cast(double, result & ~uint64_t{0xffffffff});
};
constexpr auto kRsqrt = []<class T>(T a) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(a)));
};
constexpr auto kSin = [](float a) { return std::sin(a); };
constexpr auto kCos = [](float a) { return std::cos(a); };
constexpr auto kLog2 = [](float a) { return std::log2(a); };
constexpr auto kExp2 = [](float a) { return std::exp2(a); };
constexpr auto kTanh = [](float a) { return std::tanh(a); };

// Given a NaN and a number, takes the number; -0 is less than +0.
constexpr auto kMin = []<class T>(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
};
constexpr auto kMax = []<class T>(T a, T b) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
};
template <auto kF>
struct KeepNan {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a) return a;
    if (b != b) return b;
    return kF(a, b);
  }
};

// Of magnitudes; the sign is that of a product.
template <auto kF>
struct XorSign {
  template <class T>
  T operator()(T a, T b) const {
    const T result = kF(std::fabs(a), std::fabs(b));
    const bool negative = std::signbit(a) != std::signbit(b);
    return result == result && negative ? -result : result;
  }
};

// These neither round nor change a NaN's bits: they only touch the sign.
constexpr auto kAbs = []<class T>(T a) { return std::fabs(a); };
constexpr auto kNeg = []<class T>(T a) { return -a; };
// Of a, to b.
constexpr auto kCopySign = []<class T>(T a, T b) {
  return std::copysign(b, a);
};

// Wraps kF in what its modifiers ask for.
template <auto kF, bool kFlush, bool kSaturate>
struct With {
  template <class T>
  static T In(T x) {
    return kFlush ? Flushed(x) : x;
  }
  template <class T, class... S>
  T operator()(T a, S... rest) const requires requires {
    kF(a, rest...);
  }
  {
    T x = CanonicalOf(kF(In(a), In(rest)...), a, rest...);
    if (kSaturate) x = Saturated(x);
    return kFlush ? Flushed(x) : x;
  }
};

template <auto kF>
Handler OfSingles(const Semantics& s) {
  if (s.type != Type::kF32) return nullptr;
  if (s.flush && s.saturate) return &Apply<float, With<kF, true, true>{}>;
  if (s.flush) return &Apply<float, With<kF, true, false>{}>;
  if (s.saturate) return &Apply<float, With<kF, false, true>{}>;
  return &Apply<float, With<kF, false, false>{}>;
}
template <auto kF>
Handler Of(const Semantics& s) {
  if (s.type != Type::kF64) return OfSingles<kF>(s);
  if (s.flush || s.saturate) return nullptr;
  return &Apply<double, With<kF, false, false>{}>;
}
template <auto kF>
Handler OfMinMax(const Semantics& s) {
  if (s.xor_sign) {
    return s.keep_nan ? OfSingles<XorSign<KeepNan<kF>{}>{}>(s)
                      : OfSingles<XorSign<kF>{}>(s);
  }
  return s.keep_nan ? Of<KeepNan<kF>{}>(s) : Of<kF>(s);
}
template <auto kF>
Handler OfSigns(const Semantics& s) {
  if (s.saturate) return nullptr;
  if (s.flush) {
    return s.type == Type::kF32 ? &Apply<float, With<kF, true, false>{}>
                                : nullptr;
  }
  return ForFloats(s.type, []<class T>() -> Handler { return &Apply<T, kF>; });
}
Handler OfRcp(const Semantics& s) {
  if (s.type == Type::kF64 && s.flush) return &Apply<double, kRcpHigh>;
  return Of<kRcp>(s);
}

template <class T>
void TestProperty(const Op& op, Warp& warp, LaneMask mask) {
  const T* const a = warp.From<T>(op.operands[1]);
  const auto property = static_cast<FloatProperty>(op.variant);
  warp.SetPredicate(op.operands[0], mask, MaskOf([=](uint32_t i) {
                      const T x = a[i];
                      switch (property) {
                        case FloatProperty::kFinite:
                          return std::isfinite(x);
                        case FloatProperty::kInfinite:
                          return std::isinf(x);
                        case FloatProperty::kNumber:
                          return !std::isnan(x);
                        case FloatProperty::kNotANumber:
                          return std::isnan(x);
                        case FloatProperty::kNormal:
                          return std::isnormal(x) || x == 0;  // as PTX has it
                        case FloatProperty::kSubnormal:
                          return std::fpclassify(x) == FP_SUBNORMAL;
                      }
                      return false;
                    }));
}

Handler OfTestProperty(const Semantics& s) {
  return ForFloats(s.type,
                   []<class T>() -> Handler { return &TestProperty<T>; });
}

constexpr Finder kFinders[] = {
    {Operation::kAdd, &Of<kAdd>},
    {Operation::kSub, &Of<kSub>},
    {Operation::kMul, &Of<kMul>},
    {Operation::kFma, &Of<kFma>},
    {Operation::kDiv, &Of<kDiv>},
    {Operation::kDivApprox, &OfSingles<kDiv>},
    {Operation::kRcp, &OfRcp},
    {Operation::kSqrt, &Of<kSqrt>},
    {Operation::kRsqrt, &Of<kRsqrt>},
    {Operation::kSin, &OfSingles<kSin>},
    {Operation::kCos, &OfSingles<kCos>},
    {Operation::kLog2, &OfSingles<kLog2>},
    {Operation::kExp2, &OfSingles<kExp2>},
    {Operation::kTanh, &OfSingles<kTanh>},
    {Operation::kMin, &OfMinMax<kMin>},
    {Operation::kMax, &OfMinMax<kMax>},
    {Operation::kAbs, &OfSigns<kAbs>},
    {Operation::kNeg, &OfSigns<kNeg>},
    {Operation::kCopySign, &OfSigns<kCopySign>},
    {Operation::kTestProperty, &OfTestProperty},
};

}  // namespace

Handler FindFloat(const Semantics& s) {
  if (s.rounding != Rounding::kNearest) return nullptr;  // FindRounded()
  if (s.relu) return nullptr;
  return FindIn(kFinders, s);
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
