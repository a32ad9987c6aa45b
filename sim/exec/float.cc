// Floats (PTX ISA 9.7.3). Arithmetic is IEEE 754's, rounded to nearest. For
// what PTX calls approximate we take the host library's function, which is as
// good or better (docs/simulator.md has the bounds).
#include <cmath>

#include "sim/exec/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

struct Add {
  template <class T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T Of(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T Of(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static T Of(T a, T b) {
    return a / b;
  }
};
struct Fma {
  template <class T>
  static T Of(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Sqrt {
  template <class T>
  static T Of(T a) {
    return std::sqrt(a);
  }
};
struct Rcp {
  template <class T>
  static T Of(T a) {
    return T{1} / a;
  }
};
// rcp.approx.ftz.f64 reads and writes only the upper 32 bits, and flushes
// subnormals.
struct RcpHigh {
  static double Of(double a) {
    auto bits = __builtin_bit_cast(uint64_t, a) & ~uint64_t{0xffffffff};
    if ((bits & 0x7ff0'0000'0000'0000) == 0) bits &= uint64_t{1} << 63;
    auto result =
        __builtin_bit_cast(uint64_t, 1.0 / __builtin_bit_cast(double, bits));
    if ((result & 0x7ff0'0000'0000'0000) == 0) result &= uint64_t{1} << 63;
    return __builtin_bit_cast(double, result & ~uint64_t{0xffffffff});
  }
};
struct Rsqrt {
  static float Of(float a) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a)));
  }
  static double Of(double a) { return 1.0 / std::sqrt(a); }
};
struct Sin {
  static float Of(float a) { return std::sin(a); }
};
struct Cos {
  static float Of(float a) { return std::cos(a); }
};
struct Log2 {
  static float Of(float a) { return std::log2(a); }
};
struct Exp2 {
  static float Of(float a) { return std::exp2(a); }
};
struct Tanh {
  static float Of(float a) { return std::tanh(a); }
};

// Given a NaN and a number, takes the number; -0 is less than +0.
struct Min {
  template <class T>
  static T Of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T Of(T a, T b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }
};
template <class F>
struct KeepNan {
  template <class T>
  static T Of(T a, T b) {
    if (a != a) return a;
    if (b != b) return b;
    return F::Of(a, b);
  }
};

// These neither round nor change a NaN's bits: they only touch the sign.
struct Abs {
  template <class T>
  static T Of(T a) {
    return std::fabs(a);
  }
};
struct Neg {
  template <class T>
  static T Of(T a) {
    return -a;
  }
};
struct CopySign {  // of a, to b
  template <class T>
  static T Of(T a, T b) {
    return std::copysign(b, a);
  }
};

// Wraps F in what its modifiers ask for.
template <class F, bool kFlush, bool kSaturate>
struct With {
  template <class T>
  static T In(T x) {
    return kFlush ? Flushed(x) : x;
  }
  template <class T, class... S>
  static T Out(T x, S... sources) {
    x = CanonicalOf(x, sources...);
    if (kSaturate) x = Saturated(x);
    return kFlush ? Flushed(x) : x;
  }
  template <class T>
  static T Of(T a) {
    return Out(F::Of(In(a)), a);
  }
  template <class T>
  static T Of(T a, T b) {
    return Out(F::Of(In(a), In(b)), a, b);
  }
  template <class T>
  static T Of(T a, T b, T c) {
    return Out(F::Of(In(a), In(b), In(c)), a, b, c);
  }
};

enum class Arity { kOne, kTwo, kThree };
template <class T, class F, Arity kArity>
Handler Code() {
  if constexpr (kArity == Arity::kOne) return &Unary<T, F>;
  if constexpr (kArity == Arity::kTwo) return &Binary<T, F>;
  if constexpr (kArity == Arity::kThree) return &Ternary<T, F>;
}
template <class F, Arity kArity>
Handler OfSingles(const Semantics& s) {
  if (s.type != Type::kF32) return nullptr;
  if (s.flush && s.saturate) return Code<float, With<F, true, true>, kArity>();
  if (s.flush) return Code<float, With<F, true, false>, kArity>();
  if (s.saturate) return Code<float, With<F, false, true>, kArity>();
  return Code<float, With<F, false, false>, kArity>();
}
template <class F, Arity kArity>
Handler Of(const Semantics& s) {
  if (s.type != Type::kF64) return OfSingles<F, kArity>(s);
  if (s.flush || s.saturate) return nullptr;
  return Code<double, With<F, false, false>, kArity>();
}
template <class F, Arity kArity>
Handler OfSigns(const Semantics& s) {
  if (s.saturate) return nullptr;
  if (s.flush) {
    return s.type == Type::kF32 ? Code<float, With<F, true, false>, kArity>()
                                : nullptr;
  }
  return ForFloats(s.type,
                   []<class T>() -> Handler { return Code<T, F, kArity>(); });
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

}  // namespace

Handler FindFloat(const Semantics& s) {
  if (s.rounding != Rounding::kNearest) return nullptr;  // FindRounded()
  switch (s.operation) {
    case Operation::kAdd:
      return Of<Add, Arity::kTwo>(s);
    case Operation::kSub:
      return Of<Sub, Arity::kTwo>(s);
    case Operation::kMul:
      return Of<Mul, Arity::kTwo>(s);
    case Operation::kFma:
      return Of<Fma, Arity::kThree>(s);
    case Operation::kDiv:
      return Of<Div, Arity::kTwo>(s);
    case Operation::kDivApprox:
      return OfSingles<Div, Arity::kTwo>(s);
    case Operation::kRcp:
      if (s.type == Type::kF64 && s.flush) return &Unary<double, RcpHigh>;
      return Of<Rcp, Arity::kOne>(s);
    case Operation::kSqrt:
      return Of<Sqrt, Arity::kOne>(s);
    case Operation::kRsqrt:
      return Of<Rsqrt, Arity::kOne>(s);
    case Operation::kSin:
      return OfSingles<Sin, Arity::kOne>(s);
    case Operation::kCos:
      return OfSingles<Cos, Arity::kOne>(s);
    case Operation::kLog2:
      return OfSingles<Log2, Arity::kOne>(s);
    case Operation::kExp2:
      return OfSingles<Exp2, Arity::kOne>(s);
    case Operation::kTanh:
      return OfSingles<Tanh, Arity::kOne>(s);
    case Operation::kMin:
      return s.keep_nan ? Of<KeepNan<Min>, Arity::kTwo>(s)
                        : Of<Min, Arity::kTwo>(s);
    case Operation::kMax:
      return s.keep_nan ? Of<KeepNan<Max>, Arity::kTwo>(s)
                        : Of<Max, Arity::kTwo>(s);
    case Operation::kAbs:
      return OfSigns<Abs, Arity::kOne>(s);
    case Operation::kNeg:
      return OfSigns<Neg, Arity::kOne>(s);
    case Operation::kCopySign:
      return OfSigns<CopySign, Arity::kTwo>(s);
    case Operation::kTestProperty:
      if (s.type == Type::kF32) return &TestProperty<float>;
      if (s.type == Type::kF64) return &TestProperty<double>;
      return nullptr;
    default:
      return nullptr;
  }
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
