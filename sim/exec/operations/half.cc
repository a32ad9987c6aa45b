// f16 and bf16, one or two in a register (PTX ISA 9.7.4): rounded to nearest,
// even where there is a tie, and one NaN, 0x7fff.
#include "sim/exec/operations/half.h"

#include <cmath>

namespace carillon::sim::CARILLON_SIM_ISA {
namespace {

// These give a double that is rounded once more.
constexpr auto kAdd = [](double a, double b) { return OddSum(a, b); };
constexpr auto kSub = [](double a, double b) { return OddSum(a, -b); };
// A product of two halves has 22 digits.
constexpr auto kMul = [](double a, double b) { return a * b; };
constexpr auto kFma = [](double a, double b, double c) {
  return OddSum(a * b, c);
};
constexpr auto kExp2 = [](double a) { return std::exp2(a); };
constexpr auto kTanh = [](double a) { return std::tanh(a); };

template <class H, size_t kCount, auto kF>
void Arithmetic(const Op& op, Warp& warp, LaneMask mask) {
  using T = Halves<H, kCount>;
  const uint8_t modifiers = op.variant;
  const auto in = [=](H x) {
    return ToDouble((modifiers & kFlushBit) != 0 ? Flushed(x) : x);
  };
  const auto out = [=](double x) {
    if ((modifiers & kSaturateBit) != 0) x = Saturated(x);
    H half = Rounded<H>(x, Rounding::kNearest);
    if ((modifiers & kReluBit) != 0) half = Rectified(half);
    return (modifiers & kFlushBit) != 0 ? Flushed(half) : half;
  };
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  const T* const c = warp.From<T>(op.operands[3]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    T result;
    for (size_t n = 0; n < kCount; ++n) {
      if constexpr (requires(double x) { kF(x); }) {
        result.of[n] = out(kF(in(a[i].of[n])));
      } else if constexpr (requires(double x) { kF(x, x); }) {
        result.of[n] = out(kF(in(a[i].of[n]), in(b[i].of[n])));
      } else {
        result.of[n] = out(kF(in(a[i].of[n]), in(b[i].of[n]), in(c[i].of[n])));
      }
    }
    return result;
  });
}

// Given a NaN and a number, takes the number, but for .NaN; -0 is less than +0.
template <class H, bool kLeast>
[[gnu::always_inline]] inline H Extreme(H a, H b, uint8_t modifiers) {
  const uint16_t sign = (a.bits ^ b.bits) & 0x8000;
  const bool absolute = (modifiers & kXorSignBit) != 0;
  if (absolute) a.bits &= 0x7fff, b.bits &= 0x7fff;
  const bool a_nan = (a.bits & 0x7fff) > H::kInfinity;
  const bool b_nan = (b.bits & 0x7fff) > H::kInfinity;
  const bool keep = (modifiers & kKeepNanBit) != 0;
  if (keep ? a_nan || b_nan : a_nan && b_nan) return {H::kNan};
  // As whole numbers they have the order of the numbers.
  const auto rank = [](H x) {
    return (x.bits & 0x8000) != 0 ? ~static_cast<int32_t>(x.bits & 0x7fffu)
                                  : static_cast<int32_t>(x.bits);
  };
  const bool takes_a = b_nan || (!a_nan && (rank(a) < rank(b)) == kLeast);
  H result = takes_a ? a : b;
  if (absolute) result.bits |= sign;
  return result;
}
template <class H, size_t kCount, bool kLeast>
void MinMax(const Op& op, Warp& warp, LaneMask mask) {
  using T = Halves<H, kCount>;
  const uint8_t modifiers = op.variant;
  const auto in = [=](H x) {
    return (modifiers & kFlushBit) != 0 ? Flushed(x) : x;
  };
  const T* const a = warp.From<T>(op.operands[1]);
  const T* const b = warp.From<T>(op.operands[2]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    T result;
    for (size_t n = 0; n < kCount; ++n) {
      result.of[n] =
          Extreme<H, kLeast>(in(a[i].of[n]), in(b[i].of[n]), modifiers);
    }
    return result;
  });
}

// abs and neg only touch the sign, also of a NaN.
template <class H, size_t kCount, bool kAbs>
void Sign(const Op& op, Warp& warp, LaneMask mask) {
  using T = Halves<H, kCount>;
  const bool flush = (op.variant & kFlushBit) != 0;
  const T* const a = warp.From<T>(op.operands[1]);
  ForLanes(mask, warp.To<T>(op.operands[0]), [=](uint32_t i) {
    T result = a[i];
    for (H& x : result.of) {
      if (flush) x = Flushed(x);
      x.bits = kAbs ? x.bits & 0x7fff : x.bits ^ 0x8000;
    }
    return result;
  });
}

// Whether the type has these modifiers: bf16 has neither .ftz nor .sat.
bool Allows(const Semantics& s, uint8_t modifiers) {
  const uint8_t asked = ModifierVariant(s);
  const bool bf16 = s.type == Type::kBf16 || s.type == Type::kBf16x2;
  if (bf16) modifiers &= static_cast<uint8_t>(~(kFlushBit | kSaturateBit));
  return (asked & ~modifiers) == 0 && !(s.saturate && s.relu);
}

template <auto kF, uint8_t kModifiers>
Handler Of(const Semantics& s) {
  if (!Allows(s, kModifiers)) return nullptr;
  return ForHalves(s.type, []<class H, size_t kCount>() -> Handler {
    return &Arithmetic<H, kCount, kF>;
  });
}
// ex2 flushes for bf16, and only there.
Handler OfExp2(const Semantics& s) {
  const bool bf16 = s.type == Type::kBf16 || s.type == Type::kBf16x2;
  if (ModifierVariant(s) != (bf16 ? kFlushBit : 0)) return nullptr;
  return ForHalves(s.type, []<class H, size_t kCount>() -> Handler {
    return &Arithmetic<H, kCount, kExp2>;
  });
}
template <bool kLeast>
Handler OfMinMax(const Semantics& s) {
  if (!Allows(s, kFlushBit | kKeepNanBit | kXorSignBit)) return nullptr;
  return ForHalves(s.type, []<class H, size_t kCount>() -> Handler {
    return &MinMax<H, kCount, kLeast>;
  });
}
template <bool kAbs>
Handler OfSigns(const Semantics& s) {
  if (!Allows(s, kFlushBit)) return nullptr;
  return ForHalves(s.type, []<class H, size_t kCount>() -> Handler {
    return &Sign<H, kCount, kAbs>;
  });
}

constexpr uint8_t kSum = kFlushBit | kSaturateBit;
constexpr Finder kFinders[] = {
    {Operation::kAdd, &Of<kAdd, kSum>},
    {Operation::kSub, &Of<kSub, kSum>},
    {Operation::kMul, &Of<kMul, kSum>},
    {Operation::kFma, &Of<kFma, kSum | kReluBit>},
    {Operation::kExp2, &OfExp2},
    {Operation::kTanh, &Of<kTanh, 0>},
    {Operation::kMin, &OfMinMax<true>},
    {Operation::kMax, &OfMinMax<false>},
    {Operation::kAbs, &OfSigns<true>},
    {Operation::kNeg, &OfSigns<false>},
};

}  // namespace

Handler FindHalf(const Semantics& s) { return FindIn(kFinders, s); }

}  // namespace carillon::sim::CARILLON_SIM_ISA
